"""The classes that coremltools expects in `libcoremlpython`: a model, an asset and a compute plan.

Names, signatures and return types are those of coremltools' native module. All errors are RuntimeErrors.
"""

from __future__ import annotations

import shutil
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coremlscope.dropin import compiled
from coremlscope.dropin.compute_devices import compute_devices
from coremlscope.dropin.errors import (
    as_runtime_error,
    check_accepted,
    check_state,
    prediction_errors,
)
from coremlscope.dropin.plan import ComputePlanProxy, chosen_device, load_plan, read_compiled
from coremlscope.dropin.states import StateProxy
from coremlscope.dropin.structure import model_structure
from coremlscope.formats import container
from coremlscope.formats.compiled.marker import is_own_compiled
from coremlscope.formats.compiled.metadata import METADATA
from coremlscope.runtime.execution.cache import default_cache, is_temporary
from coremlscope.runtime.execution.pipeline import open_predictor

__all__ = ["AssetProxy", "ComputePlanProxy", "ModelProxy"]

#: The newest specification version that coremltools 9 writes (iOS 26).
_NEWEST_SPECIFICATION = 10


class AssetProxy:
    """A model on disk.

    Attributes:
        path: The compiled model, or the model to compile.
    """

    def __init__(self, path: Path, *, is_temporary: bool = False) -> None:
        self.path = path
        if is_temporary:
            weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)


class ModelProxy:
    """A loaded model."""

    def __init__(
        self,
        path: str,
        compute_units: str,
        function_name: str = "",
        optimization_hints: Mapping[str, str] | None = None,
        asset: AssetProxy | None = None,
    ) -> None:
        """Compiles the model if necessary and loads it.

        Args:
            path: A `.mlpackage`, `.mlmodel` or `.mlmodelc`; ignored if `asset` is set.
            compute_units: The name of a `coremltools.ComputeUnit`; ignored, as models run on the host's CPU.
            function_name: The function's name; empty selects the default function.
            optimization_hints: Hints for Core ML's compiler; ignored.
            asset: The model as an asset.

        Raises:
            RuntimeError: The model cannot be read or run here.
        """
        self._asset = asset
        self._last_prediction_ns: int | None = None
        with as_runtime_error():
            source = Path(path).expanduser() if asset is None else asset.path
            self._folder = self._locate(source)
            start = time.perf_counter_ns()
            self._model = container.read(self._folder)
            check_accepted(self._model, loads=True)
            # Converters load what they have written to a temporary package once.
            cache = None if is_temporary(source) else default_cache()
            self._predictor = open_predictor(self._model, function_name or None, cache)
            weakref.finalize(self, self._predictor.close)
            self._predictor.prepare()
            self._load_ns = time.perf_counter_ns() - start

    def _locate(self, source: Path) -> Path:
        """The compiled model: `source` itself, or a temporary one that is removed with this object."""
        if container.sniff(source) == "mlmodelc":
            return source
        return self._temporary(compiled.copy_model(source))

    def _temporary(self, folder: Path) -> Path:
        """Marks a folder for removal with this object, with the temporary folder around it."""
        weakref.finalize(self, shutil.rmtree, folder.parent, ignore_errors=True)
        return folder

    def predict(self, data: Mapping[str, Any], state: StateProxy | None = None) -> dict[str, Any]:
        """Predicts once.

        Args:
            data: Values by input name; see `Predictor.predict`.
            state: The state to read and update, from `newState`.

        Returns:
            Values by output name.

        Raises:
            RuntimeError: A value is missing or unknown or has the wrong type or shape, or the engine failed.
        """
        start = time.perf_counter_ns()
        result = self._predict(data, state)
        self._last_prediction_ns = time.perf_counter_ns() - start
        return result

    def batchPredict(self, batch: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:  # noqa: N802
        """Predicts for each element of a batch, one after another."""
        start = time.perf_counter_ns()
        results = [self._predict(data, None) for data in batch]
        self._last_prediction_ns = time.perf_counter_ns() - start
        return results

    def newState(self) -> StateProxy:  # noqa: N802
        """Creates a state filled with zeros."""
        with as_runtime_error():
            return StateProxy(self._predictor.new_state())

    def get_compiled_model_path(self) -> str:
        """The compiled model's folder. A temporary one is removed with this object."""
        if is_own_compiled(self._folder) and not (self._folder / METADATA).exists():
            with as_runtime_error():
                self._folder = self._temporary(compiled.compile_loaded(self._model, self._folder))
        return str(self._folder)

    def get_load_duration_in_nano_seconds(self) -> int:
        """The duration of loading in nanoseconds, including compilation if it was necessary."""
        return self._load_ns

    def get_last_predict_duration_in_nano_seconds(self) -> int | None:
        """The duration of the last prediction or batch in nanoseconds; None before the first one."""
        return self._last_prediction_ns

    def _predict(self, data: Mapping[str, Any], state: StateProxy | None) -> dict[str, Any]:
        check_state(self._predictor.description, state)
        with prediction_errors(self._model, self._predictor.description, data):
            return self._predictor.predict(data, None if state is None else state.state)

    @staticmethod
    def compileModel(path: str) -> str:  # noqa: N802
        """Compiles a model into a temporary `.mlmodelc` folder, which the caller moves or removes.

        Raises:
            RuntimeError: The model cannot be read.
        """
        with as_runtime_error("Error compiling model: "):
            source = Path(path).expanduser()
            check_accepted(container.read(source), loads=False)
            return str(compiled.compile_path(source))

    @staticmethod
    def create_model_asset_from_path(path: str) -> Any:
        """A model as coremltools' `MLModelAsset`."""
        with as_runtime_error():
            container.read(path)
        return _as_asset(AssetProxy(Path(path)))

    @staticmethod
    def create_model_asset_from_memory(spec: bytes, blobs: Mapping[str, bytes] | None = None) -> Any:
        """A serialised model as coremltools' `MLModelAsset`.

        Args:
            spec: The serialised specification.
            blobs: Weight files by their names in the program.
        """
        with as_runtime_error():
            return _as_asset(AssetProxy(compiled.store_bytes(spec, blobs or {}), is_temporary=True))

    @staticmethod
    def get_model_structure(path: str) -> Any:
        """The structure of a compiled model as coremltools' `MLModelStructure`."""
        with as_runtime_error():
            return model_structure(read_compiled(path))

    @staticmethod
    def get_compute_plan(path: str, compute_units: str) -> Any:
        """The compute plan of a model as coremltools' `MLComputePlan`, for the selected device.

        Raises:
            RuntimeError: The model cannot be read or planned, or the device is unknown.
        """
        with as_runtime_error():
            return load_plan(path, compute_units)

    @staticmethod
    def get_all_compute_devices() -> list[Any]:
        """The compute devices of the device that plans are made for."""
        with as_runtime_error():
            return compute_devices(chosen_device())

    @staticmethod
    def get_available_compute_devices() -> list[Any]:
        """The same as `get_all_compute_devices`: Core ML can use all of them."""
        return ModelProxy.get_all_compute_devices()

    @staticmethod
    def maximum_supported_specification_version() -> int:
        """The newest supported specification version."""
        return _NEWEST_SPECIFICATION

    @staticmethod
    def auto_set_specification_version(spec: Any) -> Any:
        """Returns the specification unchanged: its version always supports its content."""
        return spec


def _as_asset(proxy: AssetProxy) -> Any:
    from coremltools.models.model import MLModelAsset

    return MLModelAsset(proxy)
