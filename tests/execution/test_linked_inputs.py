"""Flexible inputs that share a dimension get the same size."""

from __future__ import annotations

import pytest

from coremlscope import api
from coremlscope.base.errors import InputError
from coremlscope.model import ir
from coremlscope.runtime.execution.sequence_lengths import choose_lengths, length_findings
from tests.support.ir_models import array_feature, model

RANGE = ir.RangeShapes(((1, 1), (1, 64)))
LISTED = ir.EnumeratedShapes(((1, 8), (1, 16), (1, 32)))


def joined(kind: str, first: ir.ShapeFlexibility, second: ir.ShapeFlexibility, default: int = 8) -> ir.Model:
    """A model that adds two flexible inputs, or joins them along their flexible axis."""
    flexible = ir.TensorType(ir.DType.FP32, (1, None))
    x, y, z = (ir.Value(name, flexible) for name in "xyz")
    inputs: dict[str, tuple[ir.Argument, ...]] = {"x": (x,), "y": (y,)}
    if kind == "concat":
        inputs = {"values": (x, y), "axis": (ir.constant(1),), "interleave": (ir.constant(False),)}
    op = ir.Op(id="main/0", type=kind, inputs=inputs, outputs=(z,))
    return model(
        [
            array_feature("x", (1, default), flexibility=first),
            array_feature("y", (1, default), flexibility=second),
        ],
        [array_feature("z", ())],
        {"main": ir.Graph(name="main", inputs=(x, y), ops=(op,), outputs=(z,))},
    )


@pytest.mark.parametrize("default", [1, 8])
@pytest.mark.parametrize("flexibility", [RANGE, LISTED])
def test_an_input_that_must_agree_gets_the_size(flexibility: ir.ShapeFlexibility, default: int) -> None:
    shapes = choose_lengths(joined("add", flexibility, flexibility, default), None, {"x": (1, 16)})
    assert shapes == {"x": (1, 16), "y": (1, 16)}


def test_an_input_that_need_not_agree_keeps_its_default() -> None:
    assert choose_lengths(joined("concat", RANGE, RANGE), None, {"x": (1, 16)}) == {"x": (1, 16)}


def test_given_shapes_are_kept() -> None:
    asked = {"x": (1, 16), "y": (1, 1)}
    assert choose_lengths(joined("add", RANGE, RANGE), None, asked) == asked


def test_shapes_that_do_not_fit_are_refused() -> None:
    linked = joined("add", RANGE, RANGE)
    with pytest.raises(InputError, match="does not fit the shapes x 1×16, y 1×12") as both:
        choose_lengths(linked, None, {"x": (1, 16), "y": (1, 12)})
    assert both.value.hint == "give shapes that agree"
    with pytest.raises(InputError) as one:
        choose_lengths(joined("add", RANGE, LISTED), None, {"x": (1, 16)})
    assert one.value.hint == "give the shape of y as well"


def test_plans_and_estimates_say_so() -> None:
    linked = joined("add", RANGE, RANGE)
    planned = api.plan(linked, "m1", shapes={"x": (1, 16)}).findings
    (assumed,) = [one for one in planned if one.id == "assumed-shapes"]
    assert "x 1×16 of 1×(1…64), y 1×16 of 1×(1…64)" in assumed.text
    findings = api.estimate(linked, "m1", shapes={"x": (1, 16)}).findings
    (finding,) = [one for one in findings if one.id == "linked-shapes"]
    assert finding.text.endswith("which therefore changed: 'y' to 1×16.")
    assert length_findings(linked, ["x", "y"], {"x": (1, 16), "y": (1, 16)}) == ()
