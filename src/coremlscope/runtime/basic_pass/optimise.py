"""The graph that ONNX Runtime's providers are asked about."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import msgspec

from coremlscope.base.errors import EngineError, LimitError
from coremlscope.base.processes.child import ChildLimits, Task, python_child, run_child
from coremlscope.base.processes.endings import Failures
from coremlscope.base.scratch import scratch_folder
from coremlscope.base.writing import write_draft
from coremlscope.formats.onnx.element_types import element_types
from coremlscope.formats.onnx.graph import Graph, OnnxModel
from coremlscope.formats.onnx.reader import read_message, read_onnx, read_types
from coremlscope.model.ir import DType, TensorType
from coremlscope.runtime.basic_pass.child import SAVED, TYPED
from coremlscope.runtime.basic_pass.preparation import SeenGraph, as_it_stands, prepare, restore

_CHILD = python_child("coremlscope.runtime.basic_pass.child", "save_optimised")
_TIME_S = 300.0
#: Memory: what ONNX Runtime takes itself, and so many times the model.
_OWN_BYTES, _RATIO = 2 << 30, 8
_TASK = Task("ONNX Runtime", "check that it runs elsewhere", Failures("ONNX Runtime"))


def optimise(model: OnnxModel, shapes: Mapping[str, Sequence[int]] | None = None) -> SeenGraph:
    """Returns a model with the graph after ONNX Runtime's optimisation, or as it stands.

    Args:
        model: The model.
        shapes: Shapes of inputs by name, and sizes of free dimensions by theirs.

    Raises:
        InputError: There is no such input or dimension, or a size differs.
        ModelError: The file cannot be read any more.
    """
    given = shapes or {}
    doubt = _why_not(model)
    if not doubt:
        try:
            return SeenGraph(
                model=_optimised(model, given),
                basis=f"after ONNX Runtime {version('onnxruntime')}'s level BASIC",
            )
        except LimitError as error:
            doubt = error.message
        except EngineError as error:
            doubt = error.message
    return as_it_stands(model, given, doubt)


def _why_not(model: OnnxModel) -> str:
    if importlib.util.find_spec("onnxruntime") is None:
        return "ONNX Runtime is not installed here"
    if model.absent:
        return f"the external data {model.absent[0]} is missing"
    return ""


def _optimised(model: OnnxModel, shapes: Mapping[str, Sequence[int]]) -> OnnxModel:
    message = read_message(model.path)
    prepared = prepare(message, shapes, model.graph)
    limits = ChildLimits(
        silence_s=_TIME_S, time_s=_TIME_S, memory_bytes=_OWN_BYTES + _RATIO * model.size_bytes
    )
    with scratch_folder() as name:
        folder, path = Path(name), model.path
        if prepared.is_changed:
            path = folder / "prepared.onnx"
            write_draft(path, message.SerializeToString())
        del message
        weights = str(model.path.parent.resolve())
        with run_child([*_CHILD, str(path.resolve()), name, weights], limits, _TASK) as messages:
            for _ in messages:
                pass
        saved = read_onnx(folder / SAVED)
        types = {**saved.graph.types, **read_types(read_message(folder / TYPED).graph.output)}
    graph = restore(saved.graph, prepared)
    graph = msgspec.structs.replace(graph, types=types, external=model.graph.external & graph.external)
    if prepared.half:
        graph = _narrowed(graph, model)
    return msgspec.structs.replace(
        model, graph=graph, opsets={**model.opsets, **saved.opsets}, functions=frozenset()
    )


def _narrowed(graph: Graph, model: OnnxModel) -> Graph:
    """Returns the graph with the element types that its values have in the model."""
    original = element_types(model.graph)
    given = {
        name: original[name]
        for name in (*graph.constants, *(one.name for one in graph.inputs))
        if name in original
    }
    found = element_types(graph, given)
    types = {
        name: TensorType(DType.FP16, type_.shape)
        if type_.dtype is DType.FP32 and found.get(name, original.get(name)) is DType.FP16
        else type_
        for name, type_ in graph.types.items()
    }
    return msgspec.structs.replace(graph, types=types)
