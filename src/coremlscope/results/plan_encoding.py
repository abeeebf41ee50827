"""The operations of a plan as JSON holds them: a column for each figure, one entry an operation.

The columns have what a plan adds to the op table of its profile, and operations that are in no table. They
exist in the encoding alone: `PlannedOps` are rows before it and after it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Generic, TypeVar

import msgspec

from coremlscope.devices.unit import ComputeUnit, ComputeUnits
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import Choice, PlannedOp, PlannedOps, Reason, Support, Undecided

Item = TypeVar("Item", bound=Hashable)
Key = TypeVar("Key")
Value = TypeVar("Value")

_SUPPORT: Mapping[Support, int] = {"yes": 1, "no": 0, "unknown": -1}
_SUPPORT_OF: Mapping[int, Support] = {code: support for support, code in _SUPPORT.items()}
#: Shares of costs that differ by less are equal up to rounding.
_SAME_SHARE = 1e-9


class InsertedOp(msgspec.Struct, frozen=True, kw_only=True):
    """An operation that Core ML adds to those in the file.

    Attributes:
        id: Its id: `main/input`.
        type: Apple's name of the operation.
        function: The function that it belongs to, as in the op table.
        outputs: Types of its results.
        output_names: Names of its results.
    """

    id: str
    type: str
    function: str
    outputs: tuple[str, ...]
    output_names: tuple[str, ...] = ()


class ChoiceColumns(msgspec.Struct, frozen=True, kw_only=True):
    """Where operations go under one setting.

    Attributes:
        backend: Per operation: its backend, by its place in `backends`; -1 if no unit is known to support it.
        weight: Per operation: its share in the cost of its graph as reported by Core ML; empty if it follows
            from the costs.
        detour_ms: For each unit, per operation: the additional cost of the cheapest plan that runs it there;
            None if it already runs there or cannot run there.
        alternatives: For each unit, per operation: why it may run there as well although another unit was
            chosen; None where the evidence decides. Units without such operations are omitted.
    """

    backend: tuple[int, ...]
    weight: tuple[float, ...] = ()
    detour_ms: Mapping[ComputeUnit, tuple[float | None, ...]] = msgspec.field(default_factory=dict)
    alternatives: Mapping[ComputeUnit, tuple[Undecided | None, ...]] = msgspec.field(default_factory=dict)


class PlanColumns(msgspec.Struct, frozen=True, kw_only=True):
    """The operations of a plan in program order, as columns: each has one entry for each operation.

    Attributes:
        id: Their ids, in the op table of the profile or in `inserted`.
        inserted: Those that Core ML adds.
        backends: The implementations where they go, with the unit of each.
        supported: For each unit: 1 if it can run there, 0 if it cannot, -1 if no rule covers it; None where
            nothing is said.
        cost_ms: For each backend: its planned cost; None if it cannot run there.
        cost_basis: For each backend: how that cost is known, an index into `bases`; None for none.
        bases: The bases of costs: `recovered`, `fitted`, `assumed`, …
        reasons: The distinct reasons.
        why: Indices of the reasons why it cannot run on units. This column and the next two are empty where
            no operation has any.
        advice: Indices of advice that would make it faster on its unit.
        doubts: Indices of rules known by anecdote only that would take it from a unit. Plans do not apply
            them.
        choices: Where they go, by setting.
    """

    id: tuple[str, ...] = ()
    inserted: tuple[InsertedOp, ...] = ()
    backends: Mapping[str, ComputeUnit] = msgspec.field(default_factory=dict)
    supported: Mapping[ComputeUnit, tuple[int | None, ...]] = msgspec.field(default_factory=dict)
    cost_ms: Mapping[str, tuple[float | None, ...]] = msgspec.field(default_factory=dict)
    cost_basis: Mapping[str, tuple[int | None, ...]] = msgspec.field(default_factory=dict)
    bases: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()
    why: tuple[tuple[int, ...], ...] = ()
    advice: tuple[tuple[int, ...], ...] = ()
    doubts: tuple[tuple[int, ...], ...] = ()
    choices: Mapping[ComputeUnits, ChoiceColumns] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.id)
        columns: list[Sequence[object]] = [
            *(*self.supported.values(), *self.cost_ms.values(), *self.cost_basis.values()),
            *(one.backend for one in self.choices.values()),
        ]
        optional: list[Sequence[object]] = [self.why, self.advice, self.doubts]
        for one in self.choices.values():
            optional += [one.weight, *one.detour_ms.values(), *one.alternatives.values()]
        if any(len(c) != count for c in columns) or any(len(c) not in (0, count) for c in optional):
            raise ValueError("a column of a plan does not match its operations")
        if any(code not in (1, 0, -1, None) for column in self.supported.values() for code in column):
            raise ValueError("a plan has invalid support values; valid: 1, 0, -1, null")
        listed = [index for given in (*self.why, *self.advice, *self.doubts) for index in given]
        known = [index for column in self.cost_basis.values() for index in column if index is not None]
        chosen = [index + 1 for one in self.choices.values() for index in one.backend]
        limits = ((listed, len(self.reasons)), (known, len(self.bases)), (chosen, len(self.backends) + 1))
        if any(not 0 <= index < limit for indices, limit in limits for index in indices):
            raise ValueError("a plan contains an index that is out of range")


def encode_ops(ops: PlannedOps) -> PlanColumns:
    """Returns the columns of a plan's operations."""
    settings = ops[0].choices if ops else ()
    chosen = (choice for op in ops for choice in op.choices.values())
    backends = {one.backend: one.unit for one in chosen if one.backend is not None and one.unit is not None}
    reasons: _Distinct[Reason] = _Distinct()
    bases: _Distinct[str] = _Distinct()
    why, advice, doubts = (
        _encode_reasons(map(attrgetter(field), ops), reasons) for field in ("why", "advice", "doubts")
    )
    return PlanColumns(
        id=tuple(op.id for op in ops),
        inserted=tuple(msgspec.convert(op, InsertedOp, from_attributes=True) for op in ops if op.inserted),
        backends=backends,
        supported=_columns([_mapped(op.supported, _SUPPORT.__getitem__) for op in ops]),
        cost_ms=_columns([op.cost_ms for op in ops]),
        cost_basis=_columns([_mapped(op.cost_basis, bases.index) for op in ops]),
        bases=tuple(bases.items),
        reasons=tuple(reasons.items),
        why=why,
        advice=advice,
        doubts=doubts,
        choices={setting: _encode_choices(ops, setting, backends) for setting in settings},
    )


def _encode_reasons(
    listed: Iterable[tuple[Reason, ...]], reasons: _Distinct[Reason]
) -> tuple[tuple[int, ...], ...]:
    """Returns the indices of each operation's reasons; nothing where no operation has any."""
    indices = tuple(tuple(map(reasons.index, of_op)) for of_op in listed)
    return indices if any(indices) else ()


def _encode_choices(
    ops: Sequence[PlannedOp], setting: ComputeUnits, backends: Iterable[str]
) -> ChoiceColumns:
    places: dict[str | None, int] = {None: -1} | {name: index for index, name in enumerate(backends)}
    choices = [op.choices[setting] for op in ops]
    weights = tuple(choice.weight for choice in choices)
    shares = share_costs([op.graph for op in ops], [choice.planned_ms for choice in choices])
    follow = all(abs(a - b) < _SAME_SHARE for a, b in zip(weights, shares, strict=True))
    return ChoiceColumns(
        backend=tuple(places[choice.backend] for choice in choices),
        weight=() if follow else weights,
        detour_ms=_columns([choice.detour_ms for choice in choices]),
        alternatives=_columns([choice.alternatives for choice in choices]),
    )


def _mapped(values: Mapping[Key, Value], encode: Callable[[Value], int]) -> dict[Key, int]:
    return {key: encode(value) for key, value in values.items()}


def _columns(values: Sequence[Mapping[Key, Value]]) -> dict[Key, tuple[Value | None, ...]]:
    """Returns a column for each key of which anything is known."""
    keys = dict.fromkeys(key for one in values for key in one)
    return {key: tuple(one.get(key) for one in values) for key in keys}


def share_costs(graphs: Sequence[str], costs_ms: Sequence[float | None]) -> list[float]:
    """Returns the share of each operation in the planned cost of its graph."""
    totals: dict[str, float] = {}
    for graph, ms in zip(graphs, costs_ms, strict=True):
        totals[graph] = totals.get(graph, 0.0) + (ms or 0.0)
    return [
        (ms or 0.0) / totals[graph] if totals[graph] else 0.0
        for graph, ms in zip(graphs, costs_ms, strict=True)
    ]


class _Distinct(Generic[Item]):
    """Distinct items with their indices."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._places: dict[Item, int] = {}

    def index(self, item: Item) -> int:
        """Returns the index of an item, and adds the item if it is new."""
        if item not in self._places:
            self._places[item] = len(self.items)
            self.items.append(item)
        return self._places[item]


def decode_ops(columns: PlanColumns) -> PlannedOps:
    """Returns the operations of columns; `PlannedOps.over` gives them the op table of their profile."""
    return PlannedOps(read=lambda table: _decode(columns, table))


def _decode(columns: PlanColumns, table: OpTable) -> Iterator[PlannedOp]:
    rows = {id_: row for row, id_ in enumerate(table.id)}
    inserted = {op.id: op for op in columns.inserted}
    choices = {
        setting: _decode_choices(columns, of_setting, table, inserted)
        for setting, of_setting in columns.choices.items()
    }
    for place, id_ in enumerate(columns.id):
        known = inserted.get(id_)
        if known is None and id_ not in rows:
            raise ValueError(f"a plan has the operation {id_}, which is not in the op table")
        row = rows.get(id_, -1)
        costs = _entries(columns.cost_ms, place)
        yield PlannedOp(
            id=id_,
            type=known.type if known else table.type[row],
            name=known.type if known else table.name[row],
            function=known.function if known else table.function[row],
            outputs=known.outputs if known else table.outputs[row],
            output_names=known.output_names if known else table.output_names[row],
            inserted=known is not None,
            supported={unit: _SUPPORT_OF[code] for unit, code in _entries(columns.supported, place).items()},
            cost_ms=costs,
            cost_basis={
                name: columns.bases[basis]
                for name, basis in _entries(columns.cost_basis, place).items()
                if name in costs
            },
            why=_reasons(columns, columns.why, place),
            advice=_reasons(columns, columns.advice, place),
            doubts=_reasons(columns, columns.doubts, place),
            choices={setting: of_setting[place] for setting, of_setting in choices.items()},
        )


def _decode_choices(
    columns: PlanColumns, chosen: ChoiceColumns, table: OpTable, inserted: Mapping[str, InsertedOp]
) -> list[Choice]:
    backends = [*columns.backends, None]
    names = [backends[index] for index in chosen.backend]
    costs = [
        columns.cost_ms[name][place] if name is not None and name in columns.cost_ms else None
        for place, name in enumerate(names)
    ]
    graphs = [inserted[id_].function if id_ in inserted else id_.rpartition("/")[0] for id_ in columns.id]
    weights = chosen.weight or share_costs(graphs, costs)
    return [
        Choice(
            backend=name,
            unit=None if name is None else columns.backends[name],
            planned_ms=ms,
            weight=weight,
            detour_ms=_entries(chosen.detour_ms, place),
            alternatives=_entries(chosen.alternatives, place),
        )
        for place, (name, ms, weight) in enumerate(zip(names, costs, weights, strict=True))
    ]


def _entries(columns: Mapping[Key, Sequence[Value | None]], place: int) -> dict[Key, Value]:
    """Returns what columns hold for an operation, without those that hold nothing."""
    return {key: value for key, column in columns.items() if (value := column[place]) is not None}


def _reasons(columns: PlanColumns, column: tuple[tuple[int, ...], ...], place: int) -> tuple[Reason, ...]:
    return tuple(columns.reasons[index] for index in column[place]) if column else ()


def encode_hook(value: Any) -> PlanColumns:
    """Encodes what msgspec does not know: the operations of a plan.

    Raises:
        NotImplementedError: It is something else.
    """
    if not isinstance(value, PlannedOps):
        raise NotImplementedError(type(value).__name__)
    return encode_ops(value)


def decode_hook(type_: type, value: Any) -> Any:
    """Decodes what `encode_hook` encodes.

    Raises:
        NotImplementedError: Another type is wanted.
    """
    if type_ is not PlannedOps:
        raise NotImplementedError(type_.__name__)
    return decode_ops(msgspec.convert(value, PlanColumns))


def schema_hook(type_: type) -> dict[str, Any]:
    """Returns the schema of what `encode_hook` encodes.

    Raises:
        NotImplementedError: Another type is wanted.
    """
    if type_ is not PlannedOps:
        raise NotImplementedError(type_.__name__)
    return {"$ref": "#/$defs/PlanColumns"}
