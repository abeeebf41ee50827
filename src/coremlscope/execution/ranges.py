"""What the results of a program that rounds to fp16 were like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coremlscope.ir import Array
from coremlscope.ops.program import RangePort

__all__ = ["OpRange", "read_ranges"]


@dataclass(frozen=True, slots=True)
class OpRange:
    """The fp16 results of one operation, over all elements and all times that it ran.

    Attributes:
        id: The operation.
        largest: The largest finite magnitude before rounding; None where there was no finite element.
        overflows: Elements that were finite and that rounding made infinite.
        infinities: Elements that were infinite before rounding.
        nans: Elements that were no number.
    """

    id: str
    largest: float | None
    overflows: int
    infinities: int
    nans: int


def read_ranges(port: RangePort, results: Mapping[str, Array]) -> tuple[OpRange, ...]:
    """The ranges that a run gave.

    Args:
        port: Where the program gives them.
        results: The outputs of the run, by the names of their values.
    """
    columns = results[port.value].T.tolist()
    return tuple(
        OpRange(op_id, largest if largest >= 0 else None, int(after - before), int(before), int(nans))
        for op_id, (largest, after, before, nans) in zip(port.ops, columns, strict=True)
    )
