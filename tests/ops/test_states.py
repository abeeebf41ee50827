"""States."""

from __future__ import annotations

from typing import Any

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.ops.program import OnnxProgram
from tests.support.programs import bind_main, build, lower, run_onnx

ONES = np.ones((2,), np.float16)
STATES = {"total": np.zeros((2,), np.float16)}


def _program(body: Any, inputs: dict[str, np.ndarray]) -> OnnxProgram:
    return lower(bind_main(build(body, inputs, target=ct.target.iOS18, states=STATES)))


def test_an_accumulator_over_three_steps() -> None:
    def body(x: Any, total: Any) -> Any:
        before = mb.read_state(input=total)
        after = mb.coreml_update_state(state=total, value=mb.add(x=before, y=x))
        return mb.mul(x=after, y=np.float16(10))

    program = _program(body, {"x": ONES})
    content = {name: array.copy() for name, array in STATES.items()}
    for step in (1, 2, 3):
        (result,) = run_onnx(program, {"x": ONES * step}, content).values()
        np.testing.assert_array_equal(content["total"], [step * (step + 1) / 2] * 2)
        np.testing.assert_array_equal(result, content["total"] * 10)


def test_a_state_that_is_only_read_is_not_updated() -> None:
    program = _program(lambda x, total: mb.add(x=mb.read_state(input=total), y=x), {"x": ONES})
    assert [state.updated for state in program.states] == [None]
    content = {"total": np.array([5, 6], np.float16)}
    (result,) = run_onnx(program, {"x": ONES}, content).values()
    np.testing.assert_array_equal(result, [6, 7])


def test_the_content_of_a_state_is_a_result() -> None:
    def body(x: Any, total: Any) -> Any:
        before = mb.read_state(input=total)
        mb.coreml_update_state(state=total, value=x)
        return before, x

    content = {"total": np.array([5, 6], np.float16)}
    before, same = run_onnx(_program(body, {"x": ONES}), {"x": ONES}, content).values()
    np.testing.assert_array_equal(before, [5, 6])
    np.testing.assert_array_equal(same, ONES)
    np.testing.assert_array_equal(content["total"], ONES)


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_writes_a_state(taken: bool) -> None:
    def body(x: Any, flag: Any, total: Any) -> Any:
        def write() -> Any:
            value = mb.add(x=mb.read_state(input=total), y=x)
            return mb.coreml_update_state(state=total, value=value)

        pred = mb.squeeze(x=mb.cast(x=flag, dtype="bool"), axes=[0])
        made = mb.cond(pred=pred, _true_fn=write, _false_fn=lambda: mb.mul(x=x, y=np.float16(7)))
        return made, mb.mul(x=mb.read_state(input=total), y=np.float16(2))

    flag = np.array([taken], np.float16)
    program = _program(body, {"x": ONES, "flag": flag})
    content = {"total": np.array([5, 6], np.float16)}
    made, doubled = run_onnx(program, {"x": ONES, "flag": flag}, content).values()
    np.testing.assert_array_equal(made, [6, 7] if taken else [7, 7])
    np.testing.assert_array_equal(content["total"], [6, 7] if taken else [5, 6])
    np.testing.assert_array_equal(doubled, 2 * content["total"])


def test_a_loop_writes_a_state() -> None:
    def body(x: Any, total: Any) -> Any:
        def one_pass(i: Any, seen: Any) -> Any:
            value = mb.add(x=mb.read_state(input=total), y=x)
            return mb.add(x=i, y=1), mb.add(x=seen, y=mb.coreml_update_state(state=total, value=value))

        return mb.while_loop(_cond=lambda i, _: mb.less(x=i, y=3), _body=one_pass, loop_vars=(0, x))[1]

    content = {"total": np.array([5, 6], np.float16)}
    (seen,) = run_onnx(_program(body, {"x": ONES}), {"x": ONES}, content).values()
    np.testing.assert_array_equal(content["total"], [8, 9])
    np.testing.assert_array_equal(seen, [1 + 6 + 7 + 8, 1 + 7 + 8 + 9])
