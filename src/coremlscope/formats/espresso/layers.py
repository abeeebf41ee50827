"""The table of all layer types with a translation."""

from __future__ import annotations

from collections.abc import Mapping

from coremlscope.formats.espresso import (
    activation,
    arrangement,
    convolution,
    elementwise,
    linear,
    normalization,
    pooling,
    recurrent,
    reduction,
    resizing,
    selection,
)
from coremlscope.formats.espresso.translation import LayerSpec

__all__ = ["LAYERS"]

_FAMILIES: tuple[tuple[LayerSpec, ...], ...] = (
    activation.LAYERS,
    arrangement.LAYERS,
    convolution.LAYERS,
    elementwise.LAYERS,
    linear.LAYERS,
    normalization.LAYERS,
    pooling.LAYERS,
    recurrent.LAYERS,
    reduction.LAYERS,
    resizing.LAYERS,
    selection.LAYERS,
)


def _join() -> dict[str, LayerSpec]:
    table: dict[str, LayerSpec] = {}
    for spec in (spec for family in _FAMILIES for spec in family):
        if spec.type in table:
            raise ValueError(f"duplicate rows for the layer {spec.type}")
        table[spec.type] = spec
    return table


#: Rows by the compiler's name of the layer type.
LAYERS: Mapping[str, LayerSpec] = _join()
