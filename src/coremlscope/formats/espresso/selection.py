"""Selecting, sorting and gathering of elements."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.formats.espresso.axes import nd_axis
from coremlscope.formats.espresso.translation import LayerSpec, Translation
from coremlscope.formats.neuralnetwork.builder import Blob, CannotTranslate

_GATHER, _GATHER_ALONG_AXIS = 0, 2


def _axis(t: Translation, x: Blob, *, is_shown: bool = True) -> int:
    """Returns the axis of a layer as an index from the outermost axis.

    Args:
        t: The layer.
        x: The input.
        is_shown: True if the shape of the result shows the axis, unless other axes are as long.
    """
    axis = nd_axis(t.layer.integer("axis"), x.rank)
    lengths = [size for size in x.shape if size != 1]
    if axis >= 0 and len(lengths) > 1 and not (is_shown and lengths.count(x.shape[axis]) == 1):
        t.doubt("from which end its axis is counted is not established")
    return axis


def _top(t: Translation) -> Sequence[Blob]:
    b, layer, x = t.builder, t.layer, t.builder.tensor(t.x)
    values, places = b.ops(
        "topk", 2, x=x, k=layer.size("num_k"), axis=_axis(t, x), ascending=layer.flag("do_bottomk")
    )
    return values, b.floats(places)


def _argsort(t: Translation) -> Blob:
    b, x = t.builder, t.builder.tensor(t.x)
    return b.floats(
        b.op("argsort", x=x, axis=_axis(t, x, is_shown=False), ascending=t.layer.flag("ascending"))
    )


def _gather(t: Translation) -> Blob:
    b = t.builder
    x, places = b.tensor(t.x), b.indices(b.tensor(t.inputs[1]))
    mode = t.layer.integer("mode", _GATHER)
    if t.layer.integer("batch_dims", 0):
        raise CannotTranslate("it gathers from each item of a batch")
    if mode not in (_GATHER, _GATHER_ALONG_AXIS):
        raise CannotTranslate(f"the meaning of its mode {mode} is unknown")
    type_ = "gather" if mode == _GATHER else "gather_along_axis"
    return b.op(type_, x=x, indices=places, axis=_axis(t, x), validate_indices=False)


def _cumulative_sum(t: Translation) -> Blob:
    b, x = t.builder, t.builder.tensor(t.x)
    given = t.inputs[1].array if len(t.inputs) > 1 else None
    if given is None or given.size != 1:
        raise CannotTranslate("its axis is unknown before run time")
    return b.op("cumsum", x=x, axis=nd_axis(int(given.reshape(-1)[0]), x.rank))


def _shape(t: Translation) -> Blob:
    b = t.builder
    return b.floats(b.op("shape", x=b.tensor(t.x)))


LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("argsort", _argsort),
    LayerSpec("cumsum", _cumulative_sum, inputs=(2, 2)),
    LayerSpec("gather_nd", _gather, inputs=(2, 2)),
    LayerSpec("get_shape", _shape),
    LayerSpec("topk", _top),
)
