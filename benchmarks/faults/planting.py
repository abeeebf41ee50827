"""Plants faults into converted programs, at random sites: a function a kind.

Each function returns the ways in which an operation can be made wrong; one of them is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from coremlscope.ir import Argument, Array, Constant, Function, Op, TensorType, Value, constant
from coremlscope.ir.rewriting import with_ops
from coremlscope.verification.edits import bypass, insert_after, set_constant

__all__ = ["KINDS", "Kind", "Planted", "plant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A function with a fault.

    Attributes:
        function: The function.
        ops: The names of the operations of which any is right; for an absent one, those beside it.
        causes: The causes that are right.
        text: What was done.
    """

    function: Function
    ops: frozenset[str]
    causes: frozenset[str]
    text: str


@dataclass(frozen=True, slots=True)
class Site:
    """An operation of a function, its constants and its neighbours."""

    function: Function
    op: Op
    constants: Mapping[str, Constant]
    random: np.random.Generator

    def number(self, parameter: str) -> Array | None:
        """Returns the elements of a constant parameter."""
        given = self.op.inputs.get(parameter, ())
        if len(given) != 1:
            return None
        known = given[0] if isinstance(given[0], Constant) else self.constants.get(given[0].name)
        return None if known is None else known.numpy()

    def computed(self) -> dict[str, Value]:
        """Returns the arguments that are computed, by parameter."""
        return {
            key: given[0]
            for key, given in sorted(self.op.inputs.items())
            if len(given) == 1 and isinstance(given[0], Value) and given[0].name not in self.constants
        }

    def around(self, op: Op | None = None) -> frozenset[str]:
        """Returns the names of the operations before and behind one, and its own."""
        op = op or self.op
        made, read = {v.name for v in op.outputs}, _reads(op)
        beside = (
            o for o in self.function.graph.ops if made & _reads(o) or read & {v.name for v in o.outputs}
        )
        return frozenset(
            n for o in (op, *beside) if o.type != "const" for n in (o.name, *(v.name for v in o.outputs))
        )

    def with_constant(self, parameter: str, array: Array, causes: str, text: str) -> Planted:
        """Plants another constant."""
        made = set_constant(self.function, {(self.op.id, parameter): array})
        return self.planted(made, causes, text)

    def planted(self, function: Function, causes: str, text: str, *others: str) -> Planted:
        """Returns a fault at this operation."""
        made = (value.name for value in self.op.outputs)
        ops = frozenset((self.op.name, *made, *others))
        return Planted(function=function, ops=ops, causes=frozenset(causes.split("|")), text=text)

    def replaced(self, op: Op) -> Function:
        """Returns the function with another operation here."""
        ops = self.function.graph.ops
        return with_ops(self.function, [op if one.id == self.op.id else one for one in ops])


def _reads(op: Op) -> set[str]:
    return {a.name for given in op.inputs.values() for a in given if isinstance(a, Value)}


def _shape(value: Argument) -> tuple[int | None, ...]:
    assert isinstance(value.type, TensorType)
    return tuple(value.type.shape or ())


_Faults = Iterator[Planted]
_WEIGHTS = "weights|layout|swapped weights"


def _transposed(site: Site) -> _Faults:
    weight = site.number("weight")
    if weight is not None and weight.ndim >= 2 and weight.shape[0] == weight.shape[1] > 1:
        yield site.with_constant("weight", np.swapaxes(weight, 0, 1), _WEIGHTS, "its weight transposed")


def _permuted(site: Site) -> _Faults:
    weight = site.number("weight")
    if weight is not None and weight.ndim >= 2 and len(weight) > 1:
        order = np.roll(np.arange(len(weight)), 1)
        yield site.with_constant("weight", weight[order], _WEIGHTS, "its output channels permuted")
    if weight is not None and weight.ndim >= 2 and weight.shape[1] > 1:
        yield site.with_constant("weight", weight[:, ::-1], _WEIGHTS, "its input channels reversed")


def _swapped(site: Site) -> _Faults:
    weight = site.number("weight")
    if weight is None or weight.ndim < 2:
        return
    for other in site.function.graph.ops:
        theirs = replace(site, op=other).number("weight")
        if (
            other.id == site.op.id
            or theirs is None
            or theirs.shape != weight.shape
            or other.type != site.op.type
        ):
            continue
        changes = {(site.op.id, "weight"): theirs, (other.id, "weight"): weight}
        made = set_constant(site.function, changes)
        yield site.planted(made, _WEIGHTS, f"its weight exchanged with that of {other.name}", other.name)


def _dropped_bias(site: Site) -> _Faults:
    for name in ("bias", "beta"):
        array = site.number(name)
        if array is not None and array.any():
            yield site.with_constant(
                name, np.zeros_like(array), "weights|constant|offset", f"its {name} zero"
            )


def _dropped_scale(site: Site) -> _Faults:
    gamma = site.number("gamma")
    if gamma is not None:
        yield site.with_constant("gamma", np.ones_like(gamma), "weights|constant|scale", "its gamma one")
    factor = site.number("y") if site.op.type in ("mul", "real_div") else None
    if factor is not None and factor.dtype.kind == "f":
        yield site.with_constant("y", np.ones_like(factor), "constant|weights|scale", "its factor one")


def _channel(site: Site) -> _Faults:
    weight = site.number("weight")
    if weight is not None and weight.ndim >= 2 and len(weight) > 1:
        wrong = weight.copy()
        wrong[site.random.integers(len(wrong))] *= 4
        yield site.with_constant("weight", wrong, "weights", "the scale of one channel of its weight")


def _epsilon(site: Site) -> _Faults:
    epsilon = site.number("epsilon")
    if epsilon is not None:
        yield site.with_constant("epsilon", np.array(0.3), "constant|epsilon|offset", "its epsilon 0.3")
    added = site.number("y") if site.op.type == "add" else None
    if added is not None and added.size == 1 and 0 < abs(float(added.reshape(-1)[0])) < 0.01:
        yield site.with_constant("y", np.full_like(added, 0.3), "constant|epsilon|offset", "its epsilon 0.3")


def _axis(site: Site) -> _Faults:
    axis, given = site.number("axis"), site.computed().get("x")
    if site.op.type == "softmax" and axis is not None and given is not None:
        rank, shape = len(_shape(given)), _shape(given)
        for other in range(rank):
            if other != int(axis) % rank and (shape[other] or 0) > 1:
                yield site.with_constant("axis", np.array(other), "setting|constant", f"its axis {other}")
    axes = site.number("axes")
    if axes is not None and given is not None and axes.size == 1:
        shape, rank = _shape(given), len(_shape(given))
        for other in range(rank):
            if other != int(axes[0]) % rank and shape[other] == shape[int(axes[0])]:
                yield site.with_constant("axes", np.array([other]), "setting|constant", f"its axis {other}")


def _padding(site: Site) -> _Faults:
    pad = site.number("pad")
    if pad is not None and pad.ndim == 1 and pad.any() and pad[0] == pad[1]:
        for place in range(0, pad.size, 2):
            if pad[place] == pad[place + 1] > 0:
                wrong = pad.copy()
                wrong[place], wrong[place + 1] = 0, 2 * pad[place]
                made = site.replaced(
                    replace(
                        site.op,
                        inputs={
                            **site.op.inputs,
                            "pad": (constant(wrong),),
                            "pad_type": (constant("custom"),),
                        },
                    )
                )
                yield site.planted(made, "setting", "its padding on one side")


def _aligned(site: Site) -> _Faults:
    corners = site.number("align_corners")
    if corners is not None:
        yield site.with_constant("align_corners", np.array(not corners), "setting|constant", "align_corners")


#: Activations, and what they are mistaken for.
_MISTAKEN = {
    "relu": "gelu",
    "relu6": "relu",
    "silu": "gelu",
    "gelu": "silu",
    "tanh": "sigmoid",
    "sigmoid": "tanh",
    "exp": "exp2",
    "square": "abs",
    "reduce_mean": "reduce_sum",
}


def _mistaken(site: Site) -> _Faults:
    other = _MISTAKEN.get(site.op.type)
    if other is None:
        return
    inputs = {key: given for key, given in site.op.inputs.items() if key != "mode"}
    if other == "gelu":
        inputs["mode"] = (constant("EXACT"),)
    made = site.replaced(replace(site.op, type=other, inputs=inputs))
    yield site.planted(made, "other operation|scale|missing operation", f"{other} instead of {site.op.type}")


def _gelu(site: Site) -> _Faults:
    if site.op.type == "gelu":
        inputs = {**site.op.inputs, "mode": (constant("SIGMOID_APPROXIMATION"),)}
        made = site.replaced(replace(site.op, inputs=inputs))
        yield site.planted(made, "setting|constant|other operation", "its approximation by a sigmoid")


def _bound(site: Site) -> _Faults:
    for name in ("alpha", "beta"):
        array = site.number(name)
        if array is not None and array.dtype.kind == "f" and array.size == 1:
            wrong = np.where(array == 0, 0.4, array * 0.4)
            yield site.with_constant(name, wrong.astype(np.float32), "constant", f"its {name} another number")


def _cast(site: Site) -> _Faults:
    value = site.op.outputs[0] if len(site.op.outputs) == 1 else None
    if value is None or not isinstance(value.type, TensorType) or value.type.dtype.numpy.kind != "f":
        return
    graph = site.function.graph
    if value.name in {v.name for v in graph.outputs}:
        return
    before = replace(value, name=f"{value.name}_exact")
    whole = Value(f"{value.name}_whole", replace(value.type, dtype=constant(np.int32(0)).type.dtype))  # type: ignore[union-attr]
    casts = (
        Op(
            id="",
            type="cast",
            inputs={"x": (before,), "dtype": (constant("int32"),)},
            outputs=(whole,),
            attributes={"name": constant(whole.name)},
        ),
        Op(
            id="",
            type="cast",
            inputs={"x": (whole,), "dtype": (constant(value.type.dtype.value),)},
            outputs=(value,),
            attributes={"name": constant(f"{value.name}_back")},
        ),
    )
    ops = []
    for op in graph.ops:
        ops += [replace(op, outputs=(before,)), *casts] if op.id == site.op.id else [op]
    names = (whole.name, f"{value.name}_back", value.name)
    yield site.planted(with_ops(site.function, ops), "cast", "its result cast to integers", *names)


def _missing(site: Site) -> _Faults:
    kinds = (
        "relu",
        "relu6",
        "silu",
        "gelu",
        "tanh",
        "sigmoid",
        "layer_norm",
        "batch_norm",
        "softmax",
        "elu",
        "leaky_relu",
        "log",
        "sqrt",
        "square",
        "hardswish",
        "exp",
    )
    if site.op.type in kinds and site.op.outputs[0].name not in {v.name for v in site.function.graph.outputs}:
        names = site.around()
        made = bypass(site.function, [site.op.id])
        yield site.planted(
            made, "missing operation|scale|offset|layout", f"without its {site.op.type}", *names
        )


def _sign(site: Site) -> _Faults:
    added = site.number("y") if site.op.type in ("add", "sub") else None
    if added is not None and added.any():
        yield site.with_constant("y", -added, "constant|weights|sign", "the sign of what it adds")


def _mask(site: Site) -> _Faults:
    added = site.number("y") if site.op.type == "add" else None
    if added is not None and added.ndim >= 2 and added.shape[-1] == added.shape[-2] > 1:
        yield site.with_constant(
            "y", np.swapaxes(added, -1, -2), "constant|layout|weights", "its mask transposed"
        )


def _slice(site: Site) -> _Faults:
    begin, end, given = site.number("begin"), site.number("end"), site.computed().get("x")
    if site.op.type != "slice_by_index" or begin is None or end is None or given is None:
        return
    masks = [site.number(name) for name in ("begin_mask", "end_mask", "squeeze_mask")]
    for axis, size in enumerate(_shape(given)):
        first, last, squeezed = (mask is not None and bool(mask[axis]) for mask in masks)
        if squeezed and size and size > 1:
            changes = {"begin": begin.copy(), "end": end.copy()}
            step = -1 if begin[axis] else 1
            changes["begin"][axis] += step
            changes["end"][axis] += step
        elif not squeezed and size and not (first and last):
            low = 0 if first else int(begin[axis]) % size
            high = size if last else int(end[axis]) if end[axis] > 0 else int(end[axis]) + size
            if (low, high) == (0, size):
                continue
            step = 1 if high < size else -1
            changes = {"begin": begin.copy(), "end": end.copy()}
            changes["begin"][axis], changes["end"][axis] = low + step, high + step
            for name, mask in zip(("begin_mask", "end_mask"), masks, strict=False):
                if mask is not None:
                    changes[name] = mask.copy()
                    changes[name][axis] = False
        else:
            continue
        made = set_constant(site.function, {(site.op.id, name): array for name, array in changes.items()})
        yield site.planted(made, "setting|constant|layout", "its slice off by one")


def _crossed(site: Site) -> _Faults:
    given = site.computed()
    if site.op.type in ("sub", "real_div", "matmul") and {"x", "y"} <= set(given):
        x, y = given["x"], given["y"]
        if _shape(x) == _shape(y):
            made = site.replaced(replace(site.op, inputs={**site.op.inputs, "x": (y,), "y": (x,)}))
            yield site.planted(made, "swapped arguments|sign|layout", "its arguments exchanged")
    values = site.op.inputs.get("values", ())
    if site.op.type == "concat" and len(values) > 1 and len({_shape(v) for v in values}) == 1:
        made = site.replaced(replace(site.op, inputs={**site.op.inputs, "values": tuple(reversed(values))}))
        yield site.planted(made, "swapped arguments|layout", "its arguments in another order")


def _turned(site: Site) -> _Faults:
    order, given = site.number("perm"), site.computed().get("x")
    if order is not None and given is not None:
        for a in range(order.size):
            for b in range(a):
                wrong = order.copy()
                wrong[[a, b]] = order[[b, a]]
                size = [_shape(given)[axis] for axis in order]
                if size[a] == size[b] and (size[a] or 0) > 1:
                    yield site.with_constant("perm", wrong, "layout|constant", "its axes exchanged")
    for name in ("transpose_x", "transpose_y"):
        flag, x = site.number(name), site.computed().get(name[-1])
        if flag is not None and x is not None and _shape(x)[-1] == _shape(x)[-2]:
            yield site.with_constant(name, np.array(not flag), "layout|setting", f"{name} flipped")


def _shuffled(site: Site) -> _Faults:
    shape, given = site.number("shape"), site.computed().get("x")
    if (
        site.op.type == "reshape"
        and shape is not None
        and given is not None
        and shape.size > len(_shape(given))
    ):
        readers = [o for o in site.function.graph.ops if site.op.outputs[0].name in _reads(o)]
        if len(readers) == 1 and readers[0].type == "transpose":
            made = bypass(site.function, [])
            order = replace(site, op=readers[0]).number("perm")
            if order is not None and (order != np.arange(order.size)).any():
                made = set_constant(made, {(readers[0].id, "perm"): np.arange(order.size)})
                joined = with_ops(made, made.graph.ops)
                yield site.planted(joined, "layout|constant", "its shuffle left out", readers[0].name)


def _other_value(site: Site) -> _Faults:
    if site.op.type not in ("add", "mul", "concat", "matmul"):
        return
    for key, value in site.computed().items():
        for op in site.function.graph.ops:
            if op.id == site.op.id:
                break
            for other in op.outputs:
                if op.constant is None and other.type == value.type and other.name not in _reads(site.op):
                    made = site.replaced(replace(site.op, inputs={**site.op.inputs, key: (other,)}))
                    maker = next((o for o in site.function.graph.ops if value in o.outputs), None)
                    # Who reads what an operation reads leaves that operation out.
                    is_left_out = maker is not None and other.name in _reads(maker)
                    causes = "wrong argument|missing operation" if is_left_out else "wrong argument"
                    yield site.planted(made, causes, f"it reads {other.name} as its {key}")


def _extra(site: Site) -> _Faults:
    value = site.op.outputs[0]
    if (
        len(site.op.outputs) == 1
        and isinstance(value.type, TensorType)
        and value.type.dtype.numpy.kind == "f"
    ):
        factor = np.array(site.random.choice([0.3, 1.7, 255.0, 1 / 255]), np.float32)
        made = insert_after(site.function, value.name, (), "mul", {"y": factor})
        yield site.planted(made, "scale|weights", f"its result times {float(factor):.3g}", *site.around())


def _cells(site: Site) -> _Faults:
    for name in ("weight_hh", "weight_ih", "weight_hh_l0", "bias"):
        array = site.number(name)
        if site.op.type in ("lstm", "gru") and array is not None:
            gates = 4 if site.op.type == "lstm" else 3
            size = len(array) // gates if name != "bias" else array.shape[0] // gates
            wrong = array.copy()
            wrong[:size], wrong[size : 2 * size] = array[size : 2 * size], array[:size]
            yield site.with_constant(name, wrong, _WEIGHTS, f"two gates of its {name} exchanged")


def _around(site: Site, inner: str, outer: str, number: float) -> Function:
    """Inserts an operation with a number behind a value, and the inverse one behind that."""
    name = site.op.outputs[0].name
    made = insert_after(site.function, name, (), outer, {"y": np.array(number, np.float32)})
    return insert_after(made, f"{name}_before", (), inner, {"y": np.array(number, np.float32)})


def _half(site: Site, inner: str, outer: str, number: float, causes: str, text: str) -> _Faults:
    value = site.op.outputs[0]
    is_float = isinstance(value.type, TensorType) and value.type.dtype.value == "fp16"
    if (
        len(site.op.outputs) != 1
        or not is_float
        or value.name in {v.name for v in site.function.graph.outputs}
    ):
        return
    made = _around(site, inner, outer, number)
    inside = (f"{value.name}_before", f"{value.name}_before_before", value.name)
    yield site.planted(made, causes, text, *inside)


def _overflow(site: Site) -> _Faults:
    yield from _half(site, "mul", "real_div", 6e4, "overflow", "overflows behind it")


def _underflow(site: Site) -> _Faults:
    yield from _half(site, "real_div", "mul", 6e4, "underflow|accumulation", "denormals behind it")


def _cancelled(site: Site) -> _Faults:
    yield from _half(site, "add", "sub", 1e3, "cancellation|accumulation", "a sum and its inverse behind it")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault.

    Attributes:
        name: Its name in tables.
        plant: Returns the ways to plant it at an operation.
        is_precision: Whether it is seen in fp16 only.
    """

    name: str
    plant: Callable[[Site], _Faults]
    is_precision: bool = False


KINDS: tuple[Kind, ...] = (
    Kind("weight transposed", _transposed),
    Kind("channels permuted", _permuted),
    Kind("weights swapped", _swapped),
    Kind("bias dropped", _dropped_bias),
    Kind("scale dropped", _dropped_scale),
    Kind("scale of a channel", _channel),
    Kind("epsilon", _epsilon),
    Kind("axis", _axis),
    Kind("padding", _padding),
    Kind("align_corners", _aligned),
    Kind("other activation", _mistaken),
    Kind("approximate GELU", _gelu),
    Kind("bound", _bound),
    Kind("integer cast", _cast),
    Kind("operation missing", _missing),
    Kind("sign of a sum", _sign),
    Kind("mask transposed", _mask),
    Kind("slice off by one", _slice),
    Kind("arguments exchanged", _crossed),
    Kind("axes exchanged", _turned),
    Kind("shuffle left out", _shuffled),
    Kind("other argument", _other_value),
    Kind("extra factor", _extra),
    Kind("gates exchanged", _cells),
    Kind("overflow", _overflow, is_precision=True),
    Kind("underflow", _underflow, is_precision=True),
    Kind("cancellation", _cancelled, is_precision=True),
)


def plant(function: Function, kind: Kind, seed: int) -> Iterator[Planted]:
    """Yields faults of a kind at the sites of a function, in random order.

    Args:
        function: The function.
        kind: The kind.
        seed: The seed of the order, and of what is drawn at a site.
    """
    random = np.random.default_rng(seed)
    constants = {op.outputs[0].name: op.constant for op in function.graph.ops if op.constant is not None}
    ops = [op for op in function.graph.ops if op.constant is None and not op.blocks]
    for place in random.permutation(len(ops)):
        ways = list(kind.plant(Site(function, ops[place], constants, random)))
        if ways:
            yield ways[int(random.integers(len(ways)))]
