"""The compute units of a chip, and the settings by which an app allows them."""

from __future__ import annotations

from typing import Final, Literal

__all__ = ["CPU", "GPU", "NEURAL_ENGINE", "SETTINGS", "UNITS", "UNIT_WORDS", "ComputeUnit", "ComputeUnits"]

#: A compute unit: a part of a chip that runs operations.
ComputeUnit = Literal["cpu", "gpu", "neural_engine"]

CPU: Final = "cpu"
GPU: Final = "gpu"
NEURAL_ENGINE: Final = "neural_engine"

UNITS: tuple[ComputeUnit, ...] = (CPU, GPU, NEURAL_ENGINE)

#: The units in a sentence.
UNIT_WORDS: dict[ComputeUnit, str] = {CPU: "the CPU", GPU: "the GPU", NEURAL_ENGINE: "the Neural Engine"}

#: A value of `MLModelConfiguration.computeUnits`, in coremltools' spelling.
ComputeUnits = Literal["all", "cpu_and_ne", "cpu_and_gpu", "cpu_only"]

#: The units that each setting allows. The CPU is always allowed.
SETTINGS: dict[ComputeUnits, tuple[ComputeUnit, ...]] = {
    "all": (CPU, GPU, NEURAL_ENGINE),
    "cpu_and_ne": (CPU, NEURAL_ENGINE),
    "cpu_and_gpu": (CPU, GPU),
    "cpu_only": (CPU,),
}
