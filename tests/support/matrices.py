"""Matrices with round numbers, made by hand."""

from __future__ import annotations

from coremlscope.batch import Forecast, Matrix, MatrixRow, Problem, Timing
from coremlscope.devices import ComputeUnits
from coremlscope.figures import Figure
from coremlscope.results.profile import Phase

SETTINGS: tuple[ComputeUnits, ...] = ("all", "cpu_and_ne", "cpu_and_gpu", "cpu_only")


def _forecasts(scale: float) -> tuple[Forecast, ...]:
    return tuple(
        Forecast(
            "iPhone 15 Pro", "iOS 18", setting, Figure(*[0.0005 * scale] * 3, "planned"),
            Figure(0.001 * scale, 0.0007 * scale, 0.0014 * scale, "estimated"),
            "calibrated" if scale < 2 else "extrapolated",
        )
        for setting in SETTINGS
    )  # fmt: skip


def host_matrix() -> Matrix:
    """Off a Mac: two models on this host, one of which cannot be planned, and one that is none."""
    timing = Timing("scripted 1.0 on Example 9000, 2 threads", "", "", Phase((0.02,)), Phase((0.001, 0.003)))
    rows = (
        MatrixRow("a-model-with-a-rather-long-name.mlpackage", (timing,), _forecasts(1)),
        MatrixRow("b.mlpackage", (timing,), (), (Problem("plan and estimate", "no operations", "", 5),)),
        MatrixRow("c.txt", (), (), (Problem("read", "c.txt is not a Core ML model", "give one", 3),)),
        MatrixRow("d.mlpackage", (timing,), _forecasts(2)),
    )
    return Matrix(2, SETTINGS, ("iPhone 15 Pro",), rows)


def mac_matrix() -> Matrix:
    """On a Mac whose power mode was changed between the models, and that was interrupted."""

    def timings(mode: str, settings: tuple[ComputeUnits, ...]) -> tuple[Timing, ...]:
        phases = Phase((0.02,)), Phase((0.001, 0.003))
        return tuple(Timing("Core ML on Apple M4", setting, mode, *phases) for setting in settings)

    rows = (
        MatrixRow("a.mlpackage", timings("normal", SETTINGS)),
        MatrixRow("b.mlpackage", timings("low power", SETTINGS[:2])),
        MatrixRow("c.mlpackage"),
    )
    return Matrix(2, SETTINGS, (), rows, interrupted=True)
