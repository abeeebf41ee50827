from __future__ import annotations

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.model import ir
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind
from coremlscope.ops.spec import Work
from tests.support.op_cases import check, works
from tests.support.programs import bind_main, build

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
B = X % 3 == 0
WEIGHT = np.arange(6000, dtype=np.float32).reshape(2, 30, 100)


def test_reshape():
    shapes = {"plain": (4, 6), "hole": (3, -1), "kept": (0, -1, 2), "all kept": (0, 0, -1), "flat": (-1,)}
    cases = {
        name: (
            lambda x, shape=shape: mb.reshape(x=x, shape=shape),
            X.reshape([X.shape[i] if d == 0 else d for i, d in enumerate(shape)]),
        )
        for name, shape in shapes.items()
    }
    cases["bool"] = (lambda x: mb.reshape(x=mb.cast(x=x, dtype="bool"), shape=(6, 4)), (X != 0).reshape(6, 4))
    cases["weight"] = (
        lambda x: mb.reshape(x=WEIGHT, shape=(100, 60)),
        WEIGHT.reshape(100, 60),
    )
    check(cases, {"x": X})


def test_zeros_of_reshape_count_from_the_right_since_ios17():
    cases = {
        "longer": (lambda x: mb.reshape(x=x, shape=(1, 0, -1, 0, 0)), X.reshape(1, 1, 2, 3, 4)),
        "shorter": (lambda x: mb.reshape(x=x, shape=(-1, 0)), X.reshape(6, 4)),
    }
    check(cases, {"x": X}, target=ct.target.iOS17)


@pytest.mark.parametrize("target", [ct.target.iOS15, ct.target.iOS17])
def test_reshape_to_a_shape_that_comes_at_run_time(target):
    shape = np.array([0, 2, -1], np.int32)
    cases = {"dynamic": (lambda x, shape: mb.reshape(x=x, shape=shape), X.reshape(2, 2, 6))}
    check(cases, {"x": X, "shape": shape}, target=target)
    if target is ct.target.iOS17:
        more = np.array([0, 0, 0, -1], np.int32)
        aligned = {"aligned": (lambda x, shape: mb.reshape(x=x, shape=shape), X.reshape(1, 2, 3, 4))}
        check(aligned, {"x": X, "shape": more}, target=target)


def test_reshape_like_and_flatten2d():
    cases = {
        "like": (
            lambda x, a, b: mb.reshape_like(
                x=x, ref_tensors=(a, b), begins=(0, 1), ends=(1, 0), end_masks=(False, True)
            ),
            X.reshape(4, 3, 2),
        ),
        "flat": (lambda x, a, b: mb.flatten2d(x=x), X.reshape(2, 12)),
        "flat -1": (lambda x, a, b: mb.flatten2d(x=x, axis=-1), X.reshape(6, 4)),
        "flat vector": (
            lambda x, a, b: mb.flatten2d(x=mb.reshape(x=x, shape=[24]), axis=-1),
            X.reshape(1, 24),
        ),
    }
    a, b = np.zeros((4, 9), np.float32), np.zeros((7, 3, 2), np.float32)
    check(cases, {"x": X, "a": a, "b": b})


def test_expand_dims_and_squeeze():
    y = X[:, None, :, :1]
    cases = {
        "expand": (lambda x, y: mb.expand_dims(x=x, axes=[1]), X[:, None]),
        "expand more": (lambda x, y: mb.expand_dims(x=x, axes=[-1, 0]), X[None, ..., None]),
        "squeeze all": (lambda x, y: mb.squeeze(x=y), X[:, :, 0]),
        "squeeze one": (lambda x, y: mb.squeeze(x=y, axes=[-1]), X[:, None, :, 0]),
        "squeeze longer": (lambda x, y: mb.squeeze(x=y, axes=[0, 1]), X[:, :, :1]),
        "squeeze nothing": (lambda x, y: mb.squeeze(x=x), X),
    }
    check(cases, {"x": X, "y": y})


def test_transpose_and_reverse():
    cases = {
        "transpose": (lambda x: mb.transpose(x=x, perm=[2, 0, 1]), X.transpose(2, 0, 1)),
        "negative": (lambda x: mb.transpose(x=x, perm=[-1, -3, -2]), X.transpose(2, 0, 1)),
        "same": (lambda x: mb.transpose(x=x, perm=[0, 1, 2]), X),
        "weight": (lambda x: mb.transpose(x=WEIGHT, perm=[1, 2, 0]), WEIGHT.transpose(1, 2, 0)),
        "reverse": (lambda x: mb.reverse(x=x), X[::-1, ::-1, ::-1]),
        "reverse some": (lambda x: mb.reverse(x=x, axes=[-1, 0]), X[::-1, :, ::-1]),
        "reverse bool": (lambda x: mb.reverse(x=mb.greater(x=x, y=5.0), axes=[1]), (X > 5)[:, ::-1]),
        "reverse weight": (lambda x: mb.reverse(x=WEIGHT, axes=[1]), WEIGHT[:, ::-1]),
    }
    check(cases, {"x": X})


@pytest.mark.parametrize(("seq", "batch"), [(1, 0), (0, 2), (2, 1), (-1, 0)])
def test_reverse_sequence(seq, batch):
    lengths = np.array([1, X.shape[seq], 0, 2][: X.shape[batch]], np.int32)
    expected = np.moveaxis(X, (batch, seq), (0, 1)).copy()
    for row, length in zip(expected, lengths, strict=True):
        row[:length] = row[:length][::-1].copy()
    cases = {
        "dynamic": (
            lambda x, lengths: mb.reverse_sequence(x=x, lengths=lengths, seq_axis=seq, batch_axis=batch),
            np.moveaxis(expected, (0, 1), (batch, seq)),
        )
    }
    check(cases, {"x": X, "lengths": lengths})


@pytest.mark.parametrize(("axis", "size", "stride"), [(0, 2, 1), (1, 2, 1), (-1, 2, 2), (2, 3, 1), (2, 4, 3)])
def test_sliding_windows(axis, size, stride):
    windows = np.lib.stride_tricks.sliding_window_view(X, size, axis)
    at = axis % 3
    windows = np.moveaxis(np.take(windows, range(0, windows.shape[at], stride), at), -1, at + 1)
    cases = {
        "x": (lambda x: mb.sliding_windows(x=x, axis=axis, size=size, stride=stride), windows),
        "known": (lambda x: mb.sliding_windows(x=X, axis=axis, size=size, stride=stride), windows),
    }
    check(cases, {"x": X})


def test_rearranged_weights_are_neither_read_nor_moved_at_run_time():
    bound = bind_main(
        build(lambda x: mb.add(x=mb.transpose(x=WEIGHT[0], perm=[1, 0]), y=x), {"x": X[0, 0, :1]})
    )
    constant = next(view for view in bound.graph.ops if view.op.type == "transpose").outputs[0].constant
    assert constant is not None
    assert isinstance(constant.data, ir.Derived)
    np.testing.assert_array_equal(constant.numpy(), WEIGHT[0].T)


def test_reshape_of_unknown_dimensions_keeps_what_is_known():
    model = build(lambda x: mb.reshape(x=x, shape=(0, -1, 2)), {"x": X})
    assert isinstance(model.content, ir.Program)
    function = model.content.functions["main"]
    bound = bind(function, OPS, {"x": (None, 3, 4)})
    # The file declares [2, 6, 2], which fills in what is not known here.
    assert bound.graph.outputs[0].type == ir.TensorType(ir.DType.FP32, (2, 6, 2))
    assert not bound.problems


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (lambda x: mb.reshape(x=x, shape=(4, 6)), "does not reshape"),
        (lambda x: mb.squeeze(x=mb.expand_dims(x=x, axes=[3])), None),
    ],
)
def test_contradictions_are_problems(body, problem):
    model = build(body, {"x": X})
    assert isinstance(model.content, ir.Program)
    problems = bind(model.content.functions["main"], OPS, {"x": (2, 3, 5)}).problems
    assert [problem in text for _, text in problems] == ([True] if problem else [])


def test_work():
    done = works(lambda x: (mb.reshape(x=x, shape=(6, 4)), mb.transpose(x=x, perm=[2, 1, 0])), {"x": X})
    assert done["reshape"] == Work()
    assert done["transpose"] == Work(flops=0, read_bytes=96, weight_bytes=0, written_bytes=96)
