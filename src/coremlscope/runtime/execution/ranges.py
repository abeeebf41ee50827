"""The ranges of fp16 results, recorded by programs that round to fp16."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from coremlscope.model.ir import Array
from coremlscope.ops.program import RangePort


class OpRange(msgspec.Struct, frozen=True, kw_only=True):
    """The range of one operation's fp16 results, over all elements and all executions in a run.

    Attributes:
        id: The operation's id.
        largest: The largest finite magnitude before rounding; None if no element was finite.
        overflows: The number of finite elements that rounding made infinite.
        infinities: The number of elements that were infinite before rounding.
        nans: The number of NaN elements.
    """

    id: str
    largest: float | None
    overflows: int
    infinities: int
    nans: int


def read_ranges(port: RangePort, results: Mapping[str, Array]) -> tuple[OpRange, ...]:
    """Reads the ranges from the results of a run.

    Args:
        port: The port of the ranges.
        results: The outputs of the run by the names of their ONNX values.
    """
    columns = results[port.value].T.tolist()
    return tuple(
        OpRange(
            id=op_id,
            largest=largest if largest >= 0 else None,
            overflows=int(after - before),
            infinities=int(before),
            nans=int(nans),
        )
        for op_id, (largest, after, before, nans) in zip(port.ops, columns, strict=True)
    )
