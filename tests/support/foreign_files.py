"""Files that other tools write about a small model, in the forms that are published."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["FILES", "analytics", "op_line", "runner_record", "runner_setting", "write"]

_HEAD = """program(1.3)
[buildInfo = dict<string, string>({{"coremlc-version", "3600.25.2"}, {"coremltools-version", "9.0"}})]
{
"""
_FUNCTION = """    func %s<ios18>(tensor_buffer<fp16, shape=[1, 8], strides=[8, 1]> x) \
[Launch_ane_ms = fp64(0x1p-3), Launch_bnns_ms = fp64(0x0p+0), Launch_classic_cpu_ms = fp64(0x0p+0), \
Src_ane_Dest_bnns_ms = fp64(0x1p-3), Src_bnns_Dest_ane_ms = fp64(0x1p-3)] {
"""
_TAIL = "        } -> (y);\n"


def op_line(name: str, kind: str, selected: str, costs: Mapping[str, float], message: str = "") -> str:
    """A line of analytics.mil."""
    support = ", ".join(f'"{b if b in costs else "unsupported"}"' for b in ("bnns", "classic_cpu", "ane"))
    runtime = ", ".join(f'{{"{backend}", {ms!r}}}' for backend, ms in costs.items())
    said = f', ValidationMessage = dict<string, string>({{{{"ane", "{message}"}}}})' if message else ""
    return (
        f"            tensor<fp16, [1, 8]> {name}_4D454D5F4F5054 = {kind}(x = x)"
        f"[BackendSupport = list<string, 3>([{support}]),"
        f" EstimatedRuntime = dict<string, fp64>({{{runtime}}}),"
        f' SelectedBackend = string("{selected}"){said}, milId = uint64(1), name = string("{name}")];\n'
    )


def analytics(functions: Mapping[str, str]) -> str:
    """A file with these lines of operations by function."""
    return _HEAD + "".join(_FUNCTION % name + ops + _TAIL for name, ops in functions.items()) + "}\n"


def _analytics() -> str:
    both = {"ane": 0.5, "bnns": 0.25, "classic_cpu": 0.375}
    lines = op_line("a", "relu", "ane", both) + op_line(
        "b", "tanh", "bnns", {"bnns": 6.25e-06, "classic_cpu": 0}, r"Unsupported \"tanh\"."
    )
    return analytics({"main": lines})


def _operation(kind: str, name: str, unit: str, weight: float) -> dict[str, Any]:
    return {
        "operatorName": f"ios18.{kind}",
        "outputs": [{"name": name}],
        "cost": {"weight": weight},
        "deviceUsage": {"preferred": {"deviceType": {unit: {}}}},
    }


def _report() -> dict[str, Any]:
    ops = [_operation("relu", "a", "neuralEngine", 0.75), _operation("tanh", "b", "cpu", 0.25)]
    return {
        "modelMetadata": {"fileName": "small"},
        "deviceInfo": {
            "modelName": "iPhone 15 Pro",
            "osNameAndVersionWithoutBuildNumber": "iOS 18.7.8",
            "displayName": "SECRET",
            "serialNumber": "SECRET",
        },
        "computeUnit": 3,
        "deviceResults": {
            "predict": {"samples": [0.002, 0.001, 0.003], "numOperations": 2},
            "load": {"samples": [0.05]},
            "compile": {"samples": []},
            "modelStructure": {"program": {"_0": {"functions": {"main": {"block": {"operations": ops}}}}}},
        },
    }


def _profiler_op(number: int, kind: str, name: str, unit: str, cost: float) -> dict[str, Any]:
    return {
        "op_number": number,
        "operator_id": name,
        "operatorName": f"ios18.{kind}",
        "cost": cost,
        "preferred_device": unit,
        "supported_devices": "CPU, GPU, ANE" if unit == "ANE" else "CPU, GPU",
        "op_time": 2.0 * cost,
    }


def _profiler_table() -> list[dict[str, Any]]:
    return [_profiler_op(1, "relu", "a", "ANE", 0.75), _profiler_op(2, "tanh", "b", "CPU", 0.25)]


def _profiler_plan() -> dict[str, Any]:
    block = {"inputs": [], "outputs": ["b"], "operations": [{**op, "blocks": []} for op in _profiler_table()]}
    return {"main": {"inputs": [], "block": block}}


def _info(name: str, unit: str, cost: float) -> dict[str, Any]:
    return {
        "deviceUsage": {"preferred": {unit: {}}, "supported": [{"cpu": {}}, {unit: {}}]},
        "estimatedCost": cost,
        "path": {
            "components": [
                {"program": {}},
                {"programFunction": {"data": {"name": "main"}}},
                {"programBlock": {"data": {"index": -1}}},
                {"programOperation": {"data": {"outputName": name}}},
            ]
        },
    }


def _remote_plan() -> dict[str, Any]:
    infos = [_info("a", "neuralEngine", 0.75), _info("b", "cpu", 0.25)]
    return {"jsonrpc": "2.0", "id": "1", "result": {"modelID": "m", "infos": infos}}


def _remote_times() -> list[dict[str, Any]]:
    return [
        {"result": {"modelID": "m", "duration": 5e7, "isCached": False}},
        {"result": {"modelID": "m", "duration": 0, "isCached": True}},
        {"result": {"modelID": "m", "outputs": {}, "duration": 2e6}},
    ]


def _dump() -> dict[str, Any]:
    ops = [
        {
            "function": "main",
            "operator": "ios18.relu",
            "preferred": "ANE",
            "supported": ["ANE", "CPU"],
            "cost": 0.75,
        },
        {
            "function": "main",
            "operator": "ios18.tanh",
            "preferred": "CPU",
            "supported": ["CPU"],
            "cost": 0.25,
        },
    ]
    return {
        "model": "small",
        "compute_units": "CPU_AND_NE",
        "operations": ops,
        "predict": {"statistics": {"median": 2.0}, "samples": []},
    }


def runner_setting(model: str = "small", units: str = "cpu_and_ne", **changed: Any) -> dict[str, Any]:
    """Results of the runner for a model under one setting."""
    state = {"thermal_state": "nominal", "is_low_power": False, "is_charging": True}
    ops = [
        {"type": "ios18.relu", "outputs": ["a"], "preferred": "neural_engine", "cost": 0.75},
        {"type": "ios18.tanh", "outputs": ["b"], "preferred": "cpu", "cost": 0.25},
    ]
    return {
        "model": model,
        "function": "",
        "compute_units": units,
        "power_mode": "normal",
        "status": "done",
        "step": "plan",
        "before": state,
        "after": state,
        "inputs": [{"name": "x", "kind": "array", "type": "float16", "shape": [1, 8]}],
        "first_load_s": 0.5,
        "load_s": [0.05, 0.04],
        "warmup_s": [0.004],
        "predict_s": [0.002, 0.001, 0.003],
        "plan": [
            {"function": "main", "place": [place], "supported": ["cpu", "neural_engine"][: 2 - place], **op}
            for place, op in enumerate(ops)
        ],
        "measured_at": "2026-01-31T12:00:00Z",
        **changed,
    }


def runner_record(*results: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """Contents of the runner's `results.json`."""
    return {
        "schema": "coremlscope.runner/1",
        "id": "1",
        "version": "0",
        "device": {
            "identifier": "iPhone16,1",
            "system": "iOS",
            "system_version": "18.2",
            "build": "22C152",
            "cores": 6,
        },
        "complete": True,
        "compilations": [{"model": "small", "status": "done", "samples_s": [0.25]}],
        "results": list(results),
        **changed,
    }


def _text(data: Any) -> Callable[[], str]:
    return lambda: json.dumps(data)


#: By name of the file, what it holds. Each lists the operations `a = relu` and `b = tanh`, or times.
FILES: Mapping[str, Callable[[], str]] = {
    "small.analytics.mil": _analytics,
    "small.mlperf/report.json": _text(_report()),
    "report.json": _text(_report()),
    "compute_plan.json": _text(_profiler_plan()),
    "compute_plan_operation_table.json": _text(_profiler_table()),
    "remote_plan.json": _text(_remote_plan()),
    "remote_times.json": _text(_remote_times()),
    "dump.json": _text(_dump()),
    "results.json": _text(runner_record(runner_setting())),
}


def write(folder: Path, name: str) -> Path:
    """Writes one of the files; the path that a user gives, of a report the folder."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FILES[name](), encoding="utf-8")
    return folder / name.partition("/")[0]
