"""Another Core ML model as a reference, run by the embedded engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec.structs
import numpy as np

from coremlscope.base.errors import UsageError
from coremlscope.formats import container
from coremlscope.model.ir import Array, Feature, ImageFeature, Model, Program, TensorType
from coremlscope.ops.program import Precision
from coremlscope.runtime.execution.binding import Chosen, choose_function
from coremlscope.runtime.execution.pipeline import open_predictor
from coremlscope.runtime.execution.wiring import interface_of
from coremlscope.verification.intermediates import Run
from coremlscope.verification.own_run import FunctionCall, Loaded, next_states, record
from coremlscope.verification.references.contract import Assigned, Wanted, match_inputs


class CoreMLReference:
    """Runs another Core ML model with float32 results.

    Args:
        source: The path of the model, or the model.
        function: The function to run, if it has one of that name; else its default one.

    Raises:
        ModelError: It cannot be read.
    """

    def __init__(self, source: Path | Model, function: str | None = None) -> None:
        self._model = source if isinstance(source, Model) else container.read(source)
        self._function = function if function in self._model.description.functions else None
        self._inputs = interface_of(self._model, self._function)[1].inputs
        #: The inputs of the verified model by name: images come in its order of channels.
        self.given: Mapping[str, Feature] = {}
        #: See `FunctionCall`: all runs have inputs of the same shapes.
        self.loaded: dict[Precision, Loaded] | None = None
        self.label = str(self._model.source.name if self._model.source else "model")

    @property
    def chosen(self) -> Chosen | None:
        """The function that runs; None for a model without operations."""
        is_program = isinstance(self._model.content, Program)
        return choose_function(self._model, self._function) if is_program else None

    @property
    def takes_images(self) -> bool:
        """Whether it takes images, and so does its own preprocessing."""
        return any(isinstance(feature.type, ImageFeature) for feature in self._inputs)

    def _in_own_order(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Returns inputs with images in the order of channels that this model takes."""
        turned = {name: np.ascontiguousarray(inputs[name][:, ::-1]) for name in self.turned}
        return {**inputs, **turned}

    @property
    def turned(self) -> tuple[str, ...]:
        """The images that the verified model takes in another order of channels."""
        found = []
        for feature in self._inputs:
            given = self.given.get(feature.name)
            types = (feature.type, None if given is None else given.type)
            if {type_.color_space for type_ in types if isinstance(type_, ImageFeature)} == {"RGB", "BGR"}:
                found.append(feature.name)
        return tuple(found)

    def predict(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the outputs of a model without operations; see `coremlscope.predict`."""
        names = {feature.name for feature in self._inputs}
        with open_predictor(self._model, self._function) as predictor:
            return predictor.predict({name: one for name, one in values.items() if name in names})

    def run(self, inputs: Mapping[str, Array], before: Sequence[Mapping[str, Array]] = ()) -> Run:
        """Runs the model; see `Reference.run`."""
        if self.chosen is None:
            raise UsageError(
                "a pipeline, or another model without operations, is no reference of one with operations",
                "give one of the models that it was built from, or its outputs as .npz",
            )
        states: Mapping[str, Array] = {}
        for earlier in before:
            call = FunctionCall.of(self._model, self._function, self._assigned(earlier).arrays)
            states = next_states(msgspec.structs.replace(call, states={"fp32": states}), "fp32")
        given = self._assigned(inputs)
        call = FunctionCall.of(self._model, self._function, given.arrays, self.loaded)
        run = record(msgspec.structs.replace(call, states={"fp32": states}))
        return msgspec.structs.replace(run, label=f"coremlscope, {self.label}", by_order=given.by_order)

    def _assigned(self, inputs: Mapping[str, Array]) -> Assigned:
        call = FunctionCall.of(self._model, self._function, {})
        wanted: list[Wanted] = [
            (value.name, value.type.shape, value.type.dtype.numpy)
            for value in call.function.graph.inputs
            if isinstance(value.type, TensorType)
        ]
        return match_inputs(self._in_own_order(inputs), wanted)
