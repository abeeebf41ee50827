"""Operations inside which numbers overflow on the Neural Engine, as reports of the field saw them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

import coremlscope
from coremlscope.verification.pairing import plain_name
from tests.support.faulty_programs import _program, save_program

_WEIGHT = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)


def _softplus(_: Any, x: Any) -> Any:
    return mb.linear(x=mb.softplus(x=mb.mul(x=x, y=3.0), name="soft"), weight=_WEIGHT, name="y")


def _mish(_: Any, x: Any) -> Any:
    x = mb.mul(x=x, y=3.0)
    return mb.mul(x=x, y=mb.tanh(x=mb.softplus(x=x, name="soft")), name="y")


def _log_sum_exp(keep_dims: bool) -> Callable[[Any, Any], Any]:
    def body(_: Any, x: Any) -> Any:
        total = mb.reduce_log_sum_exp(x=x, axes=[-1], keep_dims=keep_dims, name="total")
        return mb.mul(x=total, y=0.5, name="y")

    return body


#: A body, the operation, and the largest argument of which the operation returns right results.
_CASES = {
    "2687": (_softplus, "soft", 10.39 / 3),
    "2359": (_mish, "soft", 10.39 / 3),
    "2690": (_log_sum_exp(True), "total", np.log(65504 / 8)),
    "2690 without axes": (_log_sum_exp(False), "total", np.log(65504 / 8)),
}


@pytest.mark.parametrize("name", _CASES)
def test_an_overflow_inside_an_operation_is_named_and_mended(name: str, tmp_path: Path) -> None:
    body, op, limit = _CASES[name]
    model = save_program(_program((2, 8), body), tmp_path / "model.mlpackage", fp16=True)
    reference = save_program(_program((2, 8), body), tmp_path / "reference.mlpackage", fp16=False)
    over = {"x": np.full((2, 8), limit * 1.01, np.float32)}
    found = coremlscope.verify(coremlscope.Subject(model, inputs=over), reference)
    assert [output.passed for output in found.outputs] == [True, True, False]
    (fault,) = found.faults
    assert (plain_name(fault.name), fault.cause, fault.run) == (op, "overflow", "fp16-inside")
    assert re.search(r": (\d+) of \1 elements are lost", fault.text)
    assert fault.repairs
    assert "exp(" in fault.code


@pytest.mark.parametrize("name", _CASES)
def test_what_stays_in_range_passes(name: str, tmp_path: Path) -> None:
    body, _, limit = _CASES[name]
    model = save_program(_program((2, 8), body), tmp_path / "model.mlpackage", fp16=True)
    inputs = {"x": np.full((2, 8), limit * 0.99, np.float32)}
    found = coremlscope.verify(coremlscope.Subject(model, inputs=inputs), model)
    assert found.passed
    assert "fp16-inside" in found.runs
