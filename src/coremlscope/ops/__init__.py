"""The operations of ML Programs: one row each, joined into one explicit table."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from coremlscope.ops import (
    activation,
    compression,
    control,
    convolution,
    elementwise,
    gathering,
    generation,
    linear,
    lists,
    normalization,
    pooling,
    randomness,
    rearrangement,
    recurrent,
    reduction,
    regions,
    resizing,
    selection,
    slicing,
    states,
    structure,
    transformation,
    unary,
)
from coremlscope.ops.spec import OpSpec
from coremlscope.ops.traits import NO_TRAITS, Trait

__all__ = ["OPS", "has_traits", "traits_of"]

_FAMILIES: tuple[tuple[OpSpec, ...], ...] = (
    activation.OPS,
    compression.OPS,
    control.OPS,
    convolution.OPS,
    elementwise.OPS,
    gathering.OPS,
    generation.OPS,
    linear.OPS,
    lists.OPS,
    normalization.OPS,
    pooling.OPS,
    randomness.OPS,
    rearrangement.OPS,
    recurrent.OPS,
    reduction.OPS,
    regions.OPS,
    resizing.OPS,
    selection.OPS,
    slicing.OPS,
    states.OPS,
    structure.OPS,
    transformation.OPS,
    unary.OPS,
)


def _table() -> Mapping[str, OpSpec]:
    table: dict[str, OpSpec] = {}
    for family in _FAMILIES:
        for row in family:
            if row.name in table:
                raise ValueError(f"two rows for the operation {row.name}")
            table[row.name] = row
    return table


#: Every operation that is known, by Apple's name.
OPS: Mapping[str, OpSpec] = _table()


@functools.cache
def traits_of(name: str) -> Trait:
    """The traits of an operation by Apple's name; none where it has no row.

    All operations whose name begins with `constexpr_` unpack a weight, those without a row included.
    """
    spec = OPS.get(name)
    if spec is not None:
        return spec.traits
    return Trait.WEIGHT_DECOMPRESSION if name.startswith("constexpr_") else NO_TRAITS


def has_traits(name: str, traits: Trait) -> bool:
    """Returns whether an operation has one of these traits."""
    return traits_of(name)._value_ & traits._value_ != 0  # `&` of flags takes ten times as long
