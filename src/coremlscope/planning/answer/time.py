"""Where the time of a prediction goes, and what keeps operations off the Neural Engine, by time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from coremlscope.devices.unit import NEURAL_ENGINE, SETTING_WORDS, SETTINGS, UNIT_WORDS, ComputeUnit
from coremlscope.planning.answer.repeats import find_equal_blocks
from coremlscope.results.answer import HeldTime, TimePart
from coremlscope.results.estimate import Bound, Estimate, Kernel
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import COST_RULE, Plan, PlannedOp, Reason, SettingPlan, WhatIf

#: What kernels wait for, where that is not arithmetic.
_WAITS: Mapping[Bound, str] = {
    "weights": "reading weights",
    "activations": "moving activations",
    "dispatch": "starts",
}
LAUNCHES, SWITCHES, REST = "launches of units", "changes of unit", "everything else"
#: Parts below this share are in the rest.
_LEAST_SHARE = 0.01
#: Reasons that hold less are none.
_LEAST_HELD = 5e-3
_COSTS = "the Neural Engine can run these, but launches and changes of unit cost more than that saves"
_UNKNOWN = "no rule says whether the Neural Engine runs these"


def split_time(kernels: Sequence[Kernel], estimate: Estimate, *, with_blocks: bool) -> tuple[TimePart, ...]:
    """Returns the parts of an estimated time, the largest first; their shares add up to 1.

    Args:
        kernels: The kernels of the estimate.
        estimate: The estimate.
        with_blocks: Whether to look for equal blocks, whose kernels are then parts of their own.
    """
    blocks, count = find_equal_blocks(kernels, estimate) if with_blocks else (range(0), 0)
    seconds: Counter[str] = Counter()
    places: dict[str, list[int]] = {}
    columns = zip(kernels, estimate.kernel_s, estimate.kernel_bound, strict=False)
    for place, (kernel, spent, bound) in enumerate(columns):
        name = f"{kernel.kind} ({_WAITS[bound]})" if bound in _WAITS else kernel.kind
        name = f"{count} × {name}" if place in blocks else name
        seconds[name] += spent  # type: ignore[assignment]
        places.setdefault(name, []).append(place)
    launched = sum(one.launch_s for one in estimate.terms)
    parts = {**seconds, LAUNCHES: launched, SWITCHES: estimate.parts.get("switches", 0.0)}
    # Rounding, and times of kernels that overlap, may add up to a little more than the whole.
    whole = max(estimate.latency.value, sum(parts.values()))
    found = [
        TimePart(part=name, share=spent / whole, kernels=tuple(places.get(name, ())))
        for name, spent in parts.items()
        if spent >= _LEAST_SHARE * whole
    ]
    found.sort(key=lambda one: -one.share)
    rest = 1 - sum(one.share for one in found)
    return (*found, TimePart(part=REST, share=rest, kernels=())) if rest > 1e-9 else tuple(found)


def find_held_time(
    kernels: Sequence[Kernel], ops: OpTable, plan: Plan, setting: SettingPlan, estimate: Estimate
) -> tuple[HeldTime, ...]:
    """Returns why operations are not on the Neural Engine, the reason that holds most time first.

    Args:
        kernels: The kernels of the estimate.
        ops: The op table that they refer to.
        plan: The plan.
        setting: The setting of it.
        estimate: The estimate under it.
    """
    whole = estimate.latency.value
    columns = zip(kernels, estimate.kernel_s, estimate.kernel_unit, strict=False)
    away = [(one, spent) for one, spent, unit in columns if estimate.units[unit] != NEURAL_ENGINE]
    if NEURAL_ENGINE not in SETTINGS[setting.compute_units]:
        return _by_setting(away, setting, whole) if away else ()
    held_s: Counter[str] = Counter()
    rows: dict[str, list[int]] = {}
    reasons: dict[str, Reason] = {}
    for kernel, spent in away:
        found = [(reason, row) for row in kernel.ops for reason in _obstacles(plan.ops.get(ops.id[row]))]
        for reason, row in found:
            reasons.setdefault(reason.rule, reason)
            rows.setdefault(reason.rule, []).append(row)
        for rule in {reason.rule for reason, _ in found}:
            held_s[rule] += spent  # type: ignore[assignment]
        if not found and kernel.ops:
            rule = COST_RULE if _is_supported(plan.ops.get(ops.id[kernel.ops[0]])) else "unknown"
            held_s[rule] += spent  # type: ignore[assignment]
            rows.setdefault(rule, []).extend(kernel.ops)
    texts = {COST_RULE: _COSTS, "unknown": _UNKNOWN} | {rule: one.text for rule, one in reasons.items()}
    again = {_rule_of(one): one.saved_s for one in setting.what_ifs if one.unit == NEURAL_ENGINE}
    return tuple(
        HeldTime(
            text=texts[rule],
            unit=NEURAL_ENGINE,
            rule=rule,
            ops=len(rows[rule]),
            share=spent / whole,
            example=ops.id[rows[rule][0]] if len(ops) else "",
            saved_s=again.get(rule),
        )
        for rule, spent in held_s.most_common()
        if spent >= _LEAST_HELD * whole
    )


def _by_setting(
    away: Sequence[tuple[Kernel, float]], setting: SettingPlan, whole: float
) -> tuple[HeldTime, ...]:
    text = f"the setting {SETTING_WORDS[setting.compute_units]} does not allow the Neural Engine"
    share = sum(spent for _, spent in away) / whole
    number = sum(len(kernel.ops) for kernel, _ in away)
    return (HeldTime(text=text, unit=NEURAL_ENGINE, rule="setting", ops=number, share=share),)


def _is_supported(op: PlannedOp | None) -> bool:
    return op is not None and op.supported.get(NEURAL_ENGINE) == "yes"


def _obstacles(op: PlannedOp | None) -> list[Reason]:
    """Returns the rules that keep an operation from the Neural Engine."""
    return [] if op is None else [reason for reason in op.why if reason.unit == NEURAL_ENGINE]


def _rule_of(one: WhatIf) -> str:
    return one.rule if one.hypothesis in ("without", "moved") else ""


def main_unit_words(units: Mapping[ComputeUnit, float]) -> str:
    """Returns the unit that takes most of the time of operations, without launches and changes of unit."""
    unit = max(units, key=lambda one: units[one])
    return f"{units[unit] * 100:.0f} % of operation time on {UNIT_WORDS[unit]}"
