"""Rules about models.

A rule examines one bound function and returns what it found, with the change that would fix it: operations
that vanish, operations in another form, inputs of other types. The planner plans the function again with that
change, so a rule states no cost of its own. A rule that finds something which costs nothing on a device is
not shown there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec

from coremlscope.base.findings import Confidence, Severity
from coremlscope.base.units import shown
from coremlscope.devices.unit import ComputeUnits
from coremlscope.model.ir import (
    DType,
    Layer,
    TensorType,
    Value,
    ValueType,
)
from coremlscope.ops import has_traits
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import OpView
from coremlscope.planning.cost.latency.kernels import Flow, Fused, Kernel
from coremlscope.runtime.execution.wiring import StageFunction

#: Names in one sentence, and the longest of them.
_NAMES, _LONGEST = 3, 48
#: The bytes of a number in half precision.
_HALF = 2
#: The containers of models that coremltools does not change.
_FINISHED = ("mlmodelc", "aimodel")


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The differences of the function after a fix.

    Attributes:
        removed: The ids of operations that would cost nothing, also those that Core ML inserts.
        replaced: Operations in another form, by id.
        freed: Rules of placement that would not apply any longer, by id.
        fused: Operations that would be fused with the layer before them, by id, with the id of that layer.
        has_fixed_shapes: Whether all inputs would have fixed shapes.
        converted_bytes: The bytes of inputs and outputs that are converted to half precision, less.
    """

    removed: frozenset[str] = frozenset()
    replaced: Mapping[str, OpView] = msgspec.field(default_factory=dict)
    freed: frozenset[str] = frozenset()
    fused: Mapping[str, str] = msgspec.field(default_factory=dict)
    has_fixed_shapes: bool = False
    converted_bytes: int = 0

    @classmethod
    def of_all(cls, changes: Iterable[Change]) -> Change:
        """Returns several changes at once. What one of them removes, no other one changes."""
        several = tuple(changes)
        removed = frozenset[str]().union(*(one.removed for one in several))
        return cls(
            removed=removed,
            replaced={i: view for one in several for i, view in one.replaced.items() if i not in removed},
            freed=frozenset[str]().union(*(one.freed for one in several)),
            fused={i: head for one in several for i, head in one.fused.items() if head not in removed},
            has_fixed_shapes=any(one.has_fixed_shapes for one in several),
            converted_bytes=sum(one.converted_bytes for one in several),
        )


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A place where a rule applies.

    Attributes:
        text: A sentence, with the names of what it is about.
        ops: The ids of the operations.
        change: What would be different without it.
        saved_bytes: How much smaller the files would be.
        fix: What to do, where that differs from the rule's.
        transform: The transform of `what-if` that does it, where that is not the rule's; empty for none.
    """

    text: str
    ops: tuple[str, ...] = ()
    change: Change = msgspec.field(default_factory=Change)
    saved_bytes: int = 0
    fix: str = ""
    transform: str | None = None


class FunctionView:
    """A bound function with the properties that rules use.

    Args:
        function: A function of a program.

    Attributes:
        model: The model, or the stage of a pipeline.
        bound: The function, as Core ML computes it.
        description: Its interface.
        key: Its name in plans.
        is_network: True for a neural network, whose layers have no types.
    """

    def __init__(self, function: StageFunction) -> None:
        assert function.bound is not None
        self.model, self.bound = function.stage.model, function.bound
        self.description, self.key = function.description, function.key
        self.is_network = self.model.content.is_network

    @cached_property
    def is_transformable(self) -> bool:
        """Whether `what-if` can apply the transforms of findings: to a network, or an ML Program of one
        function, that is neither compiled nor a stage."""
        is_single = len(self.model.content.functions) == 1
        return is_single and self.model.container not in _FINISHED and "/" not in self.key

    @cached_property
    def _fused(self) -> Fused:
        return Fused(self.bound.graph)

    @cached_property
    def fused(self) -> Sequence[Kernel]:
        """The kernels, as if one unit ran them all."""
        return self._in_precision(self._fused.kernels)

    @property
    def flows(self) -> Sequence[Flow]:
        """The tensors from operations to others."""
        return self._fused.flows

    def cut(self, kernel: Kernel, groups: Sequence[Sequence[str]]) -> Sequence[Kernel]:
        """Returns the kernels of which one of the kernels consists where a plan divides it; see `Fused`."""
        return self._in_precision(self._fused.cut(kernel, groups))

    def _in_precision(self, kernels: Sequence[Kernel]) -> Sequence[Kernel]:
        """Returns kernels in the precision of the CPU, where a neural network computes in single precision.

        Apple's "Typed Execution" article for coremltools: other units use half precision, whatever it says.
        """
        for kernel in kernels if self.is_network else ():
            if kernel.element_bytes == _HALF:
                kernel.element_bytes, kernel.weight_bytes = 2 * _HALF, 2 * kernel.weight_bytes
        return kernels

    def has_fixed_shape(self, view: OpView) -> bool:
        """Returns whether the results of an operation have one shape, whatever those of the inputs are."""
        types = [self._declared.get(value.name) for value in view.op.outputs]
        return all(isinstance(one, TensorType) and one.is_static for one in types)

    @cached_property
    def _declared(self) -> Mapping[str, ValueType]:
        """The types in the program, which is not bound to shapes, by the names of values."""
        function = self.model.content.functions.get(self.key.rpartition("/")[2])
        ops = () if function is None else function.graph.walk()
        return {value.name: value.type for op in ops for value in op.outputs}

    @cached_property
    def views(self) -> tuple[OpView, ...]:
        """The operations that run, nested ones after their owner."""
        return tuple(view for view in self.bound.graph.walk() if not _is_constant(view))

    @cached_property
    def makers(self) -> Mapping[str, OpView]:
        """The operation that makes each value, by the value's name."""
        return {value.name: view for view in self.views for value in view.op.outputs}

    @cached_property
    def readers(self) -> Mapping[str, Sequence[OpView]]:
        """The operations that read each value, by the value's name."""
        found: dict[str, list[OpView]] = {}
        for view in self.views:
            for name in dict.fromkeys(value.name for value in arguments(view)):
                found.setdefault(name, []).append(view)
        return found

    @cached_property
    def returned(self) -> frozenset[str]:
        """The names of the values that the function or a nested graph returns."""
        nested = (block for view in self.bound.graph.walk() for block in view.blocks)
        return frozenset(value.name for one in (self.bound.graph, *nested) for value in one.graph.outputs)

    @cached_property
    def _places(self) -> Mapping[str, int]:
        """The place of each operation, by id."""
        return {view.op.id: place for place, view in enumerate(self.views)}

    @cached_property
    def _sizes(self) -> Counter[Layer]:
        """The number of operations of each layer of a neural network."""
        return Counter(view.op.layer for view in self.views if view.op.layer is not None)

    def is_authored(self, view: OpView) -> bool:
        """Returns whether the author wrote the operation: it is not a part of the translation of a layer."""
        return view.op.layer is None or self._sizes[view.op.layer] == 1

    def source(self, view: OpView, parameter: str = "x") -> OpView | None:
        """Returns the operation that makes an argument; None for inputs and constants.

        In a damaged file an operation may read what a later one makes: that is no source.
        """
        given = view.op.inputs.get(parameter, ())
        maker = self.makers.get(given[0].name) if len(given) == 1 and isinstance(given[0], Value) else None
        is_before = maker is not None and self._places[maker.op.id] < self._places.get(view.op.id, 0)
        return maker if is_before else None

    def only_reader(self, view: OpView) -> OpView | None:
        """Returns the one operation that reads the results; None if several do, or they are returned."""
        names = [value.name for value in view.op.outputs]
        found = {reader.op.id: reader for name in names for reader in self.readers.get(name, ())}
        if len(found) != 1 or self.returned.intersection(names):
            return None
        return next(iter(found.values()))

    def is_read_once(self, view: OpView) -> bool:
        """Returns whether one operation reads the results, and nothing else."""
        return self.only_reader(view) is not None


class AdviceRule(msgspec.Struct, frozen=True, kw_only=True):
    """A fact about models.

    Attributes:
        id: Stable, in kebab case: the id of its findings.
        doc: What it is about and why it costs time or space: a paragraph of the documentation.
        find: Returns the place in a function where the rule applies; None if there is none.
        fix: What to do about it.
        source: Who published it, and where.
        confidence: How the source knows.
        transform: The transform of `what-if` that does it; empty if there is none.
        is_of_networks: Whether it changes neural networks, and no ML Programs.
        severity: That of its findings.
        settings: The settings under which Core AI may return wrong values; empty for a rule about costs.
    """

    id: str
    doc: str
    find: Callable[[FunctionView], Found | None]
    fix: str
    source: str
    confidence: Confidence
    transform: str = ""
    is_of_networks: bool = False
    severity: Severity = "info"
    settings: frozenset[ComputeUnits] = frozenset()


class Remark(msgspec.Struct, frozen=True):
    """A rule, and a place in a function where it applies.

    Attributes:
        rule: The rule.
        found: The place.
        is_transformable: Whether `what-if` can apply the transforms of findings to the model.
    """

    rule: AdviceRule
    found: Found
    is_transformable: bool = True

    @property
    def transform(self) -> str:
        """The transform of `what-if` that does what the finding suggests; empty if there is none."""
        if not self.is_transformable:
            return ""
        return self.rule.transform if self.found.transform is None else self.found.transform


def arguments(view: OpView) -> Iterator[Value]:
    """Yields the values that an operation reads, also known ones."""
    for given in view.op.inputs.values():
        for argument in given:
            if isinstance(argument, Value):
                yield argument


def has_trait(view: OpView | None, traits: Trait) -> bool:
    """Returns whether an operation has one of these traits."""
    return view is not None and has_traits(view.op.type, traits)


def shape_of(view: OpView, parameter: str = "") -> tuple[int, ...] | None:
    """Returns the shape of a result, or of an argument; None where it is not known before run time."""
    if parameter:
        type_ = view.bound(parameter).type if view.has(parameter) else None
    else:
        type_ = view.outputs[0].type if view.outputs else None
    if not isinstance(type_, TensorType) or type_.shape is None or not type_.is_static:
        return None
    return tuple(extent or 0 for extent in type_.shape)


def dtype_of(view: OpView, parameter: str = "") -> DType | None:
    """Returns the element type of a result, or of an argument; None for other values."""
    if parameter:
        type_ = view.bound(parameter).type if view.has(parameter) else None
    else:
        type_ = view.outputs[0].type if view.outputs else None
    return type_.dtype if isinstance(type_, TensorType) else None


def listed(views: Sequence[OpView]) -> str:
    """Lists the names of operations: `conv_1, conv_2, conv_3 and 4 more`."""
    names = [shown(view.op.name)[:_LONGEST] for view in views[:_NAMES]]
    more = len(views) - len(names)
    if more:
        return f"{', '.join(names)} and {more} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def plural(number: int, noun: str, nouns: str = "") -> str:
    """Formats a count with its noun."""
    return f"{number} {noun if number == 1 else nouns or f'{noun}s'}"


def _is_constant(view: OpView) -> bool:
    is_known = bool(view.outputs) and all(value.constant is not None for value in view.outputs)
    return view.op.type == "const" or is_known or has_trait(view, Trait.WEIGHT_DECOMPRESSION)
