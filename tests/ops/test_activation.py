from __future__ import annotations

import math

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.ops.lower import lower
from tests.support.op_cases import check, works
from tests.support.programs import bind_main, build

X = np.array([-8.0, -3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 8.0, 40.0], np.float32).reshape(1, 2, 5)
WIDE = np.linspace(-4, 4, 48, dtype=np.float32).reshape(1, 3, 4, 4)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _call(name, **more):
    return lambda x: getattr(mb, name)(x=x, **more)


@pytest.mark.parametrize("target", [ct.target.iOS15, ct.target.iOS17])
def test_activations(target):
    x = X.astype(np.float64)
    erf = np.vectorize(math.erf)
    cube = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    cases = {
        "relu": (_call("relu"), np.maximum(x, 0)),
        "relu6": (_call("relu6"), np.clip(x, 0, 6)),
        "leaky": (_call("leaky_relu", alpha=0.1), np.where(x >= 0, x, 0.1 * x)),
        "clamped": (_call("clamped_relu", alpha=0.1, beta=2.0), np.minimum(np.where(x >= 0, x, 0.1 * x), 2)),
        "clamped 0": (_call("clamped_relu", alpha=0.0, beta=2.0), np.clip(x, 0, 2)),
        "clamped below 0": (
            _call("clamped_relu", alpha=0.5, beta=-1.0),
            np.minimum(np.where(x >= 0, x, x / 2), -1),
        ),
        "thresholded": (_call("thresholded_relu", alpha=1.0), np.where(x >= 1, x, 0)),
        "thresholded -3": (_call("thresholded_relu", alpha=-3.0), np.where(x >= -3, x, 0)),
        "thresholded 0": (_call("thresholded_relu", alpha=0.0), np.maximum(x, 0)),
        "elu": (_call("elu", alpha=1.5), np.where(x > 0, x, 1.5 * np.expm1(np.minimum(x, 0)))),
        "gelu": (_call("gelu"), 0.5 * x * (1 + erf(x / np.sqrt(2)))),
        "gelu tanh": (_call("gelu", mode="TANH_APPROXIMATION"), 0.5 * x * (1 + np.tanh(cube))),
        "gelu sigmoid": (_call("gelu", mode="SIGMOID_APPROXIMATION"), x * _sigmoid(1.702 * x)),
        "sigmoid": (_call("sigmoid"), _sigmoid(x)),
        "hard": (_call("sigmoid_hard", alpha=0.3, beta=0.4), np.clip(0.3 * x + 0.4, 0, 1)),
        "silu": (_call("silu"), x * _sigmoid(x)),
        "linear": (_call("linear_activation", alpha=2.0, beta=-1.0), 2 * x - 1),
        "linear 1": (_call("linear_activation", alpha=1.0, beta=3.0), x + 3),
        "tanh": (_call("scaled_tanh", alpha=1.7, beta=0.6), 1.7 * np.tanh(0.6 * x)),
        "softplus": (_call("softplus"), np.logaddexp(0, x)),
        "softsign": (_call("softsign"), x / (1 + np.abs(x))),
        "softmax": (_call("softmax"), _softmax(x, -1)),
        "softmax 1": (_call("softmax", axis=1), _softmax(x, 1)),
        "softmax -3": (_call("softmax", axis=-3), _softmax(x, -3)),
    }
    check(cases, {"x": X}, target=target)


def test_parameters_per_channel():
    alpha, beta = np.array([0.1, -0.5, 2.0], np.float32), np.array([1.0, 0.5, -2.0], np.float32)
    a, b = alpha.reshape(1, 3, 1, 1), beta.reshape(1, 3, 1, 1)
    cases = {
        "prelu": (_call("prelu", alpha=alpha), np.where(WIDE > 0, WIDE, a * WIDE)),
        "softplus": (_call("softplus_parametric", alpha=alpha, beta=beta), a * np.logaddexp(0, b * WIDE)),
    }
    check(cases, {"x": WIDE})


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 3, 2, 2, 2)])
def test_prelu_of_other_ranks(shape):
    x = np.linspace(-1, 1, math.prod(shape), dtype=np.float32).reshape(shape)
    alpha = np.full(3, 0.25, np.float32)
    check({"prelu": (_call("prelu", alpha=alpha), np.where(x > 0, x, x / 4))}, {"x": x})


def test_one_node_where_one_suffices():
    body = {
        "relu": _call("relu"),
        "gelu": _call("gelu"),
        "relu6": _call("relu6"),
        "softmax": _call("softmax"),
    }
    model = build(lambda x: [case(x) for case in body.values()], {"x": X})
    nodes = [node.op_type for node in lower(bind_main(model)).model.graph.node]
    assert nodes == ["Relu", "Gelu", "Clip", "Softmax"]


def test_work():
    shape = np.zeros((1, 2, 5), np.float32)
    found = works(lambda x: mb.softmax(x=mb.gelu(x=mb.silu(x=mb.relu(x=x)))), {"x": shape})
    assert {name: work.flops for name, work in found.items()} == {
        "relu": 10,
        "silu": 50,
        "gelu": 50,
        "softmax": 50,
    }
