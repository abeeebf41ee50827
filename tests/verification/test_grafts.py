"""Operations of a reference that a model lacks, or computes in another way, written in MIL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

import coremlscope
from coremlscope.verification.recognition.moved_elements import find_order
from tests.support.faulty_programs import _program, save_program

_WEIGHT = (np.random.default_rng(0).standard_normal((8, 8)) * 0.5).astype(np.float32)
_GAIN = np.random.default_rng(1).uniform(0.5, 1.5, 8).astype(np.float32)


def _around(middle: Callable[[Any], Any]) -> Any:
    """Builds a program with other operations between two layers."""

    def body(_: Any, x: Any) -> Any:
        return mb.linear(x=middle(mb.linear(x=x, weight=_WEIGHT, name="first")), weight=_WEIGHT, name="last")

    return body


def _quick(x: Any) -> Any:
    return mb.mul(x=x, y=mb.sigmoid(x=mb.mul(x=x, y=1.4)), name="active")


def _mean(x: Any) -> Any:
    return mb.reduce_mean(x=mb.stack(values=[x, mb.tanh(x=x)], axis=0), axes=[0], name="pooled")


def _norm(x: Any) -> Any:
    return mb.layer_norm(x=x, axes=[-1], gamma=_GAIN, epsilon=1e-5, name="even")


def _softmax(x: Any) -> Any:
    return mb.mul(x=mb.softmax(x=mb.square(x=x), axis=-1), y=mb.abs(x=x), name="share")


def _flipped(x: Any) -> Any:
    return mb.reverse(x=x, axes=[0, 1], name="turned")


_CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "another activation": (_quick, lambda x: mb.gelu(x=x, name="active")),
    "a missing mean": (lambda x: x, _mean),
    "a missing norm and activation": (lambda x: x, lambda x: mb.tanh(x=_norm(x), name="active")),
    "missing shares": (lambda x: x, _softmax),
    "another order of elements": (lambda x: x, _flipped),
}


@pytest.mark.parametrize("name", _CASES)
def test_what_the_reference_computes_is_written_into_the_model(name: str, tmp_path: Path) -> None:
    wrong, right = _CASES[name]
    model = save_program(_program((4, 8), _around(wrong)), tmp_path / "model.mlpackage", fp16=False)
    reference = save_program(_program((4, 8), _around(right)), tmp_path / "right.mlpackage", fp16=False)
    fixed = tmp_path / "fixed.mlpackage"
    found = coremlscope.verify(model, reference, apply=fixed)
    assert found.faults[0].cause != "unknown"
    assert found.fixes[-1].works
    inputs = {"x": np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32)}
    made, wanted = (coremlscope.predict(path, inputs) for path in (fixed, reference))
    np.testing.assert_allclose(*(next(iter(one.values())) for one in (made, wanted)), atol=1e-4)


def test_the_places_of_elements_are_found() -> None:
    array = np.random.default_rng(0).standard_normal((3, 4))
    places = find_order(array, array.T)
    assert places is not None
    np.testing.assert_array_equal(array.reshape(-1)[places], array.T.reshape(-1))
    assert find_order(array, array.T + 1) is None
