"""What a rule of placement is, and how rules become verdicts.

How to write a rule
-------------------
Rules are rows of plain tuples, `RULES` in each module of `placement/` that is named after a unit
(`neural_engine_*.py`, `gpu.py`, `cpu.py`); `placement/rules.py` joins them. A row is a `Rule`:

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
* `when(view, context)` sees a bound operation. It returns False or "", True, or a short text with the
  operation's numbers, which takes the place of `{detail}` in the message. An argument that is
  absent, or only known at run time, raises CannotInfer or CannotLower in `OpView`'s accessors: a rule that
  lets it through does *not* apply. A rule about such an argument asks `view.has(name)`,
  or `view.is_known(name)`.
* What a unit runs at all is said by rules with the effect `runs`. An operation that no rule says is run or
  rejected is `unknown` on that unit.
* `ops` names traits where the fact is about what operations are: a new operation with such a trait is then
  taken to behave alike. It names operations where the fact was published of these very ones.
* Any rule that rejects defeats `runs`. A rule that `confirms` (this very form was seen to run) defeats
  rejections that are known less well. Rejections of equal or better confidence stand.
* The operations that rules see are those of Core ML's own rewriting of the program, with its casts
  (`placement/coreml_view.py`); `context.inserted` is True for those that are not in the file.
* `applies_to` holds examples for which `when` holds, `negative_examples` those for which it does not, on the
  chip and system that each example names. A test runs them all, and `coremlscope rules RULE` shows them.

What no single operation shows is a `GraphRule`: limits of a whole function, flexible inputs, inputs that come
from an operation which the unit does not run ("Unable to resolve operation input"). Its `find` sees the whole
function with the verdicts that the rules above gave, and returns the operations it hits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

import numpy as np

from coremlscope.devices.chip import Chip, Device
from coremlscope.devices.release import OSRelease
from coremlscope.devices.unit import ComputeUnit
from coremlscope.ir import Argument, Constant, Derived, DType, Op, TensorType, Value, ValueType, constant
from coremlscope.ops import OPS, traits_of
from coremlscope.ops.bind import BoundFunction
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import BoundValue, OpView
from coremlscope.placement.verdict import Confidence, Effect, Reason, Verdict

__all__ = [
    "EVERY_OP",
    "Example",
    "GraphContext",
    "GraphExample",
    "GraphRule",
    "ProgramFacts",
    "Result",
    "Rule",
    "RuleContext",
    "Scope",
    "Selection",
    "boolean",
    "example_view",
    "fp16",
    "fp32",
    "int32",
    "selects",
    "tensor",
    "weight",
]

#: What a rule may apply to: operations as Apple spells them, and all operations that have one of some traits.
Selection = tuple[str | Trait, ...]

#: In `Rule.ops`: the rule may apply to any operation.
EVERY_OP = ("*",)


def selects(selection: Selection, op: str) -> bool:
    """True where a rule about these operations may apply to the one of this name."""
    if selection == EVERY_OP or op in selection:
        return True
    traits = traits_of(op)
    return any(isinstance(one, Trait) and one & traits for one in selection)


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a rule holds. The empty scope is everywhere.

    Attributes:
        chips: Ids (`m1-max`) or families (`m1`, which takes in its Pro, Max and Ultra).
        neural_engine: First and last generation of the Neural Engine (13 for A14 and M1; see `Chip`).
        since: The first version of Core ML on iOS's scale: `(18, 0)` is iOS 18 and macOS 15.
        before: The first version for which the rule no longer holds.
    """

    chips: tuple[str, ...] = ()
    neural_engine: tuple[int | None, int | None] = (None, None)
    since: tuple[int, int] | None = None
    before: tuple[int, int] | None = None

    def holds(self, chip: Chip, os: OSRelease) -> bool:
        """True where the rule counts on this chip and system."""
        first, last = self.neural_engine
        generation = chip.neural_engine_generation
        return (
            (not self.chips or chip.id in self.chips or chip.family in self.chips)
            and (first is None or generation >= first)
            and (last is None or generation <= last)
            and (self.since is None or os.core_ml >= self.since)
            and (self.before is None or os.core_ml < self.before)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFacts:
    """What rules may ask of the program around an operation.

    Attributes:
        opset: The number of the function's opset: 5 for `CoreML5` (iOS 15) … 9 for `CoreML9`.
        spec_version: Core ML's specification version of the file.
        flexible_inputs: How each flexible input is declared: `enumerated`, `range` or `unbounded`.
        weights_bytes: Bytes of the weights in the file.
        states: How many states the function has.
    """

    opset: int = 8
    spec_version: int = 9
    flexible_inputs: Mapping[str, str] = field(default_factory=dict)
    weights_bytes: int = 0
    states: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleContext:
    """What a rule knows besides the operation.

    Attributes:
        device: Chip and system.
        facts: The program around it.
        producers: For each value of the function, by name: the operation that makes it.
        consumers: For each value, by name: the operations that take it.
        inserted: True where Core ML inserts the operation (a conversion, a cast): it is not in the file.
    """

    device: Device
    facts: ProgramFacts = field(default_factory=ProgramFacts)
    producers: Mapping[str, OpView] = field(default_factory=dict)
    consumers: Mapping[str, Sequence[OpView]] = field(default_factory=dict)
    inserted: bool = False

    @property
    def chip(self) -> Chip:
        """The chip."""
        return self.device.chip

    @property
    def os(self) -> OSRelease:
        """The system."""
        return self.device.os


@dataclass(frozen=True, slots=True)
class Example:
    """An operation, written down for a rule.

    Attributes:
        type: Its name.
        arguments: By parameter: a tensor type (a value known only at run time), a constant, or anything that
            `ir.constant` takes: numbers, strings, lists. A tuple of tensor types is a variadic parameter.
        outputs: Types of the results, where the operation is not one that `ops` can infer.
        opset: As `OpView.opset`.
        chip: Where it is tried; by default one of the newest chips.
        os: The version of iOS's scale where it is tried.
        facts: The program around it.
    """

    type: str
    arguments: Mapping[str, object]
    _: KW_ONLY
    outputs: tuple[TensorType, ...] = ()
    opset: int = 8
    chip: str = "m4"
    os: str = "27"
    facts: ProgramFacts = field(default_factory=ProgramFacts)


When = Callable[[OpView, RuleContext], bool | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A fact about a unit: which forms of which operations it runs or does not.

    Attributes:
        id: Stable, in kebab case.
        unit: The compute unit.
        ops: Names of operations as Apple spells them, traits, or `EVERY_OP`.
        when: Whether the rule applies; see the module.
        message: For people: what is so. `{detail}` stands for the text that `when` gives.
        source: Who published it, and where.
        confidence: How it is known there.
        effect: What it does where it applies.
        fix: What to do about it; empty where nothing helps or nothing is wrong.
        core_ml: What Core ML itself says, where that was published.
        scope: Chips and systems for which it holds.
        applies_to: Operations that it applies to; at least one.
        negative_examples: Operations that it does not apply to; at least one, unless the rule is about every
            form of an operation.
        but: Operations with a trait of `ops` that other rules speak of, or that nothing was published about.
    """

    id: str
    unit: ComputeUnit
    ops: Selection
    when: When
    message: str
    source: str
    confidence: Confidence
    effect: Effect = "rejects"
    fix: str = ""
    core_ml: str = ""
    scope: Scope = Scope()
    applies_to: tuple[Example, ...] = ()
    negative_examples: tuple[Example, ...] = ()
    but: frozenset[str] = frozenset()

    def concerns(self, op: str) -> bool:
        """True where the rule may apply to operations of this name."""
        return op not in self.but and selects(self.ops, op)

    def reason(self, detail: bool | str) -> Reason:
        """The rule as a reason, with the numbers of one operation."""
        text = self.message.format(detail=detail if isinstance(detail, str) else "")
        return Reason(
            unit=self.unit,
            rule=self.id,
            text=text.strip(" :"),
            fix=self.fix,
            core_ml=self.core_ml,
            confidence=self.confidence,
            source=self.source,
            effect=self.effect,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphContext:
    """A function with what is known of each of its operations.

    Attributes:
        device: Chip and system.
        facts: The program.
        ops: The operations with their ids, in order, nested ones after their owner.
        verdicts: By id: what the rules for single operations say, per unit. A rule must not change it.
        producers: As `RuleContext.producers`.
        function: The function as the file has it.
    """

    device: Device
    facts: ProgramFacts
    ops: Sequence[tuple[str, OpView]]
    verdicts: Mapping[str, Mapping[ComputeUnit, Verdict]]
    producers: Mapping[str, OpView]
    function: BoundFunction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphExample:
    """A function, written down for a rule: examples whose arguments may name earlier results as `Result`.

    Attributes:
        ops: The operations in order.
        hits: The positions of those that the rule hits.
        facts: The program around them.
        chip: Where it is tried.
        os: The version where it is tried.
    """

    ops: tuple[Example, ...]
    hits: tuple[int, ...] = ()
    facts: ProgramFacts = field(default_factory=ProgramFacts)
    chip: str = "m4"
    os: str = "27"


@dataclass(frozen=True, slots=True)
class Result:
    """In the arguments of a graph's example: a result of an earlier operation."""

    op: int
    index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRule:
    """A fact about a unit that shows in a whole function only.

    Attributes:
        find: Returns the ids of the operations that it hits, with the text for `{detail}` or "".
        Others: as `Rule`.
        ops: Operations that it may hit; empty for rules about a whole function, which hit its first one.
        examples: Functions and which of their operations it hits; one at least that is hit, one that is not.
    """

    id: str
    unit: ComputeUnit
    find: Callable[[GraphContext], Mapping[str, str]]
    message: str
    source: str
    confidence: Confidence
    effect: Effect = "rejects"
    fix: str = ""
    core_ml: str = ""
    scope: Scope = Scope()
    ops: Selection = ()
    examples: tuple[GraphExample, ...] = ()

    def concerns(self, op: str) -> bool:
        """True where the rule may hit operations of this name."""
        return selects(self.ops, op)

    def reason(self, detail: str) -> Reason:
        """The rule as a reason, with the numbers of one operation."""
        text = self.message.format(detail=detail)
        return Reason(
            unit=self.unit,
            rule=self.id,
            text=text.strip(" :"),
            fix=self.fix,
            core_ml=self.core_ml,
            confidence=self.confidence,
            source=self.source,
            effect=self.effect,
        )


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
    """A constant of this shape, for examples; it holds zeros, made when they are asked for."""
    return Constant(TensorType(dtype, shape), Derived(lambda: np.zeros(shape, dtype.numpy)))


def example_view(example: Example, id_: str = "main/0", results: Sequence[OpView] = ()) -> OpView:
    """An example as rules see it, with the types of its results inferred.

    Args:
        example: The operation.
        id_: The id to give it; the names of its values are made from it.
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
