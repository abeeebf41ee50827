"""Imports Core AI's output for a model: debug information with units and reasons, and saved events.

Both are about the same operations: events refer to the numbers of the debug information, so both files
together give a time for each layer.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from coremlscope.base.errors import UsageError
from coremlscope.base.findings import Finding
from coremlscope.devices.unit import NEURAL_ENGINE, ComputeUnit
from coremlscope.formats.recordings.core_ai import (
    DebugOp,
    LoggedEvents,
    LoggedPrediction,
    read_debug_info,
    read_events,
)
from coremlscope.interop.listing import (
    UNKNOWN_TYPE,
    Imported,
    ListedOp,
    ListingOrigin,
    plan_of,
    smallest_setting,
    table_of,
)
from coremlscope.interop.phases import measurement_of
from coremlscope.interop.source import SourceFile
from coremlscope.interop.units import unit_of
from coremlscope.results.measurement import Group, Measurement, NodeTiming, Status
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import Plan, Reason, Support

#: The rule id of reasons in Core AI's own words.
_RULE = "core-ai"
#: Work of the runtime besides operations.
_RUNTIME = "runtime"
_INTERPRETED = Finding(
    id="interpreted",
    severity="warning",
    text="Core AI's reference interpreter ran these operations one by one, as it does on Linux: their times"
    " say nothing of the speed of Apple hardware.",
)
_PREFIXES = ("call.coreai.decomposable.", "call.coreai.", "call.")


def matches(source: SourceFile) -> bool:
    """By the first keys: of a list of records, or of an event on each line."""
    return _is_events(source) or _is_debug_info(source)


def _is_events(source: SourceFile) -> bool:
    return source.has_lines_of_json and b'"event_id"' in source.head and b'"timestamp"' in source.head


def _is_debug_info(source: SourceFile) -> bool:
    head = source.head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return head[:1] == b"[" and b'"metadatas"' in head


def read(source: SourceFile, origin: ListingOrigin) -> Imported:
    """Reads one file.

    Raises:
        UsageError: It is damaged.
    """
    return _imported([source], origin)


def read_together(sources: Sequence[SourceFile], origins: Sequence[ListingOrigin]) -> list[Imported]:
    """Reads debug information and events of one run together; several of one kind are of several runs.

    Raises:
        UsageError: A file is damaged.
    """
    if len(sources) == 2 and _is_events(sources[0]) != _is_events(sources[1]):
        return [_imported(sources, replace(origins[0], file=f"{origins[0].file} and {origins[1].file}"))]
    return [_imported([source], origin) for source, origin in zip(sources, origins, strict=True)]


def _imported(sources: Sequence[SourceFile], origin: ListingOrigin) -> Imported:
    debug: tuple[DebugOp, ...] = ()
    events: LoggedEvents | None = None
    for source in sources:
        try:
            if _is_events(source):
                events = read_events(source.content.splitlines())
            else:
                debug = read_debug_info(source.json)
        except UsageError as error:
            raise UsageError(f"{source.path}: {error.message}", error.hint) from error
    layers = _layers(debug)
    ops = table_of([layer.listed for layer in layers.values()])
    placed = [layer.listed for layer in layers.values() if layer.listed.backend is not None]
    measured = None if events is None else _measurement(events, debug, layers, ops, origin)
    plans: tuple[Plan, ...] = ()
    if placed:
        setting = smallest_setting({unit for layer in layers.values() for unit in layer.units})
        listed = [layer.listed for layer in layers.values()]
        plans = (plan_of(listed, origin, setting, planner="Core AI"),)
    return Imported(
        origin=origin,
        ops=ops,
        measurements=() if measured is None else (measured,),
        plans=plans,
        findings=tuple(_findings(layers, bool(debug), origin)),
    )


class _Layer(msgspec.Struct, frozen=True):
    """A layer of the debug information.

    Attributes:
        listed: The layer as an operation.
        row: Its place.
        units: How many of its operations are on each unit.
    """

    listed: ListedOp
    row: int
    units: Counter[ComputeUnit]


def _layers(debug: Sequence[DebugOp]) -> dict[str, _Layer]:
    """Returns the layers in order, with the unit of most of their operations.

    A fused operation stands for several layers; a layer is often several operations.
    """
    units: dict[str, Counter[ComputeUnit]] = defaultdict(Counter)
    reasons: dict[str, dict[str, None]] = defaultdict(dict)
    for op in debug:
        for layer in op.layers:
            unit = unit_of(op.residency)
            units[layer].update([unit] if unit is not None else [])
            reasons[layer].update(dict.fromkeys([op.reason] if op.reason else []))
    return {
        layer: _Layer(_listed(layer, found, list(reasons[layer])), row, found)
        for row, (layer, found) in enumerate(units.items())
    }


def _listed(layer: str, units: Counter[ComputeUnit], reasons: Sequence[str]) -> ListedOp:
    chosen = units.most_common(1)[0][0] if units else None
    supported: dict[ComputeUnit, Support] = {} if chosen is None else {chosen: "yes"}
    if reasons and chosen != NEURAL_ENGINE:
        supported[NEURAL_ENGINE] = "no"
    return ListedOp(
        function="main",
        type=UNKNOWN_TYPE,
        name=layer,
        layer=layer,
        supported=supported,
        backend=chosen,
        reasons=tuple(
            Reason(unit=NEURAL_ENGINE, rule=_RULE, text=text, confidence="measured", source="Core AI")
            for text in (reasons if chosen != NEURAL_ENGINE else ())
        ),
    )


def _findings(layers: Mapping[str, _Layer], has_debug: bool, origin: ListingOrigin) -> Iterator[Finding]:
    mixed = [name for name, layer in layers.items() if len(layer.units) > 1]
    if mixed:
        yield Finding(
            id="several-units",
            severity="info",
            text=f"{len(mixed)} layers of {origin.file} run on several units, such as {mixed[0]}: the unit of"
            " most of their operations is shown.",
        )
    if has_debug and not any(layer.units for layer in layers.values()):
        yield Finding(
            id="no-residency",
            severity="info",
            text=f"{origin.file} is without units: Core AI tells them on a Mac, for models that are loaded"
            " with SpecializationOptions.with_debug(enabled=True).",
        )


def _measurement(
    events: LoggedEvents,
    debug: Sequence[DebugOp],
    layers: Mapping[str, _Layer],
    ops: OpTable,
    origin: ListingOrigin,
) -> Measurement | None:
    interpreted = any(one.name.startswith("call.") for call in events.calls for one in call.intervals)
    samples = {"load": events.loads_s, "predict": [call.seconds for call in events.calls]}
    measured = measurement_of(origin, samples, "", [_INTERPRETED] if interpreted else [], tool="Core AI")
    if measured is None or not events.calls or not len(ops):
        return measured
    groups = _groups(events.calls, debug, layers)
    column: list[int] = [-1] * len(ops)
    status: list[Status] = ["not run"] * len(ops)
    for index, group in enumerate(groups):
        for row in group.ops:
            column[row], status[row] = index, "timed" if len(group.ops) == 1 else "fused"
    run_s = statistics.median(call.seconds for call in events.calls)
    nodes_s = statistics.median(sum(one.seconds for one in call.intervals) for call in events.calls)
    return replace(
        measured,
        groups=groups,
        group=tuple(column),
        status=tuple(status),
        nodes=NodeTiming(
            iterations=len(events.calls),
            warmups=0,
            run_s=run_s,
            nodes_s=nodes_s,
            node_overhead_s=max(run_s - nodes_s, 0.0),
            profiler_overhead_s=0.0,
        ),
    )


def _groups(
    calls: Sequence[LoggedPrediction], debug: Sequence[DebugOp], layers: Mapping[str, _Layer]
) -> tuple[Group, ...]:
    """Returns the times of layers: the medians over predictions of all their intervals together.

    Layers that share an operation form one group. Intervals without a layer are those of the runtime.
    """
    of_op = {op.id: op.layers for op in debug if op.id is not None}
    owner = _joined(of_op.values())
    seconds: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(calls))
    names: dict[str, dict[str, None]] = defaultdict(dict)
    for number, call in enumerate(calls):
        for one in call.intervals:
            op_layers = () if one.op is None else of_op.get(one.op, ())
            key = owner[op_layers[0]] if op_layers else ""
            seconds[key][number] += one.seconds
            names[key][_plain(one.name)] = None
    members: dict[str, list[int]] = defaultdict(list)
    for layer, root in owner.items():
        members[root].append(layers[layer].row)
    times = {key: statistics.median(found) for key, found in seconds.items()}
    whole = sum(times.values())
    return tuple(
        Group(
            label=" + ".join(name for name in names[key] if not name.startswith("NDArray")) or _RUNTIME,
            ops=tuple(sorted(members[key])) if key else (),
            wall_s=times[key],
            share=times[key] / whole if whole else None,
            engine_nodes=() if key else tuple((name, name) for name in names[key]),
        )
        for key in sorted(times, key=lambda key: members[key][0] if key else len(layers))
    )


def _joined(sets: Iterable[tuple[str, ...]]) -> dict[str, str]:
    """Returns for each layer the first layer of its group: layers that share an operation are one group."""
    root: dict[str, str] = {}

    def find(layer: str) -> str:
        while root.setdefault(layer, layer) != layer:
            layer = root[layer]
        return layer

    for names in sets:
        for layer in names:
            first, other = find(names[0]), find(layer)
            if first != other:
                root[other] = first
    return {layer: find(layer) for layer in root}


def _plain(name: str) -> str:
    return next((name.removeprefix(prefix) for prefix in _PREFIXES if name.startswith(prefix)), name)
