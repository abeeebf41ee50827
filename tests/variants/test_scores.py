"""Outputs that are scores of classes, and those that are signals."""

from __future__ import annotations

import numpy as np
import pytest

from coremlscope.model import ir
from coremlscope.studies.variants.differences import Differences
from coremlscope.studies.variants.evaluation import find_signals
from tests.support.advised_models import F32, Builder

_SIDE = 8


def _ending(name: str, output: str = "y") -> ir.Model:
    """A convolution of a picture, and what makes the output of it."""
    b = Builder({"x": (F32, (1, 3, _SIDE, _SIDE))})
    features = b.conv("features", b["x"], 4, dtype=F32)
    flat = b.op("reshape", "flat", (1, 4 * _SIDE**2), F32, x=features, shape=[1, 4 * _SIDE**2])
    weight = np.ones((6, 4 * _SIDE**2), np.float32)
    scores = b.op("linear", "scores", (1, 6), F32, x=flat, weight=weight, bias=np.zeros(6, np.float32))
    match name:
        case "scores":
            y = b.op("mul", output, (1, 6), F32, x=scores, y=np.float32(0.5))
        case "softmax":
            y = b.op("softmax", output, (1, 6), F32, x=scores, axis=-1)
        case "sigmoid":
            y = b.op("sigmoid", output, (1, 6), F32, x=scores)
        case "sound":
            y = b.op("identity", output, (1, 4 * _SIDE**2), F32, x=flat)
        case _:
            y = b.op("tanh", output, (1, 4, _SIDE, _SIDE), F32, x=features)
    return b.model(y)


@pytest.mark.parametrize("name", ["scores", "softmax"])
def test_scores_rank_classes(name: str) -> None:
    assert find_signals(_ending(name)) == frozenset()


@pytest.mark.parametrize("name", ["sigmoid", "sound", "picture"])
def test_signals_do_not(name: str) -> None:
    assert find_signals(_ending(name)) == {"y"}


def test_names_of_classes_count_first() -> None:
    assert find_signals(_ending("sigmoid", "probabilities")) == frozenset()


def test_signals_are_compared_by_their_energy_alone() -> None:
    before, after = np.array([[0.0, 1.0]]), np.array([[0.0, 0.9]])
    for signals, top1 in ((("y",), None), ((), 1.0)):
        differences = Differences(signals)
        differences.add({"y": before}, {"y": after})
        (found,) = differences.result()
        assert (found.top1, found.snr_db) == (top1, pytest.approx(20.0))
