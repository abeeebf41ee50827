"""What makes an answer doubtful: its certainty is the worst of its premises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import get_args

from coremlscope.base.units import format_duration
from coremlscope.devices import all_chips
from coremlscope.devices.unit import UNIT_WORDS
from coremlscope.planning.answer.settings import main_unit
from coremlscope.planning.cost.latency.evidence import find_nearest, find_published, year_of
from coremlscope.planning.cost.latency.structure import Structure
from coremlscope.results.answer import AnswerTrust, Certainty, PublishedFigure
from coremlscope.results.estimate import Estimate, Kernel
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import Plan, SettingPlan

_WORDS: tuple[Certainty, ...] = get_args(Certainty)
#: The share of the time whose unit is undecided that makes a plan doubtful.
_VISIBLE = 0.2
#: Figures of older systems, or of newer ones, are shown and not believed.
_MOST_YEARS = 2

Doubt = tuple[Certainty, str]
#: Concerns the level of every estimate of a chip, so not the ratio of two on one unit of it.
FEW_FIGURES: Doubt = ("unclear", "few published figures are of this chip")


def worst(known: Iterable[Certainty]) -> Certainty:
    """Returns the worst of several certainties; `likely` for none."""
    return max(known, key=_WORDS.index, default="likely")


def find_doubts(
    kernels: Sequence[Kernel],
    ops: OpTable,
    plan: Plan | None,
    setting: SettingPlan | None,
    estimate: Estimate,
) -> list[Doubt]:
    """Returns what makes an estimate doubtful, the worst first.

    Args:
        kernels: The kernels of the estimate.
        ops: The op table that they refer to.
        plan: The plan that it follows from; None where there is none.
        setting: The setting of it.
        estimate: The estimate.
    """
    found: list[Doubt] = []
    if estimate.left_out:
        found.append(("unknown", f"nothing is known of {', '.join(estimate.left_out)}"))
    if plan is not None and setting is not None:
        if (other := setting.other_plan) is not None:
            at = "" if other.latency is None else f", estimated at {format_duration(other.latency.value)}"
            text = f"too close to call: {other.moved} operations may run on another unit{at}"
            found.append(("unclear", text))
        elif undecided := _undecided(kernels, ops, plan, estimate):
            found.append(("unclear", undecided))
    if estimate.own is None and estimate.basis == "extrapolated":
        found.append(FEW_FIGURES)
    return found


def _undecided(kernels: Sequence[Kernel], ops: OpTable, plan: Plan, estimate: Estimate) -> str:
    """Returns which operations may run on another unit, by rates that are assumed or ties; empty for few."""
    held: Counter[str] = Counter()
    for kernel, spent in zip(kernels, estimate.kernel_s, strict=False):
        planned = (plan.ops.get(ops.id[row]) for row in kernel.ops)
        if any(op is not None and op.choices[estimate.compute_units].alternatives for op in planned):
            held[kernel.kind] += spent  # type: ignore[assignment]
    share = sum(held.values()) / estimate.latency.value
    if share < _VISIBLE:
        return ""
    kind = held.most_common(1)[0][0]
    return f"the unit of {kind} operations depends on assumed rates ({share * 100:.0f} % of the time)"


def compare_published(
    path: str, structure: Structure | None, estimate: Estimate
) -> tuple[tuple[PublishedFigure, ...], str]:
    """Returns what was published of the same network, and how good estimates of the nearest networks are.

    Args:
        path: The path of the model, which may be named after the network.
        structure: What the network consists of; None where that is not known.
        estimate: The estimate.

    Returns:
        Latencies on the same chip under the same setting, those to be believed first; and a sentence on the
        rows that `estimate --explain` lists, empty where one of the latencies is to be believed.
    """
    low, high, year = estimate.latency.low, estimate.latency.high, year_of(estimate.os)
    published = [
        PublishedFigure(
            network=row.network,
            seconds=row.measured_ms * 1e-3,
            unit=row.unit,
            publication=row.publication,
            url=row.url,
            os=row.os,
            is_believed=None not in (year, row.year) and abs((year or 0) - (row.year or 0)) <= _MOST_YEARS,
            is_within=low <= row.measured_ms * 1e-3 <= high,
        )
        for row in find_published(Path(path).stem, structure, estimate.chip, estimate.compute_units)
    ]
    published.sort(key=lambda one: not one.is_believed)
    if structure is None or any(one.is_believed for one in published):
        return tuple(published), ""
    unit = main_unit(estimate.placement)
    ratios = [
        row.estimated_s / row.measured_s for row in find_nearest(structure, unit, all_chips()[estimate.chip])
    ]
    accuracy = (
        f"Of the {len(ratios)} published figures for {UNIT_WORDS[unit]} that are nearest, ours are"
        f" {min(ratios):.2f} to {max(ratios):.2f} × the measured ones."
    )
    return tuple(published), accuracy if ratios else ""


def describe_trust(
    doubts: Sequence[Doubt], published: Sequence[PublishedFigure] = (), accuracy: str = ""
) -> AnswerTrust:
    """Returns the trust in an answer: its doubts, what was published, and how good such estimates are."""
    found = [*doubts]
    for one in [one for one in published if one.is_believed and not one.is_within][:1]:
        found.insert(0, ("unclear", f"{say_published(one)} counts more than this estimate"))
    listed = sorted(found, key=lambda one: -_WORDS.index(one[0]))
    return AnswerTrust(
        certainty=worst(word for word, _ in found),
        doubts=tuple(text for _, text in listed),
        accuracy=accuracy,
        published=tuple(published),
    )


def say_published(one: PublishedFigure) -> str:
    """Returns a published figure in words: `8.00 ms under iOS 13.5, published by coreml-model-zoo,`."""
    unit, system = UNIT_WORDS[one.unit], f" under {one.os}" if one.os else ""
    return f"{format_duration(one.seconds)} on {unit}{system}, published by {one.publication},"
