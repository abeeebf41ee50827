"""Estimates how long a prediction takes on a device, with an interval derived from published latencies.

A prediction is a sequence of kernels, each on the unit that the plan assigns. A kernel takes as long as the
slowest of its arithmetic, its activations and its weights, plus an overhead; see `roofline`. A prediction
adds the dispatch overhead of each unit that it uses, and the cost of every change of the unit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from coremlscope.cost.latency.calibration import Calibration, Spread, load_calibration
from coremlscope.cost.latency.kernels import Kernel
from coremlscope.cost.latency.roofline import KernelTimes, scale_of, time_kernels
from coremlscope.cost.latency.table import Floats, KernelTable
from coremlscope.devices import CPU, UNITS, Chip, ComputeUnit, ComputeUnits, Device, all_chips
from coremlscope.figures import Figure
from coremlscope.results.estimate import Bound, Estimate

__all__ = ["estimate", "spread_of"]

_BOUNDS: tuple[Bound, ...] = ("compute", "weights", "activations", "dispatch", "switches")


def estimate(
    kernels: Sequence[Kernel],
    units: Mapping[str, ComputeUnit],
    device: Device,
    compute_units: ComputeUnits = "all",
    *,
    converted_bytes: int = 0,
    left_out: tuple[str, ...] = (),
    calibration: Calibration | None = None,
    table: KernelTable | None = None,
) -> Estimate:
    """Estimates a prediction, in which a loop with an unknown number of iterations runs once.

    Args:
        kernels: The kernels in order.
        units: The unit of each operation by id; the CPU runs those that are absent.
        device: The chip and the system.
        compute_units: The setting that `units` was planned under.
        converted_bytes: Bytes of inputs and outputs that are converted to or from half precision.
        left_out: Stages of a pipeline that the kernels do not include.
        calibration: The model's parameters; None for those included in the package.
        table: The kernels as a table, if many chips share it.
    """
    chip, known = device.chip, calibration or load_calibration()
    where = [_unit(kernel, units) for kernel in kernels]
    table = KernelTable.of(kernels) if table is None else table
    steps = np.array([kernel.steps for kernel in kernels], dtype=np.float64)
    total, bounds, parts = _price(table, steps, where, chip, known)
    pairs = itertools.pairwise(zip(where, kernels, strict=True))
    switches = sum(min(a.steps, b.steps) for (here, a), (there, b) in pairs if here != there)
    used = [unit for unit in UNITS if unit in where] or [CPU]
    parts["dispatch"] += sum(_dispatch_s(unit, chip, known) for unit in used)
    parts["dispatch"] += converted_bytes / known.convert_Bps
    parts["switches"] = switches * known.switch_s
    placement = _shares(total, where, used)
    seconds = sum(parts.values())
    main = max(placement, key=lambda unit: placement[unit])
    spread = known.spreads[main]
    sigma = spread_of(spread, chip, _unusual(table, total, seconds), 1 - placement[main])
    low, high = seconds * math.exp(-spread.below * sigma), seconds * math.exp(spread.above * sigma)
    return Estimate(
        device=device.name,
        chip=chip.id,
        os=str(device.os),
        compute_units=compute_units,
        latency=Figure(seconds, low, high, "estimated"),
        basis="calibrated" if chip.id in spread.by_chip else "extrapolated",
        bound=max(parts, key=lambda part: parts[part]),
        parts=parts,
        placement=placement,
        switches=switches,
        left_out=left_out,
        kernel_s=tuple(total.tolist()),
        kernel_unit=tuple(UNITS.index(unit) for unit in where),
        kernel_bound=tuple(bounds),
    )


def spread_of(spread: Spread, chip: Chip, unusual: float, elsewhere: float = 0.0) -> float:
    """The standard deviation of the logarithm of a latency around its estimate.

    Args:
        spread: The spread of the unit that does most of the work.
        chip: The chip.
        unusual: The share of the time in kernels other than convolutions.
        elsewhere: The share of the time on other units.
    """
    own = spread.base + spread.unusual * unusual
    more = spread.by_chip.get(chip.id, spread.extrapolated)
    return math.sqrt(own**2 + more**2 + (2 * max(elsewhere, 0.0) * spread.mixed) ** 2)


def _unit(kernel: Kernel, units: Mapping[str, ComputeUnit]) -> ComputeUnit:
    """Returns the unit to which the plan assigns most of a kernel's operations."""
    votes = [units[id_] for id_ in kernel.ops if id_ in units]
    if len(set(votes)) > 1:
        return max(votes, key=votes.count)
    return votes[0] if votes else CPU


def _price(
    table: KernelTable, steps: Floats, where: Sequence[ComputeUnit], chip: Chip, known: Calibration
) -> tuple[Floats, list[Bound], dict[Bound, float]]:
    """Seconds and bottleneck of all steps of each kernel, and the sums of both."""
    total = np.zeros(len(table))
    bounds = np.full(len(table), _BOUNDS.index("activations"))
    parts: dict[Bound, float] = dict.fromkeys(_BOUNDS, 0.0)
    placed = np.array(where, dtype=object)
    for unit in dict.fromkeys(where):
        parameters = known.units[unit]
        scale = scale_of(unit, chip, all_chips()[known.references[unit]], parameters)
        times = time_kernels(table, unit, parameters, scale)
        here = placed == unit
        total[here], bounds[here] = times.total[here] * steps[here], _bounds(times)[here]
        # Weights are prefetched, but not faster than the memory bandwidth allows.
        late = (times.stream[here] - times.total[here]) * steps[here]
        parts["weights"] += max(float(late.sum()), 0.0)
    for place, bound in enumerate(_BOUNDS[:3]):
        parts[bound] += float(total[bounds == place].sum())
    return total, [_BOUNDS[place] for place in bounds], parts


def _bounds(times: KernelTimes) -> npt.NDArray[np.int64]:
    """Returns the bottleneck of each kernel, as an index into `_BOUNDS`."""
    slowest = np.maximum(times.weights, times.activations)
    memory = np.where(
        times.weights > times.activations, _BOUNDS.index("weights"), _BOUNDS.index("activations")
    )
    return np.where(times.compute >= slowest, _BOUNDS.index("compute"), memory)


def _dispatch_s(unit: ComputeUnit, chip: Chip, known: Calibration) -> float:
    parameters = known.units[unit]
    scale = scale_of(unit, chip, all_chips()[known.references[unit]], parameters)
    return parameters.dispatch_s * scale.dispatch


def _shares(
    total: Floats, where: Sequence[ComputeUnit], used: Sequence[ComputeUnit]
) -> dict[ComputeUnit, float]:
    whole = float(total.sum())
    if not whole:
        return {unit: 1.0 if unit == used[0] else 0.0 for unit in used}
    placed = np.array(where, dtype=object)
    return {unit: float(total[placed == unit].sum()) / whole for unit in used}


def _unusual(table: KernelTable, total: Floats, seconds: float) -> float:
    plain = table.is_kind("conv", "pointwise", "depthwise", "elementwise", "pool", "reduce")
    return float(total[~plain].sum()) / seconds
