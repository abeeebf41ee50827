"""What the figures of a model do not include: one definition for descriptions, plans and estimates."""

from __future__ import annotations

import msgspec

#: The share of FLOPs or parameters above which there is no figure.
LEFT_OUT_AT_MOST = 0.2


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """Operations of unknown size.

    Attributes:
        operations: Their number.
        total: The number of all operations, without constants.
        types: Their types with the number of each, most frequent first.
        share: The share of all parameters that they read, as far as it is known.
    """

    operations: int = 0
    total: int = 0
    types: tuple[tuple[str, int], ...] = ()
    share: float = 0.0

    @property
    def is_too_much(self) -> bool:
        """Whether a figure without them would say nothing about the model."""
        return self.share > LEFT_OUT_AT_MOST

    @property
    def text(self) -> str:
        """`7 of 15 operations (convolution ×7)`, with their share; empty for none."""
        if not self.operations:
            return ""
        listed = ", ".join(f"{name} ×{number}" for name, number in self.types)
        share = f", {self.share:.0%} of the parameters" if self.share >= 0.005 else ""
        return f"{self.operations} of {self.total} operations ({listed}){share}"
