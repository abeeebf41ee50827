"""Branches and loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.model import ir
from coremlscope.ops import OPS, control
from coremlscope.ops.bind import BoundFunction, bind, simulation_effort
from coremlscope.ops.control import trip_count, trip_limit
from coremlscope.ops.view import OpView
from tests.support.graphs import function, graph, op, tensor, value
from tests.support.programs import bind_main, build, run

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def _only(bound: BoundFunction, kind: str) -> OpView:
    (view,) = (view for view in bound.graph.ops if view.op.type == kind)
    return view


# cond


def _branches(x: Any, flag: Any) -> Any:
    captured = mb.add(x=x, y=10.0)
    return mb.cond(
        pred=flag,
        _true_fn=lambda: (mb.mul(x=captured, y=2.0), captured),
        _false_fn=lambda: (mb.sub(x=x, y=1.0), mb.add(x=x, y=x)),
    )


@pytest.mark.parametrize("taken", [True, False])
def test_cond_runs_one_branch(taken: bool) -> None:
    def body(x: Any, flag: Any) -> Any:
        return _branches(x, mb.squeeze(x=mb.cast(x=flag, dtype="bool"), axes=[0]))

    one, two = run(body, {"x": X, "flag": np.array([taken], np.float32)})
    expected = ((X + 10) * 2, X + 10) if taken else (X - 1, X + X)
    np.testing.assert_array_equal(one, expected[0])
    np.testing.assert_array_equal(two, expected[1])


def test_a_branch_that_is_known_is_lowered_alone() -> None:
    results = run(lambda x: _branches(x, False), {"x": X})
    np.testing.assert_array_equal(results[0], X - 1)
    view = _only(bind_main(build(lambda x: _branches(x, False), {"x": X})), "cond")
    work = OPS["cond"].work(view)
    assert work.flops == 2 * X.size
    assert work.is_complete


def test_work_of_a_branch_that_is_not_known_is_the_least() -> None:
    def body(x: Any, flag: Any) -> Any:
        return mb.cond(
            pred=mb.squeeze(x=mb.cast(x=flag, dtype="bool"), axes=[0]),
            _true_fn=lambda: mb.add(x=mb.mul(x=x, y=2.0), y=x),
            _false_fn=lambda: mb.mul(x=x, y=2.0),
        )

    view = _only(bind_main(build(body, {"x": X, "flag": np.ones(1, np.float32)})), "cond")
    work = OPS["cond"].work(view)
    assert work.flops == X.size
    assert not work.is_complete


# while_loop


def test_nested_loops() -> None:
    def inner(i: Any, total: Any) -> Any:
        return mb.while_loop(
            _cond=lambda j, _: mb.less(x=j, y=i),
            _body=lambda j, total: (mb.add(x=j, y=1), mb.add(x=total, y=x_of["x"])),
            loop_vars=(0, total),
        )[1]

    x_of: dict[str, Any] = {}

    def body(x: Any) -> Any:
        x_of["x"] = x
        return mb.while_loop(
            _cond=lambda i, _: mb.less(x=i, y=4),
            _body=lambda i, total: (mb.add(x=i, y=1), inner(i, total)),
            loop_vars=(0, mb.mul(x=x, y=0.0)),
        )

    count, total = run(body, {"x": X})
    assert count == 4
    np.testing.assert_array_equal(total, X * (0 + 1 + 2 + 3))


def test_a_loop_that_never_runs_hands_on_what_it_was_given() -> None:
    def body(x: Any) -> Any:
        return mb.while_loop(
            _cond=lambda i, _: mb.less(x=i, y=0),
            _body=lambda i, x: (mb.add(x=i, y=1), mb.mul(x=x, y=2.0)),
            loop_vars=(3, x),
        )

    count, same = run(body, {"x": X})
    assert count == 3
    np.testing.assert_array_equal(same, X)


def test_a_loop_may_change_a_shape() -> None:
    def body(x: Any) -> Any:
        return mb.while_loop(
            _cond=lambda i, _: mb.less(x=i, y=3),
            _body=lambda i, x: (mb.add(x=i, y=1), mb.concat(values=[x, x], axis=0)),
            loop_vars=(0, x),
        )[1]

    (result,) = run(body, {"x": X})
    np.testing.assert_array_equal(result, np.tile(X, (8, 1)))


def test_a_branch_in_a_loop_in_a_branch() -> None:
    def step(i: Any, x: Any) -> Any:
        even = mb.equal(x=mb.mod(x=i, y=2), y=0)
        grown = mb.cond(pred=even, _true_fn=lambda: mb.add(x=x, y=1.0), _false_fn=lambda: mb.mul(x=x, y=3.0))
        return mb.add(x=i, y=1), grown

    def body(x: Any, flag: Any) -> Any:
        def looped() -> Any:
            return mb.while_loop(_cond=lambda i, _: mb.less(x=i, y=4), _body=step, loop_vars=(0, x))[1]

        pred = mb.squeeze(x=mb.cast(x=flag, dtype="bool"), axes=[0])
        return mb.cond(pred=pred, _true_fn=looped, _false_fn=lambda: mb.identity(x=x))

    (result,) = run(body, {"x": X, "flag": np.ones(1, np.float32)})
    np.testing.assert_array_equal(result, ((X + 1) * 3 + 1) * 3)


def test_the_trips_of_a_condition_that_reads_the_data_are_unknown_but_limited() -> None:
    def body(x: Any) -> Any:
        return mb.while_loop(
            _cond=lambda i, a: mb.logical_and(
                x=mb.less(x=i, y=9), y=mb.less(x=mb.reduce_sum(x=a, axes=[0, 1], keep_dims=False), y=100.0)
            ),
            _body=lambda i, a: (mb.add(x=i, y=1), mb.mul(x=a, y=2.0)),
            loop_vars=(np.int32(0), x),
        )

    view = _only(bind_main(build(body, {"x": X})), "while_loop")
    assert (trip_count(view), trip_limit(view)) == (None, 9)


Test = Callable[[Any], Any]


@pytest.mark.parametrize(
    ("start", "condition", "change", "passes"),
    [
        (0, lambda i: mb.less(x=i, y=10), lambda i: mb.add(x=i, y=3), 4),
        (0, lambda i: mb.less_equal(x=i, y=9), lambda i: mb.add(x=3, y=i), 4),
        (0, lambda i: mb.greater(x=10, y=i), lambda i: mb.add(x=i, y=5), 2),
        (7, lambda i: mb.greater(x=i, y=0), lambda i: mb.sub(x=i, y=2), 4),
        (8, lambda i: mb.greater_equal(x=i, y=0), lambda i: mb.sub(x=i, y=2), 5),
        (0, lambda i: mb.not_equal(x=i, y=6), lambda i: mb.add(x=i, y=2), 3),
        (5, lambda i: mb.less(x=i, y=5), lambda i: mb.add(x=i, y=1), 0),
        (1, lambda i: mb.less(x=i, y=100), lambda i: mb.mul(x=i, y=2), 7),
        (0, lambda i: mb.not_equal(x=i, y=5), lambda i: mb.add(x=i, y=2), None),
        (
            0,
            lambda i: mb.logical_and(x=mb.less(x=i, y=9), y=mb.less(x=i, y=4)),
            lambda i: mb.add(x=i, y=1),
            4,
        ),
    ],
)
def test_trip_counts(start: int, condition: Test, change: Test, passes: int | None) -> None:
    def body(x: Any) -> Any:
        return mb.while_loop(
            _cond=lambda i, _: condition(i),
            _body=lambda i, x: (change(i), mb.add(x=mb.mul(x=x, y=2.0), y=x)),
            loop_vars=(np.int32(start), x),
        )

    view = _only(bind_main(build(body, {"x": X})), "while_loop")
    assert trip_count(view) == passes
    work = OPS["while_loop"].work(view)
    assert work.is_complete == (passes is not None)
    if passes is not None:
        ands = 3 if len(view.blocks[0].ops) > 4 else 1
        assert work.flops == passes * (2 * X.size + 1) + (passes + 1) * ands


def test_content_that_a_loop_hands_on_stays_known() -> None:
    def body(x: Any) -> Any:
        return mb.while_loop(
            _cond=lambda i, *_: mb.less(x=i, y=3),
            _body=lambda i, shape, x: (mb.add(x=i, y=1), shape, mb.reshape(x=x, shape=shape)),
            loop_vars=(0, np.array([3, 2], np.int32), mb.reshape(x=x, shape=[3, 2])),
        )[2]

    view = _only(bind_main(build(body, {"x": X})), "while_loop")
    reshape = next(inner for inner in view.blocks[1].ops if inner.op.type == "reshape")
    assert reshape.outputs[0].type == ir.TensorType(ir.DType.FP32, (3, 2))


def test_all_loops_of_a_function_share_the_effort_of_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_MOST_SIMULATED", 400)
    monkeypatch.setattr(control, "_MOST_IN_ALL", 600)
    start, limit = ir.constant(np.float32(0)), 1e9
    ops: list[ir.Op] = []
    for k in range(8):
        c, b = value(f"c{k}", tensor()), value(f"b{k}", tensor())
        going, same = value(f"going{k}", tensor(dtype=ir.DType.BOOL)), value(f"same{k}", tensor())
        more = value(f"more{k}", tensor())
        condition = graph("cond", (c,), (op("less", going, x=c, y=limit),), (going,))
        body = graph("body", (b,), (op("mul", same, x=b, y=1.0), op("add", more, x=same, y=1.0)), (more,))
        ops.append(op("while_loop", value(f"r{k}", tensor()), blocks=(condition, body), loop_vars=start))
    bound = bind(function((), tuple(ops), ops[-1].outputs), OPS)
    assert [trip_count(view) for view in bound.graph.ops] == [None] * 8
    assert simulation_effort(bound.graph.ops[0]).bound < 800  # 3,200 if each had its own
