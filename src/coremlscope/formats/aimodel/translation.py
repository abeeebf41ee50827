"""Operations of Core AI that are being translated, and the rows that translate them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from coremlscope.formats.aimodel.content import StoredOp
from coremlscope.formats.aimodel.dialect import Attribute, EnumMember, Type
from coremlscope.formats.neuralnetwork.builder import Blob, Builder, CannotTranslate
from coremlscope.model.ir import Array, Constant, DType, TensorType


class Token(msgspec.Struct, frozen=True):
    """A value that only orders operations, or a state, by name."""

    state: str = ""


#: An argument: a value at run time, a constant, or a token.
Operand = Blob | Constant | Token


def known(operand: Operand) -> Array | None:
    """Returns the content of an operand; None if it is unknown before run time."""
    if isinstance(operand, Constant):
        return operand.numpy()
    return operand.array if isinstance(operand, Blob) else None


def dims_of(operand: Operand) -> tuple[int | None, ...]:
    """Returns the shape of an operand.

    Raises:
        CannotTranslate: The rank is unknown, or it is no tensor.
    """
    if isinstance(operand, Blob):
        return operand.dims
    if (
        isinstance(operand, Constant)
        and isinstance(operand.type, TensorType)
        and operand.type.shape is not None
    ):
        return operand.type.shape
    raise CannotTranslate("an argument is not a tensor")


class Translation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation that is being translated.

    Attributes:
        builder: Emits operations.
        op: The operation in the file.
        inputs: Its arguments.
        types: The types of its results in the file.
    """

    builder: Builder
    op: StoredOp
    inputs: Sequence[Operand]
    types: Sequence[Type]

    @property
    def x(self) -> Blob | Constant:
        """The first argument."""
        return self.tensor(0)

    def tensor(self, index: int) -> Blob | Constant:
        """Returns an argument that is a tensor.

        Raises:
            CannotTranslate: It is missing, or no tensor.
        """
        operand = self.inputs[index] if index < len(self.inputs) else None
        if operand is None or isinstance(operand, Token):
            raise CannotTranslate(f"argument {index + 1} is not a tensor")
        return operand

    def array(self, index: int) -> Array:
        """Returns the content of an argument.

        Raises:
            CannotTranslate: It is unknown before run time.
        """
        found = known(self.tensor(index))
        if found is None:
            raise CannotTranslate(f"argument {index + 1} is not known before run time")
        return found

    def integers(self, index: int) -> list[int]:
        """Returns the content of an argument as integers. Errors are those of `array`."""
        return [int(value) for value in self.array(index).reshape(-1)]

    def integer(self, index: int) -> int:
        """Returns the content of an argument of one element. Errors are those of `array`."""
        values = self.integers(index)
        if len(values) != 1:
            raise CannotTranslate(f"argument {index + 1} has {len(values)} elements instead of 1")
        return values[0]

    def flag(self, index: int) -> bool:
        """Returns the content of an argument that is true or false. Errors are those of `array`."""
        return bool(self.integer(index))

    def shape_of(self, index: int) -> Blob | list[int]:
        """Returns an argument that is a shape: as integers if it is known, or else as a tensor."""
        found = known(self.tensor(index))
        if found is not None:
            return [int(value) for value in found.reshape(-1)]
        tensor = self.tensor(index)
        assert isinstance(tensor, Blob)
        return self.builder.cast(tensor, DType.INT32)

    def choice(self, name: str) -> int:
        """Returns the number of an attribute's member of an enumeration.

        Raises:
            CannotTranslate: It is missing.
        """
        value: Attribute | None = self.op.attributes.get(name)
        if not isinstance(value, EnumMember):
            raise CannotTranslate(f"the attribute {name} is missing")
        return value.number

    @property
    def dtype(self) -> DType:
        """The element type of the first result.

        Raises:
            CannotTranslate: It is no tensor.
        """
        return self.result_type().dtype

    def result_type(self, index: int = 0) -> TensorType:
        """Returns the type of a result in the file. Errors are those of `dtype`."""
        type_ = self.types[index] if index < len(self.types) else None
        if not isinstance(type_, TensorType):
            raise CannotTranslate("its result is not a tensor")
        return type_


Result = Operand | Sequence[Operand]


class Row(msgspec.Struct, frozen=True):
    """A row of the table of operations.

    Attributes:
        translate: Emits the operations, and returns an operand per result. Raises CannotTranslate.
        inputs: The minimum and maximum number of arguments; a maximum of -1 is unlimited.
    """

    translate: Callable[[Translation], Result]
    inputs: tuple[int, int]


Rows = Mapping[str, Row]
