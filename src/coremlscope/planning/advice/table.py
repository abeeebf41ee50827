"""The table of findings on models."""

from __future__ import annotations

from coremlscope.base.errors import MissingWeightsError
from coremlscope.model.ir import Model
from coremlscope.ops.view import CONTRADICTIONS, CannotInfer, CannotLower
from coremlscope.planning.advice import fusion, interface, layout, moves, precision, weights
from coremlscope.planning.advice.rule import AdviceRule, FunctionView, Remark
from coremlscope.planning.advice.wrong_values import CORE_ML_VALUE_RULES, VALUE_RULES
from coremlscope.runtime.execution.binding import share
from coremlscope.runtime.execution.wiring import bind_functions

#: Raised by rules on the arguments of a damaged file.
_UNKNOWN = (CannotInfer, CannotLower, MissingWeightsError, *CONTRADICTIONS)

RULES: tuple[AdviceRule, ...] = (
    *fusion.RULES,
    *moves.RULES,
    *precision.RULES,
    *interface.RULES,
    *layout.RULES,
    *weights.RULES,
)


def find_remarks(function: FunctionView) -> list[Remark]:
    """Applies every rule to a function: those on costs and values or, for Core AI, which publishes no costs,
    on values alone.

    A rule finds nothing where the arguments of a damaged file contradict each other.
    """
    # The bound function is kept, and so is its address.
    key = (find_remarks, id(function.bound), function.key)
    return share(function.model, key, lambda: (_find_remarks(function), function.bound))[0]


def _find_remarks(function: FunctionView) -> list[Remark]:
    found = []
    for rule in VALUE_RULES if function.model.content.is_core_ai else (*RULES, *CORE_ML_VALUE_RULES):
        try:
            one = rule.find(function)
        except _UNKNOWN:
            continue
        if one is not None:
            is_suited = rule.is_of_networks == function.is_network
            found.append(Remark(rule, one, function.is_transformable and is_suited))
    return found


def bind_default_function(model: Model) -> FunctionView:
    """Returns the default function of a program as rules see it.

    Raises:
        ModelError: The function cannot be read.
    """
    (function,) = bind_functions(model)
    return FunctionView(function)
