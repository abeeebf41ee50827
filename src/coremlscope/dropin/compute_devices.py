"""The compute devices of the device that plans are made for: by default a Mac with a base M-series chip.

None of them exists on this machine. Scripts query devices to choose compute units, and tools that read plans
compare their classes; both get the devices of the planned chip.
"""

from __future__ import annotations

from typing import Any

from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, UNITS, ComputeUnit, Device

#: Cores of the Neural Engine of M1 to M5 (Apple's technical specifications of these Macs).
_NEURAL_ENGINE_CORES = 16


class CpuProxy:
    """The CPU."""


class GpuProxy:
    """The GPU."""


class NeuralEngineProxy:
    """The Neural Engine."""

    def __init__(self, cores: int = _NEURAL_ENGINE_CORES) -> None:
        self._cores = cores

    def get_total_core_count(self) -> int:
        """The number of cores."""
        return self._cores


def device_of_unit(unit: ComputeUnit, device: Device) -> Any:
    """A compute unit of a device as coremltools' `MLComputeDevice`."""
    from coremltools.models import compute_device

    if unit == CPU:
        return compute_device.MLCPUComputeDevice(CpuProxy())
    if unit == GPU:
        return compute_device.MLGPUComputeDevice(GpuProxy())
    cores = device.chip.value(NEURAL_ENGINE, "cores")
    return compute_device.MLNeuralEngineComputeDevice(NeuralEngineProxy(int(cores or _NEURAL_ENGINE_CORES)))


def compute_devices(device: Device) -> list[Any]:
    """The compute units of a device as coremltools' `MLComputeDevice` objects: CPU, GPU and Neural Engine."""
    return [device_of_unit(unit, device) for unit in UNITS]
