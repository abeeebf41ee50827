"""Operations that join, split, select or convert tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coremlscope.base.arrays import np
from coremlscope.model.ir import Array, Constant, DType, StateType, TensorType, ValueType
from coremlscope.ops.emit import BOOL, F32, I32, I64, Lowering, Tensor, carry
from coremlscope.ops.folding import folding
from coremlscope.ops.infer import broadcast_shapes, first_known, normal_axis
from coremlscope.ops.program import MERGED
from coremlscope.ops.spec import OpSpec, Work, free, moved, moved_output
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotInfer, CannotLower, OpView

# concat, stack, split


def _values(view: OpView) -> list[Array]:
    """The contents of the variadic parameter `values`."""
    arrays = []
    for index in range(len(view.inputs["values"])):
        constant = view.bound("values", index).constant
        assert constant is not None
        arrays.append(constant.numpy())
    return arrays


def _infer_concat(view: OpView) -> Sequence[ValueType]:
    types = view.types("values")
    if not types:
        raise CannotInfer("no values to join")
    # Scalars are joined to a vector.
    shapes = [type_.shape or (1,) for type_ in types if type_.shape is not None]
    if len(shapes) < len(types):
        return [TensorType(types[0].dtype, None)]
    rank = len(shapes[0])
    if any(len(shape) != rank for shape in shapes):
        raise CannotInfer(f"values of ranks {', '.join(str(len(s)) for s in shapes)} cannot be joined")
    axis = normal_axis(view.integer("axis"), rank)
    dims = [first_known(*(shape[i] for shape in shapes)) for i in range(rank)]
    for i, dim in enumerate(dims):
        if i != axis and any(shape[i] not in (None, dim) for shape in shapes):
            raise CannotInfer(
                f"shapes {', '.join(str(list(s)) for s in shapes)} cannot be joined along axis {axis}"
            )
    lengths = [shape[axis] for shape in shapes]
    dims[axis] = None if None in lengths else sum(d for d in lengths if d is not None)
    return [TensorType(types[0].dtype, tuple(dims))]


def _lower_concat(op: Lowering) -> Tensor:
    view, values = op.view, op.all("values")
    ranks = [len(view.shape("values", index)) for index in range(len(values))]
    values = [op.unsqueeze(v, [0]) if rank == 0 else v for v, rank in zip(values, ranks, strict=True)]
    if any(value.dtype != values[0].dtype for value in values):
        values = [op.cast(value, carry(view.output_type().dtype)) for value in values]
    if len(values) == 1:
        return values[0]
    rank = max(ranks[0], 1)
    axis = normal_axis(view.integer("axis"), rank)
    if not view.flag("interleave", False):
        return op.emit("Concat", *values, axis=axis)
    # Stacked along a new axis, which is then merged with the one before it.
    stacked = op.emit("Concat", *(op.unsqueeze(v, [axis + 1]) for v in values), axis=axis + 1)
    dims = list(view.shape("values"))
    length = dims[axis]
    if axis == rank - 1:
        return op.reshape(stacked, [*([0] * axis), -1])
    if length is None or None in dims[axis + 1 :]:
        raise CannotLower("the shape of interleaved values is not known before run time")
    return op.reshape(stacked, [*([0] * axis), length * len(values), *(d or 0 for d in dims[axis + 1 :])])


def _fold_concat(view: OpView) -> Array:
    arrays = [np.atleast_1d(array) for array in _values(view)]
    axis = view.integer("axis") % arrays[0].ndim
    if not view.flag("interleave", False):
        return np.concatenate(arrays, axis)
    stacked = np.stack(arrays, axis + 1)
    return stacked.reshape(*arrays[0].shape[:axis], -1, *arrays[0].shape[axis + 1 :])


def _infer_stack(view: OpView) -> Sequence[ValueType]:
    types = view.types("values")
    if not types:
        raise CannotInfer("no values to stack")
    shapes = [type_.shape for type_ in types if type_.shape is not None]
    if len(shapes) < len(types):
        return [TensorType(types[0].dtype, None)]
    if any(len(shape) != len(shapes[0]) for shape in shapes):
        raise CannotInfer("the values have different ranks")
    dims = [first_known(*column) for column in zip(*shapes, strict=True)]
    if any(d not in (None, dim) for shape in shapes for d, dim in zip(shape, dims, strict=True)):
        raise CannotInfer(f"shapes {', '.join(str(list(s)) for s in shapes)} cannot be stacked")
    dims.insert(normal_axis(view.integer("axis"), len(dims) + 1), len(types))
    return [TensorType(types[0].dtype, tuple(dims))]


def _lower_stack(op: Lowering) -> Tensor:
    axis = normal_axis(op.view.integer("axis"), len(op.view.shape("values")) + 1)
    values = [op.unsqueeze(value, [axis]) for value in op.all("values")]
    return values[0] if len(values) == 1 else op.emit("Concat", *values, axis=axis)


def _fold_stack(view: OpView) -> Array:
    return np.stack(_values(view), view.integer("axis"))


def _split_sizes(view: OpView) -> list[int | None]:
    """The length of each part."""
    if view.has("split_sizes"):
        return list(view.integers("split_sizes"))
    shape, count = view.shape("x"), view.integer("num_splits")
    length = shape[normal_axis(view.integer("axis"), len(shape))]
    if count < 1 or count > len(view.op.outputs) or (length is not None and length % count):
        raise CannotInfer(f"{length} elements cannot be split into {count} equal parts")
    if length is None:
        return [None] * count
    return [length // count] * count


def _infer_split(view: OpView) -> Sequence[ValueType]:
    x, shape = view.type("x"), view.shape("x")
    axis = normal_axis(view.integer("axis"), len(shape))
    sizes = _split_sizes(view)
    total = None if None in sizes else sum(s for s in sizes if s is not None)
    if None not in (total, shape[axis]) and total != shape[axis]:
        raise CannotInfer(f"parts of {sizes} do not add up to {shape[axis]}")
    return [TensorType(x.dtype, (*shape[:axis], size, *shape[axis + 1 :])) for size in sizes]


def _lower_split(op: Lowering) -> Sequence[Tensor]:
    x, sizes = op["x"], _split_sizes(op.view)
    axis = normal_axis(op.view.integer("axis"), len(op.view.shape("x")))
    dtypes = [x.dtype] * len(sizes)
    if None in sizes:
        return op.emit_many("Split", x, dtypes=dtypes, axis=axis, num_outputs=len(sizes))
    if len(sizes) == 1:
        return [x]
    return op.emit_many("Split", x, op.const([s or 0 for s in sizes], I64), dtypes=dtypes, axis=axis)


def _fold_split(view: OpView) -> Sequence[Array]:
    ends = np.cumsum([size or 0 for size in _split_sizes(view)])
    return np.split(view.value("x"), ends[:-1], view.integer("axis"))


# tile, pad


def _repetitions(view: OpView) -> list[int]:
    """How often each axis is repeated, where that is known."""
    return [max(1, count) for count in view.integers("reps")]


def _infer_tile(view: OpView) -> Sequence[ValueType]:
    x = view.type("x")
    if not view.is_known("reps"):
        return [TensorType(x.dtype, None if x.shape is None else (None,) * len(x.shape))]
    reps, shape = _repetitions(view), view.shape("x")
    if len(reps) != len(shape):
        raise CannotInfer(f"{len(reps)} repetitions for a tensor of rank {len(shape)}")
    return [
        TensorType(x.dtype, tuple(None if d is None else d * r for d, r in zip(shape, reps, strict=True)))
    ]


def _lower_tile(op: Lowering) -> Tensor:
    if not op.view.is_known("reps"):
        return op.emit("Tile", op["x"], _counts(op))
    x, reps, shape = op["x"], _repetitions(op.view), op.view.shape("x")
    tiled = op.emit("Tile", x, op.const(reps, I64))
    if all(count == 1 or length == 1 for count, length in zip(reps, shape, strict=True)):
        op.emitter.broadcasts[tiled.name] = (x, shape)
    return tiled


def _counts(op: Lowering) -> Tensor:
    """How often each axis is repeated, where that is only known at run time.

    Some versions of coremltools write PyTorch's `expand` as a tile by quotients: for an axis that stays, -1
    divided by its length, which is -1 or 0. For an axis of length 1 a 0 is not such a quotient: it empties
    the axis.
    """
    counts, lengths = op.int64("reps"), op.shape_of(op["x"])
    one = op.const(1, I64)
    least = op.cast(op.emit("Greater", lengths, one, dtype=BOOL), I64)
    is_negative = op.emit("Less", counts, op.const(0, I64), dtype=BOOL)
    return op.emit("Where", is_negative, one, op.emit("Max", counts, least), dtype=I64)


def _fold_tile(view: OpView) -> Array:
    return np.tile(view.value("x"), _repetitions(view))


#: ONNX's names of MIL's padding modes.
_PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


def _pads(view: OpView) -> list[tuple[int, int]]:
    """Elements added before and after each axis: `pad` holds those of the last axes."""
    rank, given = len(view.shape("x")), view.integers("pad")
    if len(given) % 2 or len(given) > 2 * rank:
        raise CannotInfer(f"{len(given)} paddings for a tensor of rank {rank}")
    pairs = list(zip(given[::2], given[1::2], strict=True))
    return [(0, 0)] * (rank - len(pairs)) + pairs


def _infer_pad(view: OpView) -> Sequence[ValueType]:
    shape = view.shape("x")
    if view.is_known("pad"):
        pairs = _pads(view)
        dims = tuple(None if d is None else d + sum(p) for d, p in zip(shape, pairs, strict=True))
    else:
        length = view.shape("pad")[0]
        padded = len(shape) if length is None else length // 2
        dims = (*shape[: len(shape) - padded], *([None] * padded))
    return [TensorType(view.type("x").dtype, dims)]


def _lower_pad(op: Lowering) -> Tensor:
    view, x = op.view, op["x"]
    mode = view.text("mode", "constant")
    if mode not in _PAD_MODES:
        raise CannotLower(f"padding mode {mode!r}")
    rank = len(view.shape("x"))
    # All axes are given: ONNX Runtime ignores `axes` when it moves a transposition past a padding.
    if not view.is_known("pad"):
        pairs = op.emit("Reshape", op.int64("pad"), op.const([-1, 2], I64))
        length = view.shape("pad")[0]
        kept = rank - (2 * rank if length is None else length) // 2
        both = op.transpose(pairs, [1, 0])
        pads = op.reshape(op.emit("Concat", op.const(np.zeros((2, kept)), I64), both, axis=1), [-1])
    else:
        given = _pads(view)
        if mode == "reflect" and _reflects_twice(view, given):
            return _reflect_by_gather(op, x, given)
        if not any(map(any, given)):
            return x
        pads = op.const([before for before, _ in given] + [after for _, after in given], I64)
    value = None
    if mode == "constant":
        value = op.like(view.value("constant_val", np.float32(0)).reshape(()), x)
    return op.emit("Pad", x, pads, value, mode=_PAD_MODES[mode])


def _reflects_twice(view: OpView, pads: Sequence[tuple[int, int]]) -> bool:
    return any(d is not None and max(p) >= d for d, p in zip(view.shape("x"), pads, strict=True))


def _reflect_by_gather(op: Lowering, x: Tensor, pads: Sequence[tuple[int, int]]) -> Tensor:
    """Reflection by more elements than the axis has, which ONNX Runtime rejects."""
    for axis, (pair, length) in enumerate(zip(pads, op.view.static_shape("x"), strict=True)):
        if any(pair):
            op.emitter.check_array(length + sum(pair))
            indices = np.pad(np.arange(length), pair, "reflect" if length > 1 else "edge")
            x = op.emit("Gather", x, op.const(indices, I64), axis=axis)
    return x


def _fold_pad(view: OpView) -> Array:
    x, mode = view.value("x"), view.text("mode", "constant")
    if mode == "constant":
        return np.pad(x, _pads(view), constant_values=view.real("constant_val", 0.0))
    return np.pad(x, _pads(view), "edge" if mode == "replicate" else "reflect")


# identity, cast, select


def _infer_identity(view: OpView) -> Sequence[ValueType]:
    type_ = view.bound("x").type
    return [type_.wrapped if isinstance(type_, StateType) else type_]


def _lower_identity(op: Lowering) -> Tensor:
    return op["x"]


def _fold_identity(view: OpView) -> Sequence[Constant] | None:
    constant = view.bound("x").constant
    return None if constant is None else [constant]


def _cast_dtype(view: OpView) -> DType:
    name = view.text("dtype")
    try:
        return DType(name)
    except ValueError:
        raise CannotInfer(f"unknown element type {name!r}") from None


def _infer_cast(view: OpView) -> Sequence[ValueType]:
    return [TensorType(_cast_dtype(view), view.type("x").shape)]


def _narrows(source: DType, target: DType) -> bool:
    """True where an integer type of 8 or 16 bits may not hold what is converted to it."""
    if source is DType.BOOL or not target.is_int or target.bits not in (8, 16):
        return False
    if source.is_float:
        return True
    held, wanted = (np.iinfo(dtype.numpy.name) for dtype in (target, source))
    return wanted.min < held.min or wanted.max > held.max


#: The range of int32.
_LOWEST, _HIGHEST = -(2**31), 2**31 - 1


def _whole(op: Lowering, x: Tensor) -> Tensor:
    """Floats as int32: rounded towards zero, clamped to the range of int32, NaN as zero.

    FCVTZS in the Arm Architecture Reference Manual converts this way; other processors give other numbers.
    """
    wide = op.cast(x, np.float64)
    held = op.emit("Clip", wide, op.like(_LOWEST, wide), op.like(_HIGHEST, wide))
    is_number = op.emit("Equal", x, x, dtype=BOOL)
    return op.cast(op.emit("Where", is_number, held, op.like(0, wide), dtype=wide.dtype), I32)


def _lower_cast(op: Lowering) -> Tensor:
    source, target = op.view.type("x").dtype, _cast_dtype(op.view)
    x = _whole(op, op["x"]) if source.is_float and target.is_int else op.cast(op["x"], carry(target))
    if _narrows(source, target):
        # The carrying type is wider: values out of range wrap as they would in the narrow type.
        return op.cast(op.cast(x, target.numpy), carry(target))
    return x


def _fold_cast(view: OpView) -> Any:
    x, target = view.value("x"), _cast_dtype(view)
    if target.is_int and x.dtype.kind == "f":
        held = np.clip(np.nan_to_num(x.astype(np.float64)), _LOWEST, _HIGHEST)
        return held.astype(np.int64).astype(target.numpy)
    return x.astype(target.numpy)


def _cast_work(view: OpView) -> Work:
    """Every element is read and written once; nothing where the type stays the same."""
    return free(view) if view.type("x").dtype is _cast_dtype(view) else moved(view)


def choose(op: Lowering, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """`a` where the condition holds, else `b`; ONNX Runtime has no kernel for booleans."""
    condition = op.cast(condition, BOOL)
    if a.dtype == b.dtype == BOOL:
        taken = op.emit("And", condition, a)
        other = op.emit("And", op.emit("Not", condition), b)
        return op.emit("Or", taken, other)
    dtype = F32 if F32 in (a.dtype, b.dtype) else I32
    return op.emit("Where", condition, op.cast(a, dtype), op.cast(b, dtype), dtype=dtype)


def _infer_select(view: OpView) -> Sequence[ValueType]:
    types = [view.type(name) for name in ("a", "b")]
    shapes = [type_.shape for type_ in (view.type("cond"), *types) if type_.shape is not None]
    floats = [type_.dtype for type_ in types if type_.dtype.is_float]
    dtype = max(floats, key=lambda d: d.bits) if floats else types[0].dtype
    return [TensorType(dtype, broadcast_shapes(shapes) if len(shapes) == 3 else None)]


def _lower_select(op: Lowering) -> Tensor:
    """Arguments that are tiled only to the shape of another one are read before that."""
    names = ("cond", "a", "b")
    tensors, shapes = [op[name] for name in names], [op.view.type(name).shape for name in names]
    merged = []
    for index, tensor in enumerate(tensors):
        source, shape = op.emitter.broadcasts.get(tensor.name, (tensor, None))
        others = [known for known in shapes[:index] + shapes[index + 1 :] if known is not None]
        if shape is not None and len(others) == 2 and broadcast_shapes(others) == shapes[index]:
            merged.append(tensor.name)
            tensors[index], shapes[index] = source, shape
    chosen = choose(op, *tensors)
    if merged:
        op.emitter.nodes[-1].metadata_props.add(key=MERGED, value="\n".join(merged))
    return chosen


def _fold_select(view: OpView) -> Array:
    chosen: Array = np.where(view.value("cond").astype(bool), view.value("a"), view.value("b"))
    return chosen


OPS: tuple[OpSpec, ...] = (
    OpSpec(
        name="concat",
        doc="Tensors concatenated along an axis, or interleaved element by element.",
        traits=Trait.COPY,
        infer=_infer_concat,
        lower=_lower_concat,
        work=moved_output,
        fold=folding(_fold_concat),
    ),
    OpSpec(
        name="stack",
        doc="Tensors of one shape, stacked along a new axis.",
        traits=Trait.COPY,
        infer=_infer_stack,
        lower=_lower_stack,
        work=moved_output,
        fold=folding(_fold_stack),
    ),
    OpSpec(
        name="split",
        doc="A tensor split into parts along an axis.",
        traits=Trait.COPY,
        infer=_infer_split,
        lower=_lower_split,
        work=moved_output,
        fold=folding(_fold_split),
    ),
    OpSpec(
        name="tile",
        doc="A tensor repeated along its axes.",
        traits=Trait.COPY,
        infer=_infer_tile,
        lower=_lower_tile,
        work=moved,
        fold=folding(_fold_tile),
    ),
    OpSpec(
        name="pad",
        doc="A tensor padded along its last axes: with a constant, by reflection or with its edges.",
        traits=Trait.COPY,
        infer=_infer_pad,
        lower=_lower_pad,
        work=moved,
        fold=folding(_fold_pad),
    ),
    OpSpec(
        name="identity",
        doc="The same value.",
        traits=Trait.RESHAPE,
        infer=_infer_identity,
        lower=_lower_identity,
        work=free,
        fold=_fold_identity,
    ),
    OpSpec(
        name="cast",
        doc="The same numbers in another element type; fractions are truncated.",
        traits=Trait.CONVERSION,
        infer=_infer_cast,
        lower=_lower_cast,
        work=_cast_work,
        fold=folding(_fold_cast),
    ),
    OpSpec(
        name="select",
        doc="Elements of one tensor where a condition holds, of another where it does not.",
        traits=Trait.MASK,
        infer=_infer_select,
        lower=_lower_select,
        work=moved,
        fold=folding(_fold_select),
    ),
)
