"""Imports the JSON of CoreMLProfiler (fguzman82/CoreMLProfiler 0.2).

`compute_plan.json` has functions with blocks of operations, `compute_plan_operation_table.json` a flat list
of them. Costs are MLComputePlan's shares. The app writes `op_time = median prediction time × cost` (in
milliseconds), so the median is `op_time / cost` of any operation, and times of operations are not measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coremlscope.base.errors import UsageError
from coremlscope.base.findings import Finding
from coremlscope.devices.unit import NEURAL_ENGINE
from coremlscope.interop.listing import (
    UNKNOWN_TYPE,
    Imported,
    ListedOp,
    ListingOrigin,
    plan_of,
    smallest_setting,
    table_of,
)
from coremlscope.interop.phases import measurement_of, median_only
from coremlscope.interop.source import SourceFile, count_ops, items, mapping, number, text
from coremlscope.interop.units import judged, unit_of
from coremlscope.results.plan import CORE_ML_RULE, Reason

_DEEPEST = 32
_HINT = "export the file from CoreMLProfiler again"
#: Costs and times are written as doubles; a time that is off by more is not the median's.
_RELATIVE_ERROR = 1e-3


def matches(source: SourceFile) -> bool:
    """By the keys of its operations."""
    if not source.looks_like_json:
        return False
    data = source.json
    if isinstance(data, list):
        return bool(data) and isinstance(data[0], Mapping) and "operatorName" in data[0]
    values = list(data.values()) if isinstance(data, Mapping) else []
    return bool(values) and all(isinstance(one, Mapping) and "block" in one for one in values)


def read(source: SourceFile, origin: ListingOrigin) -> Imported:
    """Reads either file.

    Raises:
        UsageError: It is damaged, or lists no operation.
    """
    data = source.json
    if isinstance(data, list):
        listed = [("main", (), op) for op in items({"operations": data}, "operations")]
    else:
        found = (op for name in data for op in _block(name, mapping(mapping(data, name), "block"), ()))
        listed = count_ops(found, str(source.path))
    listed = [one for one in listed if not text(one[2], "operatorName").endswith("const")]
    if not listed:
        raise UsageError(f"{source.path} lists no operation", _HINT)
    ops = [_operation(function, place, op) for function, place, op in listed]
    units = {unit for op in ops for unit, known in op.supported.items() if known == "yes"}
    median_s = _median_s([op for *_, op in listed])
    how = " (it follows from the times of operations, which are the median times the planned shares)"
    remarks = [median_only(origin, "predict", how)]
    measured = None if median_s is None else measurement_of(origin, {"predict": (median_s,)}, "", remarks)
    note = Finding(
        id="unknown-compute-units",
        severity="info",
        text=f"{source.name} does not name the compute units; the setting follows from the units in it",
    )
    return Imported(
        origin=origin,
        ops=table_of(ops),
        measurements=() if measured is None else (measured,),
        plans=(plan_of(ops, origin, smallest_setting(units)),),
        findings=(note,),
    )


def _block(
    function: str, block: Mapping[str, Any], above: tuple[int, ...]
) -> Iterator[tuple[str, tuple[int, ...], Mapping[str, Any]]]:
    if len(above) > 2 * _DEEPEST:
        raise UsageError("the file nests blocks too deeply", _HINT)
    for place, op in enumerate(items(block, "operations")):
        yield function, (*above, place), op
        for index, nested in enumerate(items(op, "blocks")):
            yield from _block(function, nested, (*above, place, index))


def _operation(function: str, place: tuple[int, ...], op: Mapping[str, Any]) -> ListedOp:
    preferred = unit_of(text(op, "preferred_device"))
    units = [unit_of(name) for name in text(op, "supported_devices").split(",")]
    first = text(op, "operator_id")
    names = [text(output, "name") for output in items(op, "outputs")]
    message = text(op, "ane_msg")
    kind = text(op, "operatorName").rpartition(".")[2] or UNKNOWN_TYPE
    reason = Reason(unit=NEURAL_ENGINE, rule=CORE_ML_RULE, text=message, core_ml=message, source="Core ML")
    return ListedOp(
        function=function,
        type=kind,
        output_names=tuple(filter(None, names)) or ((first,) if first not in ("", "Unknown") else ()),
        place=place,
        supported=judged(units, preferred),
        backend=preferred,
        weight=number(op, "cost"),
        reasons=(reason,) if message and NEURAL_ENGINE not in units else (),
    )


def _median_s(ops: Sequence[Mapping[str, Any]]) -> float | None:
    """The median of predictions; None where the file has no times, or they do not follow the costs."""
    pairs = [(number(op, "op_time"), number(op, "cost")) for op in ops]
    ratios = [ms / cost for ms, cost in sorted(pairs, key=_cost_first) if ms is not None and cost]
    if not ratios or any(
        abs(r - ratios[0]) > _RELATIVE_ERROR * ratios[0] for r in ratios[: len(ratios) // 2]
    ):
        return None
    return ratios[0] / 1e3


def _cost_first(pair: tuple[float | None, float | None]) -> float:
    return -(pair[1] or 0.0)
