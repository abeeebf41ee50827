"""Bounds of the time of classical models, which Core ML runs on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from coremlscope.base.figures import Figure
from coremlscope.model.ir import Classical, Model
from coremlscope.ops.classical import CLASSICAL_TYPES
from coremlscope.planning.cost.latency.kernels import Kernel, fuse
from coremlscope.results.estimate import Estimate
from coremlscope.runtime.execution.binding import bind_model
from coremlscope.runtime.execution.wiring import shaped_stages

#: The factor to either end of the bound.
_FACTOR = 5.0


def tabular_kernels(model: Model, shapes: Mapping[str, Sequence[int]] | None) -> list[Kernel]:
    """Returns one kernel for each classical model, which Core ML runs on the CPU as a whole."""
    kernels: list[Kernel] = []
    for stage, asked in shaped_stages(model, shapes):
        if isinstance(stage.model.content, Classical):
            bound = bind_model(stage.model, None, asked)
            works = [CLASSICAL_TYPES[view.op.type].work(view) for view in bound.graph.ops]
            for kernel, work in zip(fuse(bound.graph), works, strict=False):
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
