"""Contract of references: outputs, and intermediate values where the reference can compute them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import msgspec
import numpy as np

from coremlscope.base.errors import InputError
from coremlscope.model.features import describe_shape
from coremlscope.model.ir import Array
from coremlscope.verification.intermediates import Run
from coremlscope.verification.pairing import plain_name

#: The name, the shape and the type of an input of a reference; None where they are not known.
Wanted = tuple[str, tuple[int | None, ...] | None, np.dtype | None]

#: Dimensions of a batch of images, and the orders that put their channels last, and first.
_IMAGES = 4
_LAYOUTS = ((0, 2, 3, 1), (0, 3, 1, 2))


class Reference(Protocol):
    """A network, or saved values, that a model is verified against."""

    @property
    def label(self) -> str:
        """A label for users: `model.onnx`."""

    def run(self, inputs: Mapping[str, Array], before: Sequence[Mapping[str, Array]] = ()) -> Run:
        """Computes its values.

        Args:
            inputs: The inputs by the names of the verified model.
            before: The inputs of earlier calls, whose states this one begins with. References without states
                have none.

        Raises:
            InputError: It has other inputs.
            EngineError: It failed.
        """


class Assigned(msgspec.Struct, frozen=True):
    """The inputs of a reference.

    Attributes:
        arrays: Arrays by the names of the reference, in its shapes and types.
        by_order: Inputs that were assigned by their order, though others would fit as well: the name of the
            model's input by that of the reference's.
    """

    arrays: dict[str, Array]
    by_order: dict[str, str]


def match_inputs(given: Mapping[str, Array], wanted: Sequence[Wanted]) -> Assigned:
    """Assigns the inputs of the verified model to those of a reference: by name, else those of the same size,
    shape and kind of numbers as far as these tell them apart, else by order.

    Args:
        given: Arrays by name.
        wanted: The inputs of the reference.

    Raises:
        InputError: An input of the reference has no counterpart.
    """
    left = dict(given)
    chosen: dict[str, Array] = {}
    assigned: dict[str, str] = {}
    by_name = {plain_name(name): name for name in given}
    for name, shape, _ in wanted:
        found = name if name in left else by_name.get(plain_name(name))
        if found in left and _fits(left[found], shape):
            chosen[name] = left.pop(found)
    for name, shape, dtype in wanted:
        if name not in chosen:
            fitting = [key for key, array in left.items() if _fits(array, shape)]
            if not fitting:
                raise _no_counterpart(name, shape, given)
            unlike = {key: _unlike(left[key], shape, dtype) for key in fitting}
            assigned[name] = min(fitting, key=unlike.__getitem__)
            chosen[name] = left.pop(assigned[name])
    return Assigned(
        {name: _shaped(chosen[name], shape, dtype) for name, shape, dtype in wanted},
        _exchangeable(given, assigned, left),
    )


def _no_counterpart(
    name: str, shape: tuple[int | None, ...] | None, given: Mapping[str, Array]
) -> InputError:
    """Returns the error of an input of a reference that no input of the model suits."""
    sizes = describe_shape(shape) if shape else "any"
    own = next((key for key in given if plain_name(key) == plain_name(name)), None)
    if own is None:
        listed = ", ".join(f"{key} ({describe_shape(array.shape)})" for key, array in given.items())
        return InputError(
            f"the reference has an input {name!r} of shape {sizes}, and the model has none for it",
            f"inputs of the model: {listed}; the reference must be the network that it was converted from",
        )
    return InputError(
        f"the reference has an input {name!r} of shape {sizes}, which is {describe_shape(given[own].shape)}"
        " in the model",
        "give a reference for the same shape, or set that of a flexible input with --shape",
    )


def _exchangeable(
    given: Mapping[str, Array], assigned: Mapping[str, str], left: Collection[str]
) -> dict[str, str]:
    """Returns those inputs of a reference that another input, or one that is left, would suit as well.

    Args:
        given: Arrays by name.
        assigned: The names of arrays by those of the inputs that were not assigned by their names.
        left: The names of arrays that were assigned to no input.
    """

    def is_alike(one: str, other: str) -> bool:
        kinds = [given[key].dtype.kind == "f" for key in (one, other)]
        return one != other and kinds[0] == kinds[1] and given[one].shape == given[other].shape

    others = [*assigned.values(), *left]
    return {name: key for name, key in assigned.items() if any(is_alike(key, other) for other in others)}


def _unlike(array: Array, shape: tuple[int | None, ...] | None, dtype: np.dtype | None) -> int:
    """Counts in what an array differs from an input of its size: the kind of its numbers, and the shape."""
    is_shape = shape is None or (
        len(shape) == array.ndim
        and all(size in (None, own) for size, own in zip(shape, array.shape, strict=True))
    )
    is_kind = dtype is None or (dtype.kind == "f") == (array.dtype.kind == "f")
    return 2 * (not is_kind) + (not is_shape)


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
