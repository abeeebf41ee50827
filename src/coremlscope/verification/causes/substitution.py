"""Values of the reference in place of those of the model: a value in another order or with another scale, an
operation that only one side has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal

import msgspec
import numpy as np

from coremlscope.base.units import shown
from coremlscope.model.ir import Array
from coremlscope.results.verification import Cause
from coremlscope.verification.causes.relation import Relation, find_relation
from coremlscope.verification.causes.site import Hypothesis, Site
from coremlscope.verification.distance import SAME, relative_error
from coremlscope.verification.intermediates import Intermediate

#: Operations that only prepare an input.
_PREPARING = frozenset({"add", "cast", "mul", "real_div", "sub"})
#: Operations that put elements in another order, or the same one in another shape.
_MOVING = frozenset({"transpose", "reshape", "concat", "pixel_shuffle", "expand_dims", "squeeze"})
#: Values of the reference that are tried in place of one.
_MOST_TRIED = 16

#: What a value of the reference stands for: an `argument` of which it computes more first; an argument
#: instead of a value that the model computes of it, and the reference does not (`extra`); the same value on
#: the `way`.
_Role = Literal["argument", "extra", "way"]


class _Swap(msgspec.Struct, frozen=True, kw_only=True):
    """A value of the model, and what the reference has there.

    Attributes:
        role: What it stands for.
        ours: The name of the value.
        theirs: That of the reference's value, or of the argument of the model that it stands for.
        own: What the model computes of the reference's values.
        right: The elements of the reference, in the shape of the model's.
        relation: What makes the one of the other, if that is known.
    """

    role: _Role
    ours: str
    theirs: str
    own: Array
    right: Array
    relation: Relation | None

    def right_at(self, site: Site) -> Array:
        """Returns the elements of the reference for the inputs of a site."""
        found = site.given if self.role == "extra" else None
        right = found[self.theirs] if found is not None else site.theirs.values[self.theirs].array
        return right.reshape(self.right.shape)

    def own_at(self, site: Site) -> Array | None:
        """Returns what the model computes of the reference's values for the inputs of a site."""
        if self.ours == site.value.name:
            return site.local
        return site.given[self.ours] if self.ours in site.given else site.compute(name=self.ours)

    def cause(self, site: Site) -> Cause | None:
        if self.relation is None and self.role == "argument" and self.is_near:
            return "epsilon"  # What keeps an operation from zero.
        if self.relation is None:
            return {"argument": "missing operation", "extra": "extra operation", "way": None}[self.role]
        if self.relation.cause in ("scale", "offset") and is_prepared(site, self.ours):
            return "preprocessing"
        is_normed = self.role == "argument" and self.relation.is_by_channel
        return "missing operation" if is_normed else self.relation.cause

    @property
    def is_near(self) -> bool:
        return relative_error(self.own, self.right) <= SAME

    @property
    def moves(self) -> bool:
        return self.relation is not None and self.relation.cause == "layout"


def substituted(*causes: Cause) -> Callable[[Site], Iterator[Hypothesis[Site]]]:
    """Returns what proposes that all is right with a value of the reference in place of one of the model.

    Args:
        *causes: Those that it yields.
    """

    def propose(site: Site) -> Iterator[Hypothesis[Site]]:
        swaps = [swap for swap in site.once("swaps", _swaps) if swap.cause(site) in causes]
        moved = list({swap.ours: swap for swap in swaps if swap.moves}.values())
        for several in [*([swap] for swap in swaps), *([moved] if len(moved) > 1 else [])]:
            found = _tried(site, several)
            if found is not None:
                yield found
        if "missing operation" in causes:
            yield from _computed_before(site)

    return propose


def _swaps(site: Site) -> list[_Swap]:
    """Returns the values of the reference between the same bounds as the wrong one, and the bounds, each in
    place of the values of the model of their size, the least likely last."""
    region = site.reference_region()
    used = {pair.theirs for pair in site.bounds}
    pairs: list[tuple[_Role, str, str, Array, Array]] = []
    for pair in site.bounds:
        own, mate = site.given[pair.ours], site.theirs.values[pair.theirs]
        behind = [
            o for o in region[1:_MOST_TRIED] if mate.name in site.theirs.above(o.name, used.__contains__)
        ]
        mates = [mate] if pair.axes else []
        pairs += [("argument", pair.ours, one.name, own, one.array) for one in (*mates, *behind)]
    for value, own in site.on_the_way():
        above = set(site.ours.above(value.name, lambda _: False))
        before = [pair.ours for pair in site.bounds if pair.ours in above]
        pairs += [("extra", value.name, name, own, site.given[name]) for name in before]
        pairs += [("way", value.name, other.name, own, other.array) for other in region[:_MOST_TRIED]]
    found = []
    for role, ours, theirs, own, right in pairs:
        if own.size == right.size and own.dtype.kind == right.dtype.kind:
            straight = right.reshape(own.shape)
            if relative_error(own, straight) > (SAME if np.isfinite(site.made) else 0.0):
                relation = find_relation(own, right)
                swap = _Swap(role=role, ours=ours, theirs=theirs, own=own, right=straight, relation=relation)
                found.append(swap)
    return found


def _tried(site: Site, several: Sequence[_Swap]) -> Hypothesis[Site] | None:
    """Returns that all is right with values of the reference; None if nothing could make them so."""
    first = several[0]
    relation = first.relation
    movers = [value for value in site.region if value.type in _MOVING]
    if relation is not None and relation.is_sorted and not movers:
        return None  # Nothing moves elements: places of equal scores look so.
    name = first.ours
    if first.moves:
        turning = (value.name for value in _above(site, first.ours) if value.type == "transpose")
        is_sorted = relation is not None and relation.is_sorted
        name = next(turning, movers[0].name if is_sorted else name)
    return Hypothesis(
        value=name if first.moves or first.role != "argument" else site.value.name,
        text=_described(several),
        predict=partial(_with_swaps, several=several),
        cause=first.cause(site),
        advice=_advice(site, several),
    )


def _with_swaps(site: Site, *, several: Sequence[_Swap]) -> tuple[Array | None, Array]:
    """Returns the result of a site with values of the reference in place of some, and the right one. What
    makes the one of the other is the same for all inputs."""
    first = several[0]
    if first.ours == site.value.name:
        relation = first.relation
        if relation is None:
            return first.right_at(site), site.expected
        # Of its result, no more is said than what makes the right one of it.
        right = np.sort(site.expected, axis=None) if relation.is_sorted else site.expected
        return relation.apply(site.local), right
    given = dict[str, Array]()
    for swap in several:
        own = swap.own_at(site)
        if own is None:
            return None, site.expected
        is_made = swap.relation is not None and not swap.relation.is_sorted
        right = swap.right_at(site)
        made = swap.relation.apply(own) if swap.relation is not None and is_made else right
        given[swap.ours] = made.reshape(right.shape)
    return site.compute(given=given), site.expected


def _above(site: Site, name: str) -> list[Intermediate]:
    """Returns a value and those on the way to it."""
    above = site.ours.above(name, lambda one: one in site.given and one != name)
    return [site.ours.values[one] for one in above if one in site.ours.values]


def _described(several: Sequence[_Swap]) -> str:
    if len(several) > 1:
        names = ", ".join(shown(swap.ours) for swap in several)
        return f"{names} have their axes in another order than in the reference"
    (swap,) = several
    theirs = f"{shown(swap.theirs)}{'' if swap.role == 'extra' else ' of the reference'}"
    if swap.relation is not None:
        return f"{shown(swap.ours)} {swap.relation.text} is {theirs}: with that all is right"
    if swap.role == "extra":
        return f"the reference has no such operation: with {theirs} all is right"
    if swap.is_near:
        return f"the reference adds a small number to {shown(swap.ours)} first: with that all is right"
    return f"the reference computes {theirs} of {shown(swap.ours)} first: with that all is right"


def _advice(site: Site, several: Sequence[_Swap]) -> str:
    """Returns what makes the right values of the wrong ones, as a sentence; empty for what the row says."""
    if any(swap.cause(site) == "preprocessing" for swap in several):
        return ""
    if all(swap.role == "extra" for swap in several):
        return f"read {', '.join(f'{shown(one.theirs)} instead of {shown(one.ours)}' for one in several)}"
    if any(swap.relation is None or swap.relation.is_sorted for swap in several):
        return ""
    texts = (f"{swap.relation.text} behind {shown(swap.ours)}" for swap in several if swap.relation)
    return f"insert {', '.join(texts)}"


def _computed_before(site: Site) -> Iterator[Hypothesis[Site]]:
    """Yields what the reference computes last of the model's result."""
    for other in site.reference_region()[1:]:
        if other.array.size == site.local.size and other.array.dtype.kind == site.local.dtype.kind:
            more = shown(site.theirs.values[site.pair.theirs].type or "more")
            yield Hypothesis(
                value=site.value.name,
                text=f"its result is {shown(other.name)} of the reference, which computes {more} of it"
                " afterwards",
                predict=partial(_last_of, name=other.name),
            )


def _last_of(site: Site, *, name: str) -> tuple[Array | None, Array]:
    return site.theirs.values[name].array.reshape(site.local.shape), site.local


def is_prepared(site: Site, name: str) -> bool:
    """Returns whether a value is an input of floats, or sums and products of one with constants."""
    above = [site.ours.values[one] for one in site.ours.above(name, lambda _: False)]
    return all(one.type in _PREPARING or not one.op for one in above) and any(
        not one.op and one.array.dtype.kind == "f" for one in above
    )


def propose_state(site: Site) -> Iterator[Hypothesis[Site]]:
    """A state keeps its content, and the reference writes to it."""
    if site.value.type == "read_state" and not site.value.inputs:
        yield Hypothesis(
            value=site.value.name,
            text=f"the state is read and not written, and the reference writes {shown(site.pair.theirs)} to"
            " it",
            predict=lambda one: (one.value.array, one.local),
        )
