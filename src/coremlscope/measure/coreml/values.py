"""Values in a folder, as a process passes them to another: arrays in an npz, the rest JSON.

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

#: The names of files: of values of inputs, of the content of states, and of what a prediction returned.
INPUTS, STATES, RESULTS = "inputs", "states", "results"
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
    _save({name: _stored(name, types[name], value) for name, value in values.items()}, folder, INPUTS)


def save_arrays(values: Mapping[str, Any], folder: Path, name: str) -> None:
    """Writes arrays, images and plain data into a folder, as Core ML returned them.

    Args:
        values: By name.
        folder: An existing folder.
        name: `STATES` or `RESULTS`.
    """
    _save({key: _returned(value) for key, value in values.items()}, folder, name)


def _save(stored: Mapping[str, tuple[str, Any]], folder: Path, name: str) -> None:
    arrays = {f"a{index}": value for index, (_, value) in enumerate(stored.values())}
    arrays = {key: value for key, value in arrays.items() if isinstance(value, np.ndarray)}
    others = {
        key: [kind, f"a{index}" if f"a{index}" in arrays else value]
        for index, (key, (kind, value)) in enumerate(stored.items())
    }
    with open_draft(folder / f"{name}.npz") as file:
        np.savez(file, **arrays)
    write_draft(folder / f"{name}.json", json.dumps(others))


def _returned(value: Any) -> tuple[str, Any]:
    """How something that Core ML returned is written, and an array or plain data of it."""
    if is_image(value):
        return _IMAGE, np.asarray(value)
    if isinstance(value, (np.ndarray, np.generic)) and np.asarray(value).dtype.kind in "biuf":
        return _ARRAY, np.asarray(value)
    if isinstance(value, Mapping):
        return _DICTIONARY, [[key, float(number)] for key, number in value.items()]
    return _PLAIN, value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


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


def load_values(folder: Path, name: str = INPUTS) -> dict[str, Any]:
    """Reads the values back as coremltools takes them: arrays, Pillow images, numbers, dictionaries."""
    others = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    with np.load(folder / f"{name}.npz", allow_pickle=False) as arrays:
        return {name: _loaded(kind, stored, arrays) for name, (kind, stored) in others.items()}


def _loaded(kind: str, stored: Any, arrays: Mapping[str, Any]) -> Any:
    if kind == _IMAGE:
        from PIL import Image

        return Image.fromarray(arrays[stored])
    if kind == _ARRAY:
        return arrays[stored]
    return dict(stored) if kind == _DICTIONARY else stored
