"""The layers and shapes of a compiled neural network: JSON files, `*.espresso.net` and `*.espresso.shape`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from coremlscope.base.errors import CorruptModelError, NotAModelError
from coremlscope.base.units import shown
from coremlscope.formats.espresso.attributes import CompiledLayer
from coremlscope.formats.espresso.compression import decompress, is_compressed

#: The names of the axes in the files, from the outermost to the innermost. Their numbers count from the
#: innermost.
AXES = ("seq", "n", "k", "h", "w")
_MAX_FILE_BYTES = 1 << 30
_MAX_DIMENSION = 2**31 - 1
_DAMAGED = "the file is damaged or incomplete; copy or download the whole folder again"
_POINTER = b"version https://git-lfs."


class BlobShape(msgspec.Struct, frozen=True):
    """The shape of a blob.

    Attributes:
        sizes: Sequence length, batch size, channels, height and width.
        rank: The number of trailing sizes that a tensor has; None in networks without exact shapes, whose
        blobs
            all have five.
    """

    sizes: tuple[int, int, int, int, int]
    rank: int | None = None

    @property
    def dims(self) -> tuple[int, ...]:
        """The sizes of a tensor's axes."""
        return self.sizes if self.rank is None else self.sizes[len(self.sizes) - self.rank :]


class CompiledNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file with the layers.

    Attributes:
        layers: The layers in order of execution.
        version: The version of the format: 200, 300, …; 0 if it is not specified.
        storage: The name of the weight file; empty if it is not specified.
        transforms: The preprocessing of images by input.
    """

    layers: tuple[CompiledLayer, ...]
    version: int = 0
    storage: str = ""
    transforms: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)


def read_network_file(path: Path) -> CompiledNetwork:
    """Reads the file with the layers.

    Raises:
        CorruptModelError: The file is damaged.
        UnsupportedModelError: The file is compressed, and the decoder is not installed.
        NotAModelError: The file is a Git LFS pointer.
        OSError: The file cannot be read.
    """
    content = _read_json(path)
    given = content.get("layers")
    if not isinstance(given, list):
        raise CorruptModelError(f"{path} has no list of layers", _DAMAGED)
    layers = tuple(_read_layer(item, index, path) for index, item in enumerate(given))
    if not layers:
        raise CorruptModelError(f"{path} has no layers", _DAMAGED)
    version, storage = content.get("format_version"), content.get("storage")
    transforms = content.get("transform_params")
    return CompiledNetwork(
        layers=layers,
        version=version if isinstance(version, int) else 0,
        storage=storage if isinstance(storage, str) else "",
        transforms={
            name: value
            for name, value in (transforms if isinstance(transforms, dict) else {}).items()
            if isinstance(value, dict)
        },
    )


def _read_layer(item: object, index: int, path: Path) -> CompiledLayer:
    if not isinstance(item, dict):
        raise CorruptModelError(f"the layer {index} of {path} is not an object", _DAMAGED)
    texts = {}
    for key in ("type", "name", "bottom", "top"):
        text = item.get(key, "")
        if not isinstance(text, str) or (key == "type" and not text):
            raise CorruptModelError(f"the layer {index} of {path} has no valid {key}", _DAMAGED)
        texts[key] = text
    weights = item.get("weights")
    return CompiledLayer(
        type=texts["type"],
        name=texts["name"],
        inputs=_names(texts["bottom"]),
        outputs=_names(texts["top"]),
        attributes={k: v for k, v in item.items() if k not in (*texts, "weights")},
        weights=weights if isinstance(weights, dict) else {},
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def read_shape_file(path: Path) -> Mapping[str, BlobShape]:
    """Reads the file with the shapes. Shapes that are not valid are left out.

    Errors are those of `read_network_file`.
    """
    shapes = _read_json(path).get("layer_shapes")
    if not isinstance(shapes, dict):
        raise CorruptModelError(f"{path} has no shapes", _DAMAGED)
    read = {name: _read_shape(item) for name, item in shapes.items()}
    return {name: shape for name, shape in read.items() if shape is not None}


def _read_shape(item: object) -> BlobShape | None:
    if not isinstance(item, dict):
        return None
    sizes = [item.get(axis, 1) for axis in AXES]
    if not all(isinstance(size, int) and 0 <= size <= _MAX_DIMENSION for size in sizes):
        return None
    if math.prod(sizes) > _MAX_DIMENSION:
        return None
    rank = item.get("_rank")
    if rank is not None and not (isinstance(rank, int) and 0 <= rank <= len(AXES)):
        return None
    seq, n, k, h, w = sizes
    return BlobShape((seq, n, k, h, w), rank)


def _read_json(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _MAX_FILE_BYTES:
        raise CorruptModelError(f"{path} is larger than 1 GB", _DAMAGED)
    data = path.read_bytes()
    if data.startswith(_POINTER):
        raise NotAModelError(f"{path} is a Git LFS pointer", "run `git lfs pull` to fetch the model itself")
    if is_compressed(data):
        data = decompress(data, str(path))
    try:
        content = json.loads(data)
    except RecursionError:
        raise CorruptModelError(f"{path} is nested too deeply", _DAMAGED) from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise CorruptModelError(f"{path} is not valid JSON ({shown(error.msg)}, {place})", _DAMAGED) from None
    except ValueError:  # an encoding or a number that is not valid
        raise CorruptModelError(f"{path} is not valid JSON", _DAMAGED) from None
    if not isinstance(content, dict):
        raise CorruptModelError(f"{path} is not a JSON object", _DAMAGED)
    return content
