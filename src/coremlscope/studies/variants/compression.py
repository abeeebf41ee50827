"""Compresses the weights of a program without coremltools: equal values in equal forms, in less time.

coremltools makes a program of its own for each transform, and runs a hundred passes over it. On programs that
it wrote itself these passes change nothing but the order of casts and transposes. Here the weights are
replaced in the program as it is. What coremltools does besides stays with it: see `compress`.
(Source of thresholds, axes, arithmetic and forms: `coremltools/optimize/coreml/_quantization_passes.py` and
`coremltools/optimize/_utils.py` of coremltools 9.0.)
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec.structs import replace

from coremlscope.base.errors import MissingDependencyError
from coremlscope.formats.packing import pack
from coremlscope.model.ir import (
    Argument,
    Array,
    Constant,
    DType,
    Graph,
    Model,
    Op,
    TensorType,
    Value,
    constant,
)
from coremlscope.planning.rewrites.transforms import Step
from coremlscope.studies.variants.clustering import cluster_values

#: The version of the specification of iOS 18, which packs tables for groups, numbers of 4 bits, indices of 3
#: bits, and weights that are compressed twice; and of iOS 16, the first one with compressed weights.
IOS_18, IOS_16 = 9, 7
#: The names of operation sets by the version of the specification, of those that are raised to.
_OPSETS = {IOS_16: "CoreML6", IOS_18: "CoreML8"}
#: Smaller weights stay as they are (coremltools' default), and what has fewer elements at all.
LEAST_WEIGHT, _LEAST_ELEMENTS = 2048, 10
#: From this size on coremltools clusters fp16 weights by itself; for others it needs scikit-learn.
_OWN_CLUSTERING = 10_000
#: Operations that have other parameters in a newer operation set, or whose indices coremltools guards there.
_CHANGED = frozenset(
    {"gather", "gather_along_axis", "gather_nd", "scatter", "scatter_along_axis", "scatter_nd", "topk", "gru"}
    | {"reduce_argmax", "reduce_argmin", "crop_resize", "non_maximum_suppression", "upsample_bilinear"}
)
#: Steps that may follow each other.
_JOINT = (("prune", "palettize"), ("prune", "quantize"), ("palettize", "quantize"))


@dataclass(slots=True, kw_only=True)
class _Weight:
    """A weight while it is compressed.

    Attributes:
        op: The operation that holds it.
        axes: The axes of its input and output channels; None where operations that read it do not agree.
        dense: Its elements, with zeros for those that were pruned.
        mask: Which elements are not zero, where it is pruned.
        indices: Places in the table, where it has one.
        table: The table, of the weight's rank and two more: float[groups…, entries, 1].
        data: Integers in place of the elements, or of those of the table.
        scale: What these are multiplied by, of the same rank.
        bits: The size of such an integer.
    """

    op: Op
    axes: tuple[int, int] | None
    dense: Array
    mask: Array | None = None
    indices: Array | None = None
    table: Array | None = None
    data: Array | None = None
    scale: Array | None = None
    bits: int = 8

    @property
    def stored(self) -> Array:
        """The numbers that a further step compresses."""
        if self.table is not None:
            return self.table
        return self.dense if self.mask is None else self.dense[self.mask]

    @property
    def index_type(self) -> DType:
        """The type of indices of the table."""
        assert self.table is not None
        return DType(f"uint{self.table.shape[-2].bit_length() - 1}")

    @property
    def is_compressed(self) -> bool:
        """True after a step that changed it."""
        return self.mask is not None or self.table is not None or self.data is not None


def compress(model: Model, steps: Sequence[Step]) -> tuple[Model, Sequence[str]] | None:
    """Compresses the weights of a program as coremltools does.

    Args:
        model: A model.
        steps: Steps that prune, palettize or quantize, one after the other.

    Returns:
        The model, the same one if no weight is compressed, and remarks. None for what coremltools has to do:
        programs with operations that it would change on the way, weights that are compressed already, not
        of floating point or not finite, and combinations of steps other than those above.

    Raises:
        MissingDependencyError: scikit-learn would have to cluster, and is not installed.
    """
    if not is_compressible(model, steps):
        return None
    is_new = len(steps) > 1 or any(
        step.group or step.bits == 3 or (step.kind == "quantize" and step.bits < 8) for step in steps
    )
    spec_version = max(model.spec_version, IOS_18 if is_new else IOS_16)
    ((name, function),) = model.content.functions.items()
    weights = list(_weights_of(function.graph))
    notes: list[str] = []
    for step in steps:
        notes += palettizing_remarks(step) if step.kind == "palettize" else []
        if not _apply(step, weights):
            return None
    if not any(one.is_compressed for one in weights):
        return model, notes
    unpacking = _early_ops if spec_version < IOS_18 else _ops
    made = {one.op.outputs[0].name: unpacking(one) for one in weights if one.is_compressed}
    function = replace(function, graph=_with_weights(function.graph, made), specialise=None)
    if spec_version > model.spec_version:
        function = replace(function, opset=_OPSETS[spec_version])
    return replace(model.with_functions({name: function}), spec_version=spec_version), notes


def has_scikit_learn() -> bool:
    """Returns whether scikit-learn is installed; it is not imported."""
    return importlib.util.find_spec("sklearn") is not None


def needs_scikit_learn(what: str) -> MissingDependencyError:
    """Returns the error for what cannot be made without scikit-learn."""
    return MissingDependencyError(
        f"coremltools makes {what} with scikit-learn, which is not installed", "pip install scikit-learn"
    )


def palettizing_remarks(step: Step) -> list[str]:
    """Returns what there is to say about tables for weights where scikit-learn is not installed.

    Raises:
        MissingDependencyError: The step needs it.
    """
    if has_scikit_learn():
        return []
    if step.group:
        raise needs_scikit_learn("a table for every few channels")
    return [
        f"weights of fewer than {_OWN_CLUSTERING} elements are as before: coremltools clusters them with"
        " scikit-learn, which is not installed (pip install scikit-learn)"
    ]


def least_palettized() -> int:
    """Returns the number of elements above which a weight gets a table."""
    return LEAST_WEIGHT if has_scikit_learn() else _OWN_CLUSTERING


def is_compressible(model: Model, steps: Sequence[Step]) -> bool:
    """Returns whether `compress` makes of a program what coremltools does, unless it meets rare weights.

    Args:
        model: A model.
        steps: Steps that compress, one after the other.
    """
    content, kinds = model.content, tuple(step.kind for step in steps)
    if len(steps) > 1 and (kinds not in _JOINT or (kinds == _JOINT[2] and not steps[1].per_tensor)):
        return False
    if not content.is_typed or content.is_core_ai or len(content.functions) != 1:
        return False
    operations = {op.type for function in content.functions.values() for op in function.graph.walk()}
    return not operations & _CHANGED and not any(kind.startswith("constexpr_") for kind in operations)


def _weights_of(graph: Graph) -> Iterator[_Weight]:
    """Yields what coremltools may compress: what operations read, of two dimensions or more."""
    held = {op.outputs[0].name: op for op in graph.walk() if op.constant is not None}
    readers: dict[str, set[tuple[int, int]]] = {}
    for op in graph.walk():
        for parameter, arguments in op.inputs.items():
            for one in arguments:
                if isinstance(one, Value) and one.name in held:
                    readers.setdefault(one.name, set()).add(_axes(op, parameter, one, held))
    for name, axes in readers.items():
        known = held[name].constant
        if known is None or not isinstance(known.type, TensorType) or (known.type.rank or 0) < 2:
            continue
        is_stored = known.type.dtype in (DType.FP16, DType.FP32, DType.INT8, DType.UINT8)
        if is_stored and (known.type.elements or 0) > LEAST_WEIGHT:
            agreed = all(len({one[side] for one in axes}) == 1 for side in (0, 1))
            yield _Weight(op=held[name], axes=next(iter(axes)) if agreed else None, dense=known.numpy())


def _axes(op: Op, parameter: str, value: Value, held: Mapping[str, Op]) -> tuple[int, int]:
    """Returns the axes of input and output channels of a weight that an operation reads."""
    if op.type == "conv_transpose":
        return 0, 1
    if op.type != "matmul" or not isinstance(value.type, TensorType):
        return 1, 0
    last = (value.type.rank or 1) - 1
    given = op.inputs.get(f"transpose_{parameter}", ())
    flag = held[given[0].name].constant if given and isinstance(given[0], Value) else next(iter(given), None)
    is_transposed = isinstance(flag, Constant) and bool(flag.item())
    return (last, last - 1) if (parameter == "x") != is_transposed else (last - 1, last)


def _apply(step: Step, weights: Sequence[_Weight]) -> bool:
    """Applies a step; returns False for what coremltools has to do."""
    least = least_palettized() if step.kind == "palettize" else LEAST_WEIGHT
    suited = [one for one in weights if one.dense.size > least and one.stored.size >= _LEAST_ELEMENTS]
    if any(one.dense.dtype.kind != "f" or np.isnan(one.dense).any() for one in suited):
        return False
    if step.kind == "palettize":
        return _palettize(step, suited)
    for weight in suited:
        if step.kind == "quantize":
            _quantize(step, weight)
        elif not _prune(step.percent, weight):
            return False
    return True


def _prune(percent: float, weight: _Weight) -> bool:
    """Makes the smallest elements zero; returns whether any is left."""
    magnitude = np.abs(weight.dense)
    with np.errstate(all="ignore"):
        zero = np.zeros_like(weight.dense, shape=())
        weight.dense = np.where(magnitude <= np.percentile(magnitude, percent), zero, weight.dense)
    weight.mask = weight.dense != 0
    return bool(weight.mask.any())


def _quantize(step: Step, weight: _Weight) -> None:
    """Quantizes a weight, or its table, symmetrically; one whose channels are not known stays as it is."""
    numbers: Any = weight.dense if weight.table is None else weight.table
    blocks = _blocks(step, weight, numbers.ndim)
    if blocks is None or np.isinf(weight.stored).any():
        return
    counts = [size // block if block else 1 for size, block in zip(numbers.shape, blocks, strict=True)]
    if any(block and size % block for size, block in zip(numbers.shape, blocks, strict=True)):
        return
    divided = [
        part for size, count in zip(numbers.shape, counts, strict=True) for part in (count, size // count)
    ]
    # NumPy computes in float32 with numbers of float16, one by one.
    shaped = numbers.reshape(divided).astype(np.float32)
    largest = (1 << step.bits - 1) - 1
    within = tuple(range(1, 2 * numbers.ndim, 2))
    with np.errstate(all="ignore"):
        most = np.maximum(
            np.abs(np.amin(shaped, axis=within, keepdims=True)),
            np.abs(np.amax(shaped, axis=within, keepdims=True)),
        ).astype(numbers.dtype)
        scale = (most - -most) / (largest - -largest)
        shaped /= scale.astype(np.float32)
        rounded = np.clip(np.round(shaped.astype(numbers.dtype).astype(np.float32)), -largest, largest)
        weight.data = rounded.reshape(numbers.shape).astype(np.int8)
    weight.scale, weight.bits = scale.astype(numbers.dtype).reshape(counts), step.bits


def _blocks(step: Step, weight: _Weight, rank: int) -> list[int] | None:
    """Returns how many elements along each axis share a scale or a table, 0 for all; None if unknown."""
    if weight.axes is None:
        return None
    blocks, (inputs, outputs) = [0] * rank, weight.axes
    if step.kind == "palettize":
        blocks[outputs] = step.group
    elif not step.per_tensor:
        blocks[inputs] = step.group
        blocks[outputs] = 1
    return blocks


def _palettize(step: Step, weights: Sequence[_Weight]) -> bool:
    """Clusters the elements of all weights."""
    groups: list[Array] = []
    suited: list[tuple[_Weight, int, int]] = []
    for weight in weights:
        blocks = _blocks(step, weight, weight.dense.ndim)
        if blocks is None:
            continue
        axis = next((place for place, block in enumerate(blocks) if block), 0)
        size = weight.dense.shape[axis]
        if size % (blocks[axis] or size) == 0:
            count = size // (blocks[axis] or size)
            suited.append((weight, axis, count))
            groups += np.split(np.swapaxes(weight.dense, 0, axis), count)
    clusters = _cluster(groups, step.bits)
    if clusters is None:
        return False
    for weight, axis, count in suited:
        mine = [next(clusters) for _ in range(count)]
        shape = np.swapaxes(weight.dense, 0, axis).shape
        indices = np.concatenate([one for _, one in mine]).astype(np.uint8).reshape(shape)
        table = np.stack([one for one, _ in mine]).astype(weight.dense.dtype)
        table = table.reshape(count, *[1] * (len(shape) - 1), 1 << step.bits, 1)
        weight.indices, weight.table = np.swapaxes(indices, 0, axis), np.swapaxes(table, 0, axis)
    return True


def _cluster(groups: Sequence[Array], bits: int) -> Iterator[tuple[Array, Array]] | None:
    """Returns the table and flat indices of each array; None for float32, and where rounding decides."""
    own = [
        place for place, one in enumerate(groups) if one.size >= _OWN_CLUSTERING and one.dtype == np.float16
    ]
    if len(own) < len(groups) and not has_scikit_learn():
        raise needs_scikit_learn("tables for float32 weights")
    if any(one.dtype != np.float16 for one in groups):
        return None
    clusters = dict(zip(own, cluster_values([groups[place] for place in own], bits), strict=True))
    if None in clusters.values():
        return None
    return (clusters.get(place) or _cluster_others(one, bits) for place, one in enumerate(groups))


def _cluster_others(group: Array, bits: int) -> tuple[Array, Array]:
    """Clusters a small array as coremltools does."""
    from sklearn.cluster import KMeans  # type: ignore[import-not-found, unused-ignore]

    count = min(group.size, 1 << bits)
    fitted: Any = KMeans(count, init="k-means++", tol=1e-2, n_init=1, random_state=0).fit(
        group.reshape(-1, 1)
    )
    table = np.zeros(1 << bits)
    table[:count] = fitted.cluster_centers_.reshape(-1)
    return table, fitted.labels_


def _early_ops(weight: _Weight) -> list[Op]:
    """Returns what unpacks a weight before iOS 18, with its name."""
    (value,), shape = weight.op.outputs, constant(np.array(weight.dense.shape, np.uint32))
    if weight.data is not None and weight.scale is not None:
        axis = next((place for place, count in enumerate(weight.scale.shape) if count > 1), 0)
        scale = constant(weight.scale.squeeze())
        given = {
            "quantized_data": constant(weight.data),
            "zero_point": constant(np.zeros(scale.numpy().shape, np.int8)),
        }
        return [_op("constexpr_affine_dequantize", {}, [value], **given, scale=scale, axis=constant(axis))]
    if weight.table is not None and weight.indices is not None:
        indices = _packed(weight.indices, weight.index_type)
        table = constant(weight.table.reshape(-1))
        return [_op("constexpr_lut_to_dense", {}, [value], indices=indices, lut=table, shape=shape)]
    assert weight.mask is not None
    kept = constant(weight.dense[weight.mask])
    mask = _packed(weight.mask, DType.UINT1)
    return [_op("constexpr_sparse_to_dense", {}, [value], nonzero_data=kept, mask=mask, shape=shape)]


def _packed(elements: Array, dtype: DType) -> Constant:
    return constant(np.frombuffer(pack(elements, dtype), np.uint8))


def _ops(weight: _Weight) -> list[Op]:
    """Returns what unpacks a weight from iOS 18 on; the last one has its name."""
    (value,) = weight.op.outputs
    assert isinstance(value.type, TensorType)
    made: list[Op] = []
    if weight.mask is None:
        made += _dense_ops(weight, value, value.type.dtype)
        return made
    mask, name = constant(weight.mask, DType.UINT1), value.name
    kept: Argument = constant(weight.dense[weight.mask])
    is_kept: Argument = mask
    if weight.table is not None or weight.data is not None:
        kept, unpacked = Value(f"{name}_nonzero", kept.type), Value(f"{name}_mask", mask.type)
        made.append(_sparse_op(weight, weight.mask, mask, [unpacked, kept]))
        is_kept = mask if weight.table is None else unpacked
    made.append(_op("constexpr_sparse_to_dense", {"mask": is_kept, "nonzero_data": kept}, [value]))
    return made


def _dense_ops(weight: _Weight, value: Value, dtype: DType) -> Iterator[Op]:
    """Yields what unpacks a weight that is not pruned: its table, then its elements."""
    scaled: dict[str, Argument] = {}
    if weight.data is not None and weight.scale is not None:
        scaled = {
            "data": constant(weight.data, DType(f"int{weight.bits}")),
            "scale": constant(weight.scale),
        }
    if weight.table is None or weight.indices is None:
        yield _op("constexpr_blockwise_shift_scale", scaled, [value])
        return
    table: Argument = constant(weight.table)
    if scaled:
        table = Value(f"{value.name}_lut", TensorType(dtype, weight.table.shape))
        yield _op("constexpr_blockwise_shift_scale", scaled, [table])
    indices = constant(weight.indices, weight.index_type)
    yield _op("constexpr_lut_to_dense", {"indices": indices, "lut": table}, [value])


def _sparse_op(weight: _Weight, is_kept: Array, mask: Constant, outputs: Sequence[Value]) -> Op:
    """Returns what unpacks the elements of a pruned weight that are not zero."""
    if weight.table is not None and weight.indices is not None:
        given = {
            "indices_mask": mask,
            "indices_nonzero_data": constant(weight.indices[is_kept], weight.index_type),
            "lut": constant(weight.table),
        }
        return _op("constexpr_lut_to_sparse", given, outputs)
    assert weight.data is not None
    assert weight.scale is not None
    given = {
        "data_mask": mask,
        "nonzero_data": constant(weight.data[is_kept], DType(f"int{weight.bits}")),
        "scale": constant(weight.scale),
    }
    return _op("constexpr_sparse_blockwise_shift_scale", given, outputs)


def _op(kind: str, inputs: Mapping[str, Argument], outputs: Sequence[Value], **attributes: Constant) -> Op:
    return Op(
        id="",
        type=kind,
        inputs={name: (one,) for name, one in inputs.items()},
        outputs=tuple(outputs),
        attributes={"name": constant(outputs[-1].name), **attributes},
    )


def _with_weights(graph: Graph, made: Mapping[str, Sequence[Op]]) -> Graph:
    """Returns a graph with other operations for weights, in the same places."""
    ops: list[Op] = []
    for op in graph.ops:
        if op.constant is not None and op.outputs[0].name in made:
            ops += made[op.outputs[0].name]
        elif op.blocks:
            ops.append(replace(op, blocks=tuple(_with_weights(block, made) for block in op.blocks)))
        else:
            ops.append(op)
    return replace(graph, ops=tuple(ops))
