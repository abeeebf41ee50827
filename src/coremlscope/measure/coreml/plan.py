"""Apple's own plan of a model, on a Mac: MLComputePlan for places, `analytics.mil` for costs and messages.

Written against coremltools' documented interface and the published form of `analytics.mil`; not yet confirmed
on a device. Core ML writes the file when it compiles a program for the first time; a fresh home folder for
its caches (CFFIXED_USER_HOME) makes every time the first and leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coremlscope.devices import UNITS, ComputeUnit, ComputeUnits, Device, find_device
from coremlscope.errors import EngineError
from coremlscope.placement.analytics import AnalysedOp, parse_analytics
from coremlscope.placement.backend import BACKENDS_OF, UNIT_OF, Backend, PlannedCost
from coremlscope.placement.plan import Choice, FunctionPlan, Plan, Planned, Segment
from coremlscope.placement.verdict import Reason, Verdict

__all__ = ["Limits", "ask_core_ml", "plan_from_apple", "this_mac"]

_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Limits:
    """How long loading a plan may take, and how much memory.

    Attributes:
        time_s: Seconds.
        memory_bytes: Bytes of resident memory.
    """

    time_s: float = 900.0
    memory_bytes: int = 12 * 10**9


@dataclass(frozen=True, slots=True)
class Answer:
    """What Core ML says of a model.

    Attributes:
        functions: By function, what MLComputePlan says of each operation.
        analysed: The operations of `analytics.mil`; empty where Core ML wrote none.
    """

    functions: Mapping[str, Sequence[Mapping[str, Any]]]
    analysed: Sequence[AnalysedOp]


def ask_core_ml(
    model: Path,
    compute_units: ComputeUnits,
    limits: Limits | None = None,
    command: Sequence[str] | None = None,
) -> Answer:
    """Loads a compute plan in a process of its own.

    Args:
        model: The model.
        compute_units: What the app allows.
        limits: When to give up.
        command: What to run instead of this package's own child, for tests.

    Raises:
        EngineError: The process failed, or went past a limit.
    """
    child = command or (sys.executable, "-m", "coremlscope.measure.coreml.plan_child")
    with tempfile.TemporaryDirectory(prefix="coremlscope-plan-") as home:
        output = Path(home) / "plan.json"
        environment = {**os.environ, "CFFIXED_USER_HOME": home}
        _run([*child, str(model), compute_units, str(output)], environment, limits or Limits())
        try:
            functions = json.loads(output.read_text(encoding="utf-8"))["functions"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EngineError("Core ML gave no plan", "try `coremlscope plan MODEL --device NAME`") from error
        files = sorted(Path(home).rglob("analytics.mil"))
        texts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
    return Answer(functions, [op for text in texts for op in parse_analytics(text)])


def _run(command: Sequence[str], environment: Mapping[str, str], limits: Limits) -> None:
    with tempfile.TemporaryFile() as errors:
        start = time.monotonic()
        process = subprocess.Popen(command, env=dict(environment), stdout=subprocess.DEVNULL, stderr=errors)
        try:
            while process.poll() is None:
                _check(process.pid, time.monotonic() - start, limits)
                time.sleep(_POLL_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if process.returncode:
            errors.seek(0)
            lines = errors.read().decode("utf-8", "replace").strip().splitlines()
            said = lines[-1] if lines else f"exit code {process.returncode}"
            raise EngineError(
                f"loading the compute plan failed: {said}",
                "try `coremlscope plan MODEL --device NAME`, which needs no Core ML",
            )


def _check(pid: int, passed_s: float, limits: Limits) -> None:
    hint = "raise the limit, or use `coremlscope plan MODEL --device NAME`, which needs no Core ML"
    if passed_s > limits.time_s:
        raise EngineError(f"loading the compute plan took more than {limits.time_s:.0f} s", hint)
    if _resident_bytes(pid) > limits.memory_bytes:
        raise EngineError(
            f"loading the compute plan took more than {limits.memory_bytes / 1e9:.3g} GB of memory", hint
        )


def _resident_bytes(pid: int) -> int:
    """Memory of a process; 0 where the system does not say. macOS ignores RLIMIT_AS, so it is looked up."""
    try:
        command = ["ps", "-o", "rss=", "-p", str(pid)]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        return int(told.stdout.strip() or 0) * 1024
    except (OSError, ValueError):
        return 0


def this_mac() -> Device:
    """The Mac that this runs on.

    Raises:
        UsageError: It has no Apple silicon, or a chip or system that is not known.
    """
    command = ["sysctl", "-n", "machdep.cpu.brand_string"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    return find_device(told.stdout.strip(), f"macOS {platform.mac_ver()[0]}")


def plan_from_apple(ours: Plan, answer: Answer) -> Plan:
    """Apple's answer as a plan, with the ids of ours: operations are joined by the names of their results.

    Args:
        ours: Our plan of the same model, device and setting.
        answer: What Core ML says.
    """
    setting = ours.settings[0]
    analysed = {(op.function, name): op for op in answer.analysed for name in op.outputs[:1]}
    functions = {}
    for name, function in ours.functions.items():
        told = {op["outputs"][0]: op for op in answer.functions.get(name, ()) if op["outputs"]}
        ops = tuple(_apple_op(name, op, told, analysed, setting) for op in function.ops)
        segments = _segments(ops, setting)
        total = sum(segment.planned_ms for segment in segments)
        functions[name] = FunctionPlan(name, ops, {setting: segments}, {setting: total})
    notes = (
        "planned by Apple's Core ML on this Mac; this path is not yet confirmed on a device",
        *ours.notes,
    )
    return Plan(ours.device, (setting,), functions, "this Mac", notes)


def _apple_op(
    function: str,
    op: Planned,
    told: Mapping[str, Mapping[str, Any]],
    analysed: Mapping[tuple[str, str], AnalysedOp],
    setting: ComputeUnits,
) -> Planned:
    first = op.outputs[0] if op.outputs else ""
    places = told.get(first, {}) if not op.inserted else {}
    analysis = analysed.get((function, first))
    if analysis is not None and analysis.type != op.type:
        analysis = None
    verdicts = {unit: _verdict(unit, places, analysis) for unit in UNITS}
    costs: dict[Backend, PlannedCost] = {}
    if analysis is not None:
        costs = {backend: PlannedCost(ms, "Apple") for backend, ms in analysis.estimated_ms.items()}
    choice = Choice(_chosen(places, analysis), float(places.get("weight", 0.0)), {})
    return Planned(
        *(op.id, op.name, op.type, op.outputs, op.types, op.inserted, op.depth),
        costs=costs,
        verdicts=verdicts,
        choices={setting: choice},
    )


def _chosen(places: Mapping[str, Any], analysis: AnalysedOp | None) -> Backend | None:
    preferred: ComputeUnit | None = places.get("preferred")
    selected = analysis.selected if analysis else None
    if selected is not None and preferred in (None, UNIT_OF[selected]):
        return selected
    return BACKENDS_OF[preferred][-1] if preferred else None


def _verdict(unit: ComputeUnit, places: Mapping[str, Any], analysis: AnalysedOp | None) -> Verdict:
    if places:
        if unit in places["supported"]:
            return Verdict(unit, "yes")
    elif analysis is None:
        return Verdict(unit, "unknown")
    elif any(backend in analysis.estimated_ms for backend in BACKENDS_OF[unit]):
        return Verdict(unit, "yes")
    messages = analysis.messages if analysis else {}
    said = [messages[backend] for backend in BACKENDS_OF[unit] if backend in messages]
    reasons = tuple(
        Reason(unit, "core-ml", text, "", "measured", "Core ML on this Mac", "rejects", text) for text in said
    )
    return Verdict(unit, "no", reasons)


def _segments(ops: Sequence[Planned], setting: ComputeUnits) -> tuple[Segment, ...]:
    segments: list[Segment] = []
    for op in ops:
        backend = op.choices[setting].backend
        spent = op.costs[backend].ms if backend is not None and backend in op.costs else 0.0
        if segments and segments[-1].backend == backend:
            last = segments[-1]
            segments[-1] = Segment(backend, (*last.ops, op.id), last.planned_ms + spent)
        else:
            segments.append(Segment(backend, (op.id,), spent))
    return tuple(segments)
