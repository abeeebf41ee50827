"""The compute units of a chip, and the settings by which an app allows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from coremlscope.base.errors import UsageError

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

#: The settings in tables and sentences.
SETTING_WORDS: dict[ComputeUnits, str] = {
    "all": "all",
    "cpu_and_ne": "CPU + NE",
    "cpu_and_gpu": "CPU + GPU",
    "cpu_only": "CPU only",
}


def choose_settings(
    compute_units: ComputeUnits | Literal["every"] | Sequence[ComputeUnits],
) -> tuple[ComputeUnits, ...]:
    """Returns one setting, several of them, or all for `every`.

    Raises:
        UsageError: A setting is unknown.
    """
    asked = [compute_units] if isinstance(compute_units, str) else list(compute_units)
    if asked == ["every"]:
        return tuple(SETTINGS)
    for setting in asked:
        if setting not in SETTINGS:
            known = ", ".join([*SETTINGS, "every"])
            raise UsageError(f"invalid compute units {setting!r}", f"use one of {known}")
    return tuple(dict.fromkeys(asked))  # type: ignore[arg-type]
