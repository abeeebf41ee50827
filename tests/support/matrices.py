"""Synthetic matrices with round numbers."""

from __future__ import annotations

from coremlscope.devices import ComputeUnits
from coremlscope.figures import Figure
from coremlscope.matrix import Forecast, Matrix, MatrixRow, Problem, Timing
from coremlscope.results.profile import Phase

SETTINGS: tuple[ComputeUnits, ...] = ("all", "cpu_and_ne", "cpu_and_gpu", "cpu_only")


def _forecasts(scale: float) -> tuple[Forecast, ...]:
    return tuple(
        Forecast(
            device="iPhone 15 Pro",
            os="iOS 18",
            compute_units=setting,
            planned_s=Figure(*[0.0005 * scale] * 3, "planned"),
            latency=Figure(0.001 * scale, 0.0007 * scale, 0.0014 * scale, "estimated"),
            basis="calibrated" if scale < 2 else "extrapolated",
        )
        for setting in SETTINGS
    )


def host_matrix() -> Matrix:
    """Off a Mac: models on this host, of which one cannot be planned and one is not a model."""
    timing = Timing(
        by="scripted 1.0 on Example 9000, 2 threads",
        compute_units="",
        power_mode="",
        load=Phase((0.02,)),
        predict=Phase((0.001, 0.003)),
    )
    rows = (
        MatrixRow("a-model-with-a-rather-long-name.mlpackage", (timing,), _forecasts(1)),
        MatrixRow("b.mlpackage", (timing,), (), (Problem("plan and estimate", "no operations", "", 5),)),
        MatrixRow("c.txt", (), (), (Problem("read", "c.txt is not a Core ML model", "give one", 3),)),
        MatrixRow("d.mlpackage", (timing,), _forecasts(2)),
    )
    return Matrix(2, SETTINGS, ("iPhone 15 Pro",), rows)


def mac_matrix() -> Matrix:
    """On a Mac with a power mode that changed between the models; the run was interrupted."""

    def timings(mode: str, settings: tuple[ComputeUnits, ...]) -> tuple[Timing, ...]:
        phases = Phase((0.02,)), Phase((0.001, 0.003))
        return tuple(Timing("Core ML on Apple M4", setting, mode, *phases) for setting in settings)

    rows = (
        MatrixRow("a.mlpackage", timings("normal", SETTINGS)),
        MatrixRow("b.mlpackage", timings("low power", SETTINGS[:2])),
        MatrixRow("c.mlpackage"),
    )
    return Matrix(2, SETTINGS, (), rows, interrupted=True)
