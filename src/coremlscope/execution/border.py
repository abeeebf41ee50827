"""Between feature tensors and what an engine takes and gives: categories are indices there.

An engine computes with numbers. Where a port has labels, a string, an integer or a dictionary becomes indices
or numbers in the order of the labels on the way in, and the other way round on the way out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coremlscope.errors import InputError
from coremlscope.features import nearest
from coremlscope.ir import Array
from coremlscope.ops.program import Port

__all__ = ["Border"]

Label = str | int
#: Labels that an error lists; of more, the one that is most alike.
_LISTED = 5


class Border:
    """Converts what goes into a program and what comes out of it.

    Args:
        inputs: The program's inputs.
        outputs: Its outputs.
    """

    def __init__(self, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        self._inputs = [port for port in inputs if not port.holds_keys]
        self._outputs = [port for port in outputs if not port.holds_keys]
        self._input_keys = {port.name: port for port in inputs if port.holds_keys}
        self._output_keys = {port.name: port for port in outputs if port.holds_keys}
        self._places: dict[str, dict[Label, int]] = {
            port.value: {label: place for place, label in enumerate(port.labels)}
            for port in inputs
            if port.labels is not None
        }

    def feeds(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """What the engine is fed, from tensors by feature name.

        Raises:
            InputError: A tensor is missing, has the wrong number of elements, or holds an unknown category.
        """
        feeds: dict[str, Array] = {}
        for port in self._inputs:
            if port.name not in tensors:
                raise InputError(f"the input {port.name!r} is missing")
            tensor = np.asarray(tensors[port.name])
            held = tensor.reshape(-1)[0] if tensor.dtype == object and tensor.size == 1 else None
            if isinstance(held, Mapping):
                feeds.update(self._pairs(port, held))
            elif port.labels is None:
                feeds[port.value] = _fit(port, tensor)
            else:
                feeds[port.value] = self._indices(port, tensor)
        return feeds

    def results(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """Tensors by feature name, from what the engine gives; a dictionary is an array of one object."""
        return {
            port.name: _joined(self._output_keys[port.name], port, given)
            if port.name in self._output_keys
            else given[port.value]
            for port in self._outputs
        }

    def labels(self) -> dict[str, tuple[Label, ...]]:
        """By name of the output: what indices and numbers in `results` stand for."""
        return {port.name: port.labels for port in self._outputs if port.labels is not None}

    def _indices(self, port: Port, tensor: Array) -> Array:
        places = np.array([self._place(port, item) for item in tensor.reshape(-1).tolist()], np.int64)
        if port.type.is_static:
            return places.reshape([size or 0 for size in port.type.shape or ()])
        return places[places >= 0]

    def _pairs(self, port: Port, given: Mapping[Label, float]) -> dict[str, Array]:
        keys = self._input_keys.get(port.name)
        if keys is not None and keys.labels is None:
            if any(isinstance(key, str) != (keys.dtype == object) for key in given):
                raise InputError(
                    f"the dictionary {port.name!r} has keys of another type than the model passes on",
                    "give strings as keys" if keys.dtype == object else "give integers as keys",
                )
            return {
                keys.value: _as_array(list(given), keys.dtype),
                port.value: np.array(list(given.values()), port.dtype),
            }
        of_keys = port if keys is None else keys
        pairs = [(self._place(of_keys, key), number) for key, number in given.items()]
        pairs = [(place, number) for place, number in pairs if place >= 0]
        places = np.array([place for place, _ in pairs], np.int64)
        numbers = np.array([number for _, number in pairs], port.dtype)
        if keys is not None:
            return {keys.value: places, port.value: numbers}
        table = np.zeros(len(port.labels or ()), port.dtype)
        table[places] = numbers
        return {port.value: table}

    def _place(self, port: Port, item: object) -> int:
        """The index of a label; -1 for what is none. Floats are found by the integers that they are."""
        assert port.labels is not None
        if isinstance(item, float) and item.is_integer():
            item = int(item)
        place = self._places[port.value].get(item, -1) if isinstance(item, (str, int)) else -1
        if place < 0 and port.is_closed:
            near = nearest(str(item), [str(label) for label in port.labels])
            few = ", ".join(repr(label) for label in port.labels[:_LISTED])
            more = "" if len(port.labels) <= _LISTED else f", … ({len(port.labels)} in all)"
            raise InputError(
                f"the model does not know the category {item!r} of the input {port.name!r}",
                f"did you mean {near!r}?" if near else f"it knows {few}{more}",
            )
        return place


def _as_array(items: Sequence[Label], dtype: np.dtype[Any]) -> Array:
    """Strings or integers as an array of one dimension."""
    array = np.empty(len(items), dtype)
    array[:] = items
    return array


def _fit(port: Port, tensor: Array) -> Array:
    """The tensor for a port; ranks that differ by dimensions of one are adapted."""
    array = tensor.astype(port.dtype, copy=False)
    shape = port.type.shape
    if shape is None or len(shape) == array.ndim or not port.type.is_static:
        return array
    if array.size != port.type.elements:
        raise InputError(
            f"the input {port.name!r} has the shape {list(shape)}, but {list(array.shape)} was given"
        )
    return array.reshape([d or 0 for d in shape])


def _joined(keys: Port, numbers: Port, given: Mapping[str, Array]) -> Array:
    """A dictionary from its keys and numbers."""
    names: list[Label] = given[keys.value].reshape(-1).tolist()
    if keys.labels is not None:
        names = [keys.labels[int(name)] for name in names]
    held = np.empty(1, object)
    held[0] = dict(zip(names, given[numbers.value].reshape(-1).tolist(), strict=True))
    return held
