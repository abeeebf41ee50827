"""Estimates of a prediction on one device, under each setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from coremlscope.base.units import format_duration
from coremlscope.devices import CPU, NEURAL_ENGINE, ComputeUnit, ComputeUnits, all_chips
from coremlscope.devices.unit import SETTING_WORDS
from coremlscope.planning.cost.latency import kernels as latency
from coremlscope.planning.cost.latency.evidence import find_nearest
from coremlscope.planning.cost.latency.loads import estimate_loads
from coremlscope.planning.cost.latency.running import describe_run
from coremlscope.planning.cost.latency.structure import Structure
from coremlscope.planning.cost.latency.work import Work
from coremlscope.planning.forecast.kernels import Prediction, as_core_ai
from coremlscope.planning.forecast.memory import MemoryModel
from coremlscope.planning.forecast.tabular import as_bound
from coremlscope.planning.placement.hypotheses import Planning
from coremlscope.results.estimate import Estimate, Kernel
from coremlscope.results.operations import OpTable

#: Settings that all units are compared with, and how much faster they have to be for a note.
_ACCELERATED: tuple[ComputeUnits, ...] = ("cpu_and_ne", "cpu_and_gpu")
_CLEARLY = 1.1


def estimate_predictions(
    predictions: Mapping[ComputeUnits, Prediction],
    placed: Sequence[Planning],
    memory: MemoryModel,
    ops: OpTable,
    *,
    is_core_ai: bool,
    with_faster: bool,
) -> list[Estimate]:
    """Estimates a prediction on a device under each setting.

    Args:
        predictions: The prediction, by setting.
        placed: The functions that it runs; none for classical models alone.
        memory: The model's memory.
        ops: The operations, to whose rows kernels refer.
        is_core_ai: Whether the model is a program of Core AI.
        with_faster: Whether an estimate of all units notes that fewer of them are faster.
    """
    found = [_report(one, memory, ops) for one in predictions.values()]
    if not placed:
        return [as_bound(one) for one in found]
    if is_core_ai:
        return [as_core_ai(one, [function.placed for function in placed]) for one in found]
    if not with_faster or "all" not in predictions or predictions["all"].kernels.loops:
        return found
    return _with_faster_setting(found, predictions["all"], placed)


def _report(prediction: Prediction, memory: MemoryModel, ops: OpTable) -> Estimate:
    """Returns an estimate with the kernels that are not the profile's, with memory and with times of loading.

    Only what does most of its work on the Neural Engine has these times.
    """
    kernels, work, found = prediction.kernels, prediction.work, prediction.planned
    on_engine = found.placement.get(NEURAL_ENGINE, 0.0) > 0.5
    return replace(
        found,
        kernels=refer_to_rows(work.kernels, ops) if work.parts_of else (),
        own=kernels.own.label(found),
        load=estimate_loads(float(kernels.table.weights.sum())) if on_engine else None,
        memory=memory.on(
            prediction.device, {id_: unit for id_, unit in prediction.units.items() if unit is not None}
        ),
        left_out_share=kernels.unknown.share,
    )


def refer_to_rows(kernels: Sequence[latency.Kernel], ops: OpTable) -> tuple[Kernel, ...]:
    """Returns kernels with their operations as rows of the table of operations."""
    rows = {id_: row for row, id_ in enumerate(ops.id)}
    return tuple(Kernel(k.name, k.kind, tuple(rows[id_] for id_ in k.ops if id_ in rows)) for k in kernels)


def _with_faster_setting(
    found: Sequence[Estimate], prediction: Prediction, placed: Sequence[Planning]
) -> list[Estimate]:
    """Returns the estimates of a device, with a note where all units are slower than fewer of them."""
    known = {one.compute_units: one for one in found}
    missing = [setting for setting in _ACCELERATED if setting not in known]
    for setting in missing:
        units = {id_: unit for one in placed for id_, unit in one.under(setting).items()}
        known[setting] = prediction.kernels.under(prediction.device, setting, units).planned
    slow, fastest = known["all"], min((known[one] for one in _ACCELERATED), key=lambda one: one.latency.value)
    if slow.latency.value < _CLEARLY * fastest.latency.value or set(fastest.placement) == {CPU}:
        return list(found)
    note = (
        f"{SETTING_WORDS[fastest.compute_units]} is estimated at {format_duration(fastest.latency.value)}:"
        " Core ML divides a model by costs of its own, which differ from these estimates"
    )
    return [replace(one, notes=(*one.notes, note)) if one is slow else one for one in found]


def time_shares(
    found: Estimate, work: Work, functions: Mapping[str, str]
) -> dict[str, dict[ComputeUnit, float]]:
    """Returns the shares of units in the time of a prediction's kernels, by function.

    Args:
        found: The estimate; its `placement` is the sum over all functions.
        work: What it was estimated from.
        functions: The function of each planned operation, by id.
    """
    whole = sum(found.kernel_s)
    shares: dict[str, dict[ComputeUnit, float]] = {name: {} for name in functions.values() if whole}
    for kernel, seconds, unit in zip(work.kernels, found.kernel_s, work.units, strict=True):
        name = next((functions[id_] for id_ in kernel.ops if id_ in functions), None)
        if name is not None and whole:
            shares[name][unit] = shares[name].get(unit, 0.0) + seconds / whole
    return shares


def add_evidence(found: Estimate, structure: Structure) -> Estimate:
    """Returns an estimate with the published latencies of the unit that does most of its work."""
    unit = max(found.placement, key=lambda unit: found.placement[unit])
    near = find_nearest(structure, unit, all_chips()[found.chip])
    notes = (*found.notes, *describe_run(found))
    return replace(found, near=near, notes=notes)
