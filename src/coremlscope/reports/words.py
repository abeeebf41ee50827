"""Names, types and numbers as shown in reports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeVar

from coremlscope.base.folders import split_archive
from coremlscope.base.units import format_bytes, format_count, format_duration
from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE, UNIT_WORDS, ComputeUnit, ComputeUnits
from coremlscope.results.model import FunctionSummary, ModelSummary, WeightGroup, WorkSummary
from coremlscope.results.plan import (
    Choice,
    PlannedOp,
    SettingPlan,
    Undecided,
    describe_saving,
    undecided_counts,
)

if TYPE_CHECKING:
    from coremlscope.base.findings import Finding, Severity
    from coremlscope.results.calibration import OwnCalibration
    from coremlscope.results.estimate import Bound
    from coremlscope.results.profile import Profile

#: Compute units, in full and in short.
UNIT_NAMES: Mapping[ComputeUnit, str] = {CPU: "CPU", GPU: "GPU", NEURAL_ENGINE: "Neural Engine"}
SHORT_UNIT_NAMES: Mapping[ComputeUnit, str] = {**UNIT_NAMES, NEURAL_ENGINE: "NE"}

#: What an estimated time waits for.
BOUND_WORDS: Mapping[Bound, str] = {
    "compute": "arithmetic",
    "weights": "weights",
    "activations": "activations",
    "dispatch": "launches",
    "switches": "switches",
}

#: Instead of the source of planned costs.
NO_COSTS = "costs are not published"

#: Why the evidence does not decide between two units.
UNDECIDED_WORDS: Mapping[Undecided, str] = {
    "tie": "the plan costs the same there",
    "rates": "at other likely speeds the plan goes there",
    "unpublished": "it runs there too, and how the framework chooses is not published",
}

_Row = TypeVar("_Row")

#: Marks of findings in lists.
FINDING_MARKS: Mapping[Severity, str] = {"error": "✗", "warning": "!", "info": "·"}

#: Devices of a finding whose savings are in its text.
_MOST_SAVINGS = 2

_TENSOR = re.compile(r"tensor<(\w+), \[([^\]]*)\]>")
_UNREAD = FunctionSummary(name="", inputs=(), outputs=())


def undecided_line(ops: Iterable[PlannedOp], setting: ComputeUnits) -> str:
    """Returns how many operations may run on another unit as well, and why; empty if there are none.

    `12 operations may run on another unit: 10 at equal cost, 2 at other likely speeds`.
    """
    counts = undecided_counts(ops, setting)
    parts = [f"{counts['tie']} at equal cost"] if counts["tie"] else []
    if counts["rates"]:
        parts.append(f"{counts['rates']} at other likely speeds")
    if counts["unpublished"]:
        parts.append(f"{counts['unpublished']} because how the framework chooses is not published")
    return (
        f"{plural(counts.total(), 'operation')} may run on another unit: {', '.join(parts)}" if parts else ""
    )


def other_plan_line(setting: SettingPlan) -> str:
    """Returns the plan that is too close to call, with its estimate; empty without one.

    `too close to call: or all 120 operations on the GPU, estimated at 3.3 ms instead of 0.84 ms`.
    """
    other = setting.other_plan
    if other is None:
        return ""
    names = [f"{plural(count, 'operation')} on {UNIT_WORDS[unit]}" for unit, count in other.units.items()]
    where = f"all {names[0]}" if len(names) == 1 else ", ".join(names)
    times = ""
    if other.latency is not None and other.planned is not None:
        first, second = (format_duration(one.value) for one in (other.latency, other.planned))
        times = f", estimated at {first} instead of {second}"
    return f"too close to call: or {where}{times}"


def alternative_words(choice: Choice) -> list[str]:
    """Returns the other units where an operation may run as well, briefly: `GPU`, `CPU tie`."""
    return [f"{unit_name(unit)}{' tie' if why == 'tie' else ''}" for unit, why in choice.alternatives.items()]


def unit_name(unit: ComputeUnit | None) -> str:
    """Returns the short name of a compute unit; `unknown` if no unit is known to support an operation."""
    return "unknown" if unit is None else SHORT_UNIT_NAMES[unit]


def systems(profiles: Iterable[Profile]) -> list[tuple[str, str]]:
    """Returns the devices and systems of the plans and estimates of profiles."""
    found: dict[tuple[str, str], None] = {}
    for profile in profiles:
        found.update(dict.fromkeys((plan.device, plan.os) for plan in profile.plans))
        found.update(dict.fromkeys((estimate.device, estimate.os) for estimate in profile.estimates))
    return list(found)


def main_function(model: ModelSummary) -> FunctionSummary:
    """Returns the default function; an empty one for a model that could not be read."""
    return model.functions[0] if model.functions else _UNREAD


def parameter_facts(model: ModelSummary) -> list[str]:
    """The number and size of a model's parameters, where it has any: `3.50 M parameters in 7.00 MB`."""
    if not model.weights:
        return []
    return [f"{format_count(model.parameters)} parameters in {format_bytes(model.weights_bytes)}"]


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Returns findings, the most severe first."""
    order = list(FINDING_MARKS)
    return sorted(findings, key=lambda finding: order.index(finding.severity))


def describe_finding(finding: Finding) -> str:
    """Returns the text of a finding, with what the model costs less without it on the first few devices."""
    by_device = {(saving.device, saving.os): saving for saving in reversed(finding.savings)}
    savings = list(reversed(by_device.values()))
    parts = [
        f"on {saving.device}{'' if saving.compute_units == 'all' else f' with {saving.compute_units}'}"
        f": {describe_saving(saving.saved_ms, saving.planned_ms, saving.saved_s)}"
        for saving in savings[:_MOST_SAVINGS]
    ]
    more = len(savings) - len(parts)
    parts += [f"and less on {plural(more, 'other device')}"] if more else []
    without = f" If fixed, {'; '.join(parts)}." if parts else ""
    return finding.text + without


def finding_hint(finding: Finding) -> str:
    """Returns the suggested action of a finding, the transform that applies it, and how its rule is known."""
    parts = [finding.hint] if finding.hint else []
    if finding.transform:
        parts.append(f"`what-if --try {finding.transform}` applies it and compares the outputs")
    if finding.confidence:
        parts.append(f"evidence: {finding.confidence}")
    return "; ".join(parts)


def shorten(text: str, width: int) -> str:
    """`text` in at most `width` characters; the middle of a longer text is replaced by an ellipsis.

    Its last two parts, which tell it from others, stay whole where they have room.
    """
    if len(text) <= width:
        return text
    if width < 3:
        return text[:width]
    parts = _LAST_PARTS.search(text)
    kept = len(parts[0]) if parts and len(parts[0]) < width else (width - 1) // 2
    return f"{text[: width - 1 - kept]}…{text[len(text) - kept :]}"


#: `norm_weight` of `encoder_layer_12_norm_weight`, and `kernel=3, dilations=2)` of an expression of a layer.
_LAST_PARTS = re.compile(r"[^/_., ]+[/_., ]+[^/_., ]+$")


def truncate(text: str, most: int) -> str:
    """Returns the first `most` characters of a text, and how many are left out, if any are."""
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({plural(len(text) - most, 'character')} more, which JSON lists)"


def compact_type(text: str) -> str:
    """Formats a type without MIL's punctuation: `tensor<fp16, [1, 3]>` becomes `fp16 1×3`."""
    return _TENSOR.sub(_compact, text)


def _compact(match: re.Match[str]) -> str:
    dtype, shape = match.groups()
    return f"{dtype} {shape.replace(', ', '×')}" if shape else dtype


def model_name(path: str) -> str:
    """Returns the name of a model: the end of its path, `model` where it was read from bytes.

    In an archive (`App.ipa#Detector.mlmodelc`) it is the model's own.
    """
    archive, inside = split_archive(path)
    return PurePath(inside or archive).name or "model"


def elide(rows: Sequence[_Row], noun: str, most: int = 200) -> tuple[Sequence[_Row], str]:
    """Shortens a long list for a terminal or Markdown, which people read.

    Args:
        rows: The list.
        noun: What a row is.
        most: The length of a list that is shown as a whole.

    Returns:
        The first rows, and a sentence on those that are left out; empty if there are none.
    """
    left_out = len(rows) - most
    if left_out <= 0:
        return rows, ""
    return rows[:most], f"{plural(left_out, noun)} more, which JSON lists"


def describe_own(own: OwnCalibration, chip: str = "") -> str:
    """Describes which of the user's measurements an estimate uses: `calibrated on your 12 measurements …`."""
    units = " and ".join(UNIT_NAMES[unit] for unit in own.factors)
    of = f" of {chip}" if chip else ""
    return f"calibrated on your {plural(own.measurements, 'measurement')}{of}: {units}"


def plural(number: int, noun: str) -> str:
    """Formats a count with its noun: `1 input`, `3 inputs`, `2 classes`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}{'es' if noun.endswith('s') else 's'}"


def describe_flops(work: WorkSummary) -> str:
    """The FLOPs of a prediction: `10.1 G`, `at least 15.9 M`, or `unknown` where too much is left out."""
    if work.is_too_incomplete:
        return "unknown"
    return f"{'' if work.is_complete else 'at least '}{format_count(work.flops)}"


def count(number: int | None, is_complete: bool = True) -> str:
    """Formats a count in SI units, with `≥` for a lower bound and `?` for an unknown count."""
    if number is None:
        return "?"
    return f"{'' if is_complete else '≥ '}{format_count(number)}"


def bits_each(nbytes: int, parameters: int) -> str:
    """Bits per parameter in the file: `4.01`."""
    return f"{nbytes * 8 / parameters:.3g}" if parameters else "–"


def weight_cells(group: WeightGroup) -> tuple[str, ...]:
    """Returns a row of the table of weights: storage, type, tensors, parameters, bytes, bits each."""
    return (
        group.storage,
        group.dtype,
        str(group.tensors),
        format_count(group.parameters),
        format_bytes(group.nbytes),
        bits_each(group.nbytes, group.parameters),
    )


def histogram(counts: Mapping[str, int], most: int | None = None) -> str:
    """Counts in one line: `conv ×52, clip ×35 and 4 other types`."""
    items = list(counts.items())
    shown: Sequence[tuple[str, int]] = items if most is None else items[:most]
    text = ", ".join(f"{name} ×{number}" for name, number in shown)
    rest = len(items) - len(shown)
    return text + (f" and {plural(rest, 'other type')}" if rest else "")
