"""A plan for the console: where operations go, what that costs, and why not elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from coremlscope.base.units import format_duration, format_share
from coremlscope.devices import all_chips
from coremlscope.devices.unit import GPU, NEURAL_ENGINE, SETTINGS, UNITS, ComputeUnit
from coremlscope.reports.reasons import (
    ReasonGroup,
    find_dearer,
    group_advice,
    group_reasons,
    group_what_ifs,
    unknown_ops,
)
from coremlscope.reports.terminal.findings import show_findings
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.reports.words import (
    NO_COSTS,
    SHORT_UNIT_NAMES,
    UNIT_NAMES,
    alternative_words,
    compact_type,
    histogram,
    model_name,
    plural,
    undecided_line,
)
from coremlscope.results.plan import (
    CORE_ML_RULE,
    COST_RULE,
    FunctionCost,
    Plan,
    PlannedOp,
    PlanView,
    segments,
    unit_costs_ms,
    unit_counts,
)
from coremlscope.results.profile import Profile

__all__ = [
    "CHOSEN",
    "POSSIBLE",
    "SUPPORTED",
    "UNKNOWN",
    "UNSUPPORTED",
    "describe_planner",
    "render_plan",
    "setting_rows",
    "show_group",
    "show_plan",
    "show_settings",
]

#: As in Xcode's performance reports.
CHOSEN, SUPPORTED, UNSUPPORTED = "●", "○", "◇"
#: Not chosen, but the evidence does not decide: a tie, or rates within their intervals.
POSSIBLE = "◐"
#: No rule covers the operation on this unit.
UNKNOWN = "?"

_LISTED_OPS, _LISTED_GROUPS, _LISTED_SEGMENTS = 30, 10, 8
_WIDE, _NARROW = 120, 72


def render_plan(profile: Profile, *, width: int = 100, color: bool = False, list_ops: bool = False) -> str:
    """The plans of a profile as text.

    Args:
        profile: The profile.
        width: Columns.
        color: Whether to use ANSI colours.
        list_ops: Lists every operation, however many there are.
    """
    screen = Screen(width, color)
    screen.title(model_name(profile.model.path))
    for place, plan in enumerate(profile.plans):
        if place:
            screen.line()
        show_plan(screen, profile, plan, list_ops=list_ops)
    show_findings(screen, profile.findings)
    screen.line()
    screen.line(f"more: {', '.join(_options(profile, list_ops))}; `coremlscope rules RULE`", "dim")
    return screen.text


def _options(profile: Profile, list_ops: bool) -> Iterator[str]:
    """Yields the options that show more than was shown."""
    if any(plan.view(profile.ops).ops for plan in profile.plans):
        yield from () if list_ops else ("--ops",)
        yield from ("--explain OP",) if all(plan.planner == "rules" for plan in profile.plans) else ()
        if all(len(plan.settings) < len(SETTINGS) for plan in profile.plans):
            yield "--compute-units every"
    yield "--json -"


def show_plan(screen: Screen, profile: Profile, plan: Plan, *, list_ops: bool = False) -> None:
    """Prints a plan under its first setting, function by function."""
    views = [plan.view(profile.ops, setting) for setting in plan.settings]
    engine = _describe_neural_engine(plan)
    facts = [
        ("device", f"{_device_name(plan)}, {plan.os}{'; ' if engine else ''}{engine}"),
        ("compute units", views[0].compute_units),
    ]
    if any(view.ops for view in views):
        facts.append(("figures", f"{describe_planner(plan)}; nothing was measured"))
    screen.pairs(facts)
    for note in plan.notes:
        screen.bullet("•", note)
    by_view = [view.functions() for view in views]
    for name in by_view[0]:
        if len(by_view[0]) > 1:
            screen.line()
            screen.title(f"function {name}")
        _show_function(screen, name, views, [functions[name] for functions in by_view], list_ops)


def describe_planner(plan: Plan) -> str:
    """Who planned: `planned by Core ML's cost model, rates of M1, macOS 14.5`."""
    if plan.planner != "rules":
        return f"planned by {plan.planner} itself"
    if not plan.cost_model:
        return f"placed by published rules; {NO_COSTS}"
    rates = plan.cost_model if plan.cost_model.startswith("rates ") else f"as of {plan.cost_model}"
    return f"planned by Core ML's cost model, {rates}"


def _device_name(plan: Plan) -> str:
    chip = all_chips().get(plan.chip)
    name = plan.chip if chip is None else chip.name
    return plan.device if name.lower() in plan.device.lower() else f"{plan.device} ({name})"


def _describe_neural_engine(plan: Plan) -> str:
    chip = all_chips().get(plan.chip)
    if chip is None:
        return ""
    cores = chip.value(NEURAL_ENGINE, "cores")
    return f"Neural Engine H{chip.neural_engine_generation}" + (f" with {cores:.0f} cores" if cores else "")


def show_settings(screen: Screen, profile: Profile, plan: Plan) -> None:
    """Prints how many operations each unit runs under every setting of a plan, or why it has none."""
    views = [plan.view(profile.ops, setting) for setting in plan.settings]
    if plan.notes and not any(view.ops for view in views):
        screen.heading(f"On {plan.device}, {plan.os}", "nothing to plan")
        for note in plan.notes:
            screen.bullet("•", note)
        return
    remark = f"operations on each unit; {describe_planner(plan)}, nothing of it was measured"
    screen.heading(f"On {plan.device}, {plan.os}", remark)
    _show_setting_rows(screen, setting_rows(views))


def setting_rows(views: Sequence[PlanView], function: str = "") -> list[tuple[str, ...]]:
    """How many operations each unit runs, how often the unit changes, and the planned cost of all.

    Args:
        views: A plan under each of its settings.
        function: The function; all of them where it is empty.
    """
    rows = []
    for view in views:
        counts = unit_counts(view.functions()[function] if function else view.ops)
        allowed = SETTINGS[view.compute_units]
        cells = [str(counts[unit]) if counts[unit] or unit in allowed else "–" for unit in UNITS]
        setting = view.setting
        cost = (
            setting.functions.get(function) if function else FunctionCost(setting.total_ms, setting.switches)
        )
        has_costs = cost is not None and view.plan.total_ms(setting) is not None
        total = format_duration(cost.total_ms / 1e3) if cost is not None and has_costs else "–"
        whole = ("–" if cost is None else str(cost.switches), total)
        rows.append((view.compute_units, *cells, *whole))
    return rows


def _show_setting_rows(screen: Screen, rows: list[tuple[str, ...]]) -> None:
    titles = (*(_unit_title(screen, unit) for unit in UNITS), "switches", "planned in all")
    screen.table([Column("", style="cyan"), *(Column(title, is_number=True) for title in titles)], rows)


def _unit_title(screen: Screen, unit: ComputeUnit) -> str:
    return SHORT_UNIT_NAMES[unit] if screen.width < _NARROW else UNIT_NAMES[unit]


def _show_function(
    screen: Screen, name: str, views: list[PlanView], sides: list[tuple[PlannedOp, ...]], list_ops: bool
) -> None:
    """One function; `sides` holds its operations under each setting."""
    view, ops = views[0], sides[0]
    _show_units(screen, view, name, ops)
    _show_segments(screen, view, ops)
    if len(views) > 1:
        screen.heading("Settings side by side", "operations on each unit, planned")
        _show_setting_rows(screen, setting_rows(views, name))
    _show_ops(screen, view, ops, list_ops)
    _show_reasons(screen, view, name, ops)


def _show_units(screen: Screen, view: PlanView, name: str, ops: tuple[PlannedOp, ...]) -> None:
    screen.heading("Units", f"{plural(len(ops), 'operation')}, planned")
    counts, costs = unit_counts(ops), unit_costs_ms(ops, view.compute_units)
    has_costs = any(op.planned_ms is not None for op in ops)
    parts = _cost_shares(ops, costs, has_costs=has_costs)
    rows = []
    for unit in UNITS:
        if unit not in SETTINGS[view.compute_units] and not counts[unit]:
            continue
        known = Counter(op.supported.get(unit) for op in ops)
        share = "–" if parts is None else format_share(parts[unit])
        cost_there = format_duration(costs[unit] / 1e3) if has_costs else "–"
        cells = [_unit_title(screen, unit), str(counts[unit]), share, cost_there]
        rows.append((*cells, str(known["yes"]), str(known["unknown"] or "")))
    if counts[None]:
        rows.append(("unknown", str(counts[None]), "", "", "", ""))
    shares = ("share", "cost") if screen.width < _NARROW else ("cost share", "planned cost")
    titles = ("chosen", *shares, "supported", "unknown")
    screen.table([Column("", style="cyan"), *(Column(title, is_number=True) for title in titles)], rows)
    _show_cost(screen, view, name, sum(costs.values()))
    undecided = undecided_line(ops)
    if undecided:
        screen.line(f"{POSSIBLE} {undecided}", "dim", indent=2)


def _cost_shares(
    ops: Sequence[PlannedOp], costs: Mapping[ComputeUnit, float], *, has_costs: bool
) -> Mapping[ComputeUnit, float] | None:
    """Returns the share of each unit in the costs, or in the weights where the planner gives only these."""
    total = sum(costs.values())
    if total:
        return {unit: cost / total for unit, cost in costs.items()}
    weights = {unit: sum(op.weight for op in ops if op.unit == unit) for unit in costs}
    return weights if any(weights.values()) and not has_costs else None


def _show_cost(screen: Screen, view: PlanView, name: str, ops_ms: float) -> None:
    """Shows the cost of a function, of which `ops_ms` are those of its operations."""
    cost, left_out = view.setting.functions.get(name), view.plan.left_out
    if cost is None:
        return
    changes = f"{plural(cost.switches, 'change')} of unit"
    without = f"nothing is known of {left_out}" if left_out else ""
    if view.plan.total_ms(view.setting) is None:
        why_none = f"no total cost, because {without}" if without else "the planner gives no costs"
        screen.line(f"{changes}; {why_none}", "dim", indent=2)
        return
    total_cost = f"{'at least ' if left_out else ''}{format_duration(cost.total_ms / 1e3)}"
    whole = f"{total_cost} planned in all, launches and {changes} included"
    if 0 < ops_ms < cost.total_ms:
        whole += f"; shares are those of the {format_duration(ops_ms / 1e3)} without them"
    screen.line(whole, "dim", indent=2)
    if without:
        screen.line(without, "yellow", indent=2)


def _show_segments(screen: Screen, view: PlanView, ops: tuple[PlannedOp, ...]) -> None:
    runs: list[tuple[str, int]] = []
    for backend, segment in segments(ops):
        name = "unknown" if backend is None else UNIT_NAMES[view.plan.backends[backend]]
        if runs and runs[-1][0] == name:
            runs[-1] = name, runs[-1][1] + len(segment)
        else:
            runs.append((name, len(segment)))
    if len(runs) < 2:
        return
    shown = " → ".join(f"{count} {name}" for name, count in runs[:_LISTED_SEGMENTS])
    more = f" → … ({len(runs) - _LISTED_SEGMENTS} more)" if len(runs) > _LISTED_SEGMENTS else ""
    screen.line(f"in order: {shown}{more}", indent=2)


def _show_ops(screen: Screen, view: PlanView, ops: Sequence[PlannedOp], list_ops: bool) -> None:
    whole = len(ops) <= _LISTED_OPS or list_ops
    has_weights = any(op.weight for op in ops)
    listed = list(ops) if whole else sorted(ops, key=lambda op: -op.weight)[:_LISTED_OPS]
    possible = f"  {POSSIBLE} may be chosen" if any(op.alternatives for op in listed) else ""
    unknown = "no rule" if view.plan.planner == "rules" else "not stated"
    others = f"{SUPPORTED} supported  {UNSUPPORTED} not supported  {UNKNOWN} {unknown}"
    quiet = f"{CHOSEN} chosen{possible}  {others}"
    title = (
        f"The {len(listed)} costliest operations" if has_weights else f"The first {len(listed)} operations"
    )
    screen.heading("Operations" if whole else title, quiet)
    wide = screen.width >= _WIDE
    may_move = wide and any(op.alternatives for op in listed)
    columns = _op_columns(screen.width, has_weights=has_weights, may_move=may_move)
    screen.table(columns, [_op_row(view, op, wide, has_weights, may_move) for op in listed])
    if len(listed) < len(ops):
        screen.line(f"and {len(ops) - len(listed)} more: --ops lists all in order", "dim", indent=2)


def _op_columns(width: int, *, has_weights: bool, may_move: bool) -> list[Column]:
    wide = width >= _WIDE
    columns = [
        *(Column(SHORT_UNIT_NAMES[unit], most=3, style="green") for unit in UNITS),
        Column("operation", most=max(width - (110 if may_move else 96 if wide else 58), 24)),
        Column("type", style="cyan", most=24 if wide else 20),
    ]
    if has_weights:
        columns += [Column("share", is_number=True), Column("planned", is_number=True)]
    if wide:
        columns.append(Column("result", most=24))
    if may_move:
        columns.append(Column("may go to", most=24))
    if wide and has_weights:
        columns += [Column(f"on {SHORT_UNIT_NAMES[unit]}", is_number=True) for unit in UNITS]
    return columns


def _op_row(view: PlanView, op: PlannedOp, wide: bool, has_weights: bool, may_move: bool) -> tuple[str, ...]:
    name = "  " * op.depth + (f"({op.name})" if op.inserted else op.name)
    marks = (_mark(op, unit) for unit in UNITS)
    costs = (format_share(op.weight), _ms(op.planned_ms)) if has_weights else ()
    cells = (*marks, name, op.type, *costs)
    if not wide:
        return cells
    result = compact_type(op.outputs[0]) if op.outputs else ""
    others = (" or ".join(alternative_words(op)),) if may_move else ()
    return (*cells, result, *others, *(_ms(_cheapest(view, op, unit)) for unit in UNITS if has_weights))


def _mark(op: PlannedOp, unit: ComputeUnit) -> str:
    if unit == op.unit:
        return CHOSEN
    if unit in op.alternatives:
        return POSSIBLE
    return {"yes": SUPPORTED, "no": UNSUPPORTED, "unknown": UNKNOWN}[op.supported.get(unit, "unknown")]


def _cheapest(view: PlanView, op: PlannedOp, unit: ComputeUnit) -> float | None:
    costs = [ms for backend, ms in op.cost_ms.items() if view.plan.backends[backend] == unit]
    return min(costs, default=None)


def _ms(cost: float | None) -> str:
    if cost is None:
        return "–"
    return format_duration(cost / 1e3) if cost else "0"


def _show_reasons(screen: Screen, view: PlanView, name: str, ops: Sequence[PlannedOp]) -> None:
    groups = group_reasons(view, name, ops)
    for unit in (NEURAL_ENGINE, GPU):
        dearer = find_dearer(view, unit, ops)
        of_unit = [*(group for group in groups if group.unit == unit), *([dearer] if dearer else [])]
        if not of_unit:
            continue
        held = {op.id for group in of_unit for op in group.ops}
        again = "; planned again without each reason" if view.setting.what_ifs else ""
        screen.heading(f"Why not the {UNIT_NAMES[unit]}", f"{plural(len(held), 'operation')}{again}")
        for group in of_unit[:_LISTED_GROUPS]:
            show_group(screen, group)
        if len(of_unit) > _LISTED_GROUPS:
            screen.line(f"and {plural(len(of_unit) - _LISTED_GROUPS, 'more reason')}", "dim", indent=2)
        for group in group_what_ifs(view, name, "without all"):
            if group.unit == unit:
                screen.bullet("•", group.reason.text, f"→ {group.effect}")
    doubts = group_what_ifs(view, name, "doubt")
    if doubts:
        screen.heading("In doubt", "anecdotal evidence only; planned again as if it were otherwise")
        for group in doubts:
            show_group(screen, group)
    advice = group_advice(ops)
    if advice:
        screen.heading("Remarks", "without effect on the plan")
        for group in advice[:_LISTED_GROUPS]:
            show_group(screen, group)
    for unit, unknown in unknown_ops(view, ops).items():
        by_rules = view.plan.planner == "rules"
        why = (
            "no rule covers these, so they are not placed"
            if by_rules
            else f"{view.plan.planner} does not state it"
        )
        screen.heading(f"Unknown on the {UNIT_NAMES[unit]}", why)
        kinds = Counter(op.type for op in unknown)
        screen.line(histogram(dict(kinds.most_common()), most=12), indent=2)


def show_group(screen: Screen, group: ReasonGroup) -> None:
    """Prints a reason with its operations, what the plan would be without it, and what to do."""
    reason = group.reason
    names = [f"such as {group.example}" if len(group.ops) > 1 else group.example] if group.example else []
    names += ["others differ in this"] if group.varies else []
    where = f" ({'; '.join(names)})" if names else ""
    text = f"{plural(len(group.ops), 'op')}: {reason.text}{where}"
    hints = [f"fix: {reason.fix}"] if reason.fix else []
    if reason.rule == CORE_ML_RULE:
        hints.append("Core ML's own message")
    elif reason.rule != COST_RULE:
        hints.append(f"rule {reason.rule}, evidence: {reason.confidence}")
    lines = [f"→ {group.effect}"] if group.effect else []
    screen.bullet("•", text, "\n".join([*lines, *filter(None, ["; ".join(hints)])]))
