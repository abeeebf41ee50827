from __future__ import annotations

import math

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.model import ir
from coremlscope.ops.elementwise import promoted
from tests.support.op_cases import check, works
from tests.support.programs import bind_main, build

X = np.array([[-7.5, -2.0, -0.25], [0.0, 3.0, 7.5]], np.float32)
Y = np.array([[2.0], [-3.0]], np.float32)
WHOLE = np.array([[-7, -2, -1], [0, 3, 7]], np.int32)
DIVISORS = np.array([[2], [-3]], np.int32)
A = np.array([True, True, False, False])
B = np.array([True, False, True, False])

ARITHMETIC = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "floor_div": np.floor_divide,
    "mod": np.mod,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
}


def _call(name):
    return lambda x, y: getattr(mb, name)(x=x, y=y)


@pytest.mark.parametrize(
    ("x", "y"), [(X, Y), (WHOLE, DIVISORS), (X, X[0]), (WHOLE, WHOLE)], ids=["f", "i", "row", "same"]
)
def test_arithmetic_and_comparisons(x, y):
    y = np.where(y == 0, y.dtype.type(5), y)
    cases = {name: (_call(name), compute(x, y)) for name, compute in ARITHMETIC.items()}
    quotient = np.true_divide(x, y)
    cases["real_div"] = (
        _call("real_div"),
        np.trunc(quotient).astype(np.int32) if x.dtype == np.int32 else quotient,
    )
    check(cases, {"x": x, "y": y})


@pytest.mark.parametrize("is_constant", [False, True])
def test_integers_divide_as_on_arm(is_constant):
    lowest = np.iinfo(np.int32).min
    x = np.array([7, -7, 0, lowest, lowest, -7, 7], np.int32)
    y = np.array([0, 0, 0, -1, 0, 2, -2], np.int32)

    def call(name):
        return lambda x, y: getattr(mb, name)(x=x, y=divisor if is_constant else y)

    divisor = y
    cases = {
        "real_div": (call("real_div"), np.array([0, 0, 0, lowest, 0, -3, -3], np.int32)),
        "floor_div": (call("floor_div"), np.array([0, 0, 0, lowest, 0, -4, -4], np.int32)),
        "mod": (call("mod"), np.array([7, -7, 0, 0, lowest, 1, -1], np.int32)),
    }
    check(cases, {"x": x, "y": y})


def test_powers():
    x, y = np.abs(X) + 0.5, np.array([2.0, 0.5, -1.0], np.float32)
    check({"float": (_call("pow"), x**y)}, {"x": x, "y": y})
    i, j = WHOLE, np.array([0, 2, 3], np.int32)
    check({"int": (_call("pow"), i**j)}, {"x": i, "y": j})


def test_logic():
    cases = {
        "and": (_call("logical_and"), A & B),
        "or": (_call("logical_or"), A | B),
        "xor": (_call("logical_xor"), A ^ B),
    }
    # A program cannot take booleans in.
    cases = {
        n: (lambda x, y, f=f: f(mb.greater(x=x, y=0.0), mb.greater(x=y, y=0.0)), e)
        for n, (f, e) in cases.items()
    }
    check(cases, {"x": A.astype(np.float32), "y": B.astype(np.float32)})


def test_scalars():
    cases = {
        "constant": (lambda x: mb.mul(x=x, y=2.0), X * 2),
        "rank 0": (lambda x: mb.add(x=mb.reduce_sum(x=x), y=1.5), np.float32(X.sum() + 1.5)),
    }
    check(cases, {"x": X})


def test_mixed_element_types_meet_in_the_float():
    cases = {"cast": (lambda x, i: mb.mul(x=x, y=mb.cast(x=i, dtype="fp32")), X * WHOLE)}
    check(cases, {"x": X, "i": WHOLE})
    fp16, fp32, int32 = ir.DType.FP16, ir.DType.FP32, ir.DType.INT32
    assert promoted(int32, fp16) is fp16
    assert promoted(fp16, fp32) is fp32
    assert promoted(ir.DType.BOOL, int32) is int32


def test_shape_arithmetic_is_computed_while_binding():
    def body(x):
        size = mb.gather(x=mb.shape(x=x), indices=[2], axis=0)
        half = mb.floor_div(x=size, y=2)
        exact = mb.floor(x=mb.real_div(x=mb.cast(x=size, dtype="fp32"), y=4.0))
        whole = mb.mod(x=mb.maximum(x=mb.mul(x=half, y=3), y=0), y=7)
        shape = mb.concat(values=[[1], half, mb.cast(x=exact, dtype="int32"), [-1]], axis=0)
        return mb.reshape(x=x, shape=shape), mb.identity(x=whole), mb.identity(x=mb.pow(x=half, y=[0, 2]))

    graph = bind_main(build(body, {"x": np.zeros((1, 3, 8, 4), np.float32)})).graph
    assert graph.outputs[0].type.shape == (1, 4, 2, 12)
    assert graph.outputs[1].constant.item() == 12 % 7
    assert graph.outputs[2].constant.numpy().tolist() == [1, 16]


def test_shapes_that_do_not_broadcast_are_named():
    from coremlscope.ops import OPS
    from coremlscope.ops.bind import bind

    model = build(lambda x, y: mb.add(x=x, y=y), {"x": X, "y": Y})
    ((_, text),) = bind(model.content.functions["main"], OPS, {"x": (4, 3)}).problems
    assert "[4, 3], [2, 1] do not broadcast" in text


def test_work():
    def body(x, y):
        return mb.mod(x=mb.add(x=x, y=y), y=y)

    found = works(body, {"x": np.zeros((5, 1, 4), np.float32), "y": np.zeros((3, 1), np.float32)})
    # 5·3·4 = 60 elements of 4 bytes out; 20 and 3 in.
    assert (found["add"].flops, found["add"].read_bytes, found["add"].written_bytes) == (60, 92, 240)
    assert found["mod"].flops == 4 * math.prod((5, 3, 4))
