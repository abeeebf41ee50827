"""Small compiled neural networks: the three files of Apple's compiler, written by hand."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import coremlscope
from coremlscope.formats import container
from coremlscope.model import ir, schema

__all__ = ["WeightTable", "exact", "run_layers", "shape", "write_classifier", "write_network"]

_AXES = ("seq", "n", "k", "h", "w")


class WeightTable:
    """Numbers blobs as the compiler does: odd numbers, each after an even one with padding."""

    def __init__(self) -> None:
        self._blobs: list[bytes] = []

    def add(self, values: object, dtype: str = "<f4") -> int:
        """Appends a blob and returns its number."""
        self._blobs.append(np.asarray(values, dtype).tobytes())
        return 2 * len(self._blobs) - 1

    def data(self) -> bytes:
        """Returns the bytes of the weight file."""
        blobs = [part for blob in self._blobs for part in (b"", blob)]
        table = b"".join(struct.pack("<QQ", number, len(blob)) for number, blob in enumerate(blobs))
        return struct.pack("<Q", len(blobs)) + table + b"".join(blobs)


def shape(*sizes: int, rank: int | None = None) -> dict[str, int]:
    """Returns an entry of the shapes file from trailing sizes; exact shapes have a rank."""
    entry = dict(zip(_AXES[len(_AXES) - len(sizes) :], sizes, strict=True))
    return {"n": 1, "k": 1, "h": 1, "w": 1, **entry, **({} if rank is None else {"_rank": rank})}


def exact(*sizes: int) -> dict[str, int]:
    """Returns an entry of the shapes file for an exact shape."""
    return shape(*sizes, rank=len(sizes))


def write_network(
    folder: Path,
    layers: Sequence[Mapping[str, Any]],
    shapes: Mapping[str, Mapping[str, int]],
    weights: WeightTable | None = None,
    **content: Any,
) -> Path:
    """Writes the three files. Names, inputs and outputs of layers default to a chain from `x` to `y`."""
    folder.mkdir(exist_ok=True)
    completed = []
    for index, layer in enumerate(layers):
        bottom = "x" if index == 0 else f"b{index}"
        top = "y" if index == len(layers) - 1 else f"b{index + 1}"
        completed.append({"name": f"layer{index}", "bottom": bottom, "top": top, "weights": {}, **layer})
    net = {"format_version": 200, "storage": "model.espresso.weights", "layers": completed, **content}
    (folder / "model.espresso.net").write_text(json.dumps(net))
    (folder / "model.espresso.shape").write_text(json.dumps({"layer_shapes": shapes}))
    (folder / "model.espresso.weights").write_bytes((weights or WeightTable()).data())
    return folder


def write_classifier(folder: Path, labels: Sequence[str], width: int) -> None:
    """Writes the `coremldata.bin` of a classifier of vectors `x` into the label `label` and `scores`."""
    description = schema.message_class("ModelDescription")()
    array = description.input.add(name="x").type.multiArrayType
    array.shape.append(width)
    array.dataType = 65568  # FLOAT32
    description.output.add(name="label").type.stringType.SetInParent()
    description.output.add(name="scores").type.dictionaryType.stringKeyType.SetInParent()
    description.predictedFeatureName, description.predictedProbabilitiesName = "label", "scores"
    classifier, string_labels = 403, 100
    data = struct.pack("<I3Q", classifier, 5, 0, 0) + _text(b"generic") + struct.pack("<Q", 1) + bytes(24)
    data += _text(description.SerializeToString()) + struct.pack(
        "<QQQ", classifier, string_labels, len(labels)
    )
    data += b"".join(_text(label.encode()) for label in labels)
    (folder / "coremldata.bin").write_bytes(data)


def _text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def run_layers(model: Path, **inputs: object) -> Mapping[str, ir.Array]:
    """Reads a network and predicts."""
    given = {name: np.asarray(value, np.float32) for name, value in inputs.items()}
    results: Mapping[str, ir.Array] = coremlscope.predict(container.read(model), given)
    return results
