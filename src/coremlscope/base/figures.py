"""Numbers that carry their origin."""

from __future__ import annotations

from typing import Literal

import msgspec

Origin = Literal["measured", "planned", "estimated", "declared"]


class Figure(msgspec.Struct, frozen=True):
    """A value with an interval and an origin.

    Attributes:
        value: The value, in the SI unit given by the name of the field that holds the figure.
        low: Lower bound of the interval (80 % for estimates); equal to `value` if there is no interval.
        high: Upper bound of the interval.
        origin: `measured` on this host, `planned` by Core ML's cost model, `estimated` by the latency
            model, or `declared` by the file.
    """

    value: float
    low: float
    high: float
    origin: Origin

    @classmethod
    def measured(cls, value: float) -> Figure:
        """Creates a single measured value without an interval."""
        return cls(value, value, value, "measured")

    def __add__(self, other: Figure) -> Figure:
        """Adds two figures of the same origin.

        Raises:
            ValueError: The origins differ.
        """
        if self.origin != other.origin:
            raise ValueError(f"cannot add figures of different origins: {self.origin} and {other.origin}")
        return Figure(self.value + other.value, self.low + other.low, self.high + other.high, self.origin)
