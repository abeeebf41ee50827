"""Binds the type of every value of a function to given input shapes, without running anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from coremlscope.base.budget import Budget
from coremlscope.model.ir import (
    Argument,
    Constant,
    Function,
    Graph,
    ListType,
    Op,
    Shape,
    StateType,
    TensorType,
    Value,
    ValueType,
)
from coremlscope.ops.folding import effort_of
from coremlscope.ops.scope import nested
from coremlscope.ops.spec import OpSpec
from coremlscope.ops.view import CONTRADICTIONS, BoundGraph, BoundValue, CannotInfer, CannotLower, OpView

#: How often a loop's body is bound while its types converge: each pass can only lose dimensions.
_LOOP_PASSES = 8
#: Operations that may be bound again in such passes: so many, and so many for each operation that is bound
#: for the first time. Loops inside each other would otherwise take 9 times as long for each level.
_FREE_REPEATS, _REPEATS = 10_000, 16
#: Bytes that are computed before run time in the time in which an operation is bound.
_BYTES_OF_OP = 1 << 16
#: Bytes that computing a constant may always take: enough for shapes and indices.
_CHEAP_BYTES = 16 << 10
#: The limit of NumPy 1; Core ML allows 5 dimensions.
_MOST_DIMENSIONS = 32


class BoundFunction(msgspec.Struct, frozen=True):
    """A function with bound shapes.

    Attributes:
        function: The function as the file has it.
        graph: Its bound body.
        problems: `(op id, sentence)` where an operation's arguments contradict each other; its results then
            keep the types declared in the file.
        budget: What may be spent on the model's constants and values.
    """

    function: Function
    graph: BoundGraph
    problems: tuple[tuple[str, str], ...]
    budget: Budget


def bind(
    function: Function,
    table: Mapping[str, OpSpec],
    shapes: Mapping[str, Shape] | None = None,
    budget: Budget | None = None,
    known: dict[str, OpView] | None = None,
) -> BoundFunction:
    """Binds the shapes of a function's inputs and infers the types of all values.

    Args:
        function: The function.
        table: The operations that are known; results of others keep their declared types.
        shapes: Shapes of inputs by name, for those whose declared shape is not fully known.
        budget: What may be spent on constants; None for that of a model without weights.
        known: Operations of other functions, by the name of their first result: what is known of them serves
            here where nothing differs. Those of this function are added.
    """
    binder = Binder(table, _opset_number(function.opset), budget, known)
    inputs = []
    for value in function.graph.inputs:
        if shapes and value.name in shapes:
            inputs.append(BoundValue(_with_shape(value.type, shapes[value.name])))
        else:
            inputs.append(binder.declared(value))
    graph = binder.graph(function.graph, tuple(inputs), {})
    return BoundFunction(function, graph, tuple(binder.problems), binder.budget)


def _opset_number(opset: str) -> int:
    digits = "".join(c for c in opset if c.isdigit())
    return int(digits) if digits else 5


def _with_shape(type_: ValueType, shape: Shape) -> ValueType:
    if isinstance(type_, StateType):
        return StateType(_with_shape(type_.wrapped, shape))
    return replace(type_, shape=shape) if isinstance(type_, TensorType) else type_


Scope = dict[str, BoundValue]


class _Effort(msgspec.Struct):
    """The number of operations that were bound to simulate the loops of a function."""

    bound: int = 0


def simulation_effort(loop: OpView) -> _Effort:
    """Returns the effort that all loops of a function share."""
    return loop.remember(_Effort, _Effort)


class Binder:
    """Infers types of results, one operation after the other.

    Args:
        table: The operations that are known.
        opset: The number in the name of the operation set.
        budget: What may be spent on constants; None for that of a model without weights.
        known: See `bind`.

    Attributes:
        problems: `(op id, sentence)` of the contradictions found so far.
    """

    def __init__(
        self,
        table: Mapping[str, OpSpec],
        opset: int,
        budget: Budget | None = None,
        known: dict[str, OpView] | None = None,
    ) -> None:
        self.table = table
        self._known = known
        self.opset = opset
        self.budget = budget or Budget.of_model()
        self.problems: list[tuple[str, str]] = []
        #: The number of operations that were bound.
        self.bound = 0
        self._spent_bytes = 0
        self._repeats_left = _FREE_REPEATS
        self._is_repeating = False
        #: Whether the budget kept the last operation from being computed.
        self._is_refused = False
        self._simulations = _Effort()
        self._declared: dict[int, BoundValue] = {}

    def declared(self, value: Value) -> BoundValue:
        """Returns what the type of a value tells: one object for all values of a type that is one object."""
        found = self._declared.get(id(value.type))
        if found is None:
            found = self._declared[id(value.type)] = BoundValue(value.type)  # It keeps the type alive.
        return found

    def graph(self, graph: Graph, inputs: tuple[BoundValue, ...], scope: Scope) -> BoundGraph:
        views = []
        with nested(scope) as define:
            define(graph.inputs, inputs)
            for op in graph.ops:
                views.append(self.op(op, scope))
                define(op.outputs, views[-1].outputs)
            outputs = tuple(_look_up(value, scope) for value in graph.outputs)
        return BoundGraph(graph, inputs, tuple(views), outputs)

    def op(self, op: Op, scope: Scope) -> OpView:
        """Binds an operation, given what is known of its arguments."""
        arguments = {
            name: tuple([_look_up(argument, scope) for argument in given])
            for name, given in op.inputs.items()
        }
        known = self._known
        if known is None or op.blocks or not op.outputs:
            view = OpView(op=op, inputs=arguments, opset=self.opset)
            self._complete(view, scope)
            return view
        name = op.outputs[0].name
        before = known.get(name)
        if before is not None and before.opset == self.opset and _is_same(before, op, arguments):
            self._count()
            return replace(before, op=op)
        view = OpView(op=op, inputs=arguments, opset=self.opset)
        problems = len(self.problems)
        self._complete(view, scope)
        is_computed = op.type != "const" and any(value.constant is not None for value in view.outputs)
        if is_computed or len(self.problems) > problems or self._is_refused:
            self._is_refused = False
        else:
            known[name] = view
        return view

    def _count(self) -> None:
        self.bound += 1
        self._repeats_left += -1 if self._is_repeating else _REPEATS

    def _complete(self, view: OpView, scope: Scope) -> None:
        """Binds the graphs in an operation and its results."""
        self._count()
        if view.op.blocks:
            self.blocks(view, scope)
        view.outputs = self.results(view)

    def results(self, view: OpView) -> tuple[BoundValue, ...]:
        op, content = view.op, view.op.constant
        declared = [value.type for value in op.outputs]
        if content is not None:
            return tuple([BoundValue(type_, content) for type_ in declared])
        spec = self.table.get(op.type)
        if spec is None or (op.layer is not None and op.layer.problem):
            return tuple(map(BoundValue, declared))
        try:
            inferred = list(spec.infer(view))
            if len(inferred) < len(declared):
                raise CannotInfer(f"has {len(declared)} results, not {len(inferred)}")
            types = [_merge(i, d) for i, d in zip(inferred, declared, strict=False)]
            # Rules may look at the results' types while they fold.
            view.outputs = tuple(map(BoundValue, types))
            if any(len(getattr(t, "shape", None) or ()) > _MOST_DIMENSIONS for t in types):
                raise CannotInfer(f"a result of more than {_MOST_DIMENSIONS} dimensions")
            constants = self._fold(spec, view)
        except (CannotInfer, CannotLower) as error:
            self.problems.append((op.id, str(error)))
            return tuple(map(BoundValue, declared))
        except CONTRADICTIONS as error:
            # A damaged file may hold arguments of any kind; a rule need not check for all of them.
            text = f"its arguments do not match its definition ({type(error).__name__}: {error})"
            self.problems.append((op.id, text))
            return tuple(map(BoundValue, declared))
        if constants is None:
            return view.outputs
        # A damaged file may declare fewer results than the operation has.
        return tuple(BoundValue(c.type, c) for c, _ in zip(constants, declared, strict=False))

    def _fold(self, spec: OpSpec, view: OpView) -> Sequence[Constant] | None:
        """Computes results before run time where the budget allows it; leaves others to run time."""
        if spec.fold is None:
            return None
        given = [bound.constant for arguments in view.inputs.values() for bound in arguments]
        read = sum([effort_of(constant) for constant in given if constant is not None])
        if not self._can_afford(read):
            return None
        constants = spec.fold(view)
        if constants is None:
            return None
        # Small results are computed at once, from arguments that may be derived; others when they are read.
        effort = sum(map(effort_of, constants)) or read
        if not self._can_afford(effort):
            return None
        self._spent_bytes += effort
        if self._is_repeating:
            self._repeats_left -= effort // _BYTES_OF_OP
        return constants

    def _can_afford(self, effort_bytes: int) -> bool:
        if effort_bytes <= _CHEAP_BYTES:
            return True
        is_left = self._spent_bytes + effort_bytes <= self.budget.computed_bytes
        self._is_refused = not is_left or effort_bytes > self.budget.array_bytes
        return not self._is_refused

    def blocks(self, view: OpView, scope: Scope) -> None:
        if view.op.type == "while_loop":
            self.loop(view, scope)
            return
        graphs = []
        for index, block in enumerate(view.op.blocks):
            before = len(self.problems)
            graphs.append(self.graph(block, _declared(block), scope))
            if view.op.type == "cond" and view.is_known("pred") and view.flag("pred") == bool(index):
                del self.problems[before:]  # this branch is never taken
        view.blocks = tuple(graphs)

    def loop(self, view: OpView, scope: Scope) -> None:
        """Binds a loop's blocks with types that hold in every iteration.

        Content known before the loop is kept only where the body passes it on unchanged. Dimensions that the
        body changes become unknown.
        """
        blocks = view.op.blocks
        view.remember(_Effort, lambda: self._simulations)
        given = view.inputs.get("loop_vars", ())
        body = blocks[-1]
        if any(len(block.inputs) != len(given) for block in blocks) or len(body.outputs) != len(given):
            text = "the numbers of inputs and outputs of its blocks do not match its loop variables"
            self.problems.append((view.op.id, text))
            view.blocks = tuple(self.graph(block, _declared(block), scope) for block in blocks)
            return
        carried = tuple(
            bound if before == after else BoundValue(bound.type)
            for bound, before, after in zip(given, body.inputs, body.outputs, strict=True)
        )
        was_repeating, problems, spent = self._is_repeating, len(self.problems), self._spent_bytes
        for left in reversed(range(_LOOP_PASSES + 1)):
            is_last = left == 0 or self._repeats_left <= 0
            if is_last:
                # Dimensions that depend on each other in a long chain are dropped all at once.
                carried = tuple(c if c.constant is not None else BoundValue(_open(c.type)) for c in carried)
            del self.problems[problems:]
            self._spent_bytes = spent
            view.blocks = tuple(self.graph(block, carried, scope) for block in blocks)
            joined = tuple(
                c if c.constant is not None else BoundValue(join(c.type, r.type))
                for c, r in zip(carried, view.blocks[-1].outputs, strict=True)
            )
            if is_last or joined == carried:
                break
            self._is_repeating, carried = True, joined
        self._is_repeating = was_repeating


def _is_same(view: OpView, op: Op, arguments: Mapping[str, tuple[BoundValue, ...]]) -> bool:
    """Returns whether what is known of an operation is so of another one: all but the id is the same."""
    before = view.op
    return (
        before.type == op.type
        and before.attributes is op.attributes
        and before.layer is op.layer
        and before.outputs == op.outputs
        and before.inputs.keys() == op.inputs.keys()
        and all(_are_same(given, op.inputs[name]) for name, given in before.inputs.items())
        and all(_are_known_alike(given, arguments[name]) for name, given in view.inputs.items())
    )


def _are_same(some: tuple[Argument, ...], others: tuple[Argument, ...]) -> bool:
    """Returns whether arguments are the same values by name, or the same constants."""
    return some is others or (
        len(some) == len(others)
        and all(
            one is other or (isinstance(one, Value) and isinstance(other, Value) and one.name == other.name)
            for one, other in zip(some, others, strict=True)
        )
    )


def _are_known_alike(some: tuple[BoundValue, ...], others: tuple[BoundValue, ...]) -> bool:
    return all(
        one is other or (one.constant is other.constant and one.type == other.type)
        for one, other in zip(some, others, strict=True)
    )


def _declared(block: Graph) -> tuple[BoundValue, ...]:
    """A block's inputs as the file declares them."""
    return tuple(BoundValue(value.type) for value in block.inputs)


def _look_up(argument: Argument, scope: Scope) -> BoundValue:
    if isinstance(argument, Constant):
        return BoundValue(argument.type, argument)
    assert isinstance(argument, Value)
    return scope.get(argument.name) or BoundValue(argument.type)


def _open(type_: ValueType) -> ValueType:
    """The same type with no dimension known."""
    match type_:
        case TensorType(dtype, shape) if shape is not None:
            return TensorType(dtype, (None,) * len(shape))
        case ListType(element, _):
            return ListType(_open(element), None)
        case _:
            return type_


def _merge(inferred: ValueType, declared: ValueType) -> ValueType:
    """The inferred type, with dimensions that could not be inferred taken from the declared one."""
    if inferred == declared:
        return declared  # Equal types of a program are one object.
    match inferred, declared:
        case TensorType(dtype, shape), TensorType(_, other):
            if shape is None:
                return TensorType(dtype, other)
            if other is not None and len(other) == len(shape):
                return TensorType(
                    dtype, tuple(d if a is None else a for a, d in zip(shape, other, strict=True))
                )
        case ListType(element, length), ListType(other_element, _):
            # Files declare the initial length of a list, even of one that grows.
            return ListType(_merge(element, other_element), length)
    return inferred


def join(a: ValueType, b: ValueType) -> ValueType:
    """The narrowest common type: dimensions that differ become unknown."""
    match a, b:
        case TensorType(dtype, shape), TensorType(_, other):
            if shape is None or other is None or len(shape) != len(other):
                return TensorType(dtype, None)
            return TensorType(dtype, tuple(x if x == y else None for x, y in zip(shape, other, strict=True)))
        case ListType(element, length), ListType(other_element, other_length):
            return ListType(join(element, other_element), length if length == other_length else None)
    return a
