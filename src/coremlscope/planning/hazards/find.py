"""Which known hazards a model meets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from coremlscope.base.errors import CoremlscopeError, MissingWeightsError
from coremlscope.base.findings import Finding, least_known
from coremlscope.base.units import shown
from coremlscope.devices.catalog import find_device
from coremlscope.devices.release import OSRelease
from coremlscope.devices.unit import CPU, SETTINGS, UNIT_WORDS, UNITS, ComputeUnits
from coremlscope.model.ir import Model
from coremlscope.ops.view import CONTRADICTIONS, CannotInfer, CannotLower, OpView
from coremlscope.planning.hazards import HAZARD_OF_RULE, HAZARDS
from coremlscope.planning.hazards.hazard import GraphPattern, KnownHazard, OpPattern, Session
from coremlscope.planning.patterns.forms import join_words
from coremlscope.planning.patterns.rule import GraphContext, ProgramFacts, Rule, RuleContext
from coremlscope.planning.patterns.scopes import describe_scope
from coremlscope.planning.patterns.verdict import SPREAD
from coremlscope.results.hazard import HAZARD_KINDS, Hazard
from coremlscope.results.plan import DEFECTS, Plan, PlannedOp, Reason
from coremlscope.runtime.execution.binding import bind_model

#: Raised where an argument is absent, only known at run time, in a missing file, or not valid.
_UNKNOWN = (CannotInfer, CannotLower, MissingWeightsError, *CONTRADICTIONS)
#: The rows that hold on every unit, chip and system.
_EVERYWHERE = tuple(row for row in HAZARDS if row.is_everywhere)
#: Operations up to which each is named.
_NAMED = 3


def find_in_model(model: Model) -> Iterator[Hazard]:
    """Yields what the checks of a model, and of every stage of a pipeline, find."""
    yield from _check(model, "")


def _check(model: Model, where: str) -> Iterator[Hazard]:
    if model.content.is_core_ai:
        return
    for row in HAZARDS:
        for text in () if row.check is None else row.check(model):
            refused = "Core ML refuses this model: " if row.kind == "refused" else ""
            yield row.met(f"{refused}{where}{text}")
    for number, stage in enumerate(model.content.models):
        yield from _check(stage, f"in {where.removeprefix('in ')}stage {number}, ")


def find_in_session(session: Session) -> Iterator[Hazard]:
    """Yields what a session of ONNX Runtime with its Core ML provider meets."""
    for row in HAZARDS:
        for text in () if row.session is None else row.session(session):
            yield row.met(text)


def find_in_function(
    views: Sequence[OpView],
    producers: Mapping[str, OpView],
    facts: ProgramFacts,
    *,
    systems: Sequence[OSRelease] = (),
    among: Sequence[KnownHazard] = HAZARDS,
) -> Iterator[Hazard]:
    """Yields what the patterns find in a function, on some chip and system, wherever it is planned.

    Each is examined on the chip and system of its first example.

    Args:
        views: The operations, nested ones after their owner.
        producers: The operation that makes each value.
        facts: The program around them.
        systems: Only rows that hold on one of these; empty for all.
        among: The rows to look for.
    """
    if facts.runtime != "Core ML":
        return
    for row in among:
        if row.pattern is None or (systems and not any(map(row.scope.holds_on, systems))):
            continue
        found = _match(row, views, producers, facts)
        if found:
            rule = row.rule(row.id, row.units[0] if row.units else CPU)
            detail = next(iter(found.values()))
            named = {view.op.id: view.op.name for view in views if view.op.id in found}
            types = {view.op.type for view in views if view.op.id in found}
            yield row.met(
                rule.reason(detail).text,
                id=next((one.id for one in row.rules), row.id),
                confidence=least_known(map(rule.confidence_of, types)),
                scope=describe_scope(row.scope),
                ops=named,
            )


def find_everywhere(model: Model) -> Iterator[Hazard]:
    """Yields what a model meets on every unit, chip and system, as far as more than an anecdote tells.

    Functions that cannot be bound have none.
    """
    yield from (hazard for hazard in find_in_model(model) if hazard.confidence != "anecdotal")
    content = model.content
    for name in model.description.functions if content.functions and not content.is_core_ai else ():
        with suppress(CoremlscopeError):
            graph = bind_model(model, name).graph
            views = list(graph.walk())
            producers = {value.name: view for view in views for value in view.op.outputs}
            for hazard in find_in_function(views, producers, ProgramFacts(), among=_EVERYWHERE):
                if hazard.confidence != "anecdotal":
                    yield hazard


def _match(
    row: KnownHazard, views: Sequence[OpView], producers: Mapping[str, OpView], facts: ProgramFacts
) -> Mapping[str, bool | str]:
    """Returns the operations that show a row, on the device of its first example, with details."""
    match row.pattern:
        case OpPattern(accepts=(example, *_)) as pattern:
            rule = row.rule(row.id, CPU)
            assert isinstance(rule, Rule)
            device = find_device(example.chip, example.os)
            context = RuleContext.on(device, facts, producers)
            details = {
                view.op.id: _applies(pattern, view, context) for view in views if rule.concerns(view.op.type)
            }
            return {id_: detail for id_, detail in details.items() if detail}
        case GraphPattern(examples=(example, *_), find=find):
            device, ops = find_device(example.chip, example.os), [(view.op.id, view) for view in views]
            try:
                return find(
                    GraphContext(device=device, facts=facts, ops=ops, verdicts={}, producers=producers)
                )
            except _UNKNOWN:
                return {}
    return {}


def _applies(pattern: OpPattern, view: OpView, context: RuleContext) -> bool | str:
    try:
        return pattern.when(view, context)
    except _UNKNOWN:
        return False


def find_placed(plan: Plan, setting: ComputeUnits) -> list[Hazard]:
    """Returns the hazards that operations meet where one setting of a plan puts them, the gravest first.

    Those are defects on the unit where an operation runs, or may run, and forms on which the compiler of a
    unit of the setting fails.
    """
    units = SETTINGS[setting]
    found: dict[str, list[tuple[Reason, PlannedOp]]] = {}
    for op in plan.ops:
        for reason in () if op.inserted else (*op.advice, *op.why):
            row = HAZARD_OF_RULE.get(reason.rule)
            if row is None or reason.text.startswith(SPREAD):
                continue
            chosen = op.choices[setting]
            may_run = reason.unit == chosen.unit or reason.unit in chosen.alternatives
            if may_run if reason.effect in DEFECTS else reason.unit in units:
                found.setdefault(row.id, []).append((reason, op))
    hazards = [
        HAZARD_OF_RULE[met[0][0].rule].met(
            met[0][0].text,
            id=met[0][0].rule,
            units=tuple(dict.fromkeys(reason.unit for reason, _ in met)),
            confidence=least_known(reason.confidence for reason, _ in met),
            ops={op.id: op.name for _, op in met},
            is_certain=any(
                reason.effect not in DEFECTS or reason.unit == op.choices[setting].unit for reason, op in met
            ),
        )
        for met in found.values()
    ]
    return sorted(hazards, key=lambda hazard: HAZARD_KINDS.index(hazard.kind))


def describe_hazard(hazard: Hazard, more: str = "") -> Finding:
    """Returns a hazard as a finding.

    Args:
        hazard: The hazard.
        more: A sentence that follows: for instance where it is planned.
    """
    units = join_words([UNIT_WORDS[unit] for unit in hazard.units]) if hazard.units else ""
    units = "every unit" if len(hazard.units) == len(UNITS) else units
    where = f"On {units}{f' ({hazard.scope})' if hazard.scope else ''}: " if units and not more else ""
    names = [shown(name) for name in hazard.ops.values()]
    others = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    named = f": {', '.join(names[:_NAMED])}{others}" if names and more else ""
    text = hazard.text if where else f"{hazard.text[0].upper()}{hazard.text[1:]}"
    return Finding(
        id=hazard.id,
        severity="warning",
        text=" ".join(filter(None, [f"{where}{text}{named}.", more])),
        hint=hazard.fix,
        ops=tuple(hazard.ops),
        confidence=hazard.confidence,
        source=hazard.source,
    )


def find_on_model(model: Model) -> tuple[Finding, ...]:
    """Returns what the checks of a model find, as findings."""
    return tuple(map(describe_hazard, find_in_model(model)))
