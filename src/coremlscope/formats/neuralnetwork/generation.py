"""Generated tensors: constants, shapes, ranges, random numbers, one-hot vectors, masks, cumulative sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from coremlscope.formats.neuralnetwork.builder import Blob, CannotTranslate
from coremlscope.formats.neuralnetwork.shaping import read_shape, shape_of
from coremlscope.formats.neuralnetwork.translation import LayerSpec, Translate, Translation
from coremlscope.formats.neuralnetwork.weights import read_weights
from coremlscope.model.ir import Array
from coremlscope.model.schema import Message

# Constants, shapes and ranges


def _constant(t: Translation) -> Blob:
    b, shape = t.builder, [int(d) for d in t.params.shape]
    return b.floats(b.op("identity", x=read_weights(t.params.data, shape or [1])))


def _shape(t: Translation) -> Blob:
    b = t.builder
    return b.floats(b.op("shape", x=b.tensor(t.x)))


def _fill(shape: Callable[[Translation], Blob | Sequence[int]]) -> Translate:
    return lambda t: t.builder.op("fill", shape=shape(t), value=float(t.params.value))


def _fill_like(t: Translation) -> Blob:
    return t.builder.op("fill_like", ref_tensor=t.builder.tensor(t.x), value=float(t.params.value))


def _target_shape(t: Translation) -> Sequence[int]:
    return [int(d) for d in t.params.targetShape]


def _given_shape(t: Translation) -> Blob:
    return read_shape(t.builder, t.x)


def _range_static(t: Translation) -> Blob:
    p = t.params
    start, end, step = float(p.startValue), float(p.endValue), float(p.stepSizeValue)
    return t.builder.op("range_1d", start=start, end=end, step=step)


def _range_dynamic(t: Translation) -> Blob:
    """The inputs are the end, the start and the step. Parameters replace missing inputs."""
    b, p = t.builder, t.params
    given: list[Any] = [b.op("reshape", x=blob, shape=[]) for blob in t.inputs]
    given += [None, float(p.startValue), float(p.stepSizeValue)][len(given) :]
    end, start, step = given
    return b.op("range_1d", start=start, end=end, step=step)


# Random numbers


def _like(t: Translation) -> Blob | Sequence[int]:
    return shape_of(t.builder, t.x)


def _output_shape(t: Translation) -> Sequence[int]:
    return [int(d) for d in t.params.outputShape]


#: The source of a random layer's shape, by the suffix of its name.
_SHAPES: Mapping[str, tuple[Callable[[Translation], Blob | Sequence[int]], tuple[int, int]]] = {
    "Dynamic": (_given_shape, (1, 1)),
    "Like": (_like, (1, 1)),
    "Static": (_output_shape, (0, 0)),
}


def _seed(message: Message) -> int:
    """Returns the seed in 32 bits; -1 if there is none."""
    seed = int(message.seed)
    return seed & 0x7FFFFFFF if seed >= 0 else -1


def _random(
    type_: str, parameters: Mapping[str, str], shape: Callable[[Translation], Blob | Sequence[int]]
) -> Translate:
    """Draws random numbers. `parameters` maps the operation's parameters to the layer's."""

    def translate(t: Translation) -> Blob:
        values: dict[str, Any] = {name: float(getattr(t.params, field)) for name, field in parameters.items()}
        return t.builder.op(type_, shape=shape(t), seed=_seed(t.params), **values)

    return translate


#: The operation and its parameters, by the prefix of a random layer's name.
_RANDOM: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "randomBernoulli": ("random_bernoulli", {"prob": "prob"}),
    "randomNormal": ("random_normal", {"mean": "mean", "stddev": "stdDev"}),
    "randomUniform": ("random_uniform", {"low": "minVal", "high": "maxVal"}),
}


def _categorical(t: Translation) -> Blob:
    """Draws indices with logits `x / temperature`, or with given probabilities."""
    b, p, x = t.builder, t.params, t.builder.tensor(t.x)
    if not p.isLogits:
        x = b.op("log", x=x, epsilon=float(p.eps))
    if p.temperature not in (0.0, 1.0):
        x = b.op("real_div", x=x, y=float(p.temperature))
    return b.floats(
        b.op("random_categorical", x=x, mode="logits", size=int(p.numSamples) or 1, seed=_seed(p))
    )


# One-hot vectors, masks and sums


def _one_hot(t: Translation) -> Blob:
    b, p = t.builder, t.params
    size: Blob | int = int(p.oneHotVectorSize)
    if len(t.inputs) == 2:
        size = b.op("reshape", x=b.indices(t.inputs[1]), shape=[])
    return b.op(
        "one_hot",
        indices=b.indices(b.tensor(t.x)),
        one_hot_vector_size=size,
        axis=int(p.axis),
        on_value=float(p.onValue),
        off_value=float(p.offValue),
    )


def _cumulative_sum(t: Translation) -> Blob:
    b, p, axis = t.builder, t.params, int(t.params.axis)
    if len(t.inputs) == 2:
        known = t.inputs[1].array
        if known is None:
            raise CannotTranslate("its axis is unknown before run time")
        axis = int(known.reshape(-1)[0])
    return b.op(
        "cumsum", x=b.tensor(t.x), axis=axis, exclusive=bool(p.excludeFinalSum), reverse=bool(p.reverse)
    )


def _where_nonzero(t: Translation) -> Blob:
    b = t.builder
    return b.floats(b.op("non_zero", x=b.tensor(t.x)))


def _band(t: Translation) -> Blob:
    b, p = t.builder, t.params
    return b.op("band_part", x=b.tensor(t.x), lower=int(p.numLower), upper=int(p.numUpper))


def _lower_triangle(t: Translation) -> Blob:
    b, x, k = t.builder, t.builder.tensor(t.x), int(t.params.k)
    if k >= 0:
        return b.op("band_part", x=x, lower=-1, upper=k)
    # No band can exclude the diagonal.
    return b.op("select", cond=_on_or_below(x, k), a=x, b=0.0)


def _upper_triangle(t: Translation) -> Blob:
    b, x, k = t.builder, t.builder.tensor(t.x), int(t.params.k)
    if k <= 0:
        return b.op("band_part", x=x, lower=-k, upper=-1)
    return b.op("select", cond=_on_or_below(x, k - 1), a=0.0, b=x)


def _on_or_below(x: Blob, k: int) -> Array:
    """Returns a mask for the matrices in `x`: true on and below the k-th diagonal above the main one."""
    if x.rank < 2 or None in x.dims[-2:]:
        raise CannotTranslate(f"its input must be matrices, not a tensor of shape {list(x.dims)}")
    rows, columns = x.dims[-2:]
    return np.tri(rows or 0, columns or 0, k).astype(bool)


LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("categoricalDistribution", _categorical),
    LayerSpec("cumSum", _cumulative_sum, (1, 2)),
    LayerSpec("fillDynamic", _fill(_given_shape)),
    LayerSpec("fillLike", _fill_like),
    LayerSpec("fillStatic", _fill(_target_shape), (0, 0)),
    LayerSpec("getShape", _shape),
    LayerSpec("loadConstantND", _constant, (0, 0)),
    LayerSpec("lowerTriangular", _lower_triangle),
    LayerSpec("matrixBandPart", _band),
    LayerSpec("oneHot", _one_hot, (1, 2)),
    LayerSpec("rangeDynamic", _range_dynamic, (1, 3)),
    LayerSpec("rangeStatic", _range_static, (0, 0)),
    LayerSpec("upperTriangular", _upper_triangle),
    LayerSpec("whereNonZero", _where_nonzero),
    *(
        LayerSpec(f"{name}{end}", _random(type_, parameters, shape), inputs)
        for name, (type_, parameters) in _RANDOM.items()
        for end, (shape, inputs) in _SHAPES.items()
    ),
)
