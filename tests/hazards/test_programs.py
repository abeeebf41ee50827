"""What Core ML's validator requires of a program, each with a model that breaks it and one next to it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coremlscope.model import ir
from coremlscope.planning.hazards import programs
from coremlscope.planning.hazards.find import find_in_model
from tests.support.graphs import op, tensor, value
from tests.support.ir_models import array_feature, model

_SHAPE = (1, 4)


def _chain(
    *,
    inputs: tuple[str, ...] = ("x",),
    reads: str = "x",
    made: tuple[str, ...] = ("h", "y"),
    returned: str = "y",
    described: tuple[str, str] = ("x", "y"),
    shape: tuple[int, ...] = _SHAPE,
) -> ir.Model:
    """Two activations in a row, or a program next to it."""
    values = {name: value(name, tensor(*_SHAPE)) for name in {*inputs, reads, *made, returned}}
    ops = (op("relu", values[made[0]], x=values[reads]), op("tanh", values[made[1]], x=values[made[0]]))
    body = ir.Graph(
        name="main", inputs=tuple(values[name] for name in inputs), ops=ops, outputs=(values[returned],)
    )
    features = [array_feature(described[0], shape)], [array_feature(described[1], _SHAPE)]
    return model(*features, {"main": body})


_ROWS: dict[str, Callable[[], ir.Model]] = {
    "refused-undefined-value": lambda: _chain(reads="nowhere"),
    "refused-repeated-name": lambda: _chain(made=("y", "y")),
    "passed-input": lambda: _chain(returned="x", described=("x", "x")),
    "refused-other-name": lambda: _chain(described=("image", "y")),
    "refused-other-type": lambda: _chain(shape=(1, 5)),
}


def _ids(one: ir.Model) -> list[str]:
    return [hazard.id for hazard in find_in_model(one)]


def test_every_row_has_a_model() -> None:
    assert set(_ROWS) == {row.id for row in programs.HAZARDS}
    assert _ids(_chain()) == []


@pytest.mark.parametrize("row", _ROWS)
def test_a_broken_rule(row: str) -> None:
    assert _ids(_ROWS[row]()) == [row]


def test_flexible_shapes_may_stand_for_unknown_ones() -> None:
    ranged = array_feature("x", _SHAPE, flexibility=ir.RangeShapes(((1, 8), (4, 4))))
    wide = array_feature("x", _SHAPE, flexibility=ir.RangeShapes(((1, 8), (5, 5))))
    values = value("x", tensor(None, 4)), value("y", tensor(None, 4))
    body = ir.Graph(
        name="main", inputs=values[:1], ops=(op("relu", values[1], x=values[0]),), outputs=values[1:]
    )
    for feature, is_refused in ((ranged, False), (wide, True)):
        found = _ids(model([feature], [array_feature("y", _SHAPE)], {"main": body}))
        assert ("refused-other-type" in found) is is_refused
