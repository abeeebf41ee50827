"""Sums of products that lose digits where a unit accumulates in fp16."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

import coremlscope
from coremlscope.verification.pairing import plain_name
from tests.support.faulty_programs import _program, save_program

_RANDOM = np.random.default_rng(0)
_WIDE = (_RANDOM.standard_normal((1024, 8)) * 0.3).astype(np.float32)
_SIGNS = np.repeat(np.array([0.5, -0.5], np.float32), 512)
_NOISE = (_RANDOM.standard_normal((16, 1024)) * 0.02).astype(np.float32)


def _linear(level: float) -> Any:
    def body(_: Any, x: Any) -> Any:
        wide = mb.add(x=mb.linear(x=x, weight=_WIDE, name="wide"), y=np.float32(level), name="raised")
        return mb.linear(x=wide, weight=_SIGNS + _NOISE, name="contrast")

    return body


def _conv(level: float) -> Any:
    def body(_: Any, x: Any) -> Any:
        wide = mb.add(x=mb.linear(x=x, weight=_WIDE, name="wide"), y=np.float32(level), name="raised")
        image = mb.reshape(x=wide, shape=[2, 1024, 1, 1])
        return mb.conv(x=image, weight=(_SIGNS + _NOISE)[:, :, None, None], name="contrast")

    return body


def _matmul(level: float) -> Any:
    def body(_: Any, x: Any) -> Any:
        narrow = mb.linear(x=x, weight=_WIDE, name="wide")
        near_one = mb.exp(x=mb.mul(x=mb.slice_by_index(x=narrow, begin=[0, 0], end=[1, 1024]), y=0.02))
        wide = mb.add(x=narrow, y=np.float32(level), name="raised")
        return mb.matmul(x=wide, y=mb.mul(x=near_one, y=_SIGNS), transpose_y=True, name="contrast")

    return body


@pytest.mark.parametrize("make", [_linear, _conv, _matmul])
def test_a_sum_whose_parts_cancel_is_named(make: Any, tmp_path: Path) -> None:
    model = save_program(_program((2, 8), make(20.0)), tmp_path / "model.mlpackage", fp16=True)
    reference = save_program(_program((2, 8), make(20.0)), tmp_path / "reference.mlpackage", fp16=False)
    found = coremlscope.verify(model, reference)
    assert [(output.run, output.passed) for output in found.outputs] == [
        ("fp32", True),
        ("fp16", True),
        ("fp16-sums", False),
    ]
    (fault,) = found.faults
    assert (plain_name(fault.name), fault.cause, fault.run) == ("contrast", "accumulation", "fp16-sums")
    assert fault.repairs
    assert "contrast" in fault.code


@pytest.mark.parametrize("make", [_linear, _conv, _matmul])
def test_a_sum_whose_parts_are_small_passes(make: Any, tmp_path: Path) -> None:
    model = save_program(_program((2, 8), make(0.0)), tmp_path / "model.mlpackage", fp16=True)
    found = coremlscope.verify(model, model)
    assert found.passed
    assert not found.faults
