from __future__ import annotations

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.ops.spec import Work
from tests.support.op_cases import check, works

X = np.random.default_rng(3).integers(-4, 5, (2, 4, 5)).astype(np.float32)
N = np.array([3, -2, 0, 5], np.int32)


def test_fill_and_shape():
    cases = {
        "fill": (lambda x, n: mb.fill(shape=[2, 3], value=2.5), np.full((2, 3), 2.5)),
        "fill default": (lambda x, n: mb.fill(shape=[4]), np.zeros(4)),
        "fill integers": (lambda x, n: mb.fill(shape=[3, 1], value=7), np.full((3, 1), 7)),
        "fill much": (lambda x, n: mb.fill(shape=[50, 60], value=1.5), np.full((50, 60), 1.5)),
        "like": (lambda x, n: mb.fill_like(ref_tensor=x, value=3), np.full(X.shape, 3)),
        "like default": (lambda x, n: mb.fill_like(ref_tensor=n), np.zeros(4)),
        "shape": (lambda x, n: mb.shape(x=x), np.array(X.shape, np.int32)),
    }
    check(cases, {"x": X, "n": N})


def test_shapes_that_come_at_run_time():
    shape = np.array([2, 3], np.int32)
    cases = {
        "fill": (lambda shape, count: mb.fill(shape=shape, value=2.5), np.full((2, 3), 2.5)),
        "shape": (lambda shape, count: mb.shape(x=mb.fill(shape=shape, value=1.0)), shape),
        "like": (
            lambda shape, count: mb.fill_like(ref_tensor=mb.fill(shape=shape, value=1.0), value=4.0),
            np.full((2, 3), 4.0),
        ),
        "range": (
            lambda shape, count: mb.range_1d(start=1, end=mb.squeeze(x=count), step=3),
            np.arange(1, 9, 3, dtype=np.int32),
        ),
        "one hot": (
            lambda shape, count: mb.one_hot(indices=shape, one_hot_vector_size=mb.squeeze(x=count)),
            np.eye(9, dtype=np.int32)[shape],
        ),
    }
    check(cases, {"shape": shape, "count": np.array([9], np.int32)})


def test_range_1d():
    cases = {
        "up": (lambda x: mb.range_1d(start=0, end=7, step=2), np.arange(0, 7, 2, dtype=np.int32)),
        "down": (lambda x: mb.range_1d(start=5, end=-2, step=-3), np.arange(5, -2, -3, dtype=np.int32)),
        "floats": (lambda x: mb.range_1d(start=0.5, end=3.2, step=0.5), np.arange(0.5, 3.2, 0.5)),
        "long": (lambda x: mb.range_1d(start=0, end=5000, step=1), np.arange(5000, dtype=np.int32)),
        "floats at run time": (
            lambda x: mb.range_1d(start=0.0, end=mb.reduce_max(x=x, keep_dims=False), step=1.5),
            np.arange(0, X.max(), 1.5),
        ),
    }
    check(cases, {"x": X})


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(axis):
    indices = np.array([[0, 2], [4, 7], [-1, 3]], np.int32)
    hot = np.moveaxis(indices[..., None] == np.arange(5), -1, axis)
    cases = {
        "default": (lambda i: mb.one_hot(indices=i, one_hot_vector_size=5, axis=axis), hot.astype(np.int32)),
        "floats": (
            lambda i: mb.one_hot(indices=i, one_hot_vector_size=5, axis=axis, on_value=2.5, off_value=-1.0),
            np.where(hot, 2.5, -1.0),
        ),
        "booleans": (
            lambda i: mb.one_hot(indices=i, one_hot_vector_size=5, axis=axis, on_value=False, off_value=True),
            ~hot,
        ),
    }
    check(cases, {"i": indices})


def test_non_zero():
    cases = {
        "floats": (lambda x, n: mb.non_zero(x=x), np.argwhere(X).astype(np.int32)),
        "integers": (lambda x, n: mb.non_zero(x=n), np.argwhere(N).astype(np.int32)),
        "booleans": (lambda x, n: mb.non_zero(x=mb.greater(x=x, y=1.0)), np.argwhere(X > 1).astype(np.int32)),
    }
    check(cases, {"x": X, "n": N})


@pytest.mark.parametrize(("lower", "upper"), [(-1, -1), (0, -1), (-1, 0), (0, 0), (1, 2), (2, 1), (5, 9)])
def test_band_part(lower, upper):
    m, n = np.mgrid[: X.shape[-2], : X.shape[-1]]
    band = ((lower < 0) | (m - n <= lower)) & ((upper < 0) | (n - m <= upper))
    cases = {
        "floats": (lambda x: mb.band_part(x=x, lower=lower, upper=upper), X * band),
        "known": (lambda x: mb.band_part(x=X, lower=lower, upper=upper), X * band),
        "booleans": (
            lambda x: mb.band_part(x=mb.greater(x=x, y=0.0), lower=lower, upper=upper),
            (X > 0) & band,
        ),
    }
    check(cases, {"x": X})


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_cumsum(axis):
    cases = {}
    for exclusive in (False, True):
        for reverse in (False, True):
            total = np.flip(X, axis) if reverse else X
            total = np.cumsum(total, axis) - (total if exclusive else 0)
            total = np.flip(total, axis) if reverse else total
            given = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
            cases[f"floats {given}"] = (lambda x, given=given: mb.cumsum(x=x, **given), total)
            cases[f"integers {given}"] = (
                lambda x, given=given: mb.cumsum(x=mb.cast(x=x, dtype="int32"), **given),
                total.astype(np.int32),
            )
    check(cases, {"x": X})


def test_work():
    done = works(lambda x: (mb.cumsum(x=x), mb.shape(x=x)), {"x": X})
    assert done["cumsum"].flops == 40
    assert done["shape"] == Work()
