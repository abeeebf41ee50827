"""Weights of neural networks: `WeightParams` as constants that are decoded when they are read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from coremlscope.formats.neuralnetwork.builder import CannotTranslate
from coremlscope.formats.schema import Message
from coremlscope.ir import Array, Constant, DType, TensorType

__all__ = ["read_weights", "weight_values"]

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.integer[Any]]


def read_weights(message: Message, shape: Sequence[int], channel_axis: int = 0) -> Constant:
    """Weights as a constant; nothing is decoded before it is read.

    Args:
        message: `WeightParams`.
        shape: What shape they have.
        channel_axis: The axis that quantisation parameters go along, where there are several.

    Raises:
        CannotTranslate: They are not as many as the shape needs, or their encoding is not defined.
    """
    data = _Encoded(message, tuple(shape), channel_axis)
    count, held = math.prod(shape), data.count()
    if count != held:
        listed = " x ".join(map(str, shape)) or "one"
        raise CannotTranslate(f"{held} weights are given where {count} ({listed}) are needed")
    return Constant(TensorType(data.dtype, tuple(shape)), data)


def weight_values(message: Message) -> Array:
    """All weights in a row, decoded: for short ones that a translation looks at.

    Raises:
        CannotTranslate: Their encoding is not defined.
    """
    data = _Encoded(message, (), 0)
    return _Encoded(message, (data.count(),), 0).numpy()


@dataclass(frozen=True, slots=True, eq=False)
class _Encoded:
    """The elements of `WeightParams`."""

    message: Message
    shape: tuple[int, ...]
    channel_axis: int

    @property
    def dtype(self) -> DType:
        return DType.FP16 if self._field() == "float16Value" else DType.FP32

    @property
    def stored_bytes(self) -> int:
        m, field = self.message, self._field()
        if field == "floatValue":
            return 4 * len(m.floatValue)
        tables = m.quantization
        parameters = (tables.linearQuantization.scale, tables.linearQuantization.bias,
                      tables.lookupTableQuantization.floatValue)  # fmt: skip
        return len(getattr(m, field)) + (4 * sum(map(len, parameters)) if field != "float16Value" else 0)

    @property
    def is_available(self) -> bool:
        return True

    @property
    def bits(self) -> int:
        """Bits of each element as stored."""
        field = self._field()
        if field == "rawValue":
            return int(self.message.quantization.numberOfBits)
        return {"floatValue": 32, "float16Value": 16, "int8RawValue": 8}[field]

    def numpy(self) -> Array:
        match self._field():
            case "floatValue":
                return _float_values(self.message).reshape(self.shape)
            case "float16Value":
                return np.frombuffer(self.message.float16Value, np.float16).reshape(self.shape)
            case "int8RawValue":
                # Dynamically quantised: one scale, no bias.
                return self._linear(np.frombuffer(self.message.int8RawValue, np.int8), is_symmetric=True)
            case _:
                codes = unpack(self.message.rawValue, self.bits, math.prod(self.shape))
                if self.message.quantization.WhichOneof("QuantizationType") == "lookupTableQuantization":
                    table = np.array(self.message.quantization.lookupTableQuantization.floatValue, np.float32)
                    return table[codes].reshape(self.shape)
                return self._linear(codes, is_symmetric=False)

    def count(self) -> int:
        """How many elements there are, as far as `shape` lets it be told for packed ones."""
        m, field = self.message, self._field()
        match field:
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
                wanted = math.prod(self.shape)
                fits = self.shape and -(-wanted * self.bits // 8) == len(m.rawValue)
                return wanted if fits else 8 * len(m.rawValue) // self.bits

    def _field(self) -> str:
        m = self.message
        # Dynamically quantised weights say `quantization` as well.
        for field in ("int8RawValue", "rawValue", "float16Value"):
            if len(getattr(m, field)):
                return field
        return "floatValue"

    def _check_quantization(self) -> None:
        quantization, bits = self.message.quantization, self.bits
        kind = quantization.WhichOneof("QuantizationType")
        if kind is None or not 1 <= bits <= 8:
            raise CannotTranslate(f"its weights are quantised to {bits} bits in no known way")
        if kind == "lookupTableQuantization":
            entries = len(quantization.lookupTableQuantization.floatValue)
            if entries != 1 << bits:
                raise CannotTranslate(f"the look-up table of {bits}-bit weights has {entries} entries")

    def _linear(self, codes: Codes, *, is_symmetric: bool) -> Floats:
        linear = self.message.quantization.linearQuantization
        scale = np.array(linear.scale or [1.0], np.float32)
        bias = np.array([0.0] if is_symmetric or not linear.bias else linear.bias, np.float32)
        values = codes.astype(np.float32).reshape(self.shape)
        return np.asarray(values * self._along(scale) + self._along(bias), np.float32)

    def _along(self, parameters: Floats) -> Floats:
        if parameters.size == 1:
            return parameters.reshape(())
        channels = self.shape[self.channel_axis]
        if parameters.size != channels:
            raise CannotTranslate(
                f"{parameters.size} quantisation parameters are given for {channels} channels"
            )
        rest = len(self.shape) - self.channel_axis - 1
        return parameters.reshape((channels,) + (1,) * rest)


def unpack(data: bytes, bits: int, count: int) -> npt.NDArray[np.uint8]:
    """Codes of 1 to 8 bits as bytes; the first code is in the highest bits of the first byte."""
    array = np.frombuffer(data, np.uint8)
    if bits == 8:
        return array[:count]
    flat = np.unpackbits(array)[: count * bits].reshape(count, bits)
    weights = (1 << np.arange(bits - 1, -1, -1)).astype(np.uint8)
    return np.asarray((flat * weights).sum(axis=1), np.uint8)


def _float_values(message: Message) -> Floats:
    """The content of `floatValue`: serialising copies it whole, which is fast; iterating is not.

    The field is the message's first, so that its bytes come first: a tag, their number, the floats.
    """
    size = 4 * len(message.floatValue)
    if not size:
        return np.zeros(0, np.float32)
    start = 1 + -(-size.bit_length() // 7)
    return np.frombuffer(message.SerializeToString()[start : start + size], np.float32)
