"""Findings on models whose numbers do not fit into fp16."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import coremltools as ct
import msgspec.structs
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.base.findings import Finding
from coremlscope.formats.sample import sample_model
from coremlscope.measure.embedded.overflow import note_ranges
from coremlscope.model import ir
from coremlscope.results.measurement import Settings
from coremlscope.results.profile import Profile
from coremlscope.runtime.execution.ranges import OpRange
from tests.support.graphs import graph, op, tensor, value
from tests.support.ir_models import accumulator, perceptron
from tests.support.measuring import joined_rows, measure
from tests.support.programs import build

HALF = np.float16
ONCE = Settings(iterations=1, compile_iterations=1, load_iterations=1, warmups=0, precision="fp16")


def _profile(model: ir.Model, inputs: Mapping[str, np.ndarray] | None = None) -> Profile:
    return measure(model, ONCE, inputs=inputs)


def _findings_by_id(profile: Profile) -> dict[str, list[Finding]]:
    """Findings about fp16 by id."""
    found: dict[str, list[Finding]] = {}
    for finding in profile.all_findings:
        if finding.id.startswith("fp16-"):
            found.setdefault(finding.id, []).append(finding)
    return found


def _of(
    body: Callable[..., Any], inputs: Mapping[str, np.ndarray]
) -> tuple[Profile, dict[str, list[Finding]]]:
    profile = _profile(build(body, inputs, target=ct.target.iOS16), inputs)
    return profile, _findings_by_id(profile)


def _row(profile: Profile, kind: str) -> Any:
    (row,) = (row for row in joined_rows(profile) if row.type == kind)
    return row


def test_a_mask_that_fp16_cannot_represent() -> None:
    """Attention whose second row is masked altogether."""
    kept = np.array([[1, 1, 0], [0, 0, 0]], np.float32)

    def body(scores: Any, kept: Any) -> Any:
        absent = mb.mul(x=mb.sub(x=np.float32(1), y=kept), y=np.float32(-1e9))
        masked = mb.add(x=scores, y=mb.cast(x=absent, dtype="fp16", name="mask"))
        return mb.softmax(x=masked, axis=-1, name="weights")

    profile, findings = _of(body, {"scores": np.ones((2, 3), HALF), "kept": kept})
    assert list(findings) == ["fp16-rounded", "fp16-overflow", "fp16-nan"]
    (overflow,) = findings["fp16-overflow"]
    assert overflow.severity == "warning"
    assert "cast 'mask'" in overflow.text
    assert (
        "reaches 1e+09, and the largest fp16 number is 65504: 4 elements overflow to infinity"
        in overflow.text
    )
    assert "will overflow on the Neural Engine" in overflow.text
    assert overflow.hint.startswith("a value of -1e4 is enough for a mask; scale its arguments down, or keep")
    assert "op_selector=lambda op: op.name != 'mask'" in overflow.hint
    (nan,) = findings["fp16-nan"]
    assert "softmax 'weights'" in nan.text
    assert "in 3 elements" in nan.text
    assert _row(profile, "add").fp16_infinities == 4
    assert _row(profile, "softmax").fp16_nans == 3
    assert _row(profile, "mul").fp16_largest is None  # in fp32


def test_a_mask_that_fp16_can_represent() -> None:
    def body(scores: Any) -> Any:
        return mb.softmax(x=mb.add(x=scores, y=np.array([0, -1e4, 0], HALF)), axis=-1)

    _, findings = _of(body, {"scores": np.ones((2, 3), HALF)})
    assert list(findings) == ["fp16-rounded"]


def test_powers_overflow_from_twelve_on() -> None:
    def body(x: Any) -> Any:
        return mb.exp(x=x, name="power")

    profile, findings = _of(body, {"x": np.array([11, 11.0625, 12, 1000], HALF)})
    row = _row(profile, "exp")
    assert row.fp16_largest == pytest.approx(np.exp(12), rel=1e-6)
    assert (row.fp16_overflows, row.fp16_infinities) == (1, 1)  # e^1000 is beyond float32, too
    assert list(findings) == ["fp16-rounded", "fp16-overflow"]
    assert "one element overflows to infinity" in findings["fp16-overflow"][0].text
    assert "mask" not in findings["fp16-overflow"][0].hint


def test_quotients_of_zero_begin_infinity() -> None:
    def body(x: Any, y: Any) -> Any:
        return mb.relu(x=mb.real_div(x=x, y=y, name="ratio"))

    _, findings = _of(body, {"x": np.array([1, 2], HALF), "y": np.array([0, 1], HALF)})
    assert list(findings) == ["fp16-rounded", "fp16-infinity"]
    (infinity,) = findings["fp16-infinity"]
    assert "real_div 'ratio'" in infinity.text
    assert "in one element" in infinity.text
    assert "epsilon" in infinity.hint


def test_large_sums_have_their_own_finding() -> None:
    def body(x: Any) -> Any:
        return [mb.reduce_sum(x=x, axes=[0], name="sum"), mb.mul(x=x, y=HALF(4), name="scaled")]

    _, findings = _of(body, {"x": np.array([10000, 10000, 15000], HALF)})
    assert list(findings) == ["fp16-rounded", "fp16-sum", "fp16-near-overflow"]
    assert "reduce_sum 'sum'" in findings["fp16-sum"][0].text
    assert "32768" in findings["fp16-sum"][0].text
    assert "mul 'scaled'" in findings["fp16-near-overflow"][0].text
    assert findings["fp16-near-overflow"][0].severity == "info"


def test_a_healthy_network_has_no_warnings() -> None:
    profile = _profile(sample_model(size=64, width=0.25, classes=10))
    findings = _findings_by_id(profile)
    assert list(findings) == ["fp16-rounded"]
    assert "times are those of float32 arithmetic" in findings["fp16-rounded"][0].hint
    rounded = [row for row in joined_rows(profile) if row.fp16_largest is not None]
    assert len(rounded) > 90
    assert all(0 < (row.fp16_largest or 0) < 1000 for row in rounded)


def test_states_go_through_it_too() -> None:
    findings = _findings_by_id(_profile(accumulator(), {"x": np.array([7000, 1], HALF)}))
    assert [f.ops for f in findings["fp16-overflow"]] == [("main/3",)]


def test_a_program_in_fp32_is_said_to_round_nothing() -> None:
    profile = _profile(perceptron())
    assert list(_findings_by_id(profile)) == ["fp16-nothing-rounded"]
    assert {row.fp16_largest for row in joined_rows(profile)} == {None}


def test_fp32_profiles_have_no_fp16_findings() -> None:
    profile = measure(accumulator(), msgspec.structs.replace(ONCE, precision="fp32"))
    assert not _findings_by_id(profile)
    assert profile.measurement.fp16 is None


def test_json_keeps_the_ranges() -> None:
    profile = _profile(accumulator(), {"x": np.array([7000, 1], HALF)})
    data = json.loads(json.dumps(profile.to_json(), allow_nan=False))
    assert Profile.from_json(data) == profile
    assert data["measurements"][0]["fp16"]["overflows"][-1] == 1


# Where it begins


FP16 = tensor(2, dtype=ir.DType.FP16)


def _values(names: str) -> list[ir.Value]:
    return [value(name, FP16) for name in names]


def _infinite(op_id: str, count: int = 1) -> OpRange:
    return OpRange(id=op_id, largest=1.0, overflows=0, infinities=count, nans=0)


def _origins(body: ir.Graph, ranges: list[OpRange], **more: Any) -> list[str]:
    return [op_id for f in note_ranges([body], ranges, **more) if f.id == "fp16-infinity" for op_id in f.ops]


def test_infinity_is_followed_through_operations_that_are_not_rounded() -> None:
    x, a, c, d = _values("xacd")
    b = value("b", tensor(2))
    ops = (op("log", a, x=x), op("cast", b, x=a), op("cast", c, x=b), op("relu", d, x=c))
    body = graph("main", (x,), ops, (d,))
    assert _origins(body, [_infinite("a"), _infinite("c"), _infinite("d")]) == ["a"]
    assert _origins(body, [_infinite("a", 0), _infinite("c"), _infinite("d")]) == ["c"]
    assert _origins(body, [_infinite("a"), _infinite("c")], unused=frozenset({"a"})) == ["c"]


def test_infinity_is_followed_through_loops_and_branches() -> None:
    x, start, a, again, b, loop, c, d, e = _values("xsagblcde")
    go, more = value("go", tensor(dtype=ir.DType.BOOL)), value("more", tensor(dtype=ir.DType.BOOL))
    condition = graph("cond", (a,), (op("less", go, x=a, y=x),), (go,))
    body = graph("body", (again,), (op("mul", b, x=again, y=again),), (b,))
    branches = (graph("true", (), (op("relu", c, x=loop),), (c,)), graph("false", (), (), (x,)))
    ops = (
        op("log", start, x=x),
        op("while_loop", loop, blocks=(condition, body), loop_vars=(start,)),
        op("less", more, x=x, y=x),
        op("cond", d, blocks=branches, pred=more),
        op("abs", e, x=d),
    )
    whole = graph("main", (x,), ops, (e,))
    rows = [_infinite("s"), _infinite("b"), _infinite("c"), _infinite("e")]
    assert _origins(whole, rows) == ["s"]
    assert _origins(whole, rows[1:]) == ["b"]
    assert _origins(whole, rows[2:]) == ["c"]
    assert _origins(whole, rows[3:]) == ["e"]


def test_operations_that_feed_each_other_have_one_origin() -> None:
    x, a, again, b, c, loop = _values("xagbcl")
    go = value("go", tensor(dtype=ir.DType.BOOL))
    condition = graph("cond", (a,), (op("less", go, x=a, y=x),), (go,))
    body = graph("body", (again,), (op("exp", b, x=again), op("relu", c, x=b)), (c,))
    ops = (op("while_loop", loop, blocks=(condition, body), loop_vars=(x,)),)
    assert _origins(graph("main", (x,), ops, (loop,)), [_infinite("b"), _infinite("c")]) == ["b"]


def test_many_operations_share_a_finding_and_the_worst_come_first() -> None:
    x, *results = _values("xabcdefg")
    ops = tuple(op("exp", result, x=x) for result in results)
    rows = [
        OpRange(id=v.name, largest=1e5 + index, overflows=1, infinities=0, nans=0)
        for index, v in enumerate(results)
    ]
    found = [f for f in note_ranges([graph("main", (x,), ops, ())], rows) if f.id == "fp16-overflow"]
    assert [f.ops for f in found] == [("g",), ("f",), ("e",), ("d",), ("c",), ("b", "a")]
    assert "2 more operations" in found[-1].text
