"""ONNX models as `ir.Model`: the whole graph as one program, as a converter would make it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from coremlscope.base.budget import Budget
from coremlscope.formats.onnx.element_types import element_types
from coremlscope.formats.onnx.graph import OnnxModel, Signature
from coremlscope.formats.onnx.network import FUNCTION, Part, translate
from coremlscope.formats.onnx.reader import read_onnx
from coremlscope.model.ir import (
    ArrayFeature,
    Feature,
    Function,
    Metadata,
    Model,
    RangeShapes,
    Shape,
    TensorType,
    WeightFile,
)

#: The assumed sizes of free dimensions: of the first axis, of the last two of images, of others.
_BATCH, _IMAGE, _LENGTH = 1, 224, 128
_IMAGE_RANK = 4


def read_onnx_model(path: Path) -> Model:
    """Reads an ONNX model and translates its graph.

    Raises:
        ModelError: The file is no ONNX model or is damaged; see `read_onnx`.
        OSError: The file cannot be read.
    """
    return model_of_graph(read_onnx(path))


def model_of_graph(onnx: OnnxModel) -> Model:
    """Returns an ONNX model with its graph translated, at the sizes that the file has or that are assumed."""
    Budget.of_model().check_operations(len(onnx.graph.nodes))
    given = default_shapes(onnx)

    def make(shapes: Mapping[str, Shape]) -> Model:
        types = dict(onnx.graph.types)
        for one in onnx.free_inputs:
            if one.type is not None:
                types[one.name] = replace(one.type, shape=shapes.get(one.name, given[one.name]))
        return translate(onnx.graph, onnx.opset, _whole(onnx), types=types)

    def specialise(shapes: Mapping[str, Shape]) -> Function:
        return replace(make(shapes).content.functions[FUNCTION], specialise=specialise)

    model = make({})
    function = replace(model.content.functions[FUNCTION], specialise=specialise)
    description = model.description.main
    inputs = [
        _flexible(feature, one) for feature, one in zip(description.inputs, onnx.free_inputs, strict=True)
    ]
    remarks = _remarks(onnx, given)
    outputs = description.outputs
    if remarks:
        outputs = [replace(one, type=replace(one.type, shape=())) for one in outputs]
    return replace(
        model,
        description=replace(
            model.description,
            functions={FUNCTION: replace(description, inputs=tuple(inputs), outputs=tuple(outputs))},
        ),
        content=replace(model.program, functions={FUNCTION: function}),
        metadata=Metadata(
            user_defined={**onnx.metadata, "producer": onnx.producer, "opset": str(onnx.opset)},
        ),
        source=onnx.path,
        size_bytes=onnx.size_bytes,
        weight_files=tuple(WeightFile(name, None) for name in onnx.absent),
        remarks=remarks,
    )


def default_shapes(onnx: OnnxModel) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of inputs, with assumed sizes of free dimensions."""
    return {
        one.name: tuple(
            _BATCH
            if size is None and not axis
            else _assumed(axis, len(one.type.shape or ()))
            if size is None
            else size
            for axis, size in enumerate(one.type.shape or ())
        )
        for one in onnx.free_inputs
        if one.type is not None
    }


def _assumed(axis: int, rank: int) -> int:
    return _IMAGE if rank == _IMAGE_RANK and axis >= rank - 2 else _LENGTH


def _flexible(feature: Feature, given: Signature) -> Feature:
    type_ = given.type
    if not isinstance(feature.type, ArrayFeature) or type_ is None or type_.is_static:
        return feature
    bounds = tuple((1, -1) if size is None else (size, size) for size in type_.shape or ())
    return replace(feature, type=replace(feature.type, flexibility=RangeShapes(bounds)))


def _remarks(onnx: OnnxModel, shapes: Mapping[str, tuple[int, ...]]) -> tuple[str, ...]:
    free = [
        f"{one.name}={'x'.join(map(str, shapes[one.name]))}"
        for one in onnx.free_inputs
        if isinstance(one.type, TensorType) and not one.type.is_static
    ]
    return (f"the file leaves sizes open: {', '.join(free)} is assumed (--shape)",) if free else ()


def infer_types(onnx: OnnxModel) -> dict[str, TensorType]:
    """Returns the types of values that the file does not declare, by name.

    Shapes are those of the translated graph. Sizes that follow from free dimensions are None: those that
    change where all free dimensions are twice as large.
    """
    given = default_shapes(onnx)
    free = {
        one.name: [size is None for size in one.type.shape or ()]
        for one in onnx.free_inputs
        if one.type is not None
    }
    double = {
        name: tuple(size * (1 + is_free) for size, is_free in zip(given[name], free[name], strict=True))
        for name in given
    }
    shapes = _inferred(onnx, given)
    others = _inferred(onnx, double) if double != given else shapes
    dtypes = element_types(onnx.graph)
    return {
        name: TensorType(
            dtypes[name], tuple(a if a == b else None for a, b in zip(shape, other, strict=True))
        )
        for name, shape in shapes.items()
        if name in dtypes and name not in onnx.graph.types
        if (other := others.get(name)) is not None and len(other) == len(shape)
    }


def _inferred(onnx: OnnxModel, shapes: Mapping[str, Shape]) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of all values whose sizes are known, for some shapes of inputs."""
    types = dict(onnx.graph.types)
    for name, shape in shapes.items():
        types[name] = replace(types[name], shape=shape)
    content = translate(onnx.graph, onnx.opset, _whole(onnx), types=types).content
    return {
        value.name: tuple(size or 0 for size in value.type.shape or ())
        for op in content.functions[FUNCTION].graph.ops
        for value in op.outputs
        if isinstance(value.type, TensorType) and value.type.is_static
    }


def _whole(onnx: OnnxModel) -> Part:
    return Part(
        nodes=onnx.graph.nodes,
        inputs=[one.name for one in onnx.free_inputs],
        outputs=[one.name for one in onnx.graph.outputs],
    )
