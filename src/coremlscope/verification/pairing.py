"""Pairs the intermediate values of two runs of one network, whatever the frameworks.

Values that are equal, up to the order of axes, are paired first: they show where both runs are. Names and the
flow of data then pair values that differ.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from coremlscope.model.ir import Array
from coremlscope.verification.distance import find_layout, unmasked_error
from coremlscope.verification.intermediates import Intermediate, Run

#: How two values were paired:
#: `output`    both are the same output;
#: `value`     their elements are equal, in the same or a transposed order;
#: `name`      their names are equal, but for what converters add;
#: `flow`      operations of the same type compute them from values that are paired.
How = Literal["output", "value", "name", "flow"]

#: The largest relative error of equal values. Weights that are rounded to fp16 cause 1e-3 an operation.
_EQUAL = 0.03
#: That of values which differ by the order of sums only. They are paired before those that are less equal: a
#: sum and the normalisation of nearly equal values behind it differ by 0.01.
_SAME = 1e-4
#: Statistics of equal values differ by less, relative to their root mean square.
_ALIKE = 0.05
#: Paired values that tell an operation that is computed from them.
_MOST_ABOVE = 40
#: How often values are paired by flow: each pass starts from the pairs of the last one.
_MOST_PASSES = 64
#: Suffixes and prefixes that converters add to the names of values.
_ADDED = re.compile(r"(_cast)?(_to)?_fp(16|32)(_\d+)?$|_cast(_\d+)?$|^(p|b)_(?=\w+_(weight|bias)$)|[@:]\d+$")
#: Words of different frameworks for one type of operation.
_SAME_TYPES = (
    ("conv", "conv1d", "conv2d", "conv3d", "convolution"),
    ("conv_transpose", "convtranspose", "conv_transpose2d", "conv_transpose1d"),
    ("matmul", "mm", "bmm", "linear", "gemm", "addmm", "inner_product", "einsum"),
    ("scaled_dot_product_attention", "attention"),
    ("add", "sum2"),
    ("real_div", "div", "truediv"),
    ("mul", "multiply"),
    ("sub", "rsub"),
    ("reduce_mean", "mean", "reducemean"),
    ("reduce_sum", "sum", "reducesum"),
    ("reduce_max", "amax", "reducemax", "max"),
    ("reduce_argmax", "argmax"),
    ("avg_pool", "averagepool", "avg_pool2d", "adaptive_avg_pool2d", "globalaveragepool"),
    ("max_pool", "maxpool", "max_pool2d"),
    ("layer_norm", "layernorm", "layernormalization", "native_layer_norm"),
    ("batch_norm", "batchnormalization"),
    ("instance_norm", "instancenormalization"),
    ("gather", "embedding", "index_select"),
    ("slice_by_index", "slice", "select", "slice_by_size", "getitem"),
    ("reshape", "view", "flatten", "unflatten", "flatten2d"),
    ("transpose", "permute", "t"),
    ("silu", "swish"),
    ("hardswish", "hard_swish"),
    ("sigmoid_hard", "hardsigmoid"),
    ("concat", "cat"),
    ("expand_dims", "unsqueeze"),
    ("cast", "to", "_to_copy", "type_as", "float", "int"),
    ("upsample_bilinear", "resize", "upsample_bilinear2d", "resize_bilinear", "upsample"),
    ("topk", "sort"),
    ("clip", "clamp", "hardtanh", "relu6"),
    ("pow", "square"),
    ("inverse", "reciprocal"),
    ("pad", "constant_pad_nd"),
    ("not_equal", "ne"),
    ("reduce_min", "amin", "reducemin", "min"),
    ("log_softmax", "logsoftmax"),
    ("floor_div", "floor_divide"),
    ("mod", "remainder", "fmod"),
)
#: Layers into which converters fold a normalization.
_FOLDING = frozenset({"conv", "conv_transpose", "matmul"})
#: By their names without underscores: ONNX has `LeakyRelu` where others have `leaky_relu`.
_GENERAL = {name.replace("_", ""): names[0] for names in _SAME_TYPES for name in names}


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two values of two runs that stand for the same tensor.

    Attributes:
        ours: The name of the value in the first run.
        theirs: Its name in the second run.
        how: How they were paired.
        axes: The order of axes in which the first equals the second; empty if their elements have the same
            order, or if they differ.
        error: The relative error of the first, in that order.
    """

    ours: str
    theirs: str
    how: How
    axes: tuple[int, ...] = ()
    error: float = 0.0

    def in_our_layout(self, theirs: Array, shape: Sequence[int]) -> Array:
        """Returns the second value in the layout and shape of the first."""
        if not self.axes:
            return theirs.reshape(tuple(shape))
        moved = [shape[axis] for axis in self.axes]
        return np.transpose(theirs.reshape(moved), np.argsort(self.axes))


@functools.cache
def plain_name(name: str) -> str:
    """Returns a name without what converters add to it, in lower case: `x_3_cast_fp16` becomes `x_3`."""
    text, before = re.sub(r"[^0-9a-zA-Z@:]+", "_", name).lower().strip("_"), ""
    while text != before:
        before, text = text, _ADDED.sub("", text).strip("_")
    return text


@functools.cache
def general_type(name: str) -> str:
    """Returns one word for a type of operation of any framework: `aten.conv2d.default` becomes `conv`."""
    text = name.lower().removeprefix("aten.").removeprefix("aten::").split(".")[0].strip("_")
    plain = text.replace("_", "")
    return _GENERAL.get(plain, plain)


def pair_runs(ours: Run, theirs: Run, outputs: Mapping[str, str]) -> tuple[Pair, ...]:
    """Pairs the values of two runs.

    Args:
        ours: The first run.
        theirs: The second run.
        outputs: The names of outputs of the second run by those of the first.

    Returns:
        The pairs, in the order of the first run. Each value is in one pair at most.
    """
    pairing = _Pairing(ours, theirs)
    for name, other in outputs.items():
        pairing.add(ours.outputs[name], theirs.outputs[other], "output")
    if theirs.has_intermediates:
        pairing.by_value()
        pairing.by_name(is_numbered=False)
        pairing.by_flow()
        pairing.by_name(is_numbered=True)
    order = {name: place for place, name in enumerate(ours.values)}
    return tuple(sorted(pairing.pairs, key=lambda pair: order[pair.ours]))


def _statistics(array: Array) -> tuple[float, ...] | None:
    """Returns statistics of a value that do not depend on the order of its elements: the mean, the root mean
    square, the smallest and the largest; None for constants, which say little, and for infinite ones."""
    numbers = np.asarray(array).reshape(-1)
    ends = (float(numbers.min()), float(numbers.max())) if numbers.size > 1 else (0.0, 0.0)
    if not np.isfinite(ends).all() or ends[0] == ends[1]:
        return None
    largest = max(map(abs, ends))
    scaled = np.divide(numbers, largest)  # Squares stay in the range of float32.
    return float(scaled.mean()) * largest, float(np.sqrt(np.square(scaled).mean())) * largest, *ends


def _may_equal(own: Sequence[float], others: Array, tolerance: float) -> Array:
    """Returns the places of the values that may equal another one within a relative error, by statistics."""
    mean, size, low, high = others.T
    limit = min(_ALIKE, 2 * tolerance) * np.maximum(own[1], size)
    spread = 2 * _ALIKE * np.maximum(high - low, own[1])
    near = (np.abs(own[0] - mean) <= limit) & (np.abs(own[1] - size) <= limit)
    return np.flatnonzero(near & (np.abs(own[2] - low) <= spread) & (np.abs(own[3] - high) <= spread))


#: The type and the size of a value, and the paired values that it is computed from.
_Origin = tuple[str, int, frozenset[str]]


def _origins(run: Run, known: Mapping[str, str]) -> dict[_Origin, list[str]]:
    """Groups the values without a pair by type, size, and the nearest paired values above them.

    Args:
        run: The run.
        known: The names that stand for both values of a pair, by the names of this run.
    """
    above: dict[str, frozenset[str]] = {}
    groups: dict[_Origin, list[str]] = defaultdict(list)
    for value in run.values.values():
        found: set[str] = set()
        for name in value.inputs:
            found |= {known[name]} if name in known else above.get(name, frozenset())
        above[value.name] = frozenset(found) if len(found) <= _MOST_ABOVE else frozenset()
        if value.op and value.name not in known and above[value.name]:
            groups[general_type(value.type), value.array.size, above[value.name]].append(value.name)
    return groups


class _Pairing:
    """Collects the pairs of two runs."""

    def __init__(self, ours: Run, theirs: Run) -> None:
        self.ours, self.theirs = ours, theirs
        self.pairs: list[Pair] = []
        self.mate: dict[str, str] = {}
        self.taken: set[str] = set()
        #: The place of each value in the order of its run, from 0 to 1.
        self._places = [
            {name: at / len(run.values) for at, name in enumerate(run.values)} for run in (ours, theirs)
        ]

    def add(self, ours: str, theirs: str, how: How, axes: tuple[int, ...] | None = None) -> None:
        """Pairs two values, unless one of them is paired already."""
        if how not in ("output", "value"):
            ours, theirs = self._normalized(ours, theirs)
        if ours in self.mate or theirs in self.taken:
            return
        mine, other = self.ours.values[ours].array, self.theirs.values[theirs].array
        if axes is None and how == "output":
            axes = ()  # An output in another order is a fault.
        if axes is None:
            axes = _layout(mine, other, _EQUAL) or ()
        moved = np.transpose(mine, axes) if axes else mine
        error = unmasked_error(moved, other)
        self.pairs.append(Pair(ours=ours, theirs=theirs, how=how, axes=axes, error=error))
        self.mate[ours] = theirs
        self.taken.add(theirs)

    def _normalized(self, ours: str, theirs: str) -> tuple[str, str]:
        """Returns the normalization behind a layer of one run instead, if the other one has folded it in."""
        own, other = _norm_behind(self.ours, ours), _norm_behind(self.theirs, theirs)
        return (ours, other or theirs) if own is None else (ours if other else own, theirs)

    def _open(self) -> tuple[list[Intermediate], list[Intermediate]]:
        """Returns the values of both runs that are not paired."""
        mine = [value for value in self.ours.values.values() if value.name not in self.mate]
        return mine, [value for value in self.theirs.values.values() if value.name not in self.taken]

    def by_value(self) -> None:
        """Pairs equal values; of several, that of the same name, type, shape, or place in the order."""
        mine, others = self._open()
        known: dict[int, list[tuple[Intermediate, tuple[float, ...]]]] = defaultdict(list)
        for other in others:
            found = _statistics(other.array)
            if found is not None:
                known[other.array.size].append((other, found))
        rows = {size: np.array([row for _, row in found]) for size, found in known.items()}
        own = [(value, _statistics(value.array)) for value in mine]
        for tolerance in (_SAME, _EQUAL):
            for value, row in own:
                size = value.array.size
                if row is not None and size in rows and value.name not in self.mate:
                    near = _may_equal(row, rows[size], tolerance)
                    self._add_equal(value, [known[size][place][0] for place in near], tolerance)

    def _add_equal(self, value: Intermediate, others: Iterable[Intermediate], tolerance: float) -> None:
        """Pairs a value with the most likely of those that are equal to it within a relative error."""
        if value.type == "cast" and value.inputs and value.inputs[0] in self.mate:
            return  # It is what it casts; others may equal that by chance, as sums with a state of zeros do.
        place = self._places[0][value.name]
        near = [other for other in others if other.name not in self.taken]
        near.sort(key=lambda other: (_unlike(value, other), abs(self._places[1][other.name] - place)))
        for other in near:
            axes = _layout(value.array, other.array, tolerance)
            if axes is not None:
                self.add(value.name, other.name, "value", axes)
                return

    def by_name(self, *, is_numbered: bool) -> None:
        """Pairs values of the same name and size.

        Args:
            is_numbered: Whether to pair those that are named by the type of their operation and a number,
                `transpose_9`, which two converters count apart.
        """
        mine, others = self._open()
        named = {plain_name(other.name): other for other in others}
        for value in mine:
            other = named.get(plain_name(value.name))
            is_sure = other is not None and (is_numbered or not (_is_numbered(value) and _is_numbered(other)))
            if other is not None and is_sure and other.array.size == value.array.size:
                self.add(value.name, other.name, "name")

    def by_flow(self) -> None:
        """Pairs results of operations of the same type that are computed from the same paired values.

        Between these there may be operations that only one of the runs has. Several such operations are
        paired in their order, if both runs have the same number of them.
        """
        for _ in range(_MOST_PASSES):
            before = len(self.pairs)
            mine = _origins(self.ours, self.mate)
            others = _origins(self.theirs, {name: name for name in self.taken})
            for key, values in mine.items():
                if len(values) == len(others.get(key, ())):
                    for value, other in zip(values, others[key], strict=True):
                        self.add(value, other, "flow")
            if len(self.pairs) == before:
                return


def _norm_behind(run: Run, name: str) -> str | None:
    """Returns the normalization that alone reads the result of a layer."""
    readers = run.readers.get(name, [])
    is_layer = general_type(run.values[name].type) in _FOLDING
    is_norm = len(readers) == 1 and general_type(run.values[readers[0]].type) == "batch_norm"
    return readers[0] if is_layer and is_norm else None


def _layout(ours: Array, theirs: Array, tolerance: float) -> tuple[int, ...] | None:
    """Finds the order of axes in which one array equals another, also beside what a mask makes large."""
    axes = find_layout(ours, theirs, tolerance)
    moved = np.transpose(ours, axes) if axes else ours
    return axes if axes is None or unmasked_error(moved, theirs) <= tolerance else None


def _unlike(value: Intermediate, other: Intermediate) -> int:
    """Counts in what two values differ: name, type, shape."""
    return (
        4 * (plain_name(value.name) != plain_name(other.name))
        + 2 * (general_type(value.type) != general_type(other.type))
        + (value.array.shape != other.array.shape)
    )


def _is_numbered(value: Intermediate) -> bool:
    """Returns whether a value is named by the type of its operation."""
    return general_type(re.sub(r"_\d+$", "", plain_name(value.name))) == general_type(value.type)
