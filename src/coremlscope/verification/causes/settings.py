"""One changed setting of an operation: a flag, a mode, an axis, a padding, an order, a default number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec.structs import replace

from coremlscope.base.units import shown
from coremlscope.model.ir import Argument, Array, Constant, Op, TensorType, constant
from coremlscope.model.ir.rewriting import constant_argument, constants_of
from coremlscope.verification.causes.site import Hypothesis, Site

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
#: Numbers that frameworks take by default: slopes, bounds, epsilons (PyTorch's and TensorFlow's references).
_NUMBERS = (0.0, 0.01, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 6.0, -1.0, 1e-3, 1e-5, 1e-6, 1e-12)
_NUMERIC = frozenset({"alpha", "beta", "epsilon", "val", "constant_val"})
#: Strides and dilations that are tried, and operations on the way.
_MOST_STEP, _MOST_OPS = 4, 6
#: An operation with another setting, and what was wrong.
_Form = tuple[Op, str, str]


def propose_settings(site: Site) -> Iterator[Hypothesis[Site]]:
    """With another setting of one operation the result is right."""
    constants = constants_of(site.call.function)
    for value in site.region[:_MOST_OPS]:
        op = site.op(value)
        for form, setting, reason in () if op is None else _forms(op, constants):
            yield Hypothesis(
                value=value.name,
                text=reason,
                predict=lambda one, form=form: (one.compute(op=form), one.expected),  # type: ignore[misc]
                advice=f"set {setting} of {shown(value.name)}",
            )


def _forms(op: Op, constants: Mapping[str, Constant]) -> Iterator[_Form]:
    """Yields an operation with other settings, the most likely first."""
    settings = {}
    for key in op.inputs:
        known = constant_argument(op, key, constants)
        if known is not None:
            settings[key] = known
    yield from _flags(op, settings)
    yield from _places(op, settings)
    yield from _orders(op)
    for key, known in settings.items():
        array = known.numpy()
        if key in _NUMERIC and array.size == 1 and array.dtype.kind == "f":
            for number in _NUMBERS:
                if abs(float(array.reshape(-1)[0]) - number) > 1e-3 * abs(number):
                    yield _set(op, **{key: np.full_like(array, number)})


def _set(op: Op, **settings: Array | str) -> _Form:
    inputs = {**op.inputs, **{key: (constant(value),) for key, value in settings.items()}}
    (key, value), *_ = settings.items()
    own = _written(op.inputs.get(key, ()))
    text = value if isinstance(value, str) else _text(value)
    return (
        replace(op, inputs=inputs),
        f"the {shown(key)} to {text}",
        f"its {shown(key)} is {own}: with {text} the result is right",
    )


def _written(given: tuple[Argument, ...]) -> str:
    known = next((one for one in given if isinstance(one, Constant)), None)
    return "another one" if known is None else _text(known.numpy())


def _text(value: Array) -> str:
    array = np.asarray(value)
    if array.dtype.kind == "f" and array.size == 1:
        return f"{float(array.reshape(-1)[0]):.6g}"
    one = array.reshape(-1)[0] if array.size == 1 else array.tolist()
    return str(one).lower() if array.dtype.kind == "b" else str(one)


def _flags(op: Op, settings: Mapping[str, Constant]) -> Iterator[_Form]:
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


def _places(op: Op, settings: Mapping[str, Constant]) -> Iterator[_Form]:
    """Yields other axes, paddings and bounds of slices."""
    rank = _rank(op)
    for key in ("axis", "axes"):
        array = settings[key].numpy() if key in settings else np.zeros(0, np.int32)
        if array.size == 1:
            own = int(array.reshape(-1)[0]) % max(1, rank)
            yield from (_set(op, **{key: np.full_like(array, axis)}) for axis in range(rank) if axis != own)
    pad = settings["pad"].numpy() if "pad" in settings else np.zeros(0, np.int32)
    for key in ("dilations", "strides"):
        steps = settings[key].numpy() if key in settings else np.zeros(0, np.int32)
        several = [np.full_like(steps, step) for step in range(1, _MOST_STEP + 1)] if steps.size else []
        for other in [steps[::-1], *several]:
            if steps.size and not np.array_equal(other, steps):
                yield _set(op, **{key: other})
                if key == "dilations" and pad.size == 2 * steps.size:
                    yield _set(op, dilations=other, pad=pad * np.repeat(other, 2) // np.repeat(steps, 2))
    if pad.ndim == 1 and pad.size % 2 == 0:
        custom = {"pad_type": "custom"} if "pad_type" in op.inputs else {}
        yield from (_set(op, pad=other, **custom) for other in _paddings(pad))


def _paddings(pad: Array) -> Iterator[Array]:
    """Yields the same padding on other sides: on one side of an axis or all, or shared between both."""
    pairs = pad.reshape(-1, 2)
    total = pairs.sum(1)
    half, none = total // 2, np.zeros_like(total)
    shares = [
        np.stack(one, 1) for one in ((half, total - half), (total - half, half), (none, total), (total, none))
    ]
    seen = {pairs.tobytes()}
    for share in (*shares, pairs[::-1]):
        for chosen in [np.arange(len(pairs)), *(np.array([axis]) for axis in range(len(pairs)))]:
            other = pairs.copy()
            other[chosen] = share[chosen]
            if other.tobytes() not in seen:
                seen.add(other.tobytes())
                yield other.reshape(-1)


def _orders(op: Op) -> Iterator[_Form]:
    """Yields the other order of two arguments."""
    x, y = op.inputs.get("x", ()), op.inputs.get("y", ())
    if op.type in ("sub", "real_div", "matmul", "pow", "less", "greater") and x and y:
        reason = "its arguments are in another order than in the reference"
        yield replace(op, inputs={**op.inputs, "x": y, "y": x}), "the other order of the arguments", reason
