"""Reads, plans and estimates models for devices, and says in few words what a user wants to know first."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec.structs

from coremlscope.api.assemble import assemble
from coremlscope.api.models import Source, name_of, read
from coremlscope.api.own_measurements.using import choose_own
from coremlscope.base.errors import CoremlscopeError, UnsupportedModelError, UsageError
from coremlscope.base.figures import Figure
from coremlscope.base.findings import Finding
from coremlscope.base.units import format_duration, format_per_second, shown
from coremlscope.describe.comparison.change import change_of_figures
from coremlscope.describe.comparison.profiles import label_subjects
from coremlscope.devices import SETTINGS, Device, find_devices
from coremlscope.devices.catalog import DEFAULT_DEVICES
from coremlscope.devices.unit import NEURAL_ENGINE, SETTING_WORDS, UNIT_WORDS, ComputeUnits
from coremlscope.measure.contract import Progress
from coremlscope.model.ir import Model
from coremlscope.planning.cost.latency.own import Own
from coremlscope.planning.forecast.generation import estimate_generation
from coremlscope.planning.forecast.planner import Forecast, forecast
from coremlscope.planning.hazards.summary import describe_model
from coremlscope.results.answer import Answer, Speed
from coremlscope.results.estimate import Bound, Estimate
from coremlscope.results.generation import GenerationPhase, TokenRate, TokenTiming
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import PlanView
from coremlscope.results.profile import Profile
from coremlscope.runtime.execution.binding import sharing_bindings
from coremlscope.runtime.execution.sequence_lengths import choose_lengths
from coremlscope.studies.answer.again import Again
from coremlscope.studies.answer.proposals import find_proposals, find_together
from coremlscope.studies.answer.repeats import find_equal_blocks
from coremlscope.studies.answer.settings import choose_setting

#: What a prediction waits for.
_WAITS: Mapping[Bound, str] = {
    "compute": "arithmetic",
    "weights": "reading weights",
    "activations": "moving activations",
    "dispatch": "starts of units and operations",
    "switches": "changes of unit",
}
#: Times that differ by less are the same.
_SAME = 1.03
_MEMORY: tuple[Bound, ...] = ("weights", "activations")
_DEFAULT: tuple[ComputeUnits, ...] = ("all",)
#: Findings that say why nothing is estimated.
_NO_ESTIMATE = ("not-estimated", "loop-not-estimated", "left-out")


def answer_models(
    *sources: Source,
    devices: str | Sequence[str] = (),
    os: str | None = None,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    calibrated: bool = True,
    progress: Progress | None = None,
) -> tuple[Answer, tuple[Profile, ...]]:
    """Answers how fast models are on devices, where the time goes, and what to change.

    Nothing is run, except on a Mac without `devices`: there Core ML measures a single model, for this Mac
    (not yet confirmed on a device). Several models are compared with each other.

    Args:
        *sources: The models. Weights may be absent.
        devices: Chips or devices; by default phones and Macs of this year, of two and of five years ago.
        os: The version of their systems; the newest known one of each by default.
        function: The function; None for the default one.
        shapes: Shapes of flexible inputs, instead of the defaults.
        calibrated: Uses your own measurements of the devices.
        progress: Called while Core ML measures, with the phase, the repetitions done, and how many there will
            be.

    Returns:
        The answer, and a profile of each model with the plans and estimates that it follows from.

    Raises:
        ModelError: A model cannot be read.
        InputError: A shape is not allowed.
        UsageError: A device or the function is unknown.
    """
    with sharing_bindings():
        return _answer(sources, devices, os, function, shapes or {}, progress, calibrated=calibrated)


def _answer(
    sources: Sequence[Source],
    devices: str | Sequence[str],
    os: str | None,
    function: str | None,
    shapes: Mapping[str, Sequence[int]],
    progress: Progress | None,
    *,
    calibrated: bool,
) -> tuple[Answer, tuple[Profile, ...]]:
    is_single = len(sources) == 1
    mac = _this_mac() if is_single and not devices and os is None else None
    chosen = [mac] if mac is not None else find_devices(devices or DEFAULT_DEVICES, os)
    found = []
    for source in sources:
        subject = _Subject(read(source), function, shapes)
        profile = _profile(subject, chosen, calibrated=calibrated, with_advice=is_single)
        if mac is not None:
            profile = _measured(profile, source, subject, progress)
        found.append((subject, profile))
    names, profiles = (
        label_subjects([name_of(source) for source in sources]),
        tuple(profile for _, profile in found),
    )
    answer = Answer(
        models=tuple(names),
        path=name_of(sources[0]) if is_single else "",
        verdict="",
        speeds=tuple(_speeds(names, profiles, chosen)),
        is_default=not devices and mac is None,
        notes=tuple(dict.fromkeys(text for profile in profiles for text in _notes(profile))),
    )
    answer = msgspec.structs.replace(answer, verdict=_verdict(names, answer.speeds, profiles))
    if is_single and answer.speeds:
        subject, profile = found[0]
        again = Again(subject.model, chosen[0], _DEFAULT[0], function, subject.shapes)
        answer = _with_reasons(answer, profile, chosen[0], again)
    if is_single:
        profiles = (msgspec.structs.replace(profiles[0], answer=answer),)
    return answer, profiles


class _Subject:
    """A model and what was asked of it.

    Args:
        model: The model.
        function: The function; None for the default one.
        asked: The requested shapes of inputs.
    """

    def __init__(self, model: Model, function: str | None, asked: Mapping[str, Sequence[int]]) -> None:
        self.model, self.function, self.asked = model, function, asked
        self.shapes = choose_lengths(model, function, asked)


def _speeds(names: Sequence[str], profiles: Sequence[Profile], devices: Sequence[Device]) -> Iterator[Speed]:
    """Yields the speeds that are estimated, by device."""
    for device in devices:
        for name, profile in zip(names, profiles, strict=True):
            speed = _speed(name, profile, device)
            if speed is not None:
                yield speed


def _profile(subject: _Subject, devices: Sequence[Device], *, calibrated: bool, with_advice: bool) -> Profile:
    """Plans and estimates a model under every setting; advice is for the first device alone."""
    model, function, shapes = subject.model, subject.function, subject.shapes
    summary = describe_model(model, shapes, function=function, list_ops=True)
    own, remarks = choose_own(is_used=calibrated)
    try:
        found = _forecast(subject, summary.ops, devices, own=own, with_advice=with_advice)
    except UnsupportedModelError as error:
        # A model of a kind whose time nobody knows is described all the same.
        text = f"{error.message[:1].upper()}{error.message[1:]}."
        finding = Finding(id="not-estimated", severity="warning", text=text, hint=error.hint)
        return assemble(summary, findings=[*remarks, finding])
    rates = estimate_generation(
        model,
        devices,
        _DEFAULT,
        function=function,
        shapes=subject.asked,
        own=own,
        known=[one for one in found.estimates if one.compute_units in _DEFAULT],
    )
    return assemble(summary, forecast=msgspec.structs.replace(found, rates=rates), findings=remarks)


def _forecast(
    subject: _Subject, ops: OpTable, devices: Sequence[Device], *, own: Own, with_advice: bool
) -> Forecast:
    """Plans and estimates a model under every setting, with advice for the first device alone."""
    make = partial(
        forecast,
        subject.model,
        ops,
        settings=tuple(SETTINGS),
        function=subject.function,
        shapes=subject.shapes,
        own=own,
    )
    first = make(devices[:1], with_advice=with_advice)
    if len(devices) == 1:
        return first
    rest = make(devices[1:], with_advice=False)
    return msgspec.structs.replace(
        first,
        plans=(*first.plans, *rest.plans),
        estimates=(*first.estimates, *rest.estimates),
        findings=tuple(dict.fromkeys((*first.findings, *rest.findings))),
    )


def _this_mac() -> Device | None:
    """Returns the Mac that this runs on; None elsewhere, and for a Mac that is not known."""
    if sys.platform != "darwin":
        return None
    from coremlscope.measure.coreml.plan import this_mac

    try:
        return this_mac()
    except UsageError:
        return None


def _measured(profile: Profile, source: Source, subject: _Subject, progress: Progress | None) -> Profile:
    """Adds what Core ML measures on this Mac; a finding where it cannot."""
    from coremlscope.api.profiles import profile as measure
    from coremlscope.model.subject import Subject

    try:
        found = measure(Subject(source, subject.function, subject.shapes), engine="coreml", progress=progress)
    except CoremlscopeError as error:
        finding = Finding(id="not-measured", severity="warning", text=f"{error.message}.", hint=error.hint)
        return msgspec.structs.replace(profile, findings=(*profile.findings, finding))
    return msgspec.structs.replace(
        profile,
        measurements=found.measurements,
        findings=tuple(dict.fromkeys((*profile.findings, *found.findings))),
    )


def _measured_latency(profile: Profile) -> Figure | None:
    """Returns the median of the measured predictions with its 95 % interval; None without any."""
    for one in profile.measurements:
        if one.predict is not None:
            return TokenTiming.figures(1, one.predict)[0]
    return None


def _estimates_on(profile: Profile, device: Device) -> dict[str, Estimate]:
    """Returns the estimates of a device by setting, the default one first."""
    key = device.name, str(device.os)
    return {one.compute_units: one for one in profile.estimates if (one.device, one.os) == key}


def _speed(name: str, profile: Profile, device: Device) -> Speed | None:
    """Returns the speed of a model on a device; None where nothing is estimated."""
    estimates = _estimates_on(profile, device)
    if not estimates:
        return None
    default = next(iter(estimates.values()))
    rates = [one for one in profile.rates if (one.device, one.os) == (default.device, default.os)]
    return Speed(
        model=name,
        device=default.device,
        chip=default.chip,
        os=default.os,
        latency=_measured_latency(profile) or default.latency,
        is_at_least=default.is_at_least,
        is_extrapolated=default.basis == "extrapolated",
        placement=default.placement,
        best=choose_setting(estimates),
        tokens_per_s=_rate(rates, "decode"),
        prompt_tokens_per_s=_rate(rates, "prefill"),
    )


def _rate(rates: Sequence[TokenRate], phase: GenerationPhase) -> Figure | None:
    return next((one.tokens_per_s for one in rates if one.phase == phase), None)


def _with_reasons(answer: Answer, profile: Profile, device: Device, again: Again) -> Answer:
    """Adds where the time on a device goes, why not on the Neural Engine, and what to change."""
    estimates = _estimates_on(profile, device)
    default = next(iter(estimates.values()))
    view = profile.view_of(default)
    proposals = find_proposals(profile, estimates, again)
    has_gain = any(one.certainty != "no gain" for one in proposals)
    return msgspec.structs.replace(
        answer,
        device=device.name,
        waits=_waits(default),
        kinds=_kinds(profile, default),
        blocks=find_equal_blocks(profile.kernels_of(default), default),
        off_engine=() if view is None else tuple(_off_engine(view)),
        proposals=tuple(proposals),
        together=find_together(profile, default, again, proposals),
        nothing="" if has_gain else _nothing(default),
        trust=default.trust,
    )


def _waits(default: Estimate) -> tuple[tuple[str, float], ...]:
    shares = {_WAITS[part]: seconds / default.latency.value for part, seconds in default.parts.items()}
    return tuple(sorted(shares.items(), key=lambda pair: -pair[1]))


def _nothing(default: Estimate) -> str:
    """What stands in place of advice: what most of the time is spent on."""
    shares: Counter[str] = Counter()
    for part, seconds in default.parts.items():
        shares["memory traffic" if part in _MEMORY else _WAITS[part]] += seconds / default.latency.value  # type: ignore[assignment]
    return "".join(f"nothing found: {share * 100:.0f} % is {what}" for what, share in shares.most_common(1))


def _kinds(profile: Profile, default: Estimate) -> tuple[tuple[str, float], ...]:
    """Returns the shares of the kinds of kernels; what belongs to no kernel is left out."""
    shares: Counter[str] = Counter()
    for kernel, seconds in zip(profile.kernels_of(default), default.kernel_s, strict=False):
        shares[kernel.kind] += seconds / default.latency.value  # type: ignore[assignment]
    return tuple(sorted(shares.items(), key=lambda pair: -pair[1]))


def _off_engine(view: PlanView) -> Iterator[str]:
    """Yields why operations that could be on the Neural Engine are elsewhere."""
    for one in view.setting.what_ifs:
        if one.unit == NEURAL_ENGINE and one.hypothesis in ("without", "moved"):
            ops = view.at(one.ops)
            example = next((op.name for op in ops if not op.inserted), "")
            such = f" (such as {shown(example)})" if example else ""
            yield f"{len(one.ops)} operation{'s' if len(one.ops) != 1 else ''}: {one.reason}{such}"


def _verdict(names: Sequence[str], speeds: Sequence[Speed], profiles: Sequence[Profile]) -> str:
    if not speeds:
        why = [one.text for profile in profiles for one in profile.findings if one.id in _NO_ESTIMATE]
        return f"No latency is estimated. {' '.join(dict.fromkeys(why))}".strip()
    if len(names) > 1:
        return _compared(names, speeds)
    first, slowest = speeds[0], max(speeds, key=lambda one: one.latency.value)
    verdict = f"{names[0]}: {_spoken(first)} on {first.device}{_ran_on(first)}"
    if slowest.latency.value > _SAME * first.latency.value:
        verdict += f"; {_spoken(slowest)} on {slowest.device}, the slowest of {len(speeds)}"
    if first.best.certainty == "likely":
        best = first.best
        verdict += f"; likely {format_duration(best.latency.value)} with {SETTING_WORDS[best.compute_units]}"
    return f"{verdict}."


def _spoken(speed: Speed) -> str:
    """The speed in words: tokens per second of a language model, else the time of a prediction."""
    if speed.tokens_per_s is not None:
        return f"about {format_per_second(speed.tokens_per_s.value)} tokens per second"
    about = "at least" if speed.is_at_least else "about"
    if speed.latency.origin == "measured":
        return f"{format_duration(speed.latency.value)} a prediction, measured,"
    return f"{about} {format_duration(speed.latency.value)} a prediction"


def _ran_on(speed: Speed) -> str:
    if not speed.placement:
        return ""
    unit = max(speed.placement, key=lambda unit: speed.placement[unit])
    return f", {speed.placement[unit] * 100:.0f} % of the estimated time on {UNIT_WORDS[unit]}"


def _compared(names: Sequence[str], speeds: Sequence[Speed]) -> str:
    """Says which of several models is faster, and by how much on which devices."""
    by_device: dict[str, dict[str, Figure]] = {}
    for speed in speeds:
        by_device.setdefault(speed.device, {})[speed.model] = speed.best.latency
    whole = [one for one in by_device.values() if len(one) == len(names)]
    if not whole:
        return "Not all of these models can be estimated on one device."
    winners = Counter(min(one, key=lambda name: one[name].value) for one in whole)
    name, wins = winners.most_common(1)[0]
    rivals = [min((one[n] for n in one if n != name), key=lambda figure: figure.value) for one in whole]
    ratios = sorted(rival.value / one[name].value for rival, one in zip(rivals, whole, strict=True))
    if ratios[-1] < _SAME and ratios[0] > 1 / _SAME:
        return f"No difference: {_listed(names)} take the same time on {_devices(len(whole))}."
    changes = [change_of_figures(one[name], rival) for rival, one in zip(rivals, whole, strict=True)]
    unclear = sum(change.verdict == "unclear" for change in changes)
    where = _devices(len(whole)) if wins == len(whole) else f"{wins} of {len(whole)} devices"
    by = [f"{ratio:.2g}" for ratio in (ratios[0], ratios[-1])]
    times = by[0] if by[0] == by[1] else f"{by[0]} to {by[1]}"
    others = "the other" if len(names) == 2 else "the next"
    factor = f"{times} times as fast as {others}"
    if unclear == len(whole):
        return f"Unclear: {name} is estimated {factor} on {where}, but the intervals overlap."
    doubt = f"; intervals overlap on {unclear} of {len(whole)}" if unclear else ""
    return f"{name} is the fastest on {where}: {factor}, at the best settings{doubt}."


def _devices(count: int) -> str:
    return "the device" if count == 1 else f"all {count} devices"


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _notes(profile: Profile) -> Iterator[str]:
    """Yields what limits the figures of a model: absent weights, warnings and errors."""
    if profile.model.missing_weights:
        yield "the weights are absent: figures follow from the sizes that the program declares"
    for one in profile.findings:
        if one.severity != "info" and one.id not in _NO_ESTIMATE:
            yield one.text
    for estimate in list(profile.estimates)[:1]:
        if estimate.left_out:
            yield f"at least, without {', '.join(estimate.left_out)}: unknown"
