"""Flexible inputs that share a dimension: the shape of one decides those of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from coremlscope.base.errors import InputError
from coremlscope.base.units import shown
from coremlscope.model.features import bind_shapes
from coremlscope.model.features.description import describe_shape
from coremlscope.model.ir import (
    ArrayFeature,
    EnumeratedShapes,
    Feature,
    Model,
    RangeShapes,
    ShapeFlexibility,
    default_shape,
)
from coremlscope.runtime.execution.binding import bind_model, choose_function

_Shape = tuple[int, ...]
_Shapes = Mapping[str, _Shape]


def link_shapes(model: Model, function: str | None, given: _Shapes) -> dict[str, _Shape]:
    """Returns requested shapes with those of other flexible inputs that must agree with them.

    A program does not say which inputs share a dimension. Two are linked if its operations fit when they
    agree, and do not when they differ.

    Args:
        model: A program.
        function: The function's name; None for the default one.
        given: The requested shapes of inputs, by name.

    Raises:
        InputError: The shapes do not fit together, or one of them is not allowed.
    """
    chosen = choose_function(model, function)
    flexible = {one.name: kind for one in chosen.description.inputs if (kind := _flexibility(one))}
    bound = bind_shapes(chosen.description, given)
    asked = {name: bound[name] for name in given if name in flexible}
    if not asked:
        return dict(given)
    found = dict(given)
    for name in flexible:
        if name in given or name not in bound:
            continue
        if (paired := _paired(flexible, name, asked)) is not None:
            found[name] = paired
            continue
        candidates = [_agreeing(flexible, name, other, asked[other], bound[name]) for other in asked]
        for shape in dict.fromkeys(candidate for candidate in candidates if candidate):
            if shape == bound[name] or _problem(model, function, {**found, name: shape}):
                continue
            others = (bound[name], *_others(flexible[name], shape))
            if any(_problem(model, function, {**found, name: other}) for other in others):
                found[name] = shape
                break
    _check(model, function, found, [name for name in flexible if name not in found])
    return found


def _flexibility(feature: Feature) -> ShapeFlexibility | None:
    type_ = feature.type
    if not isinstance(type_, ArrayFeature) or default_shape(type_) is None or type_.takes_sequences:
        return None
    return type_.flexibility


def _paired(flexible: Mapping[str, ShapeFlexibility], name: str, asked: _Shapes) -> _Shape | None:
    """Returns the enumerated shape of the index of another input's, as Core ML takes only such pairs."""
    mine = flexible[name]
    if not isinstance(mine, EnumeratedShapes):
        return None
    for other, shape in asked.items():
        its = flexible[other]
        if isinstance(its, EnumeratedShapes) and len(its.shapes) == len(mine.shapes) and shape in its.shapes:
            return mine.shapes[its.shapes.index(shape)]
    return None


def _agreeing(
    flexible: Mapping[str, ShapeFlexibility], name: str, other: str, asked: _Shape, default: _Shape
) -> _Shape | None:
    """Returns the shape of an input that agrees with that of another one; None if none does."""
    mine, its = flexible[name], flexible[other]
    if not (isinstance(mine, RangeShapes) and isinstance(its, RangeShapes)):
        return None
    sizes = {bounds: size for bounds, size in zip(its.bounds, asked, strict=False) if bounds[0] != bounds[1]}
    return tuple(sizes.get(bounds, size) for bounds, size in zip(mine.bounds, default, strict=False))


def _others(flexibility: ShapeFlexibility, shape: _Shape) -> Iterator[_Shape]:
    """Yields another allowed shape, none of whose flexible sizes is 1, which would be broadcast."""
    if isinstance(flexibility, EnumeratedShapes):
        yield from [one for one in flexibility.shapes if one != shape][:1]
        return
    for step in (1, -1):
        changed = tuple(
            size if low == high else size + step
            for size, (low, high) in zip(shape, flexibility.bounds, strict=True)
        )
        pairs = zip(changed, flexibility.bounds, strict=True)
        if all(
            low <= size and size > 1 and (high < 0 or size <= high)
            for size, (low, high) in pairs
            if low != high
        ):
            yield changed
            return


def _problem(model: Model, function: str | None, shapes: _Shapes) -> str:
    """Returns why operations do not fit the shapes of the inputs; empty if they do."""
    problems = bind_model(model, function, shapes).problems
    return problems[0][1] if problems else ""


def _check(model: Model, function: str | None, shapes: _Shapes, left: Sequence[str]) -> None:
    """Checks that shapes fit together, if those of the description do.

    Raises:
        InputError: They do not.
    """
    problem = _problem(model, function, shapes)
    if not problem or _problem(model, function, {}):
        return
    listed = ", ".join(f"{shown(name)} {describe_shape(shape)}" for name, shape in shapes.items())
    raise InputError(
        f"the program does not fit the shapes {listed}: {problem}",
        f"give the shape of {' and '.join(map(shown, left))} as well" if left else "give shapes that agree",
    )
