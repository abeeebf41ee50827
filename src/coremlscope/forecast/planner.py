"""The planner: binds, checks, prices and places a model once, and derives plans and estimates from that."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from coremlscope.advice import FunctionView, Remark, find_remarks
from coremlscope.cost.latency.core_ai import CROSSING_S, adapt
from coremlscope.cost.latency.evidence import find_nearest
from coremlscope.cost.latency.kernels import Kernel as FusedKernel
from coremlscope.cost.latency.kernels import fuse
from coremlscope.cost.latency.loads import estimate_loads
from coremlscope.cost.latency.model import estimate
from coremlscope.cost.latency.own import NOTHING_OWN, Own
from coremlscope.cost.latency.recorded import record
from coremlscope.cost.latency.structure import structure_of
from coremlscope.cost.latency.table import KernelTable
from coremlscope.cost.planned.prices import PlannedCosts, price
from coremlscope.cost.planned.rates import RateTable, rate_table
from coremlscope.describe.left_out import find_left_out
from coremlscope.devices import CPU, NEURAL_ENGINE, ComputeUnit, ComputeUnits, Device, OSRelease, all_chips
from coremlscope.devices.release import NEWEST, macos
from coremlscope.errors import UnsupportedModelError
from coremlscope.execution.binding import bind_model, choose_function
from coremlscope.execution.wiring import shaped_stages, stage_key
from coremlscope.findings import Finding
from coremlscope.forecast.assumptions import shape_notes, system_findings, system_notes, weight_notes
from coremlscope.forecast.columns import tabulate
from coremlscope.forecast.defects import describe_found_rules, find_placed_defects
from coremlscope.forecast.memory import MemoryModel, find_shortages
from coremlscope.forecast.model_findings import Estimating, Kernels, Tally, describe_remark, weigh_remarks
from coremlscope.forecast.tabular import as_bound, tabular_kernels
from coremlscope.forecast.unplanned import (
    is_unplanned,
    nothing_known,
    unestimated_stages,
    unplanned_notes,
    unplanned_stages,
)
from coremlscope.forecast.what_if import Estimator, describe_what_ifs
from coremlscope.ir import (
    ArrayFeature,
    DType,
    Feature,
    FunctionDescription,
    ImageFeature,
    Model,
    Program,
)
from coremlscope.ops.bind import BoundFunction
from coremlscope.ops.control import trip_limit
from coremlscope.ops.view import BoundGraph, OpView
from coremlscope.placement.core_ai import PREFERENCES, crossings, place_by_preference
from coremlscope.placement.coreml_view import (
    CoreMLGraph,
    Node,
    program_facts,
    view_function,
    view_operations,
)
from coremlscope.placement.eligibility import Verdicts, find_failures, judge
from coremlscope.placement.half_precision import in_half_precision
from coremlscope.placement.hypotheses import Planning, Replanned, weigh_reasons
from coremlscope.placement.place import PlacedFunction, place, reached
from coremlscope.placement.rules import GRAPH_RULES, RULES
from coremlscope.results.calibration import KernelColumns
from coremlscope.results.estimate import Estimate, Kernel, LoadEstimate
from coremlscope.results.generation import TokenRate
from coremlscope.results.left_out import LeftOut
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import Plan, WhatIf
from coremlscope.units import format_duration

__all__ = [
    "Forecast",
    "find_known_failures",
    "forecast",
    "place_functions",
    "plan_functions",
    "record_prediction",
]

_PIXEL_BYTES = 4
#: The system whose plans list most.
_NEWEST = macos(NEWEST)
#: Devices and settings for which the step of a loop is listed.
_LISTED = 3
#: Settings that all units are compared with, and how much faster they have to be for a note.
_ACCELERATED: tuple[ComputeUnits, ...] = ("cpu_and_ne", "cpu_and_gpu")
_CLEARLY = 1.1
_NETWORK = (
    "Core ML reports where the layers of a neural network run, but not their costs: these are the costs of"
    " the same operations of an fp16 program"
)
_CORE_AI = (
    "how Core AI divides programs, and its costs, are not published: each operation goes to the first unit of"
    " the preference that is known to run it",
    "a preferred unit forbids no other: what it does not take runs on the GPU, under cpu_and_ne as well, and"
    " only cpu_only keeps a program on one unit",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Plans and estimates of one model.

    Attributes:
        plans: A plan for each device.
        kernels: Operations that devices are assumed to run as one.
        estimates: An estimate for each device and setting, in that order; empty if the model has loops whose
            number of iterations is not known.
        findings: What the model does at a cost that another form would not have, where that saves anything on
            one of the devices; and why there are no estimates.
        rates: Tokens per second of a language model; see `estimate_generation`.
    """

    plans: tuple[Plan, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    estimates: tuple[Estimate, ...] = ()
    findings: tuple[Finding, ...] = ()
    rates: tuple[TokenRate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Function:
    """A bound function, of the model or of a stage of a pipeline.

    Attributes:
        key: Its name in plans: `main`, `model1/main`.
        is_main: Whether estimates include it: the requested function of the model, the default one of a
            stage.
        graphs: The function in the form that Core ML plans, by system.
        kernels: The kernels of the function alone, once they were needed.
    """

    key: str
    model: Model
    bound: BoundFunction
    description: FunctionDescription
    is_main: bool
    graphs: dict[str, CoreMLGraph] = field(default_factory=dict)
    kernels: list[_Kernels] = field(default_factory=list)


def forecast(
    model: Model,
    ops: OpTable,
    devices: Sequence[Device],
    settings: Sequence[ComputeUnits] = ("all",),
    *,
    function: str | None = None,
    every_function: bool = False,
    shapes: Mapping[str, Sequence[int]] | None = None,
    with_estimates: bool = True,
    with_advice: bool = True,
    with_evidence: bool = False,
    own: Own = NOTHING_OWN,
) -> Forecast:
    """Plans a model, and estimates the latency of a prediction, for every device and setting.

    Args:
        model: The model. Weights may be absent.
        ops: Its operations; plans and estimates refer to the rows.
        devices: The chips and systems.
        settings: The settings of compute units; the first one is the requested one.
        function: The function; None for the default one.
        every_function: Plans the other functions as well.
        shapes: Shapes of flexible inputs of the function, instead of the defaults.
        with_estimates: Whether to estimate latencies.
        with_advice: Whether plans include advice that would make operations faster on their units, and what
            each reason costs.
        with_evidence: Whether estimates include the published latencies that are nearest to them.
        own: A user's own measurements, which refine estimates.

    Raises:
        UnsupportedModelError: Estimates are requested, and the kind of model cannot be estimated.
        InputError: A shape is not allowed.
        UsageError: The model has no such function.
    """
    functions = list(_functions(model, function, every_function, shapes))
    counted = [one for one in functions if one.is_main]
    tabular = tabular_kernels(model, shapes) if with_estimates else []
    _require_some(model, counted or tabular or not with_estimates)
    unplanned = unplanned_notes(model, shapes)
    shaped = () if with_estimates or not functions else shape_notes(model, function, shapes)
    about = (*weight_notes(model), *shaped, *_remarks(functions))
    placed: dict[object, dict[str, _Placed]] = {}
    plans: list[Plan] = []
    estimates: list[Estimate] = []
    kernels = _Kernels(counted, ops, own, tabular) if with_estimates or (with_advice and counted) else None
    unknown = find_left_out(one.bound.function for one in counted)
    left_out = (*unestimated_stages(model), *filter(None, [unknown.text]))
    memory = MemoryModel.of(model, ops, function)
    remarks = _find_remarks(counted) if with_advice else {}
    is_core_ai = _is_core_ai(model)
    tally = Tally({} if is_core_ai else remarks)
    for device in devices:
        key = _planning_key(device)
        if key not in placed:
            placed[key] = {f.key: _place(f, device, settings, with_advice) for f in functions}
        found = {name: one.function for name, one in placed[key].items()}
        chosen = (note for one in placed[key].values() for note in one.notes)
        system = system_notes(model, device.os, is_planned=bool(functions))
        notes = (*unplanned, *system, *about, *chosen, *_crossing_notes(functions, found, settings[0]))
        # Core AI's costs are not published: a plan of its programs has none.
        rates = None if is_core_ai else rate_table(device)
        costs, transitions = (rates.name, rates.transition_costs) if rates else ("", None)
        plan = tabulate(ops, device, found, settings, costs, notes, transitions)
        plan = replace(plan, left_out=unknown.text, left_out_share=unknown.share)
        main = {one.key: found[one.key] for one in counted}
        estimators = {} if kernels is None else kernels.estimators(device, settings, main, left_out)
        usable = {} if kernels is None or kernels.loops else estimators
        plans.append(_with_what_ifs(plan, ops, functions, placed[key], usable, device))
        if tally.remarks:
            _weigh(tally, device, settings, {name: placed[key][name] for name in main}, kernels, left_out)
        if with_estimates:
            planned = [
                replace(
                    one({}) if main else as_bound(one({})),
                    memory=memory.on(device, _units(setting, main.values())),
                    left_out_share=unknown.share,
                )
                for setting, one in estimators.items()
            ]
            if is_core_ai:
                planned = [_as_core_ai(one, main.values()) for one in planned]
            elif kernels and not kernels.loops and main:
                planned = _with_faster_setting(planned, kernels, device, [placed[key][name] for name in main])
            estimates += map(kernels.with_evidence, planned) if kernels and with_evidence else planned
    findings = (*_failures(memory, devices, plans, ops), *tally.findings(), *_warn(remarks, settings))
    if kernels is None or not with_estimates:
        return Forecast(plans=tuple(plans), findings=findings)
    findings = (
        *_about_estimates(model, devices, kernels, estimates),
        *_too_much_left_out(unknown),
        *findings,
    )
    rows, known = ((), []) if kernels.loops or unknown.is_too_much else (kernels.rows, estimates)
    return Forecast(plans=tuple(plans), kernels=rows, estimates=tuple(known), findings=findings)


def _failures(
    memory: MemoryModel, devices: Sequence[Device], plans: Sequence[Plan], ops: OpTable
) -> Iterator[Finding]:
    """Yields on which devices a prediction lacks memory, ends the app or returns wrong values."""
    yield from find_shortages(memory, devices)
    yield from find_placed_defects(plans, ops)


def _about_estimates(
    model: Model, devices: Sequence[Device], kernels: _Kernels, estimates: Sequence[Estimate]
) -> Iterator[Finding]:
    """Yields why there are no estimates, and on which systems the model does not load."""
    yield from _unknown_loops(kernels, estimates)
    yield from system_findings(model, [device.os for device in devices])


def _require_some(model: Model, known: object) -> None:
    if not known:
        raise nothing_known(model)


def _too_much_left_out(unknown: LeftOut) -> Iterator[Finding]:
    """Yields why there is no estimate of a model of which too little is known."""
    if unknown.is_too_much:
        yield Finding(
            id="left-out",
            severity="warning",
            text=f"No latency is estimated, because nothing is known of {unknown.text}.",
            hint="`coremlscope inspect` says why these operations are unknown",
        )


def _with_faster_setting(
    found: Sequence[Estimate], kernels: _Kernels, device: Device, placed: Sequence[_Placed]
) -> list[Estimate]:
    """Returns the estimates of a device, with a note where all units are slower than fewer of them."""
    known = {one.compute_units: one for one in found}
    if "all" not in known:
        return list(found)
    missing = tuple(setting for setting in _ACCELERATED if setting not in known)
    main = {str(number): one.placed_under(missing) for number, one in enumerate(placed)}
    for setting, one in kernels.estimators(device, missing, main, ()).items():
        known[setting] = one({})
    fastest = min((known[setting] for setting in _ACCELERATED), key=lambda one: one.latency.value)
    slow = known["all"]
    if slow.latency.value < _CLEARLY * fastest.latency.value or set(fastest.placement) == {CPU}:
        return list(found)
    note = (
        f"{fastest.compute_units} is estimated at {format_duration(fastest.latency.value)}: Core ML divides a"
        " model by costs of its own, which differ from these estimates"
    )
    return [replace(one, notes=(*one.notes, note)) if one is slow else one for one in found]


def place_functions(
    model: Model,
    device: Device,
    settings: Sequence[ComputeUnits] = ("all",),
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    with_advice: bool = True,
    rates: RateTable | None = None,
) -> dict[str, PlacedFunction]:
    """Places every function of a model, or of all stages of a pipeline, on the units of one device.

    Args:
        model: The model.
        device: The chip and system.
        settings: The settings of compute units.
        shapes: Shapes of flexible inputs.
        with_advice: Whether to look for advice, too.
        rates: The rates behind planned costs; by default those of the device.

    Raises:
        InputError: A shape is not allowed.
    """
    functions = _functions(model, None, True, shapes)
    return {f.key: _place(f, device, settings, with_advice, rates).function for f in functions}


def find_known_failures(model: Model, systems: Sequence[OSRelease] = ()) -> Iterator[Finding]:
    """Yields what is known to fail, end the app or return wrong values in a model on some chip and system.

    Args:
        model: The model.
        systems: Only what is known of one of these; empty for all.
    """
    for one in _functions(model, None, True, None):
        if not _is_core_ai(one.model):
            graph = view_function(one.bound, _NEWEST)
            facts = program_facts(one.model, one.bound, one.description)
            yield from describe_found_rules(find_failures(graph, facts, systems))


def record_prediction(
    model: Model,
    device: Device,
    setting: ComputeUnits,
    *,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> KernelColumns:
    """Returns the numbers from which the estimate of a prediction is computed.

    Raises:
        UnsupportedModelError: The model cannot be estimated as a whole: it has parts that nothing is known
            of, or loops whose number of iterations is not known.
        InputError: A shape is not allowed.
        UsageError: The model has no such function.
    """
    counted = [one for one in _functions(model, function, False, shapes) if one.is_main]
    left_out = (*unplanned_stages(model), find_left_out(one.bound.function for one in counted).text)
    if any(left_out) or not counted:
        why = ", ".join(filter(None, left_out)) or "there are no operations"
        raise UnsupportedModelError(
            f"a prediction cannot be estimated as a whole: {why}",
            "only models that are estimated completely can calibrate estimates",
        )
    kernels = _Kernels(counted, OpTable(), NOTHING_OWN)
    if kernels.loops:
        raise UnsupportedModelError(
            "the number of iterations of a loop depends on values of a prediction",
            "only models that are estimated completely can calibrate estimates",
        )
    placed = [_place(one, device, (setting,), with_advice=False).function for one in counted]
    return kernels.record(setting, placed)


def plan_functions(
    model: Model,
    device: Device,
    setting: ComputeUnits,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> tuple[dict[str, Planning], dict[str, Estimator]]:
    """Plans every function of a model for one device and setting, for questions about single operations.

    Returns:
        The plans by function, and what estimates a prediction: of the model, and of each other function.

    Raises:
        InputError: A shape is not allowed.
    """
    functions = list(_functions(model, None, True, shapes))
    planned = {f.key: _place(f, device, (setting,), with_advice=False).planning for f in functions}
    counted = [one for one in functions if one.is_main]
    estimators: dict[str, Estimator] = {}
    for one in functions:
        if not one.is_main:
            alone = _estimators_alone(one, device, (setting,), planned[one.key].placed)
            estimators |= {one.key: alone[setting]} if alone else {}
    kernels = _Kernels(counted, OpTable(), NOTHING_OWN) if counted else None
    if kernels is not None and not kernels.loops:
        main = {one.key: planned[one.key].placed for one in counted}
        whole = kernels.estimators(device, (setting,), main, unestimated_stages(model))
        estimators |= dict.fromkeys(main, whole[setting])
    return planned, estimators


def _functions(
    model: Model, function: str | None, every: bool, shapes: Mapping[str, Sequence[int]] | None
) -> Iterator[_Function]:
    """Returns the functions to plan; for a pipeline the default one of each stage, or all of them."""
    is_single = isinstance(model.content, Program)
    for stage, asked in shaped_stages(model, shapes):
        if is_unplanned(stage):
            continue
        main = choose_function(stage.model, function if is_single else None).name
        names = list(stage.model.description.functions) if every else [main]
        for name in names:
            bound = _bind_as_run(stage.model, name, asked if name == main else None)
            yield _Function(
                key=stage_key(stage.name, name),
                model=stage.model,
                bound=bound,
                description=choose_function(stage.model, name).description,
                is_main=name == main,
            )


def _remarks(functions: Sequence[_Function]) -> Iterator[str]:
    """Yields remarks that apply to every plan of a model."""
    if any(_is_network(one.model) for one in functions):
        yield _NETWORK
    if any(_is_core_ai(one.model) for one in functions):
        yield from _CORE_AI


def _crossing_notes(
    functions: Sequence[_Function], placed: Mapping[str, PlacedFunction], setting: ComputeUnits
) -> Iterator[str]:
    """Yields how often programs of Core AI leave the Neural Engine, and what that costs."""
    for one in functions:
        count = crossings(placed[one.key], setting) if _is_core_ai(one.model) else 0
        if count:
            least, _, most = (seconds * 1e3 for seconds in CROSSING_S)
            yield (
                f"{one.key} under {setting}: values cross from or to the Neural Engine"
                f" {'once' if count == 1 else f'{count} times'}, a way and back as one; each cost"
                f" {least:g} to {most:g} ms where it was measured, whatever the size"
            )


def _as_core_ai(found: Estimate, placed: Iterable[PlacedFunction]) -> Estimate:
    return adapt(found, sum(crossings(one, found.compute_units) for one in placed))


def _is_core_ai(model: Model) -> bool:
    return isinstance(model.content, Program) and model.content.is_core_ai


def _is_network(model: Model) -> bool:
    return isinstance(model.content, Program) and model.content.is_network


def _bind_as_run(
    model: Model, function: str | None, shapes: Mapping[str, Sequence[int]] | None
) -> BoundFunction:
    """Binds a function in the precision in which Core ML computes it; raises as `bind_model` does."""
    bound = bind_model(model, function, shapes)
    return in_half_precision(bound) if _is_network(model) else bound


def _unknown_loops(kernels: _Kernels, estimates: Sequence[Estimate]) -> Iterator[Finding]:
    """Yields a finding for each loop whose number of iterations is not known."""
    listed = estimates[:_LISTED]
    for id_, view in kernels.loops.items():
        steps = ", ".join(
            f"{format_duration(kernels.step_s(id_, one))} on {one.device} ({one.compute_units})"
            for one in listed
        )
        limit = trip_limit(view)
        at_most = "" if limit is None else f" (at most {limit})"
        yield Finding(
            id="loop-not-estimated",
            severity="warning",
            text=f"No latency is estimated: the number of steps{at_most} of the loop {view.op.name} depends "
            f"on values of a prediction. One step is estimated at {steps}.",
            hint="everything outside such loops is estimated at "
            + ", ".join(f"{format_duration(kernels.outside_s(one))} on {one.device}" for one in listed),
            ops=(id_,),
        )


def _planning_key(device: Device) -> object:
    """Returns a key that is equal for devices with equal plans: the same rules and rates apply to them."""
    scopes = [*(rule.scope for rule in RULES), *(rule.scope for rule in GRAPH_RULES)]
    held = tuple(scope.holds(device.chip, device.os) for scope in scopes)
    return held, device.chip.id, device.os


def _place(
    function: _Function,
    device: Device,
    settings: Sequence[ComputeUnits],
    with_advice: bool,
    rates: RateTable | None = None,
) -> _Placed:
    if _is_core_ai(function.model):
        return _place_for_core_ai(function, device, settings, with_advice)
    system = str(device.os)
    if system not in function.graphs:
        # The types of the inputs and outputs of a neural network need no casts.
        description = None if _is_network(function.model) else function.description
        function.graphs[system] = view_function(function.bound, device.os, description)
    graph = function.graphs[system]
    facts = program_facts(function.model, function.bound, function.description)

    table = rates or rate_table(device)
    prices = _priced(graph, table)

    def pricing(node: Node) -> PlannedCosts:
        return prices[node.id]

    def reach(unit: ComputeUnit, known: Verdicts) -> frozenset[str]:
        return reached(graph, known, pricing, table.transition_costs, unit)

    verdicts = judge(graph, device, facts, with_advice=with_advice, reach=reach)
    planning = Planning(
        device=device,
        facts=facts,
        graph=graph,
        verdicts=verdicts,
        prices=prices,
        transition_costs=table.transition_costs,
        placed=place(graph, verdicts, pricing, table.transition_costs, settings),
    )
    if not with_advice:
        return _Placed(planning)
    return _Placed(planning, {setting: weigh_reasons(planning, setting) for setting in settings})


def _priced(graph: CoreMLGraph, rates: RateTable) -> dict[str, PlannedCosts]:
    """Returns the costs of all operations by id; equal ones share one mapping, which saves memory."""
    kinds = {node.alike: node.view for node in graph.walk()}
    kept: dict[object, PlannedCosts] = {}
    found: dict[int | str, PlannedCosts] = {}
    for kind, view in kinds.items():
        costs = price(view, rates)
        key = tuple(
            (backend, one.ms, one.basis, one.is_complete, one.bounds_ms, one.is_open, id(one.rate))
            for backend, one in costs.items()
        )
        found[kind] = kept.setdefault(key, costs)
    return {node.id: found[node.alike] for node in graph.walk()}


def _place_for_core_ai(
    function: _Function, device: Device, settings: Sequence[ComputeUnits], with_advice: bool
) -> _Placed:
    graph = function.graphs.setdefault("Core AI", view_operations(function.bound))
    facts = program_facts(function.model, function.bound, function.description)
    verdicts = judge(graph, device, facts, with_advice=with_advice)
    preferences, note = _default_preference(function, device, graph, verdicts)
    planning = Planning(
        device=device,
        facts=facts,
        graph=graph,
        verdicts=verdicts,
        prices={},
        transition_costs=rate_table(device).transition_costs,
        placed=place_by_preference(graph, verdicts, settings, preferences),
    )
    return _Placed(planning, notes=(note,) if note and "all" in settings else ())


def _default_preference(
    function: _Function, device: Device, graph: CoreMLGraph, verdicts: Verdicts
) -> tuple[Mapping[ComputeUnits, tuple[ComputeUnit, ...]], str]:
    """Returns the preferences, and why the GPU is the first one of the default options; empty if it is not.

    The default options choose the units that minimise latency, as Apple documents. So the Neural Engine is
    left where the crossings to other units make a prediction longer than it is on the GPU.
    """
    both: tuple[ComputeUnits, ...] = ("all", "cpu_and_gpu")
    placed = place_by_preference(graph, verdicts, both)
    count = crossings(placed, "all")
    if not count:
        return PREFERENCES, ""
    estimators = _kernels_alone(function).estimators(device, both, {function.key: placed}, ())
    engine_s, gpu_s = (_as_core_ai(estimators[one]({}), [placed]).latency.value for one in both)
    if engine_s <= gpu_s:
        return PREFERENCES, ""
    note = (
        f"{function.key} under all: the default options minimise latency. With the Neural Engine, values"
        f" would cross {count} times, a way and back as one, and a prediction is estimated at"
        f" {format_duration(engine_s)}; on the GPU alone at {format_duration(gpu_s)}, so the GPU is chosen"
    )
    return {**PREFERENCES, "all": PREFERENCES["cpu_and_gpu"]}, note


def _kernels_alone(function: _Function) -> _Kernels:
    if not function.kernels:
        function.kernels.append(_Kernels([function], OpTable(), NOTHING_OWN))
    return function.kernels[0]


def _estimators_alone(
    function: _Function, device: Device, settings: Sequence[ComputeUnits], placed: PlacedFunction
) -> dict[ComputeUnits, Estimator]:
    """Returns what estimates a call of one function, by setting; empty where it cannot be estimated."""
    kernels = _kernels_alone(function)
    left_out = tuple(filter(None, [find_left_out([function.bound.function]).text]))
    return {} if kernels.loops else kernels.estimators(device, settings, {function.key: placed}, left_out)


def _with_what_ifs(
    plan: Plan,
    ops: OpTable,
    functions: Sequence[_Function],
    placed: Mapping[str, _Placed],
    estimators: Mapping[ComputeUnits, Estimator],
    device: Device,
) -> Plan:
    """Returns a plan with what each reason costs under each setting.

    Args:
        plan: The plan.
        ops: The op table.
        functions: The functions of the plan.
        placed: The same, placed.
        estimators: Estimate a prediction, by setting; empty if it cannot be estimated.
        device: The chip and system.
    """
    asked = [setting.compute_units for setting in plan.settings]
    weighed = [one for one in functions if placed[one.key].replanned]
    by_function = {
        one.key: estimators
        if one.is_main
        else _estimators_alone(one, device, asked, placed[one.key].function)
        for one in weighed
    }
    columns = {id_: column for column, id_ in enumerate((*ops.id, *(op.id for op in plan.inserted)))}
    settings = []
    for setting in plan.settings:
        found: list[WhatIf] = []
        for one in weighed:
            replanned = placed[one.key].replanned.get(setting.compute_units, [])
            estimator = by_function[one.key].get(setting.compute_units)
            found += describe_what_ifs(replanned, one.key, columns, estimator)
        settings.append(replace(setting, what_ifs=tuple(found)))
    return replace(plan, settings=tuple(settings))


def _find_remarks(functions: Sequence[_Function]) -> dict[str, list[Remark]]:
    """Returns the remarks on functions, by function."""
    views = [FunctionView(one.model, one.bound, one.description, one.key) for one in functions]
    return {view.key: remarks for view in views if (remarks := find_remarks(view))}


def _warn(remarks: Mapping[str, Sequence[Remark]], settings: Sequence[ComputeUnits]) -> Iterator[Finding]:
    """Yields the values that may be wrong under the settings."""
    for name, several in remarks.items():
        for remark in several:
            if remark.rule.settings.intersection(settings):
                yield describe_remark(remark, where=f"{name}: " if len(remarks) > 1 else "")


def _weigh(
    tally: Tally,
    device: Device,
    settings: Sequence[ComputeUnits],
    placed: Mapping[str, _Placed],
    kernels: _Kernels | None,
    left_out: tuple[str, ...],
) -> None:
    """Adds what each remark on a function saves on a device, under every setting."""
    table = rate_table(device)
    functions = {name: one.function for name, one in placed.items()}
    for setting in settings:
        estimating = None
        if kernels is not None and not kernels.loops:
            estimating = Kernels(
                fused=kernels.fused, estimating=kernels.estimating(device, setting, functions, left_out)
            )
        for name, one in placed.items():
            weigh_remarks(tally, one.planning, setting, lambda view: price(view, table), estimating, name)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A planned function, by setting its plans as if reasons were gone, and notes on the plan."""

    planning: Planning
    replanned: Mapping[ComputeUnits, Sequence[Replanned]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def function(self) -> PlacedFunction:
        """The plan."""
        return self.planning.placed

    def placed_under(self, settings: Sequence[ComputeUnits]) -> PlacedFunction:
        """Returns the plan under other settings."""
        one = self.planning
        return place(
            one.graph, one.verdicts, lambda node: one.prices[node.id], one.transition_costs, settings
        )


class _Kernels:
    """The kernels of some functions, and estimates of them."""

    def __init__(
        self,
        functions: Sequence[_Function],
        ops: OpTable,
        own: Own,
        tabular: Sequence[FusedKernel] = (),
    ) -> None:
        self._own = own
        self.fused: list[FusedKernel] = [kernel for f in functions for kernel in fuse(f.bound.graph)]
        self.fused += tabular
        self._table = KernelTable.of(self.fused)
        edges = (*functions[0].description.inputs, *functions[-1].description.outputs) if functions else ()
        self._converted = sum(map(_converted_bytes, edges))
        rows = {id_: row for row, id_ in enumerate(ops.id)}
        self.rows = tuple(
            Kernel(k.name, k.kind, tuple(rows[id_] for id_ in k.ops if id_ in rows)) for k in self.fused
        )
        unknown = {kernel.loop for kernel in self.fused} - {""}
        #: The loops whose number of iterations is not known, by id.
        self.loops = {
            view.op.id: view for f in functions for view in _walk(f.bound.graph) if view.op.id in unknown
        }

    def step_s(self, loop: str, estimated: Estimate) -> float:
        """Returns the estimated time of one iteration of a loop, without loops inside it, in seconds."""
        pairs = zip(self.fused, estimated.kernel_s, strict=True)
        return sum(seconds for kernel, seconds in pairs if kernel.loop == loop)

    def outside_s(self, estimated: Estimate) -> float:
        """Returns the estimated time of everything outside loops with unknown iterations, in seconds."""
        return estimated.latency.value - sum(self.step_s(loop, estimated) for loop in self.loops)

    def estimators(
        self,
        device: Device,
        settings: Sequence[ComputeUnits],
        placed: Mapping[str, PlacedFunction],
        left_out: tuple[str, ...],
    ) -> dict[ComputeUnits, Estimator]:
        """Returns what estimates a prediction on a device with the placement of the plan, by setting."""
        return {setting: self._estimator(device, setting, placed, left_out) for setting in settings}

    def _estimator(
        self,
        device: Device,
        setting: ComputeUnits,
        placed: Mapping[str, PlacedFunction],
        left_out: tuple[str, ...],
    ) -> Estimator:
        estimating = self.estimating(device, setting, placed, left_out)

        def estimate_moved(moved: Mapping[str, ComputeUnit]) -> Estimate:
            found = estimating(self.fused, moved, 0)
            return replace(found, own=self._own.label(found), load=self._load(found))

        return estimate_moved

    def estimating(
        self,
        device: Device,
        setting: ComputeUnits,
        placed: Mapping[str, PlacedFunction],
        left_out: tuple[str, ...],
    ) -> Estimating:
        """Returns what estimates a prediction also with other kernels, and with fewer converted bytes."""
        units = _units(setting, placed.values())

        def estimate_changed(
            kernels: Sequence[FusedKernel], moved: Mapping[str, ComputeUnit], fewer_bytes: int
        ) -> Estimate:
            return estimate(
                kernels,
                {**units, **moved},
                device,
                setting,
                converted_bytes=max(self._converted - fewer_bytes, 0),
                calibration=self._own.calibration,
                table=self._table if kernels is self.fused else None,
                left_out=left_out,
            )

        return estimate_changed

    def _load(self, found: Estimate) -> LoadEstimate | None:
        """Returns times of loading; None where another unit does most of the work."""
        on_engine = found.placement.get(NEURAL_ENGINE, 0.0)
        parameters = float(self._table.weights.sum())
        return estimate_loads(parameters) if on_engine > 0.5 else None

    def with_evidence(self, found: Estimate) -> Estimate:
        """Returns an estimate with the published latencies of the unit that does most of its work."""
        times = np.array([kernel.steps for kernel in self.fused], dtype=np.float64)
        unit = max(found.placement, key=lambda unit: found.placement[unit])
        near = find_nearest(structure_of(self._table, times), unit, all_chips()[found.chip])
        return replace(found, near=near)

    def record(self, setting: ComputeUnits, placed: Iterable[PlacedFunction]) -> KernelColumns:
        """Returns the numbers from which an estimate is computed."""
        return record(self.fused, _units(setting, placed), self._converted)


def _units(setting: ComputeUnits, placed: Iterable[PlacedFunction]) -> dict[str, ComputeUnit]:
    """Returns the unit of each operation by id, as planned."""
    return {op.id: unit for f in placed for op in f.ops if (unit := op.choices[setting].unit) is not None}


def _walk(graph: BoundGraph) -> Iterator[OpView]:
    """Iterates over all operations, each before those of its blocks."""
    for view in graph.ops:
        yield view
        for block in view.blocks:
            yield from _walk(block)


def _converted_bytes(feature: Feature) -> int:
    """Returns the bytes of an input or output that is not in half precision; 0 for others."""
    match feature.type:
        case ArrayFeature(dtype=dtype, shape=shape) if dtype != DType.FP16:
            return math.prod(max(extent, 1) for extent in shape) * dtype.bits // 8
        case ImageFeature(width=width, height=height):
            return _PIXEL_BYTES * width * height
        case _:
            return 0
