from __future__ import annotations

import pytest

from coremlscope.base.errors import UsageError
from coremlscope.formats.sample import sample_model
from coremlscope.model.ir import DType, EnumeratedShapes, Model
from coremlscope.planning.rewrites.transforms import default_transforms, parse_transform, why_not
from tests.support import ir_models


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("fp16-io", "fp16 inputs and outputs"),
        ("palettize-4", "weights as 4-bit indices, a table for each weight"),
        ("palettize-6-group-16", "weights as 6-bit indices, a table for every 16 channels"),
        ("int8", "weights as int8, a scale for each channel"),
        ("int4-block-32", "weights as int4, a scale for each block of 32"),
        ("int8-tensor", "weights as int8, a scale for each weight"),
        ("ios18", "operations of iOS 18"),
        (
            "prune-50+palettize-4",
            "the smallest 50 % of weights become zero, then weights as 4-bit indices,"
            " a table for each weight",
        ),
    ],
)
def test_names(name: str, title: str) -> None:
    assert parse_transform(name).title == title


@pytest.mark.parametrize(
    "name",
    [
        "",
        "palettize",
        "palettize-5",
        "palettize-4-group-0",
        "int16",
        "prune-0",
        "prune-100",
        "ios14",
        "int8+",
    ],
)
def test_unknown_names(name: str) -> None:
    with pytest.raises(UsageError, match="unknown transform") as caught:
        parse_transform(name)
    assert "palettize-4" in caught.value.hint


def test_a_near_name_is_suggested() -> None:
    with pytest.raises(UsageError) as caught:
        parse_transform("paletize-4")
    assert "did you mean palettize-4?" in caught.value.hint


def test_flexible_shapes_can_be_fixed() -> None:
    fixed, flexible = ir_models.adder(), ir_models.adder(EnumeratedShapes(((1, 2), (2, 2))))
    static = parse_transform("static")
    assert why_not(static, fixed) == "no input has a flexible shape"
    assert why_not(static, flexible) == ""


def test_what_is_done_already_is_not_tried() -> None:
    model = ir_models.perceptron()
    names = [one.name for one in default_transforms(model, has_data=True)]
    assert "w8a8" in names
    assert "w8a8" not in [one.name for one in default_transforms(model, has_data=False)]
    assert "needs iOS 15 or later already" in why_not(parse_transform("ios15"), model)
    assert ("fp16" in names) == _computes_in(model, DType.FP32)


def test_weights_of_fp16_programs_are_clustered_as_they_are() -> None:
    model = sample_model(size=32, width=0.5, classes=10)
    names = [one.name for one in default_transforms(model, has_data=False)]
    assert "palettize-8" in names
    assert not any(name.startswith("fp16+") for name in names)


def test_large_float32_weights_are_made_fp16_before_they_are_clustered() -> None:
    large, small = (
        {one.name for one in default_transforms(ir_models.perceptron(units=units), has_data=False)}
        for units in (128, 64)
    )
    assert large >= {"fp16+palettize-8", "fp16+palettize-4-group-16", "fp16+prune-50+palettize-4", "prune-50"}
    assert small >= {"palettize-8", "palettize-4-group-16"}
    assert not {"palettize-8", "palettize-4-group-16"} & large
    assert not any(name.startswith("fp16+") for name in small)


def _computes_in(model: Model, dtype: DType) -> bool:
    ops = [op for function in model.content.functions.values() for op in function.graph.walk()]
    return any(
        getattr(v.type, "dtype", None) == dtype for op in ops if op.constant is None for v in op.outputs
    )
