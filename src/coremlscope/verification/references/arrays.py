"""Saved values, and functions that return them, as references."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from coremlscope.errors import EngineError, InputError, UsageError
from coremlscope.ir import Array
from coremlscope.verification.intermediates import Intermediate, Run

__all__ = ["CallReference", "SavedReference", "read_arrays"]


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

    def run(self, inputs: Mapping[str, Array]) -> Run:
        """Returns the saved values; see `Reference.run`.

        Raises:
            InputError: Nothing was saved but inputs, or something else than numbers.
        """
        values = {name: Intermediate(name=name, array=array) for name, array in inputs.items()}
        saved = {name: _numeric(name, array) for name, array in self.arrays.items() if name not in inputs}
        if not saved:
            raise InputError(
                "the reference holds no values but inputs", "save the outputs of the network as well"
            )
        values.update((name, Intermediate(name=name, array=array, op=name)) for name, array in saved.items())
        return Run(label=self.label, values=values, outputs={name: name for name in saved})


class CallReference:
    """A function that takes a dictionary of arrays and returns its outputs.

    Args:
        function: Called with the inputs by name. It returns a mapping from names to arrays, an array, or a
            sequence of arrays in the order of the model's outputs.
    """

    def __init__(self, function: Callable[[dict[str, Array]], Any]) -> None:
        self.label = getattr(function, "__name__", type(function).__name__)
        self._function = function

    def run(self, inputs: Mapping[str, Array]) -> Run:
        """Calls the function; see `Reference.run`.

        Raises:
            InputError: It returns something else than numbers.
            EngineError: It failed.
        """
        try:
            returned = self._function(dict(inputs))
        except Exception as error:  # the author's code may raise anything
            raise EngineError(f"the reference {self.label} failed: {error}") from error
        if not isinstance(returned, Mapping):
            parts = returned if isinstance(returned, (list, tuple)) else [returned]
            returned = {f"output_{index}": part for index, part in enumerate(parts)}
        values = {name: Intermediate(name=name, array=array) for name, array in inputs.items()}
        arrays = {str(name): _numeric(str(name), np.asarray(array)) for name, array in returned.items()}
        values.update((n, Intermediate(name=n, array=array, op=n)) for n, array in arrays.items())
        return Run(
            label=self.label, values=values, outputs={name: name for name in arrays}, has_intermediates=False
        )


def _numeric(name: str, array: Array) -> Array:
    """Returns an array of numbers.

    Raises:
        InputError: It holds something else.
    """
    if array.dtype.kind not in "biuf":
        kind = "strings" if array.dtype.kind in "US" else "objects" if array.dtype == object else array.dtype
        raise InputError(
            f"the value {name!r} of the reference holds {kind}, which cannot be compared",
            "give arrays of real numbers only",
        )
    return array
