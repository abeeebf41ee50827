"""Weights of neural networks: `WeightParams` as constants that are decoded lazily."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from coremlscope.formats.neuralnetwork.builder import FLOAT, CannotTranslate
from coremlscope.model.ir import Array, Constant, DType, EncodedSource, TensorType
from coremlscope.model.schema import Message

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.integer[Any]]

#: Number of groups of eight codes that are unpacked at once, with 8 bytes of memory per code.
_GROUPS = 1 << 16


def read_weights(
    message: Message, shape: Sequence[int], channel_axis: int = 0, *, is_transposed: bool = False
) -> Constant:
    """Reads weights as a constant, which is decoded on access.

    Args:
        message: `WeightParams`.
        shape: The shape in which the weights are stored.
        channel_axis: The axis of quantisation parameters, if there are several.
        is_transposed: True to return a transposed matrix.

    Raises:
        CannotTranslate: The number of weights does not match the shape, or their encoding is undefined.
    """
    data = EncodedWeights(
        message=message,
        encoding=_encoding(message),
        shape=tuple(shape),
        channel_axis=channel_axis,
        is_transposed=is_transposed,
    )
    count, found = math.prod(shape), data.count()
    if count != found:
        listed = " x ".join(map(str, shape)) or "one"
        raise CannotTranslate(f"it has {found} weights instead of {count} ({listed})")
    data.check_channels()
    type_ = TensorType(data.dtype, tuple(shape[::-1] if is_transposed else shape))
    return Constant(type_, data)


def weight_values(message: Message) -> Array:
    """Returns all decoded weights, flattened, for translations that depend on them.

    Raises:
        CannotTranslate: The encoding is undefined.
    """
    encoding = _encoding(message)
    count = EncodedWeights(message=message, encoding=encoding, shape=()).count()
    return EncodedWeights(message=message, encoding=encoding, shape=(count,)).numpy()


def is_empty(message: Message) -> bool:
    """True if there are no weights."""
    return _encoding(message) == "floatValue" and not len(message.floatValue)


def _encoding(message: Message) -> str:
    """Returns the field with the weights. Dynamically quantised weights also set `quantization`."""
    for field in ("int8RawValue", "rawValue", "float16Value"):
        if len(getattr(message, field)):
            return field
    return "floatValue"


class EncodedWeights(EncodedSource, msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """The elements of `WeightParams`, as stored in the file.

    Attributes:
        message: The weights.
        encoding: The field with the weights.
        shape: The shape in which they are stored.
        channel_axis: The axis of quantisation parameters.
        is_transposed: True if `numpy` reverses the axes.
    """

    message: Message
    encoding: str
    shape: tuple[int, ...]
    channel_axis: int = 0
    is_transposed: bool = False

    @property
    def dtype(self) -> DType:
        """The type of decoded elements."""
        return DType.FP16 if self.encoding == "float16Value" else FLOAT

    @property
    def storage(self) -> str:
        """A description of the encoding: `fp16`, `LUT 4-bit`, `affine uint8`."""
        match self.encoding:
            case "floatValue":
                return DType.FP32.value
            case "float16Value":
                return DType.FP16.value
            case "int8RawValue":
                return "affine int8"
            case _ if self._is_looked_up:
                return f"LUT {self.bits}-bit"
            case _:
                return f"affine uint{self.bits}"

    @property
    def stored_bytes(self) -> int:
        """Size of the elements and their quantisation parameters in bytes."""
        m = self.message
        if self.encoding == "floatValue":
            return 4 * len(m.floatValue)
        if self.encoding == "float16Value":
            return len(m.float16Value)
        linear, table = m.quantization.linearQuantization, m.quantization.lookupTableQuantization
        parameter_count = len(linear.scale) + len(linear.bias) + len(table.floatValue)
        return len(getattr(m, self.encoding)) + 4 * parameter_count

    @property
    def is_available(self) -> bool:
        """Always true, because the weights are in the model file."""
        return True

    @property
    def bits(self) -> int:
        """Size of a stored element in bits."""
        if self.encoding == "rawValue":
            return int(self.message.quantization.numberOfBits)
        return {"floatValue": 32, "float16Value": 16, "int8RawValue": 8}[self.encoding]

    def numpy(self) -> Array:
        """Returns the decoded elements."""
        decoded = self._decoded().reshape(self.shape)
        return decoded.T if self.is_transposed else decoded

    def count(self) -> int:
        """The number of elements; for packed ones, that of the shape if it matches their size in bytes."""
        m = self.message
        match self.encoding:
            case "floatValue":
                return len(m.floatValue)
            case "float16Value":
                if len(m.float16Value) % 2:
                    raise CannotTranslate("its fp16 weights have an odd number of bytes")
                return len(m.float16Value) // 2
            case "int8RawValue":
                return len(m.int8RawValue)
            case _:
                self._check_quantization()
                wanted, size = math.prod(self.shape), len(m.rawValue)
                fits = self.shape and -(-wanted * self.bits // 8) == size
                return wanted if fits else 8 * size // self.bits

    def check_channels(self) -> None:
        """Checks that there is one quantisation parameter per channel, or a single one.

        Raises:
            CannotTranslate: The number of parameters is wrong.
        """
        if self.encoding not in ("rawValue", "int8RawValue") or self._is_looked_up:
            return
        linear = self.message.quantization.linearQuantization
        channels = self.shape[self.channel_axis] if self.shape else 1
        for given in (len(linear.scale), len(linear.bias)):
            if given not in (0, 1, channels):
                raise CannotTranslate(f"it has {given} quantisation parameters for {channels} channels")

    @property
    def _is_looked_up(self) -> bool:
        return bool(self.message.quantization.WhichOneof("QuantizationType") == "lookupTableQuantization")

    def _check_quantization(self) -> None:
        quantization, bits = self.message.quantization, self.bits
        kind = quantization.WhichOneof("QuantizationType")
        if kind is None or not 1 <= bits <= 8:
            raise CannotTranslate(f"the quantisation of its weights to {bits} bits is unknown")
        if kind == "lookupTableQuantization":
            entries = len(quantization.lookupTableQuantization.floatValue)
            if entries != 1 << bits:
                raise CannotTranslate(f"the look-up table of {bits}-bit weights has {entries} entries")

    def _decoded(self) -> Array:
        m = self.message
        match self.encoding:
            case "floatValue":
                return _float_values(m)
            case "float16Value":
                return np.frombuffer(m.float16Value, np.float16)
            case "int8RawValue":
                # Dynamically quantised weights have one scale and no bias.
                return self._linear(np.frombuffer(m.int8RawValue, np.int8), is_symmetric=True)
            case _:
                codes = unpack(m.rawValue, self.bits, math.prod(self.shape))
                if self._is_looked_up:
                    table = np.array(m.quantization.lookupTableQuantization.floatValue, np.float32)
                    return table[codes]
                return self._linear(codes, is_symmetric=False)

    def _linear(self, codes: Codes, *, is_symmetric: bool) -> Floats:
        linear = self.message.quantization.linearQuantization
        scale = np.array(linear.scale or [1.0], np.float32)
        bias = np.array([0.0] if is_symmetric or not linear.bias else linear.bias, np.float32)
        values = codes.astype(np.float32).reshape(self.shape)
        return np.asarray(values * self._along(scale) + self._along(bias), np.float32)

    def _along(self, parameters: Floats) -> Floats:
        if parameters.size == 1:
            return parameters.reshape(())
        rest = len(self.shape) - self.channel_axis - 1
        return parameters.reshape((parameters.size,) + (1,) * rest)


def unpack(data: bytes, bits: int, count: int) -> npt.NDArray[np.uint8]:
    """Unpacks codes of 1 to 8 bits to bytes. The first code is in the highest bits of the first byte."""
    array = np.frombuffer(data, np.uint8)
    if bits == 8:
        return array[:count]
    # Eight codes are a whole number of bytes.
    groups = -(-count // 8)
    padded = np.zeros((groups, bits), np.uint8)
    padded.reshape(-1)[: array.size] = array[: padded.size]
    codes = np.zeros((groups, 8), np.uint8)
    for start in range(0, groups, _GROUPS):
        part = slice(start, start + _GROUPS)
        flat = np.unpackbits(padded[part], axis=1).reshape(-1, 8, bits)
        for bit in range(bits):
            codes[part] = codes[part] << 1 | flat[:, :, bit]
    return codes.reshape(-1)[:count]


def _float_values(message: Message) -> Floats:
    """Returns the content of `floatValue`. Serialising the message is much faster than iterating over the
    field.

    The field is the first of the message, so the bytes start with it: a tag, its size, the floats.
    """
    size = 4 * len(message.floatValue)
    if not size:
        return np.zeros(0, np.float32)
    start = 1 + -(-size.bit_length() // 7)
    return np.frombuffer(message.SerializeToString()[start : start + size], np.float32)
