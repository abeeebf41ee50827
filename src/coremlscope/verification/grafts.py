"""Operations of a reference, written in MIL: what a program lacks, or computes in another way.

A reference tells the type of an operation in the words of its framework, and not always its settings. So each
operation is recognised by its values: the operation of MIL that makes its result of its arguments is written
down, and what nothing makes is not written at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from coremlscope.ir import Argument, Array, DType, Function, Op, TensorType, Value, constant
from coremlscope.ir.rewriting import with_ops
from coremlscope.verification.distance import SAME
from coremlscope.verification.edits import read_instead
from coremlscope.verification.intermediates import Intermediate, Run
from coremlscope.verification.pairing import Pair
from coremlscope.verification.recognition.families import find_forms
from coremlscope.verification.recognition.moved_elements import find_order

__all__ = ["Graft", "find_graft"]

#: Operations that are written for one value, and elements of a value.
_MOST_OPS, _MOST_ELEMENTS = 128, 1 << 22


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

    def ahead_of(self, function: Function, readers: Collection[str], name: str) -> Function:
        """Returns a function in which some operations read the graft instead of a value.

        Args:
            function: The function.
            readers: The ids of the operations.
            name: The value.
        """
        graph = function.graph
        known = {v.name: v for v in (*graph.inputs, *(v for op in graph.ops for v in op.outputs))}
        made = replace(known[name], name=f"{name}_{self.result.name}")
        place = next(place for place, op in enumerate(graph.ops) if op.id in readers)
        ops = (*graph.ops[:place], *self._ending(made), *graph.ops[place:])
        added = replace(function, graph=replace(graph, ops=ops))
        return read_instead(added, {name: made.name}, set(readers))

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

    Returns:
        The operations; None if one of them is not recognised, or they need too many.
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
        form = next(find_forms(value, arguments, [isinstance(s, str) for s in sources]), None)
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
