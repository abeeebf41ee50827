"""The imputer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from coremlscope.model.ir import (
    ArrayFeature,
    Classical,
    Constant,
    DictionaryFeature,
    DType,
    Feature,
    TensorType,
    Value,
    constant,
)
from coremlscope.model.schema import Message
from coremlscope.ops.classical.contract import ClassicalType, Fact
from coremlscope.ops.classical.interface import Interface
from coremlscope.ops.classical.messages import doubles, keys_of, require
from coremlscope.ops.classical.words import list_elements
from coremlscope.ops.classical.work import per_result
from coremlscope.ops.emit import BOOL, I64, STRING, Tensor


class Imputer(Classical, msgspec.Struct, frozen=True):
    """Replaces missing values.

    Attributes:
        imputed: The replacement: a number, a string or an array; for a dictionary, the numbers of `keys`.
        keys: For a dictionary, strings or int64 `[entries]`; None otherwise.
        replaced: The value that counts as missing; None for NaN.
    """

    kind: ClassVar[str] = "imputer"
    imputed: Constant
    keys: Constant | None
    replaced: float | int | str | None


def _read(message: Message) -> Imputer:
    """Reads an `Imputer`."""
    kind, form, keys = Imputer.kind, message.WhichOneof("ImputedValue"), None
    require(form is not None, kind, "no replacement for missing values")
    value = getattr(message, form)
    match form:
        case "imputedDoubleArray":
            imputed = doubles(value.vector)
        case "imputedInt64Array":
            imputed = constant(np.array(value.vector, np.int64))
        case "imputedStringDictionary" | "imputedInt64Dictionary":
            keys = keys_of((entry.key for entry in value.map), form == "imputedStringDictionary", kind)
            imputed = doubles(entry.value for entry in value.map)
        case "imputedStringValue":
            imputed = constant(value)
        case "imputedInt64Value":
            imputed = constant(np.int64(value))
        case _:
            imputed = constant(np.float64(value))
    name = message.WhichOneof("ReplaceValue")
    replaced = None if name is None else getattr(message, name)
    if name is not None:
        wanted = {"imputedD": "replaceDoubleValue", "imputedI": "replaceInt64Value"}
        fits = keys is None and wanted.get(form[:8], "replaceStringValue") == name
        require(fits, kind, f"{name}, which does not fit {form}")
    is_nan = isinstance(replaced, float) and np.isnan(replaced)
    return Imputer(imputed, keys, None if is_nan else replaced)


def _lower(content: Imputer, interface: Interface) -> None:
    """Lowers an `Imputer`."""
    op, name, value = interface.op, interface.only_input(), interface.only_output()
    type_ = interface.type(name)
    if content.keys is not None:
        _impute_dictionary(content, name, value, interface)
        return
    if type_ == TensorType(DType.STRING, ()):
        text = interface.text(name)
        known = content.replaced if isinstance(content.replaced, str) else ""
        is_missing = op.emit("Equal", text, op.const([known], STRING))
        result = op.emit(
            "Where", is_missing, op.const([str(content.imputed.item())], STRING), text, dtype=STRING
        )
        if value.type != type_:
            interface.contradict()
        interface.give_tensor(value, result, TensorType(DType.STRING, (1,)))
        return
    x = interface.tensor(name)
    imputed = content.imputed.numpy()
    if imputed.dtype == object:
        raise interface.error(f"has a string for the input {name!r}, which holds numbers")
    shape = type_.shape if isinstance(type_, TensorType) and type_.is_static else None
    size = interface.size(name)
    if imputed.size not in (1, size) and size is not None:
        raise interface.error(f"has {imputed.size} values for the input {name!r}, which holds {size}")
    if imputed.size > 1 and shape is not None:
        imputed = imputed.reshape([d or 0 for d in shape])
    missing = _is_missing(content, x, interface)
    if missing is not None:
        replacement = op.const(imputed.astype(x.dtype), x.dtype)
        x = op.emit("Where", missing, replacement, x, dtype=x.dtype)
    interface.give(value, x, size)


def _is_missing(content: Imputer, x: Tensor, interface: Interface) -> Tensor | None:
    """True for missing numbers; None where no number can be missing."""
    op = interface.op
    if content.replaced is None:
        return op.emit("IsNaN", x, dtype=BOOL) if x.dtype.kind == "f" else None
    return op.emit("Equal", x, op.const(content.replaced, x.dtype))


def _impute_dictionary(content: Imputer, name: str, value: Value, interface: Interface) -> None:
    """Replaces absent keys and keys whose number is missing."""
    op = interface.op
    assert content.keys is not None
    given, numbers = interface.pairs(name)
    known = op.const(content.keys.numpy(), given.dtype)
    if isinstance(known_type := content.keys.type, TensorType) and (given.dtype == STRING) != (
        known_type.dtype is DType.STRING
    ):
        raise interface.error(f"has other keys than the dictionary {name!r}")
    is_there = op.emit("Not", op.emit("IsNaN", numbers, dtype=BOOL))
    kept = op.emit("Compress", given, is_there, axis=0)
    kept_numbers = op.emit("Compress", numbers, is_there, axis=0)
    same = op.cast(op.emit("Equal", op.reshape(known, (-1, 1)), op.reshape(kept, (1, -1))), np.int32)
    count = op.emit("ReduceSum", same, op.const([1], I64), keepdims=0)
    is_absent = op.emit("Equal", count, op.const(0, np.int32))
    more = op.emit("Compress", known, is_absent, axis=0)
    more_numbers = op.emit("Compress", interface.weight(content.imputed, "imputed"), is_absent, axis=0)
    interface.give_pairs(
        value, op.emit("Concat", kept, more, axis=0), op.emit("Concat", kept_numbers, more_numbers, axis=0)
    )


def _describe(content: Imputer) -> Iterator[Fact]:
    yield "replaces", "NaN or absent" if content.replaced is None else repr(content.replaced)
    values = list_elements(content.imputed)
    yield "by", values if content.keys is None else f"{values} of {list_elements(content.keys)}"


def _absent_values(content: Imputer, absent: Sequence[Feature], values: Mapping[str, Any]) -> dict[str, Any]:
    return {feature.name: _imputed(content, feature) for feature in absent}


def _imputed(content: Imputer, feature: Feature) -> Any:
    imputed = content.imputed.numpy()
    match feature.type:
        case DictionaryFeature():
            assert content.keys is not None
            return dict(zip(content.keys.numpy().tolist(), imputed.tolist(), strict=True))
        case ArrayFeature(shape=shape) if shape:
            return np.broadcast_to(imputed, shape)
        case ArrayFeature():
            return imputed
        case _:
            return content.imputed.item()


#: The rows of this family.
TYPES: tuple[ClassicalType[Any], ...] = (
    ClassicalType(
        content=Imputer,
        read=_read,
        lower=_lower,
        work=per_result(1),
        describe=_describe,
        absent_values=_absent_values,
    ),
)
