"""Findings on values of Core AI, on bundles that are written here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import coremlscope
from coremlscope.formats import container
from coremlscope.planning.advice import VALUE_RULES, bind_default_function, find_remarks
from tests.support.aicode import Body, Graph, Type, Val, tensor, write_bundle

_Case = tuple[Sequence[Type], Callable[..., Sequence[Val]]]


def _argmax(dtype: str) -> _Case:
    def body(b: Body, x: Val) -> Sequence[Val]:
        return [b.op("argmax", [x, b.constant(1)], [tensor("int32", 1, 1, 8)])]

    return [tensor(dtype, 1, 4, 8)], body


def _scores() -> _Case:
    def body(b: Body, x: Val) -> Sequence[Val]:
        return [b.op("softmax", [x, b.constant(1)], [x.type])]

    return [tensor("fp16", 1, 4, 8)], body


def _floor(dtype: str, divisor: float) -> _Case:
    def body(b: Body, x: Val) -> Sequence[Val]:
        return [b.op("broadcasting_floor_divide", [x, b.constant(divisor, dtype)], [x.type])]

    return [tensor(dtype, 2, 8)], body


def _unary(name: str) -> _Case:
    def body(b: Body, x: Val) -> Sequence[Val]:
        return [b.op(name, [x], [x.type])]

    return [tensor("fp16", 2, 8)], body


def _hard_swish(dtype: str, *lead: int, of_layer: bool = True) -> _Case:
    def body(b: Body, x: Val) -> Sequence[Val]:
        layer = x
        if of_layer:
            weight = b.constant(np.ones((16, 16)), dtype)
            layer = b.op("broadcasting_batch_matmul", [x, weight], [x.type])
        gate = b.call("gate", [layer], [x.type])
        return [b.op("broadcasting_mul", [layer, gate], [x.type])]

    return [tensor(dtype, *lead, 16)], body


def _points(dtype: str, *, sorts: bool = True, has_sigmoid: bool = True) -> _Case:
    def body(b: Body, places: Val, visible: Val, scores: Val) -> Sequence[Val]:
        moved = b.op("abs", [places], [places.type])
        seen = b.op("sigmoid" if has_sigmoid else "abs", [visible], [visible.type])
        joined = b.op("concat", [b.constant(2), moved, seen], [tensor(dtype, 1, 4, 3, 8)])
        if not sorts:
            return [joined]
        order = [scores, b.constant(1), b.constant(True), b.constant(True)]
        return [joined, b.op("argsort", order, [tensor("int32", 1, 8)])]

    return [tensor(dtype, 1, 4, 2, 8), tensor(dtype, 1, 4, 1, 8), tensor(dtype, 1, 8)], body


#: For each rule: programs that show it, and programs that must not.
_CASES: dict[str, tuple[list[_Case], list[_Case]]] = {
    "core-ai-argmax": ([_argmax("fp16")], [_argmax("fp32"), _scores()]),
    "core-ai-rounding": (
        [_floor("fp16", 1), _floor("fp32", 1)],
        [_floor("fp16", 2), _floor("int32", 1), _unary("round")],
    ),
    "core-ai-ties": ([_unary("round")], [_floor("fp16", 1), _unary("abs")]),
    "core-ai-hard-swish": (
        [_hard_swish("fp16", 2)],
        [_hard_swish("fp32", 2), _hard_swish("fp16", 1, 1, 2), _hard_swish("fp16", 2, of_layer=False)],
    ),
    "core-ai-points": (
        [_points("fp16")],
        [_points("fp32"), _points("fp16", sorts=False), _points("fp16", has_sigmoid=False)],
    ),
}


def _write(folder: Path, case: _Case) -> Path:
    types, body = case
    inputs = {f"x{place}": type_ for place, type_ in enumerate(types)}

    def gate(b: Body, x: Val) -> Sequence[Val]:
        return [b.op("sigmoid", [x], [x.type])]

    composite = ("hard_sigmoid", ["input"], {})
    graphs = [Graph("main", inputs, body, outputs=[f"y{place}" for place in range(2)])]
    gates = {"x": types[0]}
    graphs.append(Graph("gate", gates, gate, composite=composite, is_private=True))
    return write_bundle(folder / "net.aimodel", graphs)


def _found(path: Path) -> set[str]:
    return {remark.rule.id for remark in find_remarks(bind_default_function(container.read(path)))}


def test_every_rule_has_programs() -> None:
    assert list(_CASES) == [rule.id for rule in VALUE_RULES]
    assert all(rule.settings and "cpu_only" not in rule.settings for rule in VALUE_RULES)


@pytest.mark.parametrize(("rule", "place"), [(r, k) for r in _CASES for k in range(len(_CASES[r][0]))])
def test_a_program_shows_the_rule(rule: str, place: int, tmp_path: Path) -> None:
    assert _found(_write(tmp_path, _CASES[rule][0][place])) == {rule}


@pytest.mark.parametrize(("rule", "place"), [(r, k) for r in _CASES for k in range(len(_CASES[r][1]))])
def test_a_program_must_not_show_the_rule(rule: str, place: int, tmp_path: Path) -> None:
    assert rule not in _found(_write(tmp_path, _CASES[rule][1][place]))


@pytest.mark.parametrize(
    ("setting", "expected"),
    [("all", ["core-ai-hard-swish"]), ("cpu_and_gpu", []), ("cpu_only", [])],
)
def test_plans_warn_under_settings_that_use_the_unit(
    setting: coremlscope.ComputeUnits, expected: list[str], tmp_path: Path
) -> None:
    path = _write(tmp_path, _CASES["core-ai-hard-swish"][0][0])
    found = coremlscope.plan(path, "iphone-17-pro", compute_units=setting).findings
    assert [finding.id for finding in found] == expected
    for finding in found:
        assert finding.severity == "warning"
        assert finding.source == "apple/coreai-torch issue 51"
        assert finding.savings == ()
