"""Incremental construction of a graph, with type inference for every emitted operation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec
import numpy as np
from msgspec.structs import replace

from coremlscope.model.ir import (
    Array,
    Constant,
    DType,
    Graph,
    Layer,
    Op,
    StateType,
    TensorType,
    Value,
    constant,
)
from coremlscope.ops import OPS
from coremlscope.ops.bind import Binder
from coremlscope.ops.view import BoundValue

#: The element type of all values of a neural network.
FLOAT = DType.FP32
#: Maximum nesting depth of graphs. A nested ONNX graph takes three messages, of which protobuf nests 100 at
#: most.
_MAX_DEPTH = 28
#: The operation set used by the translation: that of iOS 17.
OPSET = 7


class CannotTranslate(Exception):  # noqa: N818
    """A layer is inconsistent with itself or its inputs, or has no translation. The message is the reason."""


class Blob(msgspec.Struct, frozen=True):
    """A value of a neural network.

    Attributes:
        value: The value in the program.
        bound: Its inferred type and content.
        sequence: None for a tensor that is stored with its own shape. Otherwise, the sequence length of a
            rank-5 blob `[sequence, batch, channels, height, width]`, which is stored folded as
            `[sequence * batch, channels, height, width]`, so that convolutions of images need no reshaping.
        is_scalar: True for a number without axes, which is stored as one element of rank 1.
    """

    value: Value
    bound: BoundValue
    sequence: int | None = None
    is_scalar: bool = False

    @property
    def dtype(self) -> DType:
        """The element type."""
        assert isinstance(self.bound.type, TensorType)
        return self.bound.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The stored shape of the value.

        Raises:
            CannotTranslate: The shape is unknown before run time.
        """
        dims = self.dims
        if None in dims:
            raise CannotTranslate(f"the shape of {self.value.name!r} is unknown before run time")
        return tuple(d for d in dims if d is not None)

    @property
    def dims(self) -> tuple[int | None, ...]:
        """The stored shape of the value, with None for each dimension that is unknown before run time.

        Raises:
            CannotTranslate: The rank is unknown.
        """
        if not isinstance(self.bound.type, TensorType) or self.bound.type.shape is None:
            raise CannotTranslate(f"the rank of {self.value.name!r} is unknown")
        return self.bound.type.shape

    @property
    def rank(self) -> int:
        """The rank of the stored value. Errors are those of `dims`."""
        return len(self.dims)

    @property
    def array(self) -> Array | None:
        """The content; None if it is unknown before run time."""
        known = self.bound.constant
        return known.numpy() if known is not None and known.is_available else None


#: An argument of an operation. None omits the parameter.
Given = Blob | Constant | Array | Sequence[Blob | Constant] | Sequence[int] | bool | int | float | str | None


class Builder:
    """Collects operations.

    Args:
        function: The name of the function, with which the ids of operations begin.
        reserved: Names that are given to values only on explicit request.

    Attributes:
        layer: The layer for which operations are emitted; None for conversions between layers and features.
        feature: The feature that is converted. The results of conversions are named after it.
        scope: The blobs by their names in layers. Later layers may overwrite them.
        layers_left: How many layers may still be translated before branches and loops are refused.
    """

    def __init__(self, function: str, reserved: Sequence[str] = ()) -> None:
        self.layer: Layer | None = None
        self.feature = "value"
        self.scope: dict[str, Blob] = {}
        self.layers_left = 0
        self._path = function
        #: The operations of the current graph.
        self._ops: list[Op] = []
        self._names: set[str] = set(reserved)
        #: The last number of each stem. Layers may all have one name.
        self._numbers: Counter[str] = Counter()
        self._binder = Binder(OPS, OPSET)
        self._known: dict[str, BoundValue] = {}
        #: The integer or boolean blobs from which floats were cast, so that layers need not cast them back.
        self._sources: dict[str, Blob] = {}

    # Values

    def input(self, name: str, dtype: DType, shape: Sequence[int | None] | None) -> Blob:
        """Adds an input value with exactly this name."""
        type_ = TensorType(dtype, None if shape is None else tuple(shape))
        self._names.add(name)
        value = Value(name, type_)
        self._known[name] = BoundValue(type_)
        return Blob(value, self._known[name])

    def state(self, name: str, type_: TensorType) -> Blob:
        """Adds a state with exactly this name."""
        self._names.add(name)
        self._known[name] = BoundValue(StateType(type_))
        return self.known_state(name)

    def known_state(self, name: str) -> Blob:
        """Returns a state."""
        bound = self._known[name]
        return Blob(Value(name, bound.type), bound)

    def op(self, type_: str, /, *, named: str = "", **inputs: Given) -> Blob:
        """Emits an operation with one result; see `ops`."""
        return self.ops(type_, 1, named=[named] if named else None, **inputs)[0]

    def ops(
        self, type_: str, count: int, /, *, named: Sequence[str] | None = None, **inputs: Given
    ) -> tuple[Blob, ...]:
        """Emits an operation.

        Args:
            type_: Apple's name of the operation.
            count: Number of its results.
            named: Names of the results; by default, they are derived from the layer's name.
            **inputs: The arguments. Python numbers and sequences become constants: 32-bit floats, 32-bit
                integers, booleans or strings.

        Raises:
            CannotTranslate: The arguments are inconsistent with each other or the operation's definition.
        """
        arguments = {name: _arguments(given) for name, given in inputs.items() if given is not None}
        return self._append(type_, arguments, (), self._result_names(count, named))

    def control(self, type_: str, count: int, graphs: Sequence[Graph], **inputs: Given) -> tuple[Blob, ...]:
        """Emits an operation with nested graphs, which were created by `block` just before."""
        arguments = {name: _arguments(given) for name, given in inputs.items() if given is not None}
        return self._append(type_, arguments, tuple(graphs), self._result_names(count, None))

    def block(
        self, name: str, inputs: Sequence[Blob], write: Callable[[Sequence[Blob]], Sequence[Blob]]
    ) -> Graph:
        """Creates a nested graph of the next operation.

        Args:
            name: The role of the graph: `true`, `false`, `cond` or `body`.
            inputs: Blobs with the types of the graph's inputs.
            write: Takes the graph's inputs, emits operations and returns the outputs. Changes of the scope
                are undone at the end.

        Raises:
            CannotTranslate: Graphs are nested too deeply.
        """
        if self._path.count("/") >= 2 * _MAX_DEPTH:
            raise CannotTranslate(f"its graphs are nested deeper than {_MAX_DEPTH} levels")
        with self._nested(name) as ops:
            arguments = []
            for blob in inputs:
                stem = self.fresh(blob.value.name)
                assert isinstance(blob.bound.type, TensorType)
                inner = self.input(stem, blob.dtype, blob.bound.type.shape)
                arguments.append(replace(inner, sequence=blob.sequence))
            results = write(arguments)
        return Graph(
            name=name,
            inputs=tuple(blob.value for blob in arguments),
            ops=tuple(ops),
            outputs=tuple(blob.value for blob in results),
        )

    def unknown(
        self,
        type_: str,
        inputs: Sequence[Blob],
        outputs: Sequence[TensorType | tuple[int, ...] | None],
        attributes: Mapping[str, Constant] | None = None,
        weights: Sequence[Constant] = (),
    ) -> tuple[Blob, ...]:
        """Emits a placeholder for a layer without a translation, with results of given types or shapes."""
        names = self._result_names(len(outputs), None)
        types = [given if isinstance(given, TensorType) else TensorType(FLOAT, given) for given in outputs]
        values = tuple(map(Value, names, types))
        arguments: dict[str, tuple[Value | Constant, ...]] = {"x": tuple(b.value for b in inputs)}
        if weights:
            arguments["weights"] = tuple(weights)
        return self._finish(type_, arguments, (), values, attributes)

    def fresh(self, stem: str) -> str:
        """Returns an unused name: the given one, or with a number."""
        name = stem
        while name in self._names:
            self._numbers[stem] += 1
            name = f"{stem}_{self._numbers[stem]}"
        self._names.add(name)
        return name

    def rename(self, blob: Blob, name: str, since: int, *, is_reserved: bool = False) -> Blob:
        """Gives a value its name in layers, unless the name is in use.

        Args:
            blob: A result of one of the operations emitted since `since`.
            name: The name.
            since: A previous value of `mark`.
            is_reserved: True to use a reserved name.
        """
        old = blob.value.name
        is_made_here = any(old == value.name for op in self._ops[since:] for value in op.outputs)
        if not is_made_here or (name in self._names and not is_reserved) or name in self._known:
            return blob
        self._names.add(name)
        renamed = replace(blob.value, name=name)
        self._ops[since:] = [_with_value(op, old, renamed) for op in self._ops[since:]]
        self._known[name] = self._known[old]
        if old in self._sources:
            self._sources[name] = self._sources[old]
        return replace(blob, value=renamed)

    def origin(self, blob: Blob) -> str:
        """Returns the name of the value that a blob equals, skipping identity operations."""
        makers = {value.name: op for op in self._ops for value in op.outputs}
        name = blob.value.name
        while name in makers and makers[name].type == "identity":
            source = makers[name].inputs["x"][0]
            if not isinstance(source, Value):
                break
            name = source.name
        return name

    def graph(self, name: str, inputs: Sequence[Blob], outputs: Sequence[Blob]) -> Graph:
        """Returns all operations so far as a graph."""
        return Graph(
            name=name,
            inputs=tuple(b.value for b in inputs),
            ops=tuple(self._ops),
            outputs=tuple(b.value for b in outputs),
        )

    def assign_layer(self, mark: int, layer: Layer) -> None:
        """Sets the layer of the operations that were emitted since `mark`."""
        self._ops[mark:] = [replace(op, layer=layer) for op in self._ops[mark:]]

    def add_attribute(self, mark: int, name: str) -> None:
        """Adds an attribute that is true to the operations that were emitted since `mark`."""
        given = {name: constant(True)}
        self._ops[mark:] = [replace(op, attributes={**op.attributes, **given}) for op in self._ops[mark:]]

    def undo_from(self, mark: int) -> None:
        """Removes the operations that were emitted since `mark`."""
        del self._ops[mark:]

    @property
    def path(self) -> str:
        """The path of the current graph: the function, and the enclosing operations and blocks."""
        return self._path

    @property
    def mark(self) -> int:
        """The number of operations in the current graph."""
        return len(self._ops)

    # The two layouts

    def tensor(self, blob: Blob) -> Blob:
        """Unfolds a rank-5 blob to its five dimensions; other blobs are returned unchanged."""
        if blob.sequence is None:
            return blob
        merged, *rest = blob.shape
        shape = (blob.sequence, merged // max(blob.sequence, 1), *rest)
        return self.op("reshape", x=replace(blob, sequence=None), shape=shape)

    def images(self, blob: Blob) -> Blob:
        """Converts a blob to `[n, channels, height, width]` by merging its leading dimensions.

        Raises:
            CannotTranslate: The rank is less than 3, or several leading dimensions are partly unknown.
        """
        if blob.sequence is not None:
            return replace(blob, sequence=None)
        if blob.rank == 4:
            return blob
        if blob.rank < 3:
            raise CannotTranslate(f"its input must be images, not a tensor of rank {blob.rank}")
        shape = blob.shape
        return self.op("reshape", x=blob, shape=(math.prod(shape[:-3]), *shape[-3:]))

    def like(self, result: Blob, source: Blob) -> Blob:
        """Restores the leading dimensions of `source` in a result computed from `images(source)`."""
        if source.sequence is not None:
            return replace(result, sequence=source.sequence)
        if source.rank == 4:
            return result
        return self.op("reshape", x=result, shape=(*source.shape[:-3], *result.shape[1:]))

    def cast(self, blob: Blob, dtype: DType) -> Blob:
        """Casts a blob to another element type."""
        if blob.dtype is dtype:
            return blob
        source = self._sources.get(blob.value.name)
        if source is not None and source.dtype is dtype:
            return replace(source, sequence=blob.sequence)
        result = self.op("cast", x=blob, dtype=dtype.value)
        if dtype is FLOAT:
            self._sources[result.value.name] = blob
        return replace(result, sequence=blob.sequence)

    def indices(self, blob: Blob) -> Blob:
        """Casts a blob of integral values to int32."""
        return self.cast(blob, DType.INT32)

    def floats(self, blob: Blob) -> Blob:
        """Casts a blob to the element type of layer results."""
        return self.cast(blob, FLOAT)

    def flags(self, blob: Blob) -> Blob:
        """Casts a blob to booleans, which are true for nonzero elements."""
        source = self._sources.get(blob.value.name, blob)
        if source.dtype is DType.BOOL:
            return replace(source, sequence=blob.sequence)
        return replace(self.op("not_equal", x=blob, y=0.0), sequence=blob.sequence)

    def _result_names(self, count: int, named: Sequence[str] | None) -> list[str]:
        if named is not None:
            return list(named)
        stem = self.layer.name if self.layer is not None and self.layer.name else self.feature
        return [self.fresh(stem) for _ in range(count)]

    def _append(
        self,
        type_: str,
        arguments: dict[str, tuple[Value | Constant, ...]],
        graphs: tuple[Graph, ...],
        names: Sequence[str],
    ) -> tuple[Blob, ...]:
        unknown = TensorType(FLOAT, None)
        return self._finish(type_, arguments, graphs, tuple(Value(name, unknown) for name in names))

    def _finish(
        self,
        type_: str,
        arguments: dict[str, tuple[Value | Constant, ...]],
        graphs: tuple[Graph, ...],
        values: tuple[Value, ...],
        attributes: Mapping[str, Constant] | None = None,
    ) -> tuple[Blob, ...]:
        name = self.layer.name if self.layer is not None else values[0].name
        attributes = {"name": constant(name), **(attributes or {})}
        op_id = f"{self._path}/{self.mark}"
        op = Op(
            id=op_id,
            type=type_,
            inputs=arguments,
            outputs=values,
            blocks=graphs,
            attributes=attributes,
            layer=self.layer,
        )
        self._binder.problems.clear()
        bound = self._binder.op(op, self._known).outputs
        if self._binder.problems:
            raise CannotTranslate(self._binder.problems[0][1])
        values = tuple(Value(v.name, b.type) for v, b in zip(values, bound, strict=True))
        self._ops.append(replace(op, outputs=values))
        self._known.update(zip((v.name for v in values), bound, strict=True))
        return tuple(map(Blob, values, bound))

    @contextmanager
    def _nested(self, name: str) -> Iterator[list[Op]]:
        path, ops, scope = self._path, self._ops, self.scope
        self._path, self.scope = f"{path}/{self.mark}/{name}", dict(scope)
        self._ops = []
        try:
            yield self._ops
        finally:
            self._path, self._ops, self.scope = path, ops, scope


def _with_value(op: Op, old: str, new: Value) -> Op:
    """Replaces a value in an operation and its nested graphs."""

    def replaced(value: Value | Constant) -> Value | Constant:
        return new if isinstance(value, Value) and value.name == old else value

    inputs = {name: tuple(map(replaced, given)) for name, given in op.inputs.items()}
    outputs = tuple(new if value.name == old else value for value in op.outputs)
    blocks = tuple(
        replace(
            block,
            ops=tuple(_with_value(inner, old, new) for inner in block.ops),
            outputs=tuple(new if value.name == old else value for value in block.outputs),
        )
        for block in op.blocks
    )
    return replace(op, inputs=inputs, outputs=outputs, blocks=blocks)


def _argument(given: Blob | Constant) -> Value | Constant:
    return given.value if isinstance(given, Blob) else given


def _arguments(given: Given) -> tuple[Value | Constant, ...]:
    match given:
        case Blob():
            return (given.value,)
        case Constant():
            return (given,)
        case [Blob() | Constant(), *_]:
            return tuple(_argument(one) for one in given if isinstance(one, (Blob, Constant)))
        case np.ndarray():
            return (constant(given),)
        case tuple() | list():
            return (constant(np.array(given, np.int32) if not given else list(given)),)
        case _:
            return (constant(given),)
