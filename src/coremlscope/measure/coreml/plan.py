"""Apple's own plan of a model, on a Mac: MLComputePlan for places, `analytics.mil` for costs and messages.

Written against coremltools' documented interface and the published form of `analytics.mil`; not yet confirmed
on a device. Core ML writes the file when it compiles a program for the first time; a fresh home folder for
its caches (CFFIXED_USER_HOME) makes every time the first and leaves nothing behind.
"""

from __future__ import annotations

import dataclasses
import itertools
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
from coremlscope.placement.backend import BACKENDS_OF, UNIT_OF, Backend
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import FunctionCost, Plan, PlannedOp, Reason, SettingPlan, segments

__all__ = ["Limits", "ask_core_ml", "plan_from_core_ml", "this_mac"]

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


def plan_from_core_ml(ours: Plan, ops: OpTable, setting: ComputeUnits, answer: Answer) -> Plan:
    """Core ML's answer as a plan with the columns of ours: operations are joined by their first result.

    Args:
        ours: Our plan of the same model, device and setting.
        ops: The op table that it refers to.
        setting: The setting that Core ML was asked for.
        answer: What Core ML says.
    """
    analysed = {(op.function, name): op for op in answer.analysed for name in op.outputs[:1]}
    rows = [_row(ops, ours, column) for column in range(len(ops) + len(ours.inserted))]
    listed = [any(c[column] is not None for c in ours.supported.values()) for column in range(len(rows))]
    told = {
        (name, op["outputs"][0]): op
        for name, function in answer.functions.items()
        for op in function
        if op["outputs"]
    }
    known = [
        _join(row, told, analysed) if is_listed else None for row, is_listed in zip(rows, listed, strict=True)
    ]
    backends = list(ours.backends)
    chosen = [None if op is None else op.backend for op in known]
    reasons = list(dict.fromkeys(reason for op in known if op is not None for reason in op.reasons))
    costs: dict[str, tuple[float | None, ...]] = {
        backend: tuple(None if op is None else op.costs.get(backend) for op in known) for backend in backends
    }
    plan = dataclasses.replace(
        ours,
        planner="Core ML",
        cost_model="this Mac",
        notes=(
            "planned by Apple's Core ML on this Mac; this path is not yet confirmed on a device",
            *ours.notes,
        ),
        supported={
            unit: tuple(None if op is None else op.supported[unit] for op in known) for unit in ours.units
        },
        cost_ms=costs,
        cost_basis={b: tuple(-1 if ms is None else 0 for ms in column) for b, column in costs.items()},
        bases=("Core ML",),
        reasons=tuple(reasons),
        why=tuple(() if op is None else tuple(map(reasons.index, op.reasons)) for op in known),
        advice=tuple(() for _ in known),
        settings=(_setting(setting, rows, chosen, known, ours),),
    )
    return dataclasses.replace(plan, settings=(_with_switches(plan, ops),))


@dataclass(frozen=True, slots=True)
class _Row:
    """A column of a plan: an operation of the file, or one that Core ML inserts."""

    function: str
    type: str
    first: str
    inserted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Joined:
    """What Core ML says of one operation."""

    backend: Backend | None
    weight: float
    supported: Mapping[ComputeUnit, int]
    costs: Mapping[str, float]
    reasons: tuple[Reason, ...]


def _row(ops: OpTable, plan: Plan, column: int) -> _Row:
    if column < len(ops):
        names = ops.output_names[column]
        return _Row(ops.function[column], ops.type[column], names[0] if names else "", False)
    op = plan.inserted[column - len(ops)]
    return _Row(op.function, op.type, op.output_names[0] if op.output_names else "", True)


def _join(
    row: _Row,
    told: Mapping[tuple[str, str], Mapping[str, Any]],
    analysed: Mapping[tuple[str, str], AnalysedOp],
) -> _Joined:
    key = row.function, row.first
    places = {} if row.inserted else told.get(key, {})
    analysis = analysed.get(key)
    if analysis is not None and analysis.type != row.type:
        analysis = None
    judged = {unit: _judge(unit, places, analysis) for unit in UNITS}
    return _Joined(
        backend=_chosen(places, analysis),
        weight=float(places.get("weight", 0.0)),
        supported={unit: supported for unit, (supported, _) in judged.items()},
        costs={} if analysis is None else {str(b): ms for b, ms in analysis.estimated_ms.items()},
        reasons=tuple(reason for _, reasons in judged.values() for reason in reasons),
    )


def _chosen(places: Mapping[str, Any], analysis: AnalysedOp | None) -> Backend | None:
    preferred: ComputeUnit | None = places.get("preferred")
    selected = analysis.selected if analysis else None
    if selected is not None and preferred in (None, UNIT_OF[selected]):
        return selected
    return BACKENDS_OF[preferred][-1] if preferred else None


def _judge(
    unit: ComputeUnit, places: Mapping[str, Any], analysis: AnalysedOp | None
) -> tuple[int, tuple[Reason, ...]]:
    """1, 0 or -1 as in `Plan.supported`, and why not."""
    if places:
        if unit in places["supported"]:
            return 1, ()
    elif analysis is None:
        return -1, ()
    elif any(backend in analysis.estimated_ms for backend in BACKENDS_OF[unit]):
        return 1, ()
    messages = analysis.messages if analysis else {}
    said = [messages[backend] for backend in BACKENDS_OF[unit] if backend in messages]
    return 0, tuple(
        Reason(unit=unit, rule="core-ml", text=text, core_ml=text, source="Core ML on this Mac")
        for text in said
    )


def _setting(
    setting: ComputeUnits,
    rows: Sequence[_Row],
    chosen: Sequence[Backend | None],
    known: Sequence[_Joined | None],
    ours: Plan,
) -> SettingPlan:
    """The chosen backends, and what they cost together, function by function."""
    backends = list(ours.backends)
    totals: dict[str, float] = dict.fromkeys(ours.settings[0].functions, 0.0)
    for row, backend, op in zip(rows, chosen, known, strict=True):
        if op is not None and backend is not None:
            totals[row.function] = totals.get(row.function, 0.0) + op.costs.get(backend, 0.0)
    return SettingPlan(
        compute_units=setting,
        functions={name: FunctionCost(total, 0) for name, total in totals.items()},
        backend=tuple(-1 if backend is None else backends.index(backend) for backend in chosen),
        weight=tuple(None if op is None else op.weight for op in known),
    )


def _with_switches(plan: Plan, ops: OpTable) -> SettingPlan:
    """The plan's setting, with how often the unit changes along the operations of each function."""
    view = plan.view(ops)
    functions = view.functions()
    counted = {
        name: FunctionCost(cost.total_ms, _switches(functions[name], plan))
        for name, cost in view.setting.functions.items()
    }
    return dataclasses.replace(view.setting, functions=counted)


def _switches(ops: tuple[PlannedOp, ...], plan: Plan) -> int:
    units = [plan.backends[backend] for backend, _ in segments(ops) if backend is not None]
    return sum(a != b for a, b in itertools.pairwise(units))
