"""Compressed weights, unpacked before run time, and quantization at run time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from coremlscope.base.arrays import np
from coremlscope.model.ir import Array, Constant, DType, Shape, TensorType, ValueType
from coremlscope.ops.emit import F32, I32, Lowering, Tensor
from coremlscope.ops.folding import fold_constexpr, folding
from coremlscope.ops.infer import normal_axis
from coremlscope.ops.spec import OpSpec, Work, bytes_of, moved
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotInfer, CannotLower, OpView

# Arguments: attributes of the operation up to iOS 17, inputs from iOS 18 on.


def _find(view: OpView, name: str) -> Constant | None:
    given = view.op.attributes.get(name)
    if given is not None:
        return given
    return view.bound(name).constant if view.has(name) else None


def _constant(view: OpView, name: str) -> Constant:
    constant = _find(view, name)
    if constant is None:
        raise CannotInfer(f"parameter `{name}` is missing or not constant")
    return constant


def _type(view: OpView, name: str) -> TensorType:
    given = view.op.attributes.get(name)
    type_ = given.type if given is not None else view.type(name)
    if not isinstance(type_, TensorType):
        raise CannotInfer(f"parameter `{name}` is not a tensor")
    return type_


def _dims(view: OpView, name: str) -> tuple[int, ...]:
    shape = _type(view, name).shape
    if shape is None or None in shape:
        raise CannotInfer(f"the shape of `{name}` is not known")
    return tuple(d or 0 for d in shape)


def _has(view: OpView, name: str) -> bool:
    return name in view.op.attributes or view.has(name)


def _array(view: OpView, name: str) -> Any:
    return _constant(view, name).numpy()


def _integer(view: OpView, name: str) -> int:
    return int(_array(view, name).reshape(-1)[0])


def _constexpr_work(view: OpView) -> Work:
    """The packed bytes, which a device reads; this runtime unpacks them before run time."""
    total = Work()
    for type_ in [b.type for given in view.inputs.values() for b in given] + [
        constant.type for name, constant in view.op.attributes.items() if name != "name"
    ]:
        size, known = bytes_of(type_)
        total += Work(flops=0, read_bytes=size, weight_bytes=size, written_bytes=0, is_complete=known)
    return total


def _never_lowered(op: Lowering) -> Tensor:
    constants = [bound.constant for given in op.view.inputs.values() for bound in given]
    if None in constants:
        raise CannotLower("its arguments are not all constants")
    raise CannotLower("its result takes more memory than the size of the model allows")


# Affine


def _check_along_axis(shape: Shape | None, axis: int, parameter: TensorType, name: str) -> None:
    """Checks that a parameter holds one element, or one for each element of an axis."""
    if parameter.elements in (None, 1) or shape is None:
        return
    length = shape[normal_axis(axis, len(shape))]
    if length is not None and parameter.elements != length:
        raise CannotInfer(f"`{name}` has {parameter.elements} elements for an axis of {length}")


def _infer_affine(view: OpView) -> Sequence[ValueType]:
    shape, axis = _type(view, "quantized_data").shape, _integer(view, "axis")
    for name in ("scale", "zero_point"):
        _check_along_axis(shape, axis, _type(view, name), name)
    return [TensorType(_type(view, "scale").dtype, _type(view, "quantized_data").shape)]


def _along_axis(parameter: Array, rank: int, axis: int) -> Any:
    """A vector reshaped to broadcast along `axis`; a scalar unchanged."""
    if parameter.size == 1:
        return parameter.reshape(())
    return parameter.reshape([-1 if i == axis % rank else 1 for i in range(rank)])


def _unpack_affine(view: OpView) -> Any:
    data, axis = _array(view, "quantized_data"), _integer(view, "axis")
    scale, zero = (
        _along_axis(_array(view, name).astype(np.float32), data.ndim, axis)
        for name in ("scale", "zero_point")
    )
    return (data.astype(np.float32) - zero) * scale


def _blocks(array: Array, counts: Sequence[int]) -> Any:
    """Each axis split into `counts` blocks, as axes block, element, block, element, …"""
    dims = []
    for length, count in zip(array.shape, counts, strict=True):
        dims += [count, length // count]
    return array.reshape(dims)


def _shift_scale(data: Array, scale: Array, offset: Array | None) -> Any:
    """`scale · (data − offset)`, each scale for a block of the data."""
    result = _blocks(data.astype(np.float32), scale.shape)
    spread = [d for length in scale.shape for d in (length, 1)]
    if offset is not None:
        result = result - offset.astype(np.float32).reshape(spread)
    return (result * scale.astype(np.float32).reshape(spread)).reshape(data.shape)


def _check_blocks(dims: Sequence[int], parameter: Sequence[int], name: str) -> None:
    if len(dims) != len(parameter) or any(b < 1 or d % b for d, b in zip(dims, parameter, strict=False)):
        raise CannotInfer(f"`{name}` of shape {list(parameter)} does not divide data of shape {list(dims)}")


def _optional(view: OpView, name: str) -> Array | None:
    return _array(view, name) if _has(view, name) else None


def _check_offset(view: OpView) -> None:
    scale = _dims(view, "scale")
    if _has(view, "offset") and math.prod(_dims(view, "offset")) != math.prod(scale):
        raise CannotInfer(
            f"`offset` of shape {list(_dims(view, 'offset'))} for scales of shape {list(scale)}"
        )


def _infer_blockwise(view: OpView) -> Sequence[ValueType]:
    _check_blocks(_dims(view, "data"), _dims(view, "scale"), "scale")
    _check_offset(view)
    return [TensorType(_type(view, "scale").dtype, _dims(view, "data"))]


def _unpack_blockwise(view: OpView) -> Any:
    return _shift_scale(_array(view, "data"), _array(view, "scale"), _optional(view, "offset"))


# Look-up tables


def _unpack_bits(packed: Array, bits: int, count: int) -> Any:
    """Elements of `bits` bits each, packed from the least significant bit on."""
    data: Any = packed.astype(np.uint8, copy=False).reshape(-1)
    if bits == 8:
        return data[:count]
    if 8 % bits == 0:
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        return ((data[:, None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(-1)[:count]
    # Elements that cross byte boundaries: read the fewest bytes that hold a whole number of them.
    group = math.lcm(bits, 8) // 8
    data = np.pad(data, (0, -len(data) % group)).reshape(-1, group)
    word = sum(data[:, i].astype(np.uint64) << np.uint64(8 * i) for i in range(group))
    shifts64 = np.arange(0, group * 8, bits, dtype=np.uint64)
    mask = np.uint64((1 << bits) - 1)
    return ((np.asarray(word)[:, None] >> shifts64) & mask).astype(np.uint8).reshape(-1)[:count]


def _target_shape(view: OpView) -> tuple[int, ...]:
    """The shape that the iOS 16 form gives as a parameter."""
    shape = tuple(int(v) for v in _array(view, "shape").reshape(-1))
    if any(size < 0 for size in shape):
        raise CannotInfer(f"a shape of {list(shape)}")
    return shape


def _palette_bits(view: OpView) -> int:
    """The size in bits of the indices of the iOS 16 form, which follows from that of the table."""
    length = math.prod(_dims(view, "lut"))
    bits = length.bit_length() - 1
    if length != 1 << bits or not 1 <= bits <= 8:
        raise CannotInfer(f"a table of {length} elements, which is not a power of two between 2 and 256")
    return bits


def _check_packed(view: OpView, name: str, bits: int, shape: Sequence[int]) -> None:
    """Checks that packed data holds elements of `bits` bits for a whole shape."""
    stored, wanted = math.prod(_dims(view, name)), (math.prod(shape) * bits + 7) // 8
    if stored < wanted:
        raise CannotInfer(f"`{name}` has {stored} bytes, but the shape {list(shape)} takes {wanted}")


def _infer_lut(view: OpView) -> Sequence[ValueType]:
    dtype = _type(view, "lut").dtype
    if _has(view, "shape"):
        shape = _target_shape(view)
        _check_packed(view, "indices", _palette_bits(view), shape)
        return [TensorType(dtype, shape)]
    return [TensorType(dtype, _with_vectors(view, _dims(view, "indices")))]


def _with_vectors(view: OpView, dims: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the unpacked weight: that of the indices, longer along the axis of vectors."""
    lut = _dims(view, "lut")
    if len(lut) != len(dims) + 2:
        raise CannotInfer(f"a table of rank {len(lut)} for indices of rank {len(dims)}")
    _check_blocks(dims, lut[:-2], "lut")
    _check_table(view, lut[-2])
    if lut[-1] == 1:
        return dims
    axis = normal_axis(_integer(view, "vector_axis"), len(dims))
    return tuple(d * lut[-1] if i == axis else d for i, d in enumerate(dims))


def _check_table(view: OpView, length: int) -> None:
    """Checks that a table has an element for each index that its type can hold."""
    indices = _type(view, "indices" if _has(view, "indices") else "indices_nonzero_data").dtype
    if not indices.is_int or indices.bits > 8 or length < 1 << indices.bits:
        raise CannotInfer(f"a table of {length} elements for indices of type {indices.value}")


def _look_up(indices: Array, lut: Array, axis: int) -> Any:
    """Elements or vectors of look-up tables, one table per block of indices (the first axes of `lut`)."""
    tables = lut.reshape(-1, *lut.shape[-2:])
    counts = lut.shape[:-2]
    rank = indices.ndim
    numbers = np.arange(len(tables)).reshape([d for count in counts for d in (count, 1)])
    vectors = tables[numbers, _blocks(indices, counts)].reshape(*indices.shape, lut.shape[-1])
    if lut.shape[-1] == 1:
        return vectors[..., 0]
    moved = np.moveaxis(vectors, -1, axis % rank + 1)
    return moved.reshape([d * lut.shape[-1] if i == axis % rank else d for i, d in enumerate(indices.shape)])


def _unpack_lut(view: OpView) -> Any:
    lut, indices = _array(view, "lut"), _array(view, "indices")
    if _has(view, "shape"):
        shape = _target_shape(view)
        indices = _unpack_bits(indices, _palette_bits(view), math.prod(shape))
        return lut.reshape(-1)[indices].reshape(shape)
    return _look_up(indices, lut, _vector_axis(view))


def _vector_axis(view: OpView) -> int:
    return _integer(view, "vector_axis") if _has(view, "vector_axis") else 0


# Sparse weights


def _scatter_dense(mask: Array, nonzero: Array) -> Array:
    dense = np.zeros(mask.shape, nonzero.dtype)
    is_stored = mask != 0
    count = int(np.count_nonzero(is_stored))
    if count != nonzero.size:
        raise ValueError(f"a mask of {count} nonzero elements for {nonzero.size} stored elements")
    dense[is_stored] = nonzero.reshape(-1)
    return dense


def _check_stored(view: OpView, name: str, dims: Sequence[int]) -> None:
    """Checks that there are no more stored elements than elements."""
    stored = math.prod(_dims(view, name))
    if stored > math.prod(dims):
        raise CannotInfer(f"`{name}` has {stored} elements, but the shape {list(dims)} has {math.prod(dims)}")


def _infer_sparse(view: OpView) -> Sequence[ValueType]:
    if _has(view, "shape"):
        shape = _target_shape(view)
        _check_packed(view, "mask", 1, shape)
    else:
        shape = _dims(view, "mask")
    _check_stored(view, "nonzero_data", shape)
    return [TensorType(_type(view, "nonzero_data").dtype, shape)]


def _unpack_sparse(view: OpView) -> Array:
    mask, nonzero = _array(view, "mask"), _array(view, "nonzero_data")
    if _has(view, "shape"):
        shape = _target_shape(view)
        mask = _unpack_bits(mask, 1, math.prod(shape)).reshape(shape)
    return _scatter_dense(mask, nonzero)


def _infer_sparse_blockwise(view: OpView) -> Sequence[ValueType]:
    mask = _type(view, "data_mask")
    _check_blocks(_dims(view, "data_mask"), _dims(view, "scale"), "scale")
    _check_offset(view)
    _check_stored(view, "nonzero_data", _dims(view, "data_mask"))
    return [mask, TensorType(_type(view, "scale").dtype, _type(view, "nonzero_data").shape)]


def _unpack_sparse_blockwise(view: OpView) -> Sequence[Array]:
    mask = _array(view, "data_mask")
    dense = _scatter_dense(mask, _array(view, "nonzero_data"))
    return [mask, _shift_scale(dense, _array(view, "scale"), _optional(view, "offset"))[mask != 0]]


def _infer_sparse_lut(view: OpView) -> Sequence[ValueType]:
    mask, count = _type(view, "indices_mask"), _dims(view, "indices_nonzero_data")[0]
    lut = _type(view, "lut")
    dims = _with_vectors(view, _dims(view, "indices_mask"))
    _check_stored(view, "indices_nonzero_data", _dims(view, "indices_mask"))
    return [TensorType(mask.dtype, dims), TensorType(lut.dtype, (count * _dims(view, "lut")[-1],))]


def _unpack_sparse_lut(view: OpView) -> Sequence[Array]:
    mask, lut, axis = _array(view, "indices_mask"), _array(view, "lut"), _vector_axis(view)
    indices = _scatter_dense(mask, _array(view, "indices_nonzero_data"))
    dense = _look_up(indices, lut, axis)
    wide = mask if lut.shape[-1] == 1 else np.repeat(mask, lut.shape[-1], axis)
    return [wide, dense[wide != 0]]


# Casts and quantization at run time


def _dtype(view: OpView) -> DType:
    name = str(_array(view, "output_dtype").reshape(-1)[0])
    try:
        return DType(name)
    except ValueError:
        raise CannotInfer(f"unknown element type {name!r}") from None


def _infer_constexpr_cast(view: OpView) -> Sequence[ValueType]:
    return [TensorType(_dtype(view), _type(view, "source_val").shape)]


def _unpack_cast(view: OpView) -> Any:
    return _array(view, "source_val")


def _check_quantization(view: OpView) -> None:
    for name in ("scale", "zero_point"):
        if view.has(name):
            _check_along_axis(view.type("input").shape, view.integer("axis", 0), view.type(name), name)


def _infer_quantize(view: OpView) -> Sequence[ValueType]:
    _check_quantization(view)
    return [TensorType(_dtype(view), view.type("input").shape)]


def _infer_dequantize(view: OpView) -> Sequence[ValueType]:
    _check_quantization(view)
    return [TensorType(view.type("scale").dtype, view.type("input").shape)]


def _quantization(view: OpView) -> tuple[Array, Array, int]:
    """Scale, zero point and axis of `quantize` and `dequantize`."""
    scale = view.value("scale")
    zero = view.value("zero_point", np.zeros(scale.shape, np.int8))
    return scale.astype(np.float32), zero, view.integer("axis", 0)


def _lower_quantize(op: Lowering) -> Tensor:
    scale, zero, axis = _quantization(op.view)
    dtype = op.view.output_type().dtype.numpy
    narrow = op.emit(
        "QuantizeLinear",
        op["input"],
        op.const(scale, F32),
        op.const(zero.reshape(scale.shape), dtype),
        dtype=dtype,
        axis=axis if scale.ndim else None,
    )
    return op.cast(narrow, I32)


def _lower_dequantize(op: Lowering) -> Tensor:
    scale, zero, axis = _quantization(op.view)
    rank = len(op.view.shape("input"))
    x = op.cast(op["input"], F32)
    if zero.any():
        x = op.emit("Sub", x, op.const(_along_axis(zero, rank, axis), F32))
    return op.emit("Mul", x, op.const(_along_axis(scale, rank, axis), F32))


def _fold_dequantize(view: OpView) -> Any:
    scale, zero, axis = _quantization(view)
    data: Any = view.value("input")
    zero = _along_axis(zero.astype(np.float32), data.ndim, axis)
    return (data.astype(np.float32) - zero) * _along_axis(scale, data.ndim, axis)


def _affine_work(view: OpView) -> Work:
    """A scale and a shift per element."""
    return moved(view, 2 * (view.output_type().elements or 0))


OPS: tuple[OpSpec, ...] = (
    OpSpec(
        name="constexpr_affine_dequantize",
        doc="A weight stored in 8 bits with a scale and a zero point, per tensor or along an axis.",
        traits=Trait.WEIGHT_DECOMPRESSION,
        infer=_infer_affine,
        lower=_never_lowered,
        work=_constexpr_work,
        fold=fold_constexpr(_unpack_affine),
    ),
    OpSpec(
        name="constexpr_blockwise_shift_scale",
        doc="A weight stored in 4 or 8 bits with a scale and an offset for each block.",
        traits=Trait.WEIGHT_DECOMPRESSION,
        infer=_infer_blockwise,
        lower=_never_lowered,
        work=_constexpr_work,
        fold=fold_constexpr(_unpack_blockwise),
    ),
    OpSpec(
        name="constexpr_lut_to_dense",
        doc="A weight stored as indices into look-up tables of values or vectors.",
        traits=Trait.WEIGHT_DECOMPRESSION,
        infer=_infer_lut,
        lower=_never_lowered,
        work=_constexpr_work,
        fold=fold_constexpr(_unpack_lut),
    ),
    OpSpec(
        name="constexpr_sparse_to_dense",
        doc="A sparse weight, of which only the nonzero elements are stored.",
        traits=Trait.WEIGHT_DECOMPRESSION,
        infer=_infer_sparse,
        lower=_never_lowered,
        work=_constexpr_work,
        fold=fold_constexpr(_unpack_sparse),
    ),
    OpSpec(
        name="constexpr_lut_to_sparse",
        doc="The nonzero elements of a sparse weight, stored as indices into look-up tables.",
        traits=Trait.WEIGHT_DECOMPRESSION,
        infer=_infer_sparse_lut,
        lower=_never_lowered,
        work=_constexpr_work,
        fold=fold_constexpr(_unpack_sparse_lut),
    ),
    OpSpec(
        name="constexpr_sparse_blockwise_shift_scale",
        doc="The nonzero elements of a sparse weight, stored with a scale and an offset for each block.",
        traits=Trait.WEIGHT_DECOMPRESSION,
        infer=_infer_sparse_blockwise,
        lower=_never_lowered,
        work=_constexpr_work,
        fold=fold_constexpr(_unpack_sparse_blockwise),
    ),
    OpSpec(
        name="constexpr_cast",
        doc="A weight stored as fp16 and used as fp32.",
        traits=Trait.WEIGHT_DECOMPRESSION,
        infer=_infer_constexpr_cast,
        lower=_never_lowered,
        work=_constexpr_work,
        fold=fold_constexpr(_unpack_cast),
    ),
    OpSpec(
        name="quantize",
        doc="Quantizes to 8-bit integers: x / scale + zero point, rounded.",
        traits=Trait.CONVERSION,
        infer=_infer_quantize,
        lower=_lower_quantize,
        work=_affine_work,
    ),
    OpSpec(
        name="dequantize",
        doc="Dequantizes 8-bit integers: (x − zero point) · scale.",
        traits=Trait.CONVERSION | Trait.DEQUANTIZATION,
        infer=_infer_dequantize,
        lower=_lower_dequantize,
        work=_affine_work,
        fold=folding(_fold_dequantize),
    ),
)
