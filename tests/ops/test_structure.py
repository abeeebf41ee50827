from __future__ import annotations

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.model import ir
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind
from coremlscope.ops.spec import Work
from tests.support.graphs import function, op, tensor, value
from tests.support.op_cases import check, works
from tests.support.programs import bind_main, build

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 5
Y = X[:, :2] * 10
WIDE = np.array([[-300, -1, 0], [7, 255, 70000]], np.int32)


def test_concat():
    cases = {
        "axis": (lambda x, y: mb.concat(values=(x, y, x), axis=1), np.concatenate([X, Y, X], 1)),
        "negative": (lambda x, y: mb.concat(values=(x, x), axis=-1), np.concatenate([X, X], -1)),
        "one": (lambda x, y: mb.concat(values=(x,), axis=0), X),
        "weight": (lambda x, y: mb.concat(values=(x, X), axis=0), np.concatenate([X, X])),
        "weights": (lambda x, y: mb.concat(values=(Y, X), axis=1), np.concatenate([Y, X], 1)),
        "turns": (
            lambda x, y: mb.concat(values=(x, mb.mul(x=x, y=-1.0)), axis=1, interleave=True),
            np.stack([X, -X], 2).reshape(2, 6, 4),
        ),
        "turns at the end": (
            lambda x, y: mb.concat(values=(y, y, y), axis=-1, interleave=True),
            np.stack([Y, Y, Y], 3).reshape(2, 2, 12),
        ),
        "scalars": (
            lambda x, y: mb.concat(
                values=tuple(
                    mb.slice_by_index(x=mb.shape(x=x), begin=[i], end=[i + 1], squeeze_mask=[True])
                    for i in range(2)
                ),
                axis=0,
            ),
            np.array([2, 3], np.int32),
        ),
        "scalars at run time": (
            lambda x, y: mb.concat(
                values=(mb.reduce_sum(x=x, keep_dims=False), mb.reduce_max(x=y, keep_dims=False)), axis=0
            ),
            np.array([X.sum(), Y.max()]),
        ),
    }
    check(cases, {"x": X, "y": Y})


def test_stack_split_and_tile():
    cases = {
        "stack": (lambda x: mb.stack(values=(x, X, x), axis=1), np.stack([X, X, X], 1)),
        "stack last": (lambda x: mb.stack(values=(x, x), axis=-1), np.stack([X, X], -1)),
        "stack one": (lambda x: mb.stack(values=(x,), axis=0), X[None]),
        "tile": (lambda x: mb.tile(x=x, reps=(2, 1, 3)), np.tile(X, (2, 1, 3))),
        "tile weight": (lambda x: mb.tile(x=X, reps=(1, 4, 1)), np.tile(X, (1, 4, 1))),
    }
    for index in range(2):
        cases[f"equal parts {index}"] = (
            lambda x, index=index: mb.split(x=x, num_splits=2, axis=-1)[index],
            np.split(X, 2, -1)[index],
        )
        cases[f"sizes {index}"] = (
            lambda x, index=index: mb.split(x=x, split_sizes=[1, 2], axis=1)[index],
            np.split(X, [1], 1)[index],
        )
        cases[f"weight {index}"] = (
            lambda x, index=index: mb.split(x=X, num_splits=2, axis=0)[index],
            np.split(X, 2)[index],
        )
    check(cases, {"x": X})


def test_tile_by_repetitions_that_come_at_run_time():
    cases = {"dynamic": (lambda x, reps: mb.tile(x=x, reps=reps), np.tile(X, (1, 3, 2)))}
    check(cases, {"x": X, "reps": np.array([1, 3, 2], np.int32)})


@pytest.mark.parametrize("left", [0, -1])
def test_tile_leaves_an_axis_that_is_to_be_kept(left):
    cases = {"kept": (lambda x, reps: mb.tile(x=x, reps=reps), np.tile(X, (2, 1, 1)))}
    check(cases, {"x": X, "reps": np.array([2, 1, left], np.int32)})


def test_tile_repeats_an_axis_of_one_element_no_times():
    cases = {"none": (lambda x, reps: mb.tile(x=x, reps=reps), np.zeros((1, 0), np.float32))}
    check(cases, {"x": np.ones((1, 1), np.float32), "reps": np.array([-1, 0], np.int32)})


def test_pad():
    def edge(amounts, mode, **more):
        return np.pad(X, [(0, 0)] * (3 - len(amounts)) + amounts, mode, **more)

    cases = {
        "constant": (
            lambda x: mb.pad(x=x, pad=[1, 0, 0, 2, 3, 1]),
            edge([(1, 0), (0, 2), (3, 1)], "constant"),
        ),
        "value": (
            lambda x: mb.pad(x=x, pad=[1, 2], mode="constant", constant_val=7.5),
            edge([(1, 2)], "constant", constant_values=7.5),
        ),
        "reflect": (
            lambda x: mb.pad(x=x, pad=[2, 1, 0, 3], mode="reflect"),
            edge([(2, 1), (0, 3)], "reflect"),
        ),
        "reflect twice": (lambda x: mb.pad(x=x, pad=[5, 9], mode="reflect"), edge([(5, 9)], "reflect")),
        "replicate": (
            lambda x: mb.pad(x=x, pad=[2, 1, 4, 5], mode="replicate"),
            edge([(2, 1), (4, 5)], "edge"),
        ),
        "nothing": (lambda x: mb.pad(x=x, pad=[0, 0, 0, 0]), X),
        "weight": (lambda x: mb.pad(x=X, pad=[1, 1], mode="reflect"), edge([(1, 1)], "reflect")),
    }
    check(cases, {"x": X})


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate"])
def test_pad_by_amounts_that_come_at_run_time(mode):
    amounts = np.array([0, 0, 1, 2, 3, 0], np.int32)
    expected = np.pad(X, amounts.reshape(3, 2), "edge" if mode == "replicate" else mode)
    cases = {mode: (lambda x, pad: mb.pad(x=x, pad=pad, mode=mode), expected)}
    check(cases, {"x": X, "pad": amounts})


def test_cast():
    values = np.array([-2.7, -0.5, 0.0, 0.5, 300.9], np.float32)
    cases = {
        "int32": (lambda v, i: mb.cast(x=v, dtype="int32"), np.array([-2, 0, 0, 0, 300], np.int32)),
        "bool": (
            lambda v, i: mb.cast(x=mb.cast(x=v, dtype="bool"), dtype="int32"),
            (values != 0).astype(np.int32),
        ),
        "fp32": (lambda v, i: mb.cast(x=i, dtype="fp32"), WIDE.astype(np.float32)),
        "fp16": (lambda v, i: mb.cast(x=mb.cast(x=v, dtype="fp16"), dtype="fp32"), values),
        "int8": (lambda v, i: mb.cast(x=mb.cast(x=i, dtype="int8"), dtype="int32"), WIDE.astype(np.int8)),
        "uint8": (lambda v, i: mb.cast(x=mb.cast(x=i, dtype="uint8"), dtype="int32"), WIDE.astype(np.uint8)),
        "int16": (lambda v, i: mb.cast(x=mb.cast(x=i, dtype="int16"), dtype="int32"), WIDE.astype(np.int16)),
        "uint16": (
            lambda v, i: mb.cast(x=mb.cast(x=i, dtype="uint16"), dtype="int32"),
            WIDE.astype(np.uint16),
        ),
        "known": (lambda v, i: mb.cast(x=values, dtype="int32"), values.astype(np.int32)),
    }
    check(cases, {"v": values, "i": WIDE}, target=ct.target.iOS17, tolerance=1e-3)


def test_casts_of_what_does_not_fit():
    values = np.array([3e9, -3e9, np.inf, -np.inf, np.nan, 2147483520, -300.5, 65537], np.float32)
    highest, lowest = 2**31 - 1, -(2**31)
    held = np.array([highest, lowest, highest, lowest, 0, 2147483520, -300, 65537], np.int32)

    def to(dtype):
        return lambda v: mb.cast(x=mb.cast(x=v, dtype=dtype), dtype="int32")

    # Narrow types take the low bits.
    expected = {"int32": held, "int16": held.astype(np.int16), "uint8": held.astype(np.uint8)}
    cases = {dtype: (to(dtype), array) for dtype, array in expected.items()}
    check(cases, {"v": values}, target=ct.target.iOS17, tolerance=0)
    for dtype, array in expected.items():
        result = value("y", tensor(8, dtype=ir.DType(dtype)))
        body = function((), (op("cast", result, x=values, dtype=dtype),), (result,))
        constant = bind(body, OPS).graph.outputs[0].constant
        assert constant is not None
        np.testing.assert_array_equal(constant.numpy(), array)


def test_select():
    condition = X % 2 == 0
    cases = {
        "floats": (
            lambda x, c: mb.select(cond=mb.cast(x=c, dtype="bool"), a=x, b=-X),
            np.where(condition, X, -X),
        ),
        "integers": (
            lambda x, c: mb.select(cond=mb.cast(x=c, dtype="bool"), a=c, b=WIDE[0, 0]),
            np.where(condition, 1, -300).astype(np.int32),
        ),
        "booleans": (
            lambda x, c: mb.select(
                cond=mb.cast(x=c, dtype="bool"), a=mb.greater(x=x, y=0.0), b=mb.less(x=x, y=3.0)
            ),
            np.where(condition, X > 0, X < 3),
        ),
        "broadcast": (
            lambda x, c: mb.select(cond=mb.cast(x=c, dtype="bool"), a=x, b=9.0),
            np.where(condition, X, 9.0),
        ),
        "known": (
            lambda x, c: mb.select(
                cond=np.array([True, False]), a=np.array([1.0, 2.0]), b=np.array([3.0, 4.0])
            ),
            np.array([1.0, 4.0]),
        ),
        "identity": (lambda x, c: mb.identity(x=mb.identity(x=x)), X),
    }
    check(cases, {"x": X, "c": condition.astype(np.int32)})


def test_shape_arithmetic_is_known_before_run_time():
    def body(x):
        shape = mb.shape(x=x)
        batch = mb.gather(x=shape, indices=0)
        rest = mb.reduce_prod(x=mb.slice_by_index(x=shape, begin=[1], end=[3]), axes=[0], keep_dims=True)
        target = mb.concat(values=(mb.expand_dims(x=batch, axes=[0]), rest), axis=0)
        flat = mb.reshape(x=x, shape=target)
        halves = mb.cast(x=mb.mul(x=mb.cast(x=target, dtype="fp32"), y=1.0), dtype="int32")
        return mb.reshape(x=flat, shape=halves), mb.range_1d(start=0, end=mb.squeeze(x=rest), step=1)

    bound = bind_main(build(body, {"x": X}))
    reshapes = [view for view in bound.graph.ops if view.op.type == "reshape"]
    assert [view.is_known("shape") for view in reshapes] == [True, True]
    assert [out.type.shape for out in bound.graph.outputs] == [(2, 12), (12,)]


def test_work():
    done = works(
        lambda x: (mb.concat(values=(x, x), axis=0), mb.cast(x=x, dtype="int32"), mb.identity(x=x)), {"x": X}
    )
    assert done["concat"] == Work(flops=0, read_bytes=192, weight_bytes=0, written_bytes=192)
    assert done["cast"] == Work(flops=0, read_bytes=96, weight_bytes=0, written_bytes=96)
    assert done["identity"] == Work()
