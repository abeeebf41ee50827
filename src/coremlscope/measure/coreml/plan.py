"""Apple's own plan of a model, on a Mac: MLComputePlan for places, `analytics.mil` for costs and messages.

Written against coremltools' documented interface and the published form of `analytics.mil`; not yet confirmed
on a device. Core ML writes the file when it compiles a program for the first time; a fresh home folder for
its caches (CFFIXED_USER_HOME) makes every time the first and leaves nothing behind.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import msgspec.structs

from coremlscope.base.errors import EngineError, how_to_install
from coremlscope.base.findings import Finding
from coremlscope.base.processes.child import ChildLimits, python_child
from coremlscope.devices import UNITS, ComputeUnit, ComputeUnits, Device, find_device
from coremlscope.measure.coreml.files import readable_by_core_ml
from coremlscope.measure.coreml.limits import CORE_ML_LIMITS
from coremlscope.measure.coreml.service import core_ml_process
from coremlscope.measure.coreml.units import effective_units, unit_findings
from coremlscope.planning.placement.analytics import AnalysedOp, parse_analytics
from coremlscope.planning.placement.backend import BACKENDS_OF, UNIT_OF, Backend
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import (
    CORE_ML_RULE,
    FunctionCost,
    Plan,
    PlannedOp,
    Reason,
    SettingPlan,
    segments,
)
from coremlscope.runtime.engines.host import macos_version, processor_name

_NO_CORE_ML = "try `coremlscope plan MODEL --device NAME`, which needs no Core ML"


class PlansOfModel(msgspec.Struct, frozen=True, kw_only=True):
    """The plans of Core ML for a model.

    Attributes:
        functions: By function, the plan of MLComputePlan for each operation that it places.
        analysed: The operations of `analytics.mil`; empty where Core ML wrote none.
        layers: The same for the layers of neural networks, by stage of a pipeline, else under an empty name.
        asked: Of how many operations and layers, other than constants, MLComputePlan was asked.
        failed: Why functions have no plan.
        requested: The setting that was requested, of which Core ML may have been given another one.
    """

    functions: Mapping[str, Sequence[Mapping[str, Any]]]
    analysed: Sequence[AnalysedOp] = ()
    layers: Mapping[str, Sequence[Mapping[str, Any]]] = msgspec.field(default_factory=dict)
    asked: int = 0
    failed: Mapping[str, str] = msgspec.field(default_factory=dict)
    requested: ComputeUnits = "all"

    @property
    def placed(self) -> int:
        """Of how many operations and layers MLComputePlan gave a place."""
        return sum(map(len, self.functions.values())) + sum(map(len, self.layers.values()))


def ask_core_ml(
    model: Path,
    compute_units: ComputeUnits,
    limits: ChildLimits | None = None,
    command: Sequence[str] | None = None,
    functions: Sequence[str] = (),
    home: Path | None = None,
) -> PlansOfModel:
    """Loads a compute plan in a process of its own.

    Args:
        model: The model.
        compute_units: What the app allows.
        limits: When to give up.
        command: What to run instead of this package's own child, for tests.
        functions: The functions to ask for besides the default one.
        home: The folder in which the model was compiled and loaded before, with Core ML's caches; None to
            compile it in a new one.

    Raises:
        EngineError: The process failed, or went past a limit.
    """
    units = effective_units(compute_units)
    child = command or python_child("coremlscope.measure.coreml.plan_child")
    reported: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="coremlscope-plan-", ignore_cleanup_errors=True) as new:
        folder = home or Path(new)
        path = readable_by_core_ml(model, Path(new))
        with core_ml_process(
            [*child, str(path), units, str(folder), *functions],
            units,
            folder,
            limits or CORE_ML_LIMITS,
            doing="loading the compute plan",
            hint=_NO_CORE_ML,
        ) as messages:
            for message in messages:
                reported.update(message)
        if "functions" not in reported:
            raise EngineError("Core ML gave no plan", _NO_CORE_ML)
        files = sorted(folder.rglob("analytics.mil"))
        texts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
    analysed = [op for text in texts for op in parse_analytics(text)]
    return PlansOfModel(
        functions=reported["functions"],
        analysed=analysed,
        layers=reported.get("layers", {}),
        asked=int(reported.get("asked", 0)),
        failed=reported.get("failed", {}),
        requested=compute_units,
    )


def this_mac() -> Device:
    """The Mac that this runs on.

    Raises:
        UsageError: It has no Apple silicon, or a chip or system that is not known; or it is a virtual
            machine, which has no Neural Engine.
    """
    return find_device(processor_name(), f"macOS {macos_version()}")


def empty_plan(ops: OpTable) -> Plan:
    """The columns of a plan for this Mac, with nothing in them: for a Mac that rules know nothing of."""
    count = len(ops)
    totals = {name: FunctionCost(0.0, 0) for name in dict.fromkeys(ops.function)}
    return Plan(
        device=processor_name().removeprefix("Apple "),
        chip="",
        os=f"macOS {macos_version()}",
        cost_model="this Mac",
        backends=dict(UNIT_OF.items()),
        supported=dict.fromkeys(UNITS, (-1,) * count),
        cost_ms=dict.fromkeys(UNIT_OF, (None,) * count),
        settings=(SettingPlan(compute_units="all", functions=totals, backend=(-1,) * count),),
    )


def plan_findings(answer: PlansOfModel) -> tuple[Finding, ...]:
    """Returns findings on functions and operations that Core ML's answer leaves out."""
    failed = tuple(
        Finding(
            id="no-core-ml-plan",
            severity="info",
            text=f"Core ML gave no plan of the function {name}: {why.rstrip('.')}.",
            hint=f"{how_to_install('mac')}, through which Core ML is asked for functions by name",
        )
        for name, why in answer.failed.items()
    )
    failed += tuple(unit_findings("Core ML's plan is that", answer.requested))
    if answer.placed or answer.analysed:
        return failed + _partly_placed(answer)
    text = "Core ML gave a plan without a place for any operation"
    if answer.asked:
        text = f"Core ML gave no place for any of {answer.asked} operations"
    return (
        Finding(
            id="core-ml-plan-empty",
            severity="warning",
            text=f"{text}, as it does for models with an older deployment target.",
            hint="convert the model with minimum_deployment_target=ct.target.iOS18, or use --device NAME",
        ),
        *failed,
    )


def _partly_placed(answer: PlansOfModel) -> tuple[Finding, ...]:
    """Returns a remark where MLComputePlan gave some operations no place."""
    if answer.analysed or answer.placed >= answer.asked:
        return ()
    text = f"Core ML gave a place for {answer.placed} of {answer.asked} operations; the others are unknown."
    return (Finding(id="core-ml-plan-empty", severity="info", text=text),)


def plan_from_core_ml(ours: Plan, ops: OpTable, setting: ComputeUnits, answer: PlansOfModel) -> Plan:
    """Core ML's answer as a plan with the columns of ours: operations are joined by their first result.

    Args:
        ours: Our plan of the same model, device and setting.
        ops: The op table that it refers to.
        setting: The setting that Core ML was asked for.
        answer: Core ML's plans.
    """
    unnamed = _numbers(ops)
    rows = [_row(ops, ours, column, unnamed) for column in range(len(ops) + len(ours.inserted))]
    known = _join_all(rows, ours, answer)
    reasons = list(dict.fromkeys(reason for op in known for reason in op.reasons))
    costs = {backend: tuple(op.costs.get(backend) for op in known) for backend in ours.backends}
    plan = msgspec.structs.replace(
        ours,
        planner="Core ML",
        cost_model="this Mac",
        notes=(
            "planned by Apple's Core ML on this Mac; this path is not yet confirmed on a device",
            *(finding.text for finding in plan_findings(answer)),
            *ours.notes,
        ),
        supported={unit: tuple(op.supported.get(unit) for op in known) for unit in ours.units},
        cost_ms=costs,
        cost_basis={b: tuple(-1 if ms is None else 0 for ms in column) for b, column in costs.items()},
        bases=("Core ML",),
        reasons=tuple(reasons),
        why=tuple(tuple(map(reasons.index, op.reasons)) for op in known),
        advice=tuple(() for _ in known),
        settings=(_setting(effective_units(setting), rows, known, ours),),
    )
    return msgspec.structs.replace(plan, settings=(_with_switches(plan, ops),))


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a plan: an operation of the file, or one that Core ML inserts."""

    function: str
    type: str
    first: str
    inserted: bool
    layer: str | None = None


class _Joined(msgspec.Struct, frozen=True, kw_only=True):
    """Core ML's plan for one operation; nothing for one that it does not list."""

    backend: Backend | None = None
    weight: float | None = None
    supported: Mapping[ComputeUnit, int] = msgspec.field(default_factory=dict)
    costs: Mapping[str, float] = msgspec.field(default_factory=dict)
    reasons: tuple[Reason, ...] = ()


_NOTHING = _Joined()


def _key(outputs: Sequence[str], unnamed: int | None) -> str:
    """The key of an operation within its function: its first result, or else its number."""
    return outputs[0] if outputs else f"#{unnamed}"


def _numbers(ops: OpTable) -> dict[int, int]:
    """The number of each operation without results among those of its function, by row."""
    counts: dict[str, int] = {}
    found: dict[int, int] = {}
    for row, (names, function) in enumerate(zip(ops.output_names, ops.function, strict=True)):
        if not names:
            found[row] = counts.get(function, 0)
            counts[function] = found[row] + 1
    return found


def _row(ops: OpTable, plan: Plan, column: int, unnamed: Mapping[int, int]) -> _Row:
    if column < len(ops):
        names = ops.output_names[column]
        layer = ops.layer[column] if ops.layer else None
        return _Row(
            function=ops.function[column],
            type=ops.type[column],
            first=_key(names, unnamed.get(column)),
            inserted=False,
            layer=layer,
        )
    op = plan.inserted[column - len(ops)]
    first = op.output_names[0] if op.output_names else ""
    return _Row(function=op.function, type=op.type, first=first, inserted=True)


def _is_told(row: _Row, analysed: Mapping[tuple[str, str], AnalysedOp]) -> bool:
    """Returns True if Core ML lists it: MLComputePlan never has the operations that Core ML inserts."""
    return not row.inserted or (row.function, row.first) in analysed


def _places(
    row: _Row,
    reported: Mapping[tuple[str, str], Mapping[str, Any]],
    layers: Mapping[tuple[str, str], Mapping[str, Any]],
) -> Mapping[str, Any]:
    """The plan of MLComputePlan for an operation, or for the layer that it belongs to; empty for none."""
    if row.inserted:
        return {}
    if row.layer is not None:
        return layers.get((row.function.rpartition("/")[0], row.layer), {})
    return reported.get((row.function, row.first), {})


def _join_all(rows: Sequence[_Row], ours: Plan, answer: PlansOfModel) -> list[_Joined]:
    """Core ML's plan for each column of ours."""
    analysed = {(op.function, name): op for op in answer.analysed for name in op.outputs[:1]}
    listed = [any(c[column] is not None for c in ours.supported.values()) for column in range(len(rows))]
    reported = {
        (name, _key(op["outputs"], op.get("unnamed"))): op
        for name, function in answer.functions.items()
        for op in function
    }
    layers = {(stage, layer["name"]): layer for stage, found in answer.layers.items() for layer in found}
    return [
        _join(row, _places(row, reported, layers), analysed)
        if is_listed and _is_told(row, analysed)
        else _NOTHING
        for row, is_listed in zip(rows, listed, strict=True)
    ]


def _join(
    row: _Row,
    places: Mapping[str, Any],
    analysed: Mapping[tuple[str, str], AnalysedOp],
) -> _Joined:
    analysis = analysed.get((row.function, row.first))
    if analysis is not None and analysis.type != row.type:
        analysis = None
    judged = {unit: _judge(unit, places, analysis) for unit in UNITS}
    return _Joined(
        backend=_chosen(places, analysis),
        weight=places.get("weight"),
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
        Reason(unit=unit, rule=CORE_ML_RULE, text=text, core_ml=text, source="Core ML on this Mac")
        for text in said
    )


def _setting(
    setting: ComputeUnits,
    rows: Sequence[_Row],
    known: Sequence[_Joined],
    ours: Plan,
) -> SettingPlan:
    """The chosen backends, and what they cost together, function by function."""
    backends = list(ours.backends)
    totals: dict[str, float] = dict.fromkeys(ours.settings[0].functions, 0.0)
    for row, op in zip(rows, known, strict=True):
        if op.backend is not None:
            totals[row.function] = totals.get(row.function, 0.0) + op.costs.get(op.backend, 0.0)
    weights = tuple(op.weight for op in known)
    return SettingPlan(
        compute_units=setting,
        functions={name: FunctionCost(total, 0) for name, total in totals.items()},
        backend=tuple(-1 if op.backend is None else backends.index(op.backend) for op in known),
        weight=weights if any(weight is not None for weight in weights) else (),
    )


def _with_switches(plan: Plan, ops: OpTable) -> SettingPlan:
    """The plan's setting, with how often the unit changes along the operations of each function."""
    view = plan.view(ops)
    functions = view.functions()
    counted = {
        name: FunctionCost(cost.total_ms, _switches(functions[name], plan))
        for name, cost in view.setting.functions.items()
    }
    return msgspec.structs.replace(view.setting, functions=counted)


def _switches(ops: tuple[PlannedOp, ...], plan: Plan) -> int:
    units = [plan.backends[backend] for backend, _ in segments(ops) if backend is not None]
    return sum(a != b for a, b in itertools.pairwise(units))
