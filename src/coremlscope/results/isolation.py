"""Parts of models as models of their own, and searches for the smallest part with a property."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from coremlscope.results.encoding import plain
from coremlscope.results.profile import Profile, to_json

#: Name and version of the schema.
ISOLATION = "coremlscope.isolation/1"

#: The result of a test: the part has the property, does not have it, or cannot be tested.
Verdict = Literal["yes", "no", "untestable"]


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
            share of the largest magnitude; 0 for equal values, None where one of the two is not finite and
            the other differs.
    """

    name: str
    type: str
    smallest: float | None = None
    largest: float | None = None
    not_finite: int = 0
    difference: Mapping[str, float | None]


class PartTest(msgspec.Struct, frozen=True, kw_only=True):
    """One test of a part.

    Attributes:
        first: The id of its first operation.
        last: The id of its last operation.
        units: The number of its operations.
        verdict: The result.
        note: Why, or the last line that a script printed.
        seconds: The time that cutting and testing took.
    """

    first: str
    last: str
    units: int
    verdict: Verdict
    note: str = ""
    seconds: float


class PartSearch(msgspec.Struct, frozen=True, kw_only=True):
    """The search for the smallest part with a property.

    Attributes:
        question: The property, as a clause: `overflows in fp16`.
        count: The number of operations or layers of the model that parts consist of.
        limit: The largest number of tests: 2·log2 of the number of operations, unless another was asked for.
        tests: The tests, in order.
        is_smallest: True if no range inside the part has the property; False if the limit ended the search.
        note: Why the part has the property, or what a script printed last.
    """

    question: str
    count: int
    limit: int
    tests: tuple[PartTest, ...]
    is_smallest: bool
    note: str = ""


class Isolation(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a model as a model of its own.

    Attributes:
        source: The whole model.
        path: The file or folder of the part; empty if it was searched for and not written.
        files: Files with values, beside it.
        units: The operations or layers of the part.
        inputs: Its inputs.
        outputs: Its outputs.
        states: Its states.
        precision: The precision in which values of the whole model were computed: `fp16` rounds every fp16
            result, as a device does.
        random_weights: True if absent weights were replaced by synthetic ones.
        search: How the smallest part with a property was found; None if the part was chosen.
        profile: The part's own profile: measurements, plans and estimates; None if it was not written.
    """

    source: str
    path: str = ""
    files: tuple[str, ...] = ()
    units: tuple[IsolatedUnit, ...]
    inputs: tuple[PartTensor, ...] = ()
    outputs: tuple[PartTensor, ...] = ()
    states: tuple[PartTensor, ...] = ()
    precision: str = ""
    random_weights: bool = False
    search: PartSearch | None = None
    profile: Profile | None = None

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values, with the schema's name."""
        profile = None if self.profile is None else to_json(self.profile)
        return {"schema": ISOLATION, **plain(self), "profile": profile}
