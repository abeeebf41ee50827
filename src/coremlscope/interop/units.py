"""Names of compute units in JSON files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE, UNITS, ComputeUnit, ComputeUnits
from coremlscope.results.plan import Support

#: CoreMLProfiler writes `CPU`, `GPU`, `ANE`; Apple's own types encode as `cpu`, `gpu`, `neuralEngine`;
#: coremltools' classes are called `MLCPUComputeDevice`, `MLGPUComputeDevice`, `MLNeuralEngineComputeDevice`.
_NAMES: Mapping[str, ComputeUnit] = {
    "cpu": CPU,
    "mlcpucomputedevice": CPU,
    "gpu": GPU,
    "mlgpucomputedevice": GPU,
    "ane": NEURAL_ENGINE,
    "ne": NEURAL_ENGINE,
    "neuralengine": NEURAL_ENGINE,
    "mlneuralenginecomputedevice": NEURAL_ENGINE,
}

#: Apple's numbers of `MLComputeUnits` (cpuOnly 0, cpuAndGPU 1, all 2, cpuAndNeuralEngine 3), and names.
_SETTINGS: Mapping[object, ComputeUnits] = {
    0: "cpu_only",
    1: "cpu_and_gpu",
    2: "all",
    3: "cpu_and_ne",
    "all": "all",
    "cpuonly": "cpu_only",
    "cpuandgpu": "cpu_and_gpu",
    "cpuandne": "cpu_and_ne",
    "cpuandneuralengine": "cpu_and_ne",
}


def unit_of(value: Any) -> ComputeUnit | None:
    """A unit: a name, or an object with the name as its key, as Swift encodes enumerations; else None."""
    if isinstance(value, str):
        return _NAMES.get(_plain(value))
    if isinstance(value, Mapping):
        inner = value.get("deviceType", value)
        keys = [inner] if isinstance(inner, str) else list(inner) if isinstance(inner, Mapping) else []
        return next((_NAMES[_plain(key)] for key in keys if _plain(key) in _NAMES), None)
    return None


def setting_of(value: Any) -> ComputeUnits | None:
    """A setting of compute units by Apple's number or a name; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return _SETTINGS.get(_plain(value))
    return _SETTINGS.get(value) if isinstance(value, int) else None


def judged(units: list[ComputeUnit | None], preferred: ComputeUnit | None) -> dict[ComputeUnit, Support]:
    """Support by unit, where a file lists the units that can run an operation; empty where it lists none."""
    known = {unit for unit in (*units, preferred) if unit is not None}
    if not [unit for unit in units if unit is not None]:
        return dict.fromkeys(known, "yes")
    return {unit: "yes" if unit in known else "no" for unit in UNITS}


def _plain(text: str) -> str:
    return text.casefold().replace("_", "").replace(" ", "").replace(".", "")
