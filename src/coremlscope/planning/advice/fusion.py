"""Findings on operations that compilers could fuse with a layer before them, in another order or form."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from coremlscope.base.errors import MissingWeightsError
from coremlscope.ops.clamp import Clamp
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CONTRADICTIONS, CannotInfer, CannotLower, OpView
from coremlscope.planning.advice.rule import (
    AdviceRule,
    Change,
    Found,
    FunctionView,
    arguments,
    has_trait,
    listed,
    plural,
)

_WEIGHTED = Trait.CONVOLUTION | Trait.LINEAR
_MOVES = Trait.TRANSPOSITION | Trait.RESHAPE
_CANNOT_TELL = (CannotInfer, CannotLower, MissingWeightsError, *CONTRADICTIONS)
#: The factor in front of the cube in the approximation of GELU by tanh, and its tolerance.
_CUBE, _NEAR = 0.044715, 1e-3
#: Return the operations of a written-out activation, given one of a type.
_Finders: TypeAlias = Mapping[str, Callable[[FunctionView, OpView], list[OpView]]]


def _batch_norms(function: FunctionView) -> Found | None:
    found = [
        view
        for view in function.views
        if has_trait(view, Trait.CHANNEL_SCALE)
        and has_trait(function.source(view), Trait.ACTIVATION | Trait.FUNCTION)
    ]
    if not found:
        return None
    which = "stands" if len(found) == 1 else "stand"
    return Found(
        text=f"{plural(len(found), 'batch normalization')} {which} behind an activation, and cannot fold into"
        f" the weights before it: {listed(found)}.",
        ops=tuple(view.op.id for view in found),
        change=Change(removed=frozenset(view.op.id for view in found)),
    )


def _late_activations(function: FunctionView) -> Found | None:
    found = [view for view in function.views if _is_late(function, view)]
    if not found:
        return None
    which = "stands" if len(found) == 1 else "stand"
    return Found(
        text=f"{plural(len(found), 'activation')} {which} behind an operation that only moves elements, apart"
        f" from the layers that could end with {'it' if len(found) == 1 else 'them'}: {listed(found)}.",
        ops=tuple(view.op.id for view in found),
        change=Change(removed=frozenset(view.op.id for view in found)),
    )


def _is_late(function: FunctionView, view: OpView) -> bool:
    """True for an activation of moved results of weighted layers that nothing else reads."""
    if not has_trait(view, Trait.ACTIVATION) or view.op.type in ("prelu", "softplus_parametric"):
        return False
    mover = function.source(view)
    if mover is None or not _moves(mover):
        return False
    while _moves(mover) and mover.op.type != "concat":
        if not function.is_read_once(mover):
            return False
        source = function.source(mover)
        if source is None:
            return False
        mover = source
    if mover.op.type != "concat":
        return has_trait(mover, _WEIGHTED) and function.is_read_once(mover)
    values = mover.op.inputs.get("values", ())
    makers = [function.makers.get(getattr(value, "name", "")) for value in values]
    return function.is_read_once(mover) and all(
        maker is not None and has_trait(maker, _WEIGHTED) and function.is_read_once(maker) for maker in makers
    )


def _moves(view: OpView) -> bool:
    return has_trait(view, _MOVES) or view.op.type == "concat"


def _composed_activations(
    find: Callable[[FunctionView], Iterable[list[OpView]]], function: FunctionView
) -> Found | None:
    parts = {members[-1].op.id: members for members in find(function)}
    if not parts:
        return None
    ends = [members[-1] for members in parts.values()]
    gone = frozenset(view.op.id for members in parts.values() for view in members[:-1])
    what = "activation is written" if len(ends) == 1 else "activations are written"
    return Found(
        text=f"{len(ends)} {what} as several operations instead of one: those up to {listed(ends)}.",
        ops=tuple(view.op.id for members in parts.values() for view in members),
        change=Change(removed=gone, fused=dict(_joined(function, parts.values()))),
    )


def _joined(function: FunctionView, composed: Iterable[list[OpView]]) -> Iterator[tuple[str, str]]:
    """Yields the last operation of each activation that one layer could end with, and that layer.

    Written out, it reads the layer's result twice, so that nothing of it is fused.
    """
    for members in composed:
        ids = {view.op.id for view in members}
        made = {value.name for view in members for value in view.op.outputs}
        read = {value.name for view in members for value in arguments(view)} - made
        makers = [function.makers[name] for name in read if name in function.makers]
        if len(makers) != 1 or function.returned.intersection(read):
            continue
        readers = function.readers.get(makers[0].op.outputs[0].name, ())
        if ids.issuperset(reader.op.id for reader in readers):
            yield members[-1].op.id, makers[0].op.id


def _find_gelus(function: FunctionView) -> Iterator[list[OpView]]:
    """Yields the operations of each GELU that is written out, the last one last."""
    for view in function.views:
        finder = _GELUS.get(view.op.type)
        if finder is None:
            continue
        try:
            members = finder(function, view)
        except _CANNOT_TELL:
            continue
        if members:
            yield members


def _number(view: OpView) -> float | None:
    """Returns the one number that an operation of two arguments is given; None for other constants."""
    for name in ("x", "y"):
        if view.has(name) and view.is_known(name) and view.value(name).size == 1:
            return view.real(name)
    return None


def _next(function: FunctionView, view: OpView, kind: str, number: float | None = None) -> OpView | None:
    """Returns the only reader if it is of a type, and given a number."""
    reader = function.only_reader(view)
    if reader is None or reader.op.type != kind:
        return None
    given = _number(reader)
    return reader if number is None or (given is not None and abs(given - number) < _NEAR) else None


def _gelu_by_erf(function: FunctionView, erf: OpView) -> list[OpView]:
    """`x / √2`, erf, `+ 1`, and the products with x and 1/2 in any order."""
    scaled = function.source(erf)
    plus = _next(function, erf, "add", 1.0)
    if scaled is None or plus is None or scaled.op.type not in ("mul", "real_div"):
        return []
    return _products(function, [scaled, erf, plus])


def _gelu_by_tanh(function: FunctionView, tanh: OpView) -> list[OpView]:
    """`x + 0.044715 x³`, times √(2/π), tanh, `+ 1`, and the products with x and 1/2 in any order."""
    scaled, plus = function.source(tanh), _next(function, tanh, "add", 1.0)
    total = None if scaled is None else function.source(scaled)
    total = total if total is not None else function.source(scaled, "y") if scaled is not None else None
    if scaled is None or plus is None or total is None or (scaled.op.type, total.op.type) != ("mul", "add"):
        return []
    sides = [function.source(total), function.source(total, "y")]
    cube = next((s for s in sides if s is not None and s.op.type == "mul" and _is_cube(s)), None)
    if cube is None:
        return []
    power = [s for s in (function.source(cube), function.source(cube, "y")) if s is not None]
    return _products(function, [*power, cube, total, scaled, tanh, plus])


def _is_cube(view: OpView) -> bool:
    number = _number(view)
    return number is not None and abs(number - _CUBE) < _NEAR


def _products(function: FunctionView, members: list[OpView]) -> list[OpView]:
    """Adds the two products at the end of a GELU; returns nothing if they are not there."""
    first = _next(function, members[-1], "mul")
    if first is None:
        return []
    # The half may be a factor of x before, which then is the other argument of the first product.
    other = next(
        (
            source
            for source in (function.source(first), function.source(first, "y"))
            if source is not None
            and source is not members[-1]
            and source.op.type == "mul"
            and _is_half(source)
            and function.is_read_once(source)
        ),
        None,
    )
    if other is not None:
        return [other, *members, first]
    second = _next(function, first, "mul")
    if second is not None and (_is_half(first) or _is_half(second)):
        return [*members, first, second]
    return []


def find_clips(function: FunctionView) -> Iterator[tuple[list[OpView], Clamp]]:
    """Yields the operations of each bound of a value that is written out, and what they compute.

    ReLU6 is written as relu, × −1, threshold and × −1, or as a hard sigmoid and × 6.
    """
    seen: set[str] = set()
    for view in function.views:
        chain = [view] if view.op.id not in seen and _linked(view, Clamp()) is not None else []
        while chain and (reader := function.only_reader(chain[-1])) is not None:
            if _linked(reader, Clamp()) is None:
                break
            chain.append(reader)
        seen.update(one.op.id for one in chain)
        start, has_factor = 0, any(one.op.type in _FACTORS for one in chain)
        while has_factor and start < len(chain) - 1:
            ends = range(min(len(chain), start + _LONGEST), start + 1, -1)
            found = next(((end, one) for end in ends if (one := _bound(chain[start:end])) is not None), None)
            if found is not None:
                yield chain[start : found[0]], found[1]
            start = start + 1 if found is None else found[0]


def _find_bounds(function: FunctionView) -> Iterator[list[OpView]]:
    return (members for members, _ in find_clips(function))


def _bound(chain: Sequence[OpView]) -> Clamp | None:
    """Returns the two bounds that a chain with a factor sets; None if it does anything else."""
    clamp: Clamp | None = Clamp()
    for view in chain:
        clamp = None if clamp is None else _linked(view, clamp)
    is_whole = clamp is not None and clamp.is_bound and math.isfinite(clamp.low) and math.isfinite(clamp.high)
    return clamp if is_whole and any(view.op.type in _FACTORS for view in chain) else None


def _linked(view: OpView, before: Clamp) -> Clamp | None:
    """Returns a chain with an operation behind it; None if that is no factor, summand or bound."""
    try:
        link = _LINKS.get(view.op.type)
        return None if link is None else link(view, before)
    except _CANNOT_TELL:
        return None


def _scaled(before: Clamp, factor: float | None, summand: float | None = 0.0) -> Clamp | None:
    if not factor or summand is None or not math.isfinite(factor + summand):
        return None
    return before.times(factor).plus(summand)


def _hard_sigmoid(view: OpView, before: Clamp) -> Clamp | None:
    scaled = _scaled(before, view.real("alpha"), view.real("beta"))
    return None if scaled is None else scaled.within(0.0, 1.0)


def _from(view: OpView, before: Clamp) -> Clamp | None:
    number = _number(view)
    return None if number is None else before.within(number, math.inf)


def _up_to(view: OpView, before: Clamp) -> Clamp | None:
    number = _number(view)
    return None if number is None else before.within(-math.inf, number)


#: The most operations of a bound: longer chains of them are several.
_LONGEST = 16
#: Without one of these, a chain is of bounds alone, which take no time behind the first one.
_FACTORS = frozenset({"linear_activation", "mul", "sigmoid_hard"})
_LINKS: Mapping[str, Callable[[OpView, Clamp], Clamp | None]] = {
    "relu": lambda _, before: before.within(0.0, math.inf),
    "relu6": lambda _, before: before.within(0.0, 6.0),
    "clip": lambda view, before: before.within(view.real("alpha"), view.real("beta")),
    "threshold": lambda view, before: before.within(view.real("alpha"), math.inf),
    "maximum": _from,
    "minimum": _up_to,
    "linear_activation": lambda view, before: _scaled(before, view.real("alpha"), view.real("beta")),
    "sigmoid_hard": _hard_sigmoid,
    "mul": lambda view, before: _scaled(before, _number(view)),
    "add": lambda view, before: _scaled(before, 1.0, _number(view)),
}


def _is_half(view: OpView) -> bool:
    number = _number(view)
    return number is not None and abs(number - 0.5) < _NEAR


_GELUS: _Finders = {"erf": _gelu_by_erf, "tanh": _gelu_by_tanh}
RULES: tuple[AdviceRule, ...] = (
    AdviceRule(
        id="batch-norm-behind-activation",
        doc="A batch normalization directly behind a convolution or linear layer folds into its weights, and"
        " costs nothing. Behind an activation it cannot: it stays an operation that reads and writes all"
        " elements.",
        find=_batch_norms,
        fix="put the normalization before the activation and train again, or fold it by hand into the next"
        " layer, where that does not pad",
        source="apple/coremltools: graph pass fuse_conv_batchnorm, which folds behind convolutions only",
        confidence="documented",
    ),
    AdviceRule(
        id="activation-behind-move",
        doc="An activation directly behind a layer is computed while the layer writes its result. Behind a"
        " reshape, a transpose or a concat it takes a pass of its own. It gives the same result before them,"
        " because it treats every element by itself.",
        find=_late_activations,
        fix="apply the activation before the reshape, transpose or concat",
        source="the fusions that estimates assume: an activation ends the kernel before it",
        confidence="static analysis",
    ),
    AdviceRule(
        id="composed-activation",
        doc="A GELU that is written out as products, sums, and erf or tanh. Core ML has it as one operation.",
        find=partial(_composed_activations, _find_gelus),
        fix="use the operation gelu, or the coremltools passes fuse_gelu_exact and"
        " fuse_gelu_tanh_approximation",
        source="apple/coremltools: graph passes fuse_gelu_exact and fuse_gelu_tanh_approximation",
        confidence="documented",
        transform="tidy",
    ),
    AdviceRule(
        id="composed-relu6",
        doc="A ReLU6 or another bound that is written as several operations: as relu, × −1, threshold, × −1,"
        " as coremltools up to 4 converted it from Keras, or as a hard sigmoid and a factor. Core ML has it"
        " as one operation, which a convolution before it can end with.",
        find=partial(_composed_activations, _find_bounds),
        fix="write ReLU6 as one operation, relu6 or clip(0, 6): convert again with coremltools 5 or later",
        source="apple/coremltools 4: keras/_layers2.py (no direct support of RELU with max-activation value:"
        " use negate and clip layers)",
        confidence="documented",
        transform="relu6",
        is_of_networks=True,
    ),
)
