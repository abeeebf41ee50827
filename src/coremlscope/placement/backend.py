"""The implementations that Core ML chooses from for each operation, and what an operation costs on one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE, ComputeUnit

__all__ = ["BACKENDS", "BACKENDS_OF", "UNIT_OF", "Backend", "CostBasis", "PlannedCost"]

#: In Core ML's own names. The CPU has two.
Backend = Literal["ane", "mps_graph", "bnns", "classic_cpu"]

#: The unit that each backend runs on, in the order of published plans (the GPU stands in other plans only).
#: Where two ways cost the same, Core ML takes the later one.
UNIT_OF: dict[Backend, ComputeUnit] = {
    "mps_graph": GPU,
    "bnns": CPU,
    "classic_cpu": CPU,
    "ane": NEURAL_ENGINE,
}

BACKENDS: tuple[Backend, ...] = tuple(UNIT_OF)

BACKENDS_OF: dict[ComputeUnit, tuple[Backend, ...]] = {
    unit: tuple(backend for backend in BACKENDS if UNIT_OF[backend] == unit) for unit in UNIT_OF.values()
}

#: How a planned cost is known, best first:
#: `Apple`      Core ML itself gave it;
#: `recovered`  the formula reproduces published costs to all digits;
#: `fitted`     the formula goes through published costs of few digits, or through a single one;
#: `assumed`    nothing is published of this operation on this backend: it has the formula of its kind.
CostBasis = Literal["Apple", "recovered", "fitted", "assumed"]


@dataclass(frozen=True, slots=True)
class PlannedCost:
    """What an operation costs on a backend by Core ML's cost model. A figure of a plan, never measured.

    Attributes:
        ms: Milliseconds.
        basis: How it is known.
        is_complete: False where a shape is not known, so that it is a lower bound.
    """

    ms: float
    basis: CostBasis
    is_complete: bool = True
