"""Checks models against limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from coremlscope.api.own_measurements.using import use_own
from coremlscope.base.errors import CoremlscopeError, UsageError, known_error
from coremlscope.base.figures import Figure
from coremlscope.base.units import format_bytes, format_duration, shown
from coremlscope.describe.loading import check_weights, find_load_problem
from coremlscope.describe.stages import programs_of
from coremlscope.devices import NEURAL_ENGINE, Device, OSRelease, find_device
from coremlscope.formats import container
from coremlscope.measure.embedded.process import call_isolated, file_of
from coremlscope.model.features.dummy import dummy_values
from coremlscope.model.ir import DType, Function, Model, TensorType
from coremlscope.planning.forecast.assumptions import conversion_hint
from coremlscope.planning.forecast.hazards import find_hazards
from coremlscope.planning.forecast.memory import MemoryModel
from coremlscope.planning.forecast.planner import forecast
from coremlscope.planning.forecast.unplanned import unplanned_stages
from coremlscope.planning.hazards.summary import describe_model
from coremlscope.results.estimate import Estimate
from coremlscope.results.gate import CheckedModel, CheckKind, CheckResult, Quantity, Verdict
from coremlscope.results.hazard import Hazard
from coremlscope.results.measurement import Precision
from coremlscope.results.plan import PlanView
from coremlscope.results.verification import ComparedOutput
from coremlscope.runtime.execution.pipeline import open_predictor
from coremlscope.runtime.execution.random_weights import missing_weights
from coremlscope.runtime.execution.sequence_lengths import choose_lengths
from coremlscope.runtime.execution.wiring import bodies_of
from coremlscope.studies.gate.baseline import Baseline, read_baseline
from coremlscope.studies.gate.limits import GateLimits
from coremlscope.verification.outputs import Tolerance, compare_predictions

#: Synthetic inputs on which outputs are compared.
_SAMPLES = 4


class _Placed(msgspec.Struct, frozen=True, kw_only=True):
    """The plan and the estimate on one device.

    Attributes:
        subject: The device, its system and the setting.
        estimate: The estimate; None if there is none.
        on_engine: The share of operations on the Neural Engine.
        hazards: The known hazards that it meets there.
    """

    subject: str
    estimate: Estimate | None
    on_engine: Figure
    hazards: Sequence[Hazard]


class _Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a model that checks use.

    Attributes:
        placed: The plans and estimates on devices that load the model, by name.
        why_not: Why there is no plan or estimate; may be empty.
        not_loaded: The failures of devices that do not load it, by name.
    """

    model: Model
    size_bytes: int
    memory: MemoryModel
    placed: Mapping[str, _Placed]
    why_not: str
    not_loaded: Mapping[str, CheckResult]


def check_model(path: Path, limits: GateLimits) -> CheckedModel:
    """Checks a model against limits. A model that cannot be read is one with a failure.

    Args:
        path: The model.
        limits: The limits.

    Raises:
        UsageError: There is no limit, or a device, the baseline or an option is wrong.
    """
    _require(limits)
    baseline = read_baseline(limits.baseline) if limits.baseline else None
    for name in limits.all_devices:
        find_device(name, limits.os)
    try:
        facts = _learn(path, limits)
        checks = tuple(_for_format(check, facts.model) for check in _checks(facts, limits, baseline))
    except Exception as error:  # one model must not stop the others
        known = known_error(error, str(path))
        return CheckedModel(path=str(path), failure=known.message, hint=known.hint, exit_code=known.exit_code)
    return CheckedModel(path=str(path), size_bytes=facts.size_bytes, checks=checks)


def _require(limits: GateLimits) -> None:
    """Checks that the limits can be checked.

    Raises:
        UsageError: They cannot.
    """
    if limits.is_empty:
        raise UsageError("there is no limit to check", "add for instance --max-size 20MB; see --help")
    if limits.neural_engine is not None and not limits.all_devices:
        raise UsageError("a share on the Neural Engine is one on a device", "add --device iphone-13")
    if limits.no_known_crash and not limits.all_devices:
        raise UsageError("crashes are known of chips and systems", "add --device iphone-13")


def _learn(path: Path, limits: GateLimits) -> _Facts:
    model = container.read(path)
    check_weights(model)
    shapes = choose_lengths(model, None, limits.shapes)
    summary = describe_model(model, shapes, list_ops=True)
    own, _ = use_own()
    placed: dict[str, _Placed] = {}
    why_not = ""
    named = {name: find_device(name, limits.os) for name in limits.all_devices}
    not_loaded = {name: no for name, device in named.items() if (no := _check_loading(model, device))}
    devices = {name: device for name, device in named.items() if name not in not_loaded}
    if devices:
        try:
            found = forecast(
                model,
                summary.ops,
                list(devices.values()),
                (limits.compute_units,),
                shapes=shapes,
                advised=(),
                own=own,
            )
        except CoremlscopeError as error:
            why_not = error.message
        else:
            why_not = "" if found.estimates else next((one.text for one in found.findings), "")
            for (name, device), plan, one in zip_longest(devices.items(), found.plans, found.estimates):
                view = plan.view(summary.ops, plan.setting(limits.compute_units))
                subject = f"{plan.device}, {plan.os}, {limits.compute_units}"
                placed[name] = _Placed(
                    subject=subject,
                    estimate=one,
                    on_engine=_on_engine(view),
                    hazards=find_hazards(model, view, systems=[device.os]),
                )
    return _Facts(
        model=model,
        size_bytes=model.size_bytes,
        memory=MemoryModel.of(model, summary.ops),
        placed=placed,
        why_not=why_not,
        not_loaded=not_loaded,
    )


def _check_loading(model: Model, device: Device) -> CheckResult | None:
    """Returns that the system of a device does not load a model, or may not; None if it does."""
    problem = find_load_problem(model, device.os)
    if problem is None:
        return None
    needed = problem.needed
    return CheckResult(
        kind="loads",
        subject=f"{device.name}, {device.os}",
        quantity="version",
        limit=_version(device.os),
        value=None if needed is None else _exactly(_version(needed), "declared"),
        verdict="unknown" if needed is None else "fail",
        text=f"the model does not load on {device.name}, {device.os}: {problem.text}",
        hint=conversion_hint(model, device.os),
    )


def _version(system: OSRelease) -> float:
    """Returns a version as a number: 14.5 for macOS 14.5."""
    return float(f"{system.major}.{system.minor}")


def _on_engine(view: PlanView) -> Figure:
    """Returns the share of operations on the Neural Engine, with those that the evidence does not decide."""
    total = max(len(view.ops), 1)
    there = [op for op in view.ops if op.unit == NEURAL_ENGINE]
    sure = sum(not op.alternatives for op in there)
    possible = len(there) + sum(NEURAL_ENGINE in op.alternatives for op in view.ops)
    return Figure(len(there) / total, sure / total, possible / total, "planned")


def _checks(facts: _Facts, limits: GateLimits, baseline: Baseline | None) -> Iterator[CheckResult]:
    yield from facts.not_loaded.values()
    yield from _hazards_of_loading(facts)
    for device, limit in limits.latency_s.items():
        yield _latency(facts, device, limit)
    if limits.neural_engine is not None:
        for device in limits.all_devices:
            yield _share(facts, device, limits.neural_engine)
    if limits.no_known_crash:
        for device in limits.all_devices:
            yield _known_crash(facts, device)
    if limits.size_bytes is not None:
        yield _size(facts, limits.size_bytes)
    if limits.memory_bytes is not None:
        peak = facts.memory.peak()
        if peak is None:
            yield _unknown("max-memory", "", "bytes", limits.memory_bytes, facts.memory.why_unknown)
        else:
            yield _at_most("max-memory", "", "bytes", limits.memory_bytes, peak)
    if limits.psnr_db is not None:
        yield _precision(facts.model, limits)
    if baseline is not None:
        yield from _against(baseline, facts, limits)


def _size(facts: _Facts, limit: float) -> CheckResult:
    found = _at_most("max-size", "", "bytes", limit, _exactly(facts.size_bytes, "declared"))
    return found if found.verdict == "fail" else _incomplete(facts, "max-size", "", limit) or found


def _incomplete(facts: _Facts, kind: CheckKind, subject: str, limit: float) -> CheckResult | None:
    """Returns that the size is unknown where weights are absent, such as files of Git LFS; None elsewhere."""
    programs = programs_of(facts.model)
    if not any(missing_weights(each) for program in programs for each in program.functions.values()):
        return None
    why = f"weights are absent, and the other files have {format_bytes(facts.size_bytes)}"
    unknown = _unknown("max-size", "", "bytes", limit, why)
    hint = "fetch the weights (with Git LFS: `git lfs pull`)"
    return replace(unknown, kind=kind, subject=subject, hint=hint)


def _latency(facts: _Facts, device: str, limit: float) -> CheckResult:
    one = facts.placed.get(device)
    if device in facts.not_loaded:
        return _not_loaded(facts, device, "max-latency", "seconds", limit)
    if one is None or one.estimate is None:
        subject = device if one is None else one.subject
        return _unknown("max-latency", subject, "seconds", limit, facts.why_not)
    known = _at_most("max-latency", one.subject, "seconds", limit, one.estimate.latency)
    missing = one.estimate.left_out
    if not missing or known.verdict == "fail":
        return known
    seconds = format_duration(one.estimate.latency.value)
    why = f"without {', '.join(missing)} it is estimated at {seconds}, and nothing is known of the rest"
    return _unknown("max-latency", one.subject, "seconds", limit, why)


def _share(facts: _Facts, device: str, limit: float) -> CheckResult:
    if device in facts.not_loaded:
        return _not_loaded(facts, device, "min-neural-engine", "share", limit)
    one = facts.placed.get(device)
    subject = device if one is None else one.subject
    others = unplanned_stages(facts.model)
    if one is None or others:
        why = f"there are no operations to plan in: {', '.join(others)}" if others else facts.why_not
        return _unknown("min-neural-engine", subject, "share", limit, why)
    return _at_least("min-neural-engine", one.subject, "share", limit, one.on_engine)


def _known_crash(facts: _Facts, device: str) -> CheckResult:
    if device in facts.not_loaded:
        return _not_loaded(facts, device, "no-known-crash", "operations", 0.0)
    one = facts.placed.get(device)
    others = unplanned_stages(facts.model)
    if one is None or others:
        why = f"there are no operations to plan in: {', '.join(others)}" if others else facts.why_not
        return _unknown("no-known-crash", device if one is None else one.subject, "operations", 0.0, why)
    met = [hazard for hazard in one.hazards if hazard.kind in _DEFECTS]
    certain, possible = _ops(hazard for hazard in met if hazard.is_certain), _ops(met)
    first = min(met, key=lambda hazard: not hazard.is_certain, default=None)
    names = "" if first is None else f": {' '.join([first.text, *_named(first)])}"
    verdict: Verdict = "fail" if certain else "uncertain" if possible else "pass"
    how = "may run" if verdict == "uncertain" else "runs" if len(possible) == 1 else "run"
    count = "no operation runs" if not possible else f"{_operations(len(possible))} {how}"
    return CheckResult(
        kind="no-known-crash",
        subject=one.subject,
        quantity="operations",
        limit=0.0,
        value=Figure(float(len(certain)), float(len(certain)), float(len(possible)), "planned"),
        verdict=verdict,
        text=f"{count} on {one.subject} where it is known to end the app or to return wrong values{names}",
        hint="" if first is None else first.fix,
    )


def _ops(hazards: Iterable[Hazard]) -> set[str]:
    """Returns the operations that meet hazards; the id of one that is about the whole model stands for it."""
    return {id_ for hazard in hazards for id_ in (hazard.ops or (hazard.id,))}


def _named(hazard: Hazard) -> list[str]:
    return [f"({shown(name)})" for name in hazard.ops.values()][:1]


def _hazards_of_loading(facts: _Facts) -> Iterator[CheckResult]:
    """Yields that a model is refused, or does not end to load, where it is planned on a device."""
    for one in facts.placed.values():
        for hazard in one.hazards:
            if hazard.kind not in ("refused", "endless load"):
                continue
            is_sure = hazard.is_certain and hazard.confidence != "anecdotal"
            yield CheckResult(
                kind="loads",
                subject=one.subject,
                quantity="operations",
                limit=0.0,
                value=_exactly(len(_ops([hazard])), "planned"),
                verdict="fail" if is_sure else "uncertain",
                text=" ".join([f"loading on {one.subject}: {hazard.text}", *_named(hazard)]),
                hint=hazard.fix,
            )


def _operations(count: int) -> str:
    return f"{count} operation{'' if count == 1 else 's'}"


def _not_loaded(facts: _Facts, device: str, kind: CheckKind, quantity: Quantity, limit: float) -> CheckResult:
    subject = facts.not_loaded[device].subject
    return replace(_unknown(kind, subject, quantity, limit, "the model does not load there"), hint="")


def _exactly(value: float, origin: Any) -> Figure:
    return Figure(value, value, value, origin)


def _at_most(kind: CheckKind, subject: str, quantity: Quantity, limit: float, found: Figure) -> CheckResult:
    verdict: Verdict = "fail" if found.value > limit else "uncertain" if found.high > limit else "pass"
    return _result(kind, subject, quantity, limit, found, verdict, "at most")


def _at_least(kind: CheckKind, subject: str, quantity: Quantity, limit: float, found: Figure) -> CheckResult:
    verdict: Verdict = "fail" if found.value < limit else "uncertain" if found.low < limit else "pass"
    return _result(kind, subject, quantity, limit, found, verdict, "at least")


#: What `no-known-crash` is about.
_DEFECTS = frozenset({"crash", "wrong values"})

_NAMES: Mapping[CheckKind, str] = {
    "max-latency": "latency",
    "min-neural-engine": "share on the Neural Engine",
    "no-known-crash": "known crashes",
    "max-size": "size",
    "max-memory": "peak memory",
    "min-psnr": "PSNR",
    "baseline": "against the baseline",
    "loads": "loading",
}


#: The word before what a figure belongs to.
_JOINED: Mapping[CheckKind, str] = {"max-latency": "on"}


def _result(
    kind: CheckKind,
    subject: str,
    quantity: Quantity,
    limit: float,
    found: Figure,
    verdict: Verdict,
    word: str,
) -> CheckResult:
    figure = format_quantity(found.value, quantity)
    if found.low != found.high:
        figure += f" ({format_quantity(found.low, quantity)} to {format_quantity(found.high, quantity)})"
    where = f" {_JOINED.get(kind, 'of')} {subject}" if subject else ""
    return CheckResult(
        kind=kind,
        subject=subject,
        quantity=quantity,
        limit=limit,
        value=found,
        verdict=verdict,
        text=f"{_NAMES[kind]}{where} is {_ORIGINS.get(found.origin, '')}{figure}; the limit is {word}"
        f" {format_quantity(limit, quantity)}",
        hint=_HINTS[kind] if verdict in ("fail", "uncertain") else "",
    )


_ORIGINS: Mapping[str, str] = {"estimated": "estimated at ", "planned": "planned at "}
_COMPRESS = "`coremlscope what-if` shows what compression brings"
_COMPRESS_CORE_AI = "quantize_weights and palettize_weights of coreai-opt compress Core AI models"
_HINTS: Mapping[CheckKind, str] = {
    "max-latency": "`coremlscope estimate --explain` shows what it is made of, `plan` what is not on the"
    " Neural Engine",
    "min-neural-engine": "`coremlscope plan` shows which operations are elsewhere, and why",
    "max-size": _COMPRESS,
    "max-memory": _COMPRESS,
    "min-psnr": "`coremlscope predict --precision fp16` shows where numbers overflow",
    "baseline": "`coremlscope compare` shows what changed",
}


def _for_format(check: CheckResult, model: Model) -> CheckResult:
    """Replaces a hint that is for Core ML models by one for the model's format."""
    if model.container != "aimodel" or check.hint != _COMPRESS:
        return check
    return replace(check, hint=_COMPRESS_CORE_AI)


def _unknown(kind: CheckKind, subject: str, quantity: Quantity, limit: float, why: str) -> CheckResult:
    where = f" {_JOINED.get(kind, 'of')} {subject}" if subject else ""
    reason = f": {why}" if why else ""
    return CheckResult(
        kind=kind,
        subject=subject,
        quantity=quantity,
        limit=limit,
        value=None,
        verdict="unknown",
        text=f"{_NAMES[kind]}{where} is not known{reason.rstrip('.')}",
        hint="leave this limit out for this model",
    )


def _precision(model: Model, limits: GateLimits) -> CheckResult:
    """Compares the outputs with those of the reference, or with the model's own in fp32."""
    assert limits.psnr_db is not None
    subject = f"outputs against {limits.reference}" if limits.reference else "outputs rounded to fp16"
    given = {"path": file_of(model), "reference": limits.reference, "shapes": limits.shapes}
    try:
        outputs: Sequence[ComparedOutput] = call_isolated(compare_outputs, given)
    except CoremlscopeError as error:
        unknown = _unknown("min-psnr", subject, "decibels", limits.psnr_db, error.message)
        return replace(unknown, hint=error.hint or unknown.hint)
    ratios = [output.psnr_db for output in outputs if output.psnr_db is not None]
    why = _why_no_ratio(outputs, ratios)
    if why:
        return _unknown("min-psnr", subject, "decibels", limits.psnr_db, why)
    if not ratios:
        rounds = limits.reference or any(map(_rounds, bodies_of(model)))
        why = "" if rounds else ": no operation has a result in fp16"
        return CheckResult(
            kind="min-psnr",
            subject=subject,
            quantity="decibels",
            limit=limits.psnr_db,
            value=None,
            verdict="pass",
            text=f"{subject} are equal on {_SAMPLES} synthetic inputs{why}",
        )
    found = _exactly(min(ratios), "measured")
    return _at_least("min-psnr", subject, "decibels", limits.psnr_db, found)


def _why_no_ratio(outputs: Sequence[ComparedOutput], ratios: Sequence[float]) -> str:
    """Returns why a ratio says nothing about some output; empty if it does."""
    lost = sum(output.not_finite for output in outputs)
    if lost:
        return f"{lost} elements are not finite"
    alone = next((one for one in outputs if one.status != "paired"), None)
    if alone is not None:
        return f"{shown(alone.name)!r} is {alone.status}"
    # A label may differ where probabilities are nearly equal; their ratio tells how far.
    without = [one for one in outputs if one.relative is None and not (one.meaning == "labels" and ratios)]
    differs = next((one.name for one in without if not one.passed), None)
    return "" if differs is None else f"{shown(differs)!r} differs, and is not numbers of the same shape"


def _rounds(function: Function) -> bool:
    """True if rounding to fp16 concerns a function: a neural network's layers, or results in fp16."""
    values = (value.type for op in function.graph.walk() for value in op.outputs)
    return bool(function.layers) or any(isinstance(t, TensorType) and t.dtype is DType.FP16 for t in values)


def compare_outputs(
    path: Path, reference: str, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[ComparedOutput, ...]:
    """Compares outputs on synthetic inputs. It is called in a process of its own, which may crash.

    Args:
        path: The model.
        reference: The path of another model; empty for the model itself, which is then rounded to fp16.
        shapes: Shapes of flexible inputs.
    """
    model = container.read(path)
    other = container.read(Path(reference)) if reference else model
    precision: Precision = "fp32" if reference else "fp16"
    rows: list[ComparedOutput] = []
    with open_predictor(other) as exact, open_predictor(model, precision=precision) as checked:
        for seed in range(_SAMPLES):
            values = dummy_values(model.description.main, *bodies_of(model), seed=seed, shapes=shapes)
            pair = checked.predict(values), exact.predict(values)
            rows += compare_predictions(*pair, f"sample {seed + 1}", Tolerance())
    return tuple(rows)


def _against(baseline: Baseline, facts: _Facts, limits: GateLimits) -> Iterator[CheckResult]:
    """Compares size, memory, latencies and placement with a baseline."""
    size = _exactly(facts.size_bytes, "declared")
    figures: list[tuple[str, Quantity, Figure | None, float | None]] = [
        ("size", "bytes", size, baseline.size_bytes),
        ("peak memory", "bytes", facts.memory.peak(), baseline.memory_bytes),
    ]
    for one in facts.placed.values():
        latency = None if one.estimate is None else one.estimate.latency
        seconds, share = baseline.latency_s.get(one.subject), baseline.neural_engine.get(one.subject)
        figures.append((f"latency on {one.subject}", "seconds", latency, seconds))
        figures.append((f"share on the Neural Engine of {one.subject}", "share", one.on_engine, share))
        if seconds is None and share is None:
            yield _not_in_baseline(one.subject)
    remark = baseline.remark(Path(file_of(facts.model)).name)
    before_bytes = baseline.size_bytes or 0.0
    if (unknown := _incomplete(facts, "baseline", "size", before_bytes)) is not None:
        yield unknown
        del figures[0]
    for name, quantity, now, before in figures:
        if now is not None and before is not None:
            yield _no_worse(name, quantity, now, before, limits.tolerance, remark)


def _not_in_baseline(subject: str) -> CheckResult:
    return CheckResult(
        kind="baseline",
        subject=subject,
        quantity="seconds",
        limit=0.0,
        value=None,
        verdict="unknown",
        text=f"the baseline has no figures of {subject}",
        hint="make it with --max-latency DEVICE=TIME, or by `coremlscope profile` with --device and --json",
    )


def _no_worse(
    name: str, quantity: Quantity, found: Figure, before: float, tolerance: float, note: str
) -> CheckResult:
    is_better_above = quantity == "share"
    now = found.value
    limit = before * (1 - tolerance) if is_better_above else before * (1 + tolerance)
    is_kept = now >= limit if is_better_above else now <= limit
    change = f", {(now / before - 1) * 100:+.1f} %" if before else ""
    was, is_now = format_quantity(before, quantity), format_quantity(now, quantity)
    return CheckResult(
        kind="baseline",
        subject=name,
        quantity=quantity,
        limit=limit,
        value=_exactly(now, found.origin),
        verdict="pass" if is_kept else "fail",
        text=f"{name} was {was} and is {is_now}{change}; the tolerance is {tolerance * 100:g} %{note}",
        hint="" if is_kept else _HINTS["baseline"],
    )


def format_quantity(value: float, quantity: Quantity) -> str:
    """Formats a number with its unit."""
    match quantity:
        case "seconds":
            return format_duration(value)
        case "bytes":
            return format_bytes(value)
        case "share":
            return f"{value * 100:.1f} %"
        case "version":
            return f"{value:g}"
        case "decibels":
            return f"{value:.1f} dB"
        case "operations":
            return _operations(int(value))
