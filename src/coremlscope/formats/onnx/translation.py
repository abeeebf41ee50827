"""An operator that is being translated into Apple's operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from coremlscope.formats.neuralnetwork.builder import Blob, Builder, CannotTranslate, Given
from coremlscope.formats.onnx.graph import Node
from coremlscope.model.ir import Array, Constant, DType, TensorType, constant

#: A value of a graph that is translated.
Operand = Blob | Constant
_INT32 = np.iinfo(np.int32)
#: Integers with which Core ML does not compute.
_WIDE = (DType.INT64, DType.UINT32, DType.UINT64)


class Converted(msgspec.Struct, frozen=True, eq=False):
    """The elements of a constant in another type or order; in the file they are as they were.

    Attributes:
        source: The constant.
        convert: Returns the elements.
    """

    source: Constant
    convert: Callable[[Array], Array]

    @property
    def stored_bytes(self) -> int:
        """Size of the data in the file, in bytes."""
        return self.source.data.stored_bytes

    @property
    def is_available(self) -> bool:
        """False if the file with the data is missing."""
        return self.source.is_available

    def numpy(self) -> Array:
        """Returns the elements."""
        return self.convert(self.source.numpy())


def plain_dtype(dtype: DType, floats: DType) -> DType:
    """Returns the element type with which the translation computes.

    Args:
        dtype: The type in the file.
        floats: The type of all floats.
    """
    if dtype.is_float:
        return floats
    return DType.INT32 if dtype in _WIDE else dtype


def plain_constant(given: Constant, floats: DType) -> Constant:
    """Returns a constant of the type with which the translation computes; see `plain_dtype`."""
    type_ = given.type
    assert isinstance(type_, TensorType)
    dtype = plain_dtype(type_.dtype, floats)
    if dtype is type_.dtype:
        return given

    def convert(array: Array) -> Array:
        if dtype is DType.INT32:
            array = np.clip(array, _INT32.min, _INT32.max)
        with np.errstate(over="ignore"):
            return array.astype(dtype.numpy)

    if dtype is DType.INT32 and given.is_available:
        return constant(convert(given.numpy()), dtype)
    return Constant(TensorType(dtype, type_.shape), Converted(given, convert))


class Translation(msgspec.Struct, frozen=True, kw_only=True):
    """An operator that is being translated.

    Attributes:
        builder: Emits operations.
        node: The operator.
        opset: The version of ONNX's own operators.
        inputs: Its inputs; None for one that is not given.
        floats: The type of all floats.
        types: The types of its results, as far as they are known.
    """

    builder: Builder
    node: Node
    opset: int
    inputs: tuple[Operand | None, ...]
    floats: DType
    types: Sequence[TensorType | None]

    @property
    def x(self) -> Blob:
        """The first input, as a value."""
        return self.value(0)

    def given(self, index: int) -> Operand | None:
        """Returns an input; None if it is not given."""
        return self.inputs[index] if index < len(self.inputs) else None

    def operand(self, index: int) -> Operand:
        """Returns an input.

        Raises:
            CannotTranslate: It is not given.
        """
        found = self.given(index)
        if found is None:
            raise CannotTranslate(f"its input {index} is missing")
        return found

    def value(self, index: int) -> Blob:
        """Returns an input as a value: a constant becomes the result of an operation."""
        found = self.operand(index)
        return found if isinstance(found, Blob) else self.builder.op("identity", x=found)

    def weights(self, index: int) -> Constant:
        """Returns an input that has to be a constant.

        Raises:
            CannotTranslate: It is none.
        """
        found = self.operand(index)
        known = found.bound.constant if isinstance(found, Blob) else found
        if known is None:
            raise CannotTranslate(f"its input {index} is not constant")
        return known

    def shape(self, index: int) -> tuple[int, ...]:
        """Returns the shape of an input.

        Raises:
            CannotTranslate: A dimension is unknown.
        """
        found = self.operand(index)
        if isinstance(found, Blob):
            return found.shape
        assert isinstance(found.type, TensorType)
        return tuple(size or 0 for size in found.type.shape or ())

    def array(self, index: int) -> Array | None:
        """Returns the elements of an input; None if it is not given.

        Raises:
            CannotTranslate: They are unknown before run time.
        """
        found = self.given(index)
        if found is None:
            return None
        array = found.array if isinstance(found, Blob) else found.numpy() if found.is_available else None
        if array is None:
            raise CannotTranslate(f"its input {index} is unknown before run time")
        return array

    def integers(self, index: int, attribute: str = "") -> list[int] | None:
        """Returns the integers of an attribute or an input; None if neither is given."""
        listed = self.node.attributes.get(attribute)
        if isinstance(listed, tuple):
            return [int(one) for one in listed]
        array = self.array(index)
        return None if array is None else [int(one) for one in array.reshape(-1)]

    def number(self, name: str, default: float) -> float:
        """Returns an attribute that is a number."""
        value = self.node.attributes.get(name, default)
        return float(value) if isinstance(value, (int, float)) else default

    def integer(self, name: str, default: int) -> int:
        """Returns an attribute that is an integer."""
        return int(self.number(name, default))

    def text(self, name: str, default: str) -> str:
        """Returns an attribute that is a text."""
        value = self.node.attributes.get(name, default)
        return value if isinstance(value, str) else default

    def op(self, type_: str, /, **inputs: Given) -> Blob:
        """Emits an operation with one result. Python's floats become constants of the type of floats."""
        return self.ops(type_, 1, **inputs)[0]

    def ops(self, type_: str, count: int, /, **inputs: Given) -> tuple[Blob, ...]:
        """Emits an operation; see `op`."""
        plain: dict[str, Given] = {
            name: constant(value, self.floats) if isinstance(value, float) else value
            for name, value in inputs.items()
        }
        return self.builder.ops(type_, count, named=None, **plain)


#: Emits the operations of an operator, and returns its results. Raises CannotTranslate.
Translate = Callable[[Translation], Blob | Sequence[Blob]]
Rows = Mapping[str, Translate]
