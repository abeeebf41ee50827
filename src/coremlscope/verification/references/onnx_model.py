"""An ONNX model as a reference, run by ONNX Runtime without optimisations."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from coremlscope.base.errors import UsageError
from coremlscope.formats.onnx.graph import Graph, Node
from coremlscope.formats.onnx.reader import model_of, read_message
from coremlscope.model.ir import Array, TensorType
from coremlscope.runtime.engines.base import EngineOptions
from coremlscope.runtime.engines.onnxruntime import OnnxRuntimeSession
from coremlscope.verification.intermediates import Intermediate, Parameter, Run
from coremlscope.verification.references.contract import Wanted, match_inputs


class OnnxReference:
    """Runs an ONNX model and records the result of every node of its main graph.

    Args:
        path: The file. Weights in other files lie next to it.

    Raises:
        UsageError: The file cannot be read.
        ModelError: It is not an ONNX model, or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.label, self._folder = path.name, path.parent
        try:
            self._message = read_message(path)
            self._model = model_of(self._message, path)
        except OSError as error:
            raise UsageError(
                f"{path} cannot be read: {error.strerror or error}", "check the path of the reference"
            ) from None

    def run(self, inputs: Mapping[str, Array], before: Sequence[Mapping[str, Array]] = ()) -> Run:
        """Runs the model; see `Reference.run`."""
        graph = self._model.graph
        wanted: list[Wanted] = [
            (one.name, one.type.shape, one.type.dtype.numpy) if one.type else (one.name, None, None)
            for one in self._model.free_inputs
        ]
        given = match_inputs(inputs, wanted)
        results = self._session.run(given.arrays)
        values = {name: Intermediate(name=name, array=array) for name, array in given.arrays.items()}
        for node, name in ((one, name) for one in graph.nodes for name in one.outputs):
            array = results.get(name)
            if isinstance(array, np.ndarray) and array.dtype != object:
                values[name] = Intermediate(
                    name=name,
                    array=array,
                    op=node.name or name,
                    type=node.op,
                    inputs=tuple(dict.fromkeys(n for n in node.reads() if n in values)),
                    parameters=tuple(_parameters(node, graph)),
                )
        outputs = {one.name: one.name for one in graph.outputs if one.name in values}
        return Run(
            label=f"ONNX Runtime, {self.label}", values=values, outputs=outputs, by_order=given.by_order
        )

    @functools.cached_property
    def _session(self) -> OnnxRuntimeSession:
        """The graph with every value as an output."""
        given = {one.name for one in self._model.graph.outputs}
        for node in self._model.graph.nodes:
            for name in node.outputs:
                if name and name not in given:
                    self._message.graph.output.add(name=name)
        return OnnxRuntimeSession(self._message.SerializeToString(), self._folder, EngineOptions(fuses=False))


def _parameters(node: Node, graph: Graph) -> Iterator[Parameter]:
    for name in node.inputs:
        known = graph.constants.get(name)
        if known is not None and isinstance(known.type, TensorType):
            yield Parameter(name, known.type.elements or 0, known.numpy)
    epsilon = node.attributes.get("epsilon")
    if isinstance(epsilon, float):
        yield Parameter("epsilon", 1, lambda: np.array(epsilon, np.float32))
