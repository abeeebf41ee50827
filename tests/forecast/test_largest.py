"""Memory that an app does not get is told, at the planned and at the largest shapes."""

from __future__ import annotations

import pytest

from coremlscope import api
from coremlscope.devices.app_limits import app_limit, load_app_limits
from coremlscope.model import ir
from coremlscope.planning.forecast.largest import largest_shapes
from tests.support.graphs import graph, op, tensor, value
from tests.support.ir_models import adder, array_feature, model

_ROWS = 2**20


def activations(rows: int | None, flexibility: ir.ShapeFlexibility | None = None) -> ir.Model:
    """Activations of rows of 1,024 half floats: 2 GiB for 2**20 of them."""
    first, second, third = (value(name, tensor(1, 1, rows, 1024, dtype=ir.DType.FP16)) for name in "xyz")
    ops = (op("relu", second, x=first), op("tanh", third, x=second))
    return model(
        [array_feature("x", (1, 1, rows or 8, 1024), ir.DType.FP16, flexibility)],
        [array_feature("z", (), ir.DType.FP16)],
        {"main": graph("main", (first,), ops, (third,))},
    )


@pytest.mark.parametrize(
    ("rows", "device", "is_short"),
    [
        (_ROWS, "iphone-14", True),
        (_ROWS // 2, "iphone-14", False),
        (_ROWS, "iphone-16", True),
        (_ROWS, "m1", False),
    ],
)
def test_a_prediction_that_no_app_has_the_memory_for(rows: int, device: str, is_short: bool) -> None:
    for found in (api.plan(activations(rows), device), api.estimate(activations(rows), device)):
        assert ("out-of-memory" in {one.id for one in found.all_findings}) is is_short


def test_what_an_app_gets_is_measured_there_or_on_a_device_with_as_much_memory() -> None:
    limits = {one.device: app_limit(one.device) for one in load_app_limits()}
    assert all(one is not None and one.limit_bytes for one in limits.values())
    measured, derived = limits["iPhone 13 Pro"], limits["iPhone 14"]
    assert measured is not None
    assert derived is not None
    assert derived.limit_bytes == measured.limit_bytes
    assert derived.source.startswith("that of an iPhone 13 Pro")
    assert app_limit("M1") is None


def test_the_largest_shapes() -> None:
    assert largest_shapes(adder(ir.EnumeratedShapes(((2, 3), (9, 3), (4, 3)))), None) == {"x": (9, 3)}
    assert largest_shapes(adder(ir.RangeShapes(((1, 8), (3, 3)))), None) == {"x": (8, 3)}
    assert largest_shapes(adder(ir.RangeShapes(((1, -1), (3, 3)))), None) == {}
    assert largest_shapes(adder(), None) == {}


@pytest.mark.parametrize("most", [64, _ROWS])
def test_figures_of_the_largest_shapes_are_told(most: int) -> None:
    flexible = activations(None, ir.RangeShapes(((1, 1), (1, 1), (8, most), (1024, 1024))))
    found = api.estimate(flexible, "iphone-14")
    ids = [one.id for one in found.all_findings]
    assert ids.count("largest-shapes") == (most == 64)
    assert "out-of-memory" not in ids
    asked = api.estimate(flexible, "iphone-14", shapes={"x": (1, 1, most, 1024)})
    assert "largest-shapes" not in {one.id for one in asked.all_findings}


def test_enumerated_shapes_take_the_memory_of_the_largest() -> None:
    sizes = ir.EnumeratedShapes(((1, 1, 8, 1024), (1, 1, 200_000, 1024)))
    (finding,) = (
        one for one in api.plan(activations(None, sizes), "m1").all_findings if one.id == "largest-shapes"
    )
    assert finding.source == "apple/coremltools issue 1249"
