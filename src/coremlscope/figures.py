"""A number that says where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Figure", "Origin"]

Origin = Literal["measured", "planned", "estimated", "declared"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A value with its interval and its origin.

    Attributes:
        value: The value, in the SI unit that its owner names.
        low: Lower end of the interval (80 % for estimates); equal to `value` where there is none.
        high: Upper end of the interval.
        origin: `measured` on this host, `planned` by Core ML's cost model, `estimated` by the latency
            model, or `declared` by the file.
    """

    value: float
    low: float
    high: float
    origin: Origin

    @classmethod
    def measured(cls, value: float) -> Figure:
        """A single measured value without an interval."""
        return cls(value, value, value, "measured")

    def __add__(self, other: Figure) -> Figure:
        """Sums two figures of one origin; figures of different origins never mix."""
        if self.origin != other.origin:
            raise ValueError(f"cannot add a figure {self.origin} to one {other.origin}")
        return Figure(self.value + other.value, self.low + other.low, self.high + other.high, self.origin)
