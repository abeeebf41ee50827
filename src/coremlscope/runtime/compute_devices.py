"""The compute devices of a declared Mac: one with a base M-series chip.

No such device is present. Scripts ask for devices to choose compute units, and tools that read plans compare
classes; both get the devices that every Mac with Apple silicon has.
"""

from __future__ import annotations

from typing import Any

__all__ = ["NEURAL_ENGINE_CORES", "CpuProxy", "GpuProxy", "NeuralEngineProxy", "compute_devices"]

#: Cores of the Neural Engine of M1 to M5 (Apple's technical specifications of these Macs).
NEURAL_ENGINE_CORES = 16


class CpuProxy:
    """The CPU."""


class GpuProxy:
    """The GPU."""


class NeuralEngineProxy:
    """The Neural Engine."""

    def get_total_core_count(self) -> int:
        """The number of its cores."""
        return NEURAL_ENGINE_CORES


def compute_devices() -> list[Any]:
    """The devices as coremltools' `MLComputeDevice` objects: CPU, GPU and Neural Engine."""
    from coremltools.models import compute_device

    return [
        compute_device.MLCPUComputeDevice(CpuProxy()),
        compute_device.MLGPUComputeDevice(GpuProxy()),
        compute_device.MLNeuralEngineComputeDevice(NeuralEngineProxy()),
    ]
