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
from coremlscope.formats.layer_table import join_layers

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


#: Rows by the compiler's name of the layer type.
LAYERS: Mapping[str, LayerSpec] = join_layers(_FAMILIES)
