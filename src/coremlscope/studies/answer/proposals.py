"""What to change in a model or an app, by the time that it saves on one device."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence

from coremlscope.base.figures import Figure
from coremlscope.base.findings import Finding, Saving
from coremlscope.devices.unit import NEURAL_ENGINE, SETTING_WORDS, UNIT_WORDS, ComputeUnits
from coremlscope.planning.forecast.model_findings import TOGETHER
from coremlscope.planning.rewrites.transforms import parse_transform, why_not
from coremlscope.results.answer import Proposal
from coremlscope.results.estimate import Estimate
from coremlscope.results.plan import PlanView, WhatIf
from coremlscope.results.profile import Profile
from coremlscope.studies.answer.again import Again
from coremlscope.studies.answer.settings import compare_settings, judge_gain

#: The properties of settings in Swift and in coremltools.
_CODE: Mapping[ComputeUnits, str] = {
    "all": "configuration.computeUnits = .all",
    "cpu_and_ne": "configuration.computeUnits = .cpuAndNeuralEngine",
    "cpu_and_gpu": "configuration.computeUnits = .cpuAndGPU",
    "cpu_only": "configuration.computeUnits = .cpuOnly",
}
#: The share of streaming weights in the time above which fewer bits are tried, and the bits of a weight.
_WEIGHTY, _BITS = 0.1, 8
#: Containers whose weights coremltools does not compress, and that `what-if` does not change.
_FINISHED = ("mlmodelc", "aimodel")
#: More reasons and findings than these are not looked at one by one.
_MOST = 12


def find_proposals(profile: Profile, estimates: Mapping[str, Estimate], again: Again) -> list[Proposal]:
    """Returns what saves time or space on a device, the largest gain first.

    Args:
        profile: The model with its plan and findings on the device, under the default setting.
        estimates: The estimates of the device by setting, the default one first.
        again: The model on the device.
    """
    default, *others = estimates.values()
    found = [*_settings(default, others), *_findings(profile.findings, default, again)]
    view = profile.view_of(default)
    if view is not None:
        # The changed model says more than a reason on the same operations, also where it is not faster.
        checked = {one.id for one in found if one.is_checked}
        covered = {id_ for one in profile.findings if one.id in checked for id_ in one.ops}
        found += _reasons(view, default, again, covered)
    found += _compression(profile, default, again)
    found = [one for one in found if one.certainty != "no gain" or one.saved_bytes]
    return sorted(found, key=_order)


def _order(one: Proposal) -> tuple[float, int]:
    saved = 0.0 if one.after is None or one.certainty == "no gain" else one.before_s - one.after.value
    return -saved, -one.saved_bytes


def find_together(
    profile: Profile, default: Estimate, again: Again, proposals: Sequence[Proposal]
) -> Proposal | None:
    """Returns all findings on a model at once; None if there are fewer than two, or one alone saves as much.

    Args:
        profile: The model with its findings on the device, under the default setting.
        default: The estimate of the device.
        again: The model on the device.
        proposals: What saves time by itself.
    """
    savings = {one: saving for one in profile.findings if (saving := _saving(one, default)) is not None}
    promised = next((saving.saved_s for one, saving in savings.items() if one.id == TOGETHER), None)
    transforms = dict.fromkeys(one.transform for one in savings if one.id != TOGETHER)
    is_checked = all(_can_apply(one, again) for one in transforms)
    joined = "+".join(transforms)
    saved = (again.changed(joined) if is_checked and promised else None) or promised
    after = _after(default, saved)
    ids = {one.id for one in savings}
    alone = [one.after.value for one in proposals if one.after is not None and one.id in ids]
    if after is None or after.value >= min(alone, default=default.latency.value):
        return None
    return Proposal(
        id=TOGETHER,
        text="the changes of the model together",
        certainty=judge_gain(default.latency.value, after, is_confirmed=is_checked),
        before_s=default.latency.value,
        after=after,
        command=_try(joined, again) if is_checked else "",
        is_checked=is_checked,
    )


def _after(before: Estimate, saved: Figure | None) -> Figure | None:
    """Returns the seconds after a saving, with their interval."""
    if saved is None:
        return None
    seconds = before.latency.value
    low, high = max(seconds - saved.high, 0.0), seconds - saved.low
    return Figure(max(seconds - saved.value, 0.0), low, high, "estimated")


def _settings(default: Estimate, others: Sequence[Estimate]) -> Iterator[Proposal]:
    known = set()
    for one in others:
        if one.latency.value in known:
            continue  # the same placement under a stricter setting
        known.add(one.latency.value)
        choice = compare_settings(default, one)
        yield Proposal(
            id="setting",
            text=f"load the model with {SETTING_WORDS[choice.compute_units]}",
            certainty=choice.certainty,
            before_s=default.latency.value,
            after=choice.latency,
            code=_CODE[choice.compute_units],
            command=f"coremlscope estimate MODEL --device {_name(default)} --compute-units every",
        )


def _name(default: Estimate) -> str:
    return shlex.quote(default.device.lower().replace(" ", "-").replace("(", "").replace(")", ""))


def _reasons(view: PlanView, default: Estimate, again: Again, covered: Collection[str]) -> Iterator[Proposal]:
    """Yields the fixes of reasons that keep operations off a faster unit, each with its own saving."""
    for one in view.setting.what_ifs[:_MOST]:
        if one.hypothesis != "without" or not one.moved or not one.fix or one.saved_s is None:
            continue
        ops = view.at(one.ops)
        if all(op.id in covered for op in ops):
            continue
        example = next((op.name for op in ops if not op.inserted), "")
        command = f"coremlscope plan MODEL --device {_name(default)}"
        command += f" --explain {shlex.quote(example)}" if example else ""
        for text, count, saved in _fixes(one, again):
            after = _after(default, saved)
            if after is None:
                continue
            operations = "operation" if count == 1 else "operations"
            yield Proposal(
                id=one.rule,
                text=f"{text} ({count} {operations} to {UNIT_WORDS[one.unit]})",
                certainty=judge_gain(default.latency.value, after, is_confirmed=False),
                before_s=default.latency.value,
                after=after,
                command=command,
                is_checked=False,
            )


def _fixes(one: WhatIf, again: Again) -> list[tuple[str, int, Figure]]:
    """Returns the fixes of a reason with their operations and savings; one for all where none helps alone."""
    assert one.saved_s is not None
    if not one.fix.startswith("for "):
        return [(one.fix, len(one.ops), one.saved_s)]
    alone = list(again.by_fix(one.function, one.unit, one.rule))
    if any(saved.value > 0 for *_, saved in alone):
        return alone
    text = " and ".join(fix for fix, *_ in alone[:2])
    return [(text, len(one.ops), one.saved_s)]


def _saving(finding: Finding, default: Estimate) -> Saving | None:
    """Returns what a finding saves on the device of an estimate, under its setting."""
    key = default.device, default.os, default.compute_units
    return next((one for one in finding.savings if (one.device, one.os, one.compute_units) == key), None)


def _can_apply(transform: str, again: Again) -> bool:
    """Returns whether `what-if` makes the changed model: only what can be made is confirmed by it."""
    return bool(transform) and not why_not(parse_transform(transform), again.model)


def _try(transform: str, again: Again) -> str:
    """Returns the command that makes the changed model."""
    is_absent = any(file.size is None for file in again.model.weight_files)
    return f"coremlscope what-if MODEL --try {transform}{' --random-weights' if is_absent else ''}"


def _findings(findings: Sequence[Finding], default: Estimate, again: Again) -> Iterator[Proposal]:
    for finding in findings:
        if finding.id == TOGETHER or not finding.hint:
            continue
        saving = _saving(finding, default)
        saved = None if saving is None else saving.saved_s
        if saved is None and not finding.saved_bytes:
            continue
        is_checked = _can_apply(finding.transform, again)
        command = _try(finding.transform, again) if is_checked else ""
        before_s = default.latency.value
        if is_checked and saved is not None:
            # What the changed model takes less is worth more than what the rule promises.
            saved = again.changed(finding.transform) or saved
        after = _after(default, saved)
        yield Proposal(
            id=finding.id,
            text=finding.hint,
            certainty="no gain" if after is None else judge_gain(before_s, after, is_confirmed=is_checked),
            before_s=before_s,
            after=after,
            saved_bytes=finding.saved_bytes,
            command=command,
            is_checked=is_checked,
        )


def _compression(profile: Profile, default: Estimate, again: Again) -> Iterator[Proposal]:
    """Yields weights of 8 bits, where streaming wider ones takes a visible part of the time."""
    share = default.parts.get("weights", 0.0) / default.latency.value
    if share < _WEIGHTY or NEURAL_ENGINE not in default.placement or default.left_out:
        return
    saved = again.with_bits(_BITS)
    if saved is None or saved.value <= 0:
        return
    after = _after(default, saved)
    assert after is not None
    is_changeable = profile.model.container not in _FINISHED and _can_apply(f"int{_BITS}", again)
    yield Proposal(
        id="compression",
        text=f"store weights in {_BITS} bits, and compare the outputs",
        certainty=judge_gain(default.latency.value, after, is_confirmed=is_changeable),
        before_s=default.latency.value,
        after=after,
        is_checked=is_changeable,
        code="coremltools.optimize.coreml.linear_quantize_weights(model, config)",
        command=_try(f"int{_BITS}", again) if is_changeable else "",
    )
