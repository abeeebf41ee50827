"""A plan for the console: where operations go, what that costs, and why not elsewhere."""

from __future__ import annotations

from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE, SETTINGS, UNITS, ComputeUnit, ComputeUnits
from coremlscope.placement.backend import UNIT_OF
from coremlscope.placement.plan import COST_RULE, FunctionPlan, Plan, Planned
from coremlscope.render.reasons import ReasonGroup, group_advice, group_reasons, unknown_ops
from coremlscope.render.terminal.page import Column, Page
from coremlscope.render.words import compact_type, histogram, model_name, plural
from coremlscope.units import format_duration, format_share

__all__ = ["CHOSEN", "SUPPORTED", "UNKNOWN", "UNSUPPORTED", "render_differences", "render_plan"]

#: As in Xcode's performance reports.
CHOSEN, SUPPORTED, UNSUPPORTED = "●", "○", "◇"
#: No rule speaks of the operation on this unit.
UNKNOWN = "?"

_LISTED_OPS, _LISTED_GROUPS, _LISTED_SEGMENTS = 30, 10, 8
_WIDE = 120
_UNIT_NAMES: dict[ComputeUnit, str] = {CPU: "CPU", GPU: "GPU", NEURAL_ENGINE: "Neural Engine"}
_SHORT: dict[ComputeUnit, str] = {CPU: "CPU", GPU: "GPU", NEURAL_ENGINE: "NE"}


def render_plan(
    plan: Plan, *, source: str = "", width: int = 100, color: bool = False, list_ops: bool = False
) -> str:
    """A plan as text.

    Args:
        plan: The plan.
        source: The path of the model.
        width: Columns.
        color: Whether to use ANSI colours.
        list_ops: Lists every operation, however many there are.
    """
    page = Page(width, color)
    page.title(model_name(source))
    setting = plan.settings[0]
    chip = plan.device.chip
    cores = chip.value(NEURAL_ENGINE, "cores")
    engine = f"Neural Engine H{chip.neural_engine_generation}" + (f" with {cores:.0f} cores" if cores else "")
    page.pairs([
        ("device", f"{_device_name(plan)}, {plan.device.os}; {engine}"),
        ("compute units", setting),
        ("figures", f"planned by Core ML's cost model, as of {plan.basis}; nothing was measured"),
    ])  # fmt: skip
    for note in plan.notes:
        page.bullet("•", note)
    for name, function in plan.functions.items():
        if len(plan.functions) > 1:
            page.line()
            page.title(f"function {name}")
        _show_function(page, plan, function, setting, list_ops)
    page.line()
    page.line("more: --ops, --compute-units every, --json -; `coremlscope rules RULE`", "dim")
    return page.text


def render_differences(theirs: Plan, ours: Plan, *, width: int = 100, color: bool = False) -> str:
    """Where two plans of one model send operations to different units, operation by operation."""
    page = Page(width, color)
    setting = theirs.settings[0]
    for name, function in theirs.functions.items():
        other = {op.id: op for op in ours.functions[name].ops}
        pairs = [(op, other[op.id]) for op in function.ops if op.choices[setting].unit is not None]
        rows = [
            (mine.name, mine.type, *(_unit_name(op, setting) for op in (mine, yours)))
            for mine, yours in pairs
            if mine.choices[setting].unit != yours.choices[setting].unit
        ]
        page.heading(
            f"Against the rules: {name}", f"{len(pairs) - len(rows)} of {len(pairs)} on the same unit"
        )
        if rows:
            columns = [Column("operation", most=max(width - 50, 12)), Column("type", style="cyan", most=20)]
            page.table([*columns, Column("Core ML"), Column("rules")], rows)
    return page.text


def _unit_name(op: Planned, setting: ComputeUnits) -> str:
    unit = op.choices[setting].unit
    return "unknown" if unit is None else _SHORT[unit]


def _device_name(plan: Plan) -> str:
    name, chip = plan.device.name, plan.device.chip.name
    return name if chip in name else f"{name} ({chip})"


def _show_function(
    page: Page, plan: Plan, function: FunctionPlan, setting: ComputeUnits, list_ops: bool
) -> None:
    _show_units(page, function, setting)
    _show_segments(page, function, setting)
    if len(plan.settings) > 1:
        _show_settings(page, plan, function)
    _show_ops(page, function, setting, list_ops)
    _show_reasons(page, function, setting)


def _show_units(page: Page, function: FunctionPlan, setting: ComputeUnits) -> None:
    page.heading("Units", f"{plural(len(function.ops), 'operation')}, planned")
    counts, costs = function.counts(setting), function.cost_ms(setting)
    total = sum(costs.values())
    rows = []
    for unit in SETTINGS[setting]:
        supported = sum(op.supported(unit) == "yes" for op in function.ops)
        unknown = sum(op.supported(unit) == "unknown" for op in function.ops)
        share = format_share(costs[unit] / total) if total else "–"
        cells = [_UNIT_NAMES[unit], str(counts[unit]), share, format_duration(costs[unit] / 1e3)]
        rows.append((*cells, str(supported), str(unknown) if unknown else ""))
    if counts[None]:
        rows.append(("unknown", str(counts[None]), "", "", "", ""))
    titles = ("chosen", "cost share", "planned cost", "supported", "unknown")
    page.table([Column("", style="cyan"), *(Column(title, is_number=True) for title in titles)], rows)
    changes = plural(function.switches(setting), "change")
    whole = format_duration(function.total_ms[setting] / 1e3)
    page.line(f"{whole} planned in all, launches and {changes} of unit included", "dim", indent=2)


def _show_settings(page: Page, plan: Plan, function: FunctionPlan) -> None:
    page.heading("Settings side by side", "operations on each unit, planned")
    rows = []
    for setting in plan.settings:
        counts = function.counts(setting)
        cells = [str(counts[unit]) if unit in SETTINGS[setting] else "–" for unit in UNITS]
        whole = format_duration(function.total_ms[setting] / 1e3)
        rows.append((setting, *cells, str(function.switches(setting)), whole))
    titles = (*(_UNIT_NAMES[unit] for unit in UNITS), "switches", "planned in all")
    page.table([Column("", style="cyan"), *(Column(title, is_number=True) for title in titles)], rows)


def _show_segments(page: Page, function: FunctionPlan, setting: ComputeUnits) -> None:
    runs: list[tuple[str, int]] = []
    for segment in function.segments[setting]:
        name = "unknown" if segment.backend is None else _UNIT_NAMES[UNIT_OF[segment.backend]]
        if runs and runs[-1][0] == name:
            runs[-1] = name, runs[-1][1] + len(segment.ops)
        else:
            runs.append((name, len(segment.ops)))
    if len(runs) < 2:
        return
    shown = " → ".join(f"{count} {name}" for name, count in runs[:_LISTED_SEGMENTS])
    more = f" → … ({len(runs) - _LISTED_SEGMENTS} more)" if len(runs) > _LISTED_SEGMENTS else ""
    page.line(f"in order: {shown}{more}", indent=2)


def _show_ops(page: Page, function: FunctionPlan, setting: ComputeUnits, list_ops: bool) -> None:
    few = len(function.ops) <= _LISTED_OPS
    ops = list(function.ops)
    if not (few or list_ops):
        ops = sorted(ops, key=lambda op: -op.choices[setting].weight)[:_LISTED_OPS]
    quiet = f"{CHOSEN} chosen  {SUPPORTED} supported  {UNSUPPORTED} not supported  {UNKNOWN} no rule"
    title = "Operations" if few or list_ops else f"The {len(ops)} costliest operations"
    page.heading(title, quiet)
    wide = page.width >= _WIDE
    columns = [
        *(Column(_SHORT[unit], most=3, style="green") for unit in UNITS),
        Column("operation", most=max(page.width - (96 if wide else 58), 12)),
        Column("type", style="cyan", most=24 if wide else 20),
        Column("share", is_number=True),
        Column("planned", is_number=True),
    ]
    if wide:
        columns.append(Column("result", most=24))
        columns += [Column(f"on {_SHORT[unit]}", is_number=True) for unit in UNITS]
    page.table(columns, [_op_row(op, setting, wide) for op in ops])
    if len(ops) < len(function.ops):
        page.line(f"and {len(function.ops) - len(ops)} more: --ops lists all in order", "dim", indent=2)


def _op_row(op: Planned, setting: ComputeUnits, wide: bool) -> tuple[str, ...]:
    choice = op.choices[setting]
    name = "  " * op.depth + (f"({op.name})" if op.inserted else op.name)
    marks = (_mark(op, unit, choice.unit) for unit in UNITS)
    cells = (*marks, name, op.type, format_share(choice.weight), _ms(op.cost_ms(setting)))
    if not wide:
        return cells
    result = compact_type(op.types[0]) if op.types else ""
    return (*cells, result, *(_ms(_cheapest(op, unit)) for unit in UNITS))


def _mark(op: Planned, unit: ComputeUnit, chosen: ComputeUnit | None) -> str:
    if unit == chosen:
        return CHOSEN
    return {"yes": SUPPORTED, "no": UNSUPPORTED, "unknown": UNKNOWN}[op.supported(unit)]


def _cheapest(op: Planned, unit: ComputeUnit) -> float | None:
    costs = [cost.ms for backend, cost in op.costs.items() if UNIT_OF[backend] == unit]
    return min(costs, default=None)


def _ms(cost: float | None) -> str:
    if cost is None:
        return "–"
    return format_duration(cost / 1e3) if cost else "0"


def _show_reasons(page: Page, function: FunctionPlan, setting: ComputeUnits) -> None:
    groups = group_reasons(function, setting)
    for unit in (NEURAL_ENGINE, GPU):
        of_unit = [group for group in groups if group.unit == unit]
        if not of_unit:
            continue
        held = {op.id for group in of_unit for op in group.ops}
        page.heading(f"Why not the {_UNIT_NAMES[unit]}", plural(len(held), "operation"))
        for group in of_unit[:_LISTED_GROUPS]:
            _show_group(page, group)
        if len(of_unit) > _LISTED_GROUPS:
            page.line(f"and {plural(len(of_unit) - _LISTED_GROUPS, 'more reason')}", "dim", indent=2)
    advice = group_advice(function, setting)
    if advice:
        page.heading("Remarks", "without effect on the plan")
        for group in advice[:_LISTED_GROUPS]:
            _show_group(page, group)
    for unit, ops in unknown_ops(function, setting).items():
        page.heading(f"Unknown on the {_UNIT_NAMES[unit]}", "no rule speaks of these, so they are not placed")
        kinds: dict[str, int] = {}
        for op in ops:
            kinds[op.type] = kinds.get(op.type, 0) + 1
        page.line(histogram(dict(sorted(kinds.items(), key=lambda item: -item[1])), most=12), indent=2)


def _show_group(page: Page, group: ReasonGroup) -> None:
    reason = group.reason
    first = group.ops[0].name
    others = "; others in numbers of their own" if group.varies else ""
    where = f" (such as {first}{others})" if len(group.ops) > 1 else f" ({first})"
    text = f"{plural(len(group.ops), 'op')}: {reason.text}{where}"
    hints = [f"fix: {reason.fix}"] if reason.fix else []
    if reason.rule != COST_RULE:
        hints.append(f"{reason.rule}, {reason.confidence}")
    page.bullet("•", text, "; ".join(hints))
