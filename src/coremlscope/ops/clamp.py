"""What a chain of activations, factors and bounds computes."""

from __future__ import annotations

import math
from typing import Self

import msgspec
from msgspec.structs import replace

#: Tolerance for a factor of one: the product of 1/3 or 1/6 and its inverse has this error in float32.
_ROUNDING = 2.0**-20


class Clamp(msgspec.Struct, frozen=True, kw_only=True):
    """A chain that computes `min(max(factor * x + summand, low), high)`.

    Attributes:
        factor: The factor of `x`.
        summand: The constant added to the product.
        low: The lower bound; -inf if there is none.
        high: The upper bound; inf if there is none.
    """

    factor: float = 1.0
    summand: float = 0.0
    low: float = -math.inf
    high: float = math.inf

    def times(self, number: float) -> Self:
        """Returns the chain with a factor behind it, which is neither zero nor infinite."""
        ends = sorted((self.low * number, self.high * number))
        return replace(
            self, factor=self.factor * number, summand=self.summand * number, low=ends[0], high=ends[1]
        )

    def plus(self, number: float) -> Self:
        """Returns the chain with a summand behind it."""
        return replace(self, summand=self.summand + number, low=self.low + number, high=self.high + number)

    def within(self, low: float, high: float) -> Self:
        """Returns the chain with bounds behind it."""
        return replace(self, low=min(max(self.low, low), high), high=max(min(self.high, high), low))

    @property
    def is_bound(self) -> bool:
        """True if the chain only bounds `x`."""
        is_bounded = math.isfinite(self.low) or math.isfinite(self.high)
        return is_bounded and abs(self.factor - 1) <= _ROUNDING and self.summand == 0

    @property
    def is_hard_sigmoid(self) -> bool:
        """True if the bounds are zero and one."""
        return abs(self.low) <= _ROUNDING and abs(self.high - 1) <= _ROUNDING
