"""The functions of a model that are planned, bound as the device computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial

from coremlscope.devices import OSRelease
from coremlscope.model.ir import FunctionDescription, Model, Program
from coremlscope.ops.bind import BoundFunction
from coremlscope.ops.half_precision import in_half_precision
from coremlscope.planning.advice import FunctionView
from coremlscope.planning.forecast.compiled import as_compiled
from coremlscope.planning.forecast.kernels import Kernels
from coremlscope.planning.forecast.unplanned import is_unplanned
from coremlscope.planning.patterns.rule import ProgramFacts
from coremlscope.planning.placement.coreml_view import (
    CoreMLGraph,
    program_facts,
    view_function,
    view_operations,
)
from coremlscope.runtime.execution.binding import bind_model, choose_function, share
from coremlscope.runtime.execution.wiring import shaped_stages, stage_key


class ModelFunction(FunctionView):
    """A bound function, of the model or of a stage of a pipeline.

    Attributes:
        is_main: Whether estimates include it: the requested function of the model, the default one of a
            stage.
    """

    def __init__(
        self, model: Model, bound: BoundFunction, description: FunctionDescription, key: str, *, is_main: bool
    ) -> None:
        super().__init__(model, bound, description, key)
        self.is_main = is_main
        self._graphs: dict[str, CoreMLGraph] = {}

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
        core_ai = is_core_ai(self.model)
        key = "Core AI" if core_ai else str(system)
        if key not in self._graphs:
            # The types of the inputs and outputs of a neural network need no casts.
            description = None if self.is_network else self.description
            self._graphs[key] = (
                view_operations(self.bound) if core_ai else view_function(self.bound, system, description)
            )
        return self._graphs[key]


def functions_of(
    model: Model, function: str | None, *, every: bool, shapes: Mapping[str, Sequence[int]] | None
) -> list[ModelFunction]:
    """Returns the functions to plan; for a pipeline the default one of each stage, or all of them.

    Args:
        model: The model.
        function: The function that is estimated; None for the default one.
        every: Whether to plan the others as well.
        shapes: Shapes of flexible inputs of the function, instead of the defaults.
    """
    is_single = isinstance(model.content, Program)
    found = []
    for stage, asked in shaped_stages(model, shapes):
        if is_unplanned(stage):
            continue
        main = choose_function(stage.model, function if is_single else None).name
        for name in stage.model.description.functions if every else [main]:
            bound = bind_model(stage.model, name, asked if name == main else None)
            description = choose_function(stage.model, name).description
            key, is_main = stage_key(stage.name, name), name == main
            make = partial(_planned_function, stage.model, bound, description, key, is_main=is_main)
            found.append(share(stage.model, (key, is_main, id(bound)), make))
    return found


def _planned_function(
    model: Model, bound: BoundFunction, description: FunctionDescription, key: str, *, is_main: bool
) -> ModelFunction:
    one = ModelFunction(model, bound, description, key, is_main=is_main)
    if one.is_network:
        one.bound = as_compiled(in_half_precision(bound))
    return one


def is_core_ai(model: Model) -> bool:
    """Returns whether a model is a program of Core AI."""
    return isinstance(model.content, Program) and model.content.is_core_ai
