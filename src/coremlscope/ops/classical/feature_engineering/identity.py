"""The identity."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import msgspec

from coremlscope.model.ir import Classical, DictType, DType, ListType, TensorType, Value
from coremlscope.model.schema import Message
from coremlscope.ops.classical.contract import ClassicalType, Fact
from coremlscope.ops.classical.interface import Interface
from coremlscope.ops.classical.work import per_result


class Identity(Classical, msgspec.Struct, frozen=True):
    """Passes features through unchanged."""

    kind: ClassVar[str] = "identity"


def _read(message: Message) -> Identity:
    """Reads an `Identity`."""
    return Identity()


def _lower(content: Identity, interface: Interface) -> None:
    """Lowers an `Identity`; inputs and outputs are paired by name, or else by position."""
    if len(interface.inputs) != len(interface.outputs):
        interface.contradict()
    for name, value in zip(interface.inputs, interface.outputs, strict=True):
        source = value.name if value.name in interface.inputs else name
        type_ = interface.type(source)
        if isinstance(type_, DictType):
            interface.give_pairs(value, *interface.pairs(source))
        elif isinstance(type_, ListType) or type_ == TensorType(DType.STRING, ()):
            _pass_items(source, value, type_, interface)
        elif isinstance(type_, TensorType):
            interface.give_tensor(value, interface.tensor(source), type_)
        else:
            interface.contradict()


def _pass_items(source: str, value: Value, type_: TensorType | ListType, interface: Interface) -> None:
    element = type_.element if isinstance(type_, ListType) else type_
    if value.type != type_ or not isinstance(element, TensorType):
        interface.contradict()
    shape = (None,) if isinstance(type_, ListType) else (1,)
    if element.dtype is DType.STRING:
        interface.give_tensor(value, interface.text(source), TensorType(DType.STRING, shape))
    else:
        items = interface.numbers_of_sequence(source)
        interface.give_tensor(value, items, TensorType(DType.INT64, shape))


def _describe(content: Identity) -> Iterable[Fact]:
    return ()


#: The rows of this family.
TYPES: tuple[ClassicalType[Any], ...] = (
    ClassicalType(
        content=Identity,
        read=_read,
        lower=_lower,
        work=per_result(0),
        describe=_describe,
    ),
)
