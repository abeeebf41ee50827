"""Weights of compiled networks: constants that are decoded from blobs on access.

Weights are stored as fp32, as fp16, or as bytes with two parameters per output channel: `W_U8` has a scale
and a summand, and `quantization_lut_weights_blob` the values of the lowest and the highest code, first those
of all channels' lowest codes. (Source: published networks and the readers that were checked against Apple's
runtime on them.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from coremlscope.formats.espresso.attributes import CompiledLayer
from coremlscope.formats.espresso.blobs import BlobFile, BlobRange
from coremlscope.formats.espresso.translation import Translation
from coremlscope.formats.neuralnetwork.builder import CannotTranslate
from coremlscope.model.ir import Array, Constant, DType, EncodedSource, TensorType

_FP32: np.dtype[Any] = np.dtype("<f4")
_FP16: np.dtype[Any] = np.dtype("<f2")
_BYTES: np.dtype[Any] = np.dtype("u1")
_LARGEST_CODE = 255
#: Attributes with the number of the blob of weights, and the element type of the blob.
_PLAIN: dict[str, np.dtype[Any]] = {"blob_weights": _FP32, "blob_weights_f16": _FP16}
_CODES, _RANGES = "quantization_lut_weights_blob", "quantization_ranges_blob"
_AFFINE = {"W_U8", "per_ch_qscale", "per_ch_qbias"}


class CompiledWeights(EncodedSource, msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The elements of a blob.

    Attributes:
        blob: The bytes.
        stored: The type of the stored elements.
        shape: The shape.
        parameters: For quantised weights, the two parameters per channel; empty for others.
        are_ranges: True if the parameters are the values of the lowest and highest code; False if they are a
            scale and a summand.
    """

    blob: BlobRange
    stored: np.dtype[Any]
    shape: tuple[int, ...]
    parameters: tuple[Constant, ...] = ()
    are_ranges: bool = False

    @property
    def dtype(self) -> DType:
        """The type of decoded elements."""
        return DType.FP16 if self.stored == _FP16 else DType.FP32

    @property
    def storage(self) -> str:
        """A description of the encoding: `fp16`, `affine uint8`."""
        return "affine uint8" if self.parameters else self.dtype.value

    @property
    def stored_bytes(self) -> int:
        """Size of the elements and their parameters in bytes."""
        own = math.prod(self.shape) * self.stored.itemsize
        return own + sum(constant.data.stored_bytes for constant in self.parameters)

    @property
    def is_available(self) -> bool:
        """False if the weight file is missing."""
        return self.blob.is_available

    def numpy(self) -> Array:
        """Returns the decoded elements.

        Raises:
            MissingWeightsError: The weight file is missing or too short.
        """
        count = math.prod(self.shape)
        elements = np.frombuffer(self.blob.read(), self.stored, count).reshape(self.shape)
        if not self.parameters:
            return elements
        along = (-1,) + (1,) * (len(self.shape) - 1)
        first, second = (constant.numpy().reshape(along).astype(np.float32) for constant in self.parameters)
        codes = elements.astype(np.float32)
        if self.are_ranges:
            return np.asarray(first + codes * ((second - first) / np.float32(_LARGEST_CODE)), np.float32)
        return np.asarray(codes * first + second, np.float32)


class UnknownWeights(EncodedSource, msgspec.Struct, frozen=True, eq=False):
    """Weights whose encoding is unknown, so that only their shape is.

    Attributes:
        shape: The shape.
        stored_bytes: Size of their blobs in bytes.
    """

    shape: tuple[int, ...]
    stored_bytes: int

    @property
    def storage(self) -> str:
        """A description of the encoding."""
        return "unknown encoding"

    @property
    def is_available(self) -> bool:
        """Always true: no other file would help."""
        return True

    def numpy(self) -> Array:
        """Returns NaNs. The layer cannot be run."""
        return np.broadcast_to(np.float32(np.nan), self.shape)


def has_weights(t: Translation) -> bool:
    """True if a layer has a blob of weights in any encoding."""
    return bool(t.layer.weights) or any(key in t.layer.attributes for key in (*_PLAIN, _CODES))


def read_weights(t: Translation, shape: Sequence[int]) -> Constant:
    """Reads the weights of a layer as a constant. If their encoding is unknown, the layer is doubted.

    Args:
        t: The layer.
        shape: The shape of the weights. Quantised ones have parameters along the first axis.

    Raises:
        CannotTranslate: There are no weights, or their number is wrong.
    """
    attributes, roles = t.layer.attributes, set(t.layer.weights)
    given = [name for name in _PLAIN if name in attributes]
    if len(given) == 1 and not roles:
        return _plain(t, attributes[given[0]], shape, _PLAIN[given[0]])
    if not given and _CODES in attributes and _RANGES in attributes and not roles:
        ends = read_floats(t, attributes[_RANGES], (2, shape[0]))
        parameters = (_row(ends, 0), _row(ends, 1))
        return _quantised(t, attributes[_CODES], shape, parameters, are_ranges=True)
    if not given and roles == _AFFINE:
        names = ("per_ch_qscale", "per_ch_qbias")
        scale, bias = (read_floats(t, t.layer.weights[name], (shape[0],)) for name in names)
        return _quantised(t, t.layer.weights["W_U8"], shape, (scale, bias), are_ranges=False)
    if not given and not roles and _CODES not in attributes:
        raise CannotTranslate("it has no weights")
    return _doubted(t, shape)


def _doubted(t: Translation, shape: Sequence[int]) -> Constant:
    """Doubts a layer with weights whose encoding is unknown."""
    attributes = t.layer.attributes
    numbers = {
        **t.layer.weights,
        **{k: attributes[k] for k in (*_PLAIN, _CODES, _RANGES) if k in attributes},
    }
    t.doubt_weights(f"the encoding of its weights ({', '.join(sorted(numbers))}) is unknown")
    blobs = [t.blobs.find(number) for number in numbers.values() if isinstance(number, int)]
    return _unknown(shape, sum(blob.size or 0 for blob in blobs if blob is not None))


def read_bias(t: Translation, channels: int) -> Constant | None:
    """Reads the summand per output channel; None if there is none.

    Raises:
        CannotTranslate: The blob is missing, or its size is wrong.
    """
    number = t.layer.attributes.get("blob_biases")
    if "has_biases" in t.layer.attributes and not t.layer.flag("has_biases"):
        return None
    if number is None:
        if t.layer.flag("has_biases"):
            raise CannotTranslate("it has biases, but no blob with them")
        return None
    return read_floats(t, number, (channels,))


def read_floats(t: Translation, number: object, shape: Sequence[int]) -> Constant:
    """Reads a blob of fp32 numbers. If it is missing, or its size is wrong, the layer is doubted."""
    return _plain(t, number, shape, _FP32)


def read_columns(t: Translation, number: object, rows: int, count: int) -> list[Constant]:
    """Reads a blob of fp32 numbers whose rows have `count` numbers, and returns one constant per column."""
    table = read_floats(t, number, (rows, count))
    return [_column(table, index) for index in range(count)]


def _plain(t: Translation, number: object, shape: Sequence[int], stored: np.dtype[Any]) -> Constant:
    blob = _blob(t, number, shape, stored)
    if blob is None:
        return _unknown(shape, math.prod(shape) * stored.itemsize)
    data = CompiledWeights(blob=blob, stored=stored, shape=tuple(shape))
    return Constant(TensorType(data.dtype, data.shape), data)


def unknown_blobs(layer: CompiledLayer, blobs: BlobFile) -> list[Constant]:
    """Returns the blobs that a layer without a translation names, as fp32 numbers of unknown meaning."""
    attributes = {key: number for key, number in layer.attributes.items() if "blob" in key}
    numbers = [number for number in (*attributes.values(), *layer.weights.values()) if type(number) is int]
    found = [blobs.find(number) for number in dict.fromkeys(numbers)]
    sizes = [blob.size for blob in found if blob is not None and blob.size]
    return [_unknown((size // _FP32.itemsize,), size) for size in sizes]


def _unknown(shape: Sequence[int], stored_bytes: int) -> Constant:
    data = UnknownWeights(tuple(shape), stored_bytes)
    return Constant(TensorType(DType.FP32, data.shape), data)


def _quantised(
    t: Translation,
    number: object,
    shape: Sequence[int],
    parameters: tuple[Constant, ...],
    *,
    are_ranges: bool,
) -> Constant:
    blob = _blob(t, number, shape, _BYTES)
    if blob is None:
        return _unknown(shape, math.prod(shape))
    data = CompiledWeights(
        blob=blob,
        stored=_BYTES,
        shape=tuple(shape),
        parameters=parameters,
        are_ranges=are_ranges,
    )
    return Constant(TensorType(data.dtype, data.shape), data)


def _blob(t: Translation, number: object, shape: Sequence[int], stored: np.dtype[Any]) -> BlobRange | None:
    """Returns the bytes of weights; None, with a doubt about the layer, if they are not those that it needs.

    The layer can then not be run, but its type and shape are known, so that it can be planned. Weights that
    are in no blob are missing like those of an absent file.
    """
    if not isinstance(number, int):
        t.doubt_weights(f"the number of one of its blobs is {number!r:.40}")
        return None
    blob = t.blobs.find(number)
    if blob is None:
        t.doubt_weights(f"its blob {number} is not in the weight file")
        return None
    wanted = math.prod(shape) * stored.itemsize
    if blob.size is None or blob.size == wanted:
        return blob
    if blob.size > wanted and not any(blob.read()[wanted:]):  # The oldest compilers wrote zeros after biases.
        return replace(blob, size=wanted)
    listed = " x ".join(map(str, shape)) or "one"
    t.doubt_weights(
        f"its blob {number} has {blob.size} bytes instead of {wanted} ({listed} elements of "
        f"{stored.itemsize} bytes)"
    )
    return None


class _Part(msgspec.Struct, frozen=True, eq=False):
    """A row or a column of a table of numbers."""

    table: Constant
    index: int
    axis: int

    @property
    def stored_bytes(self) -> int:
        """Size of the numbers in bytes."""
        assert isinstance(self.table.data, CompiledWeights)
        shape = self.table.data.shape
        return self.table.data.stored_bytes // max(shape[self.axis], 1)

    @property
    def is_available(self) -> bool:
        """False if the weight file is missing."""
        return self.table.is_available

    def numpy(self) -> Array:
        """Returns the numbers; see `CompiledWeights.numpy`."""
        return np.asarray(self.table.numpy().take(self.index, self.axis))


def _row(table: Constant, index: int) -> Constant:
    return _part(table, index, 0)


def _column(table: Constant, index: int) -> Constant:
    return _part(table, index, 1)


def _part(table: Constant, index: int, axis: int) -> Constant:
    if isinstance(table.data, UnknownWeights):
        return _unknown(
            (table.data.shape[1 - axis],), table.data.stored_bytes // max(table.data.shape[axis], 1)
        )
    assert isinstance(table.data, CompiledWeights)
    length = table.data.shape[1 - axis]
    return Constant(TensorType(DType.FP32, (length,)), _Part(table, index, axis))
