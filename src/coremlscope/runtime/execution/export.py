"""Exports a lowered function as a self-contained ONNX file."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from google.protobuf.message import EncodeError

from coremlscope.base.errors import EngineError
from coremlscope.base.escaping import path_text
from coremlscope.base.version import __version__
from coremlscope.base.writing import new_content, write_draft
from coremlscope.model.ir import Model
from coremlscope.ops.program import OnnxProgram
from coremlscope.runtime.execution.lowering import lower_function

#: The limit of one protobuf message (2 GiB), less a reserve for the graph itself.
_LARGEST_EMBEDDED = 2**31 - 2**26
#: The length of the hash in the name of a file of weights.
_DIGITS = 16


def export_onnx(
    model: Model,
    path: Path,
    *,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    largest_embedded: int = _LARGEST_EMBEDDED,
) -> tuple[Path, ...]:
    """Writes a function of a model as ONNX, with its weights, and checks the file.

    Inputs, outputs and states keep their names. A classifier returns the index of its label and the
    probabilities. Categories are encoded as indices, and dictionaries as numbers in the order of their keys.
    The file's metadata holds the labels, categories and keys as JSON under `coremlscope.labels`.

    Args:
        model: The model.
        path: The file to write.
        function: The function's name; None selects the default function.
        shapes: Shapes of flexible inputs by name. The others get their default shapes.
        largest_embedded: The maximum size of embedded weights, in bytes. Larger weights go into a file beside
            `path`, whose name contains a hash of its content.

    Returns:
        The files that were written.

    Raises:
        MissingWeightsError: Weights are missing.
        UnsupportedOpError: Operations cannot be lowered. The error lists all of them.
        OutputError: A file cannot be written.
        EngineError: ONNX's checker rejects the file.
    """
    lowered = lower_function(model, function, shapes)
    program = lowered.program
    graph = onnx.ModelProto()
    graph.CopyFrom(program.model)
    _keep_names(graph, program)
    _infer_shapes(graph)
    _describe(graph, program, model, lowered.function)
    return _write(graph, program, path, program.weights_bytes <= largest_embedded)


def _write(graph: onnx.ModelProto, program: OnnxProgram, path: Path, is_embedded: bool) -> tuple[Path, ...]:
    beside: list[str] = []
    try:
        with new_content(path.parent, last=path.name) as draft:
            if is_embedded:
                _embed(graph, program)
            else:
                beside.append(_write_data(program, draft, path.name))
                _refer(graph, beside[0])
            write_draft(draft / path.name, graph.SerializeToString())
            onnx.checker.check_model(str(draft / path.name), full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, EncodeError) as error:
        raise EngineError(
            f"ONNX rejects the exported graph: {str(error).strip().splitlines()[0]}",
            "please report this with the model",
        ) from None
    remove_earlier_data(path.parent, [path.name], beside)
    return (path, *(path.with_name(name) for name in beside))


def _write_data(program: OnnxProgram, draft: Path, name: str) -> str:
    """Writes the weights of a file into a draft folder; returns their name.

    It is derived from their content: whoever reads while an export is replaced never gets a graph with the
    weights of another one.
    """
    program.write_weights(draft / "weights")
    with (draft / "weights").open("rb") as file:
        digest = hashlib.file_digest(file, "blake2b").hexdigest()[:_DIGITS]
    beside = f"{name}.{digest}.data"
    (draft / "weights").rename(draft / beside)
    return beside


def remove_earlier_data(folder: Path, names: Sequence[str], kept: Sequence[str]) -> None:
    """Removes weights that earlier exports wrote, to which their files no longer refer.

    Args:
        folder: The folder of the exports.
        names: The names of the ONNX files.
        kept: The names of the weights to which they refer.
    """
    earlier = re.compile(rf"({'|'.join(map(re.escape, names))})\.[0-9a-f]{{{_DIGITS}}}\.data")
    with contextlib.suppress(OSError):
        for entry in folder.iterdir():
            if earlier.fullmatch(entry.name) and entry.name not in kept:
                entry.unlink()


def _keep_names(graph: onnx.ModelProto, program: OnnxProgram) -> None:
    """Gives inputs and outputs the names of their features, where no other value has the name."""
    taken = {name for node in graph.graph.node for name in (*node.input, *node.output)}
    wanted = {
        port.value: f"{port.name}.keys" if port.holds_keys else port.name
        for port in (*program.inputs, *program.outputs)
    }
    names = {value: name for value, name in wanted.items() if value != name and name not in taken}
    if not names:
        return
    for node in graph.graph.node:
        for field in (node.input, node.output):
            for index, name in enumerate(field):
                field[index] = names.get(name, name)
    for info in (*graph.graph.input, *graph.graph.output):
        info.name = names.get(info.name, info.name)


def _infer_shapes(graph: onnx.ModelProto) -> None:
    """Adds the shapes of the outputs, which the lowering leaves to the engine.

    ONNX's propagation of data is left off: it takes some hundred bytes for every element of a constant.
    """
    inferred = onnx.shape_inference.infer_shapes(graph)
    shapes = {info.name: info for info in inferred.graph.output}
    for info in graph.graph.output:
        info.CopyFrom(shapes[info.name])


def _describe(graph: onnx.ModelProto, program: OnnxProgram, model: Model, function: str) -> None:
    metadata = model.metadata
    graph.producer_name, graph.producer_version = "coremlscope", __version__
    graph.doc_string = metadata.description
    ports = (*program.inputs, *program.outputs)
    labels = {port.name: list(port.labels) for port in ports if port.labels is not None}
    states = {state.name: state.updated for state in program.states}
    properties = {
        "author": metadata.author,
        "license": metadata.licence,
        "version": metadata.version,
        **metadata.user_defined,
        "coremlscope.source": "" if model.source is None else path_text(Path(model.source.name)),
        "coremlscope.function": function,
        "coremlscope.labels": json.dumps(labels, ensure_ascii=False) if labels else "",
        "coremlscope.states": json.dumps(states, ensure_ascii=False) if states else "",
    }
    for key, value in properties.items():
        if value:
            graph.metadata_props.add(key=key, value=value)


def _embed(graph: onnx.ModelProto, program: OnnxProgram) -> None:
    constants = {slot.name: slot for slot in program.weights}
    for tensor in graph.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            slot = constants[tensor.name]
            tensor.raw_data = slot.content().astype(slot.dtype.newbyteorder("<"), copy=False).tobytes()
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")


def _refer(graph: onnx.ModelProto, name: str) -> None:
    for tensor in graph.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = name
