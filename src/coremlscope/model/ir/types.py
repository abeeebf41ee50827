"""Types of the values of programs, with Apple's MIL names."""

from __future__ import annotations

import enum
import functools
import math

import msgspec

from coremlscope.base.arrays import np

#: A tensor's shape. `None` is a dimension that is unknown before run time.
Shape = tuple[int | None, ...]


class DType(enum.Enum):
    """An element type. The value is its MIL name."""

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

    # Enumerations hash the names of their members in Python, which takes long for so common a key.
    __hash__ = object.__hash__

    @property
    def bits(self) -> int:
        """Size of an element in a weight file, in bits (strings: 0)."""
        return _BITS[self]

    @property
    def is_float(self) -> bool:
        """True for floating-point types."""
        return self in _FLOATS

    @property
    def is_int(self) -> bool:
        """True for signed and unsigned integers, including sub-byte ones; False for bool."""
        return self in _INTEGERS

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype of unpacked elements.

        Sub-byte integers are unpacked to one byte per element. 8- and 16-bit floats that NumPy lacks are
        converted to float32.
        """
        return _numpy()[self]

    @classmethod
    def of(cls, dtype: np.dtype[np.generic] | type[np.generic]) -> DType:
        """Returns the element type that corresponds to a NumPy dtype (float64 and int64 are kept).

        Raises:
            TypeError: NumPy's dtype has no counterpart.
        """
        kind = np.dtype(dtype)
        if kind.kind in "OUS":
            return cls.STRING
        for name, candidate in _numpy().items():
            if candidate == kind and name.bits == kind.itemsize * 8:
                return name
        if kind == np.dtype(np.bool_):
            return cls.BOOL
        raise TypeError(f"no MIL element type corresponds to NumPy's {kind}")


#: Size of an element in a weight file in bits, and the NumPy type of unpacked elements.
_STORAGE: dict[DType, tuple[int, str]] = {
    DType.FP16: (16, "float16"),
    DType.FP32: (32, "float32"),
    DType.FP64: (64, "float64"),
    DType.BF16: (16, "float32"),
    DType.FP8_E4M3: (8, "float32"),
    DType.FP8_E5M2: (8, "float32"),
    DType.INT4: (4, "int8"),
    DType.INT8: (8, "int8"),
    DType.INT16: (16, "int16"),
    DType.INT32: (32, "int32"),
    DType.INT64: (64, "int64"),
    DType.UINT1: (1, "uint8"),
    DType.UINT2: (2, "uint8"),
    DType.UINT3: (3, "uint8"),
    DType.UINT4: (4, "uint8"),
    DType.UINT6: (6, "uint8"),
    DType.UINT8: (8, "uint8"),
    DType.UINT16: (16, "uint16"),
    DType.UINT32: (32, "uint32"),
    DType.UINT64: (64, "uint64"),
    DType.BOOL: (8, "bool"),
    DType.STRING: (0, "object"),
}
_BITS = {dtype: bits for dtype, (bits, _) in _STORAGE.items()}
_FLOATS = frozenset(dtype for dtype in DType if dtype.value.startswith(("fp", "bf")))
_INTEGERS = frozenset(dtype for dtype in DType if "int" in dtype.value)


@functools.cache
def _numpy() -> dict[DType, np.dtype[np.generic]]:
    return {dtype: np.dtype(kind) for dtype, (_, kind) in _STORAGE.items()}


#: No index has more bits.
_MOST_ELEMENTS = 2**63 - 1


class TensorType(msgspec.Struct, frozen=True):
    """A tensor. `shape` is `None` if the rank is unknown; `()` is a scalar."""

    dtype: DType
    shape: Shape | None

    @property
    def rank(self) -> int | None:
        """The number of dimensions; None if unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def is_static(self) -> bool:
        """True if every dimension is known."""
        return self.shape is not None and None not in self.shape

    @property
    def elements(self) -> int | None:
        """The number of elements, at most 2^63 - 1; None if a dimension is unknown.

        Damaged files declare shapes whose product is too large for a float.
        """
        shape = self.shape
        if shape is None or None in shape:
            return None
        count = math.prod(shape)  # type: ignore[arg-type]
        return count if count < _MOST_ELEMENTS else _MOST_ELEMENTS

    @property
    def nbytes(self) -> int | None:
        """Size of the packed tensor in bytes; None if a dimension is unknown."""
        count = self.elements
        return None if count is None else (count * self.dtype.bits + 7) // 8


class ListType(msgspec.Struct, frozen=True):
    """A list of values of one type. `length` is `None` if the list can grow."""

    element: ValueType
    length: int | None


class TupleType(msgspec.Struct, frozen=True):
    """A tuple of values."""

    elements: tuple[ValueType, ...]


class DictType(msgspec.Struct, frozen=True):
    """A dictionary."""

    key: ValueType
    value: ValueType


class StateType(msgspec.Struct, frozen=True):
    """A value that keeps its content from one prediction to the next."""

    wrapped: ValueType


ValueType = TensorType | ListType | TupleType | DictType | StateType


@functools.lru_cache(maxsize=4096)
def describe_type(type_: ValueType) -> str:
    """Formats a type as in MIL text: `tensor<fp16, [1, 3, ?, ?]>`, `state<tensor<fp16, [8]>>`."""
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
