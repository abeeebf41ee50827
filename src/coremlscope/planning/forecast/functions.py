"""The functions of a model that are planned, bound as the device computes them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial

from coremlscope.devices import OSRelease
from coremlscope.model.ir import Model
from coremlscope.ops.half_precision import in_half_precision
from coremlscope.planning.advice import FunctionView
from coremlscope.planning.cost.latency.own import NOTHING_OWN, Own
from coremlscope.planning.forecast.compiled import as_compiled
from coremlscope.planning.forecast.kernels import Kernels
from coremlscope.planning.forecast.tabular import tabular_kernels
from coremlscope.planning.forecast.unplanned import unestimated_stages
from coremlscope.planning.patterns.rule import ProgramFacts
from coremlscope.planning.placement.alike import Kinds
from coremlscope.planning.placement.coreml_view import (
    CoreMLGraph,
    lists_outputs,
    program_facts,
    view_function,
    view_operations,
)
from coremlscope.runtime.execution.binding import share
from coremlscope.runtime.execution.wiring import StageFunction


class ModelFunction(FunctionView):
    """A function that is planned, as the device computes it.

    Attributes:
        is_main: Whether estimates include it; see `StageFunction`.
    """

    def __init__(self, function: StageFunction) -> None:
        super().__init__(function)
        self.is_main = function.is_main
        if self.is_network:
            self.bound = as_compiled(in_half_precision(self.bound))
        self._graphs: dict[bool, CoreMLGraph] = {}

    @cached_property
    def facts(self) -> ProgramFacts:
        """The program that it belongs to."""
        return program_facts(self.model, self.bound, self.description)

    @cached_property
    def kernels(self) -> Kernels:
        """The kernels of the function alone."""
        return Kernels([self])

    def graph_on(self, system: OSRelease) -> CoreMLGraph:
        """Returns the function in the form that Core ML plans; Core AI plans it as it is, on every system."""
        core_ai = self.model.content.is_core_ai
        key = core_ai or lists_outputs(system)
        if key not in self._graphs:
            # The types of the inputs and outputs of a neural network need no casts.
            description = None if self.is_network else self.description
            self._graphs[key] = (
                view_operations(self.bound)
                if core_ai
                else view_function(self.bound, system, description, share(None, (Kinds,), Kinds))
            )
        return self._graphs[key]


def planned_functions(functions: Sequence[StageFunction]) -> list[ModelFunction]:
    """Returns those of the functions that have operations to plan."""
    return [
        share(one.stage.model, (one.key, one.is_main, id(one.bound)), partial(ModelFunction, one))
        for one in functions
        if one.is_planned
    ]


def kernels_of(
    model: Model,
    functions: Sequence[StageFunction],
    planned: Sequence[ModelFunction],
    own: Own = NOTHING_OWN,
) -> Kernels:
    """Returns the kernels of a prediction, those of stages without operations included.

    Args:
        model: The model.
        functions: Its functions.
        planned: Those of them that have operations, and that a prediction runs.
        own: A user's own measurements, which refine estimates.
    """

    def make() -> Kernels:
        return Kernels(planned, own, tabular_kernels(functions), unestimated_stages(functions))

    return share(model, ("kernels", *map(id, planned), id(own)), make)
