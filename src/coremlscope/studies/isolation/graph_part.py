"""Parts of a function's graph: what a set of operations reads, computes and passes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from coremlscope.base.errors import UnsupportedModelError
from coremlscope.base.units import shown
from coremlscope.model.ir import (
    Constant,
    DType,
    Function,
    Graph,
    ListType,
    Op,
    StateType,
    TensorType,
    Value,
    ValueType,
    constant,
    describe_type,
)
from coremlscope.ops import OPS
from coremlscope.ops.bind import BoundFunction, bind
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import OpView

#: The specification version from which inputs and outputs may be fp16 (iOS 16).
_FIRST_WITH_FP16 = 7
#: Element types of inputs and outputs of every ML Program. Source: coremltools' `ct.TensorType`.
_ALWAYS_ALLOWED = (DType.FP32, DType.INT32)


class GraphPart(msgspec.Struct, frozen=True, kw_only=True):
    """A set of operations of a function, and what connects them to the others.

    Attributes:
        ops: The operations of the part in order, with the constants and compressed weights that they read.
        chosen: The ids of the operations that were asked for.
        inputs: Tensors that the part reads and other operations compute, with bound types.
        states: States that it reads or updates.
        outputs: Results that are read outside the part, or that nothing reads, with bound types.
        begins: For each state, the id of the first operation of the part that reads or updates it.
    """

    ops: tuple[Op, ...]
    chosen: tuple[str, ...]
    inputs: tuple[Value, ...]
    states: tuple[Value, ...]
    outputs: tuple[Value, ...]
    begins: Mapping[str, str]


def known_operations(bound: BoundFunction) -> tuple[OpView, ...]:
    """Returns the operations that can be chosen: those of the function's body that compute at run time.

    Constants, weights that are decompressed before run time and what follows from shapes belong to the
    operations that read them.
    """
    return tuple(view for view in bound.graph.ops if not _is_early(view))


def cut_graph(bound: BoundFunction, chosen: Sequence[OpView]) -> GraphPart:
    """Cuts operations out of a function.

    Args:
        bound: The function.
        chosen: Some of `known_operations`, in order.

    Raises:
        UnsupportedModelError: The part would read or return a list or a string, which no input can hold, or a
            state that other operations write in between.
    """
    return _Cutter(bound).cut(chosen)


def part_function(part: GraphPart, bound: BoundFunction, spec_version: int) -> Function:
    """Returns a part as the function `main`.

    Inputs and outputs of types that the interface of a model does not support are converted by casts, which
    keep every value.

    Args:
        part: The part; every dimension of its inputs is known.
        bound: The function that it is from.
        spec_version: The specification version of the model.
    """
    ends = _Ends(part, spec_version)
    inputs = [ends.input(value) for value in part.inputs]
    outputs = [ends.output(value) for value in part.outputs]
    ops = (*ends.before, *part.ops, *ends.after)
    numbered = tuple(_renumber(op, f"main/{index}") for index, op in enumerate(ops))
    graph = Graph(name="main", inputs=(*inputs, *part.states), ops=numbered, outputs=tuple(outputs))
    opset = bound.function.opset
    return _with_bound_types(Function(name="main", opset=opset, graph=graph))


def prefix_function(bound: BoundFunction, wanted: Sequence[Value], before: str = "") -> Function:
    """Returns a function with the interface of another, which returns values from inside it.

    Only what is needed for these values is kept, and every update of a state before the last of them.

    Args:
        bound: The function.
        wanted: Values that its body computes.
        before: The id of an operation after all of them; updates of states up to it are kept.
    """
    graph = bound.function.graph
    needed = {value.name for value in wanted}
    last = max((i for i, op in enumerate(graph.ops) if needed & _made(op)), default=-1)
    last = next((i - 1 for i, op in enumerate(graph.ops) if op.id == before), last)
    kept: list[Op] = []
    for op in reversed(graph.ops[: last + 1]):
        if needed & _made(op) or _writes_state(op):
            kept.append(op)
            needed |= {value.name for value in _free_values(op)}
    body = replace(graph, ops=tuple(reversed(kept)), outputs=tuple(wanted))
    return replace(bound.function, graph=body, specialise=None)


def results_before(bound: BoundFunction, op_id: str) -> list[Value]:
    """Returns the tensors that operations of the body before one of them compute at run time, in order."""
    found = []
    for view in bound.graph.ops:
        if view.op.id == op_id:
            break
        pairs = zip(view.op.outputs, view.outputs, strict=True)
        found += [
            Value(value.name, known.type)
            for value, known in pairs
            if not _is_early(view) and isinstance(known.type, TensorType)
        ]
    return found


def _is_early(view: OpView) -> bool:
    spec = OPS.get(view.op.type)
    is_weight = spec is not None and bool(spec.traits & Trait.WEIGHT_DECOMPRESSION)
    known = all(found.constant is not None for found in view.outputs)
    return view.op.type == "const" or is_weight or bool(view.outputs and known)


class _Cutter:
    def __init__(self, bound: BoundFunction) -> None:
        self.bound = bound
        graph = bound.graph
        self.makers = {value.name: view for view in graph.ops for value in view.op.outputs}
        self.types = {v.name: b.type for v, b in zip(graph.graph.inputs, graph.inputs, strict=True)}
        for view in graph.ops:
            pairs = zip(view.op.outputs, view.outputs, strict=True)
            self.types.update((value.name, found.type) for value, found in pairs)

    def cut(self, chosen: Sequence[OpView]) -> GraphPart:
        ids = {view.op.id for view in chosen}
        own = {value.name for view in chosen for value in view.op.outputs}
        early: dict[str, Op] = {}
        inputs: dict[str, Value] = {}
        states: dict[str, Value] = {}
        begins: dict[str, str] = {}
        for view in chosen:
            for value in _free_values(view.op):
                if value.name in own or self._add_early(value, early):
                    continue
                bound_type = self.types[value.name]
                if isinstance(bound_type, StateType):
                    states[value.name] = Value(value.name, bound_type)
                    begins.setdefault(value.name, view.op.id)
                else:
                    inputs[value.name] = self._portable(Value(value.name, bound_type), "reads")
        if states:
            self._check_states(states, ids)
        kept = [(self._place(op), op) for op in early.values()]
        kept += [(self._place(view.op), _retyped(view)) for view in chosen]
        return GraphPart(
            ops=tuple(op for _, op in sorted(kept, key=lambda pair: pair[0])),
            chosen=tuple(view.op.id for view in chosen),
            inputs=tuple(inputs.values()),
            states=tuple(states.values()),
            outputs=tuple(self._portable(value, "returns") for value in self._outputs(chosen, ids)),
            begins=begins,
        )

    def _check_states(self, states: Mapping[str, Value], ids: set[str]) -> None:
        """Raises `UnsupportedModelError` if the part reads what others wrote into a state after it began."""
        begun: set[str] = set()
        changed: dict[str, str] = {}
        for op in self.bound.graph.graph.ops:
            used = {value.name for value in _free_values(op)} & states.keys()
            if op.id not in ids:
                changed.update((name, op.id) for name in used & begun if _writes_state(op))
                continue
            begun |= used
            if _writes_state(op) and not op.blocks:
                changed = {name: by for name, by in changed.items() if name not in used}
            for name in used & changed.keys():
                raise UnsupportedModelError(
                    f"this part reads the state {shown(name)!r} again after {changed[name]} wrote it, "
                    "which is outside the part",
                    "choose a range of operations, or fewer",
                )

    def _add_early(self, value: Value, early: dict[str, Op]) -> bool:
        """Adds what computes a value before run time; returns False for values of run time."""
        view = self.makers.get(value.name)
        if view is None or not _is_early(view):
            return False
        if value.name in early:
            return True
        spec = OPS.get(view.op.type)
        if view.op.type == "const":
            early[value.name] = view.op
        elif spec is not None and spec.traits & Trait.WEIGHT_DECOMPRESSION:
            for source in _free_values(view.op):
                self._add_early(source, early)
            early.update(dict.fromkeys((v.name for v in view.op.outputs), view.op))
        else:
            known = next(
                found.constant
                for made, found in zip(view.op.outputs, view.outputs, strict=True)
                if made.name == value.name
            )
            assert known is not None
            early[value.name] = _const(view.op.id, value.name, known)
        return True

    def _place(self, op: Op) -> int:
        return next(i for i, view in enumerate(self.bound.graph.ops) if view.op.id == op.id)

    def _outputs(self, chosen: Sequence[OpView], ids: set[str]) -> Iterator[Value]:
        graph = self.bound.graph.graph
        outside = {v.name for op in graph.ops if op.id not in ids for v in _free_values(op)}
        outside |= {value.name for value in graph.outputs}
        inside = {v.name for view in chosen for v in _free_values(view.op)}
        for view in chosen:
            if view.op.type == "print" or _writes_only(view.op):
                continue
            for value, found in zip(view.op.outputs, view.outputs, strict=True):
                if value.name in outside or value.name not in inside:
                    yield Value(value.name, found.type)

    def _portable(self, value: Value, verb: str) -> Value:
        is_classified = verb == "returns" and self._is_classified(value)
        if is_classified or (isinstance(value.type, TensorType) and value.type.dtype is not DType.STRING):
            return value
        kind = "a list" if isinstance(value.type, ListType) else f"a {describe_type(value.type)}"
        raise UnsupportedModelError(
            f"this part {verb} {kind} ({shown(value.name)}), which cannot be an input or output of a model",
            "choose more operations, so that what makes and what reads it are in the same part",
        )

    def _is_classified(self, value: Value) -> bool:
        return self.makers[value.name].op.type == "classify"


class _Ends:
    """The inputs and outputs of a part, with casts where the interface lacks a type."""

    def __init__(self, part: GraphPart, spec_version: int) -> None:
        self.before: list[Op] = []
        self.after: list[Op] = []
        self._allowed = {*_ALWAYS_ALLOWED, *([DType.FP16] if spec_version >= _FIRST_WITH_FP16 else [])}
        self._taken = {value.name for op in part.ops for value in op.outputs}
        self._taken |= {value.name for value in (*part.inputs, *part.states)}

    def input(self, value: Value) -> Value:
        type_ = value.type
        if not isinstance(type_, TensorType):
            return value
        dtype = self._allowed_type(type_.dtype)
        shape = type_.shape or (1,)
        if (dtype, shape) == (type_.dtype, type_.shape):
            return value
        given = Value(self._name(value.name), TensorType(dtype, shape))
        last = given
        if shape != type_.shape:
            is_final = dtype is type_.dtype
            scalar = value if is_final else Value(self._name(value.name), TensorType(dtype, ()))
            axes = self._constant("axes", constant([0]), self.before)
            self.before.append(_op("squeeze", scalar, x=last, axes=axes))
            last = scalar
        if dtype is not type_.dtype:
            word = self._constant("dtype", constant(type_.dtype.value), self.before)
            self.before.append(_op("cast", value, x=last, dtype=word))
        return given

    def output(self, value: Value) -> Value:
        type_ = value.type
        if not isinstance(type_, TensorType) or type_.dtype is DType.STRING:
            return value
        dtype = self._allowed_type(type_.dtype)
        if dtype is type_.dtype:
            return value
        returned = Value(self._name(value.name), TensorType(dtype, type_.shape))
        word = self._constant("dtype", constant(dtype.value), self.after)
        self.after.append(_op("cast", returned, x=value, dtype=word))
        return returned

    def _allowed_type(self, dtype: DType) -> DType:
        if dtype in self._allowed:
            return dtype
        return DType.FP32 if dtype.is_float else DType.INT32

    def _constant(self, stem: str, content: Constant, ops: list[Op]) -> Value:
        name = self._name(stem)
        ops.append(_const("", name, content))
        return Value(name, content.type)

    def _name(self, stem: str) -> str:
        index = 0
        while (name := f"{stem}_{index}") in self._taken:
            index += 1
        self._taken.add(name)
        return name


def _op(type_: str, output: Value, **inputs: Value) -> Op:
    return Op(
        id="",
        type=type_,
        inputs={name: (value,) for name, value in inputs.items()},
        outputs=(output,),
        attributes={"name": constant(output.name)},
    )


def _const(op_id: str, name: str, content: Constant) -> Op:
    attributes = {"name": constant(name), "val": content}
    return Op(id=op_id, type="const", inputs={}, outputs=(Value(name, content.type),), attributes=attributes)


def _free_values(op: Op) -> Iterator[Value]:
    """Yields the values that an operation and its blocks read and do not compute themselves."""
    own = {v.name for block in op.blocks for v in _defined(block)}
    given = [argument for arguments in op.inputs.values() for argument in arguments]
    for block in op.blocks:
        given += [a for inner in block.walk() for arguments in inner.inputs.values() for a in arguments]
        given += block.outputs
        given += [value for inner in block.walk() for nested in inner.blocks for value in nested.outputs]
    yield from (a for a in given if isinstance(a, Value) and a.name not in own)


def _defined(block: Graph) -> Iterator[Value]:
    yield from block.inputs
    for op in block.ops:
        yield from op.outputs
        for nested in op.blocks:
            yield from _defined(nested)


def _made(op: Op) -> set[str]:
    return {value.name for value in op.outputs}


def _writes_state(op: Op) -> bool:
    spec = OPS.get(op.type)
    own = spec is not None and bool(spec.traits & Trait.STATE_WRITE)
    return own or any(_writes_state(inner) for block in op.blocks for inner in block.walk())


def _writes_only(op: Op) -> bool:
    """True for an operation whose result is a state, as written in compiled models."""
    return any(isinstance(value.type, StateType) for value in op.outputs)


def _retyped(view: OpView) -> Op:
    pairs = zip(view.op.outputs, view.outputs, strict=True)
    outputs = tuple(Value(value.name, found.type) for value, found in pairs)
    return replace(view.op, outputs=outputs)


def _renumber(op: Op, op_id: str) -> Op:
    blocks = tuple(
        replace(
            block,
            ops=tuple(_renumber(inner, f"{op_id}/{block.name}/{i}") for i, inner in enumerate(block.ops)),
        )
        for block in op.blocks
    )
    return replace(op, id=op_id, blocks=blocks, layer=None)


def _with_bound_types(function: Function) -> Function:
    """Returns a function with the types that follow from those of its inputs, wherever a value is named."""
    bound = bind(function, OPS)
    types: dict[str, ValueType] = {value.name: value.type for value in function.graph.inputs}
    for view in bound.graph.ops:
        pairs = zip(view.op.outputs, view.outputs, strict=True)
        types.update((value.name, found.type) for value, found in pairs)

    def typed(value: Value) -> Value:
        return Value(value.name, types.get(value.name, value.type))

    def operation(op: Op) -> Op:
        inputs = {
            name: tuple(typed(a) if isinstance(a, Value) else a for a in given)
            for name, given in op.inputs.items()
        }
        blocks = tuple(map(body, op.blocks))
        return replace(op, inputs=inputs, outputs=tuple(map(typed, op.outputs)), blocks=blocks)

    def body(graph: Graph) -> Graph:
        ops, outputs = tuple(map(operation, graph.ops)), tuple(map(typed, graph.outputs))
        return replace(graph, ops=ops, outputs=outputs)

    return replace(function, graph=body(function.graph))
