"""Outputs that agree by luck: a stage behind a mean, a softmax or a saturated tail differs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope import verify
from coremlscope.formats import container
from coremlscope.verification.own_run import FunctionCall, record
from coremlscope.verification.pairing import plain_name
from tests.support.faulty_programs import _program, _random, save_program

_SHAPE = (1, 3, 8, 8)
Body = Callable[[Any], Any]


def _resized(**corners: bool) -> Body:
    def body(x: Any) -> Any:
        large = mb.upsample_bilinear(
            x=mb.sin(x=x, name="wave"), scale_factor_height=4, scale_factor_width=4, name="large", **corners
        )
        return mb.add(x=mb.mul(x=mb.reduce_mean(x=large, axes=[1, 2, 3]), y=1e-2), y=1.0, name="y")

    return body


def _kernel(turned: bool) -> Body:
    weight = _random(4, 3, 3, 3, seed=1)
    weight = np.ascontiguousarray(weight[:, :, ::-1]) if turned else weight

    def body(x: Any) -> Any:
        layer = mb.conv(x=mb.sin(x=x, name="wave"), weight=weight, pad_type="valid", name="layer")
        return mb.add(x=mb.mul(x=mb.reduce_mean(x=layer, axes=[1, 2, 3]), y=1e-3), y=1.0, name="y")

    return body


@pytest.mark.parametrize(
    ("wrong", "right", "op"),
    [
        (_resized(align_corners=False), _resized(align_corners=True), "large"),
        (_kernel(turned=True), _kernel(turned=False), "layer"),
    ],
)
def test_a_stage_that_differs_on_equal_arguments_is_a_difference(
    wrong: Body, right: Body, op: str, tmp_path: Path
) -> None:
    paths = [
        save_program(
            _program(_SHAPE, lambda _, x, body=body: body(x)), tmp_path / f"{i}.mlpackage", fp16=False
        )
        for i, body in enumerate((wrong, right))
    ]
    found = verify(*paths)
    assert not found.passed
    (row,) = (one for one in found.outputs if not one.passed)
    assert plain_name(row.name) == op
    assert [one.passed for one in found.outputs if one.name == "y"] == [True]
    assert found.faults[0].cause in ("setting", "weights", "layout")


def test_a_folded_normalization_is_no_difference(tmp_path: Path) -> None:
    weight, gamma, beta = _random(4, 3, 3, 3, seed=1), 1 + _random(4, seed=2, scale=0.5), _random(4, seed=3)
    mean, variance = _random(4, seed=4), 0.5 + _random(4, seed=5) ** 2

    def folded(_: Any, x: Any) -> Any:
        scale = gamma / np.sqrt(variance + 1e-5)
        kernel = (weight * scale.reshape(-1, 1, 1, 1)).astype(np.float32)
        layer = mb.conv(x=x, weight=kernel, bias=(beta - mean * scale).astype(np.float32), name="layer")
        return mb.tanh(x=layer, name="y")

    def plain(_: Any, x: Any) -> Any:
        layer = mb.conv(x=x, weight=weight, name="layer")
        norm = mb.batch_norm(x=layer, mean=mean, variance=variance, gamma=gamma, beta=beta, name="norm")
        return mb.tanh(x=norm, name="y")

    model = save_program(_program(_SHAPE, folded), tmp_path / "m.mlpackage", fp16=True)
    x = np.random.default_rng(0).standard_normal(_SHAPE).astype(np.float32)
    right = save_program(_program(_SHAPE, plain), tmp_path / "r.mlpackage", fp16=False)
    run = record(FunctionCall.of(container.read(right), None, {"x": x}))
    assert verify(model, right).passed
    # Saved values of the network before its normalizations were folded.
    values = {name: value.array for name, value in run.values.items()}
    assert verify(model, {**values, "x": x}).passed
