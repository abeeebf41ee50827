"""Apple's own plan of a model, on a Mac: MLComputePlan for places, `analytics.mil` for costs and messages.

Written against coremltools' documented interface and the published form of `analytics.mil`; not yet confirmed
on a device. Core ML writes the file when it compiles a program for the first time; a fresh home folder for
its caches (CFFIXED_USER_HOME) makes every time the first and leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import msgspec.structs

from coremlscope.base.errors import EngineError, how_to_install
from coremlscope.base.findings import Finding
from coremlscope.base.processes.child import ChildLimits, python_child
from coremlscope.base.scratch import scratch_folder
from coremlscope.devices import UNITS, ComputeUnit, ComputeUnits, Device, find_device
from coremlscope.measure.contract import Progress
from coremlscope.measure.coreml.files import readable_by_core_ml
from coremlscope.measure.coreml.limits import CORE_ML_LIMITS
from coremlscope.measure.coreml.service import core_ml_process
from coremlscope.measure.coreml.units import effective_units, unit_findings
from coremlscope.planning.placement.analytics import AnalysedOp, parse_analytics
from coremlscope.planning.placement.backend import BACKENDS_OF, UNIT_OF, Backend
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import (
    CORE_ML_RULE,
    Choice,
    FunctionCost,
    Plan,
    PlannedOp,
    PlannedOps,
    Reason,
    SettingPlan,
    Support,
    find_segments,
)
from coremlscope.results.plan_encoding import share_costs
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
    progress: Progress | None = None,
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
        progress: Called with the phase when it begins.

    Raises:
        EngineError: The process failed, or went past a limit.
    """
    units = effective_units(compute_units)
    child = command or python_child("coremlscope.measure.coreml.plan_child", "send_plan")
    reported: dict[str, Any] = {}
    with scratch_folder() as new:
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
                if progress is not None and "begins" in message:
                    progress(f"{units}: {message['begins']}", 0, 1)
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
    """A plan for this Mac with nothing in it: for a Mac that rules know nothing of."""
    totals = {name: FunctionCost(0.0, 0) for name in dict.fromkeys(ops.function)}
    return Plan(
        device=processor_name().removeprefix("Apple "),
        chip="",
        os=f"macOS {macos_version()}",
        cost_model="this Mac",
        backends=dict(UNIT_OF.items()),
        ops=PlannedOps(PlannedOp.of(row, {"all": Choice()}) for row in ops),
        settings=(SettingPlan(compute_units="all", functions=totals),),
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


def plan_from_core_ml(ours: Plan, table: OpTable, setting: ComputeUnits, answer: PlansOfModel) -> Plan:
    """Core ML's answer as a plan of the operations of ours, joined by their first result.

    Args:
        ours: Our plan of the same model, device and setting.
        table: The op table of its profile.
        setting: The setting that Core ML was asked for.
        answer: Core ML's plans.
    """
    asked = effective_units(setting)
    ops = _with_weights(list(_join_all(ours, table, asked, answer)), asked)
    costs = dict.fromkeys(ours.settings[0].functions, 0.0)
    for op in ops:
        costs[op.function] = costs.get(op.function, 0.0) + (op.choices[asked].planned_ms or 0.0)
    functions = {name: FunctionCost(ms, _switches(ops, name, asked)) for name, ms in costs.items()}
    return msgspec.structs.replace(
        ours,
        planner="Core ML",
        cost_model="this Mac",
        notes=(
            "planned by Apple's Core ML on this Mac; this path is not yet confirmed on a device",
            *(finding.text for finding in plan_findings(answer)),
            *ours.notes,
        ),
        ops=PlannedOps(ops),
        settings=(SettingPlan(compute_units=asked, functions=functions),),
    )


def _with_weights(ops: Sequence[PlannedOp], setting: ComputeUnits) -> list[PlannedOp]:
    """The operations with shares that follow from their costs, where Core ML gave none."""
    choices = [op.choices[setting] for op in ops]
    if any(choice.weight for choice in choices):
        return list(ops)
    shares = share_costs([op.graph for op in ops], [choice.planned_ms for choice in choices])
    return [
        msgspec.structs.replace(op, choices={setting: msgspec.structs.replace(choice, weight=share)})
        for op, choice, share in zip(ops, choices, shares, strict=True)
    ]


def _switches(ops: Sequence[PlannedOp], function: str, setting: ComputeUnits) -> int:
    """How often the unit changes along the operations of a function."""
    walk = ((op.id, op.choices[setting].unit) for op in ops if op.function == function)
    return max(len(find_segments(walk)) - 1, 0)


def _key(outputs: Sequence[str], unnamed: int | None) -> str:
    """The key of an operation within its function: its first result, or else its number."""
    return outputs[0] if outputs else f"#{unnamed}"


def _numbers(ops: OpTable) -> dict[str, int]:
    """The number of each operation without results among those of its function, by id."""
    counts: dict[str, int] = {}
    numbers: dict[str, int] = {}
    for id_, names, function in zip(ops.id, ops.output_names, ops.function, strict=True):
        if not names:
            numbers[id_] = counts.get(function, 0)
            counts[function] = numbers[id_] + 1
    return numbers


def _join_all(ours: Plan, table: OpTable, setting: ComputeUnits, answer: PlansOfModel) -> Iterator[PlannedOp]:
    """Yields what Core ML says of our operations; MLComputePlan has none of those that it inserts."""
    analysed = {(op.function, name): op for op in answer.analysed for name in op.outputs[:1]}
    reported = {
        (name, _key(op["outputs"], op.get("unnamed"))): op
        for name, function in answer.functions.items()
        for op in function
    }
    layers = {(stage, layer["name"]): layer for stage, told in answer.layers.items() for layer in told}
    layer_of, unnamed = dict(zip(table.id, table.layer, strict=False)), _numbers(table)
    for op in ours.ops:
        key = op.function, _key(op.output_names, unnamed.get(op.id))
        analysis, layer = analysed.get(key), layer_of.get(op.id)
        if op.inserted and analysis is None:
            continue
        places: Mapping[str, Any] = {} if op.inserted else reported.get(key, {})
        if layer is not None:
            places = layers.get((op.function.rpartition("/")[0], layer), {})
        yield _join(op, setting, places, analysis)


def _join(
    op: PlannedOp, setting: ComputeUnits, places: Mapping[str, Any], analysis: AnalysedOp | None
) -> PlannedOp:
    if analysis is not None and analysis.type != op.type:
        analysis = None
    judged = {unit: _judge(unit, places, analysis) for unit in UNITS}
    backend = _chosen(places, analysis)
    costs = {} if analysis is None else {str(b): ms for b, ms in analysis.estimated_ms.items()}
    choice = Choice(
        backend=backend,
        unit=None if backend is None else UNIT_OF[backend],
        planned_ms=None if backend is None else costs.get(backend),
        weight=places.get("weight") or 0.0,
    )
    return msgspec.structs.replace(
        op,
        supported={unit: supported for unit, (supported, _) in judged.items()},
        cost_ms=costs,
        cost_basis=dict.fromkeys(costs, "Core ML"),
        why=tuple(reason for _, reasons in judged.values() for reason in reasons),
        advice=(),
        doubts=(),
        choices={setting: choice},
    )


def _chosen(places: Mapping[str, Any], analysis: AnalysedOp | None) -> Backend | None:
    preferred: ComputeUnit | None = places.get("preferred")
    selected = analysis.selected if analysis else None
    if selected is not None and preferred in (None, UNIT_OF[selected]):
        return selected
    return BACKENDS_OF[preferred][-1] if preferred else None


def _judge(
    unit: ComputeUnit, places: Mapping[str, Any], analysis: AnalysedOp | None
) -> tuple[Support, tuple[Reason, ...]]:
    """Whether a unit runs it, and why not."""
    if places:
        if unit in places["supported"]:
            return "yes", ()
    elif analysis is None:
        return "unknown", ()
    elif any(backend in analysis.estimated_ms for backend in BACKENDS_OF[unit]):
        return "yes", ()
    messages = analysis.messages if analysis else {}
    said = [messages[backend] for backend in BACKENDS_OF[unit] if backend in messages]
    return "no", tuple(
        Reason(unit=unit, rule=CORE_ML_RULE, text=text, core_ml=text, source="Core ML on this Mac")
        for text in said
    )
