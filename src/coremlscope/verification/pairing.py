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

__all__ = ["How", "Pair", "general_type", "pair_runs", "plain_name"]

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
#: Values without a pair that may lie between an operation and the paired values that it is computed from.
_MOST_BETWEEN = 40
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


class _Print(msgspec.Struct, frozen=True):
    """Statistics of a value that do not depend on the order of its elements."""

    mean: float
    size: float
    low: float
    high: float

    @classmethod
    def of(cls, array: Array) -> _Print | None:
        """Returns the statistics; None for values that say little: constants, and those that are not
        finite."""
        numbers = np.asarray(array).astype(np.float64).reshape(-1)
        if numbers.size < 2 or not np.isfinite(numbers).all():
            return None
        low, high = float(numbers.min()), float(numbers.max())
        if low == high:
            return None
        return cls(float(numbers.mean()), float(np.sqrt(np.mean(numbers**2))), low, high)


class _Candidates:
    """Values of one size, and their statistics as arrays: long programs compare millions of pairs."""

    def __init__(self, values: Sequence[Intermediate], prints: Sequence[_Print]) -> None:
        self.values = values
        numbers = np.array([(p.mean, p.size, p.low, p.high) for p in prints], np.float64)
        self._mean, self._size, self._low, self._high = numbers.T

    def like(self, own: _Print, tolerance: float) -> list[Intermediate]:
        """Returns the values that may equal another one within a relative error."""
        limit = min(_ALIKE, 2 * tolerance) * np.maximum(own.size, self._size)
        spread = 2 * _ALIKE * np.maximum(self._high - self._low, own.size)
        near = (
            (np.abs(own.mean - self._mean) <= limit)
            & (np.abs(own.size - self._size) <= limit)
            & (np.abs(own.low - self._low) <= spread)
            & (np.abs(own.high - self._high) <= spread)
        )
        return [self.values[place] for place in np.flatnonzero(near)]


def _places(run: Run) -> dict[str, float]:
    """Returns the place of each value in the order of a run, from 0 to 1."""
    return {name: place / len(run.values) for place, name in enumerate(run.values)}


#: The type and the size of a value, and the paired values that it is computed from.
_Origin = tuple[str, int, frozenset[str]]


class _Above:
    """The paired values above the values without a pair, of one run.

    They are found again only for values below a new pair: long programs are paired in hundreds of passes.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._names: dict[str, str] = {}
        self._open = [value for value in run.values.values() if value.op]
        self._origins: dict[str, _Origin | None] = {}
        self._below: defaultdict[str, list[str]] = defaultdict(list)

    def pair(self, name: str, known_as: str) -> None:
        """Adds a value with a pair, and the name that stands for both."""
        self._names[name] = known_as
        for below in self._below.pop(name, ()):
            self._origins.pop(below, None)

    def groups(self) -> dict[_Origin, list[str]]:
        """Groups the values without a pair by type, size, and the paired values that they are computed
        from."""
        self._open = [value for value in self._open if value.name not in self._names]
        groups: dict[_Origin, list[str]] = defaultdict(list)
        for value in self._open:
            if value.name not in self._origins:
                self._origins[value.name] = self._origin(value)
            origin = self._origins[value.name]
            if origin is not None:
                groups[origin].append(value.name)
        return groups

    def _origin(self, value: Intermediate) -> _Origin | None:
        """Returns the group of a value; None if no paired value is near, or many others are nearer."""
        found: set[str] = set()
        for count, above in enumerate(self._run.above(value.name, lambda name: name in self._names)):
            if count > _MOST_BETWEEN:
                return None
            if above in self._names:
                found.add(self._names[above])
            else:
                self._below[above].append(value.name)
        return (general_type(value.type), value.array.size, frozenset(found)) if found else None


class _Pairing:
    """Collects the pairs of two runs."""

    def __init__(self, ours: Run, theirs: Run) -> None:
        self.ours, self.theirs = ours, theirs
        self.pairs: list[Pair] = []
        self.mate: dict[str, str] = {}
        self.taken: set[str] = set()
        self._place_of_ours, self._place_of_theirs = _places(ours), _places(theirs)
        self._above_ours, self._above_theirs = _Above(ours), _Above(theirs)

    def add(self, ours: str, theirs: str, how: How, axes: tuple[int, ...] | None = None) -> None:
        """Pairs two values, unless one of them is paired already."""
        if how not in ("output", "value"):
            theirs = self._normalized(ours, theirs)
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
        self._above_ours.pair(ours, theirs)
        self._above_theirs.pair(theirs, theirs)

    def _normalized(self, ours: str, theirs: str) -> str:
        """Returns the normalization behind a value of the second run, if the first has folded it in."""
        readers = self.theirs.readers.get(theirs, ())
        behind = self.theirs.values[readers[0]] if len(readers) == 1 else None
        if behind is None or general_type(behind.type) != "batch_norm":
            return theirs
        types = [self.ours.values[name].type for name in self.ours.readers.get(ours, ())]
        is_layer = self.ours.values[ours].type in ("conv", "conv_transpose", "linear")
        return behind.name if is_layer and "batch_norm" not in types else theirs

    def _left(self, run: Run, paired: Iterable[str]) -> list[Intermediate]:
        known = set(paired)
        return [value for value in run.values.values() if value.name not in known]

    def _open(self) -> tuple[list[Intermediate], list[Intermediate]]:
        """Returns the values of both runs that are not paired."""
        return self._left(self.ours, self.mate), self._left(self.theirs, self.taken)

    def by_value(self) -> None:
        """Pairs equal values; of several, that of the same name, type, shape, or place in the order."""
        mine, others = self._open()
        prints = [(value, _Print.of(value.array)) for value in mine]
        sized: dict[int, list[tuple[Intermediate, _Print]]] = defaultdict(list)
        for other in others:
            print_ = _Print.of(other.array)
            if print_ is not None:
                sized[other.array.size].append((other, print_))
        candidates = {size: _Candidates(*zip(*found, strict=True)) for size, found in sized.items()}
        for tolerance in (_SAME, _EQUAL):
            for value, print_ in prints:
                among = candidates.get(value.array.size)
                if print_ is not None and among is not None and value.name not in self.mate:
                    self._add_equal(value, among.like(print_, tolerance), tolerance)

    def _add_equal(self, value: Intermediate, others: Iterable[Intermediate], tolerance: float) -> None:
        """Pairs a value with the most likely of those that are equal to it within a relative error."""
        near = [other for other in others if other.name not in self.taken]
        place = self._place_of_ours[value.name]
        near.sort(key=lambda other: (_unlike(value, other), abs(self._place_of_theirs[other.name] - place)))
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
            mine, others = self._above_ours.groups(), self._above_theirs.groups()
            for key, values in mine.items():
                if len(values) == len(others.get(key, ())):
                    for value, other in zip(values, others[key], strict=True):
                        self.add(value, other, "flow")
            if len(self.pairs) == before:
                return


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
