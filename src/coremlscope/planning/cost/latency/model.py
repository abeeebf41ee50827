"""Estimates how long a prediction takes on a device, with an interval derived from published latencies.

A prediction is a sequence of kernels in the segments of a plan; see `work`. A kernel takes as long as the
slowest of its arithmetic, its activations and its weights, plus an overhead; see `roofline`. A prediction
adds the launch of each unit that it uses, a round trip for each time that it comes back to an accelerator,
and the transfer of tensors between units.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from coremlscope.base.figures import Figure
from coremlscope.base.units import format_duration
from coremlscope.devices import (
    CPU,
    GPU,
    NEURAL_ENGINE,
    UNITS,
    Chip,
    ComputeUnit,
    ComputeUnits,
    Device,
)
from coremlscope.planning.cost.latency.calibration import Calibration, Family, Spread, load_calibration
from coremlscope.planning.cost.latency.constants import constants_of, crossing_share, on_system
from coremlscope.planning.cost.latency.roofline import KernelTimes, time_kernels
from coremlscope.planning.cost.latency.table import Floats, KernelTable
from coremlscope.planning.cost.latency.work import Work
from coremlscope.results.estimate import Bound, Estimate, EstimateBasis, UnitTerms

_NAMES: Mapping[ComputeUnit, str] = {CPU: "CPU", GPU: "GPU", NEURAL_ENGINE: "Neural Engine"}
#: Units with at least this share of the time determine the interval and its basis.
_MATTERS = 0.1
#: With all units on a Mac, Core ML may use another accelerator than our plan: as uncertain as this share of
#: the time on other units.
_UNCERTAIN_PLACEMENT = 0.4
#: Networks with at least this share of their time in kernels other than convolutions are of tokens.
_TOKENS = 0.5
#: Networks that take less than so many launches are small.
_LAUNCHES = 3
#: Bytes of a number that changes the unit.
_HALF = 2
#: The interval of what changes of unit take, and the steps of recurrences: by this factor less or more.
#: Published latencies of nine predictions with two changes or more are within it. One network with
#: recurrences was published, on three units.
_ASSUMED = 2.0
_BOUNDS: tuple[Bound, ...] = ("compute", "weights", "activations", "dispatch", "switches")


def estimate(
    work: Work,
    device: Device,
    compute_units: ComputeUnits = "all",
    *,
    left_out: tuple[str, ...] = (),
    calibration: Calibration | None = None,
    with_notes: bool = True,
) -> Estimate:
    """Estimates a prediction, in which a loop with an unknown number of iterations runs once.

    Args:
        work: What the prediction does on each unit, as planned.
        device: The chip and the system.
        compute_units: The setting that it was planned under.
        left_out: Stages of a pipeline that the work does not include.
        calibration: The model's parameters; None for those included in the package.
        with_notes: Whether to note where the CPU alone would be faster.
    """
    chip, known = device.chip, calibration or load_calibration()
    table, where = work.table, work.units
    total, bounds, terms = _price(table, work.steps, where, device, known)
    placement = _shares(total, where, [one.unit for one in terms])
    own = known.own.get((chip.id, _main_unit(placement)))
    slower = 1.0 if own is None else own.slower
    conversion_s = slower * work.converted_bytes / known.convert_Bps
    switches_s = slower * (
        work.returns * known.switch_s
        + _HALF * sum(work.moved.values()) / (known.convert_Bps * crossing_share(chip))
    )
    seconds = sum(one.total_s for one in terms) + conversion_s + switches_s
    parts = _parts(terms, conversion_s, switches_s)
    unusual, elsewhere = _unusual(table, total, seconds), 1 - max(placement.values())
    if compute_units == "all" and chip.platform == "macOS" and placement != {CPU: 1.0}:
        elsewhere = max(elsewhere, _UNCERTAIN_PLACEMENT)
    launch_s = max(one.launch_s for one in terms)
    low, high = _interval(seconds, placement, device, family_of(unusual, seconds, launch_s), elsewhere, known)
    # What changes of unit and recurrences take is known to a factor, which adds to the rest.
    assumed_s = switches_s + float(total[table.is_kind("recurrent")].sum())
    spread = math.hypot(seconds - low, assumed_s * (1 - 1 / _ASSUMED))
    above = math.hypot(high - seconds, assumed_s * (_ASSUMED - 1))
    return Estimate(
        device=device.name,
        chip=chip.id,
        os=str(device.os),
        compute_units=compute_units,
        latency=Figure(seconds, seconds - spread, seconds + above, "estimated"),
        basis=_basis(chip, placement, known),
        bound=max(parts, key=lambda part: parts[part]),
        parts=parts,
        terms=terms,
        placement=placement,
        switches=work.switches,
        left_out=left_out,
        notes=tuple(_faster_alone(table, work.steps, terms, seconds, conversion_s, device, known))
        if with_notes
        else (),
        kernel_s=tuple(total.tolist()),
        kernel_unit=tuple(UNITS.index(unit) for unit in where),
        kernel_bound=tuple(bounds),
        kernel_of=work.parts_of,
    )


def _parts(terms: Sequence[UnitTerms], conversion_s: float, switches_s: float) -> dict[Bound, float]:
    """Returns the terms of all units by bottleneck."""
    return {
        "compute": sum(one.compute_s for one in terms),
        "weights": sum(one.weights_s for one in terms),
        "activations": sum(one.activations_s for one in terms),
        "dispatch": sum(one.operations_s + one.launch_s for one in terms) + conversion_s,
        "switches": switches_s,
    }


def _faster_alone(
    table: KernelTable,
    steps: Floats,
    terms: Sequence[UnitTerms],
    seconds: float,
    conversion_s: float,
    device: Device,
    known: Calibration,
) -> Iterator[str]:
    """Yields why the other units make a prediction slower, where the CPU alone would be faster."""
    others = [one for one in terms if one.unit != CPU]
    by_unit = _price(table, steps, [CPU] * len(table), device, known)[2]
    alone = sum(one.total_s for one in by_unit) + conversion_s
    if others and alone < seconds:
        overheads = ", ".join(
            f"{format_duration(one.launch_s)} to launch the {_NAMES[one.unit]} and"
            f" {format_duration(one.operations_s)} to start its operations"
            for one in others
        )
        yield f"the CPU alone is estimated at {format_duration(alone)}: this estimate includes {overheads}"


def _main_unit(placement: Mapping[ComputeUnit, float]) -> ComputeUnit:
    return max(placement, key=lambda unit: placement[unit])


def _units_that_matter(placement: Mapping[ComputeUnit, float]) -> list[ComputeUnit]:
    """Returns the unit that does most, and those whose error would matter."""
    main = _main_unit(placement)
    return [unit for unit, share in placement.items() if unit == main or share >= _MATTERS]


def _basis(chip: Chip, placement: Mapping[ComputeUnit, float], known: Calibration) -> EstimateBasis:
    is_known = all(
        chip.id in known.spreads[unit].calibrated or (chip.id, unit) in known.own
        for unit in _units_that_matter(placement)
    )
    return "calibrated" if is_known else "extrapolated"


def family_of(unusual: float, seconds: float, launch_s: float) -> Family:
    """Returns the family of a network.

    Args:
        unusual: The share of its time in kernels other than convolutions.
        seconds: What it takes.
        launch_s: The launch of its unit.
    """
    if seconds < _LAUNCHES * launch_s:
        return "small"
    return "token" if unusual >= _TOKENS else "convolutional"


def _interval(
    seconds: float,
    placement: Mapping[ComputeUnit, float],
    device: Device,
    family: Family,
    elsewhere: float,
    known: Calibration,
) -> tuple[float, float]:
    """Returns the ends of the 80 % interval, in seconds: the widest of the units that matter."""
    widths = []
    for unit in _units_that_matter(placement):
        own = known.own.get((device.chip.id, unit))
        spread = known.spreads[unit] if own is None or own.spread is None else own.spread
        widths.append(width_of(spread, device, family, elsewhere))
    factor = math.exp(max(widths))
    return seconds / factor, seconds * factor


def width_of(spread: Spread, device: Device, family: Family, elsewhere: float = 0.0) -> float:
    """Returns the logarithm of the factor from an estimate to either end of its 80 % interval.

    Args:
        spread: The spread of the unit that does most of the work.
        device: The chip and the system.
        family: The family of the network.
        elsewhere: The share of the time on other units.
    """
    older = [more for since, more in spread.older.items() if device.os.core_ml[0] < since]
    mixed = 2 * max(elsewhere, 0.0) * spread.mixed
    return math.hypot(spread.widths[device.chip.platform][family], mixed, *older)


def _price(
    table: KernelTable, steps: Floats, where: Sequence[ComputeUnit], device: Device, known: Calibration
) -> tuple[Floats, list[Bound], tuple[UnitTerms, ...]]:
    """Returns seconds and bottleneck of all steps of each kernel, and the terms of each unit."""
    total = np.zeros(len(table))
    bounds = np.full(len(table), _BOUNDS.index("activations"))
    placed = np.array(where, dtype=object)
    terms = []
    used = [unit for unit in UNITS if unit in where] or [CPU]
    for unit in used:
        constants = on_system(constants_of(known, device.chip, unit), device.os)
        times = time_kernels(table, unit, constants)
        # What the CPU starts without work is not apart from the launch of another unit.
        is_idle = unit == CPU and len(used) > 1 and not table.outputs[placed == unit].any()
        here = placed == unit if len(table) else np.zeros(0, dtype=np.bool_)
        total[here], bounds[here] = times.total[here] * steps[here], _bounds(times)[here]
        # Weights are prefetched, but not faster than the memory bandwidth allows.
        late = float(((times.stream - times.total) * steps)[here].sum())
        terms.append(
            UnitTerms(
                unit=unit,
                compute_s=float((times.compute * steps)[here].sum()),
                weights_s=float((times.weights * steps)[here].sum()) + max(late, 0.0),
                activations_s=float((times.activations * steps)[here].sum()),
                operations_s=float((times.operations * steps)[here].sum()),
                launch_s=0.0 if is_idle else constants.dispatch_s,
            )
        )
    return total, [_BOUNDS[place] for place in bounds], tuple(terms)


def _bounds(times: KernelTimes) -> npt.NDArray[np.int64]:
    """Returns the bottleneck of each kernel, as an index into `_BOUNDS`."""
    terms = np.stack([times.compute, times.weights, times.activations, times.operations])
    return np.asarray(np.argmax(terms, axis=0), dtype=np.int64)


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
