"""A comparison: all profiles side by side, then each subject against the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec.structs

from coremlscope.base.units import format_count, format_ratio, format_share
from coremlscope.describe.comparison.change import Change
from coremlscope.describe.comparison.plans import PlanChange
from coremlscope.describe.comparison.profiles import Comparison, Difference, RowChange
from coremlscope.reports.difference import (
    conclude_comparison,
    describe_calibration,
    describe_operations,
    describe_units,
    device_title,
    fact_rows,
    format_interval,
    format_value,
    measured_by,
    method,
    pair_table,
    planned_cells,
    verdict,
)
from coremlscope.reports.document import (
    Block,
    Column,
    Folded,
    Heading,
    Hint,
    Item,
    Table,
    Text,
    Title,
    labels,
    numbers,
)
from coremlscope.reports.provider import provider_comparison
from coremlscope.reports.renderers import COMPARISON_RENDERERS, describe_formats
from coremlscope.reports.side_by_side import side_by_side, side_by_side_document
from coremlscope.reports.words import plural
from coremlscope.results.migration import OutputAgreement, SharedWork, ValueAgreement

# Work and values shared by the Core ML and Core AI models of one network, as texts and rows.

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


_LISTED_KINDS, _LISTED_ROWS, _LISTED_SUBJECTS = 8, 12, 3


def comparison_document(comparison: Comparison) -> Iterator[Block]:
    """Yields all profiles side by side, then each subject against the first."""
    if not comparison.differences:
        yield from side_by_side_document(comparison.profiles)
        return
    names = [subject.label for subject in comparison.subjects]
    yield from conclude_comparison(comparison)
    yield from pair_table(comparison.differences, names)
    yield from side_by_side(comparison.profiles, names)
    yield from _facts(comparison, names)
    if len(comparison.profiles) == len(names):  # else they are devices and settings of one model
        yield from provider_comparison(comparison.profiles, names)
    is_folded = len(comparison.differences) > _LISTED_SUBJECTS
    for difference in comparison.differences:
        title = f"{names[difference.other]} against {names[0]}"
        if is_folded:
            yield Folded(title, "", tuple(_difference(difference)), is_extra=True)
            continue
        if len(comparison.differences) > 1:
            yield Title(title)
        yield from _difference(difference)
    yield Hint(f"more: {describe_formats(COMPARISON_RENDERERS)}; --fail-above 5% for CI")


def _facts(comparison: Comparison, names: Sequence[str]) -> Iterator[Block]:
    """Yields what differs between models: a column for each, or a row for each of many."""
    if len(comparison.profiles) == 1:  # its devices and settings are in the names
        return
    rows = fact_rows(comparison)
    yield Heading("What differs")
    if not rows:
        is_same = len({subject.path for subject in comparison.subjects}) == 1
        yield Text("the same model and settings" if is_same else "no size, weights, operations or settings")
    elif len(names) <= _LISTED_SUBJECTS:
        yield Table((Column("", style="dim"), *map(Column, names)), rows)
    else:
        titles, *columns = zip(*rows, strict=True)
        yield Table(
            (labels("model"), *(Column(title, rank=1) for title in titles)),
            [(name, *cells) for name, cells in zip(names, columns, strict=True)],
        )


def _difference(difference: Difference) -> Iterator[Block]:
    if difference.phases:
        yield Heading("Times", measured_by(difference))
        rows = [(name, *_cells(change)) for name, change in difference.phases.items()]
        yield Table((Column("", style="cyan"), *_change_columns()), rows)
        yield Text(method(difference))
        if difference.rows and not difference.incomparable:
            yield from _operations(difference)
    yield from _plans(difference.plans)
    yield from _migration(difference)
    yield Text(describe_operations(difference), "")


def _change_columns(interval: str = "95 % interval") -> tuple[Column, ...]:
    return (
        Column("before", is_number=True, rank=1),
        *numbers("after", "change"),
        Column(interval, is_number=True, rank=2),
        Column("", rank=-1),
    )


def _cells(change: Change) -> tuple[str, ...]:
    return (
        format_value(change.before, change.origin),
        format_value(change.after, change.origin),
        format_ratio(change.ratio),
        format_interval(change),
        verdict(change),
    )


def _operations(difference: Difference) -> Iterator[Block]:
    """Yields measured times by kind of operation, and those that differ most."""
    rows = []
    for kind in difference.kinds:
        number = str(kind.after) if kind.before == kind.after else f"{kind.before} → {kind.after}"
        rows.append((kind.label, number, *_cells(kind.time)))
    columns = (labels("operations"), Column("count", is_number=True, rank=3), *_change_columns())
    kinds = Table(columns, rows, _LISTED_KINDS, "kind")
    yield Folded("By kind of operation", "measured by the engine's profiler, summed", (kinds,))
    telling = difference.telling_rows
    if not telling:
        yield Text("no operation's time changed by more than the noise of its measurement", "")
        return
    columns = (
        Column("name", most=60, is_code=True),
        Column("operations", style="cyan", most=30, least=10, rank=3),
        *_change_columns(),
    )
    blocks: list[Block] = [Table(columns, [_row(row) for row in telling], _LISTED_ROWS)]
    quiet = len(difference.rows) - len(telling)
    if quiet:
        blocks.append(Text(f"no change in {plural(quiet, 'other row')}"))
    yield Folded("Largest differences", "operations that run as one are one row", blocks)


def _row(row: RowChange) -> tuple[str, ...]:
    *cells, said = _cells(row.time)
    return (row.name or row.label, row.label, *cells, row.presence if row.presence != "both" else said)


def _plans(plans: Sequence[PlanChange]) -> Iterator[Block]:
    """Yields what changes on each device: equal changes once, and those of further settings closed."""
    alike: list[tuple[PlanChange, list[str]]] = []
    for plan in plans:
        same = (titles for one, titles in alike if _is_same(one, plan))
        if (titles := next(same, None)) is None:
            alike.append((plan, [device_title(plan)]))
        else:
            titles.append(device_title(plan))
    seen: set[str] = set()
    for plan, titles in alike:
        device = titles[0].rpartition(", ")[0]
        others = [title.removeprefix(f"{device}, ") for title in titles[1:]]
        title = f"On {', '.join([titles[0], *others])}"
        remark = f"{(plan.latency or plan.planned).origin}; nothing of it was measured"
        if device in seen:
            yield Folded(title, remark, tuple(_plan(plan)), is_extra=True)
        else:
            seen.add(device)
            yield Heading(title, remark)
            yield from _plan(plan)


def _is_same(a: PlanChange, b: PlanChange) -> bool:
    return a == msgspec.structs.replace(b, before=a.before, after=a.after)


def _plan(plan: PlanChange) -> Iterator[Block]:
    whole = plan.latency or plan.planned
    if whole.before is not None or whole.after is not None:
        name = "estimated" if plan.latency else "planned cost"
        yield Table((Column("", style="cyan"), *_change_columns("interval")), [(name, *_cells(whole))])
    yield Text(describe_units(plan), "")
    if calibration := describe_calibration(plan):
        yield Text(calibration)
    blocks = []
    changed = [(row.type, *_cells(row.planned)) for row in plan.types if row.planned.ratio != 1]
    if changed:
        columns = (labels("planned cost, by type"), *_change_columns("interval"))
        blocks.append(Table(columns, changed, _LISTED_KINDS, "type"))
    if plan.ops:
        columns = (
            Column("type", style="cyan", most=20, rank=1),
            Column("name", most=60, least=18, is_code=True),
            Column("unit", rank=-1),
            *numbers("before", "after", ""),
        )
        blocks.append(Table(columns, [planned_cells(op) for op in plan.ops], _LISTED_ROWS, "operation"))
    if blocks:
        yield Folded(
            "Operations whose plan changed", f"{len(plan.ops)}, planned costs", blocks, is_extra=True
        )


def _migration(difference: Difference) -> Iterator[Block]:
    """Yields what the Core ML and Core AI models of one network share."""
    if difference.work is not None:
        yield Heading("Core ML and Core AI")
        yield from (Text(line, "") for line in work_lines(difference))
        if rows := group_rows(difference.work):
            yield Table((labels("base"), Column("other", style="cyan"), *numbers("work")), rows)
    if difference.agreement is not None:
        yield Heading("Values", "of the same inputs")
        yield from map(Item, agreement_lines(difference.agreement))
