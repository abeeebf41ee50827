"""Passes that merge hard swishes."""

from __future__ import annotations

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.ops.lower import lower
from tests.support.programs import bind_main, build, run

X = np.linspace(-6, 6, 24, dtype=np.float32).reshape(1, 2, 3, 4)


def _swish(threshold, alpha=1 / 6, beta=0.5):
    def body(x):
        kept = mb.thresholded_relu(x=x, alpha=np.float32(threshold))
        return mb.mul(x=mb.sigmoid_hard(x=x, alpha=np.float32(alpha), beta=np.float32(beta)), y=kept)

    return body


@pytest.mark.parametrize(
    ("threshold", "alpha", "beta", "is_removed"),
    [
        (-3.0, 1 / 6, 0.5, True),
        (-3.0, float(np.float16(1 / 6)), 0.5, True),
        (-5.0, 1 / 6, 0.5, True),
        (-1.0, 1 / 6, 0.5, False),
        (-3.0, -1 / 6, 0.5, False),
    ],
)
def test_a_redundant_threshold_is_removed(threshold, alpha, beta, is_removed):
    body = _swish(threshold, alpha, beta)
    nodes = [node.op_type for node in lower(bind_main(build(body, {"x": X}))).model.graph.node]
    assert ("ThresholdedRelu" not in nodes) == is_removed
    (result,) = run(body, {"x": X})
    expected = np.where(threshold <= X, X, 0) * np.clip(alpha * X + beta, 0, 1)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("gate_reads", ["threshold", "x"])
def test_a_hard_swish_with_standard_constants_is_one_node(gate_reads):
    def body(x):
        kept = mb.thresholded_relu(x=x, alpha=-3.0)
        gate = mb.sigmoid_hard(x=kept if gate_reads == "threshold" else x, alpha=np.float32(1 / 6), beta=0.5)
        return mb.mul(x=kept, y=gate)

    program = lower(bind_main(build(body, {"x": X})))
    assert [node.op_type for node in program.model.graph.node] == ["HardSwish"]
    (result,) = run(body, {"x": X})
    np.testing.assert_allclose(result, X * np.clip(X / 6 + 0.5, 0, 1), rtol=1e-5, atol=1e-6)


def test_a_threshold_with_other_constants_stays_if_the_gate_reads_it():
    def body(x):
        kept = mb.thresholded_relu(x=x, alpha=-2.0)
        return mb.mul(x=kept, y=mb.sigmoid_hard(x=kept, alpha=np.float32(0.25), beta=0.5))

    (result,) = run(body, {"x": X})
    kept = np.where(X >= -2, X, 0)
    np.testing.assert_allclose(result, kept * np.clip(kept / 4 + 0.5, 0, 1), rtol=1e-5, atol=1e-6)


def test_a_threshold_that_other_nodes_read_stays():
    def body(x):
        kept = mb.thresholded_relu(x=x, alpha=-3.0)
        return mb.mul(x=mb.sigmoid_hard(x=x, alpha=np.float32(1 / 6), beta=0.5), y=kept), kept

    product, kept = run(body, {"x": X})
    np.testing.assert_allclose(kept, np.where(X >= -3, X, 0))
    np.testing.assert_allclose(product, X * np.clip(X / 6 + 0.5, 0, 1), rtol=1e-5, atol=1e-6)
