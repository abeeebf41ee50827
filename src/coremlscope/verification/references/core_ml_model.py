"""Another Core ML model as a reference, run by the embedded engine."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from coremlscope.formats import container
from coremlscope.ir import Array, Model, TensorType
from coremlscope.verification.intermediates import Run
from coremlscope.verification.own_run import FunctionCall, record
from coremlscope.verification.references.contract import match_inputs

__all__ = ["CoreMLReference"]


class CoreMLReference:
    """Runs another Core ML model with float32 results.

    Args:
        source: The path of the model, or the model.

    Raises:
        ModelError: It cannot be read.
    """

    def __init__(self, source: Path | Model) -> None:
        self._model = source if isinstance(source, Model) else container.read(source)
        self.label = str(self._model.source.name if self._model.source else "model")

    def run(self, inputs: Mapping[str, Array]) -> Run:
        """Runs the model; see `Reference.run`."""
        call = FunctionCall.of(self._model, None, {})
        wanted = [
            (value.name, value.type.shape, value.type.dtype.numpy)
            for value in call.function.graph.inputs
            if isinstance(value.type, TensorType)
        ]
        given = match_inputs(inputs, wanted)
        run = record(FunctionCall.of(self._model, None, given))
        return dataclasses.replace(run, label=f"coremlscope, {self.label}")
