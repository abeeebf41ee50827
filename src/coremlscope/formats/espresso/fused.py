"""Functions that the compiler fuses into the layer before them."""

from __future__ import annotations

from coremlscope.formats.espresso.axes import keep
from coremlscope.formats.espresso.translation import Translation
from coremlscope.formats.neuralnetwork.builder import Blob

#: The operations of fused functions by attribute.
_FUSED = {"fused_relu": "relu", "fused_tanh": "tanh", "has_relu": "relu", "has_tanh": "tanh"}
#: Fused functions whose parameters are at an unknown place.
_UNKNOWN = ("has_prelu", "has_batch_norm", "fused_hard_swish")


def apply_fused(t: Translation, result: Blob) -> Blob:
    """Applies the fused functions of a layer to its result."""
    for attribute, type_ in _FUSED.items():
        if t.layer.flag(attribute):
            result = keep(t.builder.op(type_, x=result), result)
    for attribute in _UNKNOWN:
        if t.layer.flag(attribute):
            t.doubt(f"the parameters of its fused function ({attribute}) are not established")
    return result
