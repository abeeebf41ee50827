"""The implementations that Core ML chooses from for each operation; the CPU has two."""

from __future__ import annotations

from typing import Literal

from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE, ComputeUnit

__all__ = ["BACKENDS", "BACKENDS_OF", "UNIT_OF", "Backend"]

#: In Core ML's own names.
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
