"""A bundle in Core AI: lowered, loaded and called through coreai-core, in a child process."""

from __future__ import annotations

import gc
import importlib.metadata
import itertools
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import numpy as np

#: The file of the values of inputs, by name.
VALUES = "values.npz"


class CoreAIProgram:
    """One bundle; at most one loaded model of it exists at a time.

    Args:
        model: The bundle.
        function: The function.
        folder: For lowered programs; it holds the values of inputs.
        wait: Runs a coroutine to its end.
        compute_units: The setting, which only the system's framework uses.

    Attributes:
        called_s: Seconds of all predictions so far.
    """

    def __init__(
        self,
        model: str,
        function: str,
        folder: Path,
        wait: Callable[[Coroutine[Any, Any, Any]], Any],
        compute_units: str = "all",
    ) -> None:
        from coreai import runtime

        self.runtime: Any = runtime
        self.version = importlib.metadata.version("coreai-core")
        self.is_system = bool(getattr(runtime, "_use_os_coreai", False))
        self._bundle, self._name, self._folder, self._wait = Path(model), function, folder, wait
        self._compute_units = compute_units
        self._lowered = self._bundle
        self._model: Any = None
        self._function: Any = None
        self._numbers = itertools.count()
        self.called_s = 0.0

    @property
    def debug_info(self) -> bytes:
        """The debug information of the loaded model: JSON."""
        return bytes(self._model._debug_infos)

    def lower(self) -> None:
        """Lowers the program to what the interpreter runs."""
        from coreai.authoring import AIModelAsset

        self._lowered = self._folder / f"lowered{next(self._numbers)}.aimodelx"
        self._lowered.mkdir()
        AIModelAsset.load(self._bundle)._write_odix(self._lowered, enable_debug_info=True)

    def release(self) -> None:
        """Releases the model that was loaded before, so that two never take memory at a time."""
        self._function = self._model = None
        gc.collect()

    def load(self) -> None:
        """Loads the lowered program, or on the system's framework the bundle, and its function."""
        options = {"specialization_options": self._options()} if self.is_system else {}
        self._model = self._wait(self.runtime.AIModel.load(self._lowered, **options))
        self.observe()

    def observe(self, **observers: Any) -> None:
        """Loads the function of the loaded model again, with a profiler or another observer."""
        self._function = None
        self._function = self._model.load_function(self._name, **observers)

    def _options(self) -> Any:
        """Returns the system's options for the setting; only `cpu_only` forbids other units."""
        options, kinds = self.runtime.SpecializationOptions, self.runtime.ComputeUnitKind
        if self._compute_units == "cpu_only":
            found = options.cpu_only()
        elif self._compute_units == "all":
            found = options.default()
        else:
            is_gpu = self._compute_units == "cpu_and_gpu"
            found = options.from_preferred_compute_unit_kind(kinds.gpu() if is_gpu else kinds.neural_engine())
        return found.with_debug(enabled=True)

    def inputs(self) -> dict[str, Any]:
        """Returns the saved values of the inputs, in the types of the function."""
        description = self._function.desc
        with np.load(self._folder / VALUES, allow_pickle=False) as arrays:
            values = {name: arrays[name] for name in arrays.files}
        return {
            name: self._array(values[name], description.input_descriptor(name).dtype)
            for name in description.input_names
        }

    def states(self) -> dict[str, Any]:
        """Returns states of zeros, which predictions change."""
        description = self._function.desc
        states = {name: description.state_descriptor(name) for name in description.state_names}
        return {name: self._array(np.zeros(found.shape), found.dtype) for name, found in states.items()}

    def _array(self, value: np.ndarray, dtype: str) -> Any:
        if dtype == "bfloat16":
            import ml_dtypes

            return self.runtime.NDArray(value.astype(ml_dtypes.bfloat16))
        return self.runtime.NDArray(np.ascontiguousarray(value, dtype))

    def predict(self, inputs: Mapping[str, Any], states: Mapping[str, Any]) -> Mapping[str, Any]:
        """Predicts, and returns the outputs by name."""
        found: Mapping[str, Any] = self._wait(self._call(inputs, states))
        return found

    async def _call(self, inputs: Mapping[str, Any], states: Mapping[str, Any]) -> Mapping[str, Any]:
        """Calls the function. The event loop's own 75 µs for each coroutine are not within its time."""
        began = time.perf_counter()
        found: Mapping[str, Any] = await self._function(inputs, state=states)
        self.called_s += time.perf_counter() - began
        return found
