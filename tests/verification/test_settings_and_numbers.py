"""Faults in settings and numbers, each named at its operation and fixed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

import coremlscope
from coremlscope.results.verification import Verification
from tests.support.faulty_programs import _program, _random, save_program

_KERNELS = [_random(4, channels, 3, 3, seed=channels, scale=0.4) for channels in (3, 4)]
_BIAS = _random(4, seed=5)
_SQUARES = [_random(8, 8, seed=seed, scale=0.5) for seed in (8, 9, 10)]
_TABLES = [_random(2, 8, seed=6), _random(2, 8, seed=7)]


def _layer(**settings: Any) -> Callable[[Any], Any]:
    return lambda x: mb.relu(x=mb.conv(x=x, weight=_KERNELS[0], name="layer", **settings), name="made")


def _joined(table: int) -> Callable[[Any], Any]:
    return lambda x: mb.tanh(x=mb.concat(values=[_TABLES[table], x], axis=0, name="joined"), name="made")


def _divided(number: int) -> Callable[[Any], Any]:
    def body(x: Any) -> Any:
        places = mb.cast(x=mb.mul(x=mb.abs(x=x), y=50.0), dtype="int32", name="places")
        rows = mb.floor_div(x=places, y=number, name="rows")
        rest = mb.sub(x=places, y=mb.mul(x=rows, y=number), name="rest")
        return mb.sin(x=mb.cast(x=rest, dtype="fp32"), name="made")

    return body


def _exchanged(*, is_moved: bool) -> Callable[[Any], Any]:
    """Two halves that are multiplied, each with its first two axes in another order."""

    def body(x: Any) -> Any:
        first, second = mb.split(x=x, num_splits=2, axis=0, name="halves")
        one, two = (mb.squeeze(x=half, axes=[0]) for half in (first, second))
        if is_moved:
            one, two = (mb.transpose(x=half, perm=[1, 0, 2]) for half in (one, two))
        return mb.tanh(x=mb.matmul(x=one, y=two, transpose_y=True, name="scores"), name="made")

    return body


def _layers(bias: int) -> Callable[[Any], Any]:
    """Two layers, the first of which reads the bias of either."""

    def body(x: Any) -> Any:
        biases = [mb.const(val=_TABLES[place][0], name=f"bias_{place}") for place in range(2)]
        weights = [mb.const(val=_SQUARES[place], name=f"weight_{place}") for place in range(2)]
        first = mb.linear(x=x, weight=weights[0], bias=biases[bias], name="first")
        return mb.linear(x=mb.relu(x=first), weight=weights[1], bias=biases[1], name="next")

    return body


def _gained(*, is_gained: bool) -> Callable[[Any], Any]:
    """A normalized value that three layers read, with a gain or without."""

    def body(x: Any) -> Any:
        even = mb.layer_norm(x=x, axes=[-1], epsilon=1e-5, name="even")
        even = mb.mul(x=even, y=_TABLES[0][0], name="gained") if is_gained else even
        first, second, third = (mb.linear(x=even, weight=_SQUARES[place]) for place in range(3))
        return mb.add(x=mb.tanh(x=first), y=mb.mul(x=mb.relu(x=second), y=mb.sigmoid(x=third)), name="made")

    return body


_CASES: dict[str, tuple[tuple[int, ...], Callable[[Any], Any], Callable[[Any], Any], str, str]] = {
    "a dilation": (
        (1, 3, 16, 16),
        _layer(dilations=[2, 2], pad=[2, 2, 2, 2], pad_type="custom"),
        _layer(pad=[1, 1, 1, 1], pad_type="custom"),
        "layer",
        "setting",
    ),
    "a missing bias": ((1, 3, 16, 16), _layer(), _layer(bias=_BIAS), "layer", "offset"),
    "another constant of a join": ((2, 8), _joined(0), _joined(1), "joined", "weights"),
    "the bias of another layer": ((4, 8), _layers(1), _layers(0), "first", "swapped weights"),
    "a divisor": ((4, 16), _divided(12), _divided(16), "rows", "setting"),
}


def _verify(folder: Path, shape: tuple[int, ...], wrong: Any, right: Any) -> Verification:
    paths = [
        save_program(
            _program(shape, lambda _, x, body=body: body(x)), folder / f"{name}.mlpackage", fp16=False
        )
        for name, body in (("model", wrong), ("right", right))
    ]
    return coremlscope.verify(*paths)


@pytest.mark.parametrize("name", _CASES)
def test_the_operation_is_named_and_fixed(name: str, tmp_path: Path) -> None:
    shape, wrong, right, op, cause = _CASES[name]
    found = _verify(tmp_path, shape, wrong, right)
    assert (found.faults[0].name, found.faults[0].cause) == (op, cause)
    assert found.faults[-1].repairs


def test_two_arguments_in_another_order_are_one_fault(tmp_path: Path) -> None:
    found = _verify(tmp_path, (2, 4, 4, 8), _exchanged(is_moved=True), _exchanged(is_moved=False))
    assert [(fault.cause, fault.type) for fault in found.faults] == [("layout", "transpose")]
    assert found.faults[-1].repairs


def test_a_missing_operation_is_named(tmp_path: Path) -> None:
    found = _verify(tmp_path, (4, 8), _gained(is_gained=False), _gained(is_gained=True))
    assert found.faults[0].cause == "missing operation"
    assert found.faults[0].elements > 0


@pytest.mark.parametrize("number", [1e-10, 1e-9])
def test_a_number_too_small_for_fp16_is_a_fault_of_precision(number: float, tmp_path: Path) -> None:
    def body(fp16: bool) -> Callable[[Any, Any], Any]:
        def program(_: Any, x: Any) -> Any:
            kind, least = (np.float16, np.float16(2.0**-24)) if fp16 else (np.float32, np.float32(number))
            shares = mb.relu(x=mb.cast(x=x, dtype="fp16") if fp16 else x)
            logged = mb.log(x=mb.add(x=shares, y=least, name="safe"), epsilon=kind(0))
            return mb.cast(x=logged, dtype="fp32", name="made")

        return program

    model = save_program(_program((4, 16), body(fp16=True)), tmp_path / "model.mlpackage", fp16=True)
    right = save_program(_program((4, 16), body(fp16=False)), tmp_path / "right.mlpackage", fp16=False)
    fault = coremlscope.verify(model, right).faults[0]
    assert (fault.kind, fault.cause, fault.type) == ("precision", "epsilon", "add")


def test_infinite_constants_of_several_operations_are_one_fault(tmp_path: Path) -> None:
    def body(fp16: bool) -> Callable[[Any, Any], Any]:
        def program(_: Any, x: Any) -> Any:
            low = np.float16(-np.inf) if fp16 else np.finfo(np.float32).min
            given = mb.cast(x=x, dtype="fp16") if fp16 else x
            first = mb.mul(x=mb.relu(x=given), y=low, name="first")
            second = mb.mul(x=mb.relu(x=mb.sin(x=given)), y=low, name="second")
            kept = mb.add(x=mb.exp(x=first), y=mb.exp(x=second))
            return mb.cast(x=kept, dtype="fp32", name="made")

        return program

    model = save_program(_program((4, 16), body(fp16=True)), tmp_path / "model.mlpackage", fp16=True)
    right = save_program(_program((4, 16), body(fp16=False)), tmp_path / "right.mlpackage", fp16=False)
    (fault,) = coremlscope.verify(model, right).faults
    assert (fault.kind, fault.cause, len(fault.alike)) == ("precision", "infinite constants", 1)
    assert fault.repairs


def test_a_cancellation_beside_a_mask_is_named(tmp_path: Path) -> None:
    mask = np.triu(np.full((16, 16), -1e4, np.float32), 1)

    def body(_: Any, x: Any) -> Any:
        scores = mb.add(x=mb.matmul(x=x, y=x, transpose_y=True), y=mask, name="scores")
        back = mb.sub(x=mb.add(x=scores, y=1500.0, name="far"), y=1500.0, name="back")
        return mb.matmul(x=mb.softmax(x=back, axis=-1, name="shares"), y=x, name="made")

    model, right = (
        save_program(_program((16, 8), body), tmp_path / f"{fp16}.mlpackage", fp16=fp16)
        for fp16 in (True, False)
    )
    fault = coremlscope.verify(model, right).faults[0]
    assert (fault.kind, fault.cause, fault.type) == ("precision", "cancellation", "sub")
