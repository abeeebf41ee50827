from __future__ import annotations

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.ops.lower import lower
from tests.support.op_cases import check, works
from tests.support.programs import bind_main, build

RANDOM = np.random.default_rng(6)
SHAPES = [(2, 3, 4), (2, 3, 4, 5), (1, 3, 2, 4, 2)]


def _numbers(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def _normalized(x, axes, epsilon=1e-5, gamma=1.0, beta=0.0):
    x = x.astype(np.float64)
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * gamma + beta


@pytest.mark.parametrize("shape", SHAPES)
def test_normalized_per_channel(shape):
    x, rank = _numbers(*shape), len(shape)
    mean, gamma, beta = _numbers(3), _numbers(3), _numbers(3)
    variance = np.abs(_numbers(3)) + 0.1

    def column(array):
        return array.reshape(1, 3, *[1] * (rank - 2))

    def batch_norm(epsilon):
        return (x - column(mean)) / np.sqrt(column(variance) + epsilon)

    spatial = tuple(range(2, rank))
    given = {"mean": mean, "variance": variance}
    learned = {"gamma": gamma, "beta": beta, "epsilon": np.float32(0.1)}
    scaled = batch_norm(0.1) * column(gamma) + column(beta)
    cases = {
        "batch": (lambda x: mb.batch_norm(x=x, **given), batch_norm(1e-5)),
        "batch, learned": (lambda x: mb.batch_norm(x=x, **given, **learned), scaled),
        "instance": (lambda x: mb.instance_norm(x=x), _normalized(x, spatial)),
        "instance, learned": (
            lambda x: mb.instance_norm(x=x, **learned),
            _normalized(x, spatial, 0.1, column(gamma), column(beta)),
        ),
    }
    check(cases, {"x": x}, tolerance=1e-4)


@pytest.mark.parametrize("target", [ct.target.iOS15, ct.target.iOS17])
def test_layer_norm(target):
    x = _numbers(2, 3, 4, 5)
    cases = {}
    for axes in ([-1], [2, 3], [1], [0, 2], [3, 1], [-3, -2, -1]):
        ordered = tuple(sorted(axis % 4 for axis in axes))
        gamma, beta = (_numbers(*(x.shape[axis] for axis in ordered)) for _ in range(2))
        wide = [x.shape[axis] if axis in ordered else 1 for axis in range(4)]
        learned = {"gamma": gamma, "beta": beta, "epsilon": np.float32(0.01)}
        cases[f"{axes}"] = (lambda x, axes=axes: mb.layer_norm(x=x, axes=axes), _normalized(x, ordered))
        cases[f"{axes}, learned"] = (
            lambda x, axes=axes, learned=learned: mb.layer_norm(x=x, axes=axes, **learned),
            _normalized(x, ordered, 0.01, gamma.reshape(wide), beta.reshape(wide)),
        )
    cases["all axes"] = (lambda x: mb.layer_norm(x=x, axes=[0, 1, 2, 3]), _normalized(x, (0, 1, 2, 3)))
    check(cases, {"x": x}, target=target, tolerance=1e-4)


def test_layer_norm_of_the_last_axes_is_one_node():
    model = build(lambda x: mb.layer_norm(x=x, axes=[-1]), {"x": _numbers(1, 3, 8)})
    nodes = lower(bind_main(model)).model.graph.node
    assert [node.op_type for node in nodes] == ["LayerNormalization"]


@pytest.mark.parametrize("shape", SHAPES)
def test_l2_norm(shape):
    x = _numbers(*shape)
    squares = (x.astype(np.float64) ** 2).sum((-3, -2, -1), keepdims=True)
    cases = {
        "default": (lambda x: mb.l2_norm(x=x), x / np.sqrt(squares + 1e-6)),
        "epsilon": (lambda x: mb.l2_norm(x=x, epsilon=np.float32(0.5)), x / np.sqrt(squares + 0.5)),
    }
    check(cases, {"x": x})


@pytest.mark.parametrize("shape", [(4, 3, 4), (2, 6, 3, 4), (1, 6, 2, 3, 2)])
def test_local_response_norm(shape):
    x = _numbers(*shape)
    axis = 0 if len(shape) == 3 else 1
    squares = np.moveaxis(x.astype(np.float64) ** 2, axis, 0)

    def expected(size, alpha=1e-4, beta=0.75, k=1.0):
        before, after = size // 2, (size - 1) // 2
        sums = [squares[max(c - before, 0) : c + after + 1].sum(0) for c in range(len(squares))]
        return x / (k + alpha / size * np.moveaxis(np.stack(sums), 0, axis)) ** beta

    def norm(size, **more):
        return lambda x: mb.local_response_norm(x=x, size=size, **more)

    cases = {f"{size}": (norm(size), expected(size)) for size in (1, 2, 3, 5)}
    strong = {"alpha": np.float32(2.0), "beta": np.float32(0.5), "k": np.float32(1.5)}
    cases |= {f"{size}, strong": (norm(size, **strong), expected(size, **strong)) for size in (2, 3, 4, 5)}
    check(cases, {"x": x})


def test_work():
    def body(x):
        y = mb.layer_norm(x=x, axes=[-1], gamma=np.ones(5, np.float32), beta=np.ones(5, np.float32))
        return mb.batch_norm(x=y, mean=np.ones(3, np.float32), variance=np.ones(3, np.float32))

    found = works(body, {"x": np.zeros((2, 3, 4, 5), np.float32)})
    assert (found["layer_norm"].flops, found["batch_norm"].flops) == (7 * 120, 2 * 120)
