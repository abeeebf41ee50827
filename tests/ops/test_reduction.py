from __future__ import annotations

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.model import ir
from coremlscope.ops.lower import lower
from tests.support.op_cases import check, works
from tests.support.programs import bind_main, build

X = np.random.default_rng(7).uniform(0.5, 2.0, (2, 3, 4, 2)).astype(np.float32)
WHOLE = np.arange(-6, 18, dtype=np.int32).reshape(2, 3, 4)

FLOATS = {
    "reduce_sum": np.sum,
    "reduce_mean": np.mean,
    "reduce_max": np.max,
    "reduce_min": np.min,
    "reduce_prod": np.prod,
    "reduce_l1_norm": lambda x, **more: np.abs(x).sum(**more),
    "reduce_l2_norm": lambda x, **more: np.sqrt((x * x).sum(**more)),
    "reduce_sum_square": lambda x, **more: (x * x).sum(**more),
    "reduce_log_sum": lambda x, **more: np.log(x.sum(**more)),
    "reduce_log_sum_exp": lambda x, **more: np.log(np.exp(x).sum(**more)),
}


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("axes", [None, [-1], [2, 3], [0, -2]])
def test_floats(axes, keep):
    given = {"keep_dims": keep} | ({} if axes is None else {"axes": axes})
    over = None if axes is None else tuple(axes)
    cases = {
        name: (
            lambda x, name=name: getattr(mb, name)(x=x, **given),
            compute(X.astype(np.float64), axis=over, keepdims=keep),
        )
        for name, compute in FLOATS.items()
    }
    # coremltools gives a result of rank 0 the shape [1].
    check({n: (f, np.reshape(e, np.shape(e))) for n, (f, e) in cases.items()}, {"x": X}, tolerance=1e-4)


def test_integers():
    names = ["reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_l1_norm", "reduce_sum_square"]
    cases = {
        name: (
            lambda x, name=name: getattr(mb, name)(x=x, axes=[1]),
            FLOATS[name](WHOLE, axis=1).astype(np.int32),
        )
        for name in names
    }
    mean = np.trunc(WHOLE.mean(axis=2)).astype(np.int32)
    cases["reduce_mean"] = (lambda x: mb.reduce_mean(x=x, axes=[2]), mean)
    check(cases, {"x": WHOLE})


def test_large_exponents_do_not_overflow():
    x = np.array([[1000.0, 1000.0]], np.float32)
    check({"lse": (lambda x: mb.reduce_log_sum_exp(x=x, axes=[1]), [1000 + np.log(2)])}, {"x": x})


@pytest.mark.parametrize("target", [ct.target.iOS15, ct.target.iOS17])
def test_positions(target):
    cases = {
        "max": (lambda x: mb.reduce_argmax(x=x), X.argmax(-1)),
        "max 1": (lambda x: mb.reduce_argmax(x=x, axis=1, keep_dims=True), X.argmax(1, keepdims=True)),
        "min": (lambda x: mb.reduce_argmin(x=x, axis=-2), X.argmin(-2)),
        "min 0": (lambda x: mb.reduce_argmin(x=x, axis=0, keep_dims=True), X.argmin(0, keepdims=True)),
    }
    check(cases, {"x": X}, target=target)


def test_positions_in_sixteen_bits():
    def body(x):
        return mb.cast(x=mb.reduce_argmax(x=x, output_dtype="uint16"), dtype="int32")

    check({"max": (body, X.argmax(-1))}, {"x": X}, target=ct.target.iOS17)
    bound = bind_main(build(body, {"x": X}, target=ct.target.iOS17))
    types = {view.op.type: view.outputs[0].type for view in bound.graph.ops}
    assert types["reduce_argmax"] == ir.TensorType(ir.DType.UINT16, (2, 3, 4))


def test_the_mean_of_an_image_is_a_pooling():
    def body(x):
        return mb.reduce_mean(x=x, axes=[2, 3], keep_dims=True), mb.reduce_mean(x=x, axes=[-1, -2])

    nodes = lower(bind_main(build(body, {"x": X}))).model.graph.node
    assert [node.op_type for node in nodes] == ["GlobalAveragePool", "GlobalAveragePool", "Squeeze"]


def test_shape_arithmetic_is_computed_while_binding():
    def body(x):
        return mb.identity(x=mb.reduce_prod(x=mb.shape(x=x), axes=[0], keep_dims=True))

    constant = bind_main(build(body, {"x": X})).graph.outputs[0].constant
    assert constant is not None
    assert constant.numpy().tolist() == [48]


def test_work():
    found = works(
        lambda x: mb.reduce_max(x=mb.reduce_log_sum_exp(x=x, axes=[3])),
        {"x": np.zeros((2, 3, 4, 5), np.float32)},
    )
    assert (found["reduce_log_sum_exp"].flops, found["reduce_max"].flops) == (4 * 120, 24)
