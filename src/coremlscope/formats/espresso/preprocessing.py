"""The preprocessing of images, which the compiler stores beside the layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from coremlscope import schema
from coremlscope.errors import CorruptModelError, UnsupportedModelError
from coremlscope.schema import Message

__all__ = ["read_steps"]

_DAMAGED = "the file is damaged or incomplete; copy or download the whole folder again"


def read_steps(transforms: Mapping[str, Mapping[str, Any]]) -> list[Message]:
    """Converts the preprocessing to `NeuralNetworkPreprocessing` messages, one per input.

    Raises:
        CorruptModelError: A parameter is not a number.
        UnsupportedModelError: A mean image is subtracted.
    """
    return [_read_step(name, values) for name, values in transforms.items()]


def _read_step(name: str, values: Mapping[str, Any]) -> Message:
    if _number(name, values, "center_mean", 0.0):
        raise UnsupportedModelError(
            f"the preprocessing of the input {name!r} subtracts a mean image, whose place is unknown",
            "use the .mlmodel from which the model was compiled",
        )
    step = schema.message_class("NeuralNetworkPreprocessing")(featureName=name)
    scaler = step.scaler
    scaler.channelScale = _number(name, values, "scale", 1.0)
    scaler.redBias = _number(name, values, "bias_r", 0.0)
    scaler.greenBias = _number(name, values, "bias_g", 0.0)
    scaler.blueBias = _number(name, values, "bias_b", 0.0)
    # Grey images have one channel, for which the compiler writes the same number three times.
    scaler.grayBias = scaler.redBias
    return step


def _number(name: str, values: Mapping[str, Any], key: str, default: float) -> float:
    value = values.get(key, default)
    if not isinstance(value, (int, float)) or not math.isfinite(value) or abs(value) > 1e30:
        raise CorruptModelError(f"the {key} of the preprocessing of {name!r} is not a valid number", _DAMAGED)
    return float(value)
