"""Input values from files and from the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coremlscope.base.arrays import np
from coremlscope.base.errors import InputError
from coremlscope.base.folders import similar_path
from coremlscope.base.units import shown
from coremlscope.model.features.description import describe_feature
from coremlscope.model.features.images import RESIZES, Resize, image_from_array, open_image, resize_image
from coremlscope.model.features.names import nearest
from coremlscope.model.features.shapes import check_shape, default_shape
from coremlscope.model.ir import (
    Array,
    ArrayFeature,
    DictionaryFeature,
    DoubleFeature,
    Feature,
    ImageFeature,
    Int64Feature,
    SequenceFeature,
    Shape,
    StringFeature,
)

_ARRAYS = (".npy", ".npz")
_TEXTS = (".txt", ".csv")


def read_input(feature: Feature, path: Path, resize: str | None = None, shape: Shape | None = None) -> Any:
    """Reads the value of one input from a file.

    `.npy` and `.npz` files contain arrays; if an `.npz` has several, the one with the input's name is used.
    `.json` files contain numbers, strings, lists or a dictionary. `.txt` and `.csv` files contain a string,
    or numbers separated by spaces or commas. All other files are read as images.

    Args:
        feature: The input.
        path: The file.
        resize: How to resize an image of another size: `scale-fill`, `scale-fit` or `center-crop`; None does
            not resize it.
        shape: The tensor shape to which an image is resized. By default, an image keeps its size if the input
            is flexible and allows it, and otherwise gets the input's default size.

    Raises:
        InputError: The file is missing or damaged, or its content does not match the input.
    """
    if resize is not None and resize not in RESIZES:
        near = nearest(resize, RESIZES)
        raise InputError(
            f"invalid resize mode {resize!r}",
            f"did you mean {near!r}?" if near else f"use one of {', '.join(RESIZES)}",
        )
    if not _is_file(path):
        raise _no_file(feature, path)
    suffix = path.suffix.lower()
    try:
        if suffix in _ARRAYS:
            value: Any = _read_array(feature, path)
        elif suffix == ".json":
            value = _plain(feature, json.loads(path.read_text(encoding="utf-8")))
        elif suffix in _TEXTS:
            value = _read_text(feature, path.read_text(encoding="utf-8"), path)
        elif isinstance(feature.type, ImageFeature):
            return _fitted(feature, open_image(path), resize, shape)
        else:
            raise InputError(
                f"the input {feature.name!r} takes {describe_feature(feature.type)}, "
                f"which cannot be read from {path}",
                "use a .npy, .npz, .json, .txt or .csv file",
            )
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}", "check the file") from None
    except (ValueError, EOFError) as error:
        raise InputError(f"{path} is damaged: {error}", f"save it again as a {suffix} file") from None
    if isinstance(feature.type, ImageFeature) and isinstance(value, np.ndarray):
        return _fitted(feature, image_from_array(value, feature.name), resize, shape)
    return value


def parse_input(feature: Feature, text: str, resize: str | None = None, shape: Shape | None = None) -> Any:
    """Parses the value of one input from the command line: the path of a file, or the value itself.

    For a string input, text that is not the path of a file is the value. A single number fills a whole array;
    arrays and dictionaries can be written as JSON.

    Args:
        feature: The input.
        text: The text.
        resize: As in `read_input`.
        shape: As in `read_input`; also the shape of an array that is filled with a number.

    Raises:
        InputError: As in `read_input`.
    """
    path = Path(text)
    if _is_file(path):
        return read_input(feature, path, resize, shape)
    match feature.type:
        case StringFeature():
            return text
        case Int64Feature() | DoubleFeature() | ArrayFeature():
            try:
                number = float(text)
            except ValueError:
                pass
            else:
                size = shape or default_shape(feature.type) or ()
                is_array = isinstance(feature.type, ArrayFeature)
                return np.full([d or 1 for d in size], number) if is_array else number
    if text.startswith(("[", "{")) and not isinstance(feature.type, ImageFeature):
        return _parse_json(feature, text)
    return read_input(feature, path, resize, shape)


def _parse_json(feature: Feature, text: str) -> Any:
    try:
        return _plain(feature, json.loads(text))
    except (ValueError, RecursionError):  # the latter for brackets that are nested too deeply
        raise InputError(
            f"the value of the input {feature.name!r} is neither an array or dictionary in JSON nor a file",
            "write an array as '[[1, 2], [3, 4]]' and a dictionary as '{\"key\": 1}', in quotes",
        ) from None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a text that is too long for a path
        return False


def _no_file(feature: Feature, path: Path) -> InputError:
    near = similar_path(path)
    hint = f"did you mean {near}?" if near else "check the path"
    return InputError(f"the file {shown(str(path))} for the input {feature.name!r} does not exist", hint)


def _read_array(feature: Feature, path: Path) -> Array:
    try:
        # The file is opened here because NumPy does not close it if the archive is damaged.
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return loaded if isinstance(loaded, np.ndarray) else _member(feature, loaded, path)
    except (InputError, OSError):
        raise
    except Exception as error:
        # Damaged archives raise various types of exceptions.
        is_other = isinstance(error, ValueError) and "pickle" in str(error).lower()
        what = f"is not a {path.suffix} file of plain arrays" if is_other else f"cannot be read: {error}"
        raise InputError(f"{path} {what}", "write it with numpy.save or numpy.savez") from None


def _member(feature: Feature, archive: Mapping[str, Array], path: Path) -> Array:
    names = list(archive)
    name = feature.name if feature.name in names else names[0] if len(names) == 1 else None
    if name is None:
        raise InputError(
            f"{path} does not contain an array named {feature.name!r}",
            f"it contains: {', '.join(names) or 'nothing'}",
        )
    return archive[name]


def _read_text(feature: Feature, text: str, path: Path) -> Any:
    match feature.type:
        case StringFeature():
            return text.rstrip("\r\n")
        case SequenceFeature("string"):
            return text.splitlines()
    try:
        numbers = [float(word) for word in text.replace(",", " ").split()]
    except ValueError as error:
        raise InputError(
            f"{path} does not contain numbers separated by spaces: {error}",
            f"the input {feature.name!r} takes {describe_feature(feature.type)}",
        ) from None
    return _from_numbers(feature, numbers, path)


def _from_numbers(feature: Feature, numbers: list[float], path: Path) -> Any:
    match feature.type:
        case Int64Feature() | DoubleFeature() if len(numbers) == 1:
            return numbers[0]
        case SequenceFeature():
            return [int(number) for number in numbers]
        case ArrayFeature():
            array = np.array(numbers)
            shape = default_shape(feature.type)
            is_flat = shape is None or len(shape) == 1
            return array if is_flat or array.size != int(np.prod(shape or ())) else array.reshape(shape or ())
    raise InputError(
        f"the input {feature.name!r} takes {describe_feature(feature.type)}, "
        f"but {path} contains {len(numbers)} numbers",
        "use a file with a matching value",
    )


def _plain(feature: Feature, value: Any) -> Any:
    """Converts a JSON value, in which keys are always strings, to a feature value."""
    match feature.type, value:
        case DictionaryFeature("int64"), dict():
            return {int(key): item for key, item in value.items()}
        case ((ArrayFeature() | ImageFeature()), (list() | int() | float())):
            return np.asarray(value)
        case _:
            return value


def _fitted(feature: Feature, image: Any, resize: str | None, shape: Shape | None) -> Any:
    type_ = feature.type
    assert isinstance(type_, ImageFeature)
    if resize is None:
        return image
    if shape is None and type_.flexibility is not None:
        try:
            check_shape(feature, (image.height, image.width))
        except InputError:
            pass
        else:
            return image
    height, width = (shape or default_shape(type_) or (None, None))[-2:]
    if height is None or width is None:
        return image
    how: Resize = next(known for known in RESIZES if known == resize)
    return resize_image(image, width, height, how)
