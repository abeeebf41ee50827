"""Operations of a reference, written in MIL: what a program lacks, or computes in another way.

A reference tells the type of an operation in the words of its framework, and not always its settings. So each
operation is recognised by its values: the operation of MIL that makes its result of its arguments is written
down, and what nothing makes is not written at all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from coremlscope.ir import Argument, Array, DType, Function, Op, TensorType, Value, constant
from coremlscope.ir.rewriting import with_ops
from coremlscope.verification.distance import SAME, relative_error
from coremlscope.verification.edits import read_instead
from coremlscope.verification.element_functions import find_functions
from coremlscope.verification.intermediates import Intermediate, Run
from coremlscope.verification.pairing import Pair, general_type

__all__ = ["Graft", "find_graft", "find_order"]

_Floats = npt.NDArray[np.float64]
#: A result is that of an operation if it differs by less.
_SAME_RESULT = 1e-4
#: Operations that are written for one value, elements of a value, and elements that are put in any order.
_MOST_OPS, _MOST_ELEMENTS, _MOST_ORDERED = 128, 1 << 22, 1 << 16
#: Axes whose orders are tried, and places along one axis.
_MOST_AXES, _MOST_PLACES = 6, 512
#: The epsilon of normalizations in PyTorch.
_NORM_EPSILON = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """An operation of MIL that makes a result.

    Attributes:
        type: Its type.
        reads: The places of the arguments among those of the reference, by parameter.
        settings: Its other arguments.
    """

    type: str
    reads: Mapping[str, tuple[int, ...]]
    settings: Mapping[str, Array | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Graft:
    """Operations that compute a value of the reference from values of the program.

    Attributes:
        ops: The operations, whose element types are those of the program.
        result: The value.
        types: The types of the operations of the reference, the last one first.
    """

    ops: tuple[Op, ...]
    result: Value
    types: tuple[str, ...]

    def instead_of(self, function: Function, name: str) -> Function:
        """Returns a function in which the value of a name is computed so."""
        ops: list[Op] = []
        for op in function.graph.ops:
            made = next((value for value in op.outputs if value.name == name), None)
            if made is not None and len(op.outputs) == 1:
                ops += self._ending(made)
            else:
                ops.append(op)
        return with_ops(function, ops)

    def ahead_of(self, function: Function, reader: str, name: str) -> Function:
        """Returns a function in which the operation of an id reads the graft instead of a value.

        Args:
            function: The function.
            reader: The id of the operation.
            name: The value.
        """
        graph = function.graph
        known = {v.name: v for v in (*graph.inputs, *(v for op in graph.ops for v in op.outputs))}
        made = replace(known[name], name=f"{name}_{self.result.name}")
        place = next(place for place, op in enumerate(graph.ops) if op.id == reader)
        ops = (*graph.ops[:place], *self._ending(made), *graph.ops[place:])
        added = replace(function, graph=replace(graph, ops=ops))
        return read_instead(added, {name: made.name}, {reader})

    def _ending(self, made: Value) -> tuple[Op, ...]:
        """Returns the operations, the last of which has the name and the shape of a value."""
        assert isinstance(made.type, TensorType)
        assert isinstance(self.result.type, TensorType)
        shape = np.array([size or 1 for size in made.type.shape or ()], np.int32)
        inputs: dict[str, tuple[Argument, ...]] = {"x": (self.result,), "shape": (constant(shape),)}
        if self.result.type.shape == made.type.shape:
            inputs.pop("shape")
        kind = "reshape" if "shape" in inputs else "identity"
        last = Op(id="", type=kind, inputs=inputs, outputs=(made,), attributes={"name": constant(made.name)})
        return (*self.ops, last)


def find_graft(
    theirs: Run, wanted: str, pairs: Sequence[Pair], known: Mapping[str, Value], arrays: Mapping[str, Array]
) -> Graft | None:
    """Writes what computes a value of the reference from values of the program that are right.

    Args:
        theirs: The run of the reference.
        wanted: The value of the reference.
        pairs: The pairs of values.
        known: Values of the program that may be read, by name.
        arrays: Their elements.

    Returns: The operations; None if one of them is not recognised, or they need too many.
    """
    right = {
        pair.theirs: pair
        for pair in pairs
        if pair.how != "order" and pair.error <= SAME and pair.ours in known and pair.theirs != wanted
    }
    writer = _Writer(theirs=theirs, right=right, known=known, arrays=arrays)
    result = writer.value(wanted)
    if result is None or not writer.ops:
        return None
    return Graft(tuple(writer.ops), result, tuple(reversed(writer.types)))


@dataclass(kw_only=True)
class _Writer:
    """Writes the operations above a value of the reference."""

    theirs: Run
    right: Mapping[str, Pair]
    known: Mapping[str, Value]
    arrays: Mapping[str, Array]
    ops: list[Op] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    written: dict[str, Value] = field(default_factory=dict)

    @property
    def dtype(self) -> DType:
        """The element type of the program's numbers."""
        types = [value.type for value in self.known.values() if isinstance(value.type, TensorType)]
        return DType.FP16 if any(type_.dtype is DType.FP16 for type_ in types) else DType.FP32

    def value(self, name: str) -> Value | None:
        """Returns a value of the program that equals one of the reference."""
        if name in self.written:
            return self.written[name]
        if name in self.right:
            made = self._paired(self.right[name])
        elif len(self.ops) >= _MOST_OPS or self.theirs.values[name].array.size > _MOST_ELEMENTS:
            return None
        else:
            made = self._computed(self.theirs.values[name])
        if made is not None:
            self.written[name] = made
        return made

    def _paired(self, pair: Pair) -> Value | None:
        value = self.known[pair.ours]
        if not isinstance(value.type, TensorType) or value.type.dtype.numpy.kind != "f":
            return None
        mine, other = self.arrays[pair.ours], self.theirs.values[pair.theirs].array
        if pair.axes:
            value = self._add(
                "transpose", np.transpose(mine, pair.axes).shape, {"x": (value,)}, perm=pair.axes
            )
        if value.type.shape != other.shape:  # type: ignore[union-attr]
            value = self._add("reshape", other.shape, {"x": (value,)}, shape=other.shape)
        return value

    def _computed(self, value: Intermediate) -> Value | None:
        if value.array.dtype.kind != "f":
            return None
        arguments: list[Array] = []
        sources: list[str | Array] = []
        for name in value.inputs:
            array = self.theirs.values[name].array
            arguments.append(array)
            sources.append(array if self._is_constant(name) else name)
        for parameter in value.parameters:
            if parameter.size <= _MOST_ELEMENTS and parameter.read().dtype.kind == "f":
                arguments.append(parameter.read())
                sources.append(arguments[-1])
        if value.type == "rsub":
            arguments.reverse()
            sources.reverse()
        form = next(_forms(value, arguments, [isinstance(s, str) for s in sources]), None)
        if form is None:
            return self._reordered(value)
        inputs: dict[str, tuple[Argument, ...]] = {}
        for key, places in form.reads.items():
            read: list[Argument] = []
            for place in places:
                source = sources[place]
                given = self.value(source) if isinstance(source, str) else constant(source, self.dtype)
                if given is None:
                    return None
                read.append(given)
            inputs[key] = tuple(read)
        self.types.append(value.type)
        return self._add(form.type, value.array.shape, inputs, **form.settings)

    def _reordered(self, value: Intermediate) -> Value | None:
        """Returns a value with the elements of its only argument in another order."""
        array = self.theirs.values[value.inputs[0]].array if len(value.inputs) == 1 else np.zeros(0)
        places = find_order(array, value.array)
        given = None if places is None else self.value(value.inputs[0])
        if places is None or given is None:
            return None
        self.types.append(value.type)
        flat = self._add("reshape", (array.size,), {"x": (given,)}, shape=(-1,))
        moved = self._add("gather", (array.size,), {"x": (flat,)}, indices=places, axis=np.array(0))
        return self._add("reshape", value.array.shape, {"x": (moved,)}, shape=value.array.shape)

    def _is_constant(self, name: str) -> bool:
        above = [self.theirs.values[n] for n in self.theirs.above(name, lambda _: False)]
        return all(one.op for one in above if one.name in self.theirs.values)

    def _add(
        self,
        kind: str,
        made_shape: Sequence[int],
        inputs: Mapping[str, tuple[Argument, ...]],
        /,
        **settings: Array | Sequence[int] | str,
    ) -> Value:
        made = Value(f"reference_{kind}_{len(self.ops)}", TensorType(self.dtype, tuple(made_shape)))
        arguments = dict(inputs)
        for key, content in settings.items():
            if isinstance(content, str):
                arguments[key] = (constant(content),)
                continue
            array = np.asarray(content)
            is_float = array.dtype.kind == "f"
            arguments[key] = (
                constant(
                    array, self.dtype if is_float else DType.BOOL if array.dtype.kind == "b" else DType.INT32
                ),
            )
        self.ops.append(
            Op(id="", type=kind, inputs=arguments, outputs=(made,), attributes={"name": constant(made.name)})
        )
        return made


_Forms = Callable[[list[_Floats], _Floats, list[bool]], Iterator[_Written]]


def _forms(value: Intermediate, given: Sequence[Array], is_read: list[bool]) -> Iterator[_Written]:
    """Yields the operations that make a value of its arguments, those of its own type first."""
    arrays = [array.astype(np.float64) for array in given]
    result = value.array.astype(np.float64)
    found = []
    with np.errstate(all="ignore"):
        for family in _FAMILIES:
            for form in family(arrays, result, is_read):
                if general_type(form.type) == general_type(value.type):
                    yield form
                    return
                found.append(form)
    if result.size > 1:  # One number is made by many operations.
        yield from found


def _is_same(made: _Floats, wanted: _Floats) -> bool:
    return made.shape == wanted.shape and relative_error(made, wanted) <= _SAME_RESULT


def _single(given: list[_Floats], is_read: list[bool]) -> Iterator[tuple[int, _Floats]]:
    return ((place, x) for place, x in enumerate(given) if is_read[place])


def _moves(given: list[_Floats], y: _Floats, is_read: list[bool]) -> Iterator[_Written]:
    """Yields operations that move elements: other shapes, orders of axes, parts, places."""
    for place, x in _single(given, is_read):
        reads = {"x": (place,)}
        if x.size == y.size and np.array_equal(x.reshape(-1), y.reshape(-1)):
            yield _Written(type="reshape", reads=reads, settings={"shape": np.array(y.shape, np.int32)})
        elif x.size == y.size and x.ndim == y.ndim <= _MOST_AXES:
            for order in itertools.permutations(range(x.ndim)):
                if tuple(x.shape[axis] for axis in order) == y.shape and np.array_equal(
                    np.transpose(x, order), y
                ):
                    yield _Written(
                        type="transpose", reads=reads, settings={"perm": np.array(order, np.int32)}
                    )
                    break
            else:
                yield from _orders_of_places(x, y, reads)
        elif x.size > y.size:
            yield from _parts(x, y, reads)


def _orders_of_places(x: _Floats, y: _Floats, reads: Mapping[str, tuple[int, ...]]) -> Iterator[_Written]:
    """Yields the choice of other places along one axis, as a flip or a roll makes it."""
    for axis, size in enumerate(x.shape):
        rows, wanted = (np.moveaxis(array, axis, 0).reshape(size, -1) for array in (x, y))
        places = [np.flatnonzero((rows == row).all(1)) for row in wanted] if size <= _MOST_PLACES else []
        if x.shape == y.shape and places and all(len(found) for found in places):
            indices = np.array([found[0] for found in places], np.int32)
            settings: dict[str, Array | str] = {"indices": indices, "axis": np.array(axis, np.int32)}
            yield _Written(type="gather", reads=reads, settings=settings)
            return


def _parts(x: _Floats, y: _Floats, reads: Mapping[str, tuple[int, ...]]) -> Iterator[_Written]:
    """Yields the slices along one axis that a value is."""
    for axis, size in enumerate(x.shape):
        rest = math.prod(x.shape) // size
        length = y.size // rest if rest and y.size % rest == 0 else 0
        if not 0 < length < size:
            continue
        rows = np.moveaxis(x, axis, 0)
        kept = [*x.shape[:axis], length, *x.shape[axis + 1 :]]
        if y.size != math.prod(kept):
            continue
        wanted = np.moveaxis(y.reshape(kept), axis, 0)
        for first in range(size - length + 1):
            if np.array_equal(rows[first : first + length], wanted):
                is_dropped = list(y.shape) != kept
                begin, end, drop = [0] * x.ndim, list(x.shape), [False] * x.ndim
                begin[axis], end[axis], drop[axis] = first, first + length, is_dropped
                if not is_dropped or length == 1:
                    settings: dict[str, Array | str] = {
                        "begin": np.array(begin, np.int32),
                        "end": np.array(end, np.int32),
                        "squeeze_mask": np.array(drop),
                    }
                    yield _Written(type="slice_by_index", reads=reads, settings=settings)
                return


def _elementwise(given: list[_Floats], y: _Floats, is_read: list[bool]) -> Iterator[_Written]:
    for place, x in _single(given, is_read):
        reads = {"x": (place,)}
        if x.shape != y.shape:
            continue
        for function in find_functions(x, y):
            yield _Written(type=function.type, reads=reads, settings=function.parameters)
        low, high = float(y.min()), float(y.max())
        if low < high and _is_same(np.clip(x, low, high), y) and not _is_same(x, y):
            bounds = {"alpha": np.array(low, np.float32), "beta": np.array(high, np.float32)}
            yield _Written(type="clip", reads=reads, settings=bounds)
        size = float((x * x).sum())
        factor = float((x * y).sum()) / size if size else 0.0
        if factor and _is_same(factor * x, y):
            yield _Written(type="mul", reads=reads, settings={"y": np.array(factor, np.float32)})
        shift = float((y - x).mean())
        if shift and _is_same(x + shift, y):
            yield _Written(type="add", reads=reads, settings={"y": np.array(shift, np.float32)})
        spread = float(np.square(x - x.mean()).sum())
        slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread if spread else 0.0
        rest = float(y.mean() - slope * x.mean())
        if slope and _is_same(slope * x + rest, y):
            line = {"alpha": np.array(slope, np.float32), "beta": np.array(rest, np.float32)}
            yield _Written(type="linear_activation", reads=reads, settings=line)


_BINARY: Mapping[str, Callable[[_Floats, _Floats], _Floats]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "real_div": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "pow": np.power,
}


def _binary(given: list[_Floats], y: _Floats, is_read: list[bool]) -> Iterator[_Written]:
    for one, two in itertools.product(range(len(given)), repeat=2):
        if not (is_read[one] or is_read[two]) or (one == two and len(given) > 1):
            continue
        try:
            if np.broadcast_shapes(given[one].shape, given[two].shape) != y.shape:
                continue
        except ValueError:
            continue
        for kind, compute in _BINARY.items():
            if _is_same(compute(given[one], given[two]), y):
                yield _Written(type=kind, reads={"x": (one,), "y": (two,)})


_REDUCTIONS: Mapping[str, Callable[..., _Floats]] = {
    "reduce_mean": np.mean,
    "reduce_sum": np.sum,
    "reduce_max": np.max,
    "reduce_min": np.min,
}


def _reductions(given: list[_Floats], y: _Floats, is_read: list[bool]) -> Iterator[_Written]:
    for place, x in _single(given, is_read):
        subsets = itertools.chain.from_iterable(
            itertools.combinations(range(x.ndim), count) for count in range(1, x.ndim + 1)
        )
        for axes in subsets if x.size > y.size and x.ndim <= _MOST_AXES else ():
            if x.size // math.prod(x.shape[axis] for axis in axes) != y.size:
                continue
            for kind, compute in _REDUCTIONS.items():
                for keeps in (True, False):
                    if _is_same(np.asarray(compute(x, axis=axes, keepdims=keeps)), y):
                        settings: dict[str, Array | str] = {
                            "axes": np.array(axes, np.int32),
                            "keep_dims": np.array(keeps),
                        }
                        yield _Written(type=kind, reads={"x": (place,)}, settings=settings)


def _along_axes(given: list[_Floats], y: _Floats, is_read: list[bool]) -> Iterator[_Written]:
    """Yields softmaxes and normalizations."""
    for place, x in _single(given, is_read):
        if x.shape != y.shape:
            continue
        for axis in range(x.ndim):
            powers = np.exp(x - x.max(axis, keepdims=True))
            if x.shape[axis] > 1 and _is_same(powers / powers.sum(axis, keepdims=True), y):
                yield _Written(
                    type="softmax", reads={"x": (place,)}, settings={"axis": np.array(axis, np.int32)}
                )
        for first in range(1, x.ndim):
            yield from _norms(given, y, place, tuple(range(first, x.ndim)))


def _norms(given: list[_Floats], y: _Floats, place: int, axes: tuple[int, ...]) -> Iterator[_Written]:
    x = given[place]
    numbers = [float(a.reshape(-1)[0]) for a in given if a.size == 1]
    gains: list[int | None] = [
        i for i, a in enumerate(given) if a.shape == tuple(x.shape[axis] for axis in axes)
    ]
    centred = x - x.mean(axes, keepdims=True)
    for epsilon in [*numbers, _NORM_EPSILON]:
        even = centred / np.sqrt(np.square(centred).mean(axes, keepdims=True) + abs(epsilon))
        for gamma, beta in itertools.product([*gains, None], repeat=2):
            made = even * (1 if gamma is None else given[gamma]) + (0 if beta is None else given[beta])
            if (gamma is None or gamma != beta) and _is_same(made, y):
                reads = {"x": (place,)}
                reads |= {} if gamma is None else {"gamma": (gamma,)}
                reads |= {} if beta is None else {"beta": (beta,)}
                settings: dict[str, Array | str] = {
                    "axes": np.array(axes, np.int32),
                    "epsilon": np.array(epsilon, np.float32),
                }
                yield _Written(type="layer_norm", reads=reads, settings=settings)
                return


def _products(given: list[_Floats], y: _Floats, is_read: list[bool]) -> Iterator[_Written]:
    """Yields linear layers and products of matrices."""
    for one, two in itertools.permutations(range(len(given)), 2):
        x, w = given[one], given[two]
        if not is_read[one] or min(x.ndim, w.ndim) < 2 or x.shape[-1] not in w.shape[-2:]:
            continue
        for is_turned in (True, False):
            turned = np.swapaxes(w, -1, -2) if is_turned else w
            if x.shape[-1] != turned.shape[-2] or x.shape[-2] * turned.shape[-1] > y.size:
                continue
            try:
                made = x @ turned
            except ValueError:
                continue
            if is_read[two] and _is_same(made, y):
                settings = {"transpose_x": np.array(False), "transpose_y": np.array(is_turned)}
                yield _Written(type="matmul", reads={"x": (one,), "y": (two,)}, settings=settings)
            if is_read[two] or not is_turned or w.ndim != 2:
                continue
            if _is_same(made, y):
                yield _Written(type="linear", reads={"x": (one,), "weight": (two,)})
            for bias, b in enumerate(given):
                if b.shape == (len(w),) and _is_same(made + b, y):
                    yield _Written(type="linear", reads={"x": (one,), "weight": (two,), "bias": (bias,)})


def _convolutions(given: list[_Floats], y: _Floats, is_read: list[bool]) -> Iterator[_Written]:
    """Yields convolutions over two axes, with the strides and paddings that networks have."""
    for (place, x), (other, w) in itertools.product(_single(given, is_read), enumerate(given)):
        if (
            is_read[other]
            or not x.ndim == w.ndim == y.ndim == 4
            or y.shape[1] != len(w)
            or x.shape[1] % w.shape[1]
        ):
            continue
        if y.size * w[0].size > _MOST_PRODUCTS:
            continue
        biases: list[int | None] = [i for i, b in enumerate(given) if b.shape == (len(w),) and not is_read[i]]
        for stride, pad in itertools.product((1, 2), range(max(w.shape[2:]) // 2 + 1)):
            wide = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
            made = _convolved(wide, w, stride)
            for bias in [*biases, None] if made.shape == y.shape else []:
                shift = 0 if bias is None else given[bias].reshape(-1, 1, 1)
                if _is_same(made + shift, y):
                    reads = {"x": (place,), "weight": (other,)} | ({} if bias is None else {"bias": (bias,)})
                    settings: dict[str, Array | str] = {
                        "strides": np.array([stride] * 2, np.int32),
                        "pad": np.array([pad] * 4, np.int32),
                        "pad_type": "custom",
                        "dilations": np.array([1, 1], np.int32),
                        "groups": np.array(x.shape[1] // w.shape[1], np.int32),
                    }
                    yield _Written(type="conv", reads=reads, settings=settings)
                    return


#: Products that are computed to recognise a convolution.
_MOST_PRODUCTS = 1 << 25


def _convolved(x: _Floats, w: _Floats, stride: int) -> _Floats:
    if x.shape[2] < w.shape[2] or x.shape[3] < w.shape[3]:
        return np.zeros(0)
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))  # type: ignore[call-overload]
    windows = windows[:, :, ::stride, ::stride]
    groups = x.shape[1] // w.shape[1]
    parts = [
        np.einsum("nchwij,ocij->nohw", part, kernel)
        for part, kernel in zip(np.split(windows, groups, 1), np.split(w, groups), strict=True)
    ]
    made: _Floats = np.concatenate(parts, 1)
    return made


def _joined(given: list[_Floats], y: _Floats, is_read: list[bool]) -> Iterator[_Written]:
    """Yields concatenations and stacks of all arguments."""
    places = tuple(range(len(given)))
    for axis in range(y.ndim) if len(given) > 1 else ():
        for kind, compute in (("concat", np.concatenate), ("stack", np.stack)):
            try:
                made = compute(given, axis)
            except ValueError:
                continue
            if made.shape == y.shape and np.array_equal(made, y):
                settings: dict[str, Array | str] = {"axis": np.array(axis, np.int32)}
                if kind == "concat":
                    settings["interleave"] = np.array(False)
                yield _Written(type=kind, reads={"values": places}, settings=settings)


def _repeated(given: list[_Floats], y: _Floats, is_read: list[bool]) -> Iterator[_Written]:
    """Yields larger values with the same elements: nearest neighbours of images, copies."""
    for place, x in _single(given, is_read):
        if x.ndim != y.ndim or x.size >= y.size or any(b % a for a, b in zip(x.shape, y.shape, strict=True)):
            continue
        times = [b // a for a, b in zip(x.shape, y.shape, strict=True)]
        if x.ndim == 4 and times[:2] == [1, 1]:
            made = np.repeat(np.repeat(x, times[2], 2), times[3], 3)
            if np.array_equal(made, y):
                sizes = {
                    "scale_factor_height": np.array(times[2], np.float32),
                    "scale_factor_width": np.array(times[3], np.float32),
                }
                yield _Written(type="upsample_nearest_neighbor", reads={"x": (place,)}, settings=sizes)
        if np.array_equal(np.tile(x, times), y):
            yield _Written(type="tile", reads={"x": (place,)}, settings={"reps": np.array(times, np.int32)})


_FAMILIES: tuple[_Forms, ...] = (
    _moves,
    _elementwise,
    _binary,
    _reductions,
    _along_axes,
    _products,
    _convolutions,
    _joined,
    _repeated,
)


def find_order(wrong: Array, right: Array) -> Array | None:
    """Returns the places of the elements of one array in another one, both flat.

    Args:
        wrong: An array.
        right: An array of as many elements.

    Returns: For each element of `right` its place in `wrong`; None if one is not there, or there are too
        many.
    """
    a, b = (array.astype(np.float64).reshape(-1) for array in (wrong, right))
    if (
        a.size != b.size
        or not 1 < a.size <= _MOST_ORDERED
        or not (np.isfinite(a).all() and np.isfinite(b).all())
    ):
        return None
    order, wanted = np.argsort(a, kind="stable"), np.argsort(b, kind="stable")
    if np.abs(a[order] - b[wanted]).max() > _SAME_RESULT * max(1e-30, float(np.abs(b).max())):
        return None
    places = np.empty(a.size, np.int32)
    places[wanted] = order
    return places
