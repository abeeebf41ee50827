from __future__ import annotations

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.lower import lower
from tests.support.programs import bind_main, build, run

X = np.linspace(-6, 6, 24, dtype=np.float32).reshape(1, 2, 3, 4)


def _swish(threshold, alpha=1 / 6, beta=0.5):
    def body(x):
        kept = mb.thresholded_relu(x=x, alpha=np.float32(threshold))
        return mb.mul(x=mb.sigmoid_hard(x=x, alpha=np.float32(alpha), beta=np.float32(beta)), y=kept)

    return body


@pytest.mark.parametrize(
    ("threshold", "alpha", "beta", "goes"),
    [
        (-3.0, 1 / 6, 0.5, True),
        (-3.0, float(np.float16(1 / 6)), 0.5, True),
        (-5.0, 1 / 6, 0.5, True),
        (-1.0, 1 / 6, 0.5, False),
        (-3.0, -1 / 6, 0.5, False),
    ],
)
def test_hard_swish_loses_its_cut_only_where_that_changes_nothing(threshold, alpha, beta, goes):
    body = _swish(threshold, alpha, beta)
    nodes = [node.op_type for node in lower(bind_main(build(body, {"x": X}))).model.graph.node]
    assert ("ThresholdedRelu" not in nodes) == goes
    (result,) = run(body, {"x": X})
    expected = np.where(threshold <= X, X, 0) * np.clip(alpha * X + beta, 0, 1)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("gate_reads", ["cut", "x"])
def test_hard_swish_is_one_node_where_its_constants_are_the_usual_ones(gate_reads):
    def body(x):
        cut = mb.thresholded_relu(x=x, alpha=-3.0)
        gate = mb.sigmoid_hard(x=cut if gate_reads == "cut" else x, alpha=np.float32(1 / 6), beta=0.5)
        return mb.mul(x=cut, y=gate)

    program = lower(bind_main(build(body, {"x": X})))
    assert [node.op_type for node in program.model.graph.node] == ["HardSwish"]
    (result,) = run(body, {"x": X})
    np.testing.assert_allclose(result, X * np.clip(X / 6 + 0.5, 0, 1), rtol=1e-5, atol=1e-6)


def test_a_cut_with_other_constants_stays_where_the_gate_reads_it():
    def body(x):
        cut = mb.thresholded_relu(x=x, alpha=-2.0)
        return mb.mul(x=cut, y=mb.sigmoid_hard(x=cut, alpha=np.float32(0.25), beta=0.5))

    (result,) = run(body, {"x": X})
    cut = np.where(X >= -2, X, 0)
    np.testing.assert_allclose(result, cut * np.clip(cut / 4 + 0.5, 0, 1), rtol=1e-5, atol=1e-6)


def test_a_cut_that_is_used_elsewhere_stays():
    def body(x):
        kept = mb.thresholded_relu(x=x, alpha=-3.0)
        return mb.mul(x=mb.sigmoid_hard(x=x, alpha=np.float32(1 / 6), beta=0.5), y=kept), kept

    product, kept = run(body, {"x": X})
    np.testing.assert_allclose(kept, np.where(X >= -3, X, 0))
    np.testing.assert_allclose(product, X * np.clip(X / 6 + 0.5, 0, 1), rtol=1e-5, atol=1e-6)
