"""Contract of references: outputs, and intermediate values where the reference can compute them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from coremlscope.errors import InputError
from coremlscope.features import describe_shape
from coremlscope.ir import Array
from coremlscope.verification.intermediates import Run
from coremlscope.verification.pairing import plain_name

__all__ = ["Reference", "match_inputs", "other_layout"]

#: Dimensions of a batch of images, and the orders that put their channels last, and first.
_IMAGES = 4
_LAYOUTS = ((0, 2, 3, 1), (0, 3, 1, 2))


class Reference(Protocol):
    """A network, or saved values, that a model is verified against."""

    @property
    def label(self) -> str:
        """A label for users: `model.onnx`."""

    def run(self, inputs: Mapping[str, Array]) -> Run:
        """Computes its values.

        Args:
            inputs: The inputs by the names of the verified model.

        Raises:
            InputError: It has other inputs.
            EngineError: It failed.
        """


def match_inputs(
    given: Mapping[str, Array], wanted: Sequence[tuple[str, tuple[int | None, ...] | None, np.dtype | None]]
) -> dict[str, Array]:
    """Assigns the inputs of the verified model to those of a reference: by name, else by order and size.

    Args:
        given: Arrays by name.
        wanted: The name, the shape and the type of each input of the reference, where they are known.

    Returns:
        Arrays by the names of the reference, in its shapes and types.

    Raises:
        InputError: An input of the reference has no counterpart.
    """
    left = dict(given)
    chosen: dict[str, Array] = {}
    by_name = {plain_name(name): name for name in given}
    for name, shape, _ in wanted:
        found = name if name in left else by_name.get(plain_name(name))
        if found in left and _fits(left[found], shape):
            chosen[name] = left.pop(found)
    for name, shape, _ in wanted:
        if name not in chosen:
            found = next((key for key, array in left.items() if _fits(array, shape)), None)
            if found is None:
                sizes = describe_shape(shape) if shape else "any"
                raise InputError(
                    f"the reference has an input {name!r} of shape {sizes}, and the model has none for it",
                    f"inputs of the model: {', '.join(given)}; give it the same names, or a value with"
                    " --input",
                )
            chosen[name] = left.pop(found)
    return {name: _shaped(chosen[name], shape, dtype) for name, shape, dtype in wanted}


def other_layout(shape: Sequence[int], wanted: Sequence[int | None] | None) -> tuple[int, ...]:
    """Returns the order of axes that puts channels last, or first, as another shape of four dimensions has
    them; empty if the shape suits as it is, or in neither order."""

    def suits(axes: Sequence[int]) -> bool:
        return wanted is not None and all(
            size in (None, shape[axis]) for axis, size in zip(axes, wanted, strict=True)
        )

    if wanted is None or len(shape) != _IMAGES or len(wanted) != _IMAGES or suits(range(_IMAGES)):
        return ()
    return next((axes for axes in _LAYOUTS if suits(axes)), ())


def _fits(array: Array, shape: tuple[int | None, ...] | None) -> bool:
    if shape is None or None in shape:
        return True
    return array.size == int(np.prod([size or 1 for size in shape]))


def _shaped(array: Array, shape: tuple[int | None, ...] | None, dtype: np.dtype | None) -> Array:
    axes = other_layout(array.shape, shape)
    if axes:
        array = np.ascontiguousarray(array.transpose(axes))
    if shape is not None and len(shape) != array.ndim and None not in shape and _fits(array, shape):
        array = array.reshape([size or 1 for size in shape])
    return array if dtype is None else array.astype(dtype)
