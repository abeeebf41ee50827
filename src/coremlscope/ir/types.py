"""Types of the values of a program, in Apple's MIL vocabulary."""

from __future__ import annotations

import enum
import functools
import math
from dataclasses import dataclass

import numpy as np

__all__ = [
    "DType",
    "DictType",
    "ListType",
    "Shape",
    "StateType",
    "TensorType",
    "TupleType",
    "ValueType",
    "describe_type",
]

#: A tensor's shape; `None` is a dimension that is not known before run time.
Shape = tuple[int | None, ...]


class DType(enum.Enum):
    """An element type; the value is MIL's own name for it."""

    FP16 = "fp16"
    FP32 = "fp32"
    FP64 = "fp64"
    BF16 = "bf16"
    FP8_E4M3 = "fp8e4m3fn"
    FP8_E5M2 = "fp8e5m2"
    INT4 = "int4"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT1 = "uint1"
    UINT2 = "uint2"
    UINT3 = "uint3"
    UINT4 = "uint4"
    UINT6 = "uint6"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    BOOL = "bool"
    STRING = "string"

    @property
    def bits(self) -> int:
        """Bits that one element takes in a weight file (strings: 0)."""
        return _BITS[self]

    @property
    def is_float(self) -> bool:
        """True for floating-point types."""
        return self.value.startswith(("fp", "bf"))

    @property
    def is_int(self) -> bool:
        """True for signed and unsigned integers, sub-byte ones included; False for bool."""
        return "int" in self.value

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype in which unpacked elements are handed out.

        Sub-byte integers are handed out one element a byte. The 8- and 16-bit floats that NumPy lacks are
        handed out as float32.
        """
        return _NUMPY[self]

    @classmethod
    def of(cls, dtype: np.dtype[np.generic] | type[np.generic]) -> DType:
        """The element type of a NumPy array (float64 and int64 are kept as they are).

        Raises:
            TypeError: NumPy's type has no counterpart.
        """
        kind = np.dtype(dtype)
        if kind.kind in "OUS":
            return cls.STRING
        for name, candidate in _NUMPY.items():
            if candidate == kind and name.bits == kind.itemsize * 8:
                return name
        if kind == np.dtype(np.bool_):
            return cls.BOOL
        raise TypeError(f"no MIL element type for NumPy's {kind}")


_BITS = {
    DType.FP16: 16, DType.FP32: 32, DType.FP64: 64, DType.BF16: 16, DType.FP8_E4M3: 8, DType.FP8_E5M2: 8,
    DType.INT4: 4, DType.INT8: 8, DType.INT16: 16, DType.INT32: 32, DType.INT64: 64,
    DType.UINT1: 1, DType.UINT2: 2, DType.UINT3: 3, DType.UINT4: 4, DType.UINT6: 6,
    DType.UINT8: 8, DType.UINT16: 16, DType.UINT32: 32, DType.UINT64: 64,
    DType.BOOL: 8, DType.STRING: 0,
}  # fmt: skip

_NUMPY: dict[DType, np.dtype[np.generic]] = {
    DType.FP16: np.dtype(np.float16), DType.FP32: np.dtype(np.float32), DType.FP64: np.dtype(np.float64),
    DType.INT8: np.dtype(np.int8), DType.INT16: np.dtype(np.int16), DType.INT32: np.dtype(np.int32),
    DType.INT64: np.dtype(np.int64), DType.UINT8: np.dtype(np.uint8), DType.UINT16: np.dtype(np.uint16),
    DType.UINT32: np.dtype(np.uint32), DType.UINT64: np.dtype(np.uint64), DType.BOOL: np.dtype(np.bool_),
    DType.STRING: np.dtype(object), DType.BF16: np.dtype(np.float32), DType.FP8_E4M3: np.dtype(np.float32),
    DType.FP8_E5M2: np.dtype(np.float32), DType.INT4: np.dtype(np.int8), DType.UINT1: np.dtype(np.uint8),
    DType.UINT2: np.dtype(np.uint8), DType.UINT3: np.dtype(np.uint8), DType.UINT4: np.dtype(np.uint8),
    DType.UINT6: np.dtype(np.uint8),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor. `shape` is `None` where not even the rank is known; `()` is a scalar."""

    dtype: DType
    shape: Shape | None

    @property
    def rank(self) -> int | None:
        """The number of dimensions, where known."""
        return None if self.shape is None else len(self.shape)

    @property
    def is_static(self) -> bool:
        """True where every dimension is known."""
        return self.shape is not None and None not in self.shape

    @property
    def elements(self) -> int | None:
        """The number of elements, where every dimension is known."""
        if self.shape is None:
            return None
        known = [d for d in self.shape if d is not None]
        return math.prod(known) if len(known) == len(self.shape) else None

    @property
    def nbytes(self) -> int | None:
        """Bytes that the tensor takes on the device, packed, where the shape is known."""
        return None if self.elements is None else (self.elements * self.dtype.bits + 7) // 8


@dataclass(frozen=True, slots=True)
class ListType:
    """A list of values of one type; `length` is `None` where it can grow."""

    element: ValueType
    length: int | None


@dataclass(frozen=True, slots=True)
class TupleType:
    """A tuple of values."""

    elements: tuple[ValueType, ...]


@dataclass(frozen=True, slots=True)
class DictType:
    """A dictionary."""

    key: ValueType
    value: ValueType


@dataclass(frozen=True, slots=True)
class StateType:
    """A value that keeps its content from one prediction to the next."""

    wrapped: ValueType


ValueType = TensorType | ListType | TupleType | DictType | StateType


@functools.lru_cache(maxsize=4096)
def describe_type(type_: ValueType) -> str:
    """One type as MIL text writes it: `tensor<fp16, [1, 3, ?, ?]>`, `state<tensor<fp16, [8]>>`."""
    match type_:
        case TensorType(dtype, None):
            return f"tensor<{dtype.value}, [...]>"
        case TensorType(dtype, shape):
            return f"tensor<{dtype.value}, [{', '.join('?' if d is None else str(d) for d in shape or ())}]>"
        case ListType(element, length):
            return f"list<{describe_type(element)}, {'?' if length is None else length}>"
        case TupleType(elements):
            return f"tuple<{', '.join(map(describe_type, elements))}>"
        case DictType(key, value):
            return f"dict<{describe_type(key)}, {describe_type(value)}>"
        case StateType(wrapped):
            return f"state<{describe_type(wrapped)}>"
