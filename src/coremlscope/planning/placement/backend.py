"""The implementations that Core ML chooses from for each operation, and what an operation costs on one."""

from __future__ import annotations

from typing import Literal

import msgspec

from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE, ComputeUnit

#: In Core ML's own names. The CPU has two.
Backend = Literal["ane", "mps_graph", "bnns", "classic_cpu"]

#: The unit of each backend, in the order of published plans (the GPU occurs only in other plans). Where two
#: paths cost the same, Core ML takes the later backend.
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

_NAMED: dict[str, Backend] = {str(backend): backend for backend in BACKENDS}


def named(name: str | None) -> Backend | None:
    """The backend of that name, as plans of Core ML have it; None for none."""
    return None if name is None else _NAMED[name]


#: How a planned cost is known, best first:
#: `Apple`      reported by Core ML itself;
#: `recovered`  the formula reproduces published costs to all digits;
#: `fitted`     the formula fits published costs with few digits, or a single one;
#: `transferred` published for another chip or system, times a physical ratio;
#: `assumed`    nothing is published about this operation on this backend: the formula of its kind.
CostBasis = Literal["Apple", "recovered", "fitted", "transferred", "assumed"]


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A rate of a class of operations on a backend.

    Attributes:
        value: 10⁹ operations, elements or bytes per second.
        low: The lower end of its interval.
        high: The upper end of its interval.
        basis: How it is known; see `CostBasis`.
        publication: The chip and system of the plans that it comes from.
        law: The physical ratio by which it was transferred from another chip; empty if it was not.
        note: How it follows from the publication; may be empty.
        name: The class of operations.
        counts: What it counts: `bytes`, `elements` or `operations`.
        is_common: Whether its uncertainty is common to all units, so that it moves no operation between them.
    """

    value: float
    low: float
    high: float
    basis: CostBasis
    publication: str
    law: str = ""
    note: str = ""
    name: str = ""
    counts: str = ""
    is_common: bool = False


class PlannedCost(msgspec.Struct, frozen=True, eq=False):
    """The cost of an operation on a backend by Core ML's cost model: planned, never measured.

    Attributes:
        ms: Milliseconds.
        basis: How it is known.
        is_complete: False where a shape is not known, so that the cost is a lower bound.
        bounds_ms: The ends of its interval; None for the cost itself.
        is_open: Whether nothing is published that says where in the interval it lies.
        rate: The rate behind it; None where there is none.
    """

    ms: float
    basis: CostBasis
    is_complete: bool = True
    bounds_ms: tuple[float, float] | None = None
    is_open: bool = False
    rate: Rate | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlannedCost) and self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash(self._compared())

    def _compared(self) -> tuple[object, ...]:
        return self.ms, self.basis, self.is_complete, self.bounds_ms, self.is_open

    @property
    def low(self) -> float:
        """The lower end of the interval in milliseconds."""
        return self.ms if self.bounds_ms is None else self.bounds_ms[0]

    @property
    def high(self) -> float:
        """The upper end of the interval in milliseconds."""
        return self.ms if self.bounds_ms is None else self.bounds_ms[1]
