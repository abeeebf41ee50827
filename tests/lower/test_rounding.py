"""Lowered programs that round fp16 results, compared with NumPy in fp16."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import coremltools as ct
import msgspec.structs
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.model import ir
from coremlscope.ops.lower import lower
from coremlscope.runtime.execution.ranges import OpRange, read_ranges
from tests.support.ir_models import accumulator
from tests.support.programs import bind_main, build, run_onnx

HALF = np.float16


def _run(
    model: ir.Model, inputs: Mapping[str, np.ndarray], **more: Any
) -> tuple[list[np.ndarray], list[OpRange]]:
    """The outputs of the rounding program, and the ranges of its operations."""
    program = lower(bind_main(model), "fp16")
    port = program.ranges
    assert port is not None
    ranges = msgspec.structs.replace(program.outputs[0], name="ranges", value=port.value)
    results = run_onnx(msgspec.structs.replace(program, outputs=(*program.outputs, ranges)), inputs, **more)
    rows = read_ranges(port, {port.value: results.pop("ranges")})
    return list(results.values()), list(rows)


def _check(body: Callable[..., Any], inputs: Mapping[str, np.ndarray], target: Any = ct.target.iOS16) -> Any:
    model = build(body, inputs, target=target)
    results, rows = _run(model, inputs)
    types = {op.id: op.type for op in bind_main(model).graph.graph.walk()}
    return results, [(types[row.id], row) for row in rows]


def test_results_are_rounded_before_the_next_operation() -> None:
    x = np.array([2048, 1, 1 / 3, -0.1, 60000, 3e-5], HALF)
    y = np.array([1, 2**-11, 3, 0.7, 5535, 3e-4], HALF)

    def body(x: Any, y: Any) -> Any:
        sum_ = mb.add(x=x, y=y)
        product = mb.mul(x=sum_, y=y)
        return [mb.sub(x=sum_, y=x), product, mb.sub(x=product, y=y)]

    with np.errstate(over="ignore"):
        sum_ = x + y
        product = sum_ * y
        expected = [sum_ - x, product, product - y]
    results, _ = _check(body, {"x": x, "y": y})
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted.astype(np.float32))
    assert results[0][0] == 0  # 2048 + 1 is 2048
    assert np.isinf(results[1][4])
    plain = run_onnx(lower(bind_main(build(body, {"x": x, "y": y}))), {"x": x, "y": y})
    assert next(iter(plain.values()))[0] == 1


def test_functions_are_rounded_to_the_nearest() -> None:
    x = np.random.default_rng(0).normal(0, 4, (5, 7)).astype(HALF)

    def body(x: Any) -> Any:
        return [mb.exp(x=x), mb.softmax(x=x, axis=-1), mb.reduce_sum(x=x, axes=[1])]

    wide = x.astype(np.float32)
    power = np.exp(wide - wide.max(1, keepdims=True))
    expected = [np.exp(wide), power / power.sum(1, keepdims=True), wide.sum(1)]
    results, _ = _check(body, {"x": x})
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, result.astype(HALF))
        np.testing.assert_array_max_ulp(result.astype(HALF), wanted.astype(HALF), 1)


def test_ranges_are_recorded_before_rounding() -> None:
    x = np.array([[300, -200, 0], [256, 10, 1]], HALF)
    _, rows = _check(lambda x: mb.sub(x=mb.mul(x=x, y=x), y=mb.mul(x=x, y=HALF(400))), {"x": x})
    (first, product), (_, other), (_, difference) = rows
    assert first == "mul"
    assert (product.largest, product.overflows, product.infinities, product.nans) == (90000, 2, 0, 0)
    assert (other.largest, other.overflows) == (120000, 3)
    # ∞ − ∞, 40000 + ∞, 0 − 0, ∞ − ∞, 100 − 4000, 1 − 400
    assert (difference.largest, difference.overflows) == (3900, 0)
    assert (difference.infinities, difference.nans) == (1, 2)


def test_numbers_just_above_the_largest_round_down() -> None:
    x = np.array([65504, 65504, 65504], HALF)
    results, rows = _check(lambda x: mb.add(x=x, y=np.array([15, 16, -65504], HALF)), {"x": x})
    np.testing.assert_array_equal(results[0], [65504, np.inf, 0])
    assert [(row.largest, row.overflows) for _, row in rows] == [(65520, 1)]


def test_only_results_declared_as_fp16_are_rounded() -> None:
    x = np.array([70000, 1 + 2**-12], np.float32)

    def body(x: Any) -> Any:
        return [mb.mul(x=x, y=np.float32(2)), mb.cast(x=mb.cast(x=x, dtype="fp16"), dtype="fp32")]

    (wide, narrow), rows = _check(body, {"x": x})
    np.testing.assert_array_equal(wide, x * 2)
    np.testing.assert_array_equal(narrow, [np.inf, 1])
    assert [(kind, row.overflows) for kind, row in rows] == [("cast", 1)]


def test_ranges_of_branches_and_loops() -> None:
    x = np.array([3, -5], HALF)

    def loop(x: Any) -> Any:
        return mb.while_loop(
            _cond=lambda a: mb.less(x=mb.reduce_max(x=mb.abs(x=a), axes=[0], keep_dims=False), y=HALF(60000)),
            _body=lambda a: mb.mul(x=a, y=HALF(16)),
            loop_vars=(x,),
        )

    def body(x: Any) -> Any:
        is_large = mb.greater(x=mb.reduce_max(x=x, axes=[0], keep_dims=False), y=HALF(2))
        branch = mb.cond(
            pred=is_large,
            _true_fn=lambda: mb.mul(x=x, y=HALF(20000)),
            _false_fn=lambda: mb.add(x=x, y=HALF(1)),
        )
        return [branch, loop(x)]

    (branch, looped), rows = _check(body, {"x": x})
    np.testing.assert_array_equal(branch, [60000, -np.inf])
    np.testing.assert_array_equal(looped, [np.inf, -np.inf])
    found = {(row.id.split("/")[2], kind): row for kind, row in rows if row.id.count("/") == 3}
    assert (found["true", "mul"].largest, found["true", "mul"].overflows) == (100000, 1)
    assert found["false", "add"].largest is None
    # 5, 80, 1280, 20480 and 327680: the ranges cover all iterations and the condition.
    assert (found["body", "mul"].largest, found["body", "mul"].overflows) == (5 * 16**4, 2)
    assert (found["cond", "abs"].largest, found["cond", "abs"].infinities) == (5 * 16**3, 2)
    assert (found["cond", "reduce_max"].largest, found["cond", "reduce_max"].infinities) == (5 * 16**3, 1)


def test_empty_tensors_have_no_largest_magnitude() -> None:
    x = np.zeros((2, 3), np.float32)

    def body(x: Any) -> Any:
        places = mb.non_zero(x=x)
        return mb.cast(x=mb.cast(x=places, dtype="fp16"), dtype="fp32")

    _, rows = _check(body, {"x": x})
    assert [(row.largest, row.overflows, row.nans) for _, row in rows] == [(None, 0, 0)]


def test_states_hold_rounded_values() -> None:
    states = {"total": np.array([60000, 2048], np.float32)}
    (result,), rows = _run(accumulator(), {"x": np.array([10000, 1], HALF)}, states=states)
    np.testing.assert_array_equal(states["total"], [np.inf, 2048])
    np.testing.assert_array_equal(result, [np.inf, 20480])
    assert [(row.id, row.overflows, row.infinities) for row in rows] == [("main/1", 1, 0), ("main/3", 0, 1)]


def test_operations_that_move_elements_do_not_round() -> None:
    x = np.array([[1, 70000 / 3]], HALF)

    def body(x: Any) -> Any:
        moved = mb.transpose(x=mb.concat(values=(x, mb.mul(x=x, y=HALF(3))), axis=0), perm=[1, 0])
        return mb.slice_by_index(x=moved, begin=[0, 1], end=[2, 2])

    (result,), rows = _check(body, {"x": x})
    np.testing.assert_array_equal(result, [[3], [np.inf]])
    assert [kind for kind, _ in rows] == ["mul"]


@pytest.mark.parametrize("target", [ct.target.iOS16, ct.target.iOS17])
def test_a_program_without_fp16_has_no_ranges(target: Any) -> None:
    x = np.ones((2, 2), np.float32)
    results, rows = _check(lambda x: mb.mul(x=x, y=x), {"x": x}, target)
    assert not rows
    np.testing.assert_array_equal(results[0], x)


def test_only_new_elements_of_a_state_are_rounded() -> None:
    """A row of a cache, chosen where an input says, and the sum of two rows, written over two others."""
    x, place = np.array([[0.1, 2049, 1 / 3]], np.float32), np.array([2], np.int32)
    cache = np.arange(24, dtype=np.float32).reshape(8, 3)

    def body(x: Any, place: Any, cache: Any) -> Any:
        content = mb.read_state(input=cache)
        here = mb.equal(x=np.arange(8, dtype=np.int32).reshape(8, 1), y=place)
        row = mb.tile(x=mb.cast(x=x, dtype="fp16"), reps=[8, 1])
        content = mb.select(cond=mb.tile(x=here, reps=[1, 3]), a=row, b=content)
        total = mb.add(x=row, y=row)
        first = mb.slice_by_size(x=total, begin=[0, 0], size=[1, 3])
        content = mb.slice_update(x=content, update=first, begin=[5, 0], end=[6, 3])
        mb.coreml_update_state(state=cache, value=content)
        return mb.cast(x=total, dtype="fp32")

    given = {"x": x, "place": place}
    model = build(body, given, target=ct.target.iOS18, states={"cache": cache.astype(HALF)})
    program = lower(bind_main(model))
    held = {"cache": cache.copy()}
    run_onnx(program, given, states=held)
    half = x[0].astype(HALF)
    cache[2], cache[5] = half, half + half
    np.testing.assert_array_equal(held["cache"], cache)
    nodes = program.model.graph.node
    makers = {name: node for node in nodes for name in node.output}
    rounded = {
        makers[name].op_type
        for node in nodes
        if node.op_type == "Cast"
        for name in node.input
        if name in makers
    }
    assert not rounded & {"Where", "Concat", "ScatterElements", "Tile"}
    (choice,) = (node for node in nodes if node.op_type == "Where" and program.states[0].value in node.input)
    assert all(makers[name].op_type != "Tile" for name in choice.input if name in makers)
