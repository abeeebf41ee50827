"""Constants: immediate values and lazily read weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from coremlscope.ir.types import DType, TensorType, ValueType

__all__ = ["Array", "Constant", "DataSource", "Derived", "Immediate", "Nested", "constant"]

Array = npt.NDArray[np.generic]


class DataSource(Protocol):
    """Where a constant's elements come from. Nothing is read before `numpy()`."""

    @property
    def stored_bytes(self) -> int:
        """Bytes that the data takes in the file (0 for derived data)."""

    @property
    def is_available(self) -> bool:
        """False where the file that should hold the data is absent."""

    def numpy(self) -> Array:
        """The elements, unpacked, in the tensor's shape. The array may be a read-only file mapping.

        Raises:
            MissingWeightsError: The file is absent or too short.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Immediate:
    """Elements kept inline in the model file."""

    array: Array

    @property
    def stored_bytes(self) -> int:
        """Bytes that the elements take inline."""
        return int(self.array.nbytes)

    @property
    def is_available(self) -> bool:
        """Always true."""
        return True

    def numpy(self) -> Array:
        """The elements."""
        return self.array


@dataclass(frozen=True, slots=True, eq=False)
class Derived:
    """Elements computed on demand from other constants (a decompressed weight, a folded value).

    Attributes:
        compute: Returns the elements; called anew each time, so callers keep what they need.
        sources: The constants that `compute` reads; availability follows them.
    """

    compute: Callable[[], Array]
    sources: tuple[Constant, ...] = ()

    @property
    def stored_bytes(self) -> int:
        """Derived data is not in the file."""
        return 0

    @property
    def is_available(self) -> bool:
        """True where every source can be read."""
        return all(source.is_available for source in self.sources)

    def numpy(self) -> Array:
        """Computes the elements."""
        return self.compute()


@dataclass(frozen=True, slots=True, eq=False)
class Nested:
    """A constant list, tuple or dictionary.

    Attributes:
        items: The members; of a dictionary, keys and values in turn.
    """

    items: tuple[Constant, ...]

    @property
    def stored_bytes(self) -> int:
        """Bytes of all members."""
        return sum(item.data.stored_bytes for item in self.items)

    @property
    def is_available(self) -> bool:
        """True where every member can be read."""
        return all(item.is_available for item in self.items)

    def numpy(self) -> Array:
        """The members as a one-dimensional object array."""
        array = np.empty(len(self.items), dtype=object)
        for index, item in enumerate(self.items):
            array[index] = item.numpy()
        return array


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A value known before run time.

    Equality compares type and content, wherever the content is kept.
    """

    type: ValueType
    data: DataSource

    @property
    def is_available(self) -> bool:
        """False where the content lies in a weight file that is absent."""
        return self.data.is_available

    def numpy(self) -> Array:
        """The content in the type's shape; see `DataSource.numpy`."""
        return self.data.numpy()

    def item(self) -> bool | int | float | str:
        """The content of a one-element constant as a Python scalar."""
        value = self.data.numpy().reshape(-1)[0]
        return value if isinstance(value, str) else value.item()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constant) or self.type != other.type:
            return False
        if isinstance(self.data, Nested) and isinstance(other.data, Nested):
            return self.data.items == other.data.items
        if self.is_available != other.is_available:
            return False
        if not self.is_available:
            return True
        mine, theirs = self.numpy(), other.numpy()
        if mine.dtype == object or theirs.dtype == object:
            return bool(mine.tolist() == theirs.tolist())
        return mine.shape == theirs.shape and mine.tobytes() == theirs.tobytes()

    def __hash__(self) -> int:
        return hash(self.type)


def constant(value: object, dtype: DType | None = None) -> Constant:
    """An immediate constant from a Python scalar, string, list or NumPy array.

    Python floats become fp32 and Python ints int32 unless `dtype` says otherwise.
    """
    array = np.asarray(value)
    if dtype is None:
        if array.dtype == np.float64 and not isinstance(value, (np.ndarray, np.generic)):
            array = array.astype(np.float32)
        elif array.dtype == np.int64 and not isinstance(value, (np.ndarray, np.generic)):
            array = array.astype(np.int32)
        dtype = DType.of(array.dtype)
    array = array.astype(object if dtype is DType.STRING else dtype.numpy)
    return Constant(TensorType(dtype, tuple(array.shape)), Immediate(array))
