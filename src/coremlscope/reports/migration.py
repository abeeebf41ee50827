"""Work and values shared by the Core ML and Core AI models of one network, as texts and rows."""

from __future__ import annotations

from collections.abc import Iterator

from coremlscope.base.units import format_count, format_share
from coremlscope.describe.comparison.profiles import Difference
from coremlscope.reports.words import plural
from coremlscope.results.migration import OutputAgreement, SharedWork, ValueAgreement

_LISTED = 5


def work_lines(difference: Difference) -> Iterator[str]:
    """Yields how much of the work of a Core ML and a Core AI model is paired."""
    work = difference.work
    if work is None:
        return
    share = "no work to pair" if work.share is None else f"{format_share(work.share)} of the work is paired"
    yield (
        f"{share}: {plural(work.pairs, 'operation')} with a counterpart,"
        f" {format_count(work.flops)} and {format_count(work.other_flops)} FLOPs in all"
    )
    if work.fixed_flops or work.other_fixed_flops:
        yield (
            f"not counted: {format_count(work.fixed_flops)} and {format_count(work.other_fixed_flops)} FLOPs"
            " on weights alone, which are the same in every call"
        )
    if work.groups:
        yield f"{plural(len(work.groups), 'group')} cut in another way"


def group_rows(work: SharedWork) -> list[tuple[str, str, str]]:
    """Returns the groups with the most work whose operations differ: both sides and the share of the work."""
    most = max(work.flops, work.other_flops, 1)
    counts: dict[tuple[str, str], list[int]] = {}
    for group in work.groups:
        counts.setdefault(group.types, []).append(max(group.flops, group.other_flops))
    listed = sorted(counts.items(), key=lambda item: -sum(item[1]))[:_LISTED]
    return [
        (before, f"{after}{f' ×{len(flops)}' if len(flops) > 1 else ''}", format_share(sum(flops) / most))
        for (before, after), flops in listed
    ]


def agreement_lines(agreement: OutputAgreement) -> Iterator[str]:
    """Yields how the values of two models agree."""
    if agreement.problem:
        yield f"values were not compared: {agreement.problem}"
        return
    for output in agreement.outputs:
        yield f"output {output.before}: {_describe(output)}"
    yield (
        f"{agreement.equal} of {agreement.pairs} values within agree to {agreement.tolerance:g}; all computed"
        f" by {agreement.by}, not by Core ML or Core AI"
    )
    if agreement.first is not None:
        first = agreement.first
        yield f"the first that does not: {first.before} and {first.after}, {_describe(first)}"


def _describe(value: ValueAgreement) -> str:
    parts = [f"relative error {value.error:.1e}", f"largest difference {value.largest:.1e}"]
    parts += [] if value.cosine is None else [f"cosine {value.cosine:.6f}"]
    if value.same_top is not None:
        parts.append("the same largest element" if value.same_top else "another largest element")
    return ", ".join(parts)
