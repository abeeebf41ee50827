"""Converts between feature tensors and the arrays that an engine computes with.

Engines compute with numbers. For ports with labels, strings, integers and dictionaries are encoded as label
indices, or as numbers in the order of the labels, and decoded again after the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coremlscope.base.errors import InputError
from coremlscope.model.features import nearest
from coremlscope.model.ir import Array
from coremlscope.ops.program import Port

Label = str | int
#: The number of labels that an error message lists.
_LISTED = 5


class FeatureCodec:
    """Encodes feature tensors for an engine and decodes the engine's results.

    Args:
        inputs: The program's inputs.
        outputs: The program's outputs.
    """

    def __init__(self, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        self._inputs = [port for port in inputs if not port.holds_keys]
        self._outputs = [port for port in outputs if not port.holds_keys]
        self._input_keys = {port.name: port for port in inputs if port.holds_keys}
        self._output_keys = {port.name: port for port in outputs if port.holds_keys}
        self._indices: dict[str, dict[Label, int]] = {
            port.value: {label: index for index, label in enumerate(port.labels)}
            for port in inputs
            if port.labels is not None
        }

    def encode(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Encodes feature tensors.

        Args:
            tensors: By feature name. A dictionary is an object array with one element.

        Returns:
            The engine's inputs by the names of their ONNX values, states excluded.

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
                feeds.update(self._encode_dictionary(port, held))
            elif port.labels is None:
                feeds[port.value] = _fit(port, tensor)
            else:
                feeds[port.value] = self._encode_labels(port, tensor)
        return feeds

    def decode(self, results: Mapping[str, Array]) -> dict[str, Array]:
        """Decodes an engine's results.

        Args:
            results: By the names of the ONNX values.

        Returns:
            Tensors by feature name. A dictionary is an object array with one element.
        """
        return {
            port.name: _decode_dictionary(self._output_keys[port.name], port, results)
            if port.name in self._output_keys
            else results[port.value]
            for port in self._outputs
        }

    def labels(self) -> dict[str, tuple[Label, ...]]:
        """The labels that the indices and numbers of decoded results refer to, by output name."""
        return {port.name: port.labels for port in self._outputs if port.labels is not None}

    def _encode_labels(self, port: Port, tensor: Array) -> Array:
        indices = np.array([self._index(port, item) for item in tensor.reshape(-1).tolist()], np.int64)
        if port.type.is_static:
            return indices.reshape([size or 0 for size in port.type.shape or ()])
        return indices[indices >= 0]

    def _encode_dictionary(self, port: Port, given: Mapping[Label, float]) -> dict[str, Array]:
        keys = self._input_keys.get(port.name)
        if keys is not None and keys.labels is None:
            if any(isinstance(key, str) != (keys.dtype == object) for key in given):
                raise InputError(
                    f"the dictionary {port.name!r} has keys of the wrong type",
                    "use strings as keys" if keys.dtype == object else "use integers as keys",
                )
            return {
                keys.value: _as_array(list(given), keys.dtype),
                port.value: np.array(list(given.values()), port.dtype),
            }
        of_keys = port if keys is None else keys
        pairs = [(self._index(of_keys, key), number) for key, number in given.items()]
        pairs = [(index, number) for index, number in pairs if index >= 0]
        indices = np.array([index for index, _ in pairs], np.int64)
        numbers = np.array([number for _, number in pairs], port.dtype)
        if keys is not None:
            return {keys.value: indices, port.value: numbers}
        table = np.zeros(len(port.labels or ()), port.dtype)
        table[indices] = numbers
        return {port.value: table}

    def _index(self, port: Port, item: object) -> int:
        """The index of a label; -1 if the label is unknown. Integral floats match integer labels."""
        assert port.labels is not None
        if isinstance(item, float) and item.is_integer():
            item = int(item)
        index = self._indices[port.value].get(item, -1) if isinstance(item, (str, int)) else -1
        if index < 0 and port.is_closed:
            near = nearest(str(item), [str(label) for label in port.labels])
            few = ", ".join(repr(label) for label in port.labels[:_LISTED])
            more = "" if len(port.labels) <= _LISTED else f", … ({len(port.labels)} in all)"
            raise InputError(
                f"unknown category {item!r} of the input {port.name!r}",
                f"did you mean {near!r}?" if near else f"categories: {few}{more}",
            )
        return index


def _as_array(items: Sequence[Label], dtype: np.dtype[Any]) -> Array:
    """Strings or integers as a one-dimensional array."""
    array = np.empty(len(items), dtype)
    array[:] = items
    return array


def _fit(port: Port, tensor: Array) -> Array:
    """Casts and reshapes a tensor for a port; the number of elements must match if the shape is fixed."""
    array = tensor.astype(port.dtype, copy=False)
    shape = port.type.shape
    if shape is None or len(shape) == array.ndim or not port.type.is_static:
        return array
    if array.size != port.type.elements:
        raise InputError(
            f"the input {port.name!r} has the shape {list(shape)}, but {list(array.shape)} was given"
        )
    return array.reshape([d or 0 for d in shape])


def _decode_dictionary(keys: Port, numbers: Port, results: Mapping[str, Array]) -> Array:
    """Joins the keys and numbers of a dictionary in an object array with one element."""
    names: list[Label] = results[keys.value].reshape(-1).tolist()
    if keys.labels is not None:
        names = [keys.labels[int(name)] for name in names]
    held = np.empty(1, object)
    held[0] = dict(zip(names, results[numbers.value].reshape(-1).tolist(), strict=True))
    return held
