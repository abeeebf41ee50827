"""The table of all layer types with a translation."""

from __future__ import annotations

from collections.abc import Mapping

from coremlscope.formats.layer_table import join_layers
from coremlscope.formats.neuralnetwork import (
    activation,
    arithmetic,
    broadcasting,
    control,
    convolution,
    generation,
    images,
    indexing,
    linear,
    normalization,
    pooling,
    rank_5,
    recurrent,
    reduction,
    selection,
    shaping,
    slicing_nd,
)
from coremlscope.formats.neuralnetwork.translation import LayerSpec

_FAMILIES: tuple[tuple[LayerSpec, ...], ...] = (
    activation.LAYERS,
    arithmetic.LAYERS,
    broadcasting.LAYERS,
    control.LAYERS,
    convolution.LAYERS,
    generation.LAYERS,
    images.LAYERS,
    indexing.LAYERS,
    linear.LAYERS,
    normalization.LAYERS,
    pooling.LAYERS,
    rank_5.LAYERS,
    recurrent.LAYERS,
    reduction.LAYERS,
    selection.LAYERS,
    shaping.LAYERS,
    slicing_nd.LAYERS,
)


#: Rows by Apple's name of the layer type.
LAYERS: Mapping[str, LayerSpec] = join_layers(_FAMILIES)
