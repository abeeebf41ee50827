"""The dictionary vectorizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from coremlscope.model.ir import Classical, Constant, DictType
from coremlscope.model.schema import Message
from coremlscope.ops.classical.contract import ClassicalType, Fact
from coremlscope.ops.classical.interface import Interface
from coremlscope.ops.classical.messages import read_keys
from coremlscope.ops.classical.words import list_elements
from coremlscope.ops.classical.work import per_result


class DictVectorizer(Classical, msgspec.Struct, frozen=True):
    """Turns a dictionary into an array, in the order of `keys`; absent keys are 0, unknown keys are ignored.

    Attributes:
        keys: Strings or int64 `[elements]`.
    """

    kind: ClassVar[str] = "dictVectorizer"
    keys: Constant


def _read(message: Message) -> DictVectorizer:
    """Reads a `DictVectorizer`."""
    return DictVectorizer(read_keys(message, "Map", DictVectorizer.kind))


def _lower(content: DictVectorizer, interface: Interface) -> None:
    """Lowers a `DictVectorizer`; the input port already orders the numbers by key."""
    keys, value = content.keys.numpy().tolist(), interface.only_output()
    if isinstance(value.type, DictType):
        interface.give_pairs(value, *interface.pairs(interface.only_input(), keys))
    else:
        interface.give(value, interface.table(interface.only_input(), keys), len(keys))


def _describe(content: DictVectorizer) -> Iterator[Fact]:
    yield "keys", list_elements(content.keys)


#: The rows of this family.
TYPES: tuple[ClassicalType[Any], ...] = (
    ClassicalType(
        content=DictVectorizer,
        read=_read,
        lower=_lower,
        work=per_result(0),
        describe=_describe,
    ),
)
