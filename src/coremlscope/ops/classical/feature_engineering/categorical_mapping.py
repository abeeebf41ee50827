"""The categorical mapping."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
import numpy as np

from coremlscope.model.ir import Classical, Constant, DType, TensorType, constant
from coremlscope.model.schema import Message
from coremlscope.ops.classical.contract import ClassicalType, Fact
from coremlscope.ops.classical.interface import Interface
from coremlscope.ops.classical.messages import keys_of, require
from coremlscope.ops.classical.words import list_elements
from coremlscope.ops.classical.work import per_result
from coremlscope.ops.emit import I64


class CategoricalMapping(Classical, msgspec.Struct, frozen=True):
    """Maps strings to numbers, or numbers to strings.

    Attributes:
        keys: Strings or int64 `[entries]`.
        mapped: int64 or strings `[entries]`.
        default: The value of other keys; None where they are an error.
    """

    kind: ClassVar[str] = "categoricalMapping"
    keys: Constant
    mapped: Constant
    default: str | int | None


def _read(message: Message) -> CategoricalMapping:
    """Reads a `CategoricalMapping`."""
    kind, form = CategoricalMapping.kind, message.WhichOneof("MappingType")
    require(form is not None, kind, "no mapping")
    entries, from_strings = getattr(message, form).map, form == "stringToInt64Map"
    keys = keys_of((entry.key for entry in entries), from_strings, kind)
    mapped: np.ndarray[tuple[int], np.dtype[np.generic]]
    mapped = np.empty(len(entries), np.int64 if from_strings else object)
    mapped[:] = [entry.value for entry in entries]
    default, name = None, message.WhichOneof("ValueOnUnknown")
    if name is not None:
        require((name == "int64Value") == from_strings, kind, "a default of another type than its values")
        default = getattr(message, name)
    dtype = DType.INT64 if from_strings else DType.STRING
    return CategoricalMapping(keys, constant(mapped, dtype), default)


def _lower(content: CategoricalMapping, interface: Interface) -> None:
    """Lowers a `CategoricalMapping`."""
    op, keys, mapped = interface.op, content.keys.numpy().tolist(), content.mapped.numpy().tolist()
    if content.default is not None:
        mapped.append(content.default)
    elif not mapped:
        raise interface.error("has neither entries nor a default")
    index = interface.label_index(interface.only_input(), keys, is_closed=content.default is None)
    # An unknown key has the index -1, which selects the last entry: the default.
    if content.keys.type == TensorType(DType.STRING, (len(keys),)):
        numbers = interface.emitter.array(np.array(mapped, np.int64))
        interface.give(interface.only_output(), op.emit("Gather", numbers, index, axis=0))
        return
    is_unknown = op.emit("Less", index, op.const(0, I64))
    index = op.emit("Where", is_unknown, op.const(len(mapped) - 1, I64), index, dtype=I64)
    interface.give_labels(interface.only_output(), index, mapped)


def _describe(content: CategoricalMapping) -> Iterator[Fact]:
    yield "maps", list_elements(content.keys)
    default = content.default
    yield "others", "are an error" if default is None else f"become {default!r}"


#: The rows of this family.
TYPES: tuple[ClassicalType[Any], ...] = (
    ClassicalType(
        content=CategoricalMapping,
        read=_read,
        lower=_lower,
        work=per_result(1),
        describe=_describe,
    ),
)
