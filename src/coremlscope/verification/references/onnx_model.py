"""An ONNX model as a reference, run by ONNX Runtime without optimisations."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from coremlscope.base.errors import UsageError
from coremlscope.model.ir import Array
from coremlscope.runtime.engines.base import EngineOptions
from coremlscope.runtime.engines.onnxruntime import OnnxRuntimeSession
from coremlscope.verification.intermediates import Intermediate, Parameter, Run
from coremlscope.verification.references.contract import match_inputs

#: Types of nodes whose result is a constant of the graph.
_CONSTANT = "Constant"


class OnnxReference:
    """Runs an ONNX model and records the result of every node of its main graph.

    Args:
        path: The file. Weights in other files lie beside it.

    Raises:
        UsageError: The file cannot be read, or is not an ONNX model.
    """

    def __init__(self, path: Path) -> None:
        import onnx
        from google.protobuf.message import DecodeError

        self.label, self._folder = path.name, path.parent
        try:
            self._model = onnx.load(str(path))
            onnx.checker.check_model(self._model)
        except OSError as error:
            raise UsageError(
                f"{path} cannot be read: {error.strerror or error}", "check the path of the reference"
            ) from None
        except (DecodeError, onnx.checker.ValidationError, ValueError, TypeError) as error:
            reason = (str(error).strip() or "it is damaged").splitlines()[0]
            raise UsageError(
                f"{path} is not a valid ONNX model: {reason}", "export the reference again"
            ) from None

    def run(self, inputs: Mapping[str, Array], before: Sequence[Mapping[str, Array]] = ()) -> Run:
        """Runs the model; see `Reference.run`."""
        graph = self._model.graph
        constants = _constants(graph)
        wanted = [
            (info.name, _shape(info), _dtype(info)) for info in graph.input if info.name not in constants
        ]
        given = match_inputs(inputs, wanted)
        feeds = given.arrays
        nodes = [node for node in graph.node if node.op_type != _CONSTANT]
        results = self._session.run(feeds)
        values = {name: Intermediate(name=name, array=array) for name, array in feeds.items()}
        for node, name in [(one, name) for one in nodes for name in one.output]:
            array = results.get(name)
            if isinstance(array, np.ndarray) and array.dtype != object:
                values[name] = Intermediate(
                    name=name,
                    array=array,
                    op=node.name or name,
                    type=node.op_type,
                    inputs=tuple(dict.fromkeys(n for n in _reads(node) if n in values)),
                    parameters=tuple(_parameters(node, constants)),
                )
        outputs = {info.name: info.name for info in graph.output if info.name in values}
        return Run(
            label=f"ONNX Runtime, {self.label}", values=values, outputs=outputs, by_order=given.by_order
        )

    @functools.cached_property
    def _session(self) -> OnnxRuntimeSession:
        """The graph with every value as an output."""
        import onnx

        wider = onnx.ModelProto()
        wider.CopyFrom(self._model)
        given = {info.name for info in wider.graph.output}
        names = [name for node in wider.graph.node if node.op_type != _CONSTANT for name in node.output]
        added = (onnx.ValueInfoProto(name=name) for name in names if name and name not in given)
        wider.graph.output.extend(added)
        return OnnxRuntimeSession(wider.SerializeToString(), self._folder, EngineOptions(fuses=False))


def _constants(graph: Any) -> dict[str, Any]:
    """Returns the constants of a graph by name."""
    found = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == _CONSTANT:
            found.update((node.output[0], one.t) for one in node.attribute if one.name == "value")
    return found


def _reads(node: Any) -> Iterator[str]:
    """Yields the names of the values that a node reads, those inside its graphs included."""
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _reads(inner)


def _parameters(node: Any, constants: Mapping[str, Any]) -> Iterator[Parameter]:
    from onnx import numpy_helper

    for name in node.input:
        tensor = constants.get(name)
        if tensor is not None:
            size = int(np.prod(tensor.dims)) if tensor.dims else 1
            yield Parameter(name, size, partial(numpy_helper.to_array, tensor))
    for attribute in node.attribute:
        if attribute.name == "epsilon":
            yield Parameter("epsilon", 1, partial(np.array, attribute.f, np.float32))


def _shape(info: Any) -> tuple[int | None, ...]:
    dims = info.type.tensor_type.shape.dim
    return tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in dims)


def _dtype(info: Any) -> np.dtype | None:
    from onnx import helper

    return np.dtype(helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type))
