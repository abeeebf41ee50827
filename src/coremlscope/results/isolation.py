"""Parts of models as models of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from coremlscope.results.encoding import plain
from coremlscope.results.profile import Profile, to_json

#: Name and version of the schema.
ISOLATION = "coremlscope.isolation/1"


class IsolatedUnit(msgspec.Struct, frozen=True):
    """An operation of an ML Program, or a layer of a neural network, of which parts consist.

    Attributes:
        id: The id of the operation in the whole model: `main/12`; of a layer, that of its first operation.
        name: The author's name.
        type: Apple's name of the type: `conv`, `innerProduct`.
    """

    id: str
    name: str
    type: str


class PartTensor(msgspec.Struct, frozen=True, kw_only=True):
    """An input, output or state of the part, with the range of its values in the whole model.

    Attributes:
        name: Its name.
        type: Its type: `fp16 [1, 64, 32, 32]`.
        smallest: The smallest finite element; None if there is none.
        largest: The largest finite element; None if there is none.
        not_finite: The number of elements that are infinite or NaN.
        difference: For each runtime that ran the part, the largest difference from the whole model, as a
            share of the largest magnitude; 0 for equal values, None where nothing can be compared: the output
            is missing or has another size, or one of the two is not finite and the other differs.
    """

    name: str
    type: str
    smallest: float | None = None
    largest: float | None = None
    not_finite: int = 0
    difference: Mapping[str, float | None]


class Isolation(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a model as a model of its own.

    Attributes:
        source: The whole model.
        path: The file or folder of the part.
        files: Files with values, beside it.
        units: The operations or layers of the part.
        inputs: Its inputs.
        outputs: Its outputs.
        states: Its states.
        precision: The precision in which values of the whole model were computed: `fp16` rounds every fp16
            result, as a device does.
        random_weights: True if absent weights were replaced by synthetic ones.
        profile: The part's own profile: measurements, plans and estimates.
    """

    source: str
    path: str
    files: tuple[str, ...] = ()
    units: tuple[IsolatedUnit, ...]
    inputs: tuple[PartTensor, ...] = ()
    outputs: tuple[PartTensor, ...] = ()
    states: tuple[PartTensor, ...] = ()
    precision: str = ""
    random_weights: bool = False
    profile: Profile

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values, with the schema's name."""
        return {"schema": ISOLATION, **plain(self), "profile": to_json(self.profile)}
