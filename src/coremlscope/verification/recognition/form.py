"""A form: an operation of MIL that makes a result of some arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from coremlscope.ir import Array
from coremlscope.verification.distance import relative_error

__all__ = ["SAME_RESULT", "Family", "Floats", "Form", "is_same", "values_read"]

Floats = npt.NDArray[np.float64]
#: A result is that of an operation if it differs by less.
SAME_RESULT = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """An operation of MIL that makes a result.

    Attributes:
        type: Its type.
        reads: The places of the arguments among those of the reference, by parameter.
        settings: Its other arguments.
    """

    type: str
    reads: Mapping[str, tuple[int, ...]]
    settings: Mapping[str, Array | str] = field(default_factory=dict)


#: Yields forms that make a result, from all arguments, the result, and which arguments are values.
Family = Callable[[list[Floats], Floats, list[bool]], Iterator[Form]]


def is_same(made: Floats, wanted: Floats) -> bool:
    return made.shape == wanted.shape and relative_error(made, wanted) <= SAME_RESULT


def values_read(given: list[Floats], is_read: list[bool]) -> Iterator[tuple[int, Floats]]:
    return ((place, x) for place, x in enumerate(given) if is_read[place])
