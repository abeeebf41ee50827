"""Reductions over arbitrary axes."""

from __future__ import annotations

from coremlscope.formats.neuralnetwork.builder import Blob
from coremlscope.formats.neuralnetwork.shaping import at_least_rank_1
from coremlscope.formats.neuralnetwork.translation import LayerSpec, Translate, Translation

#: Operations by layer type.
_OPERATIONS = {
    "reduceL1": "reduce_l1_norm",
    "reduceL2": "reduce_l2_norm",
    "reduceLogSum": "reduce_log_sum",
    "reduceLogSumExp": "reduce_log_sum_exp",
    "reduceMax": "reduce_max",
    "reduceMean": "reduce_mean",
    "reduceMin": "reduce_min",
    "reduceProd": "reduce_prod",
    "reduceSum": "reduce_sum",
    "reduceSumSquare": "reduce_sum_square",
}


def _reduction(type_: str) -> Translate:
    def translate(t: Translation) -> Blob:
        b, p, x = t.builder, t.params, t.builder.tensor(t.x)
        axes = None if p.reduceAll or not p.axes else [int(axis) for axis in p.axes]
        return at_least_rank_1(b, b.op(type_, x=x, axes=axes, keep_dims=bool(p.keepDims)))

    return translate


LAYERS: tuple[LayerSpec, ...] = tuple(
    LayerSpec(name, _reduction(type_)) for name, type_ in _OPERATIONS.items()
)
