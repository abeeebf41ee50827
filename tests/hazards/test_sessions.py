"""What goes wrong in sessions of ONNX Runtime: a session that meets each row, and one next to it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coremlscope.planning.hazards import providers
from tests.onnx_provider.build import HALF, INT64, Built


def _relu(shape: list[int | None], **more: object) -> Callable[[Built], object]:
    def build(built: Built) -> None:
        built.node("Relu", built.input(shape, **more), shape=shape, **more)  # type: ignore[arg-type]

    return build


def _masked(value: float, op: str = "Add") -> Callable[[Built], object]:
    return lambda built: built.node(op, built.input([1, 4]), built.constant(value), shape=[1, 4])


def _shape(end: int) -> Callable[[Built], object]:
    def build(built: Built) -> None:
        built.node("Shape", built.input([1, 3, 8, 8]), shape=[end], dtype=INT64, end=end)

    return build


@pytest.mark.parametrize(
    ("build", "format_", "id_"),
    [
        (_relu([None, 3]), "mlprogram", "onnxruntime-free-dimensions"),
        (_relu([None, 3]), "neuralnetwork", "onnxruntime-free-dimensions"),
        (_relu([2, 3]), "mlprogram", ""),
        (_relu([2, 3], dtype=HALF), "neuralnetwork", "onnxruntime-float16"),
        (_relu([2, 3], dtype=HALF), "mlprogram", ""),
        (
            _relu([None, 3], dtype=HALF),
            "mlprogram",
            "onnxruntime-free-dimensions onnxruntime-static-float16",
        ),
        (_masked(-1e9), "neuralnetwork", "onnxruntime-half-constants"),
        (_masked(-1e9), "mlprogram", ""),
        (_masked(-1e4), "neuralnetwork", ""),
        (_masked(1e9, "Clip"), "neuralnetwork", ""),
        (_shape(4), "mlprogram", "onnxruntime-shape-end"),
        (_shape(3), "mlprogram", ""),
    ],
)
def test_rows(build: Callable[[Built], object], format_: str, id_: str) -> None:
    built = Built()
    build(built)
    report = built.divide(format_).report  # type: ignore[arg-type]
    assert [one.id for one in report.hazards] == id_.split()


def test_each_row_has_a_detector() -> None:
    assert all((row.session is None) != (row.lines is None) for row in providers.HAZARDS)
