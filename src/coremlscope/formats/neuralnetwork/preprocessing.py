"""Translation of `NeuralNetworkPreprocessing`, which is applied to inputs before the first layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from coremlscope.base.errors import CorruptModelError
from coremlscope.formats.neuralnetwork.builder import Blob, Builder, CannotTranslate
from coremlscope.model.ir import Array, Feature, ImageFeature, Layer
from coremlscope.model.schema import Message

_DAMAGED = "the file is damaged or was written by a faulty tool; export or download the model again"


def preprocess(builder: Builder, steps: Sequence[Message], inputs: Sequence[Feature]) -> None:
    """Applies each step to the input with its name, or to the first image if the step has no name.

    Raises:
        CorruptModelError: The input of a step does not exist or does not match the step.
    """
    features = {feature.name: feature for feature in inputs}
    first = next(
        (f.name for f in inputs if isinstance(f.type, ImageFeature)), inputs[0].name if inputs else ""
    )
    for message in steps:
        name = message.featureName or first
        if name not in features:
            raise CorruptModelError(f"unknown input {name!r} of the preprocessing", _DAMAGED)
        kind = message.WhichOneof("preprocessor")
        builder.layer = Layer(name=name, type=kind or "unknown")
        blob = builder.scope[name]
        try:
            match kind:
                case "scaler":
                    builder.scope[name] = _scaled(builder, blob, message.scaler, features[name])
                case "meanImage":
                    builder.scope[name] = _centred(builder, blob, message.meanImage)
        except CannotTranslate as error:
            raise CorruptModelError(
                f"invalid preprocessing of the input {name!r}: {error}", _DAMAGED
            ) from None
    builder.layer = None


def _scaled(b: Builder, blob: Blob, scaler: Message, feature: Feature) -> Blob:
    """Computes `pixels * channelScale + bias` with a bias per channel. A scale of 0 means 1."""
    scale = scaler.channelScale or 1.0
    bias = np.array(_biases(scaler, feature, blob), np.float32)
    result = blob
    if scale != 1.0:
        result = b.op("mul", x=result, y=float(scale))
    if bias.any():
        planes = bias[0] if (bias == bias[0]).all() else bias.reshape(-1, 1, 1)
        result = b.op("add", x=result, y=np.asarray(planes, np.float32))
    return replace(result, sequence=blob.sequence)


def _biases(scaler: Message, feature: Feature, blob: Blob) -> Sequence[float]:
    red, green, blue = scaler.redBias, scaler.greenBias, scaler.blueBias
    color_space = feature.type.color_space if isinstance(feature.type, ImageFeature) else ""
    match color_space:
        case "RGB":
            return red, green, blue
        case "BGR":
            return blue, green, red
        case "" if blob.rank >= 3 and blob.dims[-3] == 3:
            return red, green, blue
        case _:
            return (scaler.grayBias,)


def _centred(b: Builder, blob: Blob, mean_image: Message) -> Blob:
    """Subtracts a mean image, which is stored channel by channel."""
    mean: Array = np.array(mean_image.meanImage, np.float32)
    shape = blob.shape[-3:]
    if mean.size != np.prod(shape):
        raise CannotTranslate(f"its mean image has {mean.size} numbers, not {' x '.join(map(str, shape))}")
    return replace(b.op("sub", x=blob, y=mean.reshape(shape)), sequence=blob.sequence)
