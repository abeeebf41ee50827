"""Elements as the files pack them, to and from NumPy arrays.

Sub-byte integers are packed from the least significant bit up, across byte borders. The 8- and 16-bit floats
that NumPy lacks are handed out as float32.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from coremlscope import ir

__all__ = ["pack", "unpack"]


def unpack(packed: bytes | memoryview, type_: ir.TensorType) -> ir.Array:
    """The elements of a static tensor from exactly `type_.nbytes` bytes.

    Where NumPy has the element type the result is a read-only view of `packed`.

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
        case ir.DType.FP8_E5M2:
            high = np.frombuffer(packed, np.uint8).astype(np.uint16) << np.uint16(8)
            array = high.view(np.float16).astype(np.float32)
        case ir.DType.FP8_E4M3:
            array = _e4m3_values()[np.frombuffer(packed, np.uint8)]
        case _ if dtype.bits < 8:
            array = _unpack_bits(np.frombuffer(packed, np.uint8), dtype, type_.elements)
        case _:
            array = np.frombuffer(packed, dtype.numpy.newbyteorder("<")).view(dtype.numpy)
    return array.reshape(shape)  # type: ignore[arg-type]


def pack(array: ir.Array, dtype: ir.DType) -> bytes:
    """The inverse of `unpack`; exact for every array that `unpack` can give.

    Floats outside of what an 8- or 16-bit type can hold are rounded towards zero.
    """
    flat = np.ascontiguousarray(array, dtype.numpy).reshape(-1)
    match dtype:
        case ir.DType.BF16:
            return (flat.view(np.uint32) >> np.uint32(16)).astype("<u2").tobytes()
        case ir.DType.FP8_E5M2:
            return (flat.astype(np.float16).view(np.uint16) >> np.uint16(8)).astype(np.uint8).tobytes()
        case ir.DType.FP8_E4M3:
            return _pack_e4m3(flat.view(np.uint32))
        case _ if dtype.bits < 8:
            bits = np.unpackbits(flat.view(np.uint8)[:, None], axis=1, count=dtype.bits, bitorder="little")
            return np.packbits(bits.reshape(-1), bitorder="little").tobytes()
        case _:
            return flat.astype(dtype.numpy.newbyteorder("<"), copy=False).tobytes()


def _widen(halves: ir.Array) -> npt.NDArray[np.float32]:
    """bfloat16 bit patterns as float32: the upper half of it."""
    wide: npt.NDArray[np.uint32] = halves.astype(np.uint32) << np.uint32(16)
    return wide.view(np.float32)


@functools.cache
def _e4m3_values() -> npt.NDArray[np.float32]:
    """The 256 values of fp8e4m3fn: bias 7, no infinities, NaN where exponent and mantissa are all ones."""
    code = np.arange(256)
    exponent, mantissa = (code >> 3) & 15, code & 7
    normal = (1 + mantissa / 8) * np.exp2(exponent - 7.0)
    magnitude = np.where(exponent == 0, mantissa / 8 * 2.0**-6, normal)
    magnitude[code & 127 == 127] = np.nan
    values: npt.NDArray[np.float64] = np.copysign(magnitude, np.where(code & 128, -1.0, 1.0))
    return values.astype(np.float32)


def _pack_e4m3(bits: npt.NDArray[np.uint32]) -> bytes:
    """float32 bit patterns to fp8e4m3fn codes; positive floats are ordered as their bit patterns are."""
    table = _e4m3_values()[:128].view(np.uint32)
    magnitude = bits & np.uint32(0x7FFFFFFF)
    codes = (np.searchsorted(table, magnitude, side="right") - 1).astype(np.uint8)
    codes[magnitude > 0x7F800000] = 127
    return (codes | (bits >> np.uint32(24) & np.uint32(128)).astype(np.uint8)).tobytes()


def _unpack_bits(packed: npt.NDArray[np.uint8], dtype: ir.DType, count: int) -> ir.Array:
    """Sub-byte integers one a byte; signed ones get their sign extended."""
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
