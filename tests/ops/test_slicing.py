from __future__ import annotations

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.ops.spec import Work
from tests.support.op_cases import check, works

X = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
#: Arguments of slice_by_index, and the same in Python.
SLICES = {
    "plain": ({"begin": [1, 0, 2], "end": [3, 5, 4]}, np.s_[1:3, 0:5, 2:4]),
    "negative": ({"begin": [-3, -4, 0], "end": [-1, 4, -2]}, np.s_[-3:-1, -4:4, 0:-2]),
    "beyond": ({"begin": [0, 1, 2], "end": [9, 99, 999]}, np.s_[0:9, 1:99, 2:999]),
    "stride": ({"begin": [0, 1, 0], "end": [4, 5, 6], "stride": [2, 3, 5]}, np.s_[0:4:2, 1:5:3, 0:6:5]),
    "backwards": (
        {"begin": [3, 4, 5], "end": [0, 1, 1], "stride": [-1, -2, -3]},
        np.s_[3:0:-1, 4:1:-2, 5:1:-3],
    ),
    "masks": (
        {
            "begin": [9, 1, 9],
            "end": [2, 9, 9],
            "begin_mask": [True, False, True],
            "end_mask": [False, True, True],
        },
        np.s_[:2, 1:, :],
    ),
    "masks backwards": (
        {
            "begin": [0, 3, 0],
            "end": [1, 0, 0],
            "stride": [-1, -1, -2],
            "begin_mask": [True, False, True],
            "end_mask": [False, True, True],
        },
        np.s_[:1:-1, 3::-1, ::-2],
    ),
    "squeeze": (
        {"begin": [1, -1, 0], "end": [0, 0, 3], "squeeze_mask": [True, True, False]},
        np.s_[1, -1, 0:3],
    ),
    "squeeze and mask": (
        {
            "begin": [0, 2, -2],
            "end": [0, 0, 0],
            "begin_mask": [True, False, False],
            "end_mask": [True, True, True],
            "squeeze_mask": [False, True, False],
        },
        np.s_[:, 2, -2:],
    ),
}


def _index_cases(**variables):
    return {
        name: (lambda x, given=given, **more: mb.slice_by_index(x=x, **given), X[taken])
        for name, (given, taken) in SLICES.items()
    }


def test_slice_by_index():
    cases = _index_cases()
    cases["known"] = (lambda x: mb.slice_by_index(x=X, begin=[1, 2, 3], end=[2, 4, 5]), X[1:2, 2:4, 3:5])
    cases["bool"] = (
        lambda x: mb.slice_by_index(x=mb.greater(x=x, y=50.0), begin=[1, 0, 0], end=[2, 5, 6]),
        X[1:2] > 50,
    )
    cases["scalar"] = (
        lambda x: mb.slice_by_index(x=mb.reshape(x=x, shape=[120]), begin=[7], end=[0], squeeze_mask=[True]),
        X.reshape(-1)[7],
    )
    check({n: c for n, c in cases.items() if n != "scalar"}, {"x": X})


@pytest.mark.parametrize("name", SLICES)
def test_slice_by_index_with_bounds_that_come_at_run_time(name):
    given, taken = SLICES[name]
    bounds = {key: np.array(given[key], np.int32) for key in ("begin", "end")}
    fixed = {key: value for key, value in given.items() if key not in bounds}
    cases = {"both": (lambda x, begin, end: mb.slice_by_index(x=x, begin=begin, end=end, **fixed), X[taken])}
    cases["begin"] = (
        lambda x, begin, end: mb.slice_by_index(x=x, begin=begin, end=given["end"], **fixed),
        X[taken],
    )
    check(cases, {"x": X, **bounds})


SIZES = {
    "plain": ([1, 2, 3], [2, 3, 1], np.s_[1:3, 2:5, 3:4]),
    "rest": ([1, 0, 4], [-1, 5, -1], np.s_[1:, 0:5, 4:]),
    "from the back": ([-2, -3, -6], [2, 2, 6], np.s_[-2:, -3:-1, :]),
}


@pytest.mark.parametrize("name", SIZES)
def test_slice_by_size(name):
    begin, size, taken = SIZES[name]
    cases = {
        "fixed": (lambda x, b, s: mb.slice_by_size(x=x, begin=begin, size=size), X[taken]),
        "known": (lambda x, b, s: mb.slice_by_size(x=X, begin=begin, size=size), X[taken]),
        "begin": (lambda x, b, s: mb.slice_by_size(x=x, begin=b, size=size), X[taken]),
        "both": (lambda x, b, s: mb.slice_by_size(x=x, begin=b, size=s), X[taken]),
    }
    inputs = {"x": X, "b": np.array(begin, np.int32), "s": np.array(size, np.int32)}
    check(cases, inputs)


@pytest.mark.parametrize("name", SLICES)
def test_slice_update(name):
    given, taken = SLICES[name]
    update = -1 - np.arange(X[taken].size, dtype=np.float32).reshape(X[taken].shape)
    expected = X.copy()
    expected[taken] = update
    bounds = {key: np.array(given[key], np.int32) for key in ("begin", "end")}
    fixed = {key: value for key, value in given.items() if key not in bounds}
    cases = {
        "fixed": (lambda x, u, begin, end: mb.slice_update(x=x, update=u, **given), expected),
        "dynamic": (
            lambda x, u, begin, end: mb.slice_update(x=x, update=u, begin=begin, end=end, **fixed),
            expected,
        ),
        "known": (lambda x, u, begin, end: mb.slice_update(x=X, update=update, **given), expected),
    }
    check(cases, {"x": X, "u": update, **bounds}, target=ct.target.iOS18)


@pytest.mark.parametrize("name", SLICES)
def test_small_updates_are_scattered(name):
    given, taken = SLICES[name]
    x = np.arange(120 * 64, dtype=np.float32).reshape(4, 5, 6, 64)
    x = x[: X.shape[0], : X.shape[1], : X.shape[2]].copy()
    update = -1 - np.arange(x[taken].size, dtype=np.float32).reshape(x[taken].shape)
    expected = x.copy()
    expected[taken] = update
    bounds = {key: np.array([*given[key], 0], np.int32) for key in ("begin", "end")}
    fixed = {key: [*value, False] for key, value in given.items() if key.endswith("_mask")}
    fixed |= {"stride": [*given.get("stride", [1, 1, 1]), 1]}
    for key in ("begin_mask", "end_mask"):
        fixed[key] = [*fixed.get(key, [False] * 4)[:3], True]
    known = {key: value.tolist() for key, value in bounds.items()}
    cases = {
        "fixed": (lambda x, u, begin, end: mb.slice_update(x=x, update=u, **known, **fixed), expected),
        "dynamic": (
            lambda x, u, begin, end: mb.slice_update(x=x, update=u, begin=begin, end=end, **fixed),
            expected,
        ),
    }
    check(cases, {"x": x, "u": update, **bounds}, target=ct.target.iOS18)


@pytest.mark.parametrize("fixed", [(), ("begin",)])
def test_an_update_beyond_the_end_is_an_error(fixed):
    x, update = np.zeros((4, 8, 64), np.float32), np.ones((1, 2, 64), np.float32)
    bounds = {"begin": np.array([0, 7, 0], np.int32), "end": np.array([1, 9, 64], np.int32)}
    known = {key: bounds[key] for key in fixed}

    def written(x, u, begin, end):
        return mb.slice_update(x=x, update=u, **{"begin": begin, "end": end, **known})

    with pytest.raises(Exception, match=r"out of data bounds|[Dd]imension"):  # ONNX Runtime's own.
        check({"full": (written, x)}, {"x": x, "u": update, **bounds}, target=ct.target.iOS18)


def test_work():
    done = works(
        lambda x: mb.slice_by_index(x=x, begin=[0, 0, 0], end=[1, 5, 6]), {"x": X.astype(np.float32)}
    )
    assert done["slice_by_index"] == Work(flops=0, read_bytes=120, weight_bytes=0, written_bytes=120)
