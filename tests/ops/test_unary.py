from __future__ import annotations

import math

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from tests.support.op_cases import check, works

X = np.array([[-2.5, -1.5, -0.75, -0.5], [0.0, 0.5, 1.5, 2.7]], np.float32)
UNIT = np.array([-0.9, -0.25, 0.0, 0.5], np.float32)
ABOVE = np.array([0.25, 1.0, 7.0], np.float32)
WHOLE = np.array([-3, 0, 4], np.int32)

ANYWHERE = {
    "abs": np.abs,
    "atan": np.arctan,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": np.vectorize(math.erf),
    "exp": np.exp,
    "exp2": np.exp2,
    "floor": np.floor,
    "round": np.round,
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
}


def _call(name, **more):
    return lambda x: getattr(mb, name)(x=x, **more)


def _cases(functions, x):
    return {name: (_call(name), compute(x)) for name, compute in functions.items()}


def test_functions_of_all_numbers():
    check(_cases(ANYWHERE, X), {"x": X})


def test_functions_of_some_numbers():
    check(_cases({"acos": np.arccos, "asin": np.arcsin, "atanh": np.arctanh}, UNIT), {"x": UNIT})
    check(_cases({"sqrt": np.sqrt}, ABOVE), {"x": ABOVE})


@pytest.mark.parametrize("target", [ct.target.iOS15, ct.target.iOS17])
def test_functions_with_an_epsilon(target):
    cases = {
        "inverse": (_call("inverse"), 1 / (ABOVE + 1e-4)),
        "inverse 0.5": (_call("inverse", epsilon=0.5), 1 / (ABOVE + 0.5)),
        "log": (_call("log"), np.log(ABOVE)),
        "log 0.5": (_call("log", epsilon=0.5), np.log(ABOVE + 0.5)),
        "rsqrt": (_call("rsqrt"), 1 / np.sqrt(ABOVE)),
        "rsqrt 0.5": (_call("rsqrt", epsilon=0.5), 1 / np.sqrt(ABOVE + 0.5)),
        "clip": (_call("clip", alpha=-1.0, beta=0.75), np.clip(X[0, :3], -1, 0.75)),
    }
    cases["clip"] = (_call("clip", alpha=0.5, beta=2.0), np.clip(ABOVE, 0.5, 2.0))
    cases["threshold"] = (_call("threshold", alpha=0.5), np.maximum(ABOVE, 0.5))
    check(cases, {"x": ABOVE}, target=target)


def test_integers():
    functions = {"abs": np.abs, "sign": np.sign, "square": np.square}
    cases = _cases(functions, WHOLE)
    cases["threshold"] = (_call("threshold", alpha=np.int32(1)), np.maximum(WHOLE, 1))
    cases["exp2"] = (lambda x: mb.exp2(x=mb.abs(x=x)), 2 ** np.abs(WHOLE))
    check(cases, {"x": WHOLE})


def test_logical_not():
    check({"not": (lambda x: mb.logical_not(x=mb.greater(x=x, y=0.0)), X <= 0)}, {"x": X})


def test_work():
    found = works(lambda x: mb.rsqrt(x=mb.exp(x=x)), {"x": np.zeros((2, 3), np.float32)})
    assert (found["exp"].flops, found["rsqrt"].flops) == (6, 18)
    assert (found["exp"].read_bytes, found["exp"].written_bytes) == (24, 24)
