"""Faults of Core ML, as public reports have them, in the native module that the drop-in supplies.

`install(fault)` is called before the drop-in is installed. Faults of units are those of settings that allow
the Neural Engine, unless the fault ends with ` everywhere`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from coremlscope.dropin import proxies

__all__ = ["FAULTS", "PHASE_OF", "PLAN_FAULTS", "WRONG", "install"]

_ENGINE = ("ALL", "CPU_AND_NE")


def _refuse(text: str, under: str = "") -> NoReturn:
    """Raises an error in the form in which coremltools passes on those of Core ML."""
    inner = f'Error Domain=com.apple.CoreML Code=0 \\"{under}\\"'
    below = f'    NSUnderlyingError = "{inner}";\n' if under else ""
    raise RuntimeError(f'{{\n    NSLocalizedDescription = "{text}";\n{below}}}')


def _hang() -> None:
    time.sleep(600)


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _abort() -> None:
    sys.stderr.write("libc++abi: terminating due to uncaught exception: E5RT\n")
    os.abort()


def _plan_error() -> None:
    _refuse("Failed to build the model execution plan using a model architecture file with error code: -14.")


def _predict_error() -> None:
    _refuse("Unable to compute the prediction using ML Program.", "Failed to execute")


_ENDINGS: Mapping[str, Callable[[], None]] = {
    "hangs": _hang,
    "is killed": _kill,
    "aborts": _abort,
    "load fails": _plan_error,
    "predict fails": _predict_error,
}
#: The phase in which a fault of each name appears, and what it does.
_AT: Mapping[str, tuple[str, str]] = {
    "load hangs": ("load", "hangs"),
    "load is killed": ("load", "is killed"),
    "load aborts": ("load", "aborts"),
    "load fails": ("load", "load fails"),
    "predict hangs": ("predict", "hangs"),
    "predict is killed": ("predict", "is killed"),
    "predict aborts": ("predict", "aborts"),
    "predict fails": ("predict", "predict fails"),
    "third prediction fails": ("third", "predict fails"),
    "plan hangs": ("plan", "hangs"),
    "plan is killed": ("plan", "is killed"),
    "plan aborts": ("plan", "aborts"),
    "plan fails": ("plan", "load fails"),
}
#: Outputs that are wrong.
_CHANGES: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "nan": lambda outputs: {name: np.full_like(array, np.nan) for name, array in outputs.items()},
    "another size": lambda outputs: {name: array[..., :-1] for name, array in outputs.items()},
    "missing": lambda outputs: dict(list(outputs.items())[1:]),
}
#: Faults that end the process or raise an error: of runs, and of the plan; and those of outputs.
FAULTS = tuple(fault for fault, (phase, _) in _AT.items() if phase in ("load", "predict"))
PLAN_FAULTS = tuple(fault for fault, (phase, _) in _AT.items() if phase == "plan")
WRONG = tuple(_CHANGES)
PHASE_OF = {fault: "first load" if phase == "load" else phase for fault, (phase, _) in _AT.items()}


def install(fault: str) -> None:
    """Puts a fault into the drop-in's proxy."""
    name = fault.removesuffix(" everywhere")
    units = ("ALL", "CPU_AND_NE", "CPU_AND_GPU", "CPU_ONLY") if name != fault else _ENGINE

    def fail(phase: str) -> None:
        if _AT.get(name, ("",))[0] == phase:
            _ENDINGS[_AT[name][1]]()

    sound = proxies.ModelProxy

    class Faulty(proxies.ModelProxy):
        def __init__(self, path: str, compute_units: str, *others: Any) -> None:
            self._is_faulty, self._predictions = compute_units in units, 0
            self._fail("load")
            super().__init__(path, compute_units, *others)

        def predict(self, data: Any, state: Any = None) -> dict[str, Any]:
            self._predictions += 1
            self._fail("third" if self._predictions == 3 else "predict")
            outputs = super().predict(data, state)
            return _CHANGES[name](outputs) if self._is_faulty and name in _CHANGES else outputs

        @staticmethod
        def get_compute_plan(path: str, compute_units: str) -> Any:
            if compute_units in units:
                fail("plan")
            return sound.get_compute_plan(path, compute_units)

        def _fail(self, phase: str) -> None:
            if self._is_faulty:
                fail(phase)

    proxies.ModelProxy = Faulty  # type: ignore[misc]
