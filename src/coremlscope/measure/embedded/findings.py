"""Findings on a measurement of an engine."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from coremlscope.base.findings import Finding
from coremlscope.base.units import format_duration
from coremlscope.model.ir import kind_name
from coremlscope.results.measurement import Measurement, Status
from coremlscope.results.model import StageSummary
from coremlscope.results.operations import OpTable
from coremlscope.runtime.execution.custom_layers import CustomLayer

#: Minimum number of samples for a meaningful spread.
_FEW = 10
#: Coefficient of variation above which medians of two runs of the program differ visibly.
_SPREAD = 0.15
#: Ratio of the medians' sum to a run's time in operations below which the runs are interrupted.
_INTERRUPTED = 0.75
#: Ratio of a profiled run to a prediction above which shares of operations are unreliable.
_SLOWED = 1.25
#: Share of the profiler's overhead by which it may exceed the cost of records, which is estimated from it.
_NOISE = 0.1
#: Share of the time in operations from which the cost of records inside loops is remarked on.
_RECORDED = 0.05
#: Names of operations in one sentence.
_NAMES = 3


class MeasurementEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """The data from which findings are derived.

    Attributes:
        measurement: The measurement without its findings.
        ops: All operations.
        synthetic: Number of constants that were replaced by synthetic ones.
        problems: `(op id, sentence)` of operations whose arguments contradict each other.
        absent: Stages of a pipeline that were not run.
        customs: Layers that were not run.
        joined: The ids of operations that are timed together because their times cannot be distinguished.
    """

    measurement: Measurement
    ops: OpTable
    synthetic: int = 0
    problems: tuple[tuple[str, str], ...] = ()
    absent: tuple[StageSummary, ...] = ()
    customs: tuple[CustomLayer, ...] = ()
    joined: tuple[str, ...] = ()

    def name_of(self, op_id: str) -> str:
        """Returns the type and name of an operation, as people know it."""
        found = next((row for row, id_ in enumerate(self.ops.id) if id_ == op_id), None)
        if found is None:
            return "an operation"
        type_, name = self.ops.type[found], self.ops.name[found]
        return type_ if name == op_id else f"{type_} {name!r}"

    def with_status(self, status: Status) -> tuple[str, ...]:
        """Returns the ids of the operations with this status."""
        pairs = zip(self.ops.id, self.measurement.status, strict=False)
        return tuple(id_ for id_, found in pairs if found == status)


def _not_apple(evidence: MeasurementEvidence) -> Finding:
    measurement = evidence.measurement
    runtime = measurement.runtime
    return Finding(
        id="measured-on-host",
        severity="info",
        text=f"All times were measured on this host's processor ({measurement.machine.processor}) by "
        f"{runtime.name} {runtime.version}; none is a measurement of Core ML or of a Neural Engine.",
        hint="compile and load times are those of this runtime, too",
    )


def _compute_units(evidence: MeasurementEvidence) -> Finding | None:
    units = evidence.measurement.settings.compute_units
    if units == "all":
        return None
    text = f"Compute units ({units}) are recorded but have no effect on this measurement."
    return Finding(id="compute-units-ignored", severity="info", text=text)


def _random_weights(evidence: MeasurementEvidence) -> Finding | None:
    count = evidence.synthetic
    if not count:
        return None
    absent = "absent constant was" if count == 1 else "absent constants were"
    return Finding(
        id="random-weights",
        severity="warning",
        text=f"{count} {absent} replaced by synthetic values: times are those of the structure, outputs mean "
        "nothing.",
        hint="fetch the weight files for real outputs",
    )


def _absent_stage(stage: StageSummary) -> Finding:
    return Finding(
        id="stage-not-run",
        severity="warning",
        text=f"The stage {stage.name} ({kind_name(stage.kind)}) was not run, because {stage.absent}: "
        "synthetic values of the types and shapes of its outputs were used, so times lack its work and "
        "results mean nothing.",
        hint="on an Apple device the whole pipeline runs",
        ops=(stage.id,),
    )


def _custom_layer(layer: CustomLayer) -> Finding:
    return Finding(
        id="layer-not-run",
        severity="warning",
        text=f"The layer {layer.name} (class {layer.class_name}) was not run, because {layer.reason}: "
        f"synthetic values were used, of the shape that follows from {layer.shape_from}, so times lack its "
        "work and results mean nothing.",
        hint="on an Apple device, in the app that has the class, the whole network runs",
        ops=(layer.id,),
    )


def _few_iterations(evidence: MeasurementEvidence) -> Finding | None:
    predict = evidence.measurement.predict
    count = _FEW if predict is None else len(predict.samples_s)
    if count >= _FEW:
        return None
    noun = "prediction was" if count == 1 else "predictions were"
    text = f"Only {count} {noun} timed; percentiles and spread are unreliable."
    return Finding(id="few-iterations", severity="info", text=text, hint="increase --iterations")


def _quieter(measurement: Measurement) -> str:
    """Advice against disturbances; fewer threads leave a core to others only where all cores are in use."""
    threads, cores = measurement.threads, measurement.machine.cores
    hint = "close other programs"
    return f"{hint}, or set --threads {cores - 1}" if threads and cores and threads >= cores > 1 else hint


def _high_spread(evidence: MeasurementEvidence) -> Finding | None:
    predict = evidence.measurement.predict
    variation = 0.0 if predict is None else predict.statistics.variation
    if variation <= _SPREAD:
        return None
    return Finding(
        id="high-spread",
        severity="warning",
        text=f"The standard deviation of prediction times is {_of_mean(variation)}.",
        hint=_quieter(evidence.measurement),
    )


def _of_mean(variation: float) -> str:
    """Describes a standard deviation relative to the mean: `12 % of their mean`, `5.5 times their mean`."""
    if variation < 1:
        return f"{variation * 100:.0f} % of their mean"
    return f"{float(f'{variation:.2g}'):g} times their mean"


def _profiler(evidence: MeasurementEvidence) -> Finding | None:
    return profiler_finding(evidence.measurement)


def profiler_finding(measurement: Measurement) -> Finding | None:
    """Returns a finding if the engine's profiler makes predictions much slower."""
    nodes = measurement.nodes
    if nodes is None:
        return None
    plain = nodes.run_s - nodes.profiler_overhead_s
    slowed = nodes.profiler_overhead_s - nodes.recording_s
    if plain <= 0 or slowed <= max((_SLOWED - 1) * plain, _NOISE * nodes.profiler_overhead_s):
        return None
    return Finding(
        id="profiler-overhead",
        severity="warning",
        text=f"The engine's profiler slows {_profiled_work(measurement)} from {format_duration(plain)} to "
        f"{format_duration(nodes.run_s)}: times of operations are too long, small ones most"
        + (
            "."
            if all(group.share is not None for group in measurement.groups)
            else ", and it would decide their shares, which are left out."
        ),
        hint="compare operations with each other, not with the time of a prediction",
    )


def _profiled_work(measurement: Measurement) -> str:
    """Names what is profiled: of a pipeline, its stages without the conversions of a prediction."""
    return "the stages, without conversions between them," if measurement.stages else "a prediction"


def _recorded_loops(evidence: MeasurementEvidence) -> Finding | None:
    nodes = evidence.measurement.nodes
    if nodes is None or nodes.recording_s <= _RECORDED * nodes.nodes_s:
        return None
    return Finding(
        id="profiler-in-loops",
        severity="info",
        text=f"The engine's profiler takes {format_duration(nodes.recording_s)} of a run to record "
        f"{nodes.nested_executions} executions inside loops and branches, which was taken off their times.",
        hint="the rest of a loop is what a prediction without the profiler leaves for it",
    )


def _joined_loops(evidence: MeasurementEvidence) -> Finding | None:
    if not evidence.joined:
        return None
    return Finding(
        id="loops-timed-together",
        severity="warning",
        text=f"{len(evidence.joined)} operations are timed as one group: the engine's profiler takes longer "
        "to record the steps of loops than the steps take, so that their shares would be the profiler's.",
        ops=evidence.joined,
    )


def _interruptions(evidence: MeasurementEvidence) -> Finding | None:
    measurement = evidence.measurement
    if measurement.nodes is None:
        return None
    medians, inside = sum(group.wall_s for group in measurement.groups), measurement.nodes.nodes_s
    inside -= measurement.nodes.recording_s
    if medians >= _INTERRUPTED * inside:
        return None
    return Finding(
        id="interrupted-operations",
        severity="warning",
        text=f"A profiled run spends {format_duration(inside)} in operations, but their medians add up to "
        f"{format_duration(medians)}: something interrupts each run, at another place each time.",
        hint="close other programs",
    )


def _unattributed(evidence: MeasurementEvidence) -> Finding | None:
    ops = evidence.with_status("unattributed")
    if not ops:
        return None
    noun = "operation" if len(ops) == 1 else "operations"
    text = f"The engine's work on {len(ops)} {noun} could not be identified: its time is unknown."
    return Finding(id="unattributed-operations", severity="warning", text=text, ops=ops)


def _not_run(evidence: MeasurementEvidence) -> Finding | None:
    absent = {stage.id for stage in evidence.absent} | {layer.id for layer in evidence.customs}
    ops = tuple(id_ for id_ in evidence.with_status("not run") if id_ not in absent)
    if not ops:
        return None
    more = f" and {len(ops) - _NAMES} more" if len(ops) > _NAMES else ""
    names = ", ".join(map(evidence.name_of, ops[:_NAMES])) + more
    if len(ops) == len(evidence.ops):
        text = "Nothing of the model is run: its outputs are the same for all inputs."
    elif len(ops) == 1:
        text = f"One operation is never run, since nothing reads its result: {names}."
    else:
        text = f"{len(ops)} operations are never run, since nothing reads their results: {names}."
    return Finding(id="operations-not-run", severity="info", text=text, ops=ops)


def _contradictions(evidence: MeasurementEvidence) -> Finding | None:
    if not evidence.problems:
        return None
    op_id, sentence = evidence.problems[0]
    more = f" (and {len(evidence.problems) - 1} more)" if len(evidence.problems) > 1 else ""
    return Finding(
        id="contradictory-operations",
        severity="warning",
        text=f"The arguments of {evidence.name_of(op_id)} contradict each other: {sentence}{more}.",
        hint="the shapes that the file declares were used instead",
        ops=tuple(op_id for op_id, _ in evidence.problems),
    )


_REMARKS: tuple[Callable[[MeasurementEvidence], Finding | None], ...] = (
    _not_apple,
    _compute_units,
    _random_weights,
    _few_iterations,
    _high_spread,
    _profiler,
    _recorded_loops,
    _joined_loops,
    _interruptions,
    _unattributed,
    _not_run,
    _contradictions,
)


def remark_on(evidence: MeasurementEvidence) -> tuple[Finding, ...]:
    """Returns all findings that apply."""
    found = (check(evidence) for check in _REMARKS)
    absent = map(_absent_stage, evidence.absent)
    customs = map(_custom_layer, evidence.customs)
    return (*absent, *customs, *(finding for finding in found if finding is not None))
