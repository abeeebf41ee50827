"""Saved values, and functions that return them, as references."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coremlscope.base.errors import EngineError, InputError, UsageError
from coremlscope.model.ir import Array
from coremlscope.verification.intermediates import Run


def read_arrays(path: Path) -> dict[str, Array]:
    """Reads the arrays of an `.npz` file.

    Raises:
        UsageError: The file cannot be read, or holds other objects than arrays of numbers.
    """
    try:
        # NumPy leaves a file open that it finds damaged.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror or 'it is damaged'}", "check the path of the reference"
        ) from None
    except (ValueError, EOFError, zipfile.BadZipFile, MemoryError, AttributeError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else "it is damaged"
        raise UsageError(
            f"{path} does not hold arrays: {reason}", "write it with numpy.savez(path, name=array, …)"
        ) from None


class SavedReference:
    """Values that were saved: outputs and, where their names say so, intermediate values and inputs.

    Args:
        arrays: Arrays by name.
        label: What they are, for people.
    """

    def __init__(self, arrays: Mapping[str, Any], label: str = "saved values") -> None:
        self.label = label
        self.arrays = {name: np.asarray(array) for name, array in arrays.items()}

    def run(self, inputs: Mapping[str, Array], before: Sequence[Mapping[str, Array]] = ()) -> Run:
        """Returns the saved values; see `Reference.run`.

        Raises:
            InputError: No numbers were saved but inputs, or something else than numbers and text.
        """
        saved = _numbers({name: one for name, one in self.arrays.items() if name not in inputs})
        if not saved:
            raise InputError(
                "the reference holds no numbers but inputs", "save the outputs of the network as well"
            )
        return Run.of_outputs(self.label, inputs, saved, has_intermediates=True)


class CallReference:
    """A function that takes a dictionary of arrays and returns its outputs.

    Args:
        function: Called with the inputs by name. It returns a mapping from names to arrays, an array, or a
            sequence of arrays in the order of the model's outputs.
    """

    def __init__(self, function: Callable[[dict[str, Array]], Any]) -> None:
        self.label = getattr(function, "__name__", type(function).__name__)
        self._function = function

    def run(self, inputs: Mapping[str, Array], before: Sequence[Mapping[str, Array]] = ()) -> Run:
        """Calls the function; see `Reference.run`.

        Raises:
            InputError: It returns no numbers, or something else than numbers and text.
            EngineError: It failed.
        """
        try:
            returned = self._function(dict(inputs))
        except Exception as error:  # the author's code may raise anything
            reason = str(error) or type(error).__name__
            raise EngineError(f"the reference {self.label} failed: {reason}") from error
        if not isinstance(returned, Mapping):
            parts = returned if isinstance(returned, (list, tuple)) else [returned]
            returned = {f"output_{index}": part for index, part in enumerate(parts)}
        arrays = _numbers({str(name): np.asarray(array) for name, array in returned.items()})
        if not arrays:
            raise InputError(f"the reference {self.label} returns no numbers", "return the network's outputs")
        return Run.of_outputs(self.label, inputs, arrays)


def _numbers(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Returns arrays of numbers, without texts, such as the most probable class of a classifier.

    Raises:
        InputError: One holds something else.
    """
    found = {name: array for name, array in arrays.items() if array.dtype.kind not in "US"}
    for name, array in found.items():
        if array.dtype.kind not in "biuf":
            kind = "objects" if array.dtype == object else array.dtype
            raise InputError(
                f"the value {name!r} of the reference holds {kind}, which cannot be compared",
                "give arrays of real numbers only",
            )
    return found
