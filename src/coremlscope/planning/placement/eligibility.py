"""Applies the rules: which units can run each operation of a function, and all reasons why not."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import msgspec.structs

from coremlscope.base.errors import MissingWeightsError
from coremlscope.base.findings import CONFIDENCES
from coremlscope.devices.chip import Device
from coremlscope.devices.unit import UNITS, ComputeUnit
from coremlscope.ops.view import CONTRADICTIONS, CannotInfer, CannotLower, OpView
from coremlscope.planning.patterns.rule import (
    EVERY_OP,
    GraphContext,
    GraphRule,
    ProgramFacts,
    Rule,
    RuleContext,
)
from coremlscope.planning.patterns.verdict import DEFECTS, SPREAD, Effect, Reason, Verdict
from coremlscope.planning.placement.coreml_view import CoreMLGraph, Node
from coremlscope.planning.placement.rules import GRAPH_RULES, RULES, core_ai

#: By operation: the verdict of each unit.
Verdicts = Mapping[str, Mapping[ComputeUnit, Verdict]]

#: The ids of the operations that a plan would put on a unit, given the verdicts. There, operations that fail
#: in the compiler count as accepted.
Reach = Callable[[ComputeUnit, Verdicts], Container[str]]

#: Effects of rules that do not decide the placement.
_ADVICE: frozenset[Effect] = DEFECTS | {"advises"}
#: Raised where an argument is absent, only known at run time, in a missing file, or not valid for the
#: operation.
_UNKNOWN = (
    *(CannotInfer, CannotLower, MissingWeightsError),
    *CONTRADICTIONS,
)


def judge(
    graph: CoreMLGraph,
    device: Device,
    facts: ProgramFacts,
    *,
    with_advice: bool = True,
    reach: Reach | None = None,
) -> Verdicts:
    """The verdicts on every operation of a function, nested ones included.

    Args:
        graph: The function as Core ML plans it.
        device: Chip and system.
        facts: The program.
        with_advice: False omits advice on speed and accuracy; defects are never omitted.
        reach: Which operations the compiler of a unit would receive; None for all that the unit accepts.
    """
    walk = _Walk.of(graph)
    plain, inserted = _contexts(graph, device, facts)
    held = [
        rule
        for rule in _rules_of(facts)
        if rule.scope.holds(device.chip, device.os) and (with_advice or rule.effect != "advises")
    ]
    examiner = _Judge.of(graph, plain, held)
    verdicts = {
        node.id: examiner.judge(node.kind, node.view, inserted if node.inserted else plain)
        for node in walk.nodes
    }
    whole = GraphContext(
        device=device,
        facts=facts,
        ops=walk.ops,
        verdicts=verdicts,
        producers=walk.producers,
        known=walk.known,
    )
    for rule in core_ai.GRAPH_RULES if facts.runtime == "Core AI" else GRAPH_RULES:
        if rule.scope.holds(device.chip, device.os) and (with_advice or rule.effect != "advises"):
            _apply_graph_rule(rule, whole, verdicts)
    _spread_failures(verdicts, walk.nodes, reach)
    return verdicts


def judge_others(
    graph: CoreMLGraph, device: Device, facts: ProgramFacts, views: Mapping[str, OpView]
) -> Verdicts:
    """The verdicts on other forms of operations in their places, by rules for single operations.

    Args:
        graph: The function as Core ML plans it.
        device: Chip and system.
        facts: The program.
        views: The other forms, by id.
    """
    plain, _ = _contexts(graph, device, facts)
    held = [r for r in RULES if r.effect not in _ADVICE and r.scope.holds(device.chip, device.os)]
    examiner = _Judge.of(graph, plain, held)
    return {id_: examiner.judge(graph.kinds.number(view), view, plain) for id_, view in views.items()}


def list_reasons(graph: CoreMLGraph, device: Device, facts: ProgramFacts, node: Node) -> list[Reason]:
    """Every rule for single operations that applies to one of them, whatever its effect, by unit.

    Args:
        graph: The function as Core ML plans it.
        device: Chip and system.
        facts: The program.
        node: One of its operations.
    """
    plain, inserted = _contexts(graph, device, facts)
    context = inserted if node.inserted else plain
    held = [rule for rule in _rules_of(facts) if rule.scope.holds(device.chip, device.os)]
    found = []
    for rule in sorted(_rules_for(node.view.op.type, held), key=lambda rule: UNITS.index(rule.unit)):
        detail = apply(rule, node.view, context)
        if detail is not False:
            found.append(_reason(rule, detail, node.view, context))
    return found


def _rules_of(facts: ProgramFacts) -> tuple[Rule, ...]:
    """The rules for single operations of the framework that plans a program."""
    return core_ai.RULES if facts.runtime == "Core AI" else RULES


class _Walk:
    """The operations of a graph.

    Attributes:
        nodes: The operations in order.
        ops: Their ids and views.
        producers: The operation that makes each value, by name.
        known: What rules about whole functions noted.
    """

    def __init__(self, graph: CoreMLGraph) -> None:
        self._kept = graph.nodes  # Their address stands for the graph, which would keep this in turn.
        self.nodes = tuple(graph.walk())
        self.ops = tuple((node.id, node.view) for node in self.nodes)
        views = itertools.chain((view for _, view in self.ops), graph.walk_packed())
        self.producers = {value.name: view for view in views for value in view.op.outputs}
        self.known: dict[object, Any] = {}

    @classmethod
    def of(cls, graph: CoreMLGraph) -> _Walk:
        return graph.kinds.note((cls, id(graph.nodes)), lambda: cls(graph))


def _contexts(graph: CoreMLGraph, device: Device, facts: ProgramFacts) -> tuple[RuleContext, RuleContext]:
    """Returns the contexts of rules for operations of the file and for inserted ones."""
    plain = RuleContext.on(device, facts, _Walk.of(graph).producers)
    return plain, msgspec.structs.replace(plain, inserted=True)


class _Judge:
    """What some rules say of kinds of operations, in programs about which they read the same.

    Args:
        rules: The rules that hold on a device.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules_for = functools.cache(lambda name: _rules_for(name, rules))
        self._judged: dict[tuple[int, bool], _Judged] = {}

    @classmethod
    def of(cls, graph: CoreMLGraph, context: RuleContext, rules: Sequence[Rule]) -> _Judge:
        """Returns what is known of the kinds of a graph.

        Of a program, rules for operations read neither its weights nor, where they say the same of a kind,
        its inputs and outputs.
        """
        facts = context.facts
        program = facts.opset, facts.spec_version, facts.states, facts.decodes, facts.runtime
        shapes = tuple(facts.flexible_inputs.items()), tuple(facts.resized_inputs.items())
        of_device = context.neural_engine_generation, context.core_ml
        key = (cls, *map(id, rules), *program, *shapes, *of_device)
        return graph.kinds.remember(key, lambda: cls(rules))

    def judge(self, kind: int | None, view: OpView, context: RuleContext) -> Mapping[ComputeUnit, Verdict]:
        """Returns the verdict of each unit on an operation of a kind; None for one of its own."""
        if kind is None:
            return judge_op(view, context, self._rules_for(view.op.type))
        key = kind, context.inserted
        known = self._judged.get(key)
        if known is None:
            known = self._judged[key] = _judge_kind(view, context, self._rules_for(view.op.type))
        return known.of(view, context)


class _Judged(msgspec.Struct, frozen=True):
    """Verdicts on a kind of operations, or the rules whose reasons differ among them."""

    verdicts: Mapping[ComputeUnit, Verdict] | None
    holding: Sequence[tuple[Rule, bool | str]] = ()

    def of(self, view: OpView, context: RuleContext) -> Mapping[ComputeUnit, Verdict]:
        """Returns the verdicts on an operation of this kind."""
        if self.verdicts is not None:
            return self.verdicts
        holding = ((rule, detail) for rule, detail in self.holding if _holds(rule, view, context))
        return _verdicts(holding, view, context)


def _judge_kind(view: OpView, context: RuleContext, rules: Iterable[Rule]) -> _Judged:
    """Returns what the rules that may apply to an operation say of all of its kind."""
    details = ((rule, _detail(rule, view, context)) for rule in rules)
    holding = [(rule, detail) for rule, detail in details if detail is not False]
    if all(rule.is_same_for_kinds(view.op.type) for rule, _ in holding):
        return _Judged(_verdicts(holding, view, context))
    return _Judged(None, holding)


def _verdicts(
    holding: Iterable[tuple[Rule, bool | str]], view: OpView, context: RuleContext
) -> dict[ComputeUnit, Verdict]:
    """Returns the verdict of each unit by the rules that hold, with the texts for their messages."""
    found: dict[ComputeUnit, list[Reason]] = {unit: [] for unit in UNITS}
    for rule, detail in holding:
        found[rule.unit].append(_reason(rule, detail, view, context))
    return {unit: _verdict(unit, tuple(reasons)) for unit, reasons in found.items()}


def _reason(rule: Rule, detail: bool | str, view: OpView, context: RuleContext) -> Reason:
    """The rule as a reason for an operation, with the advice for its form where that is known."""
    fix = None
    if rule.fix_for is not None:
        with contextlib.suppress(*_UNKNOWN):
            fix = rule.fix_for(view, context)
    return rule.reason_for(view.op, detail, fix)


def judge_op(view: OpView, context: RuleContext, rules: Iterable[Rule]) -> Mapping[ComputeUnit, Verdict]:
    """The verdict of each unit on one operation, by the rules that may apply to it."""
    return _judge_kind(view, context, rules).of(view, context)


def apply(rule: Rule, view: OpView, context: RuleContext) -> bool | str:
    """Applies a rule to an operation: False, True, or the text for its message.

    A rule does not apply where it needs an argument that is absent, only known at run time, or not valid for
    the operation in a damaged file.
    """
    detail = _detail(rule, view, context)
    return detail if detail is not False and _holds(rule, view, context) else False


def _detail(rule: Rule, view: OpView, context: RuleContext) -> bool | str:
    """Applies a rule without its exception: False, True, or the text for its message."""
    try:
        return rule.when(view, context) or False
    except _UNKNOWN:
        return False


def _holds(rule: Rule, view: OpView, context: RuleContext) -> bool:
    """True where the exception of a rule does not hold, and can be judged."""
    try:
        return rule.unless is None or not rule.unless(view, context)
    except _UNKNOWN:
        return False


@functools.lru_cache(maxsize=4096)
def _verdict(unit: ComputeUnit, reasons: tuple[Reason, ...]) -> Verdict:
    """The verdict by the reasons: an anecdote alone never takes an operation from a unit known to run it."""
    advice = tuple(reason for reason in reasons if reason.effect in _ADVICE)
    seen = [_rank(reason) for reason in reasons if reason.effect == "confirms"]
    best = min(seen, default=len(CONFIDENCES))
    against = [
        reason for reason in reasons if reason.effect in ("rejects", "fails") and _rank(reason) <= best
    ]
    runs = [reason for reason in reasons if reason.effect in ("runs", "confirms")]
    is_known = any(not _is_anecdote(reason) for reason in runs)
    holding = [reason for reason in against if not _is_anecdote(reason)] or ([] if is_known else against)
    if holding:
        return Verdict(unit, "no", tuple(holding), advice)
    if not runs:
        return Verdict(unit, "unknown", (), advice)
    return Verdict(unit, "yes", (), advice, doubts=tuple(against if is_known else runs))


def _is_anecdote(reason: Reason) -> bool:
    return reason.confidence == CONFIDENCES[-1]


def _rank(reason: Reason) -> int:
    return CONFIDENCES.index(reason.confidence)


def _rules_for(op: str, rules: Sequence[Rule]) -> list[Rule]:
    """The rules that may apply to an operation, those about any operation last."""
    return sorted((rule for rule in rules if rule.concerns(op)), key=lambda rule: rule.ops == EVERY_OP)


def _apply_graph_rule(
    rule: GraphRule, context: GraphContext, verdicts: dict[str, Mapping[ComputeUnit, Verdict]]
) -> None:
    try:
        found = rule.find(context)
    except _UNKNOWN:
        return
    types = {id_: view.op.type for id_, view in context.ops} if found else {}
    # Operations that shared their verdicts still do.
    made: dict[tuple[int, str, str], tuple[Mapping[ComputeUnit, Verdict], Mapping[ComputeUnit, Verdict]]] = {}
    for id_, detail in found.items():
        before = verdicts[id_]
        key = id(before), detail, types[id_]
        if key not in made:
            reason = rule.reason(detail, types[id_])
            made[key] = before, {**before, rule.unit: _with_reason(before[rule.unit], reason)}
        verdicts[id_] = made[key][1]


def _with_reason(old: Verdict, reason: Reason) -> Verdict:
    """Returns a verdict with what a rule about the whole function says."""
    if reason.effect in _ADVICE:
        return msgspec.structs.replace(old, advice=(*old.advice, reason))
    if not _is_anecdote(reason):
        return Verdict(old.unit, "no", (*old.reasons, reason), old.advice)
    if old.supported == "yes":
        return msgspec.structs.replace(old, doubts=(*old.doubts, reason))
    return old


def only_fails(verdict: Verdict) -> bool:
    """True where the unit accepts the operation, but its compiler fails on it."""
    return bool(verdict.reasons) and all(reason.effect == "fails" for reason in verdict.reasons)


def _spread_failures(
    verdicts: dict[str, Mapping[ComputeUnit, Verdict]], nodes: Sequence[Node], reach: Reach | None
) -> None:
    """Where the compiler rejects one operation it rejects the function: every operation leaves the unit.

    The compiler never sees operations that are rejected earlier or planned elsewhere, so these do not cause a
    failure. A published plan shows that: M5, macOS 26, with a tile of booleans between operations on the CPU.
    """
    of_functions = {rule.id for rule in GRAPH_RULES if not rule.ops}
    for unit in UNITS:
        failures = [
            (id_, reason)
            for id_, by_unit in verdicts.items()
            for reason in by_unit[unit].reasons
            if reason.effect == "fails" and (reason.rule in of_functions or only_fails(by_unit[unit]))
        ]
        if failures and reach is not None:
            reached = reach(unit, verdicts)
            failures = [(id_, why) for id_, why in failures if why.rule in of_functions or id_ in reached]
        if not failures:
            continue
        culprit, cause = failures[0]
        name = next(node.view.op.name for node in nodes if node.id == culprit)
        spread = msgspec.structs.replace(
            cause,
            text=f"{SPREAD}{name}: {cause.text}",
            effect="fails",
        )
        verdicts.update(_all_with(verdicts, spread))


def _all_with(
    verdicts: Mapping[str, Mapping[ComputeUnit, Verdict]], reason: Reason
) -> dict[str, Mapping[ComputeUnit, Verdict]]:
    """Returns verdicts with a reason where a unit has none; operations that shared theirs still do."""
    made: dict[int, Mapping[ComputeUnit, Verdict]] = {}
    for by_unit in verdicts.values():
        old = by_unit[reason.unit]
        if id(by_unit) not in made:
            new = Verdict(old.unit, "no", (reason,), old.advice)
            made[id(by_unit)] = by_unit if old.reasons else {**by_unit, old.unit: new}
    return {id_: made[id(by_unit)] for id_, by_unit in verdicts.items()}
