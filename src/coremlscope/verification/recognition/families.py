"""Recognises an operation of MIL by its values: the one that makes a result of its arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from coremlscope.ir import Array
from coremlscope.verification.intermediates import Intermediate
from coremlscope.verification.pairing import general_type
from coremlscope.verification.recognition.arithmetic import binary, elementwise, reductions
from coremlscope.verification.recognition.form import Family, Form
from coremlscope.verification.recognition.layers import along_axes, convolutions, products
from coremlscope.verification.recognition.moved_elements import copied, joined, moves

__all__ = ["find_forms"]

_FAMILIES: tuple[Family, ...] = (
    moves,
    elementwise,
    binary,
    reductions,
    along_axes,
    products,
    convolutions,
    joined,
    copied,
)


def find_forms(value: Intermediate, given: Sequence[Array], is_read: list[bool]) -> Iterator[Form]:
    """Yields the operations that make a value of its arguments, those of its own type first."""
    arrays = [array.astype(np.float64) for array in given]
    result = value.array.astype(np.float64)
    found = []
    with np.errstate(all="ignore"):
        for family in _FAMILIES:
            for form in family(arrays, result, is_read):
                if general_type(form.type) == general_type(value.type):
                    yield form
                    return
                found.append(form)
    if result.size > 1:  # One number is made by many operations.
        yield from found
