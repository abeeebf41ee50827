"""Small pipelines and their stages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coremlscope.formats.external import vision_feature_print
from coremlscope.model import ir
from tests.support.graphs import op, tensor, value
from tests.support.ir_models import array_feature, model

__all__ = ["arithmetic", "described", "external", "image_feature", "pipeline", "scene_print", "tripler"]


def described(
    content: ir.Program | ir.Pipeline | ir.Classical | ir.External | ir.Opaque,
    inputs: Sequence[ir.Feature],
    outputs: Sequence[ir.Feature],
) -> ir.Model:
    """A model with any content."""
    interface = ir.FunctionDescription(inputs=tuple(inputs), outputs=tuple(outputs))
    return ir.Model(spec_version=4, description=ir.Description({"main": interface}, "main"), content=content)


def pipeline(
    inputs: Sequence[ir.Feature],
    outputs: Sequence[ir.Feature],
    *stages: ir.Model,
    names: Sequence[str] | None = None,
) -> ir.Model:
    """A pipeline of models."""
    content = ir.Pipeline("pipeline", tuple(names or [""] * len(stages)), stages)
    return described(content, inputs, outputs)


def arithmetic(kind: str, target: str, *sources: str) -> ir.Model:
    """An operation on one feature of three numbers and the number 10, or on two such features."""
    values = {name: value(name, tensor(3)) for name in (*sources, target)}
    given = dict(zip("xy", (values[name] for name in sources), strict=False))
    if len(sources) == 1:
        given["y"] = ir.constant(np.float32(10))  # type: ignore[assignment]
    row = op(kind, (values[target],), **given)
    row = ir.Op(id="main/0", type=row.type, inputs=row.inputs, outputs=row.outputs)
    graph = ir.Graph(
        name="main", inputs=tuple(values[name] for name in sources), ops=(row,), outputs=(values[target],)
    )
    inputs = [array_feature(name, (3,)) for name in sources]
    return model(inputs, [array_feature(target, (3,))], {"main": graph})


def image_feature(
    name: str, color_space: str = "RGB", flexibility: ir.ShapeFlexibility | None = None
) -> ir.Feature:
    """An image of 6 × 4 pixels by default."""
    return ir.Feature(name, ir.ImageFeature(color_space, 6, 4, flexibility))


def tripler(source: ir.Feature, target: ir.Feature, dtype: ir.DType = ir.DType.FP32) -> ir.Model:
    """`target = source · 3`, of images of any size or of arrays."""
    shape: ir.Shape = (1, 3, None, None)
    if isinstance(source.type, ir.ArrayFeature):
        shape = source.type.shape
    x, y = (value(feature.name, ir.TensorType(dtype, shape)) for feature in (source, target))
    row = ir.Op(
        id="main/0", type="mul", inputs={"x": (x,), "y": (ir.constant(dtype.numpy.type(3)),)}, outputs=(y,)
    )
    return model([source], [target], {"main": ir.Graph(name="main", inputs=(x,), ops=(row,), outputs=(y,))})


def external(content: ir.External, inputs: Sequence[ir.Feature], outputs: Sequence[ir.Feature]) -> ir.Model:
    """A model whose computation is not part of its file."""
    return described(content, inputs, outputs)


def scene_print(target: str = "print", shape: tuple[int, ...] = (2048,), version: int = 1) -> ir.Model:
    """Apple's scene feature extractor with the input `image`."""
    content = vision_feature_print("scene", version, [target])
    return external(content, [image_feature("image")], [array_feature(target, shape, ir.DType.FP64)])
