"""Estimates of Core AI: those of Core ML's units, corrected by published latencies of Core AI.

The units and their kernels are the same; what Core AI adds or saves is one factor for each unit, fitted to
the published latencies, whose publications differ by more than their networks do. Ways from the Neural Engine
to other units and back have a fixed price. The interval comes from how publications differ: each of them is
estimated from the others.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from coremlscope.base.figures import Figure
from coremlscope.devices import ComputeUnit
from coremlscope.results.estimate import Bound, Estimate, UnitTerms

#: Seconds of one way from the Neural Engine and back: least, usual, most. The usual one is the
#: geometric mean of four: 0.60 and 1.75 ms for a top-k (john-rocky/coreai-model-zoo, cost of partitions,
#: iPhone 17 Pro), 0.72 ms for each further region of an encoder on M4 (regions), 1.125 ms between 25 regions
#: on iPhone 17 Pro (compute units and authoring).
CROSSING_S = (0.60e-3, 0.96e-3, 1.75e-3)


class CoreAIFactor(msgspec.Struct, frozen=True, kw_only=True):
    """How published latencies of Core AI relate to estimates for Core ML on one unit.

    Attributes:
        factor: The geometric mean over publications.
        width: The factor from the estimate to either end of the 80 % interval.
        publications: Number of publications.
        rows: Number of latencies.
    """

    factor: float
    width: float
    publications: int
    rows: int


@functools.cache
def load_factors() -> Mapping[ComputeUnit, CoreAIFactor]:
    """Returns the factors included in the package, by unit."""
    text = (Path(__file__).parent / "data" / "core_ai.json").read_text("utf-8")
    return {unit: CoreAIFactor(**row) for unit, row in json.loads(text)["units"].items()}


def adapt(
    found: Estimate, crossings: int, factors: Mapping[ComputeUnit, CoreAIFactor] | None = None
) -> Estimate:
    """Returns an estimate for Core AI.

    Args:
        found: The estimate for Core ML with the placement of Core AI.
        crossings: How often values leave the Neural Engine and come back.
        factors: The factors; None for those included in the package.
    """
    known = factors or load_factors()
    main = max(found.placement, key=lambda unit: found.placement[unit])
    # The price of crossings holds the launch of the unit on the other side.
    launched = {main} if crossings else set(found.placement)
    terms = tuple(_scaled(one, known[one.unit].factor, one.unit in launched) for one in found.terms)
    conversion_s = found.parts["dispatch"] - sum(one.operations_s + one.launch_s for one in found.terms)
    conversion_s = max(conversion_s, 0.0) * known[main].factor
    least, usual, most = (crossings * seconds for seconds in CROSSING_S)
    busy_s = sum(one.total_s for one in terms) + conversion_s
    width = max(known[unit].width for unit in found.placement)
    low = busy_s / max(width, found.latency.value / found.latency.low) + least
    high = busy_s * max(width, found.latency.high / found.latency.value) + most
    parts: dict[Bound, float] = {
        "compute": sum(one.compute_s for one in terms),
        "weights": sum(one.weights_s for one in terms),
        "activations": sum(one.activations_s for one in terms),
        "dispatch": sum(one.operations_s + one.launch_s for one in terms) + conversion_s,
        "switches": usual,
    }
    by_kernel = zip(found.kernel_s, found.kernel_unit, strict=True)
    return replace(
        found,
        latency=Figure(busy_s + usual, low, high, "estimated"),
        basis="extrapolated",
        bound=max(parts, key=lambda part: parts[part]),
        parts=parts,
        terms=terms,
        notes=(_note(known[main]),),
        load=None,
        kernel_s=tuple(seconds * known[found.units[unit]].factor for seconds, unit in by_kernel),
    )


def _note(factor: CoreAIFactor) -> str:
    return (
        f"corrected by {factor.rows} published latencies of Core AI on this kind of unit, of"
        f" {factor.publications} publications, which are few: the interval comes from how they differ"
    )


def _scaled(terms: UnitTerms, factor: float, is_launched: bool) -> UnitTerms:
    return UnitTerms(
        unit=terms.unit,
        compute_s=terms.compute_s * factor,
        weights_s=terms.weights_s * factor,
        activations_s=terms.activations_s * factor,
        operations_s=terms.operations_s * factor,
        launch_s=terms.launch_s * factor if is_launched else 0.0,
    )
