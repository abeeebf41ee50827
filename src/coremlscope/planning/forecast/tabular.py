"""Bounds of the time of classical models, which Core ML runs on the CPU."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from coremlscope.base.figures import Figure
from coremlscope.ops.classical import classical_types
from coremlscope.planning.cost.latency.kernels import Kernel, fuse
from coremlscope.results.estimate import Estimate
from coremlscope.runtime.execution.wiring import StageFunction

#: The factor to either end of the bound.
_FACTOR = 5.0


def tabular_kernels(functions: Sequence[StageFunction]) -> list[Kernel]:
    """Returns one kernel for each classical model, which Core ML runs on the CPU as a whole."""
    kernels: list[Kernel] = []
    for one in functions:
        if one.bound is not None and not one.is_planned:
            graph = one.bound.graph
            works = [classical_types()[view.op.type].work(view) for view in graph.ops]
            for kernel, work in zip(fuse(graph), works, strict=False):
                kernel.vector = work.flops
                kernels.append(kernel)
    return kernels


def as_bound(found: Estimate) -> Estimate:
    """Returns the estimate of a model of classical stages alone, of which no latency was published."""
    seconds = found.latency.value
    return replace(
        found,
        basis="extrapolated",
        latency=Figure(seconds, seconds / _FACTOR, seconds * _FACTOR, "estimated"),
        notes=(*found.notes, "a bound from arithmetic and bytes: no latency of such models was published"),
    )
