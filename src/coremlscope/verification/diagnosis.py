"""A difference between a model and a reference, experiments on it, and what was found."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from coremlscope.errors import CoremlscopeError
from coremlscope.ir import Array, Function, Op
from coremlscope.results.verification import Cause
from coremlscope.verification.distance import (
    Relation,
    explains_all,
    unmasked_error,
)
from coremlscope.verification.edits import set_constant
from coremlscope.verification.element_functions import ElementFunction
from coremlscope.verification.intermediates import Intermediate, Parameter, Run
from coremlscope.verification.locate import ConversionSite
from coremlscope.verification.other_forms import OtherForm, with_form
from coremlscope.verification.own_run import FunctionCall, run_from
from coremlscope.verification.pairing import Pair, general_type

__all__ = [
    "CAUSES",
    "FAR",
    "MOST_WEIGHTS",
    "Case",
    "Diagnosis",
    "Repair",
    "describe_axes",
    "describe_relation",
    "large_parameters",
    "shape_without_ones",
]

#: How far above an operation an epsilon, or a loss, may lie.
FAR = 4

#: Weights are compared element by element up to this size.
MOST_WEIGHTS = 1 << 24


@dataclass(frozen=True, slots=True)
class Repair:
    """A change of a function.

    Attributes:
        text: The change, as a sentence.
        apply: Returns the changed function.
    """

    text: str
    apply: Callable[[Function], Function]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The cause of a difference.

    Attributes:
        cause: The cause.
        value: The name of a value of the operation at fault.
        text: The cause as a sentence.
        relation: How the wrong value results from the right one, where that is known.
        target: The name of the value that the relation is about, where it is an argument.
        parameter: The name of the constant at fault.
        right: What the constant should be, in the shape and order of the model's.
        changes: What constants should be, by value of the operation and parameter, where the reference tells.
        also: Further arguments that a relation is about, and the relations.
        form: The operation in the form in which its result is right.
        missing: The function that is missing.
        repairs: Changes of the function that may fix it, the most likely first.
        is_guess: Whether no experiment shows it.
        is_rounding: Whether rounding a constant to fp16 is the cause, also where float32 shows it.
        is_rewriting: Whether only the operations of the reference, in place of all on the way, explain it.
    """

    cause: Cause
    value: str
    text: str
    relation: Relation | None = None
    target: str = ""
    parameter: str = ""
    right: Array | None = None
    changes: Mapping[tuple[str, str], Array] = field(default_factory=dict)
    also: tuple[tuple[str, Relation], ...] = ()
    form: OtherForm | None = None
    missing: ElementFunction | None = None
    repairs: tuple[Repair, ...] = ()
    is_guess: bool = False
    is_rounding: bool = False
    is_rewriting: bool = False

    @property
    def is_explained(self) -> bool:
        """Whether an experiment shows the cause."""
        return self.cause != "unknown" and not self.is_guess


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The facts about a difference, and experiments on it.

    Attributes:
        call: The function and its inputs.
        site: The place.
        ours: The run of the model.
        theirs: The run of the reference.
        pairs: The pairs of both.
        ops: The operations of the program by id.
        until: When experiments end, by the clock of `time.monotonic`: later, nothing explains a difference.
    """

    call: FunctionCall
    site: ConversionSite
    ours: Run
    theirs: Run
    pairs: Sequence[Pair]
    ops: dict[str, Op]
    until: float = math.inf

    @property
    def value(self) -> Intermediate:
        """The first wrong value."""
        return self.ours.values[self.site.value]

    @property
    def region(self) -> list[Intermediate]:
        """The wrong value and those without a counterpart on the way to it, the nearest first."""
        return [self.value, *(self.ours.values[name] for name in reversed(self.site.between))]

    def reference_region(self) -> list[Intermediate]:
        """The values of the reference between the same bounds."""
        bounds = {pair.theirs for pair in self.site.bounds}
        names = self.theirs.above(self.site.pair.theirs, lambda name: name in bounds)
        return [self.theirs.values[n] for n in names if n not in bounds and n in self.theirs.values]

    @property
    def is_rewritten(self) -> bool:
        """Whether the value was paired by the flow of data only, between operations of other types."""
        types = [
            sorted(general_type(v.type) for v in values) for values in (self.region, self.reference_region())
        ]
        return self.site.pair.how in ("flow", "name") and types[0] != types[1]

    def explains(
        self,
        *,
        changes: Mapping[tuple[str, str], Array] | None = None,
        given: Mapping[str, Array] | None = None,
        form: Op | None = None,
        most: float = math.inf,
    ) -> bool:
        """Returns whether the wrong value becomes right with other constants, or from other arguments.

        Args:
            changes: Constants by operation and parameter; see `set_constant`.
            given: Values by name, instead of those of the reference.
            form: An operation in another form.
            most: The largest error that remains, where many experiments are made.
        """
        if time.monotonic() > self.until:
            return False
        try:
            return self._becomes_right(changes, given or {}, form, most)
        except (CoremlscopeError, ValueError, IndexError, TypeError):
            return False  # There is no such operation: a setting that it does not have, or another shape.

    def result(
        self,
        name: str,
        given: Mapping[str, Array],
        changes: Mapping[tuple[str, str], Array] | None = None,
        form: Op | None = None,
    ) -> Array:
        """Computes a value of the region from the values of the reference; for the arguments see `explains`.

        Raises:
            CoremlscopeError: There is no such operation.
            ValueError: Shapes do not fit.
        """
        function = set_constant(self.call.function, changes) if changes else self.call.function
        function = with_form(function, form) if form is not None else function
        bounds = {pair.ours: self.site.given[pair.ours] for pair in self.site.bounds}
        fed = {
            key: np.asarray(array, self.ours.values[key].array.dtype)
            for key, array in {**bounds, **given}.items()
        }
        return run_from(replace(self.call, function=function), fed, [name])[name]

    def _becomes_right(
        self,
        changes: Mapping[tuple[str, str], Array] | None,
        given: Mapping[str, Array],
        form: Op | None,
        most: float,
    ) -> bool:
        local = self.result(self.site.value, given, changes, form)
        limit = self.site.made if math.isfinite(self.site.made) else 1.0
        is_near = unmasked_error(local, self.site.expected) <= min(most, limit / _EXPLAINED)
        return is_near and explains_all(local, self.site.expected, _EACH)


#: A change explains an error that it makes smaller by this factor.
_EXPLAINED = 10
#: With it each element is right, up to this share of the largest one.
_EACH = 0.05


def describe_axes(axes: tuple[int, ...]) -> str:
    """Returns an order of axes as text: `(0, 2, 1, 3)`."""
    return f"({', '.join(map(str, axes))})"


def describe_relation(relation: Relation, what: str) -> str:
    match relation.kind:
        case "permuted":
            return (
                f"{what} with its axes in another order: transposed by"
                f" {describe_axes(relation.axes)} it equals it"
            )
        case "reordered":
            return f"{what} with its elements in another order"
        case "scaled":
            more = "" if relation.axis is None else ", plus a number for each channel"
            return f"{what} times {relation.number:.5g}{more}"
        case "shifted":
            return f"{what} plus {relation.number:.5g}"
        case "truncated":
            return f"{what} without its fractions"
        case "negated":
            return f"{what} with the other sign"


CAUSES: dict[str, Cause] = {
    "permuted": "layout",
    "reordered": "layout",
    "scaled": "scale",
    "shifted": "offset",
    "truncated": "cast",
    "negated": "sign",
}


def shape_without_ones(array: Array) -> tuple[int, ...]:
    return tuple(size for size in array.shape if size > 1)


def large_parameters(value: Intermediate) -> list[Parameter]:
    return [p for p in value.parameters if 1 < p.size <= MOST_WEIGHTS]
