"""The preprocessing of images: pixels times a scale plus a bias per channel.

It is in the layers' file, and also in `model/coremldata.bin`: eight tables that each have a number per input,
of which the fourth to sixth are the biases of the three channels and the last one is the scale. (Inferred
from published models that have both.) A table is its `u64` number of entries; an entry is the name, as its
`u64` size and bytes, and an fp32 number. All numbers are little-endian.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from coremlscope.base.errors import CorruptModelError, UnsupportedModelError
from coremlscope.model import schema
from coremlscope.model.ir import Feature, ImageFeature
from coremlscope.model.schema import Message

_DAMAGED = "the file is damaged or incomplete; copy or download the whole folder again"
_BIASES = ("bias_r", "bias_g", "bias_b")
_TABLES, _FIRST_BIAS, _SCALE = 8, 3, 7
#: Marks a preprocessing whose biases are in an unknown order of channels.
_UNORDERED = "is_unordered"


def read_step(name: str, values: Mapping[str, Any]) -> Message:
    """Converts the preprocessing of an input to a `NeuralNetworkPreprocessing` message.

    Raises:
        CorruptModelError: A parameter is not a number.
        UnsupportedModelError: A mean image is subtracted.
    """
    if _number(name, values, "center_mean", 0.0):
        raise UnsupportedModelError(
            f"the preprocessing of the input {name!r} subtracts a mean image, whose place is unknown",
            "use the .mlmodel from which the model was compiled",
        )
    step = schema.message_class("NeuralNetworkPreprocessing")(featureName=name)
    scaler = step.scaler
    scaler.channelScale = _number(name, values, "scale", 1.0)
    scaler.redBias, scaler.greenBias, scaler.blueBias = (_number(name, values, key, 0.0) for key in _BIASES)
    scaler.grayBias = scaler.redBias
    return step


def _number(name: str, values: Mapping[str, Any], key: str, default: float) -> float:
    value = values.get(key, default)
    if not isinstance(value, (int, float)) or not math.isfinite(value) or abs(value) > 1e30:
        raise CorruptModelError(f"the {key} of the preprocessing of {name!r} is not a valid number", _DAMAGED)
    return float(value)


def find_doubt(feature: Feature, values: Mapping[str, Any]) -> str:
    """Returns what is not known of the preprocessing of an input; empty if all is known."""
    if len({values.get(key, 0) for key in _BIASES}) == 1:
        return ""
    if isinstance(feature.type, ImageFeature) and feature.type.color_space.startswith("GRAYSCALE"):
        return "which of its biases applies to grey images is not established"
    return "the order of its biases is not established" if values.get(_UNORDERED) else ""


def parse_tables(data: bytes) -> Mapping[str, Mapping[str, Any]]:
    """Reads the bytes of `model/coremldata.bin`.

    Returns:
        The preprocessing by input, as in the layers' file; empty if the file has another layout.
    """
    try:
        tables = _parse(data)
    except (struct.error, UnicodeDecodeError, ValueError):
        return {}
    names = tables[_SCALE]
    if any(tables[_FIRST_BIAS + index].keys() != names.keys() for index in range(len(_BIASES))):
        return {}
    return {
        name: {
            "scale": tables[_SCALE][name],
            **{key: tables[_FIRST_BIAS + index][name] for index, key in enumerate(_BIASES)},
            _UNORDERED: True,
        }
        for name in names
    }


def _parse(data: bytes) -> Sequence[Mapping[str, float]]:
    tables: list[dict[str, float]] = []
    position = 0
    for _ in range(_TABLES):
        (count,) = struct.unpack_from("<Q", data, position)
        position += 8
        if count > len(data):
            raise ValueError("more entries than bytes")
        table: dict[str, float] = {}
        for _ in range(count):
            (size,) = struct.unpack_from("<Q", data, position)
            if size > len(data):
                raise ValueError("a name is longer than the file")
            start = position + 8
            (number,) = struct.unpack_from("<f", data, start + size)
            table[data[start : start + size].decode()] = number
            position = start + size + 4
        tables.append(table)
    if position != len(data):
        raise ValueError("more bytes than tables")
    return tables
