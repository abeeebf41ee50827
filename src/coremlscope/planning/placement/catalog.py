"""Rules and operations for lookup: filtered, described, with examples."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from coremlscope.base.errors import UsageError
from coremlscope.devices import find_device
from coremlscope.devices.chip import Device
from coremlscope.devices.unit import ComputeUnit
from coremlscope.model.ir import Constant, TensorType
from coremlscope.ops import OPS
from coremlscope.ops.onnx_nodes import onnx_nodes
from coremlscope.ops.spec import OpSpec
from coremlscope.ops.traits import trait_names
from coremlscope.ops.view import CannotInfer, CannotLower, OpView
from coremlscope.planning.patterns.forms import extents
from coremlscope.planning.patterns.rule import (
    EVERY_OP,
    Example,
    GraphExample,
    GraphRule,
    Result,
    Rule,
    RuleContext,
    example_view,
)
from coremlscope.planning.patterns.scopes import describe_scope
from coremlscope.planning.placement.eligibility import apply
from coremlscope.planning.placement.rules import GRAPH_RULES, RULES
from coremlscope.planning.placement.rules.core_ai import OWN_GRAPH_RULES, OWN_RULES
from coremlscope.results.encoding import plain

_SUGGESTIONS = 3


class CatalogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A rule, in words.

    Attributes:
        id: The rule's id.
        unit: The compute unit.
        effect: `rejects`, `fails`, `advises`, `corrupts`, `crashes`, `hangs`, `runs`, `confirms`.
        ops: Operations to which it may apply; `*` for any; empty for whole models.
        text: The fact, without an operation's numbers.
        fix: What to do about it.
        core_ml: Core ML's own message.
        scope: Chips and systems for which it holds; empty for all.
        source: Who published it.
        confidence: How the source knows; of the rules for one operation, what it knows of that one.
        by_analogy: The operations of `ops` that were not measured; empty where nothing was.
    """

    id: str
    unit: ComputeUnit
    effect: str
    ops: tuple[str, ...]
    text: str
    fix: str
    core_ml: str = ""
    scope: str = ""
    source: str
    confidence: str
    by_analogy: tuple[str, ...] = ()

    @property
    def applies_to(self) -> tuple[tuple[str, str], ...]:
        """Examples to which it applies, each with the resulting text."""
        row = _rows()[self.id]
        if isinstance(row, Rule):
            return tuple((_example(one), _says(row, one)) for one in row.applies_to)
        return tuple((_function(one), "") for one in row.examples if one.hits)

    @property
    def negative_examples(self) -> tuple[str, ...]:
        """Examples to which it does not apply."""
        row = _rows()[self.id]
        if isinstance(row, Rule):
            return tuple(map(_example, row.negative_examples))
        return tuple(_function(one) for one in row.examples if not one.hits)

    @property
    def evidence(self) -> str:
        """How the rule is known, and for which operations by analogy."""
        return "; by analogy for ".join(filter(None, [self.confidence, ", ".join(self.by_analogy)]))

    def to_json(self) -> dict[str, Any]:
        """The entry as plain data."""
        applies_to = [{"operation": op, "says": says} for op, says in self.applies_to]
        return {
            **plain(self),
            "applies_to": applies_to,
            "negative_examples": list(self.negative_examples),
        }


class WorkExample(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one form of an operation."""

    operation: str
    flops: int
    read_bytes: int
    weight_bytes: int
    written_bytes: int


class OpCard(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known about an operation.

    Attributes:
        name: As Apple spells it.
        doc: What it computes.
        traits: What it is, in words: see `Trait`.
        onnx: The ONNX operators that its lowering can write.
        work: How its work is counted.
        example: The work of one form of it; None without an example.
        rules: Every rule that may apply to it, those about any operation last.
    """

    name: str
    doc: str
    traits: tuple[str, ...]
    onnx: tuple[str, ...]
    work: str
    example: WorkExample | None
    rules: tuple[CatalogEntry, ...]

    def to_json(self) -> dict[str, Any]:
        """The card as plain data."""
        return {**plain(self), "rules": [entry.to_json() for entry in self.rules]}


def list_rules(
    unit: ComputeUnit | None = None,
    op: str | None = None,
    device: Device | None = None,
    effect: str | None = None,
) -> list[CatalogEntry]:
    """The rules that pass all filters.

    Args:
        unit: Only those about this compute unit.
        op: Only those that may apply to this operation.
        device: Only those that hold on this chip and system.
        effect: Only those with this effect.

    Raises:
        UsageError: The operation is unknown.
    """
    if op is not None and op not in _known_ops():
        raise _unknown("operation", op, _known_ops())
    kept = [
        row
        for row in _rows().values()
        if unit in (None, row.unit)
        and effect in (None, row.effect)
        and (op is None or row.concerns(op))
        and (device is None or row.scope.holds(device.chip, device.os))
    ]
    if op is None:
        return [_entry(row.id) for row in kept]
    return [replace(_entry(row.id), confidence=row.confidence_of(op)) for row in kept]


def find_rule(id_: str) -> CatalogEntry:
    """A rule by its id.

    Raises:
        UsageError: The rule is unknown; the nearest ids are suggested.
    """
    if id_ not in _rows():
        raise _unknown("rule", id_, list(_rows()))
    return _entry(id_)


@functools.cache
def _rows() -> Mapping[str, Rule | GraphRule]:
    """All rules, by id."""
    every: list[Rule | GraphRule] = [*RULES, *GRAPH_RULES, *OWN_RULES, *OWN_GRAPH_RULES]
    return {row.id: row for row in every}


def describe_op(name: str, device: Device | None = None) -> OpCard:
    """An operation: its traits, its ONNX operators, its work, and every rule that may apply to it.

    Args:
        name: As Apple spells it.
        device: Only rules that hold on this chip and system.

    Raises:
        UsageError: The operation is unknown; the nearest names are suggested.
    """
    spec = OPS.get(name)
    if spec is None:
        raise _unknown("operation", name, list(OPS))
    rules = sorted(list_rules(op=name, device=device), key=lambda entry: entry.ops == EVERY_OP)
    return OpCard(
        name=name,
        doc=spec.doc,
        traits=trait_names(spec.traits),
        onnx=onnx_nodes(spec),
        work=_counting(spec),
        example=_work(name),
        rules=tuple(rules),
    )


def _counting(spec: OpSpec) -> str:
    """How the work is counted: the first paragraph of the docstring of the function that counts it."""
    given = inspect.getclosurevars(spec.work).nonlocals
    maker = getattr(inspect.getmodule(spec.work), spec.work.__qualname__.partition(".<locals>")[0], None)
    doc = spec.work.__doc__ or getattr(maker, "__doc__", None) or ""
    text = " ".join(doc.partition("\n\n")[0].split())
    for name, value in given.items():
        text = text.replace(f"`{name}`", str(value))
    return text.replace("1 operations", "1 operation")


@functools.cache
def _known_ops() -> tuple[str, ...]:
    ruled = (op for rule in RULES for op in rule.ops if isinstance(op, str) and op not in EVERY_OP)
    return tuple(dict.fromkeys((*OPS, *ruled)))


def _unknown(noun: str, name: str, known: Sequence[str]) -> UsageError:
    begun = [each for each in known if each.startswith(name.lower())]
    near = begun[:_SUGGESTIONS] or difflib.get_close_matches(name.lower(), known, _SUGGESTIONS, 0.5)
    verb = "rules" if noun == "rule" else "ops"
    hint = f"did you mean {' or '.join(near)}?" if near else f"`coremlscope {verb}` lists them all"
    return UsageError(f"unknown {noun} {name!r}", hint)


def _names(row: Rule | GraphRule) -> tuple[str, ...]:
    """The operations to which a rule may apply, traits expanded; `EVERY_OP` for any."""
    if row.ops == EVERY_OP:
        return EVERY_OP
    return tuple(name for name in _known_ops() if row.concerns(name))


@functools.cache
def _entry(id_: str) -> CatalogEntry:
    row = _rows()[id_]
    same = {name: getattr(row, name) for name in ("id", "unit", "fix", "source", "confidence")}
    names = _names(row)
    return CatalogEntry(
        effect=row.effect,
        ops=names,
        text=row.reason("").text,
        core_ml=row.core_ml.replace("{operation}", "…").replace("{operand}", "…"),
        scope=_held_by(row),
        by_analogy=tuple(name for name in names if row.confidence_of(name) != row.confidence),
        **same,
    )


def _held_by(row: Rule | GraphRule) -> str:
    """Where a rule holds, and the framework if it is not Core ML."""
    framework = "" if row.runtime == "Core ML" else row.runtime
    return "; ".join(filter(None, [framework, describe_scope(row.scope)]))


def _says(rule: Rule, example: Example) -> str:
    context = RuleContext.on(find_device(example.chip, example.os), example.facts)
    return rule.reason(apply(rule, example_view(example), context)).text


def _example(example: Example) -> str:
    """``conv(x=fp16 1x64x32x32, weight=const fp16 64x64x17x17) on M4, macOS 27``."""
    device = find_device(example.chip, example.os)
    inputs = "".join(f", {name} {kind}" for name, kind in example.facts.flexible_inputs.items())
    return f"{_call(example)} on {device.name}, {device.os}{inputs}"


def _function(example: GraphExample) -> str:
    device = find_device(example.chip, example.os)
    facts = example.facts
    around = [f"{facts.states} states"] if facts.states else []
    around += [f"{facts.weights_bytes / 1e9:g} GB of weights"] if facts.weights_bytes else []
    around += [f"{name} {kind}" for name, kind in facts.flexible_inputs.items()]
    calls = "; ".join(f"%{k} = {_call(op)}" for k, op in enumerate(example.ops))
    return ", ".join([f"{calls} on {device.name}, {device.os}", *around])


def _call(example: Example) -> str:
    given = ", ".join(f"{name}={_argument(value)}" for name, value in example.arguments.items())
    return f"{example.type}({given})"


def _argument(value: object) -> str:
    match value:
        case TensorType():
            return f"{value.dtype.value} {extents(value)}"
        case Constant():
            assert isinstance(value.type, TensorType)
            return f"const {value.type.dtype.value} {extents(value.type)}"
        case Result():
            return f"%{value.op}" + (f".{value.index}" if value.index else "")
        case tuple():
            return f"({', '.join(map(_argument, value))})"
        case _:
            return str(value)


def _work(name: str) -> WorkExample | None:
    """The work of the first example whose shapes are all known."""
    for example in (
        e for rule in RULES for e in (*rule.applies_to, *rule.negative_examples) if e.type == name
    ):
        view: OpView = example_view(example)
        try:
            work = OPS[name].work(view)
        except (CannotInfer, CannotLower, LookupError, TypeError, ValueError):
            continue
        if work.is_complete:
            return WorkExample(
                operation=_call(example),
                flops=work.flops,
                read_bytes=work.read_bytes,
                weight_bytes=work.weight_bytes,
                written_bytes=work.written_bytes,
            )
    return None
