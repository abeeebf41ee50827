"""Conversion between packed elements in files and NumPy arrays.

Sub-byte integers are packed from the least significant bit up, across byte boundaries. 8- and 16-bit floats
that NumPy lacks are returned as float32.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from coremlscope.model import ir

#: Of the bit patterns of float32: all bits but the sign, and the pattern of infinity.
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)


def unpack(packed: bytes | memoryview, type_: ir.TensorType) -> ir.Array:
    """Unpacks the elements of a static tensor from exactly `type_.nbytes` bytes.

    If NumPy has the element type, the result is a read-only view of `packed`.

    Raises:
        ValueError: The number of bytes is wrong, the type is not static, or NumPy cannot hold the shape.
    """
    if type_.elements is None or len(packed) != type_.nbytes:
        raise ValueError(f"{len(packed)} bytes for {ir.describe_type(type_)}")
    dtype, shape = type_.dtype, type_.shape
    array: ir.Array
    match dtype:
        case ir.DType.BF16:
            array = _widen(np.frombuffer(packed, "<u2"))
        case ir.DType.FP8_E4M3 | ir.DType.FP8_E5M2:
            array = _float8_values(dtype)[np.frombuffer(packed, np.uint8)]
        case _ if dtype.bits < 8:
            array = _unpack_bits(np.frombuffer(packed, np.uint8), dtype, type_.elements)
        case _:
            array = np.frombuffer(packed, dtype.numpy.newbyteorder("<")).view(dtype.numpy)
    return array.reshape(shape)  # type: ignore[arg-type]


def pack(array: ir.Array, dtype: ir.DType) -> bytes:
    """Packs the elements of an array; exact for every array that `unpack` returns.

    Other values of bf16, fp8e4m3fn and fp8e5m2 are rounded towards zero: a finite value beyond the largest
    finite one becomes that one. Infinities stay infinite, except in fp8e4m3fn, which has none: there they
    become ±448. NaN stays NaN.
    """
    flat = np.ascontiguousarray(array, dtype.numpy).reshape(-1)
    match dtype:
        case ir.DType.BF16:
            return _pack_bf16(flat.view(np.uint32))
        case ir.DType.FP8_E4M3 | ir.DType.FP8_E5M2:
            return _pack_float8(flat.view(np.uint32), dtype)
        case _ if dtype.bits < 8:
            bits = np.unpackbits(flat.view(np.uint8)[:, None], axis=1, count=dtype.bits, bitorder="little")
            return np.packbits(bits.reshape(-1), bitorder="little").tobytes()
        case _:
            return flat.astype(dtype.numpy.newbyteorder("<"), copy=False).tobytes()


def _widen(halves: ir.Array) -> npt.NDArray[np.float32]:
    """Converts bfloat16 bit patterns, the upper halves of float32 ones, to float32."""
    wide: npt.NDArray[np.uint32] = halves.astype(np.uint32) << np.uint32(16)
    return wide.view(np.float32)


def _pack_bf16(bits: npt.NDArray[np.uint32]) -> bytes:
    """Packs float32 bit patterns as bfloat16: the upper half of each."""
    halves = bits >> np.uint32(16)
    # A NaN whose payload is all in the lower half would become an infinity.
    halves[((bits & _MAGNITUDE) > _INFINITY) & (halves << np.uint32(16) & _MAGNITUDE == _INFINITY)] |= 0x40
    return halves.astype("<u2").tobytes()


@functools.cache
def _float8_values(dtype: ir.DType) -> npt.NDArray[np.float32]:
    """Returns the value of each of the 256 codes of fp8e4m3fn or fp8e5m2.

    fp8e5m2 has the special values of IEEE 754. fp8e4m3fn has no infinities, and NaN only where exponent and
    mantissa are all ones. (Source: Micikevicius et al., FP8 Formats for Deep Learning, 2022.)
    """
    exponent_bits = 4 if dtype is ir.DType.FP8_E4M3 else 5
    mantissa_bits = 7 - exponent_bits
    bias = (1 << (exponent_bits - 1)) - 1
    codes = np.arange(256)
    exponent = (codes >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = codes & ((1 << mantissa_bits) - 1)
    fraction = mantissa / (1 << mantissa_bits)
    magnitude = np.where(
        exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * np.exp2(exponent - bias)
    )
    bits = magnitude.astype(np.float32).view(np.uint32)
    if dtype is ir.DType.FP8_E4M3:
        is_special = codes & 127 == 127
    else:
        is_special = exponent == (1 << exponent_bits) - 1
    payload = mantissa.astype(np.uint32) << np.uint32(23 - mantissa_bits)
    bits = np.where(is_special, _INFINITY | payload, bits)
    sign = (codes.astype(np.uint32) & np.uint32(128)) << np.uint32(24)
    return (bits | sign).view(np.float32)


def _pack_float8(bits: npt.NDArray[np.uint32], dtype: ir.DType) -> bytes:
    """Packs float32 bit patterns as 8-bit floats; positive floats have the order of their bit patterns."""
    values = _float8_values(dtype)[:128]
    magnitude = bits & _MAGNITUDE
    codes = np.searchsorted(values.view(np.uint32), magnitude, side="right") - 1
    first_nan = int(np.argmax(np.isnan(values)))
    # A NaN whose payload is below that of the first NaN code becomes the last one, a quiet NaN.
    codes = np.where((magnitude > _INFINITY) & (codes < first_nan), 127, codes)
    sign = bits >> np.uint32(24) & np.uint32(128)
    return (codes.astype(np.uint8) | sign.astype(np.uint8)).tobytes()


def _unpack_bits(packed: npt.NDArray[np.uint8], dtype: ir.DType, count: int) -> ir.Array:
    """Unpacks sub-byte integers to one per byte; extends the sign of signed ones."""
    width = dtype.bits
    if 8 % width == 0:
        shifts = np.arange(0, 8, width, dtype=np.uint8)
        values = ((packed[:, None] >> shifts) & np.uint8((1 << width) - 1)).reshape(-1)[:count]
    else:
        bits = np.unpackbits(packed, count=count * width, bitorder="little").reshape(count, width)
        values = np.packbits(bits, axis=1, bitorder="little")[:, 0]
    if dtype.numpy.kind == "i":
        sign = np.uint8(1 << (width - 1))
        return ((values ^ sign) - sign).view(np.int8)
    return values
