"""Lower ranks: tensors of five and more dimensions without axes of one element.

The Neural Engine takes five dimensions at most, and some operations four. A batch of one image that is cut
into windows or heads has more than it needs: the axis of the batch can be left out until these are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from coremlscope.model.ir import Argument, Array, Constant, Derived, Function, Op, TensorType, Value, constant
from coremlscope.model.ir.rewriting import Chain, constants_of, names_read, with_ops
from coremlscope.ops import traits_of
from coremlscope.ops.traits import Trait

_RANK = 4
#: Operations of one tensor that compute every element by itself; other arguments are single numbers.
_BY_ELEMENT = Trait.ACTIVATION | Trait.FUNCTION
_UNARY = frozenset({"cast", "identity"})
#: Activations with a number for each channel, whose place is the second axis.
_PER_CHANNEL = frozenset({"prelu", "softplus_parametric"})
_OF_TWO = frozenset({"add", "sub", "mul", "real_div", "maximum", "minimum", "pow"})
_REDUCTIONS = frozenset(
    {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_sum_square", "reduce_l2_norm"}
)
_RESHAPES = frozenset({"reshape", "expand_dims", "squeeze"})
#: The arguments of slices with an entry for each axis.
_SLICE = ("begin", "end", "stride", "begin_mask", "end_mask", "squeeze_mask")
#: The axes of matrices in a product.
_MATRIX = 2

#: Axes of one element that are left out, in ascending order.
_Axes = tuple[int, ...]


def with_lower_ranks(function: Function) -> tuple[Function, int]:
    """Leaves out axes of one element of tensors of five and more dimensions, so that four are left.

    Elements stay in their order. Operations that have no form for fewer dimensions stay as they are, as do
    tensors without axes of one element, of shapes that are not fixed, and inputs and outputs.

    Returns:
        The function, and how many operations it has in fewer dimensions.
    """
    return _Rewriting(function).run()


class _Rewriting:
    """Rewrites one function, operation by operation."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.constants = constants_of(function)
        self.readers: dict[str, list[Op]] = {}
        for op in function.graph.ops:
            for name in dict.fromkeys(names_read(op)):
                self.readers.setdefault(name, []).append(op)
        self.ops: list[Op] = []
        #: Values without some axes, with these axes, by the names of the originals.
        self.lower: dict[str, tuple[Value, _Axes]] = {}
        #: Originals that exist only without these axes.
        self.waiting: dict[str, Value] = {}
        self.count = 0

    def run(self) -> tuple[Function, int]:
        for op in self.function.graph.ops:
            if op.constant is None and self._lower(op):
                self.count += 1
                continue
            self._restore(names_read(op))
            self.ops.append(op)
        self._restore(value.name for value in self.function.graph.outputs)
        return with_ops(self.function, self.ops), self.count

    def _lower(self, op: Op) -> bool:
        """Writes an operation in fewer dimensions, if it has such a form."""
        if op.blocks or any(_shape(value) is None for value in op.outputs):
            return False
        if op.type in _RESHAPES:
            return self._reshape(op)
        if not any(name in self.lower for name in names_read(op)):
            return False
        if op.type in _OF_TWO:
            return self._of_two(op)
        handler = _HANDLERS.get(op.type)
        if handler is not None:
            return handler(self, op)
        if op.type in _REDUCTIONS:
            return self._reduction(op)
        return _is_by_element(op) and self._by_element(op)

    def _reshape(self, op: Op) -> bool:
        """A change of shape reads the value as it is, and gives its result without axes of one element."""
        given, result = op.inputs["x"][0], op.outputs[0]
        shape = _shape(result) or ()
        if not isinstance(given, Value) or _shape(given) is None:
            return False
        axes = _removable(shape) if self._is_of_use(result) else ()
        lower = self.lower.get(given.name)
        if lower is None and not axes:
            return False
        source = given if lower is None else lower[0]
        target = _without(shape, axes)
        self._emit(op, "reshape", {"x": source, "shape": np.array(target, np.int32)}, [axes])
        return True

    def _is_of_use(self, value: Value) -> bool:
        """Returns whether everything that reads a value may have a form for fewer dimensions."""
        readers = self.readers.get(value.name, ())
        return bool(readers) and all(_may_be_lower(op) for op in readers)

    def _transpose(self, op: Op) -> bool:
        found, perm = self._taken(op), self._integers(op, "perm")
        if found is None or perm is None:
            return False
        value, axes = found
        perm = [axis % len(perm) for axis in perm]
        kept = [_moved(axis, axes) for axis in perm if axis not in axes]
        gone = tuple(place for place, axis in enumerate(perm) if axis in axes)
        self._emit(op, op.type, {"x": value, "perm": np.array(kept, np.int32)}, [gone])
        return True

    def _by_element(self, op: Op) -> bool:
        found = self._taken(op)
        others = {name: given[0] for name, given in op.inputs.items() if name != "x" and given}
        if found is None or not all(self._constant(other) is not None for other in others.values()):
            return False
        self._emit(op, op.type, {"x": found[0], **others}, [found[1]])
        return True

    def _of_two(self, op: Op) -> bool:
        shape = _shape(op.outputs[0]) or ()
        axes = next(
            (
                self.lower[a.name][1]
                for name in ("x", "y")
                for a in op.inputs[name]
                if isinstance(a, Value) and a.name in self.lower
            ),
            (),
        )
        if len(shape) <= _RANK or any(shape[axis] != 1 for axis in axes):
            return False
        inputs = {name: self._broadcast(op.inputs[name][0], axes, len(shape)) for name in ("x", "y")}
        if None in inputs.values():
            return False
        self._emit(op, op.type, {name: one for name, one in inputs.items() if one is not None}, [axes])
        return True

    def _broadcast(self, given: Argument, axes: _Axes, rank: int) -> Argument | None:
        """Returns an argument that broadcasts as before without axes of the result; None if none does."""
        known = self._constant(given)
        shape = _shape(given)
        if shape is None:
            return None
        own = tuple(axis - rank + len(shape) for axis in axes if axis >= rank - len(shape))
        if known is not None:
            target = _without(shape, own)
            return Constant(
                TensorType(_type(given).dtype, target),
                Derived(lambda: known.numpy().reshape(target), (known,)),
            )
        return self._as_lower(given, own) if own and isinstance(given, Value) else given

    def _matmul(self, op: Op) -> bool:
        arguments = [op.inputs[name][0] for name in ("x", "y")]
        shapes = [_shape(one) for one in arguments]
        rank = len(_shape(op.outputs[0]) or ())
        axes = next(self.lower[n][1] for n in names_read(op) if n in self.lower)
        if not all(_is_batch_of_one(shape, rank, axes) for shape in shapes):
            return False
        lowered = [self._broadcast(one, axes, rank) for one in arguments]
        if None in lowered:
            return False
        others = {name: given[0] for name, given in op.inputs.items() if name not in ("x", "y") and given}
        x, y = (one for one in lowered if one is not None)
        self._emit(op, op.type, {"x": x, "y": y, **others}, [axes])
        return True

    def _along_axis(self, op: Op) -> bool:
        found, axis = self._taken(op), self._integers(op, "axis")
        if found is None or axis is None:
            return False
        value, axes = found
        place = axis[0] % len(_shape(op.inputs["x"][0]) or ())
        if place in axes:
            return False
        others = {name: given[0] for name, given in op.inputs.items() if name not in ("x", "axis") and given}
        moved = np.array(_moved(place, axes), np.int32)
        self._emit(op, op.type, {"x": value, "axis": moved, **others}, [axes] * len(op.outputs))
        return True

    def _concat(self, op: Op) -> bool:
        axis = self._integers(op, "axis")
        values = op.inputs["values"]
        rank = len(_shape(op.outputs[0]) or ())
        axes = next(self.lower[n][1] for n in names_read(op) if n in self.lower)
        if axis is None or axis[0] % rank in axes:
            return False
        lowered = [self._broadcast(one, axes, rank) for one in values]
        if None in lowered:
            return False
        others = {name: given for name, given in op.inputs.items() if name not in ("values", "axis")}
        given = {
            "values": tuple(one for one in lowered if one is not None),
            "axis": (constant(np.array(_moved(axis[0] % rank, axes), np.int32)),),
            **others,
        }
        self._add(op, op.type, given, [axes])
        return True

    def _slice(self, op: Op) -> bool:
        found = self._taken(op)
        lists = {name: self._constant(op.inputs[name][0]) for name in _SLICE if op.inputs.get(name)}
        if found is None or None in lists.values():
            return False
        value, axes = found
        rank = len(_shape(op.inputs["x"][0]) or ())
        squeezed = lists.get("squeeze_mask")
        mask = [False] * rank if squeezed is None else [bool(one) for one in squeezed.numpy().reshape(-1)]
        kept = [axis for axis in range(rank) if axis not in axes]
        entries = {name: one.numpy().reshape(-1)[kept] for name, one in lists.items() if one is not None}
        # The axes that are left out, as places of a result that is without those that the slice drops.
        gone = tuple(axis - sum(mask[:axis]) for axis in axes if not mask[axis])
        self._emit(op, op.type, {"x": value, **entries}, [gone])
        return True

    def _gather(self, op: Op) -> bool:
        found, axis = self._taken(op), self._integers(op, "axis")
        indices = _shape(op.inputs["indices"][0])
        if found is None or axis is None or indices is None or (self._integers(op, "batch_dims") or [0])[0]:
            return False
        value, axes = found
        place = axis[0] % len(_shape(op.inputs["x"][0]) or ())
        if place in axes:
            return False
        others = {name: given[0] for name, given in op.inputs.items() if name not in ("x", "axis") and given}
        gone = tuple(one + (len(indices) - 1) * (one > place) for one in axes)
        self._emit(
            op, op.type, {"x": value, "axis": np.array(_moved(place, axes), np.int32), **others}, [gone]
        )
        return True

    def _reduction(self, op: Op) -> bool:
        found, reduced = self._taken(op), self._integers(op, "axes")
        keep = self._known(op, "keep_dims")
        if found is None or reduced is None:
            return False
        value, axes = found
        rank = len(_shape(op.inputs["x"][0]) or ())
        places = [axis % rank for axis in reduced]
        if set(places) & set(axes):
            return False
        is_kept = keep is not None and bool(keep.numpy().reshape(-1)[0])
        gone = axes if is_kept else tuple(a - sum(p < a for p in places) for a in axes)
        moved = np.array([_moved(place, axes) for place in places], np.int32)
        self._emit(op, op.type, {"x": value, "axes": moved, "keep_dims": np.array(is_kept)}, [gone])
        return True

    def _normalization(self, op: Op) -> bool:
        found, normalized = self._taken(op), self._integers(op, "axes")
        if found is None or normalized is None:
            return False
        value, axes = found
        rank = len(_shape(op.inputs["x"][0]) or ())
        places = [axis % rank for axis in normalized]
        if set(places) & set(axes):
            return False
        others = {name: given[0] for name, given in op.inputs.items() if name not in ("x", "axes") and given}
        moved = np.array([_moved(place, axes) for place in places], np.int32)
        self._emit(op, op.type, {"x": value, "axes": moved, **others}, [axes])
        return True

    def _taken(self, op: Op) -> tuple[Value, _Axes] | None:
        """Returns the argument `x` without its axes of one element; None if it has all of them."""
        given = op.inputs["x"][0]
        return self.lower.get(given.name) if isinstance(given, Value) else None

    def _as_lower(self, value: Value, axes: _Axes) -> Value:
        """Returns a value without some axes of one element; it is reshaped where that was not done yet."""
        known = self.lower.get(value.name)
        if known is not None and known[1] == axes:
            return known[0]
        source = value if known is None else known[0]
        type_ = TensorType(_type(value).dtype, _without(_shape(value) or (), axes))
        chain = Chain(f"{value.name}_rank_of_{len(self.ops)}", _type(value).dtype)
        chain.add("reshape", type_, x=source, shape=np.array(type_.shape, np.int32))
        name = f"{value.name}_without_{'_'.join(map(str, axes))}_of_{len(self.ops)}"
        self.ops += chain.ending(name)
        return Value(name, type_)

    def _emit(
        self, op: Op, op_type: str, inputs: Mapping[str, Argument | Array], left_out: Sequence[_Axes]
    ) -> None:
        """Adds an operation whose results are without some axes of the original's."""
        known = {
            name: (one if isinstance(one, (Value, Constant)) else constant(one),)
            for name, one in inputs.items()
        }
        self._add(op, op_type, known, left_out)

    def _add(
        self, op: Op, op_type: str, inputs: Mapping[str, tuple[Argument, ...]], left_out: Sequence[_Axes]
    ) -> None:
        outputs = []
        for value, axes in zip(op.outputs, left_out, strict=True):
            if not axes:
                outputs.append(value)
                continue
            type_ = TensorType(_type(value).dtype, _without(_shape(value) or (), axes))
            lower = Value(f"{value.name}_rank_{len(type_.shape or ())}", type_)
            outputs.append(lower)
            self.lower[value.name] = (lower, axes)
            self.waiting[value.name] = value
        self.ops.append(
            Op(
                id="",
                type=op_type,
                inputs=dict(inputs),
                outputs=tuple(outputs),
                attributes={"name": constant(outputs[0].name)},
            )
        )
        for value in op.outputs:
            if value.name in self.waiting and len(_shape(value) or ()) <= _RANK:
                self._restore([value.name])
                del self.lower[value.name]

    def _restore(self, names: Iterable[str]) -> None:
        """Adds the originals of values that exist without some of their axes only."""
        for name in names:
            value = self.waiting.pop(name, None)
            if value is None:
                continue
            chain = Chain(f"{name}_restored", _type(value).dtype)
            shape = np.array(_shape(value) or (), np.int32)
            chain.add("reshape", _type(value), x=self.lower[name][0], shape=shape)
            self.ops += chain.ending(name)

    def _integers(self, op: Op, parameter: str) -> list[int] | None:
        known = self._known(op, parameter)
        return None if known is None else [int(one) for one in known.numpy().reshape(-1)]

    def _known(self, op: Op, parameter: str) -> Constant | None:
        return next((self._constant(given) for given in op.inputs.get(parameter, ())), None)

    def _constant(self, given: Argument) -> Constant | None:
        return given if isinstance(given, Constant) else self.constants.get(given.name)


#: Functions that write an operation in fewer dimensions, by type.
_HANDLERS: Mapping[str, Callable[[_Rewriting, Op], bool]] = {
    "transpose": _Rewriting._transpose,
    "softmax": _Rewriting._along_axis,
    "concat": _Rewriting._concat,
    "split": _Rewriting._along_axis,
    "slice_by_index": _Rewriting._slice,
    "gather": _Rewriting._gather,
    "matmul": _Rewriting._matmul,
    "layer_norm": _Rewriting._normalization,
}


def _is_by_element(op: Op) -> bool:
    return op.type in _UNARY or (
        bool(traits_of(op.type) & _BY_ELEMENT) and op.type not in _PER_CHANNEL and not op.blocks
    )


def _may_be_lower(op: Op) -> bool:
    known = op.type in _RESHAPES | _OF_TWO | _REDUCTIONS or op.type in _HANDLERS
    return known or _is_by_element(op)


def _removable(shape: Sequence[int]) -> _Axes:
    """Returns the first axes of one element of a tensor of five and more dimensions, until four are left."""
    units = [axis for axis, extent in enumerate(shape) if extent == 1]
    return tuple(units[: max(len(shape) - _RANK, 0)])


def _without(shape: Sequence[int], axes: _Axes) -> tuple[int, ...]:
    return tuple(extent for axis, extent in enumerate(shape) if axis not in axes)


def _moved(axis: int, axes: _Axes) -> int:
    """Returns the place of an axis where others are left out."""
    return axis - sum(one < axis for one in axes)


def _type(given: Argument) -> TensorType:
    assert isinstance(given.type, TensorType)
    return given.type


def _is_batch_of_one(shape: Sequence[int] | None, rank: int, axes: Iterable[int]) -> bool:
    """Returns whether axes in front of the matrices of a tensor have one element each."""
    return (
        shape is not None
        and len(shape) == rank
        and all(axis < rank - _MATRIX and shape[axis] == 1 for axis in axes)
    )


def _shape(given: Argument) -> tuple[int, ...] | None:
    """Returns the fixed shape of a tensor; None for others."""
    type_ = given.type
    if not isinstance(type_, TensorType) or not type_.is_static:
        return None
    return tuple(extent or 0 for extent in type_.shape or ())
