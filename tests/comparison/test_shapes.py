"""Shapes at which a Core AI model without sizes is compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from coremlscope import api
from coremlscope.api.shapes import choose_shapes
from coremlscope.measure.effort import Effort
from tests.support.aicode import Body, Graph, Val, tensor, write_bundle


def _write(path: Path, *dims: int | None, name: str = "x") -> Path:
    def body(b: Body, x: Val) -> Sequence[Val]:
        return [b.op("relu", [x], [x.type])]

    return write_bundle(path, [Graph("main", {name: tensor("fp32", *dims)}, body)])


def test_sizes_are_those_of_the_other_model(tmp_path: Path) -> None:
    fixed = _write(tmp_path / "fixed.aimodel", 2, 5)
    variable = _write(tmp_path / "variable.aimodel", None, 5)
    assert choose_shapes([api.read(fixed), api.read(variable)], None, {}) == {"x": (2, 5)}
    assert choose_shapes([api.read(fixed), api.read(variable)], None, {"x": [3, 5]}) == {"x": (3, 5)}
    comparison = api.compare(fixed, variable, iterations=2, effort=Effort(warmups=0))
    before, after = (subject.facts["FLOPs"] for subject in comparison.subjects)
    assert before == after != "80.0"


@pytest.mark.parametrize(("dims", "name"), [((2, 5, 1), "x"), ((2, 6), "x"), ((2, 5), "y")])
def test_inputs_that_do_not_fit_are_left_alone(dims: tuple[int, ...], name: str, tmp_path: Path) -> None:
    fixed = _write(tmp_path / "fixed.aimodel", *dims, name=name)
    variable = _write(tmp_path / "variable.aimodel", None, 5)
    assert choose_shapes([api.read(fixed), api.read(variable)], None, {}) == {}
