"""The contract of inputs: in which form a reference takes the pictures that a model takes as pixels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from coremlscope.describe.preprocessing import Preprocessing
from coremlscope.model.ir import Array
from coremlscope.verification.inputs import Inputs, prepare

#: The numbers that networks commonly take for the darkest and the brightest pixel, each from … to: 0…255,
#: 0…1, −1…1, −½…½; centred and divided by the deviation of ImageNet or CLIP; minus the mean alone
#: (torchvision's transforms, CLIP's preprocessing, Caffe's model zoo).
_USUAL: Final = (
    ((0.0, 0.0), (255.0, 255.0)),
    ((0.0, 0.0), (1.0, 1.0)),
    ((-1.0, -1.0), (1.0, 1.0)),
    ((-0.5, -0.5), (0.5, 0.5)),
    ((-2.3, -1.4), (1.8, 2.9)),
    ((-140.0, -85.0), (110.0, 170.0)),
)
#: How far the ends may be off, relative to the range.
_OFF = 0.02


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """A form in which a reference may take pictures.

    Attributes:
        text: It as a clause: `image as RGB 0…1`.
        apply: Returns the inputs in this form, by name.
        is_prepared: Whether it is that after the preprocessing which the model holds.
        is_turned: Whether the colours are in another order than the model takes them.
    """

    text: str
    apply: Callable[[Inputs], dict[str, Array]]
    is_prepared: bool = False
    is_turned: bool = False


def plain_form(drawn: Inputs) -> Form:
    """Returns the form of inputs as the model takes them."""
    return Form(text="", apply=lambda given: dict(given.tensors), is_prepared=not drawn.prepared)


def forms_of(drawn: Inputs, *, is_turned: bool) -> Iterator[Form]:
    """Yields the plausible forms of the pictures among some inputs, the most likely first.

    Args:
        drawn: The inputs.
        is_turned: Whether to yield those with the other order of colours, of which there are none without.
    """
    if is_turned and not any(len(space) > 1 for space in drawn.images.values()):
        return
    for kind in (*(["prepared"] if drawn.prepared else []), "0…1", "0…255"):

        def apply(given: Inputs, kind: str = kind) -> dict[str, Array]:
            return {**given.tensors, **{name: _formed(given, name, kind, is_turned) for name in given.images}}

        texts = [
            f"{name} as {_order(space, is_turned)} {_range(drawn, name, kind)}"
            for name, space in drawn.images.items()
        ]
        yield Form(
            text=" and ".join(texts),
            apply=apply,
            is_prepared=kind == "prepared" or (kind == "0…255" and not drawn.prepared),
            is_turned=is_turned,
        )


def _order(space: str, is_turned: bool) -> str:
    return space[::-1] if is_turned and len(space) > 1 else space or "grey"


def _range(drawn: Inputs, name: str, kind: str) -> str:
    if kind != "prepared":
        return kind
    return f"that the model has prepared ({drawn.steps[name].text})" if name in drawn.prepared else "0…255"


def _formed(given: Inputs, name: str, kind: str, is_turned: bool) -> Array:
    pixels = given.tensors[name]
    if kind == "prepared" and name in given.prepared:
        pixels = prepare(pixels, given.steps[name])
    elif kind == "0…1":
        pixels = np.divide(pixels, 255, dtype=np.float32)
    is_colour = len(given.images[name]) > 1
    return np.ascontiguousarray(pixels[:, ::-1]) if is_turned and is_colour else pixels


def exchanged_forms(form: Form, by_order: Mapping[str, str]) -> Iterator[Form]:
    """Yields a form with two inputs in each other's place, of those that were assigned by their order only.

    Args:
        form: The form.
        by_order: The names of the model's inputs by those of the reference.
    """
    names = list(by_order.values())
    for place, first in enumerate(names):
        for second in names[place + 1 :]:

            def apply(given: Inputs, first: str = first, second: str = second) -> dict[str, Array]:
                tensors = form.apply(given)
                return {**tensors, first: tensors[second], second: tensors[first]}

            text = f"{first} and {second} in the other order"
            yield Form(
                text=", ".join(filter(None, (form.text, text))), apply=apply, is_prepared=form.is_prepared
            )


def is_usual(step: Preprocessing) -> bool:
    """Returns whether a preprocessing gives numbers that networks commonly take."""
    low = np.atleast_1d(np.array(step.bias, np.float64))
    high = low + 255 * np.array(step.scale, np.float64)

    def lie_in(ends: npt.NDArray[np.float64], bounds: tuple[float, float], size: float) -> bool:
        return bool((ends >= bounds[0] - _OFF * size).all() and (ends <= bounds[1] + _OFF * size).all())

    return step.has_mean_image or any(
        lie_in(low, darkest, brightest[1] - darkest[0]) and lie_in(high, brightest, brightest[1] - darkest[0])
        for darkest, brightest in _USUAL
    )
