"""Layers as they are stored, and checked access to their attributes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from coremlscope.formats.neuralnetwork.builder import CannotTranslate

#: The largest number of single precision.
LARGEST = 3.4028234663852886e38


class CompiledLayer(msgspec.Struct, frozen=True, kw_only=True):
    """A layer as it is stored.

    Attributes:
        type: The compiler's name of the layer type: `inner_product`.
        name: The author's name for it.
        inputs: Names of its input blobs.
        outputs: Names of its output blobs.
        attributes: The other attributes.
        weights: Numbers of blobs by their role, besides those in attributes.
    """

    type: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    weights: Mapping[str, Any] = msgspec.field(default_factory=dict)

    def integer(self, name: str, default: int | None = None) -> int:
        """Returns an attribute that is an integer.

        Raises:
            CannotTranslate: The attribute is not an integer, or is missing without a default.
        """
        value = self.number(name, default)
        if value != int(value):
            raise CannotTranslate(f"its attribute {name} is {value}, not an integer")
        return int(value)

    def number(self, name: str, default: float | None = None) -> float:
        """Returns an attribute that is a number.

        Raises:
            CannotTranslate: The attribute is not a finite number, or is missing without a default.
        """
        value = self.attributes.get(name, default)
        if value is None:
            raise CannotTranslate(f"its attribute {name} is missing")
        if not isinstance(value, (int, float)) or abs(value) > LARGEST or not math.isfinite(value):
            raise CannotTranslate(f"its attribute {name} is not a valid number")
        return value

    def size(self, name: str, default: int | None = None) -> int:
        """Returns an attribute that is a positive integer.

        Raises:
            CannotTranslate: The attribute is not a positive integer, or is missing without a default.
        """
        value = self.integer(name, default)
        if not 0 < value < 2**31:
            raise CannotTranslate(f"its attribute {name} is {value}, not a positive size")
        return value

    def flag(self, name: str) -> bool:
        """Returns an attribute that is true or false; false if it is missing.

        Raises:
            CannotTranslate: The attribute is not a number.
        """
        return bool(self.number(name, 0))

    def choice(self, name: str, names: Mapping[int, str], default: int | None = None) -> str:
        """Returns the meaning of an attribute that is a code.

        Raises:
            CannotTranslate: The meaning of the code is unknown, or the attribute is missing without a
            default.
        """
        code = self.integer(name, default)
        if code not in names:
            raise CannotTranslate(f"the meaning of its attribute {name} = {code} is unknown")
        return names[code]
