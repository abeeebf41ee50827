"""The planner: binds, checks, prices and places a model once, and derives plans and estimates from that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from coremlscope.base.errors import UnsupportedModelError
from coremlscope.base.findings import Finding
from coremlscope.base.units import format_duration
from coremlscope.devices import ComputeUnits, Device
from coremlscope.devices.unit import SETTING_WORDS
from coremlscope.model.ir import Model
from coremlscope.ops.control import trip_limit
from coremlscope.planning.advice import Remark, find_remarks
from coremlscope.planning.cost.latency.own import NOTHING_OWN, Own
from coremlscope.planning.cost.latency.recorded import record
from coremlscope.planning.cost.latency.running import find_slow_loads
from coremlscope.planning.cost.latency.structure import Structure
from coremlscope.planning.cost.planned.rates import RateTable, rate_table
from coremlscope.planning.forecast.assumptions import shape_notes, system_findings, system_notes, weight_notes
from coremlscope.planning.forecast.estimates import (
    estimate_predictions,
    refer_to_rows,
    time_shares,
)
from coremlscope.planning.forecast.functions import ModelFunction, kernels_of, planned_functions
from coremlscope.planning.forecast.hazards import describe_planned_hazards
from coremlscope.planning.forecast.kernels import Kernels, Prediction
from coremlscope.planning.forecast.memory import MemoryModel, find_shortages
from coremlscope.planning.forecast.model_findings import (
    Saved,
    describe_remark,
    describe_remarks,
    weigh_remarks,
)
from coremlscope.planning.forecast.placed import crossing_notes, place_function
from coremlscope.planning.forecast.plans import make_plan
from coremlscope.planning.forecast.unplanned import (
    nothing_known,
    unplanned_notes,
    unplanned_stages,
)
from coremlscope.planning.forecast.what_if import Estimator, describe_what_ifs
from coremlscope.planning.placement.hypotheses import Planning
from coremlscope.planning.placement.place import PlacedFunction
from coremlscope.results.answer import Answer
from coremlscope.results.calibration import KernelColumns
from coremlscope.results.estimate import Estimate, Kernel
from coremlscope.results.generation import TokenRate
from coremlscope.results.left_out import LeftOut
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import Plan, WhatIf
from coremlscope.runtime.execution.wiring import bind_functions

#: Devices and settings for which the step of a loop is listed.
_LISTED = 3
_NETWORK = (
    "Core ML reports where the layers of a neural network run, but not their costs: these are the costs of"
    " the same operations of an fp16 program. Normalizations behind convolutions and zeros added before them"
    " are part of the convolutions, as in compiled networks"
)
_CORE_AI = (
    "how Core AI divides programs, and its costs, are not published: each operation goes to the first unit of"
    " the preference that is known to run it",
    "a preferred unit forbids no other: what it does not take runs on the GPU, under cpu_and_ne as well, and"
    " only cpu_only keeps a program on one unit",
)


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """Plans and estimates of one model.

    Attributes:
        plans: A plan for each device.
        kernels: Operations that devices are assumed to run as one.
        estimates: An estimate for each device and setting, in that order; empty if the model has loops whose
            number of iterations is not known.
        findings: What the model does at a cost that another form would not have, where that saves anything on
            one of the devices; and why there are no estimates.
        rates: Tokens per second of a language model; see `estimate_generation`.
        structure: What the estimated network consists of; None without estimates.
        answers: The answers for each device and setting; see `make_answers`.
    """

    plans: tuple[Plan, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    estimates: tuple[Estimate, ...] = ()
    findings: tuple[Finding, ...] = ()
    rates: tuple[TokenRate, ...] = ()
    structure: Structure | None = None
    answers: tuple[Answer, ...] = ()

    def under(self, settings: Sequence[ComputeUnits]) -> Forecast:
        """Returns the forecast with the plans and estimates of some settings alone."""
        return replace(
            self,
            plans=tuple(plan.under(settings) for plan in self.plans),
            estimates=tuple(one for one in self.estimates if one.compute_units in settings),
        )


class _OnDevice(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What is computed once for a device.

    Attributes:
        device: The chip and system.
        placed: All functions, placed, by their names in plans.
        main: Those that a prediction runs.
        predictions: A prediction, by setting.
    """

    device: Device
    placed: Mapping[str, Planning]
    main: Mapping[str, Planning]
    predictions: Mapping[ComputeUnits, Prediction]


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
    advised: Sequence[ComputeUnits] | None = None,
    weighs: bool = True,
    with_faster: bool = True,
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
        advised: The settings that findings are about, and under which reasons and findings are planned again;
            None for all. Without any, plans have no advice that would make operations faster on their units.
        weighs: Whether models are planned again without what findings are about, to say what that costs.
        with_faster: Whether estimates of all units note that fewer of them are faster.
        own: A user's own measurements, which refine estimates.

    Raises:
        UnsupportedModelError: Estimates are requested, and the kind of model cannot be estimated.
        InputError: A shape is not allowed.
        UsageError: The model has no such function.
    """
    bound = bind_functions(model, function, shapes, every=every_function)
    functions = planned_functions(bound)
    main = [one for one in functions if one.is_main]
    kernels = kernels_of(model, bound, main, own) if with_estimates else Kernels(main, own)
    if with_estimates and not (main or kernels.fused):
        raise nothing_known(model, bound)
    advised = settings if advised is None else advised
    places = _place_on_each(functions, devices, settings, kernels, advised)

    first, about = unplanned_notes(bound), [*weight_notes(model), *_remarks(functions)]
    if functions and not with_estimates:
        about += shape_notes(model, function, shapes)
    plans = []
    for one in places:
        system = system_notes(model, one.device.os, is_planned=bool(functions))
        notes = [*first, *system, *about, *_placement_notes(one.placed, settings[0])]
        plan = _make_plan(ops, one, settings, notes, kernels.unknown, is_core_ai=model.content.is_core_ai)
        plans.append(_with_estimates(_with_what_ifs(plan, functions, one), one))

    memory = MemoryModel.of(model, ops, function)
    findings = (
        *find_shortages(memory, devices),
        *describe_planned_hazards(main, plans, advised or settings),
        *_remarks_on(main, places, advised, has_costs=weighs and not model.content.is_core_ai),
    )
    if not with_estimates:
        return Forecast(plans=tuple(plans), findings=findings)

    make = partial(
        estimate_predictions,
        memory=memory,
        ops=ops,
        is_core_ai=model.content.is_core_ai,
        with_faster=with_faster,
    )
    estimates: list[Estimate] = []
    for one, plan in zip(places, plans, strict=True):
        estimates += _including_others(make(one.predictions, list(one.main.values())), plan)
    structure = kernels.structure()
    findings = (
        *_unknown_loops(kernels, estimates),
        *find_slow_loads(estimates, kernels.table),
        *system_findings(model, [device.os for device in devices]),
        *_too_much_left_out(kernels.unknown, () if shapes else model.remarks),
        *findings,
    )
    if kernels.loops or kernels.unknown.is_too_much:
        return Forecast(plans=tuple(plans), findings=findings)
    return Forecast(
        plans=tuple(plans),
        kernels=refer_to_rows(kernels.fused, ops),
        estimates=tuple(estimates),
        findings=findings,
        structure=structure,
    )


def _remarks_on(
    functions: Sequence[ModelFunction],
    places: Sequence[_OnDevice],
    settings: Sequence[ComputeUnits],
    *,
    has_costs: bool,
) -> Iterator[Finding]:
    """Yields what there is to say about functions under some settings, and what it costs.

    What a remark on a program of Core AI costs is not published.
    """
    if settings:
        remarks = _find_remarks(functions)
        costly = remarks if has_costs else {}
        yield from describe_remarks(costly, _savings(costly, places, settings))
        yield from _warn(remarks, settings)


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
    return {
        one.key: place_function(one, device, settings, None if with_advice else (), rates=rates).placed
        for one in planned_functions(bind_functions(model, None, shapes, every=True))
    }


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
    bound = bind_functions(model, function, shapes)
    main = planned_functions(bound)
    kernels = Kernels(main)
    left_out = (*unplanned_stages(bound), kernels.unknown.text)
    why = ""
    if any(left_out) or not main:
        known = ", ".join(filter(None, left_out)) or "there are no operations"
        why = f"a prediction cannot be estimated as a whole: {known}"
    elif kernels.loops:
        why = "the number of iterations of a loop depends on values of a prediction"
    if why:
        raise UnsupportedModelError(why, "only models that are estimated completely can calibrate estimates")
    placed = [place_function(one, device, (setting,), ()).placed for one in main]
    return record(kernels.on(device, (setting,), placed)[setting].work)


def plan_functions(
    functions: Sequence[ModelFunction], device: Device, setting: ComputeUnits
) -> tuple[dict[str, Planning], dict[str, Estimator]]:
    """Plans functions of a model for one device and setting, for questions about single operations.

    Returns:
        The plans by function, and what estimates a prediction: of the model, and of each other function.
    """
    kernels = Kernels([one for one in functions if one.is_main])
    (found,) = _place_on_each(functions, [device], (setting,), kernels, ())
    estimators: dict[str, Estimator] = {}
    for one in functions:
        prediction = _predictions(one, found).get(setting)
        if prediction is not None:
            estimators[one.key] = prediction.estimate
    return dict(found.placed), estimators


def _place_on_each(
    functions: Sequence[ModelFunction],
    devices: Sequence[Device],
    settings: Sequence[ComputeUnits],
    kernels: Kernels,
    advised: Sequence[ComputeUnits],
) -> list[_OnDevice]:
    """Places functions on each device, once for devices of one chip and system."""
    known: dict[object, dict[str, Planning]] = {}
    found = []
    for device in devices:
        key = device.chip.id, device.os
        if key not in known:
            known[key] = {one.key: place_function(one, device, settings, advised) for one in functions}
        main = {one.key: known[key][one.key] for one in functions if one.is_main}
        predictions = kernels.on(device, settings, [one.placed for one in main.values()])
        found.append(_OnDevice(device=device, placed=known[key], main=main, predictions=predictions))
    return found


def _predictions(function: ModelFunction, on: _OnDevice) -> Mapping[ComputeUnits, Prediction]:
    """Returns the predictions that run a function, by setting; none where their time is not known.

    That of the model runs the main functions, and one of its own runs another function.
    """
    placed = on.placed[function.key].placed
    found = on.predictions
    if not function.is_main:
        found = function.kernels.on(on.device, list(found), [placed])
    return {setting: one for setting, one in found.items() if not one.kernels.loops}


def _placement_notes(placed: Mapping[str, Planning], setting: ComputeUnits) -> Iterator[str]:
    for one in placed.values():
        yield from one.notes
    yield from crossing_notes(placed, setting)


def _make_plan(
    ops: OpTable,
    on: _OnDevice,
    settings: Sequence[ComputeUnits],
    notes: Sequence[str],
    unknown: LeftOut,
    *,
    is_core_ai: bool,
) -> Plan:
    # Core AI's costs are not published: a plan of its programs has none.
    rates = None if is_core_ai else rate_table(on.device)
    costs, transitions = (rates.name, rates.transition_costs) if rates else ("", None)
    functions = {name: one.placed for name, one in on.placed.items()}
    plan = make_plan(ops, on.device, functions, settings, costs, notes, transitions)
    return replace(plan, left_out=unknown.text, left_out_share=unknown.share)


def _with_what_ifs(plan: Plan, functions: Sequence[ModelFunction], on: _OnDevice) -> Plan:
    """Returns a plan with what each reason costs under each setting."""
    places = {op.id: place for place, op in enumerate(plan.ops)}
    found: dict[ComputeUnits, list[WhatIf]] = {one.compute_units: [] for one in plan.settings}
    for one in functions:
        replanned = on.placed[one.key].replanned
        predictions = _predictions(one, on) if replanned else {}
        for setting, several in replanned.items():
            prediction = predictions.get(setting)
            estimator = None if prediction is None else prediction.estimate
            found[setting] += describe_what_ifs(several, one.key, places, estimator)
    settings = [replace(one, what_ifs=tuple(found[one.compute_units])) for one in plan.settings]
    return replace(plan, settings=tuple(settings))


def _with_estimates(plan: Plan, on: _OnDevice) -> Plan:
    """Returns a plan with the time shares of units, and estimates of what is too close to call."""
    settings = []
    for one in plan.settings:
        prediction = on.predictions.get(one.compute_units)
        if prediction is None or not on.main or prediction.kernels.loops:
            settings.append(one)
            continue
        found, other = prediction.estimate(), one.other_plan
        if other is not None:
            rivals = (planning.placed.rivals for planning in on.main.values())
            moved = {id_: unit for of in rivals for id_, unit in of.get(one.compute_units, {}).items()}
            other = replace(other, latency=prediction.estimate(moved).latency, planned=found.latency)
        functions = dict(one.functions)
        functions_of_ops = {op.id: name for name, planning in on.main.items() for op in planning.placed.ops}
        for name, shares in time_shares(found, prediction.work, functions_of_ops).items():
            functions[name] = replace(functions[name], time_shares=shares)
        settings.append(replace(one, functions=functions, other_plan=other))
    return replace(plan, settings=tuple(settings))


def _including_others(estimates: Sequence[Estimate], plan: Plan) -> Iterator[Estimate]:
    """Yields estimates whose intervals hold those of other plans, which are too close to call."""
    for estimate in estimates:
        setting = next(one for one in plan.settings if one.compute_units == estimate.compute_units)
        other = setting.other_plan.latency if setting.other_plan else None
        if other is None:
            yield estimate
            continue
        mine = estimate.latency
        low, high = min(mine.low, other.value), max(mine.high, other.value)
        yield replace(estimate, latency=replace(mine, low=low, high=high))


def _remarks(functions: Sequence[ModelFunction]) -> Iterator[str]:
    """Yields remarks that apply to every plan of a model."""
    if any(one.is_network for one in functions):
        yield _NETWORK
    if any(one.model.content.is_core_ai for one in functions):
        yield from _CORE_AI


def _find_remarks(functions: Sequence[ModelFunction]) -> dict[str, list[Remark]]:
    """Returns the remarks on functions, by function."""
    return {one.key: remarks for one in functions if (remarks := find_remarks(one))}


def _warn(remarks: Mapping[str, Sequence[Remark]], settings: Sequence[ComputeUnits]) -> Iterator[Finding]:
    """Yields the values that may be wrong under the settings."""
    for name, several in remarks.items():
        for remark in several:
            if remark.rule.settings.intersection(settings):
                yield describe_remark(remark, where=f"{name}: " if len(remarks) > 1 else "")


def _savings(
    remarks: Mapping[str, Sequence[Remark]], places: Sequence[_OnDevice], settings: Sequence[ComputeUnits]
) -> Iterator[Saved]:
    """Yields what each remark on a function saves on each device under some settings."""
    for on in places if remarks else ():
        for setting in settings:
            prediction = on.predictions[setting]
            known = None if prediction.kernels.loops else prediction
            for name, one in on.main.items():
                yield from weigh_remarks(remarks.get(name, ()), one, setting, known, name)


def _unknown_loops(kernels: Kernels, estimates: Sequence[Estimate]) -> Iterator[Finding]:
    """Yields a finding for each loop whose number of iterations is not known."""
    listed = estimates[:_LISTED]
    places, loops = range(len(kernels.fused)), [*(kernel.loop for kernel in kernels.fused), ""]
    # The seconds of one iteration of each, without loops inside it.
    step_s = [
        {
            loop: sum(
                s for of, s in zip(one.kernel_of or places, one.kernel_s, strict=True) if loops[of] == loop
            )
            for loop in kernels.loops
        }
        for one in listed
    ]
    outside_s = [one.latency.value - sum(s.values()) for one, s in zip(listed, step_s, strict=True)]
    for id_, view in kernels.loops.items():
        steps = ", ".join(
            f"{format_duration(s[id_])} on {one.device} ({SETTING_WORDS[one.compute_units]})"
            for one, s in zip(listed, step_s, strict=True)
        )
        limit = trip_limit(view)
        at_most = "" if limit is None else f" (at most {limit})"
        yield Finding(
            id="loop-not-estimated",
            severity="warning",
            text=f"No latency is estimated: the number of steps{at_most} of the loop {view.op.name} depends "
            f"on values of a prediction. One step is estimated at {steps}.",
            hint="everything outside such loops is estimated at "
            + ", ".join(
                f"{format_duration(s)} on {one.device}" for one, s in zip(listed, outside_s, strict=True)
            ),
            ops=(id_,),
        )


def _too_much_left_out(unknown: LeftOut, assumed: Sequence[str]) -> Iterator[Finding]:
    """Yields why there is no estimate of a model of which too little is known."""
    if unknown.is_too_much:
        yield Finding(
            id="left-out",
            severity="warning",
            text="; ".join([f"No latency is estimated, because nothing is known of {unknown.text}", *assumed])
            + ".",
            hint="`coremlscope inspect` says why these operations are unknown",
        )
