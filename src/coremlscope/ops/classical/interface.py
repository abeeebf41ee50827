"""The features of a classical model as tensors, and its results as features."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np
from msgspec.structs import replace

from coremlscope.base.errors import CorruptModelError, UnsupportedModelError
from coremlscope.model.ir import (
    Constant,
    DictType,
    DType,
    ListType,
    TensorType,
    Value,
    ValueType,
    describe_type,
)
from coremlscope.ops.bind import BoundFunction
from coremlscope.ops.emit import Emitter, Lowering, NumpyType, Tensor, carry
from coremlscope.ops.program import Port, copy_out
from coremlscope.ops.view import BoundGraph, CannotLower

F64, _INT64 = np.dtype(np.float64), np.dtype(np.int64)
Label = str | int
_DAMAGED = "the file is damaged or was written by a faulty tool; export or download the model again"


class Interface:
    """The inputs and outputs of a classical model by name, for a lowering to read and to give.

    Attributes:
        kind: The model type.
        op: Adds ONNX nodes.
        inputs: Names of the inputs, in order.
        outputs: The outputs, in order.
    """

    def __init__(self, kind: str, bound: BoundFunction) -> None:
        view = bound.graph.ops[0]
        self.kind = kind
        self.outputs: tuple[Value, ...] = view.op.outputs
        self._emitter = Emitter(bound.budget)
        self._emitter.owner = view.op.id
        self.op = Lowering(view, self._emitter, {}, {}, _refuse_block)
        values = zip(bound.graph.graph.inputs, bound.graph.inputs, strict=True)
        self._types: dict[str, ValueType] = {value.name: given.type for value, given in values}
        self.inputs = tuple(self._types)
        self._ports: list[Port] = []
        self._taken: dict[str, Tensor] = {}
        self._given: dict[str, list[Port]] = {}

    @property
    def taken(self) -> Sequence[Port]:
        """The input ports, in the order in which the lowering read them."""
        return self._ports

    def given(self) -> list[Port]:
        """The output ports, after the lowering.

        Raises:
            CorruptModelError: The model does not give an output that it describes.
        """
        for value in self.outputs:
            if value.name not in self._given:
                self.contradict()
        return [port for value in self.outputs for port in self._given[value.name]]

    # Inputs

    def only_input(self) -> str:
        """The name of the one input.

        Raises:
            CorruptModelError: There is none, or there are several.
        """
        if len(self.inputs) != 1:
            raise self.error(f"takes one input, but {len(self.inputs)} are described")
        return self.inputs[0]

    def type(self, name: str) -> ValueType:
        """The type of an input.

        Raises:
            CorruptModelError: There is no such input.
        """
        if name not in self._types:
            raise self.error(f"takes the input {name!r}, which is not described")
        return self._types[name]

    def tensor(self, name: str) -> Tensor:
        """An input of numbers, unchanged; doubles and 64-bit integers keep their type.

        Raises:
            CorruptModelError: There is no such input.
            UnsupportedModelError: It does not hold numbers.
        """
        type_ = self.type(name)
        if not isinstance(type_, TensorType) or type_.dtype is DType.STRING:
            raise UnsupportedModelError(
                f"a {self.kind} with {_described(type_)} as the input {name!r} is not supported",
                "numbers and arrays are supported",
            )
        return self._take(name, Port(name=name, value="", type=type_, dtype=_carried(type_.dtype)))

    def text(self, name: str) -> Tensor:
        """An input that is a string or a sequence of strings, unchanged, in one dimension."""
        size = (None,) if isinstance(self.type(name), ListType) else (1,)
        type_ = TensorType(DType.STRING, size)
        return self._take(name, Port(name=name, value="", type=type_, dtype=np.dtype(object)))

    def numbers_of_sequence(self, name: str) -> Tensor:
        """An input that is a sequence of integers, int64 in one dimension."""
        return self._take(
            name, Port(name=name, value="", type=TensorType(DType.INT64, (None,)), dtype=_INT64)
        )

    def size(self, name: str) -> int | None:
        """The number of elements of an input; None where it is not known."""
        type_ = self.type(name)
        return type_.elements if isinstance(type_, TensorType) else None

    def row(self, width: int | None = None, names: Sequence[str] | None = None) -> Tensor:
        """Concatenates inputs of numbers, fp64 `[1, numbers]`.

        Args:
            width: The required number of elements; None for any.
            names: The inputs; None for all.

        Raises:
            CorruptModelError: The inputs hold more or fewer elements.
        """
        names = self.inputs if names is None else names
        sizes = [self.size(name) for name in names]
        known = sum(size or 0 for size in sizes)
        if width is not None and (known > width or (None not in sizes and known != width)):
            raise self.error(f"takes {width} numbers, but its inputs hold {known}")
        op = self.op
        parts = [op.cast(op.reshape(self.tensor(name), (1, -1)), F64) for name in names]
        return op.emit("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]

    def label_indices(self, name: str, labels: Sequence[Label], *, is_closed: bool = False) -> Tensor:
        """An input as indices of labels, int64, in one dimension or in the shape of the array.

        The index of an unknown label is -1; a sequence leaves unknown labels out.

        Args:
            name: The input: a string, numbers, or a sequence.
            labels: The labels.
            is_closed: An unknown label is an error.
        """
        given = self.type(name)
        match given:
            case TensorType(DType.STRING):
                type_ = TensorType(DType.INT64, (1,))
            case TensorType():
                type_ = TensorType(DType.INT64, given.shape if given.is_static else (None,))
            case ListType():
                type_ = TensorType(DType.INT64, (None,))
            case _:
                raise self.error(f"cannot take {_described(given)} as the input {name!r}")
        return self._take(
            name,
            Port(
                name=name,
                value="",
                type=type_,
                dtype=_INT64,
                labels=tuple(labels),
                is_closed=is_closed,
            ),
        )

    def label_index(self, name: str, labels: Sequence[Label], *, is_closed: bool = False) -> Tensor:
        """An input of one string or number as the index of a label, int64 `[1]`; see `label_indices`.

        Raises:
            CorruptModelError: The input holds more than one.
        """
        given = self.type(name)
        is_string = given == TensorType(DType.STRING, ())
        if not is_string and (not isinstance(given, TensorType) or given.elements != 1):
            raise self.error(f"takes one category as the input {name!r}, which is {_described(given)}")
        return self.op.reshape(self.label_indices(name, labels, is_closed=is_closed), (1,))

    def table(self, name: str, labels: Sequence[Label]) -> Tensor:
        """A dictionary as its numbers in the order of `labels`, fp64 `[labels]`."""
        self._check_dictionary(name)
        type_ = TensorType(DType.FP64, (len(labels),))
        return self._take(name, Port(name=name, value="", type=type_, dtype=F64, labels=tuple(labels)))

    def pairs(self, name: str, labels: Sequence[Label] | None = None) -> tuple[Tensor, Tensor]:
        """A dictionary as its keys, or their indices in `labels`, and its numbers, each in one dimension."""
        key = self._check_dictionary(name)
        numbers = self._take(name, Port(name=name, value="", type=TensorType(DType.FP64, (None,)), dtype=F64))
        dtype = DType.INT64 if labels is not None else key
        known = None if labels is None else tuple(labels)
        keys = Port(
            name=name,
            value="",
            type=TensorType(dtype, (None,)),
            dtype=_carried(dtype),
            labels=known,
            holds_keys=True,
        )
        return self._take(f"{name}.keys", keys), numbers

    def is_dictionary(self, name: str) -> bool:
        """True where an input is a dictionary."""
        return isinstance(self.type(name), DictType)

    def _check_dictionary(self, name: str) -> DType:
        type_ = self.type(name)
        if not isinstance(type_, DictType) or not isinstance(type_.key, TensorType):
            raise self.error(
                f"takes a dictionary as the input {name!r}, which is described as {_described(type_)}"
            )
        return type_.key.dtype

    def _take(self, key: str, port: Port) -> Tensor:
        if key not in self._taken:
            tensor = Tensor(self._emitter.unique(key), port.dtype)
            self._taken[key] = tensor
            self._ports.append(replace(port, value=tensor.name))
        return self._taken[key]

    # Parameters

    def weight(self, constant: Constant, stem: str, dtype: NumpyType | str = F64) -> Tensor:
        """A parameter of the model, fp64 unless `dtype` is given."""
        return self._emitter.weight(constant, dtype, stem)

    @property
    def emitter(self) -> Emitter:
        """Collects the nodes."""
        return self._emitter

    # Outputs

    def only_output(self) -> Value:
        """The one output.

        Raises:
            CorruptModelError: There is none, or there are several.
        """
        if len(self.outputs) != 1:
            self.contradict()
        return self.outputs[0]

    def output(self, name: str) -> Value:
        """An output by name.

        Raises:
            CorruptModelError: There is none.
        """
        found = next((value for value in self.outputs if value.name == name), None)
        if found is None:
            raise self.error(f"gives {name!r}, which is not described")
        return found

    def give(self, value: Value, result: Tensor, count: int | None = None) -> None:
        """Gives numbers as an output: a number, or an array in the described shape.

        Args:
            value: The output.
            result: The numbers.
            count: The number of elements; None where it is not known.

        Raises:
            CorruptModelError: The output is described as something else, or of another size.
        """
        type_ = value.type
        if not isinstance(type_, TensorType) or type_.dtype is DType.STRING:
            self.contradict()
        shape: tuple[int | None, ...] | None = type_.shape
        if shape is None:
            shape = None if count is None else (count,)
        elif count is not None and math.prod(d or 0 for d in shape) != count:
            raise self.error(f"gives {count} numbers, but its output holds {list(shape)}")
        if shape is not None:
            result = self.op.reshape(result, [-1 if d is None else d for d in shape])
        dtype = F64 if type_.dtype.is_float else _carried(type_.dtype)
        self.give_tensor(value, self.op.cast(result, dtype), TensorType(type_.dtype, shape))

    def give_tensor(
        self, value: Value, result: Tensor, type_: TensorType, labels: Sequence[Label] | None = None
    ) -> None:
        """Gives a tensor as an output, in its own shape."""
        name = copy_out(self._emitter, result, value.name)
        known = None if labels is None else tuple(labels)
        self._given[value.name] = [
            Port(name=value.name, value=name, type=type_, dtype=result.dtype, labels=known)
        ]

    def give_labels(self, value: Value, indices: Tensor, labels: Sequence[Label]) -> None:
        """Gives the labels at indices, int64 in one dimension, as an output."""
        wanted = DType.STRING if labels and isinstance(labels[0], str) else DType.INT64
        is_many = isinstance(value.type, ListType)
        element = value.type.element if isinstance(value.type, ListType) else value.type
        if not isinstance(element, TensorType) or (labels and element.dtype is not wanted):
            self.contradict()
        self.give_tensor(value, indices, TensorType(DType.INT64, (None,) if is_many else (1,)), labels)

    def give_table(self, value: Value, numbers: Tensor, labels: Sequence[Label]) -> None:
        """Gives numbers in the order of `labels` as a dictionary."""
        wanted = DType.STRING if labels and isinstance(labels[0], str) else DType.INT64
        if not isinstance(value.type, DictType) or (labels and value.type.key != TensorType(wanted, ())):
            self.contradict()
        name = copy_out(self._emitter, numbers, value.name, is_flat=True)
        type_ = TensorType(DType.FP64, (len(labels),))
        self._given[value.name] = [
            Port(name=value.name, value=name, type=type_, dtype=F64, labels=tuple(labels))
        ]

    def give_pairs(
        self, value: Value, keys: Tensor, numbers: Tensor, labels: Sequence[Label] | None = None
    ) -> None:
        """Gives keys, or indices of `labels`, and numbers, each in one dimension, as a dictionary."""
        if not isinstance(value.type, DictType):
            self.contradict()
        held, made = (
            copy_out(self._emitter, t, n) for t, n in ((numbers, value.name), (keys, f"{value.name}.keys"))
        )
        known = None if labels is None else tuple(labels)
        of_keys = TensorType(DType.STRING if keys.dtype == object else DType.INT64, (None,))
        self._given[value.name] = [
            Port(name=value.name, value=held, type=TensorType(DType.FP64, (None,)), dtype=F64),
            Port(name=value.name, value=made, type=of_keys, dtype=keys.dtype, labels=known, holds_keys=True),
        ]

    def give_classes(self, index: Tensor, probabilities: Tensor | None, labels: Sequence[Label]) -> None:
        """Gives the outputs of a classifier: its label, and the probability of each class if it is described.

        Args:
            index: The index of the label, int64 `[1]`.
            probabilities: In the order of the labels; None for a model without probabilities.
            labels: The classes.
        """
        for value in self.outputs:
            if not isinstance(value.type, DictType):
                self.give_labels(value, index, labels)
            elif probabilities is None:
                raise self.error(f"has no probabilities, but describes the output {value.name!r}")
            else:
                self.give_table(value, probabilities, labels)

    # Errors

    def error(self, what: str) -> CorruptModelError:
        """An error that begins with "the (kind)"."""
        return CorruptModelError(f"the {self.kind} {what}", _DAMAGED)

    def contradict(self) -> NoReturn:
        """Raises an error about outputs that such a model does not have.

        Raises:
            CorruptModelError: Always.
        """
        described = ", ".join(f"{v.name!r} ({_described(v.type)})" for v in self.outputs) or "nothing"
        raise self.error(f"cannot give the described outputs: {described}")


def _carried(dtype: DType) -> NumpyType:
    """The element type in the engine: doubles and 64-bit integers keep theirs; others are as in a program."""
    return dtype.numpy if dtype in (DType.FP64, DType.INT64) else carry(dtype)


def _described(type_: ValueType) -> str:
    match type_:
        case TensorType(DType.STRING):
            return "string"
        case TensorType(dtype, (1,)):
            return dtype.value
        case DictType():
            return "a dictionary"
        case ListType():
            return "a sequence"
        case _:
            return describe_type(type_)


def _refuse_block(
    block: BoundGraph, inputs: Sequence[Tensor], states: Mapping[str, Tensor], /
) -> tuple[list[Tensor], dict[str, Tensor]]:
    raise CannotLower("a classical model holds no nested graphs")
