"""Input values from `--input NAME=FILE`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coremlscope.base.errors import InputError

if TYPE_CHECKING:
    from coremlscope.model.ir import FunctionDescription


def read_inputs(
    description: FunctionDescription,
    given: Sequence[tuple[str, str]],
    shapes: Mapping[str, Sequence[int]],
    resize: str,
) -> dict[str, Any]:
    """Reads values of inputs from files, or from what was typed.

    Args:
        description: The interface of the function.
        given: Names, and the file or value of each, in order; the last one of a name counts.
        shapes: Requested shapes; images are resized to them.
        resize: How images of another size are resized.

    Raises:
        InputError: A name is unknown, or a file does not hold a value of its input.
    """
    from coremlscope.model.features import bind_shapes, parse_input
    from coremlscope.model.features.names import suggest_name

    features = {feature.name: feature for feature in description.inputs}
    bound = bind_shapes(description, shapes)
    values = {}
    for name, text in given:
        if name not in features:
            raise InputError(f"unknown input {name!r}", suggest_name(name, features, "input"))
        shape = bound[name] if name in shapes else None
        values[name] = parse_input(features[name], text, resize, shape)
    return values


def read_samples(
    description: FunctionDescription,
    given: Sequence[tuple[str, str]],
    shapes: Mapping[str, Sequence[int]],
    resize: str,
) -> list[dict[str, Any]]:
    """Reads several values of inputs: each file of a folder is one sample; see `read_inputs`.

    A value that is no folder is the same in all samples.

    Raises:
        InputError: Folders have different numbers of files, or a file does not hold a value of its input.
    """
    folders = {name: _files(Path(text)) for name, text in given if _is_folder(Path(text))}
    counts = {len(files) for files in folders.values()}
    if len(counts) > 1 or 0 in counts:
        numbers = ", ".join(f"{name} {len(files)}" for name, files in folders.items())
        raise InputError(
            f"the folders of inputs must have the same number of files, at least one: {numbers}",
            "add or remove some",
        )
    count = counts.pop() if counts else 1
    return [
        read_inputs(
            description,
            [(name, str(folders[name][index]) if name in folders else text) for name, text in given],
            shapes,
            resize,
        )
        for index in range(count)
    ]


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a text that is too long for a path
        return False


def _files(folder: Path) -> list[Path]:
    """Returns the files of a folder in the order of their names, without hidden ones."""
    return sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
