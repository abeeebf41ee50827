"""Times of a measurement by operation or layer, as texts and rows for every format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from coremlscope.base.units import format_duration, format_share
from coremlscope.model.ir import kind_name
from coremlscope.reports.words import main_function, plural
from coremlscope.results.measurement import Conditions, Group, Measurement, StageTiming, Status
from coremlscope.results.operations import OpTable
from coremlscope.results.profile import Profile
from coremlscope.results.statistics import Statistics

#: More synthetic inputs than this are counted instead of listed.
_LISTED_INPUTS = 24
_STATUS_WORDS: Mapping[Status, str] = {
    "timed": "timed alone",
    "fused": "fused with others",
    "inside": "inside loops and branches",
    "folded": "folded away",
    "not run": "not run",
    "unattributed": "not found in the engine's graph",
}
#: The function, name and type of a layer.
_Layer = tuple[str, str, str]


class TypeTiming(msgspec.Struct, frozen=True, kw_only=True):
    """Groups with operations of the same types.

    Attributes:
        label: The types: `conv + relu`.
        groups: Number of groups.
        wall_s: The sum of their times.
        share: Its share of all groups' time; None if the engine's profiler decides it.
    """

    label: str
    groups: int
    wall_s: float
    share: float | None


def by_layer(ops: OpTable, measurement: Measurement) -> Sequence[Group]:
    """Returns the groups of a measurement; those of a neural network are merged by layer.

    Layers that share a group stay together: a group's time is never split. Programs have no layers, and keep
    their groups.
    """
    if not any(ops.layer_type):
        return measurement.groups
    merged: list[list[Group]] = []
    keys: list[set[_Layer]] = []
    for group in measurement.groups:
        own = {key for row in group.ops if (key := _layer(ops, row)) is not None}
        touched = [index for index, known in enumerate(keys) if known & own]
        members = [*(member for index in touched for member in merged[index]), group]
        own.update(*(keys[index] for index in touched))
        merged = [*(m for index, m in enumerate(merged) if index not in touched), members]
        keys = [*(k for index, k in enumerate(keys) if index not in touched), own]
    return [_merge(members, ops) for members in merged]


def _layer(ops: OpTable, row: int) -> _Layer | None:
    """Returns the key of an operation's layer; None for operations that do not belong to one."""
    layer = ops.layer[row]
    return None if layer is None else (ops.function[row], layer, ops.layer_type[row] or "")


def _merge(members: Sequence[Group], ops: OpTable) -> Group:
    rows = [row for member in members for row in member.ops]
    if not rows:
        return members[0]
    # A layer counts once, however many operations it became; operations that arrange data between layers do
    # not count.
    layers = {layer: layer[2] for row in rows if (layer := _layer(ops, row)) is not None}
    counted = Counter(layers.values() or [ops.type[row] for row in rows])
    single = members[0] if len(members) == 1 else None
    return Group(
        label=" + ".join(name if count == 1 else f"{name} ×{count}" for name, count in counted.items()),
        ops=tuple(rows),
        wall_s=sum(member.wall_s for member in members),
        share=_sum_shares(members),
        engine_nodes=tuple(node for member in members for node in member.engine_nodes),
        low_s=single.low_s if single else None,
        high_s=single.high_s if single else None,
        stage=members[0].stage,
    )


def kinds(ops: OpTable, measurement: Measurement) -> list[TypeTiming]:
    """Returns groups merged by the types of operations, or of layers of a neural network, slowest first."""
    found: dict[str, list[Group]] = {}
    for group in by_layer(ops, measurement):
        found.setdefault(group.label, []).append(group)
    rows = [
        TypeTiming(
            label=label,
            groups=len(groups),
            wall_s=sum(group.wall_s for group in groups),
            share=_sum_shares(groups),
        )
        for label, groups in found.items()
    ]
    return sorted(rows, key=lambda kind: -kind.wall_s)


def _sum_shares(parts: Sequence[Group] | Sequence[TypeTiming]) -> float | None:
    """Returns the sum of shares; None if one of them is unknown."""
    shares = [part.share for part in parts if part.share is not None]
    return sum(shares) if len(shares) == len(parts) else None


def share_text(share: float | None) -> str:
    """Returns the share of a group; a dash if the engine's profiler decides it."""
    return "–" if share is None else format_share(share)


def total(label: str, rows: Sequence[TypeTiming]) -> TypeTiming:
    """Merges several kinds into one row."""
    return TypeTiming(
        label=label,
        groups=sum(kind.groups for kind in rows),
        wall_s=sum(kind.wall_s for kind in rows),
        share=_sum_shares(rows),
    )


def slowest(ops: OpTable, measurement: Measurement) -> list[Group]:
    """Returns all groups, slowest first: of operations, or of layers of a neural network."""
    return sorted(by_layer(ops, measurement), key=lambda group: -group.wall_s)


def group_name(group: Group, ops: OpTable) -> str:
    """Returns the author's name of the first operation or layer, and the number of others."""
    named = [row for row in group.ops if ops.layer[row]] or group.ops
    names = list(dict.fromkeys(ops.name[row] for row in named))
    if not names:
        return group.engine_nodes[0][0] if group.engine_nodes else ""
    return names[0] if len(names) == 1 else f"{names[0]} +{len(names) - 1}"


def status_line(measurement: Measurement) -> str:
    """Counts operations by status: `105 operations: 52 timed alone, 53 fused with others`."""
    counts = Counter(measurement.status)
    parts = [f"{counts[status]} {words}" for status, words in _STATUS_WORDS.items() if counts[status]]
    return f"{plural(len(measurement.status), 'operation')}: {', '.join(parts)}" if parts else "no operations"


def nodes_line(measurement: Measurement) -> str:
    """Describes the relation of group times to a whole run under the engine's profiler."""
    medians = format_duration(sum(group.wall_s for group in measurement.groups))
    if measurement.nodes is None:
        return f"medians add up to {medians}"
    nodes = measurement.nodes
    run, inside = (format_duration(s) for s in (nodes.run_s, nodes.nodes_s))
    text = f"medians add up to {medians}; a whole profiled run takes {run}, {inside} of it in operations"
    if not nodes.recording_s:
        return text
    recorded = "steps of loops" if nodes.nested_executions else "them"
    return f"{text}, {format_duration(nodes.recording_s)} of that to record {recorded}, which is taken off"


def describe_inputs(profile: Profile, measurement: Measurement) -> str:
    """Describes the inputs of a model: `image 1×3×224×224 synthetic (seed 0)`."""
    settings, inputs = measurement.settings, main_function(profile.model).inputs
    if len(inputs) > _LISTED_INPUTS and not settings.inputs:
        return f"{len(inputs)}, all synthetic (seed {settings.seed})"
    described = []
    for feature in inputs:
        shape = settings.shapes.get(feature.name, feature.shape)
        size = " " + "×".join(map(str, shape)) if shape else ""
        origin = "given" if feature.name in settings.inputs else "synthetic"
        described.append(f"{feature.name}{size} {origin}")
    seed = f" (seed {settings.seed})" if len(settings.inputs) < len(inputs) else ""
    return ", ".join(described) + seed


def measurement_name(measurement: Measurement, among: Sequence[Measurement] = ()) -> str:
    """Returns the label of a measurement, made unique among those of a profile.

    Args:
        measurement: The measurement.
        among: All measurements of the profile.
    """
    twins = [other for other in among if other.label == measurement.label]
    name = measurement.label
    if measurement.compute_units:
        name += f", {measurement.compute_units}"
    if len({other.machine.power_mode for other in twins}) > 1:
        name += f", power mode: {measurement.machine.power_mode or 'unknown'}"
    if len({other.threads for other in twins}) > 1 and measurement.threads is not None:
        name += f", {plural(measurement.threads, 'thread')}"
    return name + partial_mark(measurement)


def partial_mark(measurement: Measurement) -> str:
    """Returns the suffix for the name of a measurement that ended before everything was measured."""
    return " (partial)" if measurement.partial is not None else ""


def disclaimer(measurement: Measurement) -> str:
    """Returns the suffix for the name of a runtime that is not Core ML."""
    return "" if measurement.runtime.id == "coreml" or _is_energy(measurement) else "; not Core ML"


def _is_energy(measurement: Measurement) -> bool:
    """True for readings of power, which do not say what ran."""
    return measurement.energy is not None and not measurement.phases


def describe_runtime(measurement: Measurement) -> str:
    """Describes the runtime: `ONNX Runtime 1.22, 4 threads; not Core ML`."""
    runtime = measurement.runtime
    facts = [f"{runtime.name} {runtime.version}".rstrip()]
    if runtime.through:
        facts[0] += f" through {runtime.through}"
    if measurement.threads is not None:
        facts.append(plural(measurement.threads, "thread"))
    return ", ".join(facts) + disclaimer(measurement)


def describe_machine(measurement: Measurement) -> str:
    """Describes the machine: `AMD EPYC, 8 cores, Linux 6.1 (x86_64), Python 3.12.1`."""
    machine = measurement.machine
    facts = [
        machine.processor,
        "" if machine.cores is None else plural(machine.cores, "core"),
        machine.os,
        f"Python {machine.python}" if machine.python else "",
        f"power mode: {machine.power_mode}" if machine.power_mode and measurement.before is None else "",
    ]
    return ", ".join(fact for fact in facts if fact)


def describe_conditions(measurement: Measurement) -> str:
    """Describes conditions before and after: `thermal state: nominal, then moderate; AC Power`."""
    first, last = measurement.before or Conditions(), measurement.after or Conditions()
    pairs = (
        ("thermal state: ", first.thermal_state, last.thermal_state),
        ("power mode: ", first.power_mode, last.power_mode),
        ("", first.power_source, last.power_source),
    )
    return "; ".join(
        name + (start if start == end else f"{start or 'unknown'}, then {end or 'unknown'}")
        for name, start, end in pairs
        if start or end
    )


def describe_units(measurement: Measurement) -> str:
    """Describes the setting of compute units, and whether it had an effect."""
    if measurement.compute_units:
        return measurement.compute_units
    if measurement.runtime.id == "coreml" or measurement.threads is None or _is_energy(measurement):
        return "not recorded"
    return f"{measurement.settings.compute_units}, recorded only: the processor does all the work"


def phase_rows(measurement: Measurement) -> list[tuple[str, Statistics, str]]:
    """Returns the name, the statistics and the number of dropped warm-ups of each phase.

    A row for the same repetitions through Python follows where they were timed as well.
    """
    rows = []
    for name, phase in measurement.phases.items():
        shown = f"{name}, {phase.remark}" if phase.remark else name
        rows.append((shown, phase.statistics, str(len(phase.warmups_s))))
        if phase.through_python is not None:
            rows.append((f"{name}, through Python", phase.through_python.statistics, ""))
    return rows


def python_note(measurement: Measurement) -> str:
    """Explains the rows of times through Python; empty if there are none."""
    if all(phase.through_python is None for phase in measurement.phases.values()):
        return ""
    runtime = measurement.runtime
    by = f", taken by {runtime.through} around its calls" if runtime.through else ""
    return (
        f"loads and predictions are {runtime.name}'s own times{by}; through Python they also contain the"
        " conversion of inputs and outputs"
    )


def phase_cells(numbers: Statistics) -> dict[str, str]:
    """Returns summary statistics as texts, by title."""
    values = {name: getattr(numbers, name) for name in ("min", "median", "mean", "p95", "p99", "max", "std")}
    cells = {"runs": str(numbers.count), **{name: format_duration(value) for name, value in values.items()}}
    if numbers.count == 1:
        cells["std"] = "–"
    return cells


def stage_rows(stages: Sequence[StageTiming]) -> list[tuple[str, ...]]:
    """Returns a row for each stage of a pipeline; shares include conversions."""
    total = sum((stage.run_s or 0.0) + (stage.convert_s or 0.0) for stage in stages)
    rows: list[tuple[str, ...]] = []
    for stage in stages:
        kind = kind_name(stage.kind)
        if stage.run_s is None or stage.convert_s is None or stage.operations_s is None:
            rows.append((stage.name, kind, "not run", "", "", ""))
            continue
        own = stage.run_s + stage.convert_s
        share = format_share(own / total) if total else ""
        times = (format_duration(own), share, format_duration(stage.convert_s))
        rows.append((stage.name, kind, *times, format_duration(stage.operations_s)))
    return rows
