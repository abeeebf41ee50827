"""Builds a graph of operations one by one, and knows the type of every value at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from coremlscope.ir import Array, Constant, DType, Graph, Layer, Op, TensorType, Value, constant
from coremlscope.ops import OPS
from coremlscope.ops.bind import Binder
from coremlscope.ops.view import BoundValue

__all__ = ["FLOAT", "Blob", "Builder", "CannotTranslate", "Given"]

#: What all values of a neural network are.
FLOAT = DType.FP32
#: How deep graphs may be nested: ONNX keeps each within three messages, and reads a hundred at most.
_DEEPEST = 28
#: The operation set whose definitions the translation follows: iOS 17's.
OPSET = 7


class CannotTranslate(Exception):  # noqa: N818
    """A layer contradicts itself or its inputs, or has a form without a translation. The message says how."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A value of a neural network.

    Attributes:
        value: The value of the program.
        bound: What is known of it.
        sequence: None for a tensor that is what it seems. Else the blob is one of rank 5 of the old kind,
            `[sequence, batch, channels, height, width]`, held as `[sequence * batch, channels, height,
            width]`: so images need no reshaping on their way through convolutions.
    """

    value: Value
    bound: BoundValue
    sequence: int | None = None

    @property
    def dtype(self) -> DType:
        """The element type."""
        assert isinstance(self.bound.type, TensorType)
        return self.bound.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value as it is held.

        Raises:
            CannotTranslate: It depends on what is computed.
        """
        dims = self.dims
        if None in dims:
            raise CannotTranslate(f"the shape of {self.value.name!r} is not known before run time")
        return tuple(d for d in dims if d is not None)

    @property
    def dims(self) -> tuple[int | None, ...]:
        """The shape of the value as it is held; None for each dimension that depends on what is computed.

        Raises:
            CannotTranslate: Not even the rank is known.
        """
        if not isinstance(self.bound.type, TensorType) or self.bound.type.shape is None:
            raise CannotTranslate(f"the rank of {self.value.name!r} is not known")
        return self.bound.type.shape

    @property
    def rank(self) -> int:
        """The rank of the value as it is held; raises as `dims` does."""
        return len(self.dims)

    @property
    def array(self) -> Array | None:
        """The content, where it is known before run time."""
        known = self.bound.constant
        return known.numpy() if known is not None and known.is_available else None


#: What an operation may be given: None stands for a parameter that is left out.
Given = Blob | Constant | Array | Sequence[Blob] | Sequence[int] | bool | int | float | str | None


class Builder:
    """Collects operations.

    Args:
        function: The name of the function, with which the ids of operations begin.
        reserved: Names that no value gets unless it is asked for by that very name.

    Attributes:
        layer: The layer that operations are emitted for; None where they stand between layers and features.
        feature: Then the feature that they serve: their results are named after it.
        scope: The blobs by the names that layers know them by; later layers may write one anew.
    """

    def __init__(self, function: str, reserved: Sequence[str] = ()) -> None:
        self.layer: Layer | None = None
        self.feature = "value"
        self.scope: dict[str, Blob] = {}
        self._path = function
        self._ops: list[Op] = []
        self._names: set[str] = set(reserved)
        self._binder = Binder(OPS, OPSET)
        self._known: dict[str, BoundValue] = {}
        #: What floats were made from integers or booleans: where a layer takes those, nothing is cast back.
        self._sources: dict[str, Blob] = {}

    # Values

    def input(self, name: str, dtype: DType, shape: Sequence[int | None] | None) -> Blob:
        """A value that comes into the graph, under exactly this name."""
        type_ = TensorType(dtype, None if shape is None else tuple(shape))
        self._names.add(name)
        value = Value(name, type_)
        self._known[name] = BoundValue(type_)
        return Blob(value, self._known[name])

    def op(self, type_: str, /, *, named: str = "", **inputs: Given) -> Blob:
        """Emits an operation with one result; see `ops`."""
        return self.ops(type_, 1, named=[named] if named else None, **inputs)[0]

    def ops(
        self, type_: str, count: int, /, *, named: Sequence[str] | None = None, **inputs: Given
    ) -> tuple[Blob, ...]:
        """Emits an operation.

        Args:
            type_: Its name in Apple's vocabulary.
            count: How many results it has.
            named: What the results are called; by default after the layer.
            **inputs: Its parameters. Python numbers and sequences become constants: of 32-bit floats, of
                32-bit integers, of booleans or strings.

        Raises:
            CannotTranslate: The arguments contradict each other or the operation's definition.
        """
        arguments = {name: _arguments(given) for name, given in inputs.items() if given is not None}
        return self._append(type_, arguments, (), self._result_names(count, named))

    def control(self, type_: str, count: int, graphs: Sequence[Graph], **inputs: Given) -> tuple[Blob, ...]:
        """Emits an operation with nested graphs, made by `block` right before."""
        arguments = {name: _arguments(given) for name, given in inputs.items() if given is not None}
        return self._append(type_, arguments, tuple(graphs), self._result_names(count, None))

    def block(
        self, name: str, inputs: Sequence[Blob], write: Callable[[Sequence[Blob]], Sequence[Blob]]
    ) -> Graph:
        """A nested graph of the operation that is emitted next.

        Args:
            name: What the graph is to its owner: `true`, `false`, `cond` or `body`.
            inputs: Blobs like those that come in: the graph gets values of the same types.
            write: Is given the values that come in, emits operations, and returns what goes out. The blobs
                that layers write in it are forgotten at its end.

        Raises:
            CannotTranslate: Graphs are nested too deep.
        """
        if self._path.count("/") >= 2 * _DEEPEST:
            raise CannotTranslate(f"graphs are nested more than {_DEEPEST} deep in it")
        with self._nested(name) as ops:
            taken = []
            for blob in inputs:
                stem = self.fresh(blob.value.name)
                assert isinstance(blob.bound.type, TensorType)
                inner = self.input(stem, blob.dtype, blob.bound.type.shape)
                taken.append(replace(inner, sequence=blob.sequence))
            results = write(taken)
        return Graph(
            name=name,
            inputs=tuple(blob.value for blob in taken),
            ops=tuple(ops),
            outputs=tuple(blob.value for blob in results),
        )

    def unknown(
        self,
        type_: str,
        inputs: Sequence[Blob],
        outputs: Sequence[tuple[int, ...] | None],
        attributes: Mapping[str, Constant] | None = None,
    ) -> tuple[Blob, ...]:
        """Emits a stand-in for a layer that has no translation, with results of the given shapes."""
        names = self._result_names(len(outputs), None)
        values = tuple(Value(n, TensorType(FLOAT, shape)) for n, shape in zip(names, outputs, strict=True))
        return self._finish(type_, {"x": tuple(b.value for b in inputs)}, (), values, attributes)

    def fresh(self, stem: str) -> str:
        """A name that no value has yet."""
        name, number = stem, 0
        while name in self._names:
            number += 1
            name = f"{stem}_{number}"
        self._names.add(name)
        return name

    def rename(self, blob: Blob, name: str, since: int, *, is_reserved: bool = False) -> Blob:
        """Gives a value the name by which layers know it, if that is free.

        Args:
            blob: A result of one of the operations emitted since.
            name: The name.
            since: How many operations the current graph had before.
            is_reserved: Takes the name though it is reserved.
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
        """The name of the value that a blob is the same as, behind operations that change nothing."""
        makers = {value.name: op for op in self._ops for value in op.outputs}
        name = blob.value.name
        while name in makers and makers[name].type == "identity":
            source = makers[name].inputs["x"][0]
            if not isinstance(source, Value):
                break
            name = source.name
        return name

    def graph(self, name: str, inputs: Sequence[Blob], outputs: Sequence[Blob]) -> Graph:
        """All operations so far as a graph."""
        return Graph(
            name=name,
            inputs=tuple(b.value for b in inputs),
            ops=tuple(self._ops),
            outputs=tuple(b.value for b in outputs),
        )

    def undo_from(self, mark: int) -> None:
        """Forgets the operations that were emitted since there were `mark` of them."""
        del self._ops[mark:]

    @property
    def path(self) -> str:
        """Where the current graph is: the function, and the operations and blocks that it is nested in."""
        return self._path

    @property
    def mark(self) -> int:
        """How many operations the current graph has."""
        return len(self._ops)

    # The two layouts

    def tensor(self, blob: Blob) -> Blob:
        """The blob as a tensor that is what it seems: one of the old kind gets its five dimensions."""
        if blob.sequence is None:
            return blob
        merged, *rest = blob.shape
        shape = (blob.sequence, merged // max(blob.sequence, 1), *rest)
        return self.op("reshape", x=replace(blob, sequence=None), shape=shape)

    def images(self, blob: Blob) -> Blob:
        """The blob as `[n, channels, height, width]`, leading dimensions of a longer one merged.

        Raises:
            CannotTranslate: It has less than three dimensions, or unknown ones among several leading ones.
        """
        if blob.sequence is not None:
            return replace(blob, sequence=None)
        if blob.rank == 4:
            return blob
        if blob.rank < 3:
            raise CannotTranslate(f"it takes images, not a tensor of rank {blob.rank}")
        shape = blob.shape
        return self.op("reshape", x=blob, shape=(math.prod(shape[:-3]), *shape[-3:]))

    def like(self, result: Blob, source: Blob) -> Blob:
        """What `images(source)` was made into, with the leading dimensions of `source` again."""
        if source.sequence is not None:
            return replace(result, sequence=source.sequence)
        if source.rank == 4:
            return result
        return self.op("reshape", x=result, shape=(*source.shape[:-3], *result.shape[1:]))

    def cast(self, blob: Blob, dtype: DType) -> Blob:
        """The blob with another element type."""
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
        """The blob, which holds whole numbers, as integers."""
        return self.cast(blob, DType.INT32)

    def floats(self, blob: Blob) -> Blob:
        """The blob as floats, as every layer hands on its results."""
        return self.cast(blob, FLOAT)

    def flags(self, blob: Blob) -> Blob:
        """The blob as booleans: true where it is not zero."""
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
        op_id = f"{self._path}/{len(self._ops)}"
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
        self._path, self._ops, self.scope = f"{path}/{len(ops)}/{name}", [], dict(scope)
        try:
            yield self._ops
        finally:
            self._path, self._ops, self.scope = path, ops, scope


def _with_value(op: Op, old: str, new: Value) -> Op:
    """The operation with one value, which nested graphs may refer to as well, replaced."""

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


def _arguments(given: Given) -> tuple[Value | Constant, ...]:
    match given:
        case Blob():
            return (given.value,)
        case Constant():
            return (given,)
        case [Blob(), *_]:
            return tuple(blob.value for blob in given if isinstance(blob, Blob))
        case np.ndarray():
            return (constant(given),)
        case tuple() | list():
            return (constant(np.array(given, np.int32) if not given else list(given)),)
        case _:
            return (constant(given),)
