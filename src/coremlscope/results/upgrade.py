"""Converts profiles of older versions to the current schema, as plain JSON values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_Json = dict[str, Any]

#: Columns of the old op table that now belong to a measurement or to the kernels.
_MEASURED = ("group", "status", "fp16_largest", "fp16_overflows", "fp16_infinities", "fp16_nans", "kernel")
_ENGINES = {"onnxruntime": "ONNX Runtime"}


def upgrade_profile(data: Mapping[str, Any]) -> _Json:
    """Converts `coremlscope.profile/1`, which contained exactly one measurement.

    Args:
        data: Plain JSON values of the old form.

    Raises:
        KeyError: A value is missing; a damaged file may raise TypeError or ValueError as well.
    """
    old_ops, settings = data["ops"], _settings(data)
    rows = {id_: row for row, id_ in enumerate(old_ops["id"])}
    plans, estimates = data.get("plans", ()), list(_estimates(data))
    return {
        "model": {key: value for key, value in data["model"].items() if key not in ("schema", "op_list")},
        "ops": _ops(old_ops),
        "made": {},
        "measurements": [_measurement(data, rows, settings)],
        "plans": [_plan(plan, old_ops) for plan in plans],
        "kernels": _kernels(old_ops, estimates),
        "estimates": estimates,
        "findings": [],
    }


def _settings(data: Mapping[str, Any]) -> _Json:
    return dict(data["request"])


def _ops(old: Mapping[str, Any]) -> _Json:
    count = len(old["id"])
    columns = {name: column for name, column in old.items() if name not in _MEASURED}
    for name in ("layer", "layer_type", "inputs", "live_bytes"):
        columns.setdefault(name, [None] * count)
    columns["output_names"] = [[] for _ in range(count)]
    return columns


def _measurement(data: Mapping[str, Any], rows: Mapping[str, int], settings: _Json) -> _Json:
    host, ops = data["host"], data["ops"]
    engine = host["engine"]
    return {
        "label": host["label"],
        "runtime": {
            "id": engine,
            "name": _ENGINES.get(engine, engine),
            "version": host["engine_version"],
        },
        "machine": {
            "processor": host["processor"],
            "cores": host["cores"],
            "os": host["os"],
            "python": host["python"],
            "power_mode": host.get("power_mode", ""),
        },
        "settings": settings,
        "threads": host["threads"],
        **{phase: data[phase] for phase in ("compile", "load", "predict")},
        "groups": [_group(group, rows) for group in data["groups"]],
        "status": ops["status"],
        "group": ops["group"],
        "nodes": data["nodes"],
        "stages": list(data.get("stages", ())),
        "fp16": _ranges(ops) if settings.get("precision") == "fp16" else None,
        "findings": data["findings"],
    }


def _group(group: Mapping[str, Any], rows: Mapping[str, int]) -> _Json:
    return {
        **{key: value for key, value in group.items() if key != "op_ids"},
        "ops": [rows[id_] for id_ in group["op_ids"]],
    }


def _ranges(ops: Mapping[str, Any]) -> _Json:
    return {
        name: ops.get(f"fp16_{name}", [None] * len(ops["id"]))
        for name in ("largest", "overflows", "infinities", "nans")
    }


def _kernels(ops: Mapping[str, Any], estimates: Sequence[Mapping[str, Any]]) -> list[_Json]:
    """Returns a kernel for each entry of the estimates' columns; the last ones may have no operations."""
    count = max((len(estimate.get("kernel_s", ())) for estimate in estimates), default=0)
    if not count:
        return []
    members: list[list[int]] = [[] for _ in range(count)]
    for row, kernel in enumerate(ops.get("kernel", ())):
        if kernel is not None:
            members[kernel].append(row)
    return [{"name": ops["name"][held[0]] if held else "", "kind": "", "ops": held} for held in members]


def _plan(plan: Mapping[str, Any], ops: Mapping[str, Any]) -> _Json:
    """Converts a plan; the old cost of a setting was the sum over all planned functions."""
    of_each = [*ops["function"], *(op["function"] for op in plan["inserted"])]
    listed = zip(of_each, *plan["supported"].values(), strict=True)
    functions = list(dict.fromkeys(name for name, *support in listed if any(s is not None for s in support)))
    name = functions[0] if len(functions) == 1 else "all stages"
    return {**plan, "settings": [_setting(setting, name) for setting in plan["settings"]]}


def _setting(setting: Mapping[str, Any], function: str) -> _Json:
    kept = {key: setting[key] for key in ("compute_units", "backend", "detour_ms")}
    cost = {"total_ms": setting["total_ms"], "switches": setting["switches"]}
    return {**kept, "functions": {function: cost}}


def _estimates(data: Mapping[str, Any]) -> Iterator[_Json]:
    """Yields the estimates within plans, which have kernels, and the estimates of devices without plans."""
    brief: Sequence[Mapping[str, Any]] = data.get("estimates", ())
    left_out = {(e["device"], e["os"]): e.get("left_out", ()) for e in brief}
    planned = set()
    for plan in data.get("plans", ()):
        key = plan["device"], plan["os"]
        planned.add(key)
        for setting in plan["settings"]:
            if setting["estimate"] is not None:
                yield {
                    **setting["estimate"],
                    **{name: plan[name] for name in ("device", "chip", "os", "units")},
                    "compute_units": setting["compute_units"],
                    "left_out": left_out.get(key, ()),
                }
    for estimate in brief:
        if (estimate["device"], estimate["os"]) not in planned:
            yield {**estimate, "parts": {}, "switches": 0}
