"""Other forms of an operation: another setting, type or argument, with which its result may be right."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from coremlscope.ir import Argument, Array, Constant, Function, Op, TensorType, Value, ValueType, constant
from coremlscope.ir.rewriting import constant_argument, with_ops
from coremlscope.results.verification import Cause
from coremlscope.units import shown
from coremlscope.verification.pairing import general_type

__all__ = ["OtherForm", "other_arguments", "other_forms", "with_form"]

#: Settings that are texts, and their other values (coremltools' reference of MIL operations).
_TEXTS: Mapping[str, tuple[str, ...]] = {
    "coordinates_mode": ("unnormalized", "normalized_minus_one_to_one", "normalized_zero_to_one"),
    "direction": ("forward", "reverse", "bidirectional"),
    "mode": ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION", "constant", "reflect", "replicate"),
    "padding_mode": ("constant", "border", "reflection", "symmetric"),
    "sampling_mode": (
        "DEFAULT",
        "STRICT_ALIGN_CORNERS",
        "ALIGN_CORNERS",
        "UNALIGN_CORNERS",
        "OFFSET_CORNERS",
    ),
}
#: Types that are mistaken for each other: functions of an element, reductions, poolings, sums and products.
_FAMILIES: tuple[tuple[str, ...], ...] = (
    (
        "relu",
        "relu6",
        "gelu",
        "silu",
        "sigmoid",
        "tanh",
        "softplus",
        "softsign",
        "erf",
        "exp",
        "exp2",
        "log",
        "abs",
        "square",
        "sqrt",
        "rsqrt",
        "inverse",
        "sign",
        "floor",
        "ceil",
        "round",
        "sin",
        "cos",
        "identity",
    ),
    ("reduce_mean", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_l2_norm"),
    ("max_pool", "avg_pool"),
    ("upsample_nearest_neighbor", "upsample_bilinear"),
    ("add", "sub", "mul", "real_div", "maximum", "minimum", "pow"),
)
_ELEMENTWISE = frozenset(_FAMILIES[0])
#: Numbers that frameworks take by default: slopes, bounds, epsilons (PyTorch's and TensorFlow's references).
_NUMBERS = (0.0, 0.01, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 6.0, -1.0, 1e-3, 1e-5, 1e-6, 1e-12)
#: The names of parameters that hold such numbers.
_NUMERIC = frozenset({"alpha", "beta", "epsilon", "val", "constant_val"})
#: Arguments that are tried, orders of several arguments, and axes whose orders are.
_MOST_ARGUMENTS, _MOST_ORDERED, _MOST_AXES = 24, 4, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherForm:
    """An operation in another form.

    Attributes:
        op: The operation.
        cause: What was wrong, if this one is right.
        text: What is changed: `set its axis to 1`.
        reason: What was wrong, as a sentence.
    """

    op: Op
    cause: Cause
    text: str
    reason: str


def with_form(function: Function, op: Op) -> Function:
    """Replaces the operation that computes the same value by another one.

    Args:
        function: The function.
        op: The other operation.
    """
    name = op.outputs[0].name
    ops = [
        op if op.outputs and one.outputs and one.outputs[0].name == name else one
        for one in function.graph.ops
    ]
    return with_ops(function, ops)


def other_forms(op: Op, constants: Mapping[str, Constant], wanted: Sequence[str]) -> Iterator[OtherForm]:
    """Yields other forms of an operation, the most likely first.

    Args:
        op: The operation.
        constants: The constants of its function by name.
        wanted: The types of the operations that the reference has there, in its words.
    """
    settings = {}
    for key in op.inputs:
        known = constant_argument(op, key, constants)
        if known is not None:
            settings[key] = known
    yield from _types(op, wanted)
    yield from _flags(op, settings)
    yield from _places(op, settings)
    yield from _orders(op, settings)
    yield from _sides(op, settings)
    yield from _numbers(op, settings)
    yield from _gates(op, settings)


def _types(op: Op, wanted: Sequence[str]) -> Iterator[OtherForm]:
    family = next((types for types in _FAMILIES if op.type in types), ())
    general = [general_type(name) for name in wanted]
    others = sorted((t for t in family if t != op.type), key=lambda t: general_type(t) not in general)
    if family is _FAMILIES[-1] and any(general):
        # Beside a large number, a minimum or a sum changes nothing: only what the reference has there.
        others = [name for name in others if general_type(name) in general]
    if op.type == "reduce_prod" or "reduce_prod" not in general:
        others = [name for name in others if name != "reduce_prod"]  # The product of many numbers is near 0.
    for other in others:
        for inputs in _inputs_of(op, other):
            yield OtherForm(
                op=replace(op, type=other, inputs=inputs),
                cause="other operation",
                text=f"make it {shown(other)}",
                reason=f"it computes {shown(op.type)}: {shown(other)} is right",
            )


def _inputs_of(op: Op, other: str) -> Iterator[dict[str, tuple[Argument, ...]]]:
    """Yields the arguments of an operation for another type of its family, with each setting of a flag."""
    inputs = {"x": op.inputs["x"]} if op.type in _ELEMENTWISE else dict(op.inputs)
    if other == "gelu":
        inputs["mode"] = (constant("EXACT"),)
    elif other in ("inverse", "log", "rsqrt"):
        inputs["epsilon"] = (constant(np.float32(0)),)
    elif other == "max_pool":
        inputs.pop("exclude_padding_from_average", None)
    elif other == "upsample_nearest_neighbor":
        inputs.pop("align_corners", None)
    flag = _FLAGS.get(other)
    for is_set in (False, True) if flag else ():
        yield {**inputs, str(flag): (constant(np.array(is_set)),)}
    if not flag:
        yield inputs


#: Flags that an operation has, and others of its family lack.
_FLAGS = {"avg_pool": "exclude_padding_from_average", "upsample_bilinear": "align_corners"}


def _set(op: Op, **settings: Array | str) -> OtherForm:
    """Returns an operation with other settings."""
    inputs = {**op.inputs, **{key: (constant(value),) for key, value in settings.items()}}
    (key, value), *_ = settings.items()
    text = value if isinstance(value, str) else _written(value)
    return OtherForm(
        op=replace(op, inputs=inputs),
        cause="setting",
        text=f"set its {shown(key)} to {text}",
        reason=f"its {shown(key)} is wrong: {text} is right",
    )


def _written(value: Array) -> str:
    array = np.asarray(value)
    if array.dtype.kind == "f" and array.size == 1:
        return f"{float(array.reshape(-1)[0]):.6g}"
    return str(array.tolist()).lower() if array.dtype.kind == "b" else str(array.tolist())


def _flags(op: Op, settings: Mapping[str, Constant]) -> Iterator[OtherForm]:
    """Yields other truth values and texts."""
    for key, known in settings.items():
        array = known.numpy()
        if array.size == 1 and array.dtype.kind == "b":
            yield _set(op, **{key: np.logical_not(array)})
        elif array.dtype == object and key in _TEXTS:
            own = str(array.reshape(-1)[0])
            values = _TEXTS[key]
            if key == "mode":
                values = values[:3] if own.isupper() else values[3:]
            yield from (_set(op, **{key: other}) for other in values if other != own)


def _rank(op: Op) -> int:
    given = next((a for a in op.inputs.get("x", ()) if isinstance(a.type, TensorType)), None)
    type_ = given.type if given is not None else op.outputs[0].type
    return len(type_.shape or ()) if isinstance(type_, TensorType) else 0


def _places(op: Op, settings: Mapping[str, Constant]) -> Iterator[OtherForm]:
    """Yields other axes, paddings and bounds of slices."""
    rank = _rank(op)
    for key in ("axis", "axes"):
        array = settings[key].numpy() if key in settings else np.zeros(0, np.int32)
        if array.size == 1:
            own = int(array.reshape(-1)[0]) % max(1, rank)
            for other in range(rank):
                if other != own:
                    yield _set(op, **{key: np.full_like(array, other)})
    pad = settings["pad"].numpy() if "pad" in settings else np.zeros(0, np.int32)
    if pad.ndim == 1 and pad.size % 2 == 0:
        yield from (_set(op, pad=other, **_custom(op)) for other in _paddings(pad))
    if "begin" in settings:
        yield from _slices(op, settings)


def _custom(op: Op) -> dict[str, str]:
    return {"pad_type": "custom"} if "pad_type" in op.inputs else {}


def _paddings(pad: Array) -> Iterator[Array]:
    """Yields the same padding on other sides: on one side of an axis or all, or shared between both."""
    pairs = pad.reshape(-1, 2)
    total = pairs.sum(1)
    half = total // 2
    shares = (
        np.stack([half, total - half], 1),
        np.stack([total - half, half], 1),
        np.stack([np.zeros_like(total), total], 1),
        np.stack([total, np.zeros_like(total)], 1),
        pairs[::-1],
    )
    for share in shares:
        axes = [np.arange(len(pairs))] + [np.array([axis]) for axis in range(len(pairs))]
        for chosen in axes:
            other = pairs.copy()
            other[chosen] = share[chosen]
            if not np.array_equal(other, pairs):
                yield other.reshape(-1)


def _slices(op: Op, settings: Mapping[str, Constant]) -> Iterator[OtherForm]:
    """Yields slices that begin, and end, earlier or later."""
    given = next((a.type for a in op.inputs.get("x", ()) if isinstance(a.type, TensorType)), None)
    begin = settings["begin"].numpy().astype(np.int32)
    end = settings["end"].numpy().astype(np.int32) if "end" in settings else None
    if given is None or end is None or len(given.shape or ()) != begin.size:
        return
    masks = {name: _mask(settings, name, begin.size) for name in ("begin_mask", "end_mask")}
    sizes = [size or 0 for size in given.shape or ()]
    low = np.where(masks["begin_mask"], 0, np.where(begin < 0, begin + sizes, begin)).astype(np.int32)
    high = np.where(masks["end_mask"], sizes, np.where(end < 0, end + sizes, end)).astype(np.int32)
    squeezed = _mask(settings, "squeeze_mask", begin.size)
    high = np.where(squeezed, low + 1, high)
    whole = {name: np.zeros(begin.size, bool) for name in masks}
    for axis, size in enumerate(sizes):
        length = int(high[axis] - low[axis])
        steps = sorted(range(-int(low[axis]), size - int(high[axis]) + 1), key=abs)
        for step in [s for s in steps if s and 0 < length < size][:_MOST_ARGUMENTS]:
            first, last = low.copy(), high.copy()
            first[axis] += step
            last[axis] += step
            yield _set(op, begin=first, end=last, **whole)


def _mask(settings: Mapping[str, Constant], name: str, size: int) -> Array:
    return settings[name].numpy().astype(bool) if name in settings else np.zeros(size, bool)


def _orders(op: Op, settings: Mapping[str, Constant]) -> Iterator[OtherForm]:
    """Yields other orders of axes, and of arguments."""
    perm = settings["perm"].numpy() if "perm" in settings else np.zeros(0, np.int32)
    if 1 < perm.size <= _MOST_AXES:
        own = tuple(int(axis) % perm.size for axis in perm)
        for order in itertools.permutations(range(perm.size)):
            if order != own:
                yield replace(_set(op, perm=np.array(order, np.int32)), cause="layout")
    x, y = op.inputs.get("x", ()), op.inputs.get("y", ())
    if op.type in ("sub", "real_div", "matmul", "pow", "less", "greater") and x and y:
        yield _rearranged({**op.inputs, "x": y, "y": x}, op)
    values = op.inputs.get("values", ())
    if 1 < len(values) <= _MOST_ORDERED:
        for several in itertools.permutations(values):
            if several != tuple(values):
                yield _rearranged({**op.inputs, "values": several}, op)


def _sides(op: Op, settings: Mapping[str, Constant]) -> Iterator[OtherForm]:
    """Yields constants along other axes of what they are added to, or multiplied by."""
    type_ = op.outputs[0].type if op.outputs else None
    rank = len(type_.shape or ()) if isinstance(type_, TensorType) else 0
    for key in ("x", "y") if op.type in _FAMILIES[-1] and 1 < rank <= _MOST_AXES else ():
        known = settings.get(key)
        array = np.zeros(0) if known is None else known.numpy()
        if known is None or not isinstance(known.type, TensorType) or array.size < 2:
            continue
        own = (1,) * (rank - array.ndim) + array.shape
        for shape in sorted(set(itertools.permutations(own)) - {own}):
            kept = [size for size in own if size > 1]
            if [size for size in shape if size > 1] == kept:
                moved = constant(array.reshape(shape), known.type.dtype)
                yield OtherForm(
                    op=replace(op, inputs={**op.inputs, key: (moved,)}),
                    cause="layout",
                    text=f"make the shape of its {shown(key)} {list(shape)}",
                    reason=f"its {shown(key)} has the shape {list(own)}: {list(shape)} is right",
                )


def _rearranged(inputs: Mapping[str, tuple[Argument, ...]], op: Op) -> OtherForm:
    return OtherForm(
        op=replace(op, inputs=inputs),
        cause="swapped arguments",
        text="exchange its arguments",
        reason="its arguments are in another order than in the reference",
    )


def _numbers(op: Op, settings: Mapping[str, Constant]) -> Iterator[OtherForm]:
    for key, known in settings.items():
        array = known.numpy()
        if key not in _NUMERIC or array.size != 1 or array.dtype.kind != "f":
            continue
        for number in _NUMBERS:
            if abs(float(array.reshape(-1)[0]) - number) > 1e-3 * abs(number):
                yield replace(_set(op, **{key: np.full_like(array, number)}), cause="constant")


def _gates(op: Op, settings: Mapping[str, Constant]) -> Iterator[OtherForm]:
    """Yields recurrent cells with two gates exchanged in one of their weights."""
    gates = _GATES.get(op.type, 0)
    backwards = {key: f"{key}_back" for key in settings if f"{key}_back" in settings} if gates else {}
    if backwards:
        inputs = dict(op.inputs)
        for key, other in backwards.items():
            inputs[key], inputs[other] = op.inputs[other], op.inputs[key]
        yield OtherForm(
            op=replace(op, inputs=inputs),
            cause="swapped weights",
            text="exchange the weights of both directions",
            reason="the weights of both directions are exchanged",
        )
    for pair in itertools.combinations(range(gates), 2) if gates else ():
        yield from _gates_everywhere(op, settings, gates, pair)
    for key, known in settings.items() if gates else ():
        array, type_ = known.numpy(), known.type
        if (
            not isinstance(type_, TensorType)
            or array.dtype.kind != "f"
            or array.size < 2
            or len(array) % gates
        ):
            continue
        for pair in itertools.combinations(range(gates), 2):
            order = list(range(gates))
            order[pair[0]], order[pair[1]] = pair[1], pair[0]
            moved = array.reshape(gates, -1)[order].reshape(array.shape)
            yield OtherForm(
                op=replace(op, inputs={**op.inputs, key: (constant(moved, type_.dtype),)}),
                cause="weights",
                text=f"exchange gates {pair[0]} and {pair[1]} of its {shown(key)}",
                reason=f"gates {pair[0]} and {pair[1]} of its {shown(key)} are exchanged",
            )


def _gates_everywhere(
    op: Op, settings: Mapping[str, Constant], gates: int, pair: tuple[int, int]
) -> Iterator[OtherForm]:
    """Yields a recurrent cell with two gates exchanged in all weights of one direction."""
    order = list(range(gates))
    order[pair[0]], order[pair[1]] = pair[1], pair[0]
    for end in ("", "_back"):
        inputs = dict(op.inputs)
        for key in (f"weight_ih{end}", f"weight_hh{end}", f"bias{end}"):
            array = settings[key].numpy() if key in settings else np.zeros(0)
            if array.size and len(array) % gates == 0:
                moved = array.reshape(gates, -1)[order].reshape(array.shape)
                type_ = settings[key].type
                assert isinstance(type_, TensorType)
                inputs[key] = (constant(moved, type_.dtype),)
        what = f"gates {pair[0]} and {pair[1]} of all its weights"
        if inputs != op.inputs:
            yield OtherForm(
                op=replace(op, inputs=inputs),
                cause="weights",
                text=f"exchange {what}",
                reason=f"{what} are exchanged",
            )


#: Gates of recurrent cells.
_GATES = {"gru": 3, "lstm": 4}


def _fits(op: Op, other: ValueType, own: ValueType) -> bool:
    """Returns whether an operation can read a value of another type: a reduction takes any size."""
    if other == own or not op.type.startswith("reduce_"):
        return other == own
    types = [type_ for type_ in (other, own) if isinstance(type_, TensorType)]
    return len({(type_.dtype, len(type_.shape or ())) for type_ in types}) == 1 and len(types) == 2


def other_arguments(
    op: Op, constants: Mapping[str, Constant], earlier: Sequence[Value]
) -> Iterator[OtherForm]:
    """Yields the operation with other values of the same type as its arguments.

    Args:
        op: The operation.
        constants: The constants of its function by name.
        earlier: Values that are computed before it, the nearest first.
    """
    for key, given in op.inputs.items():
        for place, argument in enumerate(given):
            if not isinstance(argument, Value) or argument.name in constants:
                continue
            others = [v for v in earlier if v.name != argument.name and _fits(op, v.type, argument.type)]
            for other in others[:_MOST_ARGUMENTS]:
                several = (*given[:place], other, *given[place + 1 :])
                yield OtherForm(
                    op=replace(op, inputs={**op.inputs, key: several}),
                    cause="wrong argument",
                    text=f"let it read {shown(other.name)} instead of {shown(argument.name)}",
                    reason=f"it reads {shown(argument.name)}: with {shown(other.name)} the result is right",
                )
