"""What to change in a model or an app, in one list, by the time that it saves on one device."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from coremlscope.base.figures import Figure
from coremlscope.base.findings import Finding, Saving
from coremlscope.base.units import format_duration
from coremlscope.devices import Device, find_device
from coremlscope.devices.unit import NEURAL_ENGINE, SETTING_WORDS, UNIT_WORDS, ComputeUnits
from coremlscope.planning.answer.again import Again, ChangedModels
from coremlscope.planning.answer.doubts import worst
from coremlscope.planning.answer.settings import compare_settings, judge_gain, main_unit
from coremlscope.planning.forecast.model_findings import TOGETHER
from coremlscope.results.answer import Certainty, Proposal, SettingChoice, TimePart
from coremlscope.results.estimate import Estimate
from coremlscope.results.plan import PlanView, WhatIf

#: The properties of settings in Swift.
_CODE: Mapping[ComputeUnits, str] = {
    "all": "configuration.computeUnits = .all",
    "cpu_and_ne": "configuration.computeUnits = .cpuAndNeuralEngine",
    "cpu_and_gpu": "configuration.computeUnits = .cpuAndGPU",
    "cpu_only": "configuration.computeUnits = .cpuOnly",
}
#: Settings that allow fewer units come first where they take as long.
_STRICTEST: tuple[ComputeUnits, ...] = ("cpu_only", "cpu_and_ne", "cpu_and_gpu", "all")
#: The share of streaming weights in the time above which fewer bits are tried, and the bits of a weight.
_WEIGHTY, _BITS = 0.1, 8
#: Containers whose weights coremltools does not compress, and that `what-if` does not change.
_FINISHED = ("mlmodelc", "aimodel")
#: The share of the time below which nothing is gained.
LEAST_GAIN = 0.01
#: A setting that takes less than this share of the time is named among the first changes.
_MUCH_FASTER = 0.8
#: Models that are planned again on a device: each costs two fifths of its plans and estimates.
_PLANNED_AGAIN = 1
#: More reasons than these are not looked at one by one.
_MOST = 12
#: The first version of iOS, or that of macOS of the same year, with float16 arrays and images.
_HALF_SINCE = (16, 0)
_HALF_EDGES = frozenset({"fp16-io", "image-inputs", "image-inputs-unit", "image-inputs-imagenet"})


class Subject(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What changes are looked for.

    Attributes:
        path: The path of the model, as the user wrote it.
        container: Its container.
        device: The chip and system.
        certainty: The worst of the doubts about the estimate under the setting.
        findings: Those on the model.
        changed: The changed models.
    """

    path: str
    container: str
    device: Device
    certainty: Certainty
    findings: Sequence[Finding]
    changed: ChangedModels

    def command(self, verb: str, options: str) -> str:
        """Returns a command on the model: `coremlscope VERB PATH OPTIONS`."""
        return f"coremlscope {verb} {shlex.quote(self.path)} {options}" if self.path else ""

    @property
    def on_device(self) -> str:
        """The options that name the device and, where it is not the newest one, its system."""
        device = self.device
        is_newest = find_device(device.name).os == device.os
        version = f"{device.os.major}.{device.os.minor}" if device.os.minor else str(device.os.major)
        return f"--device {shlex.quote(device.name)}{'' if is_newest else f' --os {version}'}"

    def trying(self, transform: str) -> str:
        """Returns the command that makes the changed model."""
        is_absent = any(file.size is None for file in self.changed.model.weight_files)
        return self.command("what-if", f"--try {transform}{' --random-weights' if is_absent else ''}")


def find_best(
    shown: Estimate, others: Mapping[ComputeUnits, Estimate], doubts: Mapping[ComputeUnits, Certainty]
) -> SettingChoice:
    """Returns the fastest setting of a device.

    Args:
        shown: The estimate under the setting that is shown.
        others: Those of the other settings without hazards.
        doubts: The worst doubt of each setting.
    """
    same = SettingChoice(
        compute_units=shown.compute_units,
        latency=shown.latency,
        certainty="likely",
        unit=main_unit(shown.placement),
    )
    fastest = min(others.values(), key=_by_time, default=shown)
    if _gain(shown, fastest) < LEAST_GAIN:
        return same
    latency, certainty = compare_settings(shown, fastest)
    known = doubts[shown.compute_units], doubts[fastest.compute_units]
    return replace(
        same,
        compute_units=fastest.compute_units,
        latency=latency,
        certainty=worst((certainty, *known)),
        unit=main_unit(fastest.placement),
    )


def change_of_setting(
    subject: Subject, shown: Estimate, best: SettingChoice, others: Mapping[ComputeUnits, Estimate]
) -> Iterator[Proposal]:
    """Yields the change of the setting, if another one is faster; all that are much faster are named.

    Args:
        subject: What is asked about.
        shown: The estimate under the setting that is shown.
        best: The fastest setting.
        others: The estimates of the other settings without hazards.
    """
    units = best.compute_units
    if units == shown.compute_units:
        return
    same = [
        one.compute_units
        for one in others.values()
        if one.latency.value == best.latency.value and one.compute_units != units
    ]
    faster = [
        f"{SETTING_WORDS[one.compute_units]} ({format_duration(one.latency.value)})"
        for one in sorted(others.values(), key=_by_time)
        if one.compute_units not in (units, *same) and one.latency.value < _MUCH_FASTER * shown.latency.value
    ]
    text = f"load with {' or '.join(SETTING_WORDS[one] for one in (units, *same))}"
    if faster:
        text += f"; also faster: {', '.join(faster)}"
    yield Proposal(
        id="setting",
        text=text,
        certainty=best.certainty,
        before_s=shown.latency.value,
        after=best.latency,
        code=_CODE[units],
        command=subject.command("estimate", f"{subject.on_device} --compute-units {units}"),
    )


def change_against_hazard(subject: Subject, others: Mapping[ComputeUnits, Estimate]) -> Iterator[Proposal]:
    """Yields the fastest setting without hazards, for a model that meets one under the setting that is shown.

    Args:
        subject: What is asked about.
        others: The estimates of the other settings without hazards.
    """
    if others:
        fastest = min(others.values(), key=_by_time)
        units = fastest.compute_units
        yield Proposal(
            id="avoid",
            text=f"load with {SETTING_WORDS[units]} ({format_duration(fastest.latency.value)}), which avoids"
            " what goes wrong",
            certainty=subject.certainty,
            before_s=None,
            code=_CODE[units],
            command=subject.command("estimate", f"{subject.on_device} --compute-units {units}"),
        )


def changes_of_model(subject: Subject, shown: Estimate, view: PlanView, again: Again) -> Iterator[Proposal]:
    """Yields what saves time or space in the model, with the models that can be made planned again.

    Args:
        subject: What is asked about.
        shown: The estimate under the setting.
        view: The plan under it, with what reasons cost.
        again: The model on the device, to be planned again.
    """
    found = [*_findings(subject, shown, again)]
    covered = {id_ for one in found if one.is_planned_again for id_ in one.ops}
    yield from found
    # The changed model says more than a reason on the same operations, also where it is not faster.
    yield from _reasons(subject, view, shown, again, covered)
    yield from _compression(subject, shown, again)


def rank(
    changes: Sequence[Proposal], shown: Estimate, time: Sequence[TimePart], *, has_settings_alone: bool
) -> tuple[Proposal, ...]:
    """Returns changes by gain, overlaps marked; the limit comes first where none saves a visible part.

    What was planned again stands before what was not: a promise of a part may be more than the whole gives.

    Args:
        changes: The changes.
        shown: The estimate that they are about.
        time: Where its time goes.
        has_settings_alone: Whether no change of the model was tried under the setting.
    """
    whole = shown.latency.value
    gaining = [one for one in changes if one.saved_s >= LEAST_GAIN * whole]
    saving = [replace(one, after=None) for one in changes if one not in gaining and one.saved_bytes]
    gaining.sort(key=lambda change: (not change.is_planned_again, -change.saved_s))
    setting = next((one for one in gaining if one.id == "setting"), None)
    if setting is not None and setting.saved_s > (1 - _MUCH_FASTER) * whole:
        # A line of code: named among the first, whatever larger changes of the model save.
        place = gaining.index(setting)
        gaining.insert(min(place, 1), gaining.pop(place))
    marked = [replace(one, overlaps=_overlaps(one, gaining[:place])) for place, one in enumerate(gaining)]
    saving.sort(key=lambda one: -one.saved_bytes)
    if marked or not time:
        return (*marked, *saving)
    first = f"{time[0].share * 100:.0f} % of the time: {time[0].part}"
    saves = f"saves {LEAST_GAIN * 100:.0f} % or more"
    if has_settings_alone:
        text = f"no other setting {saves}, and changes of the model were not tried with this one; {first}"
    else:
        text = f"nothing known {saves}; {first}"
    limit = Proposal(
        id="limit",
        text=text,
        certainty="unknown" if shown.left_out or has_settings_alone else "likely",
        before_s=whole,
        is_planned_again=not has_settings_alone,
    )
    return (limit, *saving)


def _overlaps(one: Proposal, before: Sequence[Proposal]) -> bool:
    """Returns whether changes that save more save some of the same time."""
    ops = set(one.ops)
    return any(other.id == "setting" or not ops.isdisjoint(other.ops) for other in before)


def _by_time(one: Estimate) -> tuple[float, int]:
    return one.latency.value, _STRICTEST.index(one.compute_units)


def _gain(shown: Estimate, other: Estimate) -> float:
    return 1 - other.latency.value / shown.latency.value


def _after(before: Estimate, saved: Figure) -> Figure:
    """Returns the seconds after a saving, with their interval."""
    seconds = before.latency.value
    low, high = max(seconds - saved.high, 0.0), seconds - saved.low
    return Figure(max(seconds - saved.value, 0.0), low, high, "estimated")


def _reasons(
    subject: Subject, view: PlanView, shown: Estimate, again: Again, covered: Collection[str]
) -> Iterator[Proposal]:
    """Yields the fixes of reasons that keep operations off a faster unit, each with its own saving."""
    for one in view.setting.what_ifs[:_MOST]:
        if one.hypothesis != "without" or not one.moved or not one.fix or one.saved_s is None:
            continue
        ops = [view.plan.ops[place] for place in one.ops]
        if all(op.id in covered for op in ops):
            continue
        example = next((op.id for op in ops if not op.inserted), "")
        options = f" --explain {shlex.quote(example)}" if example else ""
        setting = f" --compute-units {shown.compute_units}" if shown.compute_units != "all" else ""
        for text, count, saved in _fixes(one, again):
            operations = "operation" if count == 1 else "operations"
            yield Proposal(
                id=one.rule,
                text=f"{text} ({count} {operations} to {UNIT_WORDS[one.unit]})",
                certainty=worst(("unclear", subject.certainty)),
                before_s=shown.latency.value,
                after=_after(shown, saved),
                is_planned_again=False,
                command=subject.command("plan", f"{subject.on_device}{setting}{options}"),
                ops=tuple(op.id for op in ops),
            )


def _fixes(one: WhatIf, again: Again) -> list[tuple[str, int, Figure]]:
    """Returns the fixes of a reason, each with how many operations move to the unit and what that saves.

    Those that follow others count, as in plans. It is one fix for all where none helps alone.
    """
    assert one.saved_s is not None
    count = one.moved.get(one.unit, 0)
    if not one.fix.startswith("for "):
        return [(one.fix, count, one.saved_s)]
    alone = list(again.by_fix(one.function, one.unit, one.rule))
    if any(saved.value > 0 for *_, saved in alone):
        return alone
    text = " and ".join(fix for fix, *_ in alone[:2])
    return [(text, count, one.saved_s)]


def _saving(finding: Finding, shown: Estimate) -> Saving | None:
    """Returns what a finding saves on the device of an estimate, under its setting."""
    key = shown.device, shown.os, shown.compute_units
    return next((one for one in finding.savings if (one.device, one.os, one.compute_units) == key), None)


def _findings(subject: Subject, shown: Estimate, again: Again) -> Iterator[Proposal]:
    """Yields what findings on the model save; the models of those that promise most are planned again."""
    promised: list[tuple[Finding, Figure | None]] = []
    for one in subject.findings:
        saving = _saving(one, shown)
        saved = None if saving is None else saving.saved_s
        if one.id != TOGETHER and one.hint and (saved is not None or one.saved_bytes):
            promised.append((one, saved))
    promised.sort(key=lambda pair: 0.0 if pair[1] is None else -pair[1].value)
    left = _PLANNED_AGAIN
    for finding, saved in promised:
        transform = finding.transform if _suits(finding.transform, subject.device) else ""
        can_make, is_again = subject.changed.can_make(transform), False
        is_visible = saved is not None and saved.value >= LEAST_GAIN * shown.latency.value
        if is_visible and can_make and left:
            made = subject.changed.after(transform)
            exact = None if made is None else again.changed(made)
            left -= made is not None
            saved, is_again = exact or saved, exact is not None
        after = None if saved is None else _after(shown, saved)
        sure = judge_gain(shown.latency.value, after) if is_again and after is not None else "unclear"
        yield Proposal(
            id=finding.id,
            text=finding.hint,
            certainty=worst((subject.certainty, sure)),
            before_s=shown.latency.value,
            after=after,
            saved_bytes=finding.saved_bytes,
            is_planned_again=is_again,
            command=subject.trying(transform) if can_make else "",
            ops=finding.ops,
        )


def _suits(transform: str, device: Device) -> bool:
    """Returns whether the system of a device loads what a transform makes."""
    return device.os.core_ml >= _HALF_SINCE or _HALF_EDGES.isdisjoint(transform.split("+"))


def _compression(subject: Subject, shown: Estimate, again: Again) -> Iterator[Proposal]:
    """Yields weights of 8 bits, where streaming wider ones takes a visible part of the time."""
    share = shown.parts.get("weights", 0.0) / shown.latency.value
    if share < _WEIGHTY or shown.left_out or NEURAL_ENGINE not in shown.placement:
        return
    saved = again.with_bits(_BITS)
    if saved is None or saved.value <= 0:
        return
    after = _after(shown, saved)
    can_make = subject.container not in _FINISHED and subject.changed.can_make(f"int{_BITS}")
    sure = judge_gain(shown.latency.value, after) if can_make else "unclear"
    yield Proposal(
        id="compression",
        text=f"store weights in {_BITS} bits, and compare the outputs",
        certainty=worst((subject.certainty, sure)),
        before_s=shown.latency.value,
        after=after,
        is_planned_again=can_make,
        code="coremltools.optimize.coreml.linear_quantize_weights(model, config)",
        command=subject.trying(f"int{_BITS}") if can_make else "",
    )
