"""Imports JSON around coremltools 9.0: answers of its runner on devices, and dumps of plans and benchmarks.

The runner (`coremltools/modelrunner`) answers `MLModelService.ComputePlan` with `infos`, one for each
operation that has a usage, and loads and predictions with a `duration` in nanoseconds. `MLModelBenchmarker`
has no writer of its own: its `Measurement` (statistics, and samples in milliseconds) is taken as users dump
it, under the name of the phase. So is a plan as a list of `operations` with `operator`, `preferred`,
`supported` and `cost`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from coremlscope.base.errors import UsageError
from coremlscope.base.findings import Finding
from coremlscope.base.site import page
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

_PHASES: Mapping[str, str] = {
    "compile": "compile",
    "load": "load",
    "predict": "predict",
    "benchmark_load": "load",
    "benchmark_predict": "predict",
}
_HINT = f"{page('guides/mac-files')} lists the forms that are read"


def matches(source: SourceFile) -> bool:
    """By the keys of an answer of the runner, or of a dump."""
    if not source.looks_like_json:
        return False
    data = source.json
    answers = data if isinstance(data, list) else [data]
    if not answers or not all(isinstance(answer, Mapping) for answer in answers):
        return False
    keys = set(_result(answers[0]))
    return "infos" in keys or "duration" in keys or bool(keys & _PHASES.keys()) or _is_plan(answers[0])


def read(source: SourceFile, origin: ListingOrigin) -> Imported:
    """Reads answers or a dump.

    Raises:
        UsageError: It is damaged, or has neither times nor operations.
    """
    data = source.json
    answers = items({"answers": data if isinstance(data, list) else [data]}, "answers")
    first = answers[0]
    origin = named_origin(origin, text(first, "device") or text(first, "chip"), text(first, "os"))
    found: dict[str, list[float]] = {"compile": [], "load": [], "predict": []}
    remarks: list[Finding] = []
    listed: list[ListedOp] = []
    for answer in answers:
        result = _result(answer)
        listed += count_ops(_operations(result), str(source.path))
        _add_durations(result, found)
        remarks += _add_dumped(result, found, origin)
    units = {unit for op in listed for unit, known in op.supported.items() if known == "yes"}
    setting = setting_of(first.get("compute_units"))
    measured = measurement_of(origin, found, setting or "", remarks)
    if measured is None and not listed:
        raise UsageError(f"{source.path} holds neither times nor operations", _HINT)
    plans = [plan_of(listed, origin, setting or smallest_setting(units))] if listed else []
    return Imported(
        origin=origin,
        model=text(first, "model"),
        ops=table_of(listed),
        measurements=() if measured is None else (measured,),
        plans=tuple(plans),
    )


def _result(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The result within a JSON-RPC message; anything else is its own."""
    inner = answer.get("result")
    return inner if isinstance(inner, Mapping) else answer


def _is_plan(answer: Mapping[str, Any]) -> bool:
    ops = answer.get("operations")
    return isinstance(ops, list) and bool(ops) and isinstance(ops[0], Mapping) and "preferred" in ops[0]


def _add_durations(result: Mapping[str, Any], found: dict[str, list[float]]) -> None:
    """Adds the duration of an answer: of a prediction if it has outputs; a cached load has none."""
    duration = number(result, "duration")
    if duration is None or result.get("isCached") is True:
        return
    found["predict" if "outputs" in result else "load"].append(duration / 1e9)


def _add_dumped(
    result: Mapping[str, Any], found: dict[str, list[float]], origin: ListingOrigin
) -> Iterator[Finding]:
    for key, phase in _PHASES.items():
        if not isinstance(result.get(key), Mapping):
            continue
        fields = mapping(result, key)
        values = samples(fields, "samples", where=f"{key}.")
        median = number(mapping(fields, "statistics"), "median", where=f"{key}.statistics.")
        if not values and median is not None:
            values = (median,)
            yield median_only(origin, phase)
        found[phase] += [ms / 1e3 for ms in values]


def _operations(result: Mapping[str, Any]) -> Iterator[ListedOp]:
    for info in items(result, "infos"):
        yield _located(info)
    if _is_plan(result):
        for op in items(result, "operations"):
            yield _dumped(op)


def _dumped(op: Mapping[str, Any]) -> ListedOp:
    preferred = unit_of(op.get("preferred"))
    supported = op.get("supported")
    names = op.get("outputs")
    kind = text(op, "operator") or text(op, "type") or UNKNOWN_TYPE
    return ListedOp(
        function=text(op, "function") or "main",
        type=kind.rpartition(".")[2],
        output_names=tuple(n for n in names if isinstance(n, str)) if isinstance(names, list) else (),
        supported=judged([unit_of(u) for u in supported] if isinstance(supported, list) else [], preferred),
        backend=preferred,
        weight=number(op, "cost"),
    )


def _located(info: Mapping[str, Any]) -> ListedOp:
    """An operation or layer by its path: `program`, `programFunction`, `programBlock`, `programOperation`."""
    function, stage, output, layer = "main", "", "", ""
    for component in items(mapping(info, "path"), "components"):
        for kind in component:
            fields = mapping(mapping(component, kind), "data")
            if kind == "programFunction":
                function = text(fields, "name") or function
            elif kind == "pipelineModel":
                stage = text(fields, "name")
            elif kind == "programOperation":
                output = text(fields, "outputName")
            elif kind == "neuralNetworkLayer":
                layer = text(fields, "name")
    usage = mapping(info, "deviceUsage")
    preferred, supported = unit_of(usage.get("preferred")), usage.get("supported")
    return ListedOp(
        function="/".join(filter(None, (stage, function))),
        type=UNKNOWN_TYPE,
        output_names=(output,) if output else (),
        name=output or layer,
        layer=layer or None,
        supported=judged([unit_of(u) for u in supported] if isinstance(supported, list) else [], preferred),
        backend=preferred,
        weight=number(info, "estimatedCost"),
    )
