"""How one array results from another: by a transposition, a scale and an offset, other places of an axis."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from coremlscope.model.ir import Array
from coremlscope.results.verification import Cause
from coremlscope.verification.distance import SAME, explains_all, find_layout, relative_error

#: Rows whose order is searched for, and elements that tell the scale and the offset of a channel.
_MOST_ROWS, _FEWEST = 512, 8
#: How far elements may be off if two numbers were fitted, relative to the largest one.
_FITTED = 1e-3


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    """What makes one array of another.

    Attributes:
        cause: The cause of which it is a sign.
        text: It as a clause: `× 0.125`, `transposed by (0, 2, 1)`.
        apply: Makes the second array of the first; of one that is known up to the order of its elements, the
            sorted one.
        is_by_channel: Whether each channel has a scale or an offset of its own.
        is_sorted: Whether only the elements are known, and not their order.
    """

    cause: Cause
    text: str
    apply: Callable[[Array], Array]
    is_by_channel: bool = False
    is_sorted: bool = False


def find_relation(own: Array, right: Array) -> Relation | None:
    """Finds what makes one array of another; None if they are the same, or no simple way is known.

    Args:
        own: The one array.
        right: The other, of as many elements.
    """
    if own.size != right.size or own.size < 2 or not (own.any() and right.any()):
        return None
    if not (np.isfinite(own).all() and np.isfinite(right).all()):
        return None
    axes = find_layout(own, right, SAME)
    if axes is not None:
        return _transposed(axes) if axes else None
    found = next(itertools.chain(_scaled(own, right), _taken(own, right)), None)
    if found is None and explains_all(np.sort(own, axis=None), np.sort(right, axis=None), _FITTED):
        is_varied = np.unique(right).size > right.size // 4
        text = "with its elements in another order"
        return Relation(cause="layout", text=text, apply=_sorted, is_sorted=True) if is_varied else None
    return found


def _sorted(array: Array) -> Array:
    return np.sort(array, axis=None)


def _transposed(axes: tuple[int, ...]) -> Relation:
    return Relation(
        cause="layout",
        text=f"transposed by {axes}",
        apply=lambda array: np.transpose(array, axes),
    )


def _scaled(own: Array, right: Array) -> Iterator[Relation]:
    """Yields a scale, an offset, or both: for all elements alike, then for each channel."""
    x, y = own.astype(np.float64), right.reshape(own.shape).astype(np.float64)
    factor, shift = float((x * y).sum() / np.square(x).sum()), float((y - x).mean())
    if factor and explains_all(factor * x, right):
        yield _affine("sign" if abs(factor + 1) <= SAME else "scale", np.array(factor), np.zeros(()))
    if y.std() > SAME * abs(shift) and explains_all(x + shift, right, _FITTED):
        yield _affine("offset", np.ones(()), np.array(shift))
    if own.dtype.kind in "iub":
        return
    places = range(own.ndim)
    for others in (tuple(places), *(tuple(p for p in places if p != axis) for axis in {1, own.ndim - 1})):
        spread = x - x.mean(others, keepdims=True)
        size = np.square(spread).sum(others, keepdims=True)
        if x.size < _FEWEST * size.size or not size.all():
            continue
        scale = (spread * y).sum(others, keepdims=True) / size
        bias = y.mean(others, keepdims=True) - scale * x.mean(others, keepdims=True)
        if scale.all() and explains_all(scale * x + bias, right, _FITTED):
            is_shift = bool(np.abs(scale - 1).max() <= _FITTED)
            scale = np.ones(()) if is_shift else scale
            yield _affine("offset" if is_shift else "scale", _one(scale), _one(bias))


def _one(numbers: Array) -> Array:
    """Returns a number instead of as many as there are channels, if they are the same."""
    is_one = np.ptp(numbers) <= _FITTED * max(1e-6, np.abs(numbers).max())
    return np.array(numbers.mean()) if is_one else numbers


def _affine(cause: Cause, scale: Array, bias: Array) -> Relation:
    has_scale, has_bias = bool(np.any(scale != 1)), bool(bias.any())
    texts = [f"× {_listed(scale)}"] * has_scale + [f"+ {_listed(bias)}"] * has_bias
    return Relation(
        cause=cause,
        text=" ".join(texts),
        apply=lambda array: np.add(np.multiply(array, scale), bias),
        is_by_channel=scale.size > 1 or bias.size > 1,
    )


def _listed(numbers: Array) -> str:
    several = numbers.reshape(-1)
    return ", ".join(f"{number:.5g}" for number in several[:3]) + (", …" if several.size > 3 else "")


def _taken(own: Array, right: Array) -> Iterator[Relation]:
    """Yields other places of an axis, as of classes or colours."""
    for axis, size in enumerate(own.shape) if own.shape == right.shape and own.dtype.kind == "f" else ():
        wrong, rows = (np.moveaxis(one, axis, 0).reshape(size, -1) for one in (own, right))
        if not 1 < size <= _MOST_ROWS:
            continue
        step = max(1, wrong.shape[1] // 64)  # So many elements tell a row from others.
        places = [int(np.abs(np.subtract(wrong[:, ::step], row[::step])).max(1).argmin()) for row in rows]
        if len(set(places)) == size and relative_error(np.take(own, places, axis), right) <= SAME:
            text = f"with places {_listed(np.array(places))} of axis {axis}"
            yield Relation(
                cause="layout",
                text=text,
                apply=lambda array, places=places, axis=axis: np.take(array, places, axis),  # type: ignore[misc]
            )
