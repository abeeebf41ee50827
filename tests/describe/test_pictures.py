"""Image outputs that are black on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coremlscope.describe.pictures import describe_dark_pictures
from coremlscope.model import ir
from coremlscope.planning.hazards.summary import describe_model
from coremlscope.studies.doctor.model import find_problems
from tests.support.graphs import op, tensor, value
from tests.support.ir_models import array_feature, model
from tests.support.pipelines import image_feature

_SHAPE = (1, 3, 4, 6)


def _model(*steps: tuple[str, dict[str, Any]], color: str = "RGB", is_image: bool = True) -> ir.Model:
    """A chain of operations on an image; each reads the result of the one before as `x`."""
    current = value("x", tensor(*_SHAPE))
    ops = []
    for number, (kind, arguments) in enumerate(steps):
        result = value("y" if number == len(steps) - 1 else f"v{number}", tensor(*_SHAPE))
        ops.append(op(kind, result, x=current, **arguments))
        current = result
    body = ir.Graph(name="main", inputs=(value("x", tensor(*_SHAPE)),), ops=tuple(ops), outputs=(current,))
    output = image_feature("y", color) if is_image else array_feature("y", _SHAPE)
    return model([image_feature("x")], [output], {"main": body})


_SIGMOID: tuple[str, dict[str, Any]] = ("sigmoid", {})
_TANH: tuple[str, dict[str, Any]] = ("tanh", {})


def _times(factor: float) -> tuple[str, dict[str, Any]]:
    return "mul", {"y": np.float32(factor)}


def _plus(summand: float) -> tuple[str, dict[str, Any]]:
    return "add", {"y": np.float32(summand)}


@pytest.mark.parametrize(
    ("steps", "is_dark"),
    [
        ([_SIGMOID], True),
        ([_SIGMOID, ("cast", {"dtype": "fp32"})], True),
        ([_SIGMOID, ("transpose", {"perm": np.array([0, 1, 2, 3], np.int32)})], True),
        ([("softmax", {"axis": np.int32(1)})], True),
        ([("clip", {"alpha": np.float32(0), "beta": np.float32(1)})], True),
        ([("maximum", {"y": np.float32(0)}), ("minimum", {"y": np.float32(1)})], True),
        ([_TANH], True),
        ([_TANH, _plus(1), _times(0.5)], True),
        ([_TANH, _plus(1), _times(127.5)], False),
        ([_TANH, ("linear_activation", {"alpha": np.float32(127.5), "beta": np.float32(127.5)})], False),
        ([_SIGMOID, _times(255)], False),
        ([_SIGMOID, ("real_div", {"y": np.float32(1 / 255)})], False),
        ([_SIGMOID, ("relu", {})], True),
        ([("clip", {"alpha": np.float32(0), "beta": np.float32(255)})], False),
        ([("relu", {})], False),
        ([("mul", {"y": np.float32(1 / 255)})], False),
    ],
    ids=str,
)
def test_ranges_of_the_last_operations(steps: list[tuple[str, dict[str, Any]]], is_dark: bool) -> None:
    assert len([*describe_dark_pictures(_model(*steps))]) == is_dark


def test_only_images_of_eight_bits_are_dark() -> None:
    assert not list(describe_dark_pictures(_model(_SIGMOID, is_image=False)))
    assert not list(describe_dark_pictures(_model(_SIGMOID, color="GRAYSCALE_FLOAT16")))


def test_the_finding_names_the_operation_and_the_scale() -> None:
    (found,) = describe_dark_pictures(_model(("tanh", {}), ("cast", {"dtype": "fp32"})))
    assert "multiply by 127.5 and add 127.5" in found


def test_all_views_show_the_finding() -> None:
    dark = _model(_SIGMOID)
    assert [finding.id for finding in describe_model(dark).findings] == ["dark-picture"]
    assert ("dark-picture", "needs care") in [(one.id, one.effect) for one in find_problems(dark)]
