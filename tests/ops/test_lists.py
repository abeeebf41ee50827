"""Lists of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.model.ir import DType, ListType, TensorType
from tests.support.programs import bind_main, build, lower, run, run_onnx

A, B = np.array([1, 3], np.float32), np.array([2, 4], np.float32)


def test_a_list_grows_and_is_zero_where_nothing_was_written() -> None:
    def body(a: Any, b: Any) -> Any:
        new = mb.make_list(init_length=2, elem_shape=(2,))
        first = mb.list_read(ls=new, index=0)
        ls = mb.list_write(ls=mb.list_write(ls=new, index=0, value=a), index=4, value=b)
        ls = mb.list_scatter(ls=ls, indices=[2, 1], value=np.array([[-1, -2], [-4, -5]], np.float32))
        return (
            first,
            mb.list_read(ls=ls, index=0),
            mb.list_gather(ls=ls, indices=[4, 2, 3, 1]),
            mb.list_length(ls=ls),
        )

    first, zeroth, gathered, length = run(body, {"a": A, "b": B})
    np.testing.assert_array_equal(first, [0, 0])
    np.testing.assert_array_equal(zeroth, A)
    np.testing.assert_array_equal(gathered, [B, [-1, -2], [0, 0], [-4, -5]])
    assert length == 5


def test_a_list_of_fixed_length_has_a_known_length() -> None:
    def body(a: Any) -> Any:
        ls = mb.make_list(init_length=3, dynamic_length=False, elem_shape=(2,))
        ls = mb.list_write(ls=ls, index=1, value=a)
        return mb.list_length(ls=ls), mb.list_gather(ls=ls, indices=[0, 1, 2])

    bound = bind_main(build(body, {"a": A}))
    made = next(view for view in bound.graph.ops if view.op.type == "list_write")
    assert made.outputs[0].type == ListType(TensorType(DType.FP32, (2,)), 3)
    program = lower(bound)
    assert not [node.op_type for node in program.model.graph.node if node.op_type == "Pad"]
    length, items = run_onnx(program, {"a": A}).values()
    assert length == 3
    np.testing.assert_array_equal(items, [[0, 0], A, [0, 0]])


def test_elements_may_get_their_shape_from_the_first_write() -> None:
    def body(a: Any) -> Any:
        ls = mb.make_list(init_length=1, elem_shape=("n", 2))
        ls = mb.list_write(ls=ls, index=1, value=mb.expand_dims(x=a, axes=[0]))
        return mb.list_read(ls=ls, index=1), mb.list_read(ls=ls, index=0)

    written, blank = run(body, {"a": A})
    np.testing.assert_array_equal(written, [A])
    np.testing.assert_array_equal(blank, [[0, 0]])


@pytest.mark.parametrize(("dtype", "kind"), [("bool", np.bool_), ("int32", np.int32)])
def test_lists_of_other_elements(dtype: str, kind: type) -> None:
    def body(a: Any) -> Any:
        ls = mb.make_list(init_length=1, elem_shape=(2,), dtype=dtype)
        ls = mb.list_write(ls=ls, index=2, value=a)
        return mb.cast(x=mb.list_gather(ls=ls, indices=[2, 0]), dtype="fp32")

    flags = np.array([1, 1], kind)

    def cast_first(a: Any) -> Any:
        return body(mb.cast(x=a, dtype=dtype))

    (result,) = run(cast_first, {"a": flags.astype(np.float32)})
    np.testing.assert_array_equal(result, [[1, 1], [0, 0]])


def test_a_loop_that_appends() -> None:
    def body(count: Any, update: Any) -> Any:
        def one_pass(i: Any, count: Any, ls: Any) -> Any:
            item = mb.mul(x=update, y=mb.cast(x=i, dtype="fp32"))
            return mb.add(x=i, y=1), count, mb.list_write(ls=ls, index=i, value=item)

        _, _, ls = mb.while_loop(
            _cond=lambda i, count, ls: mb.less(x=mb.cast(x=i, dtype="fp32"), y=count),
            _body=one_pass,
            loop_vars=(0, count, mb.make_list(init_length=1, elem_shape=(2,))),
        )
        return mb.list_length(ls=ls), mb.list_read(ls=ls, index=2)

    # The condition has shape (1,), not ().
    length, last = run(body, {"count": np.array([3], np.float32), "update": A})
    assert length == 3
    np.testing.assert_array_equal(last, 2 * A)
