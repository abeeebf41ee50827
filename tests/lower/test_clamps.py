"""Chains of bounds, factors and summands that are equivalent to one activation."""

from __future__ import annotations

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

import coremlscope
from coremlscope.ops.lower import lower
from coremlscope.runtime.execution.binding import bind_model
from tests.support.networks import network, random, read
from tests.support.programs import bind_main, build, run

X = np.linspace(-9, 9, 24, dtype=np.float32).reshape(1, 2, 3, 4)


def _nodes(body):
    return [node.op_type for node in lower(bind_main(build(body, {"x": X}))).model.graph.node]


def _relu6(x):
    x = mb.mul(x=mb.relu(x=x), y=np.float32(-1))
    return mb.mul(x=mb.threshold(x=x, alpha=np.float32(-6)), y=np.float32(-1))


def _scaled_hard_sigmoid(x):
    x = mb.sigmoid_hard(x=mb.mul(x=x, y=np.float32(1 / 6)), alpha=np.float32(1), beta=np.float32(0))
    return mb.mul(x=x, y=np.float32(6))


def _hard_sigmoid(x):
    return mb.mul(x=_relu6(mb.add(x=x, y=np.float32(3))), y=np.float32(1 / 6))


@pytest.mark.parametrize(
    ("body", "node", "expected"),
    [
        (_relu6, "Clip", np.clip(X, 0, 6)),
        (_scaled_hard_sigmoid, "Clip", np.clip(X, 0, 6)),
        (_hard_sigmoid, "HardSigmoid", np.clip(X / 6 + 0.5, 0, 1)),
        (
            lambda x: mb.relu(x=mb.clip(x=x, alpha=np.float32(-2), beta=np.float32(3))),
            "Clip",
            np.clip(X, 0, 3),
        ),
        (lambda x: mb.relu(x=mb.relu(x=x)), "Relu", np.maximum(X, 0)),
    ],
)
def test_chains_that_become_one_node(body, node, expected) -> None:
    assert _nodes(body) == [node]
    (result,) = run(body, {"x": X})
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "body",
    [
        lambda x: mb.mul(x=mb.relu(x=x), y=np.float32(2)),
        lambda x: mb.relu(x=mb.add(x=x, y=np.float32(1))),
        lambda x: mb.relu(x=mb.mul(x=x, y=np.float32(0))),
        lambda x: mb.relu(x=mb.mul(x=x, y=np.ones((1, 1, 1, 1), np.float32))),
    ],
)
def test_chains_that_stay(body) -> None:
    assert len(_nodes(body)) == 2


def test_values_that_other_nodes_read_stay() -> None:
    def body(x):
        bounded = mb.relu(x=x)
        return _relu6(x), mb.add(x=bounded, y=X)

    (six, total) = run(body, {"x": X})
    np.testing.assert_allclose(six, np.clip(X, 0, 6))
    np.testing.assert_allclose(total, np.maximum(X, 0) + X)


def test_a_hard_swish_written_by_a_neural_network_converter() -> None:
    assert _nodes(lambda x: mb.mul(x=x, y=_hard_sigmoid(x))) == ["HardSwish"]


def test_every_layer_of_a_chain_is_in_its_group() -> None:
    builder = network({"x": (3, 8, 8)})
    weight = random(3, 3, 3, 3)
    builder.add_convolution(
        "conv",
        kernel_channels=3,
        output_channels=3,
        height=3,
        width=3,
        stride_height=1,
        stride_width=1,
        border_mode="same",
        groups=1,
        W=weight,
        b=None,
        has_bias=False,
        input_name="x",
        output_name="c",
    )
    builder.add_activation("relu", "RELU", "c", "r")
    builder.add_activation("minus", "LINEAR", "r", "m", [-1.0, 0.0])
    builder.add_unary("six", "m", "s", "threshold", alpha=-6.0)
    builder.add_activation("back", "LINEAR", "s", "y", [-1.0, 0.0])
    model = read(builder)
    nodes = lower(bind_model(model)).model.graph.node
    assert [node.op_type for node in nodes] == ["Reshape", "Conv", "Clip", "Reshape"]
    profile = coremlscope.profile(
        model, iterations=2, effort=coremlscope.Effort(compile_iterations=1, load_iterations=1, warmups=1)
    )
    groups = dict(zip(profile.ops.name, profile.measurement.group, strict=True))
    assert {groups[name] for name in ("conv", "relu", "minus", "six", "back")} == {groups["conv"]}
    assert groups["conv"] >= 0
