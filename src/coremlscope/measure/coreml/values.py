"""Values of inputs in a folder, as a parent process passes them to a child: arrays in an npz, the rest JSON.

Nothing is pickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from coremlscope.base.errors import UnsupportedModelError
from coremlscope.base.writing import open_draft, write_draft
from coremlscope.model.features import to_tensors
from coremlscope.model.features.images import image_from_array, image_of_feature, is_image
from coremlscope.model.ir import (
    ArrayFeature,
    FeatureType,
    FunctionDescription,
    ImageFeature,
    SequenceFeature,
)

_ARRAYS, _OTHERS = "arrays.npz", "values.json"
_IMAGE, _ARRAY, _DICTIONARY, _PLAIN = "image", "array", "dictionary", "plain"
#: Core ML has no fp16 arrays as coremltools passes them; it converts every time, so it is done once here.
_DTYPES = {"float16": "float32", "int64": "int32", "bool": "int32", "uint8": "int32", "int16": "int32"}


def save_values(description: FunctionDescription, values: Mapping[str, Any], folder: Path) -> None:
    """Writes values into a folder.

    Args:
        description: The interface that takes them.
        values: By name; checked against the interface.
        folder: An existing folder.

    Raises:
        InputError: A value does not suit its input.
        UnsupportedModelError: coremltools cannot pass such a value to Core ML.
    """
    types = {feature.name: feature.type for feature in description.inputs}
    for name, type_ in types.items():
        if isinstance(type_, SequenceFeature):
            raise UnsupportedModelError(
                f"coremltools cannot pass sequences to Core ML, and the input {name!r} is one",
                "measure it with --engine onnxruntime",
            )
    to_tensors(description.inputs, values)
    arrays: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for index, (name, value) in enumerate(values.items()):
        kind, stored = _stored(name, types[name], value)
        if isinstance(stored, np.ndarray):
            arrays[f"a{index}"] = stored
            stored = f"a{index}"
        others[name] = [kind, stored]
    with open_draft(folder / _ARRAYS) as file:
        np.savez(file, **arrays)
    write_draft(folder / _OTHERS, json.dumps(others))


def _stored(name: str, type_: FeatureType, value: Any) -> tuple[str, Any]:
    """How a value is written, and an array or plain data of it."""
    if isinstance(type_, ImageFeature):
        image = value if is_image(value) else image_from_array(np.asarray(value), name)
        return _IMAGE, np.asarray(image_of_feature(image, type_))
    if isinstance(type_, ArrayFeature):
        array = np.asarray(value)
        return _ARRAY, array.astype(_DTYPES.get(type_.dtype.numpy.name, type_.dtype.numpy.name))
    if isinstance(value, Mapping):
        return _DICTIONARY, [[key, float(number)] for key, number in value.items()]
    return _PLAIN, value.item() if isinstance(value, (np.ndarray, np.generic)) else value


def load_values(folder: Path) -> dict[str, Any]:
    """Reads the values back as coremltools takes them: arrays, Pillow images, numbers, dictionaries."""
    others = json.loads((folder / _OTHERS).read_text(encoding="utf-8"))
    with np.load(folder / _ARRAYS, allow_pickle=False) as arrays:
        return {name: _loaded(kind, stored, arrays) for name, (kind, stored) in others.items()}


def _loaded(kind: str, stored: Any, arrays: Mapping[str, Any]) -> Any:
    if kind == _IMAGE:
        from PIL import Image

        return Image.fromarray(arrays[stored])
    if kind == _ARRAY:
        return arrays[stored]
    return dict(stored) if kind == _DICTIONARY else stored
