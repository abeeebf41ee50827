"""Integers that are narrowed or cut, and places of equal elements."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from coremlscope.model.ir import Array, Op
from coremlscope.verification.causes.site import Hypothesis, Site
from coremlscope.verification.intermediates import Intermediate

#: Operations that return the places of elements.
CHOOSING = frozenset({"argsort", "reduce_argmax", "reduce_argmin", "topk", "non_maximum_suppression"})
#: Operations that keep places.
KEEPING = frozenset({"cast", "squeeze", "expand_dims", "reshape", "identity"})
#: Types that integers are narrowed to.
_NARROW = (np.int8, np.uint8, np.int16, np.uint16, np.int32)
#: How a conversion keeps integers as they are.
_CODE = (
    'pipeline = ct.PassPipeline.DEFAULT; pipeline.remove_passes({"common::add_int16_cast"});'
    " ct.convert(…, pass_pipeline=pipeline)"
)


def propose_narrowed(site: Site) -> Iterator[Hypothesis[Site]]:
    """Integers are those of the reference in fewer bits, or without fractions."""
    casts = [value for value in site.region if value.type == "cast" and value.array.dtype.kind in "iu"]
    place = casts[-1] if casts else site.value
    if site.expected.dtype.kind in "iu" and site.local.dtype.kind in "iu":
        for dtype in _NARROW:
            wrapped = _wrapped(site.expected, dtype)
            odd = wrapped != site.expected
            if not odd.any():
                continue
            at = int(np.flatnonzero(odd.reshape(-1))[0])
            first, second = (int(one.reshape(-1)[at]) for one in (site.expected, wrapped))
            bounds = np.iinfo(dtype)
            yield Hypothesis(
                value=place.name,
                text=f"integers are narrowed to {np.dtype(dtype).name}, which keeps {bounds.min} …"
                f" {bounds.max}: {int(odd.sum())} of {odd.size} elements are others, {first} becomes"
                f" {second}",
                predict=lambda one, dtype=dtype: (_wrapped(one.expected, dtype), one.local),  # type: ignore[misc]
                code=_CODE,
            )
    for value in casts:
        op = site.op(value)
        before = site.compute(name=value.inputs[0]) if value.inputs else None
        if op is None or before is None or before.dtype.kind != "f":
            continue
        if np.array_equal(np.trunc(before), before):
            continue
        yield Hypothesis(
            value=value.name,
            text="it casts to integers, and fractions are lost that the reference keeps",
            predict=partial(
                _uncast, value=value, op=replace(op, type="identity", inputs={"x": op.inputs["x"]})
            ),
            cause="cast",
            code=_CODE,
        )


def _wrapped(expected: Array, dtype: npt.DTypeLike) -> Array:
    return expected.astype(np.int64).astype(dtype).astype(np.int64)


def _uncast(site: Site, *, value: Intermediate, op: Op) -> tuple[Array | None, Array]:
    """Returns the result without a cast to integers, and that of the reference."""
    is_site = value.name == site.value.name
    found = site.compute(name=value.inputs[0]) if is_site else site.compute(op=op)
    return found, site.expected


def propose_tie(site: Site) -> Iterator[Hypothesis[Site]]:
    """Places of elements differ, and the elements at both places are equal."""
    chooser = site.value
    while chooser.type in KEEPING and chooser.inputs and chooser.inputs[0] in site.ours.values:
        chooser = site.ours.values[chooser.inputs[0]]
    if chooser.type not in CHOOSING or site.local.dtype.kind not in "iu" or not chooser.inputs:
        return
    found = _scores(site, chooser.inputs[0])
    if found is not None:
        count, rows, text = found[2], found[3], found[4]
        yield Hypothesis(
            value=chooser.name,
            text=f"in {count} of {rows} places the elements at both are equal{text}, so either is right",
            predict=partial(_at_both, name=chooser.inputs[0]),
        )


def _scores(site: Site, name: str) -> tuple[Array, Array, int, int, str] | None:
    scores = site.given.get(name, site.ours.values[name].array)
    return scores_at(scores, site.local, site.expected)


def _at_both(site: Site, *, name: str) -> tuple[Array | None, Array]:
    found = _scores(site, name)
    return (None, site.local) if found is None else (found[1], found[0])


def scores_at(scores: Array, ours: Array, theirs: Array) -> tuple[Array, Array, int, int, str] | None:
    """Returns the scores at the places of both, how many places differ, and of how many.

    Args:
        scores: What was chosen from.
        ours: The places of the model.
        theirs: Those of the reference.
    """
    for axis in reversed(range(scores.ndim)):
        table = np.moveaxis(scores, axis, -1).reshape(-1, scores.shape[axis])
        if ours.size % len(table) or ours.size // len(table) > table.shape[1]:
            continue
        mine, other = (one.reshape(len(table), -1) for one in (ours, theirs))
        if min(mine.min(), other.min()) < 0 or max(mine.max(), other.max()) >= table.shape[1]:
            continue
        pair = [np.take_along_axis(table, one.astype(np.int64), -1) for one in (mine, other)]
        odd = mine != other
        text = ""
        for at in np.flatnonzero(odd.reshape(-1))[:1]:
            places = mine.reshape(-1)[at], other.reshape(-1)[at]
            text = f": at {places[0]} and at {places[1]} it is {float(pair[0].reshape(-1)[at]):.6g}"
        return pair[0], pair[1], int(odd.sum()), odd.size, text
    return None
