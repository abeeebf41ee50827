"""Assigns the times that Core AI's profiler reports to the operations of a model.

An event names an operation that runs by number. The debug information of the program says from which of the
file's operations it was made, and the translation, which layer computes these.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from coremlscope.formats.recordings.core_ai import INTERPRETER, DebugOp
from coremlscope.model.ir import Layer
from coremlscope.results.measurement import Group, Status
from coremlscope.results.operations import OpTable
from coremlscope.results.statistics import median_interval

#: The label of work that was made from no operation of the file.
UNOWNED = "without an operation of the file"

#: A measurement has many groups, several of whose medians would be outside a 95 % interval.
_GROUP_LEVEL = 0.995
_MOST_NODES = 16


class Event(msgspec.Struct, frozen=True):
    """The execution of an operation.

    Attributes:
        number: Its number in the interpreter; None or negative for one of a delegate.
        delegate: Its number in the delegate; None for one of the interpreter.
        label: What ran: `coreai.conv2d`, `NDArray.alloc`.
        seconds: How long.
    """

    number: int | None
    delegate: int | None
    label: str
    seconds: float


class OperationTimes(msgspec.Struct, frozen=True, kw_only=True):
    """The times of operations.

    Attributes:
        groups: The groups, in the program's order; those without operations of the file last.
        status: The status of each row of the op table.
        group: Index into `groups` for each row, -1 for none.
    """

    groups: tuple[Group, ...]
    status: tuple[Status, ...]
    group: tuple[int, ...]


@dataclass(slots=True)
class _Times:
    """The times of a group in each run, and the operations that ran for it."""

    seconds: list[float]
    nodes: dict[tuple[str, str], None] = field(default_factory=dict)


def attribute(
    runs: Sequence[Sequence[Event]],
    records: Iterable[DebugOp],
    layers: Mapping[int, Sequence[frozenset[Layer]]],
    ops: OpTable,
    members: Mapping[int, Sequence[int]] | None = None,
) -> OperationTimes:
    """Returns the times of groups of operations.

    Args:
        runs: The events of each profiled run.
        records: The debug information.
        layers: The layers that compute the operations of the file, by number; see `find_layers`.
        ops: The op table of the function.
        members: Numbers of the operations that a delegate runs as one, by the number of that.
    """
    origins = _Origins(records, layers, members or {})
    rows: dict[tuple[str | None, str | None], list[int]] = {}
    for row, key in enumerate(zip(ops.layer, ops.layer_type, strict=True)):
        rows.setdefault(key, []).append(row)
    times: dict[tuple[int, ...], _Times] = {}
    for run, events in enumerate(runs):
        for event in events:
            computed = origins.layers(event)
            found = sorted({row for layer in computed for row in rows.get((layer.name, layer.type), ())})
            known = times.setdefault(tuple(found), _Times([0.0] * len(runs)))
            known.seconds[run] += event.seconds
            if len(known.nodes) < _MOST_NODES:
                known.nodes[str(event.delegate if event.number is None else event.number), event.label] = None
    return _assemble(_merge(times), ops)


class _Origins:
    """Finds the layers that an event was made from."""

    def __init__(
        self,
        records: Iterable[DebugOp],
        layers: Mapping[int, Sequence[frozenset[Layer]]],
        members: Mapping[int, Sequence[int]],
    ) -> None:
        self._interpreted: dict[int | None, list[DebugOp]] = {}
        self._delegated: dict[int | None, list[DebugOp]] = {}
        for record in records:
            known = self._interpreted if record.record == INTERPRETER else self._delegated
            known.setdefault(record.id, []).append(record)
        self._layers, self._members = layers, members

    def layers(self, event: Event) -> set[Layer]:
        """Returns the layers; none for work that was made from no operation of the file."""
        if event.number is not None and event.number >= 0:
            return self._of(self._interpreted.get(event.number, ()))
        own = () if event.delegate is None else self._members.get(event.delegate, (event.delegate,))
        return self._of([record for member in own for record in self._delegated.get(member, ())])

    def _of(self, records: Iterable[DebugOp]) -> set[Layer]:
        return {layer for record in records for layer in layers_of(record, self._layers)}


def layers_of(record: DebugOp, layers: Mapping[int, Sequence[frozenset[Layer]]]) -> frozenset[Layer]:
    """Returns the layers of an operation that runs.

    Graphs of a file use the same numbers; the path of modules with the node tells operations apart, where
    the file has it. A graph that is called several times runs as one, whose events do not say which call
    they are of unless they name the call, too.

    Args:
        record: The operation.
        layers: The layers that compute the operations of the file, by number; see `find_layers`.
    """
    candidates = [found for number in record.ops for found in layers.get(number, ())]
    for path in record.layers:
        named = [found for found in candidates if any(layer.name == path for layer in found)]
        if named:
            return frozenset.intersection(*named) or min(named, key=len)
    return frozenset().union(*candidates)


def _merge(times: Mapping[tuple[int, ...], _Times]) -> dict[tuple[int, ...], _Times]:
    """Joins groups that share operations: their times cannot be separated."""
    merged: dict[tuple[int, ...], _Times] = {}
    for rows in sorted(times, key=len, reverse=True):
        together, found = rows, times[rows]
        for other in [other for other in merged if set(other) & set(together)]:
            known = merged.pop(other)
            together = tuple(sorted({*together, *other}))
            sums = [sum(pair) for pair in zip(known.seconds, found.seconds, strict=True)]
            found = _Times(sums, {**known.nodes, **found.nodes})
        merged[together] = found
    return merged


def _assemble(times: Mapping[tuple[int, ...], _Times], ops: OpTable) -> OperationTimes:
    owner, status = [-1] * len(ops.id), ["unattributed"] * len(ops.id)
    ordered = sorted(times, key=lambda rows: (not rows, rows))
    medians = [statistics.median(times[rows].seconds) for rows in ordered]
    total = sum(medians)
    groups = []
    for number, (rows, wall_s) in enumerate(zip(ordered, medians, strict=True)):
        for row in rows:
            owner[row], status[row] = number, "timed" if len(rows) == 1 else "fused"
        interval = median_interval(times[rows].seconds, _GROUP_LEVEL)
        types = Counter(ops.type[row] for row in rows)
        label = " + ".join(name if count == 1 else f"{name} ×{count}" for name, count in types.items())
        groups.append(
            Group(
                label=label or UNOWNED,
                ops=rows,
                wall_s=wall_s,
                share=wall_s / total if total else None,
                engine_nodes=tuple((f"{label} {id_}", label) for id_, label in times[rows].nodes),
                low_s=interval[0] if interval else None,
                high_s=interval[1] if interval else None,
            )
        )
    return OperationTimes(groups=tuple(groups), status=tuple(status), group=tuple(owner))  # type: ignore[arg-type]
