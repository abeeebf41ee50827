"""Constants: immediate values, and weights that are read lazily."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from coremlscope.base.arrays import np
from coremlscope.model.ir.types import DType, TensorType, ValueType

if TYPE_CHECKING:
    import numpy.typing as npt

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]
else:
    Array = Any


class DataSource(Protocol):
    """The source of a constant's elements. Nothing is read before `numpy()` is called."""

    @property
    def stored_bytes(self) -> int:
        """Size of the data in the file, in bytes (0 for derived data)."""

    @property
    def is_available(self) -> bool:
        """False if the file with the data is missing."""

    def numpy(self) -> Array:
        """Returns the unpacked elements in the tensor's shape. The array may be a read-only file mapping.

        Raises:
            MissingWeightsError: The file is missing or too short.
        """


class EncodedSource:
    """The base of sources that know how their elements are encoded."""

    __slots__ = ()

    @property
    def storage(self) -> str:
        """A description of the encoding: `fp16`, `LUT 4-bit`, `affine uint8`."""
        raise NotImplementedError


class Immediate(msgspec.Struct, frozen=True, eq=False):
    """Elements stored inline in the model file."""

    array: Array

    @property
    def stored_bytes(self) -> int:
        """Size of the elements in bytes."""
        return int(self.array.nbytes)

    @property
    def is_available(self) -> bool:
        """Always true."""
        return True

    def numpy(self) -> Array:
        """Returns the elements."""
        return self.array

    def __reduce__(self) -> tuple[Callable[..., Immediate], tuple[object, ...]]:
        """Pickles the elements as bytes, since NumPy takes long for small arrays."""
        array = self.array
        if array.dtype == object:
            return _immediate_objects, (array.shape, *array.ravel().tolist())
        if array.dtype.kind not in "biuf":
            return Immediate, (array,)
        return _immediate, (array.tobytes(), array.dtype.str, array.shape)


def _immediate(content: bytes, dtype: str, shape: tuple[int, ...]) -> Immediate:
    return Immediate(np.frombuffer(content, dtype).reshape(shape))


def _immediate_objects(shape: tuple[int, ...], *items: object) -> Immediate:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return Immediate(array.reshape(shape))


class Derived(msgspec.Struct, frozen=True, eq=False):
    """Elements computed on demand from other constants (a decompressed weight, a folded value).

    Attributes:
        compute: Returns the elements. It is called on every access; results are not cached.
        sources: The constants that `compute` reads. The data is available if all of them are.
        effort_bytes: The bytes that `compute` writes, those of derived constants that it reads included; 0 if
            it only writes the elements.
    """

    compute: Callable[[], Array]
    sources: tuple[Constant, ...] = ()
    effort_bytes: int = 0

    @property
    def stored_bytes(self) -> int:
        """0, because derived data is not in the file."""
        return 0

    @property
    def is_available(self) -> bool:
        """True if every source can be read."""
        return all(source.is_available for source in self.sources)

    def numpy(self) -> Array:
        """Computes and returns the elements."""
        return self.compute()


class Nested(msgspec.Struct, frozen=True, eq=False):
    """A constant list, tuple or dictionary.

    Attributes:
        items: The members; for a dictionary, alternating keys and values.
    """

    items: tuple[Constant, ...]

    @property
    def stored_bytes(self) -> int:
        """Total size of all members in bytes."""
        return sum(item.data.stored_bytes for item in self.items)

    @property
    def is_available(self) -> bool:
        """True if every member can be read."""
        return all(item.is_available for item in self.items)

    def numpy(self) -> Array:
        """Returns the members as a one-dimensional object array."""
        array = np.empty(len(self.items), dtype=object)
        for index, item in enumerate(self.items):
            array[index] = item.numpy()
        return array


class Constant(msgspec.Struct, frozen=True, eq=False):
    """A value known before run time.

    Equality compares type and content, regardless of where the content is stored.
    """

    type: ValueType
    data: DataSource

    @property
    def is_available(self) -> bool:
        """False if the content is in a weight file that is missing."""
        return self.data.is_available

    @property
    def is_weight(self) -> bool:
        """True for tensors in weight files, and for several floating-point numbers in the model file.

        Single numbers, and integers in the model file such as axes and indices, are settings of an operation.
        """
        if not isinstance(self.type, TensorType):
            return False
        is_inline = isinstance(self.data, Immediate)
        return not is_inline or (self.type.dtype.is_float and (self.type.elements or 0) >= 2)

    def numpy(self) -> Array:
        """Returns the content in the type's shape; see `DataSource.numpy`."""
        return self.data.numpy()

    def item(self) -> bool | int | float | str:
        """Returns the content of a one-element constant as a Python scalar."""
        if isinstance(self.data, Immediate) and self.data.array.size == 1:
            scalar: bool | int | float | str = self.data.array.item()
            return scalar
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
    """Creates an immediate constant from a Python scalar, string, list or NumPy array.

    Python floats become fp32 and Python ints int32, unless `dtype` is given.
    """
    array = np.asarray(value)
    if dtype is None:
        if array.dtype == np.float64 and not isinstance(value, (np.ndarray, np.generic)):
            array = array.astype(np.float32)
        elif array.dtype == np.int64 and not isinstance(value, (np.ndarray, np.generic)):
            array = array.astype(np.int32)
        dtype = DType.of(array.dtype)
    with np.errstate(over="ignore"):  # What the type cannot represent becomes infinite.
        array = array.astype(object if dtype is DType.STRING else dtype.numpy)
    return Constant(TensorType(dtype, tuple(array.shape)), Immediate(array))
