"""Every type of layer that has a translation, joined into one explicit table."""

from __future__ import annotations

from collections.abc import Mapping

from coremlscope.formats.neuralnetwork import (
    activation,
    arithmetic,
    convolution,
    images,
    linear,
    normalization,
    pooling,
    rank_5,
    recurrent,
)
from coremlscope.formats.neuralnetwork.layer import LayerSpec

__all__ = ["LAYERS"]

_FAMILIES: tuple[tuple[LayerSpec, ...], ...] = (
    activation.LAYERS,
    arithmetic.LAYERS,
    convolution.LAYERS,
    images.LAYERS,
    linear.LAYERS,
    normalization.LAYERS,
    pooling.LAYERS,
    rank_5.LAYERS,
    recurrent.LAYERS,
)


def _join() -> dict[str, LayerSpec]:
    table: dict[str, LayerSpec] = {}
    for spec in (spec for family in _FAMILIES for spec in family):
        if spec.type in table:
            raise ValueError(f"two rows for the layer {spec.type}")
        table[spec.type] = spec
    return table


#: By Apple's name.
LAYERS: Mapping[str, LayerSpec] = _join()
