"""Imports Xcode's performance reports: a folder `NAME.mlperf` with `report.json`, or that file alone.

Apple does not document the form; this reader follows what public readers of reports use (Xcode 16): samples
in seconds; `computeUnit` is Apple's number; operations stand under `modelStructure.program._0.functions`,
with `cost.weight` and `deviceUsage` where Xcode wrote them (reports of iPhones were seen without).
`serialNumber`, `deviceID` and `displayName`, which identify a device and its owner, are never read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coremlscope.base.errors import UsageError
from coremlscope.base.findings import Finding
from coremlscope.devices.unit import ComputeUnits
from coremlscope.interop.listing import (
    UNKNOWN_TYPE,
    Imported,
    ListedOp,
    ListingOrigin,
    plan_of,
    smallest_setting,
    table_of,
)
from coremlscope.interop.origin import named_origin
from coremlscope.interop.phases import measurement_of, median_only
from coremlscope.interop.source import SourceFile, count_ops, items, mapping, number, samples, text
from coremlscope.interop.units import judged, setting_of, unit_of

_PHASES = ("compile", "load", "predict")
_DEEPEST = 32


def matches(source: SourceFile) -> bool:
    """Returns True if the suffix or a key is that of Xcode's reports."""
    return source.path.suffix == ".mlperf" or "deviceResults" in source.keys


def read(source: SourceFile, origin: ListingOrigin) -> Imported:
    """Reads a report.

    Raises:
        UsageError: It is not a report, is damaged, or has neither times nor operations.
    """
    report = source.json
    if not isinstance(report, Mapping):
        raise UsageError(f"{source.path} is not a performance report", "export it from Xcode again")
    results = mapping(report, "deviceResults")
    device = mapping(report, "deviceInfo")
    os = text(device, "osNameAndVersionWithoutBuildNumber")
    origin = named_origin(origin, text(device, "modelName"), os)
    setting = setting_of(report.get("computeUnit"))
    measured = _measurement(results, origin, setting)
    ops = count_ops(_operations(mapping(results, "modelStructure")), str(source.path))
    if measured is None and not ops:
        raise UsageError(f"{source.path} holds neither times nor operations", "export it from Xcode again")
    units = {unit for op in ops for unit, known in op.supported.items() if known == "yes"}
    plans = [plan_of(ops, origin, setting or smallest_setting(units))] if _is_placed(ops) else []
    name = text(mapping(report, "modelMetadata"), "fileName")
    return Imported(
        origin=origin,
        model=name or (source.path.stem if source.path.suffix == ".mlperf" else ""),
        ops=table_of(ops),
        measurements=() if measured is None else (measured,),
        plans=tuple(plans),
        findings=_findings(ops, source.name, setting),
    )


def _measurement(results: Mapping[str, Any], origin: ListingOrigin, setting: ComputeUnits | None) -> Any:
    found: dict[str, Sequence[float]] = {}
    remarks = []
    for phase in _PHASES:
        content = mapping(results, phase)
        found[phase] = samples(content, "samples", where=f"{phase}.")
        median = number(content, "median", where=f"{phase}.")
        if not found[phase] and median is not None:
            found[phase] = (median,)
            remarks.append(median_only(origin, phase))
    return measurement_of(origin, found, setting or "", remarks)


def _operations(structure: Mapping[str, Any]) -> Iterator[ListedOp]:
    program = mapping(structure, "program")
    for function, content in mapping(mapping(program, "_0") or program, "functions").items():
        if isinstance(content, Mapping):
            yield from _block(function, mapping(content, "block"), ())
    network = mapping(structure, "neuralNetwork")
    for layer in items(mapping(network, "_0") or network, "layers"):
        yield _operation("main", layer, ())


def _block(function: str, block: Mapping[str, Any], above: tuple[int, ...]) -> Iterator[ListedOp]:
    if len(above) > 2 * _DEEPEST:
        raise UsageError("the report nests blocks too deeply", "export it from Xcode again")
    for place, op in enumerate(items(block, "operations")):
        if not text(op, "operatorName").endswith("const"):
            yield _operation(function, op, (*above, place))
        for index, nested in enumerate(items(op, "blocks")):
            yield from _block(function, nested, (*above, place, index))


def _operation(function: str, op: Mapping[str, Any], place: tuple[int, ...]) -> ListedOp:
    usage = mapping(op, "deviceUsage")
    preferred = unit_of(usage.get("preferred"))
    supported = usage.get("supported")
    listed = [unit_of(unit) for unit in supported] if isinstance(supported, list) else []
    names = tuple(text(output, "name") for output in items(op, "outputs"))
    layer = text(op, "name") if "operatorName" not in op else ""
    kind = text(op, "operatorName") or text(op, "type") or UNKNOWN_TYPE
    return ListedOp(
        function=function,
        type=kind.rpartition(".")[2],
        output_names=tuple(filter(None, names)),
        name=layer,
        place=place,
        layer=layer or None,
        supported=judged(listed, preferred),
        backend=preferred,
        weight=number(mapping(op, "cost"), "weight", where="cost."),
    )


def _is_placed(ops: Sequence[ListedOp]) -> bool:
    return any(op.backend is not None or op.weight is not None for op in ops)


def _findings(ops: Sequence[ListedOp], name: str, setting: ComputeUnits | None) -> tuple[Finding, ...]:
    found = []
    if ops and not _is_placed(ops):
        found.append(
            Finding(
                id="no-places",
                severity="warning",
                text=f"{name} lists operations, but not which unit runs them",
            )
        )
    if setting is None:
        found.append(
            Finding(
                id="unknown-compute-units",
                severity="warning",
                text=f"{name} does not say under which compute units the model ran",
            )
        )
    return tuple(found)
