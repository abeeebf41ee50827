"""Values in another order, or with a scale or an offset, and operations that only one side has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from coremlscope.base.units import shown
from coremlscope.model.ir import Array, Function
from coremlscope.results.verification import Cause
from coremlscope.verification.causes.site import Change, Hypothesis, Site, parameters_of
from coremlscope.verification.distance import SAME, Relation, explains_all, find_relation, relative_error
from coremlscope.verification.edits import bypass, insert_after, read_instead, set_constant
from coremlscope.verification.intermediates import Intermediate

__all__ = [
    "is_prepared",
    "predict_extra",
    "predict_layout",
    "predict_missing",
    "predict_preprocessing",
    "predict_relation",
    "predict_state",
]

#: Operations that only prepare an input.
_PREPARING = frozenset({"add", "cast", "mul", "real_div", "sub"})
#: Arguments that are tried in place of others, and rows whose order is.
_MOST_TRIED, _MOST_ROWS = 16, 512
#: Operations that put elements in another order, or the same one in another shape.
_MOVING = frozenset({"transpose", "reshape", "concat", "pixel_shuffle", "expand_dims", "squeeze"})
#: Layers with weights, whose results have a summand for each channel.
_WEIGHTED = frozenset({"conv", "conv_transpose", "linear"})
_CAUSES: dict[str, Cause] = {
    "permuted": "layout",
    "reordered": "layout",
    "scaled": "scale",
    "shifted": "offset",
    "negated": "sign",
}


def _described(relation: Relation, what: str) -> str:
    more = "" if relation.axis is None else ", plus a number for each channel"
    return {
        "permuted": f"{what} with its axes in another order: transposed by {relation.axes} it equals it",
        "reordered": f"{what} with its elements in another order",
        "scaled": f"{what} times {relation.number:.5g}{more}",
        "shifted": f"{what} plus {relation.number:.5g}",
        "negated": f"{what} with the other sign",
    }[relation.kind]


def _undone(relation: Relation, target: str, readers: tuple[str, ...]) -> tuple[Change, ...]:
    """Returns the operation that undoes a scale, an offset or a transposition behind a value."""
    number = relation.number or 1.0
    settings: dict[str, tuple[str, str, dict[str, Array]]] = {
        "scaled": (f"multiply by {1 / number:.6g}", "mul", {"y": np.array(1 / number, np.float32)}),
        "shifted": (f"add {-relation.number:.6g}", "add", {"y": np.array(-relation.number, np.float32)}),
        "negated": ("multiply by −1", "mul", {"y": np.array(-1, np.float32)}),
        "permuted": (
            f"transpose by {relation.axes}",
            "transpose",
            {"perm": np.array(relation.axes, np.int32)},
        ),
    }
    if relation.kind not in settings or relation.axis is not None:
        return ()
    text, kind, parameters = settings[relation.kind]
    apply = partial(insert_after, name=target, readers=readers, op_type=kind, parameters=parameters)
    return (Change(text=f"{text} behind {shown(target)}", values=(target,), apply=apply),)


def predict_layout(site: Site) -> Iterator[Hypothesis]:
    """The result, an argument or a value on the way has its axes, its rows or its elements in another
    order."""
    moved = {pair.ours: pair for pair in site.bounds if pair.axes}
    for names in [*([name] for name in moved), *([list(moved)] if len(moved) > 1 else [])]:
        straight = {
            name: site.theirs.values[moved[name].theirs].array.reshape(site.given[name].shape)
            for name in names
        }
        found = site.compute(given=straight)
        if found is not None:
            pair = moved[names[0]]
            relation = Relation(kind="permuted", axes=pair.axes)
            text = f"{shown(pair.ours)} is {_described(relation, f'{shown(pair.theirs)} of the reference')}"
            changes = _undone(relation, pair.ours, ()) if len(names) == 1 else ()
            yield Hypothesis(
                value=_mover(site, pair.ours),
                text=text,
                predicted=found,
                observed=site.expected,
                changes=changes,
            )
    yield from _other_order_on_the_way(site)
    yield from _other_rows(site)


def _mover(site: Site, name: str) -> str:
    """Returns the transposition above a value; the value itself without one."""
    above = site.ours.above(name, lambda one: one in site.given and one != name)
    values = [site.ours.values[one] for one in above if one in site.ours.values]
    return next((value.name for value in values if value.type == "transpose"), name)


def _other_order_on_the_way(site: Site) -> Iterator[Hypothesis]:
    """Yields values with the elements of one of the reference, from which, in its order, all is right: each
    by itself, then all together."""
    found: list[tuple[Intermediate, Intermediate, Array]] = []
    for value in reversed(site.region):
        own = site.compute(name=value.name)
        for other in site.reference_region():
            kinds = other.array.dtype.kind, value.array.dtype.kind
            if own is None or other.array.size != value.array.size or kinds[0] != kinds[1]:
                continue
            straight, mine = other.array.reshape(value.array.shape), np.sort(own, axis=None)
            is_other = relative_error(value.array, straight) > SAME
            if is_other and explains_all(mine, np.sort(straight, axis=None)):
                found.append((value, other, straight))
                break
    for several in [*([one] for one in found), *([found] if len(found) > 1 else [])]:
        value, other, straight = several[0]
        is_site = value.name == site.value.name
        predicted = straight if is_site else site.compute(given={one.name: a for one, _, a in several})
        makers = [one for one in (value, *site.region) if one.type in _MOVING]
        if predicted is None or not makers:
            continue  # Nothing moves elements: places of equal scores look so.
        text = (
            f"{shown(value.name)} has the elements of {shown(other.name)} of the reference in another order"
        )
        turned = next((one for one in makers if one.type == "transpose"), None)
        change = (
            None
            if turned is None
            else Change(
                text=f"remove the transposition {shown(turned.name)}",
                values=(turned.name,),
                apply=partial(bypass, op_ids=(turned.op,)),
            )
        )
        yield Hypothesis(
            value=(turned or makers[0]).name,
            text=text,
            # That the right elements stand somewhere else is all that is said of the site itself.
            predicted=np.sort(site.local, axis=None) if is_site else predicted,
            observed=np.sort(site.expected, axis=None) if is_site else site.expected,
            changes=() if change is None else (change,),
        )


def _other_rows(site: Site) -> Iterator[Hypothesis]:
    """Yields the result with its rows along one axis in another order, as those of classes or colours."""
    for axis, size in enumerate(site.local.shape):
        wrong, right = (np.moveaxis(one, axis, 0).reshape(size, -1) for one in (site.local, site.expected))
        if not 1 < size <= _MOST_ROWS or wrong.dtype.kind != "f":
            continue
        places = [int(np.abs(np.subtract(wrong, row, dtype=np.float64)).max(1).argmin()) for row in right]
        if len(set(places)) < size or places == list(range(size)):
            continue
        listed = ", ".join(map(str, places[:6])) + (", …" if size > 6 else "")
        parameters = {"indices": np.array(places, np.int32), "axis": np.array(axis, np.int32)}
        apply = partial(
            insert_after, name=site.value.name, readers=(), op_type="gather", parameters=parameters
        )
        where = f"places {listed} of axis {axis}"
        yield Hypothesis(
            value=site.value.name,
            text=f"its rows along axis {axis} are in another order: {where} are those of the reference",
            predicted=np.take(site.local, places, axis),
            observed=site.expected,
            changes=(Change(text=f"take {where}", values=(site.value.name,), apply=apply),),
        )


def predict_preprocessing(site: Site) -> Iterator[Hypothesis]:
    """What is computed from an input alone, by sums and products, is that of the reference with another scale
    or offset, or with its channels in another order."""
    for pair in site.bounds:
        if not is_prepared(site, pair.ours):
            continue
        given = site.given[pair.ours]
        for other in site.reference_region():
            if other.name == site.pair.theirs or other.array.size != given.size:
                continue
            straight = other.array.reshape(given.shape)
            fitted = _fit_channels(given, straight)
            found = None if fitted is None else site.compute(given={pair.ours: straight})
            if found is not None and fitted is not None:
                yield Hypothesis(
                    value=site.value.name,
                    text=f"the reference takes {fitted[0]} of {shown(pair.ours)} first, as"
                    f" {shown(other.name)}, which the model does not",
                    predicted=found,
                    observed=site.expected,
                    changes=_prepared(site, pair.ours, *fitted[1:]),
                )
    if len(site.bounds) == 1 and is_prepared(site, site.bounds[0].ours):
        given = site.given[site.bounds[0].ours]
        is_image = given.ndim == 4 and given.shape[1] == 3
        found = site.compute(given={site.bounds[0].ours: given[:, ::-1]}) if is_image else None
        if found is not None:
            yield Hypothesis(
                value=site.value.name,
                text="the colours are in another order: with red and blue exchanged all is right",
                predicted=found,
                observed=site.expected,
            )
    if site.value.type in _PREPARING and all(is_prepared(site, name) for name in site.value.inputs):
        fitted = _fit_channels(site.local, site.expected)
        if fitted is not None:
            planes = (-1, *(1,) * (site.local.ndim - 2)) if fitted[1].size > 1 else ()
            scale, bias = (one.reshape(planes) for one in fitted[1:])
            yield Hypothesis(
                value=site.value.name,
                text=f"it prepares an input: {fitted[0]} of its result is that of the reference",
                predicted=np.add(np.multiply(site.local, scale), bias).astype(np.float32),
                observed=site.expected,
                changes=_prepared(site, site.value.name, scale, bias),
            )


def is_prepared(site: Site, name: str) -> bool:
    """Returns whether a value is an input of floats, or sums and products of one with constants."""
    above = [site.ours.values[one] for one in site.ours.above(name, lambda _: False)]
    return all(one.type in _PREPARING or not one.op for one in above) and any(
        not one.op and one.array.dtype.kind == "f" for one in above
    )


def _fit_channels(given: Array, wanted: Array) -> tuple[str, Array, Array] | None:
    """Returns the scale and the offset, of each channel of an image, that make a value of another; None if
    it is the same already."""
    if given.shape != wanted.shape or given.size < 8 or not np.isfinite(given).all():
        return None
    channels = given.shape[1] if given.ndim == 4 else 1
    x, y = (np.moveaxis(one.astype(np.float64), min(1, one.ndim - 1), 0) for one in (given, wanted))
    x, y = (one.reshape(channels, -1) for one in (x, y))
    spread = x - x.mean(1, keepdims=True)
    size = np.square(spread).sum(1)
    if not size.all():
        return None
    scale = (spread * (y - y.mean(1, keepdims=True))).sum(1) / size
    bias = y.mean(1) - scale * x.mean(1)
    made = scale[:, None] * x + bias[:, None]
    if not explains_all(made, y, 1e-3) or relative_error(x, y) <= SAME:
        return None
    if np.ptp(scale) <= 1e-4 * abs(scale[0]) and np.ptp(bias) <= 1e-4 * max(1e-6, abs(bias[0])):
        scale, bias = scale[:1], bias[:1]
    listed = [", ".join(f"{number:.4g}" for number in one) for one in (scale, bias)]
    planes = (1, -1, 1, 1) if scale.size > 1 else (-1,)
    return f"× {listed[0]} + {listed[1]}", scale.reshape(planes), bias.reshape(planes)


def _prepared(site: Site, target: str, scale: Array, bias: Array) -> tuple[Change, ...]:
    """Returns the change that scales an input as the reference does."""

    def apply(function: Function) -> Function:
        ids = tuple(site.ours.values[name].op for name in site.ours.readers.get(target, ()))
        readers = ids if not site.ours.values[target].op else ()
        shifted = insert_after(function, target, readers, "add", {"y": bias.astype(np.float32)})
        return insert_after(shifted, target, readers, "mul", {"y": scale.astype(np.float32)})

    return (
        Change(
            text=f"scale {shown(target)} as the reference does",
            values=(target,),
            apply=apply,
            code="ct.ImageType(scale=…, bias=…) of the reference",
        ),
    )


def predict_missing(site: Site) -> Iterator[Hypothesis]:
    """With a value that the reference computes first as its argument, or before what the reference computes
    last, all is right."""
    for other in site.reference_region()[1:]:
        if other.array.size == site.local.size and other.array.dtype.kind == site.local.dtype.kind:
            text = (
                f"its result is {shown(other.name)} of the reference, which computes"
                f" {shown(site.theirs.values[site.pair.theirs].type or 'more')} of it afterwards"
            )
            yield Hypothesis(
                value=site.value.name,
                text=text,
                predicted=other.array.reshape(site.local.shape),
                observed=site.local,
            )
    yield from _missing_ahead(site)


def _missing_ahead(site: Site) -> Iterator[Hypothesis]:
    """Yields what the reference computes of an argument first."""
    moved: dict[str, Array] = {}
    for pair in site.bounds:
        array = site.given[pair.ours]
        for other in site.reference_region()[1:_MOST_TRIED]:
            if other.array.size != array.size or not _follows(site, other, pair.theirs):
                continue
            straight = other.array.reshape(array.shape)
            if relative_error(array, straight) <= SAME:
                continue
            found = site.compute(given={pair.ours: straight})
            if found is None:
                continue
            relation = find_relation(array, straight)
            if relation is not None and relation.kind == "permuted":
                moved.setdefault(pair.ours, straight)
            what = f"{shown(other.name)} of the reference"
            reader = site.value.op if pair.ours in site.value.inputs else ""
            text = f"the reference computes {shown(other.type or 'something')} of {shown(pair.ours)} first"
            if relation is not None:
                text = f"its argument {shown(pair.ours)} is {_described(relation, what)}"
            yield Hypothesis(
                value=site.value.name,
                text=f"{text}: with that all is right",
                predicted=found,
                observed=site.expected,
                cause=None if relation is None else _CAUSES[relation.kind],
                changes=() if relation is None or not reader else _undone(relation, pair.ours, (reader,)),
            )

    found = site.compute(given=moved) if len(moved) > 1 else None
    if found is not None:
        yield Hypothesis(
            value=site.value.name,
            text=f"its arguments {', '.join(map(shown, moved))} have their axes in another order",
            predicted=found,
            observed=site.expected,
            cause="layout",
            changes=(_reordered(site, moved),),
        )


def _reordered(site: Site, moved: Mapping[str, Array]) -> Change:
    """Returns the transposition of several arguments."""
    axes = {name: find_relation(site.given[name], array) for name, array in moved.items()}

    def apply(function: Function) -> Function:
        for name, relation in axes.items():
            parameters = {"perm": np.array(relation.axes if relation else (), np.int32)}
            function = insert_after(function, name, (site.value.op,), "transpose", parameters)
        return function

    return Change(text=f"transpose {', '.join(map(shown, moved))}", values=(site.value.name,), apply=apply)


def _follows(site: Site, other: Intermediate, theirs: str) -> bool:
    used = {pair.theirs for pair in site.bounds}
    return theirs in site.theirs.above(other.name, lambda name: name in used)


def predict_extra(site: Site) -> Iterator[Hypothesis]:
    """With an argument instead of what the model computes of it, all that follows is right; also with two,
    where both were transposed."""
    found: list[tuple[str, str, Array, Relation | None]] = []
    for value in reversed(site.region):
        above = set(site.ours.above(value.name, lambda _: False))
        for pair in site.bounds:
            array = site.given[pair.ours]
            if pair.ours in above and array.size == value.array.size:
                straight = array.reshape(value.array.shape)
                if relative_error(value.array, straight) > SAME:
                    found.append((value.name, pair.ours, straight, find_relation(value.array, straight)))
    moved = [one for one in found if one[3] is not None and one[3].kind == "permuted"]
    for several in [*([one] for one in found), *([moved] if len(moved) > 1 else [])]:
        name, given, straight, relation = several[0]
        is_site = name == site.value.name
        predicted = straight if is_site else site.compute(given={n: array for n, _, array, _ in several})
        if predicted is None:
            continue
        own = "" if relation is None else f": it is {_described(relation, shown(given))}"
        instead = {n: other for n, other, _, _ in several}
        shapes = [site.ours.values[n].array.shape == site.given[other].shape for n, other in instead.items()]
        change = Change(
            text=f"read {', '.join(f'{shown(b)} instead of {shown(a)}' for a, b in instead.items())}",
            values=tuple(instead),
            apply=partial(read_instead, instead=instead),
        )
        yield Hypothesis(
            value=name,
            text=f"the reference has no such operation{own}; with {shown(given)} all is right",
            predicted=predicted,
            observed=site.expected,
            cause=None if relation is None else _CAUSES[relation.kind],
            changes=(change,) if all(shapes) else (),
        )


def predict_relation(site: Site) -> Iterator[Hypothesis]:
    """The result is that of the reference times a number, plus a number, or transposed."""
    relation = find_relation(site.local, site.expected)
    if relation is None or relation.kind == "reordered":
        return
    if relation.axis is not None and site.value.type not in _WEIGHTED:
        return  # The factor of a function of which only a small part is seen.
    expected = site.expected.astype(np.float64)
    name = shown(site.pair.theirs)
    changes = _undone(relation, site.value.name, ())
    if relation.kind == "permuted":
        predicted, observed = np.transpose(site.local, relation.axes), site.expected
    else:
        factor = {"scaled": relation.number, "negated": -1.0}.get(relation.kind, 1.0)
        predicted = factor * expected + (relation.number if relation.kind == "shifted" else 0.0)
        observed = site.local
    weight = parameters_of(site.value).get("weight")
    if relation.axis is not None and weight is not None:
        others = tuple(axis for axis in range(expected.ndim) if axis != relation.axis)
        predicted = predicted + np.subtract(observed, predicted).mean(others, keepdims=True)
        keyed = {(site.value.op, "weight"): weight.astype(np.float64) / relation.number}
        text = f"multiply the weight of {shown(site.value.name)} by {1 / relation.number:.6g}"
        apply = partial(set_constant, changes=keyed)
        changes = (Change(text=text, values=(site.value.name,), apply=apply),)
    yield Hypothesis(
        value=site.value.name,
        text=f"its result is {_described(relation, f'{name} of the reference')}",
        predicted=predicted,
        observed=observed,
        cause=_CAUSES[relation.kind],
        changes=changes,
    )


def predict_state(site: Site) -> Iterator[Hypothesis]:
    """A state keeps its content, and the reference writes to it."""
    if site.value.type == "read_state" and not site.value.inputs:
        yield Hypothesis(
            value=site.value.name,
            text=f"the state is read and not written, and the reference writes {shown(site.pair.theirs)} to"
            " it",
            predicted=site.value.array,
            observed=site.local,
        )
