"""A plan: where operations go, what that costs, and why not elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from coremlscope.base.units import format_cost, format_duration, format_share
from coremlscope.devices import all_chips
from coremlscope.devices.unit import GPU, NEURAL_ENGINE, SETTINGS, UNITS, ComputeUnit
from coremlscope.reports.answer import answer_blocks
from coremlscope.reports.document import (
    Block,
    Cell,
    Column,
    Facts,
    Folded,
    Heading,
    Hint,
    Item,
    Table,
    Text,
    Title,
    findings,
    join_equal,
    numbers,
)
from coremlscope.reports.figures import interval_ms
from coremlscope.reports.reasons import (
    ReasonGroup,
    find_dearer,
    group_advice,
    group_reasons,
    group_what_ifs,
    unknown_ops,
)
from coremlscope.reports.words import (
    NO_COSTS,
    SHORT_UNIT_NAMES,
    UNIT_NAMES,
    alternative_words,
    compact_type,
    histogram,
    model_name,
    other_plan_line,
    plural,
    undecided_line,
)
from coremlscope.results.encoding import plain
from coremlscope.results.estimate import Estimate
from coremlscope.results.plan import (
    CORE_ML_RULE,
    COST_RULE,
    Choice,
    FunctionCost,
    Plan,
    PlannedOp,
    PlannedOps,
    PlanView,
    find_segments,
    unit_costs_ms,
    unit_counts,
)
from coremlscope.results.profile import Profile

#: As in Xcode's performance reports.
CHOSEN, SUPPORTED, UNSUPPORTED = "●", "○", "◇"
#: Not chosen, but the evidence does not decide: a tie, or rates within their intervals.
POSSIBLE = "◐"
#: No rule covers the operation on this unit.
UNKNOWN = "?"

_LISTED_OPS, _LISTED_GROUPS, _LISTED_SEGMENTS = 30, 10, 8
#: Operations whose rows are made.
_MADE_OPS = 100_000


def plan_document(profile: Profile, *, list_ops: bool = False) -> Iterator[Block]:
    """Yields the plans of a profile.

    Args:
        profile: The profile.
        list_ops: Lists every operation, however many there are.
    """
    yield Title(model_name(profile.model.path))
    yield from answer_blocks(profile, is_brief=True)
    for plan in profile.plans:
        yield from plan_section(profile, plan, list_ops=list_ops)
    yield from findings(profile.findings)
    yield Hint(f"more: {', '.join(_options(profile, list_ops))}; `coremlscope rules RULE`")


def _options(profile: Profile, list_ops: bool) -> Iterator[str]:
    """Yields the options that show more than was shown."""
    if any(plan.ops for plan in profile.plans):
        yield from () if list_ops else ("--ops",)
        yield from ("--explain OP",) if all(plan.planner == "rules" for plan in profile.plans) else ()
        if all(len(plan.settings) < len(SETTINGS) for plan in profile.plans):
            yield "--compute-units every"
    yield "--json -"


def plans_to_json(profiles: Sequence[Profile]) -> dict[str, Any]:
    """All plans of profiles as plain values: a single one by itself, several under `plans`."""
    plans = [plan_to_json(plan) for profile in profiles for plan in profile.plans]
    return plans[0] if len(plans) == 1 else {"schema": "coremlscope.plans/1", "plans": plans}


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """A plan as plain values, with its operations as rows."""
    ops = [plain(op) for op in plan.ops]
    return {"schema": "coremlscope.plan/1", **plain(replace(plan, ops=PlannedOps())), "ops": ops}


def plan_section(profile: Profile, plan: Plan, *, list_ops: bool = False) -> Iterator[Block]:
    """Yields a plan under its first setting, function by function."""
    views = [plan.view(setting) for setting in plan.settings]
    engine = _describe_neural_engine(plan)
    figures = f"{describe_planner(plan)}; nothing was measured" if plan.ops else ""
    yield Facts(
        [
            ("device", f"{_device_name(plan)}, {plan.os}{'; ' if engine else ''}{engine}"),
            ("compute units", views[0].compute_units),
            ("estimate", _estimated(_estimate_of(profile, views[0]))),
            ("figures", figures),
        ]
    )
    if close := other_plan_line(views[0].setting):
        yield Item(close, mark=POSSIBLE)
    yield from map(Item, plan.notes)
    functions = plan.functions()
    for name, ops in functions.items():
        if len(functions) > 1:
            yield Title(f"function {name}")
        yield from _units(views[0], name, ops)
        if len(views) > 1:
            yield Heading("Settings side by side", "operations on each unit, planned")
            yield _settings(profile, views, name, with_costs=True)
        yield _operations(views[0], ops, list_ops)
        yield from _reasons(views[0], name, ops)


def _estimate_of(profile: Profile, view: PlanView) -> Estimate | None:
    """Returns the estimate of a prediction by a plan; None without one."""
    wanted = view.plan.device, view.plan.os, view.compute_units
    estimates = profile.estimates if view.plan.planner == "rules" else ()
    return next((e for e in estimates if (e.device, e.os, e.compute_units) == wanted), None)


def _estimated(estimate: Estimate | None) -> str:
    """An estimate with its interval; empty without one."""
    if estimate is None:
        return ""
    basis = ", extrapolated" if estimate.basis == "extrapolated" else ""
    latency = format_duration(estimate.latency.value)
    return f"{latency} ({interval_ms(estimate)} ms in 80 % of the cases{basis})"


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


def settings_section(profile: Profile, plan: Plan) -> Iterator[Block]:
    """Yields how many operations each unit runs under every setting of a plan, or why it has none."""
    views = [plan.view(setting) for setting in plan.settings]
    if plan.notes and not plan.ops:
        yield Heading(f"On {plan.device}, {plan.os}", "nothing to plan")
        yield from map(Item, plan.notes)
        return
    remark = f"operations on each unit; {describe_planner(plan)}, nothing of it was measured"
    yield Heading(f"On {plan.device}, {plan.os}", remark)
    yield _settings(profile, views)


def _settings(
    profile: Profile, views: Sequence[PlanView], function: str = "", *, with_costs: bool = False
) -> Table:
    """Returns how many operations each unit runs, how often the unit changes, and the estimates.

    Args:
        profile: The profile of the plan.
        views: A plan under each of its settings.
        function: The function; all of them where it is empty.
        with_costs: Adds planned costs, which stand in place of estimates where there are none.
    """
    estimates = [_estimate_of(profile, view) for view in views]
    titles = "estimate" if any(estimates) else "", "planned cost" if with_costs or not any(estimates) else ""
    rows: list[tuple[str, ...]] = []
    for view, estimate in zip(views, estimates, strict=True):
        ops = view.plan.functions()[function] if function else view.plan.ops
        counts = unit_counts(ops, view.compute_units)
        allowed = SETTINGS[view.compute_units]
        cells = [str(counts[unit]) if counts[unit] or unit in allowed else "–" for unit in UNITS]
        setting = view.setting
        cost = (
            setting.functions.get(function) if function else FunctionCost(setting.total_ms, setting.switches)
        )
        has_costs = cost is not None and view.plan.total_ms(setting) is not None
        total = format_cost(cost.total_ms) if cost is not None and has_costs else "–"
        latency = "–" if estimate is None else format_duration(estimate.latency.value)
        switches = "–" if cost is None else str(cost.switches)
        found = (text if title else "" for title, text in zip(titles, (latency, total), strict=True))
        rows.append((view.compute_units, *cells, switches, *found))
    columns = (
        Column("", style="cyan"),
        *numbers(*(SHORT_UNIT_NAMES[unit] for unit in UNITS)),
        Column("switches", is_number=True, rank=1),
        *(Column(title, is_number=True, rank=-1) for title in titles),
    )
    return Table(columns, join_equal(rows))


def _units(view: PlanView, name: str, ops: tuple[PlannedOp, ...]) -> Iterator[Block]:
    """Yields how many operations of a function each unit runs, what they cost, and their order."""
    yield Heading("Units", f"{plural(len(ops), 'operation')}, planned")
    counts, costs = unit_counts(ops, view.compute_units), unit_costs_ms(ops, view.compute_units)
    choices = [op.choices[view.compute_units] for op in ops]
    has_costs = any(choice.planned_ms is not None for choice in choices)
    cost = view.setting.functions.get(name)
    shares = {} if cost is None else dict.fromkeys(costs, 0.0) | dict(cost.time_shares)
    is_time = any(shares.values())
    parts = shares if is_time else _cost_shares(choices, costs, has_costs=has_costs)
    rows: list[tuple[Cell, ...]] = []
    for unit in UNITS:
        if unit not in SETTINGS[view.compute_units] and not counts[unit]:
            continue
        known = Counter(op.supported.get(unit) for op in ops)
        share = "–" if parts is None else format_share(parts[unit])
        planned = format_cost(costs[unit]) if has_costs else "–"
        support = str(known["yes"]), str(known["unknown"] or "")
        bar = "" if parts is None else parts[unit]
        rows.append((UNIT_NAMES[unit], str(counts[unit]), share, planned, *support, bar))
    if counts[None]:
        rows.append(("unknown", str(counts[None]), "", "", "", "", ""))
    columns = (
        Column("", style="cyan"),
        *numbers("chosen", "time share" if is_time else "cost share", "planned cost"),
        Column("supported", is_number=True, rank=1),
        Column("unknown", is_number=True, rank=1),
        Column("", style="cyan", rank=2),
    )
    yield Table(columns, rows)
    yield from _cost(view, name, 0 if is_time else sum(costs.values()))
    if is_time:
        yield Text("time share: of the estimated time of a prediction, without launches and changes of unit")
    undecided = undecided_line(ops, view.compute_units)
    if undecided:
        yield Text(f"{POSSIBLE} {undecided}")
    yield from _segments(view, ops)


def _cost_shares(
    choices: Sequence[Choice], costs: Mapping[ComputeUnit, float], *, has_costs: bool
) -> Mapping[ComputeUnit, float] | None:
    """Returns the share of each unit in the costs, or in the weights where the planner gives only these."""
    total = sum(costs.values())
    if total:
        return {unit: cost / total for unit, cost in costs.items()}
    weights = {unit: sum(choice.weight for choice in choices if choice.unit == unit) for unit in costs}
    return weights if any(weights.values()) and not has_costs else None


def _cost(view: PlanView, name: str, ops_ms: float) -> Iterator[Block]:
    """Yields the cost of a function, of which `ops_ms` are those of its operations."""
    cost, left_out = view.setting.functions.get(name), view.plan.left_out
    if cost is None:
        return
    changes = f"{plural(cost.switches, 'change')} of unit"
    without = f"nothing is known of {left_out}" if left_out else ""
    if view.plan.total_ms(view.setting) is None:
        why = f"no total cost, because {without}" if without else "the planner gives no costs"
        yield Text(f"{changes}; {why}")
        return
    at_least = "at least " if left_out else ""
    whole = f"planned cost {at_least}{format_cost(cost.total_ms)} in all, launches and {changes} included"
    if 0 < ops_ms < cost.total_ms:
        whole += f"; shares are those of the {format_cost(ops_ms)} without them"
    yield Text(whole)
    if without:
        yield Text(without, "warning")


def _segments(view: PlanView, ops: tuple[PlannedOp, ...]) -> Iterator[Block]:
    runs = find_segments((op.id, op.choices[view.compute_units].unit) for op in ops)
    if len(runs) < 2:
        return
    shown = " → ".join(f"{len(run.ops)} {UNIT_NAMES[run.unit]}" for run in runs[:_LISTED_SEGMENTS])
    more = f" → … ({len(runs) - _LISTED_SEGMENTS} more)" if len(runs) > _LISTED_SEGMENTS else ""
    yield Text(f"in order: {shown}{more}", "")


def _operations(view: PlanView, ops: Sequence[PlannedOp], list_ops: bool) -> Block:
    """Returns the operations, all in order or the costliest first."""
    whole = len(ops) <= _LISTED_OPS or list_ops
    setting = view.compute_units
    has_weights = any(op.choices[setting].weight for op in ops)
    listed = list(ops) if whole else sorted(ops, key=lambda op: -op.choices[setting].weight)
    may_move = any(op.choices[setting].alternatives for op in listed)
    possible = f"  {POSSIBLE} may be chosen" if may_move else ""
    unknown = "no rule" if view.plan.planner == "rules" else "not stated"
    others = f"{SUPPORTED} supported  {UNSUPPORTED} not supported  {UNKNOWN} {unknown}"
    kind = "costliest" if has_weights else "first"
    title = "Operations" if whole else f"The {_LISTED_OPS} {kind} operations"
    if not has_weights and not whole:
        title = f"The first {_LISTED_OPS} operations"
    columns = (
        *(Column(SHORT_UNIT_NAMES[unit], most=3, style="green", rank=-1) for unit in UNITS),
        Column("operation", most=60, least=24, is_code=True),
        Column("type", style="cyan", most=24),
        Column("share", is_number=True),
        Column("planned cost", is_number=True, rank=1),
        Column("result", most=24, rank=3),
        Column("may go to", most=24, rank=3),
        *(Column(f"on {SHORT_UNIT_NAMES[unit]}", is_number=True, rank=4) for unit in UNITS),
        Column("id", most=24, style="dim", rank=5, is_code=True),
    )
    rows = [_op_row(view, op, has_weights) for op in listed[:_MADE_OPS]]
    most, left = None if whole else _LISTED_OPS, len(listed) - len(rows)
    table = Table(columns, rows, most, "operation", ": --ops lists all in order", left)
    return Folded(title, f"{CHOSEN} chosen{possible}  {others}", (table,))


def _op_row(view: PlanView, op: PlannedOp, has_weights: bool) -> tuple[str, ...]:
    name = "  " * op.depth + (f"({op.name})" if op.inserted else op.name)
    costs = [_cheapest(view, op, unit) for unit in UNITS]
    chosen = op.choices[view.compute_units]
    return (
        *(_mark(op, chosen, unit) for unit in UNITS),
        name,
        op.type,
        *((format_share(chosen.weight), format_cost(chosen.planned_ms)) if has_weights else ("", "")),
        compact_type(op.outputs[0]) if op.outputs else "",
        " or ".join(alternative_words(chosen)),
        *(format_cost(cost) if has_weights else "" for cost in costs),
        op.id,
    )


def _mark(op: PlannedOp, chosen: Choice, unit: ComputeUnit) -> str:
    if unit == chosen.unit:
        return CHOSEN
    if unit in chosen.alternatives:
        return POSSIBLE
    return {"yes": SUPPORTED, "no": UNSUPPORTED, "unknown": UNKNOWN}[op.supported.get(unit, "unknown")]


def _cheapest(view: PlanView, op: PlannedOp, unit: ComputeUnit) -> float | None:
    costs = [ms for backend, ms in op.cost_ms.items() if view.plan.backends[backend] == unit]
    return min(costs, default=None)


def _reasons(view: PlanView, name: str, ops: Sequence[PlannedOp]) -> Iterator[Block]:
    """Yields what keeps operations from faster units, doubts, remarks, and what is not known."""
    yield from _why_not(view, name, ops)
    doubts = group_what_ifs(view, name, "doubt")
    if doubts:
        yield Heading("In doubt", "anecdotal evidence only; planned again as if it were otherwise")
        yield from map(_reason, doubts)
    advice = group_advice(ops, view.compute_units)
    if advice:
        yield Heading("Remarks", "without effect on the plan")
        yield from map(_reason, advice[:_LISTED_GROUPS])
    for unit, unknown in unknown_ops(view, ops).items():
        by_rules = view.plan.planner == "rules"
        stated = f"{view.plan.planner} does not state it"
        why = "no rule covers these, so they are not placed there" if by_rules else stated
        yield Heading(f"Unknown on the {UNIT_NAMES[unit]}", why)
        yield Text(histogram(dict(Counter(op.type for op in unknown).most_common()), most=12), "")


def _why_not(view: PlanView, name: str, ops: Sequence[PlannedOp]) -> Iterator[Block]:
    groups = group_reasons(view, name, ops)
    for unit in (NEURAL_ENGINE, GPU):
        dearer = find_dearer(view, unit, ops)
        of_unit = [*(group for group in groups if group.unit == unit), *([dearer] if dearer else [])]
        if not of_unit:
            continue
        held = {op.id for group in of_unit for op in group.ops}
        again = "; planned again without each reason" if view.setting.what_ifs else ""
        yield Heading(f"Why not the {UNIT_NAMES[unit]}", f"{plural(len(held), 'operation')}{again}")
        yield from map(_reason, of_unit[:_LISTED_GROUPS])
        if len(of_unit) > _LISTED_GROUPS:
            yield Text(f"and {plural(len(of_unit) - _LISTED_GROUPS, 'more reason')}")
        for group in group_what_ifs(view, name, "without all"):
            if group.unit == unit:
                yield Item(group.reason.text, f"→ {group.effect}")


def reason_sections(profile: Profile) -> Iterator[Block]:
    """Yields the reasons of all plans, which only `plan` shows on a terminal."""
    for plan in profile.plans:
        for setting in plan.settings:
            view = plan.view(setting)
            blocks = [block for name, ops in plan.functions().items() for block in _reasons(view, name, ops)]
            if blocks:
                where = f"{plan.device}, {plan.os}, {setting.compute_units}; planned and estimated"
                yield Folded("What keeps operations from faster units", where, blocks, is_extra=True)


def _reason(group: ReasonGroup) -> Item:
    """Returns a reason with its operations, what the plan would be without it, and what to do."""
    reason = group.reason
    names = [f"such as {group.example}" if len(group.ops) > 1 else group.example] if group.example else []
    names += ["others differ in this"] if group.varies else []
    where = f" ({'; '.join(names)})" if names else ""
    hints = [f"fix: {reason.fix}"] if reason.fix else []
    if reason.rule == CORE_ML_RULE:
        hints.append("Core ML's own message")
    elif reason.rule != COST_RULE:
        hints.append(f"rule {reason.rule}, evidence: {reason.confidence}")
    effect = f"→ {group.effect}" if group.effect else ""
    return Item(f"{plural(len(group.ops), 'op')}: {reason.text}{where}", (effect, "; ".join(hints)))
