"""Shapes for models that are compared, where the file of one gives no sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from coremlscope.model.ir import ArrayFeature, Model, RangeShapes

_UNBOUNDED = -1


def choose_shapes(
    models: Iterable[Model], function: str | None, given: Mapping[str, Sequence[int]]
) -> dict[str, tuple[int, ...]]:
    """Returns given shapes of inputs, and those of Core AI models without sizes: the defaults of the others.

    A Core AI file has no default sizes of variable dimensions, and models compared at different sizes would
    differ in all figures.

    Args:
        models: The models that are compared.
        function: Their function; None for the default one of each.
        given: Shapes by the names of inputs; they come first.

    Returns:
        The shapes by the names of inputs; none for an input that no other model has with a shape that fits.
    """
    declared: dict[str, tuple[int, ...]] = {}
    open_bounds: dict[str, list[tuple[tuple[int, int], ...]]] = {}
    for model in models:
        description = model.description.functions.get(function or model.description.default)
        for feature in description.inputs if description is not None else ():
            if not isinstance(feature.type, ArrayFeature):
                continue
            flexibility = feature.type.flexibility
            if model.container == "aimodel" and isinstance(flexibility, RangeShapes):
                open_bounds.setdefault(feature.name, []).append(flexibility.bounds)
            else:
                declared.setdefault(feature.name, feature.type.shape)
    found = {
        name: declared[name]
        for name, all_bounds in open_bounds.items()
        if name in declared and all(_fits(declared[name], bounds) for bounds in all_bounds)
    }
    return found | {name: tuple(shape) for name, shape in given.items()}


def _fits(shape: tuple[int, ...], bounds: tuple[tuple[int, int], ...]) -> bool:
    return len(shape) == len(bounds) and all(
        low <= size and high in (_UNBOUNDED, max(high, size))
        for size, (low, high) in zip(shape, bounds, strict=True)
    )
