from __future__ import annotations

import coremltools as ct
import numpy as np
import onnxruntime.capi.onnxruntime_pybind11_state as ort_errors
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.model import ir
from coremlscope.ops.lower import lower
from coremlscope.ops.spec import Work
from tests.support.op_cases import check, works
from tests.support.programs import bind_main, build, run, run_onnx

RNG = np.random.default_rng(5)
X = RNG.normal(size=(3, 4, 5)).astype(np.float32)
TABLE = RNG.normal(size=(500, 8)).astype(np.float32)
OLD, NEW = ct.target.iOS16, ct.target.iOS17


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather(axis):
    i = np.array([[0, 2], [-1, 1]], np.int32)
    cases = {
        "dynamic": (lambda x, i: mb.gather(x=x, indices=i, axis=axis), np.take(X, i, axis)),
        "fixed": (lambda x, i: mb.gather(x=x, indices=[2, 0, -2], axis=axis), np.take(X, [2, 0, -2], axis)),
        "scalar": (lambda x, i: mb.gather(x=x, indices=1, axis=axis), np.take(X, 1, axis)),
        "known": (lambda x, i: mb.gather(x=X, indices=[2, 0, -2], axis=axis), np.take(X, [2, 0, -2], axis)),
        "integers": (lambda x, i: mb.gather(x=i, indices=[1], axis=0), i[[1]]),
    }
    check(cases, {"x": X, "i": i})


@pytest.mark.parametrize(("axis", "batch"), [(1, 1), (2, 1), (2, 2), (-1, 1)])
@pytest.mark.parametrize("target", [OLD, NEW])
def test_gather_in_batches(axis, batch, target):
    indices = RNG.integers(0, 4, (*X.shape[:batch], 2, 3)).astype(np.int32)

    def take(x, i, at, left):
        if not left:
            return np.take(x, i, at)
        return np.stack([take(a, b, at - 1, left - 1) for a, b in zip(x, i, strict=True)])

    expected = take(X, indices, axis % 3, batch)
    cases = {
        "dynamic": (lambda x, i: mb.gather(x=x, indices=i, axis=axis, batch_dims=batch), expected),
        "known": (lambda x, i: mb.gather(x=X, indices=indices, axis=axis, batch_dims=batch), expected),
    }
    check(cases, {"x": X, "i": indices}, target=target)


def test_one_index_for_each_of_a_batch():
    i = np.array([1, 3, 0], np.int32)
    cases = {"one": (lambda x, i: mb.gather(x=x, indices=i, axis=1, batch_dims=1), X[np.arange(3), i])}
    check(cases, {"x": X, "i": i})


def test_gather_along_axis():
    cases = {}
    inputs = {"x": X}
    for axis in (0, 1, -1):
        shape = [6 if i == axis % 3 else d for i, d in enumerate(X.shape)]
        i = RNG.integers(-3, 3, shape).astype(np.int32)
        name = f"i{axis % 3}"
        inputs[name] = i
        expected = np.take_along_axis(X, i, axis)
        cases[f"dynamic {axis}"] = (
            lambda x, axis=axis, name=name, **i: mb.gather_along_axis(x=x, indices=i[name], axis=axis),
            expected,
        )
        cases[f"known {axis}"] = (
            lambda x, axis=axis, i=i, **_: mb.gather_along_axis(x=X, indices=i, axis=axis),
            expected,
        )
    check(cases, inputs)


def test_gather_nd():
    one, all_three = np.array([[1], [-1]], np.int32), RNG.integers(0, 3, (2, 2, 3)).astype(np.int32)
    batched = RNG.integers(0, 4, (3, 2, 1)).astype(np.int32)
    cases = {
        "rows": (lambda x, a, b, c: mb.gather_nd(x=x, indices=a), X[[1, -1]]),
        "elements": (
            lambda x, a, b, c: mb.gather_nd(x=x, indices=b),
            X[tuple(np.moveaxis(all_three, -1, 0))],
        ),
        "batch": (
            lambda x, a, b, c: mb.gather_nd(x=x, indices=c, batch_dims=1),
            np.take_along_axis(X, batched, 1),
        ),
    }
    check(cases, {"x": X, "a": one, "b": all_three, "c": batched})


MODES = {
    "update": lambda x, at, u: np.put_along_axis(x, at, u, 0),
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
}


def _scattered(data, index, updates, mode):
    """NumPy's scatter: `index` picks the elements of `data` that meet the updates."""
    result = data.copy()
    if mode == "update":
        result[index] = updates
    else:
        MODES[mode].at(result, index, updates)
    return result


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("target", [OLD, NEW])
def test_scatter(mode, target):
    rows = np.array([2, 0] if mode == "update" else [2, 0, 2], np.int32)
    inputs, cases = {"x": X, "i": rows}, {}
    for axis in (0, 1, 2):
        shape = [len(rows) if a == axis else d for a, d in enumerate(X.shape)]
        updates = RNG.uniform(0.5, 2, shape).astype(np.float32)
        inputs[f"u{axis}"] = updates
        index = tuple(rows if a == axis else slice(None) for a in range(3))
        cases[f"scatter {axis}"] = (
            lambda axis=axis, **v: mb.scatter(
                data=v["x"], indices=v["i"], updates=v[f"u{axis}"], axis=axis, mode=mode
            ),
            _scattered(X, index, updates, mode),
        )
        along = np.stack([RNG.permutation(3)[: len(rows)] for _ in range(X.size // X.shape[axis])])
        along = np.moveaxis(
            along.reshape([*(d for a, d in enumerate(X.shape) if a != axis), len(rows)]), -1, axis
        )
        index = tuple(
            along if a == axis else g for a, g in enumerate(np.ogrid[tuple(slice(d) for d in X.shape)])
        )
        inputs[f"a{axis}"] = along.astype(np.int32)
        cases[f"along {axis}"] = (
            lambda axis=axis, **v: mb.scatter_along_axis(
                data=v["x"], indices=v[f"a{axis}"], updates=v[f"u{axis}"], axis=axis, mode=mode
            ),
            _scattered(X, index, updates, mode),
        )
    pairs = np.array([[0, 1], [2, 3]] + ([] if mode == "update" else [[0, 1]]), np.int32)
    inputs |= {"p": pairs, "u": RNG.uniform(0.5, 2, (len(pairs), 5)).astype(np.float32)}
    cases["nd"] = (
        lambda **v: mb.scatter_nd(data=v["x"], indices=v["p"], updates=v["u"], mode=mode),
        _scattered(X, tuple(pairs.T), inputs["u"], mode),
    )
    check(cases, inputs, target=target)


def test_scatter_of_integers_divides_as_integers():
    data, updates = np.array([20, 7, 9], np.int32), np.array([2, 3, 0], np.int32)
    cases = {
        "div": (
            lambda d, u: mb.scatter(data=d, indices=[0, 0, 2], updates=u, axis=0, mode="div"),
            np.array([3, 7, 0], np.int32),
        ),
        "add": (
            lambda d, u: mb.scatter(data=d, indices=[0, 0, 2], updates=u, axis=0, mode="add"),
            np.array([25, 7, 9], np.int32),
        ),
    }
    check(cases, {"d": data, "u": updates})


def test_negative_indices_count_from_the_back_before_ios17():
    x, i, u = X[:, 0], np.array([-1], np.int32), X[:1, 1]
    expected = x.copy()
    expected[-1] = u
    cases = {
        "gather": (lambda x, i, u: mb.gather(x=x, indices=i, axis=0), x[[-1]]),
        "scatter": (
            lambda x, i, u: mb.scatter(data=x, indices=i, updates=u, axis=0, mode="update"),
            expected,
        ),
    }
    check(cases, {"x": x, "i": i, "u": u}, target=OLD)


INDEXED = {
    "gather": lambda x, i, u, check: mb.gather(x=x, indices=i, axis=0, validate_indices=check),
    "gather_nd": lambda x, i, u, check: mb.gather_nd(
        x=x, indices=mb.expand_dims(x=i, axes=[1]), validate_indices=check
    ),
    "gather_along_axis": lambda x, i, u, check: mb.gather_along_axis(
        x=x, indices=mb.tile(x=mb.expand_dims(x=i, axes=[1]), reps=(1, 5)), axis=0, validate_indices=check
    ),
    "scatter": lambda x, i, u, check: mb.scatter(
        data=x, indices=i, updates=u, axis=0, mode="update", validate_indices=check
    ),
    "scatter_nd": lambda x, i, u, check: mb.scatter_nd(
        data=x, indices=mb.expand_dims(x=i, axes=[1]), updates=u, mode="update", validate_indices=check
    ),
}


@pytest.mark.parametrize("name", INDEXED)
def test_indices_out_of_bounds_since_ios17(name):
    x, u = X[:, 0], X[:1, 1]

    def program(validate):
        inputs = {"x": x, "i": np.array([0], np.int32), "u": u}
        return lower(bind_main(build(lambda x, i, u: INDEXED[name](x, i, u, validate), inputs, target=NEW)))

    def outcome(lowered, index):
        return next(iter(run_onnx(lowered, {"x": x, "i": np.array([index], np.int32), "u": u}).values()))

    wrapped = x[[-1]] if name.startswith("gather") else np.concatenate([x[:-1], u])
    strict, lenient = program(True), program(False)
    for index in (-1, 10):
        with pytest.raises((ort_errors.InvalidArgument, ort_errors.Fail), match=r"index|indice"):
            outcome(strict, index)
    assert not np.array_equal(outcome(lenient, -1), wrapped)
    assert outcome(lenient, 10).shape == wrapped.shape
    np.testing.assert_array_equal(outcome(strict, 2), wrapped)


def test_an_embedding_table_stays_in_its_file():
    def body(i):
        return mb.gather(x=TABLE, indices=i, axis=0)

    i = np.array([[3, 499]], np.int32)
    bound = bind_main(build(body, {"i": i}))
    program = lower(bound)
    assert [slot.shape for slot in program.weights] == [(500, 8)]
    assert not isinstance(program.weights[0].constant.data, ir.Derived | ir.Immediate)
    np.testing.assert_array_equal(run(body, {"i": i})[0], TABLE[i])


def test_work():
    done = works(lambda i: mb.gather(x=TABLE, indices=i, axis=0), {"i": np.zeros(4, np.int32)})
    assert done["gather"] == Work(
        flops=0, read_bytes=4 * 8 * 4 + 16, weight_bytes=4 * 8 * 4, written_bytes=4 * 8 * 4
    )
