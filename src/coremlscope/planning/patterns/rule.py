"""Placement rules.

How to write a rule
-------------------
Rules are rows of plain tuples: `RULES` in the modules of `placement/rules/`, whose `__init__` joins them. A
row is a `Rule`:

    Rule(
        id="ne-conv-kernel-width",
        unit=NEURAL_ENGINE,
        effect="rejects",
        ops=("conv",),
        when=lambda view, context: kernel(view)[-1] > 15,
        message="a kernel wider than 15 does not fit the Neural Engine: {detail}",
        core_ml="Error: conv with large kernel does not meet decomposition preconditions",
        fix="split the kernel into narrower ones, or use a dilated one",
        source="751K/Apple-Neural-Engine-Microarchitecture-Study-M6, plan_iso_cpune.tsv",
        confidence="measured",
        scope=Scope(neural_engine=(13, None)),
        applies_to=(Example("conv", {"x": fp16(1, 64, 32, 32), "weight": weight(64, 64, 17, 17)}),),
        negative_examples=(Example("conv", {"x": fp16(1, 64, 32, 32), "weight": weight(64, 64, 3, 3)}),),
    )

* `id`: kebab case, beginning with `ne-`, `gpu-` or `cpu-`. It never changes: people filter by it.
* `when(view, context)` examines a bound operation. It returns False or "", True, or a short text with the
  operation's numbers, which replaces `{detail}` in the message. An argument that is absent, or only known at
  run time, raises CannotInfer or CannotLower in `OpView`'s accessors. If the rule does not catch them, it
  does *not* apply. A rule about such an argument tests `view.has(name)` or `view.is_known(name)`.
* Rules with the effect `runs` define what a unit runs at all. An operation without such a rule and without a
  rejection is `unknown` on that unit.
* `ops` holds traits where the fact is about a kind of operation: it then includes new operations with that
  trait. It holds names where the fact was published about those very operations. A rule may have both: what
  is `measured` is so for the operations that it names and those of its examples; a trait lends it to the
  others of the kind `by analogy`.
* `when` sees one operation: operations with equal arguments and results are examined once. An exception that
  depends on the operations which make the arguments is `unless`.
* A rejection overrides `runs`. A rule that `confirms` (this very form was observed to run) overrides
  rejections of lower confidence, but not those of equal or higher confidence.
* Rules see the operations of Core ML's own rewriting of the program, with its casts
  (`placement/coreml_view.py`); `context.inserted` is True for those that are not in the file.
* `applies_to` holds examples for which `when` holds, `negative_examples` those for which it does not, on the
  chip and system that each example names. A test runs them all, and `coremlscope rules RULE` shows them.

A `GraphRule` is about more than a single operation: limits of a whole function, flexible inputs, inputs from
an operation that the unit does not run ("Unable to resolve operation input"). Its `find` examines the whole
function with the verdicts of the rules above, and returns the operations to which the rule applies.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from coremlscope.base.arrays import np
from coremlscope.base.findings import Confidence
from coremlscope.devices.chip import Chip, Device
from coremlscope.devices.release import OSRelease
from coremlscope.devices.unit import ComputeUnit
from coremlscope.model.ir import (
    Argument,
    Constant,
    Derived,
    DType,
    FeatureType,
    Op,
    TensorType,
    Value,
    ValueType,
    constant,
)
from coremlscope.ops import OPS, has_traits
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import BoundValue, OpView
from coremlscope.planning.patterns.verdict import Effect, Reason, Verdict

_Noted = TypeVar("_Noted")

#: The framework that plans programs: Core ML, or Core AI for `.aimodel` programs.
Runtime = Literal["Core ML", "Core AI"]

#: The operations that a rule may apply to: names as Apple spells them, and traits.
Selection = tuple[str | Trait, ...]

#: In `Rule.ops`: the rule may apply to any operation.
EVERY_OP = ("*",)


@functools.cache
def selects(selection: Selection, op: str) -> bool:
    """True where the selection includes the operation of this name."""
    return selection == EVERY_OP or op in selection or has_traits(op, _traits(selection))


def _traits(selection: Selection) -> Trait:
    """The traits in a selection."""
    return functools.reduce(operator.or_, (one for one in selection if isinstance(one, Trait)), Trait(0))


class Scope(msgspec.Struct, frozen=True):
    """Where a rule holds. The empty scope is everywhere.

    Attributes:
        chips: Ids (`m1-max`) or families (`m1`, which includes Pro, Max and Ultra).
        neural_engine: First and last generation of the Neural Engine (13 for A14 and M1; see `Chip`).
        since: The first version of Core ML, numbered as iOS: `(18, 0)` is iOS 18 and macOS 15.
        before: The first version for which the rule no longer holds.
    """

    chips: tuple[str, ...] = ()
    neural_engine: tuple[int | None, int | None] = (None, None)
    since: tuple[int, int] | None = None
    before: tuple[int, int] | None = None

    def holds(self, chip: Chip, os: OSRelease) -> bool:
        """True where the rule holds on this chip and system."""
        first, last = self.neural_engine
        generation = chip.neural_engine_generation
        return (
            (not self.chips or chip.id in self.chips or chip.family in self.chips)
            and (first is None or generation >= first)
            and (last is None or generation <= last)
            and self.holds_on(os)
        )

    def holds_on(self, os: OSRelease) -> bool:
        """True where the rule holds on this system, on some chip."""
        return (self.since is None or os.core_ml >= self.since) and (
            self.before is None or os.core_ml < self.before
        )


class ProgramFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the program around an operation.

    Attributes:
        opset: The number of the function's opset: 5 for `CoreML5` (iOS 15) … 9 for `CoreML9`.
        spec_version: Core ML's specification version of the file.
        flexible_inputs: How each flexible input is declared: `enumerated`, `range` or `unbounded`.
        resized_inputs: The shapes of flexible inputs that are planned with another one than their default.
        weights_bytes: Bytes of the weights in the file.
        states: How many states the function has.
        decodes: True for a step of a decoder: it has a state, or takes and returns a cache.
        runtime: The framework that plans it.
        inputs: The types of the model's inputs, by name.
        outputs: Those of its outputs.
    """

    opset: int = 8
    spec_version: int = 9
    flexible_inputs: Mapping[str, str] = msgspec.field(default_factory=dict)
    resized_inputs: Mapping[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    weights_bytes: int = 0
    states: int = 0
    decodes: bool = False
    runtime: Runtime = "Core ML"
    inputs: Mapping[str, FeatureType] = msgspec.field(default_factory=dict)
    outputs: Mapping[str, FeatureType] = msgspec.field(default_factory=dict)


class RuleContext(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that a rule can use besides the operation: of a device two numbers, so that devices with the same
    ones share what rules say of a kind of operations.

    Attributes:
        neural_engine_generation: The generation of the Neural Engine; see `Chip`.
        core_ml: The version of Core ML, numbered as iOS.
        facts: The program around it.
        producers: For each value of the function, by name: the operation that makes it.
        inserted: True where Core ML inserts the operation (a conversion, a cast): it is not in the file.
    """

    neural_engine_generation: int
    core_ml: tuple[int, int]
    facts: ProgramFacts = msgspec.field(default_factory=ProgramFacts)
    producers: Mapping[str, OpView] = msgspec.field(default_factory=dict)
    inserted: bool = False

    @classmethod
    def on(
        cls, device: Device, facts: ProgramFacts | None = None, producers: Mapping[str, OpView] | None = None
    ) -> RuleContext:
        """Returns the context of the operations of a program on a device."""
        return cls(
            neural_engine_generation=device.chip.neural_engine_generation,
            core_ml=device.os.core_ml,
            facts=facts or ProgramFacts(),
            producers={} if producers is None else producers,
        )


class Example(msgspec.Struct, frozen=True):
    """An operation, as an example for a rule.

    Attributes:
        type: Its name.
        arguments: By parameter: a tensor type (a value known only at run time), a constant, or anything that
            `ir.constant` takes: numbers, strings, lists. A tuple of tensor types is a variadic parameter.
        outputs: Types of the results, where the operation is not one that `ops` can infer.
        opset: As `OpView.opset`.
        chip: The chip on which the rule is tested; by default one of the newest.
        os: The version of the system, numbered as iOS.
        facts: The program around it.
    """

    type: str
    arguments: Mapping[str, object]
    outputs: tuple[TensorType, ...] = ()
    opset: int = 8
    chip: str = "m4"
    os: str = "27"
    facts: ProgramFacts = msgspec.field(default_factory=ProgramFacts)


When = Callable[[OpView, RuleContext], bool | str]


class _Fact(msgspec.Struct, frozen=True, kw_only=True):
    """What rules about single operations and about functions have in common.

    Attributes:
        id: Stable, in kebab case.
        unit: The compute unit.
        ops: Names of operations as Apple spells them, traits, or `EVERY_OP`.
        message: The fact, for people. `{detail}` stands for the text that `when` or `find` returns.
        source: Who published it, and where.
        confidence: How the source knows.
        effect: What it does where it applies.
        fix: What to do about it; empty where nothing helps or nothing is wrong.
        core_ml: Core ML's own message, where that was published. `{operation}` stands for the name of the
            operation's first result, `{operand}` for that of the first value in `operands` only known at run
            time.
        scope: Chips and systems for which it holds.
        but: Operations with a trait in `ops` that the rule excludes: other rules are about them, or nothing
            was published.
        runtime: The framework whose plans apply it.
    """

    id: str
    unit: ComputeUnit
    ops: Selection
    message: str
    source: str
    confidence: Confidence
    effect: Effect = "rejects"
    fix: str = ""
    core_ml: str = ""
    scope: Scope = Scope()
    but: frozenset[str] = frozenset()
    runtime: Runtime = "Core ML"

    @property
    def seen(self) -> Iterator[Example]:
        """Examples to which it applies."""
        return iter(())

    def concerns(self, op: str) -> bool:
        """True where the rule may apply to operations of this name."""
        return op not in self.but and selects(self.ops, op)

    def confidence_of(self, op: str) -> Confidence:
        """How it is known for operations of this name: what was measured on others of a kind, by analogy."""
        is_lent = self.ops not in ((), EVERY_OP) and op not in self.ops
        if self.confidence == "measured" and is_lent and all(one.type != op for one in self.seen):
            return "by analogy"
        return self.confidence

    def reason(self, detail: bool | str, op: str = "", fix: str | None = None) -> Reason:
        """The rule as a reason, with the numbers of one operation, and its name and advice if given."""
        text = self.message.format(detail=detail if isinstance(detail, str) else "")
        return Reason(
            unit=self.unit,
            rule=self.id,
            text=text.strip(" :"),
            fix=self.fix if fix is None else fix,
            core_ml=self.core_ml,
            confidence=self.confidence_of(op) if op else self.confidence,
            source=self.source,
            effect=self.effect,
        )


class Rule(_Fact, frozen=True, kw_only=True):
    """A fact about a unit: which forms of which operations it runs, or does not run.

    Attributes:
        when: Whether the rule applies; see the module.
        fix_for: What to do about one operation, instead of `fix`, where that depends on its form.
        fix_by_name: The operations for which that depends on names: of values, or of what makes them.
        operands: The parameters that `core_ml` names.
        applies_to: Operations that it applies to; at least one.
        negative_examples: Operations that it does not apply to; at least one, unless the rule is about every
            form of an operation.
        unless: An exception that depends on what makes the arguments (`producers`), which `when` must not.
    """

    when: When
    fix_for: Callable[[OpView, RuleContext], str] | None = None
    fix_by_name: tuple[str, ...] = ()
    operands: tuple[str, ...] = ()
    applies_to: tuple[Example, ...] = ()
    negative_examples: tuple[Example, ...] = ()
    unless: Callable[[OpView, RuleContext], bool] | None = None

    @property
    def seen(self) -> Iterator[Example]:
        """Examples to which it applies."""
        return iter(self.applies_to)

    def is_same_for_kinds(self, op: str) -> bool:
        """True where it says the same of all operations of this name that `Kinds` gives one number."""
        return self.unless is None and not self.operands and op not in self.fix_by_name

    def reason_for(self, op: Op, detail: bool | str, fix: str | None = None) -> Reason:
        """The rule as a reason, with the numbers and names of one operation, and its advice if given."""
        reason = self.reason(detail, op.type, fix)
        if not self.operands:
            return reason
        values = (argument for name in self.operands for argument in op.inputs.get(name, ()))
        operand = next((value.name for value in values if isinstance(value, Value)), self.operands[0])
        operation = op.outputs[0].name if op.outputs else op.type
        message = self.core_ml.replace("{operation}", operation).replace("{operand}", operand)
        return replace(reason, core_ml=message)


class GraphContext(msgspec.Struct, frozen=True, kw_only=True):
    """A function with what is known about each of its operations.

    Attributes:
        device: Chip and system.
        facts: The program.
        ops: The operations with their ids, in order, nested ones after their owner.
        verdicts: By id: the verdicts of the rules for single operations, per unit. A rule must not change
            them.
        producers: As `RuleContext.producers`.
        known: What rules noted about the operations, which is the same on all devices; see `remember`.
    """

    device: Device
    facts: ProgramFacts
    ops: Sequence[tuple[str, OpView]]
    verdicts: Mapping[str, Mapping[ComputeUnit, Verdict]]
    producers: Mapping[str, OpView]
    known: dict[object, Any] = msgspec.field(default_factory=dict)

    def remember(self, compute: Callable[[Sequence[tuple[str, OpView]]], _Noted]) -> _Noted:
        """Returns what a function notes about the operations, on whatever device."""
        if compute not in self.known:
            self.known[compute] = compute(self.ops)
        noted: _Noted = self.known[compute]
        return noted


class GraphExample(msgspec.Struct, frozen=True, kw_only=True):
    """A function, as an example for a rule: operations whose arguments may be earlier results, as `Result`.

    Attributes:
        ops: The operations in order.
        hits: The positions of those to which the rule applies.
        facts: The program around them.
        chip: The chip on which the rule is tested.
        os: The version of the system, numbered as iOS.
    """

    ops: tuple[Example, ...]
    hits: tuple[int, ...] = ()
    facts: ProgramFacts = msgspec.field(default_factory=ProgramFacts)
    chip: str = "m4"
    os: str = "27"


class Result(msgspec.Struct, frozen=True):
    """In the arguments of a graph's example: a result of an earlier operation."""

    op: int
    index: int = 0


class GraphRule(_Fact, frozen=True, kw_only=True):
    """A fact about a unit that concerns a whole function.

    Attributes:
        find: Returns the ids of the operations to which it applies, with the text for `{detail}` or "".
        ops: As in rules about operations; empty for a whole function, reported at its first operation.
        examples: Functions, at least one to which it applies and one to which it does not.
    """

    find: Callable[[GraphContext], Mapping[str, str]]
    ops: Selection = ()
    examples: tuple[GraphExample, ...] = ()

    @property
    def seen(self) -> Iterator[Example]:
        """Examples to which it applies."""
        return (one.ops[place] for one in self.examples for place in one.hits)


def tensor(dtype: DType, *shape: int | None) -> TensorType:
    """A type, for examples."""
    return TensorType(dtype, shape)


def fp16(*shape: int | None) -> TensorType:
    """A tensor of half floats, for examples."""
    return TensorType(DType.FP16, shape)


def fp32(*shape: int | None) -> TensorType:
    """A tensor of floats, for examples."""
    return TensorType(DType.FP32, shape)


def int32(*shape: int | None) -> TensorType:
    """A tensor of integers, for examples."""
    return TensorType(DType.INT32, shape)


def boolean(*shape: int | None) -> TensorType:
    """A tensor of booleans, for examples."""
    return TensorType(DType.BOOL, shape)


def weight(*shape: int, dtype: DType = DType.FP16) -> Constant:
    """A constant of this shape, for examples; its zeros are created on demand."""
    return Constant(TensorType(dtype, shape), Derived(lambda: np.zeros(shape, dtype.numpy)))


def example_view(example: Example, id_: str = "main/0", results: Sequence[OpView] = ()) -> OpView:
    """An example as rules see it, with the types of its results inferred.

    Args:
        example: The operation.
        id_: Its id; the names of its values derive from it.
        results: The operations before it, for arguments that are `Result`.
    """
    bound: dict[str, tuple[BoundValue, ...]] = {}
    arguments: dict[str, tuple[Argument, ...]] = {}
    for name, given in example.arguments.items():
        several = given if isinstance(given, tuple) else (given,)
        pairs = [_argument(f"{id_}/{name}{k}", one, results) for k, one in enumerate(several)]
        arguments[name] = tuple(argument for argument, _ in pairs)
        bound[name] = tuple(value for _, value in pairs)
    view = OpView(
        op=Op(id=id_, type=example.type, inputs=arguments, outputs=()), inputs=bound, opset=example.opset
    )
    spec = OPS.get(example.type)
    types: tuple[ValueType, ...] = example.outputs
    if not types and spec is not None:
        types = tuple(spec.infer(view))
    outputs = tuple(Value(f"{id_}:{k}", type_) for k, type_ in enumerate(types))
    return OpView(
        op=Op(id=id_, type=example.type, inputs=arguments, outputs=outputs),
        inputs=bound,
        opset=example.opset,
        blocks=(),
        outputs=tuple(map(BoundValue, types)),
    )


def _argument(name: str, given: object, results: Sequence[OpView]) -> tuple[Argument, BoundValue]:
    if isinstance(given, Result):
        view = results[given.op]
        return view.op.outputs[given.index], view.outputs[given.index]
    if isinstance(given, TensorType):
        return Value(name, given), BoundValue(given)
    known = given if isinstance(given, Constant) else constant(given)
    return known, BoundValue(known.type, known)
