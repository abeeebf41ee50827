"""Estimates of Core AI: factors of units, the price of crossings, the interval."""

from __future__ import annotations

import msgspec.structs
import pytest

from coremlscope.base.figures import Figure
from coremlscope.devices import GPU, NEURAL_ENGINE, ComputeUnit
from coremlscope.planning.cost.latency.core_ai import CROSSING_S, CoreAIFactor, adapt
from coremlscope.results.estimate import Estimate, UnitTerms

_FACTORS: dict[ComputeUnit, CoreAIFactor] = {
    NEURAL_ENGINE: CoreAIFactor(factor=0.5, width=2.0, publications=4, rows=9),
    GPU: CoreAIFactor(factor=2.0, width=3.0, publications=3, rows=5),
}


def _terms(unit: ComputeUnit, seconds: float) -> UnitTerms:
    return UnitTerms(
        unit=unit, compute_s=seconds, weights_s=0.0, activations_s=0.0, operations_s=0.0, launch_s=0.0
    )


def _estimate() -> Estimate:
    """4 ms on the Neural Engine, 1 ms on the GPU, 1 ms of conversion, 0.4 ms of changes of unit."""
    return Estimate(
        device="M4",
        chip="m4",
        os="macOS 27",
        compute_units="all",
        latency=Figure(6.4e-3, 3.2e-3, 12.8e-3, "estimated"),
        basis="calibrated",
        bound="compute",
        parts={"compute": 5e-3, "weights": 0.0, "activations": 0.0, "dispatch": 1e-3, "switches": 0.4e-3},
        placement={NEURAL_ENGINE: 0.8, GPU: 0.2},
        switches=2,
        terms=(_terms(NEURAL_ENGINE, 4e-3), _terms(GPU, 1e-3)),
        kernel_s=(4e-3, 1e-3),
        kernel_unit=(2, 1),
        units=("cpu", "gpu", "neural_engine"),
    )


def test_units_and_crossings() -> None:
    found = adapt(_estimate(), 2, _FACTORS)
    busy_s = 0.5 * 4e-3 + 2 * 1e-3 + 0.5 * 1e-3
    assert found.latency.value == pytest.approx(busy_s + 2 * CROSSING_S[1])
    assert sum(found.parts.values()) == pytest.approx(found.latency.value)
    assert found.kernel_s == (2e-3, 2e-3)
    assert found.latency.low == pytest.approx(busy_s / 3 + 2 * CROSSING_S[0])
    assert found.latency.high == pytest.approx(busy_s * 3 + 2 * CROSSING_S[2])
    assert (found.basis, found.load) == ("extrapolated", None)


def test_crossings_hold_the_launch_of_the_other_unit() -> None:
    plain = _estimate()
    gpu = msgspec.structs.replace(plain.terms[1], launch_s=1e-3)
    launching = msgspec.structs.replace(
        plain, terms=(plain.terms[0], gpu), parts={**plain.parts, "dispatch": 2e-3}
    )
    crossed, alone = adapt(launching, 1, _FACTORS), adapt(launching, 0, _FACTORS)
    assert crossed.latency.value == pytest.approx(adapt(plain, 1, _FACTORS).latency.value)
    assert alone.latency.value == pytest.approx(adapt(plain, 0, _FACTORS).latency.value + 2e-3)


def test_intervals_are_never_narrower_than_those_of_core_ml() -> None:
    wide = msgspec.structs.replace(_estimate(), latency=Figure(6.4e-3, 0.64e-3, 64e-3, "estimated"))
    found = adapt(wide, 0, _FACTORS)
    assert found.latency.high / found.latency.value == pytest.approx(10)
    assert found.parts["switches"] == 0
