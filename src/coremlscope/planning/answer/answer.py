"""Makes the answers of a model: one for each device and setting, from the plans and estimates of all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from coremlscope.base.errors import UsageError
from coremlscope.base.findings import Finding
from coremlscope.base.units import format_duration, format_per_second
from coremlscope.devices import Device, find_device
from coremlscope.devices.unit import SETTING_WORDS, ComputeUnits
from coremlscope.model.ir import Model
from coremlscope.planning.answer.again import Again, ChangedModels
from coremlscope.planning.answer.changes import (
    Subject,
    change_against_hazard,
    change_of_setting,
    changes_of_model,
    find_best,
    rank,
)
from coremlscope.planning.answer.doubts import Doubt, compare_published, describe_trust, find_doubts
from coremlscope.planning.answer.hazards import find_on_every_unit, find_on_system, find_under, is_met
from coremlscope.planning.answer.time import find_held_time, main_unit_words, split_time
from coremlscope.planning.cost.latency.own import NOTHING_OWN, Own
from coremlscope.planning.forecast.planner import Forecast
from coremlscope.results.answer import Answer, AnswerTrust, Certainty, Proposal, TokenSpeed
from coremlscope.results.estimate import Estimate
from coremlscope.results.hazard import Hazard
from coremlscope.results.model import ModelSummary
from coremlscope.results.plan import Plan, PlanView
from coremlscope.results.profile import Profile

#: What an answer assumes of models that Core ML does not load as they are, by their container.
_CONDITIONS = {"onnx": "converted by coremltools as a whole, "}
#: The least tokens of a vocabulary: classifiers of texts and images have fewer classes.
_LEAST_VOCABULARY = 2048


def make_answers(
    model: Model,
    summary: ModelSummary,
    found: Forecast,
    devices: Sequence[Device],
    settings: Sequence[ComputeUnits],
    *,
    asked: Sequence[ComputeUnits],
    advised: Sequence[ComputeUnits],
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    own: Own = NOTHING_OWN,
) -> tuple[Answer, ...]:
    """Makes the answers of a model: one for each device and setting, in that order.

    Args:
        model: The model.
        summary: Its description, with the op table of the forecast.
        found: The plans and estimates of all devices and settings.
        devices: The devices.
        settings: The settings that were planned.
        asked: Those that were asked for: under them changed models are planned again.
        advised: Those for which the forecast looked for advice; without any, answers have no changes of the
            model.
        function: The function; None for the default one.
        shapes: Shapes of flexible inputs.
        own: A user's own measurements, which refine estimates.
    """
    changed = ChangedModels(model, function, shapes or {}, own)
    hazards = find_on_every_unit(model)
    answers: list[Answer] = []
    for device in devices:
        one = _OnDevice(summary, found, device, (*find_on_system(model, device.os), *hazards))
        for setting in (*asked, *(unit for unit in settings if unit not in asked)):
            answer = one.answer(setting, is_asked=setting in asked)
            shown = one.estimates.get(setting)
            if shown is not None:
                again = None
                if setting in asked and advised:
                    again = Again(model, device, setting, settings, advised, changed)
                answer = one.with_changes(answer, shown, changed, again)
            answers.append(replace(answer, headline=_headline(answer, summary.container)))
    return tuple(answers)


def answers_of(profile: Profile) -> tuple[Answer, ...]:
    """Returns the answers of a profile. Where it has none they are made of its plans and estimates.

    Those have no changes, and no hazards that only the model itself shows.
    """
    if profile.answers or not profile.estimates:
        return profile.answers
    # Estimates follow from plans by rules.
    plans = tuple(plan for plan in profile.plans if plan.planner == "rules")
    found = Forecast(
        plans=plans,
        kernels=profile.kernels,
        estimates=profile.estimates,
        findings=profile.findings,
        rates=profile.rates,
    )
    return answer_forecast(replace(profile.model, ops=profile.ops), found)


def answer_forecast(summary: ModelSummary, found: Forecast) -> tuple[Answer, ...]:
    """Makes the answers of the settings that were planned, without changes and hazards of the model itself.

    Args:
        summary: The description of the model, with the op table of the forecast.
        found: The plans and estimates.
    """
    answers: list[Answer] = []
    for name, system in dict.fromkeys((one.device, one.os) for one in found.estimates):
        try:
            one = _OnDevice(summary, found, find_device(name, system), ())
        except UsageError:  # a device that this version does not know
            continue
        answers += map(one.summarised, one.estimates)
    return tuple(answers)


class _OnDevice:
    """The plans and estimates of one device.

    Args:
        summary: The description of the model.
        found: The plans and estimates.
        device: The device.
        hazards: Those of the model on every unit.
    """

    def __init__(
        self, summary: ModelSummary, found: Forecast, device: Device, hazards: Sequence[Hazard]
    ) -> None:
        self.summary, self.ops, self.found, self.device = summary, summary.ops, found, device
        key = device.name, str(device.os)
        self.plan: Plan | None = next((p for p in found.plans if (p.device, p.os) == key), None)
        self.estimates: dict[ComputeUnits, Estimate] = {
            one.compute_units: one for one in found.estimates if (one.device, one.os) == key
        }
        self.rates = [one for one in found.rates if (one.device, one.os) == key]
        settings = () if self.plan is None else [one.compute_units for one in self.plan.settings]
        self.hazards = {setting: find_under(self._view(setting), hazards) for setting in settings}
        self.on_every_unit = hazards
        self.doubts: dict[ComputeUnits, list[Doubt]] = {}

    def _view(self, setting: ComputeUnits) -> PlanView | None:
        planned = None if self.plan is None else self.plan.setting(setting)
        return None if self.plan is None or planned is None else self.plan.view(planned)

    def _doubts(self, setting: ComputeUnits) -> list[Doubt]:
        if setting not in self.doubts:
            planned = None if self.plan is None else self.plan.setting(setting)
            estimate = self.estimates[setting]
            kernels = estimate.kernels or self.found.kernels
            self.doubts[setting] = find_doubts(kernels, self.ops, self.plan, planned, estimate)
        return self.doubts[setting]

    def answer(self, setting: ComputeUnits, *, is_asked: bool) -> Answer:
        """Returns the answer under a setting, without changes."""
        shown, device = self.estimates.get(setting), self.device
        hazards = self.hazards.get(setting) or find_under(None, self.on_every_unit)
        bare = Answer(
            model=self.summary.path,
            device=device.name,
            chip=device.chip.id,
            os=str(device.os),
            compute_units=setting,
            is_asked=is_asked,
            is_hazardous=any(map(is_met, hazards)),
            hazards=hazards,
            trust=AnswerTrust(certainty="unknown", doubts=tuple(_why_unknown(self.found.findings))),
        )
        if shown is None:
            return bare
        planned = None if self.plan is None else self.plan.setting(setting)
        kernels = shown.kernels or self.found.kernels
        return replace(
            bare,
            latency=shown.latency,
            is_at_least=shown.is_at_least,
            is_extrapolated=shown.basis == "extrapolated",
            units=shown.placement,
            tokens=self._tokens(setting),
            load=shown.load,
            time=split_time(kernels, shown, with_blocks=is_asked),
            why=()
            if self.plan is None or planned is None
            else find_held_time(kernels, self.ops, self.plan, planned, shown),
            trust=describe_trust(
                self._doubts(setting), *compare_published(self.summary.path, self.found.structure, shown)
            ),
        )

    def _tokens(self, setting: ComputeUnits) -> TokenSpeed | None:
        rates = {one.phase: one for one in self.rates if one.compute_units == setting}
        if not rates:
            why = _why_no_rate(self.summary)
            return TokenSpeed(unknown=why) if why else None
        decode, prefill = rates.get("decode"), rates.get("prefill")
        return TokenSpeed(
            decode=None if decode is None else decode.tokens_per_s,
            prefill=None if prefill is None else prefill.tokens_per_s,
            context=max(one.context for one in rates.values()),
        )

    def with_changes(
        self, answer: Answer, shown: Estimate, changed: ChangedModels, again: Again | None
    ) -> Answer:
        """Returns an answer with the best setting, and with what to change.

        Args:
            answer: The answer.
            shown: The estimate that it is about.
            changed: The changed models.
            again: The model on the device, to be planned again; None where only settings are compared.
        """
        subject = Subject(
            path=self.summary.path,
            container=self.summary.container,
            device=self.device,
            certainty=answer.trust.certainty,
            findings=self.found.findings,
            changed=changed,
        )
        changes: list[Proposal] = []
        others = self._others(shown.compute_units)
        if not shown.left_out:
            best = find_best(shown, others, self._certainties())
            changes += change_of_setting(subject, shown, best, others)
            answer = replace(answer, best=best)
        view = self._view(shown.compute_units)
        if again is not None and view is not None:
            changes += changes_of_model(subject, shown, view, again)
        ranked = rank(changes, shown, answer.time, has_settings_alone=again is None)
        if any(one.units and is_met(one) for one in self.hazards[shown.compute_units]):
            ranked = (*change_against_hazard(subject, others), *ranked)
        return replace(answer, changes=ranked)

    def summarised(self, setting: ComputeUnits) -> Answer:
        """Returns the answer under a setting with the best setting of the device, without changes."""
        answer, shown = self.answer(setting, is_asked=True), self.estimates[setting]
        if shown.left_out:
            return answer
        return replace(answer, best=find_best(shown, self._others(setting), self._certainties()))

    def _certainties(self) -> dict[ComputeUnits, Certainty]:
        return {s: describe_trust(self._doubts(s)).certainty for s in self.estimates}

    def _others(self, shown: ComputeUnits) -> dict[ComputeUnits, Estimate]:
        """Returns the estimates of the other settings without hazards."""
        return {
            setting: one
            for setting, one in self.estimates.items()
            if setting != shown and not self._is_hazardous(setting)
        }

    def _is_hazardous(self, setting: ComputeUnits) -> bool:
        """Returns whether a setting leads into a hazard of a unit, or may do so."""
        return any(
            one.units and is_met(replace(one, is_certain=True)) for one in self.hazards.get(setting, ())
        )


def _why_unknown(findings: Sequence[Finding]) -> Iterator[str]:
    """Yields why nothing is estimated."""
    known = [one.text for one in findings if one.id in ("not-estimated", "loop-not-estimated", "left-out")]
    yield from known or ["nothing is estimated for models of this kind"]


def _why_no_rate(summary: ModelSummary) -> str:
    """Returns why a model of language has no tokens per second; empty for other models."""
    function = summary.functions[0]
    takes_ids = any(one.type.startswith("int32 ") and one.shape for one in function.inputs)
    if not takes_ids or not any((one.shape or (0,))[-1] >= _LEAST_VOCABULARY for one in function.outputs):
        return ""
    if function.states:
        return "no tokens per second: its states do not show how many tokens a prediction adds"
    return "no tokens per second: it keeps no keys and values, so each new token takes a whole prediction"


def _headline(answer: Answer, container: str) -> str:
    """The answer in a sentence: the worst hazard, the speed, one doubt, and the first change.

    The certainty of the change is said in a word of its own only where it differs from that of the speed.

    Args:
        answer: The answer.
        container: That of the model. Core ML runs no ONNX models: the answer is that of a converted one.
    """
    hazard = next(filter(is_met, answer.hazards), None)
    text = "" if hazard is None else f"{hazard.text[:1].upper()}{hazard.text[1:]}. "
    if answer.latency is None:
        why = re.sub("^No latency is estimated(, because|:) ", "", answer.trust.doubts[0])
        return f"{text}No latency is estimated: {why.rstrip('.')}."
    is_refused = hazard is not None and hazard.kind == "refused"
    condition = "if it loaded, " if is_refused else _CONDITIONS.get(container, "")
    spoken = f"{condition}{_spoken(answer)}"
    text += f"{spoken[:1].upper()}{spoken[1:]}" if text else spoken
    text += f" on {answer.device}"
    if answer.compute_units != "all":
        text += f" with {SETTING_WORDS[answer.compute_units]}"
    if answer.units:
        text += f", {main_unit_words(answer.units)}"
    if answer.trust.doubts:
        text += f"; {answer.trust.certainty}: {answer.trust.doubts[0]}"
    for first in answer.changes[:1]:
        if first.id == "avoid":
            text += f"; {first.text}"
        elif first.after is not None:
            word = "likely" if first.certainty == "likely" else "perhaps"
            text += f"; {word} {format_duration(first.after.value)}: {first.text.partition(';')[0]}"
    return f"{text}."


def _spoken(answer: Answer) -> str:
    """The speed in words: tokens per second of a language model, else the time of a prediction."""
    assert answer.latency is not None
    if answer.tokens is not None and answer.tokens.decode is not None:
        rate = format_per_second(answer.tokens.decode.value)
        return f"about {rate} tokens per second with a context of {answer.tokens.context}"
    word = "at least" if answer.is_at_least else "about"
    return f"{word} {format_duration(answer.latency.value)} a prediction"
