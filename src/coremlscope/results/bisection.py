"""The smallest part of a model with a property, and the tests that found it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from coremlscope.results.encoding import plain
from coremlscope.results.isolation import IsolatedUnit

__all__ = ["BISECTION", "Bisection", "BisectionTest", "Verdict"]

#: Name and version of the schema.
BISECTION = "coremlscope.bisection/1"

#: The result of a test: the part has the property, does not have it, or cannot be tested.
Verdict = Literal["yes", "no", "untestable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectionTest:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisection:
    """The smallest part of a model with a property.

    Attributes:
        source: The model.
        question: The property, as a clause: `overflows in fp16`.
        count: The number of operations or layers of the model that parts consist of.
        limit: The largest number of tests: 2·log2 of the number of operations, unless another was asked for.
        tests: The tests, in order.
        units: The smallest part that was found.
        is_smallest: True if no range inside it has the property; False if the limit ended the search.
        note: Why the part has the property, or what a script printed last.
        files: The files of the part, if it was written.
    """

    source: str
    question: str
    count: int
    limit: int
    tests: tuple[BisectionTest, ...]
    units: tuple[IsolatedUnit, ...]
    is_smallest: bool
    note: str = ""
    files: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values, with the schema's name."""
        return {"schema": BISECTION, **plain(self)}
