"""What coremltools expects in `libcoremlpython`: a model, an asset and a compute plan.

Signatures, names and return types are those of coremltools' native module; errors are RuntimeErrors.
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
from coremlscope.dropin.plan import ComputePlanProxy, chosen_device, load_plan
from coremlscope.dropin.refusals import as_runtime_error, prediction_errors
from coremlscope.dropin.states import StateProxy
from coremlscope.dropin.structure import model_structure
from coremlscope.execution.pipeline import open_predictor
from coremlscope.formats import container
from coremlscope.formats.compiled import is_own_compiled

__all__ = ["AssetProxy", "ComputePlanProxy", "ModelProxy"]

#: The newest specification that coremltools 9 writes: iOS 26.
_NEWEST_SPECIFICATION = 10


class AssetProxy:
    """A compiled model on disk.

    Attributes:
        path: The compiled model, or what it is to be compiled from.
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
        """Compiles the model if need be, and loads it.

        Args:
            path: A `.mlpackage`, `.mlmodel` or `.mlmodelc`; not used where `asset` is given.
            compute_units: Name of a `coremltools.ComputeUnit`; this host's processor works in any case.
            function_name: A function of the model; empty for its default function.
            optimization_hints: Hints to Core ML's compiler, which do not apply here.
            asset: A compiled model.

        Raises:
            RuntimeError: The model cannot be read or run here.
        """
        self._asset = asset
        self._last_prediction_ns: int | None = None
        with as_runtime_error():
            source = Path(path).expanduser() if asset is None else asset.path
            self._folder = self._compile(source)
            start = time.perf_counter_ns()
            self._model = container.read(self._folder)
            cache = compiled.EngineFolder.of(source) if self._folder == source else None
            self._predictor = open_predictor(self._model, function_name or None, cache)
            weakref.finalize(self, self._predictor.close)
            self._predictor.prepare()
            self._load_ns = time.perf_counter_ns() - start

    def _compile(self, source: Path) -> Path:
        """The compiled model: the given one, or one that goes with this object."""
        if container.sniff(source) == "mlmodelc":
            return source
        folder = compiled.compile_path(source, keep=False)
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder

    def predict(self, data: Mapping[str, Any], state: StateProxy | None = None) -> dict[str, Any]:
        """One prediction.

        Args:
            data: Inputs by name: arrays, Pillow images, numbers, strings, dictionaries, sequences.
            state: What `newState` gave; it is updated.

        Raises:
            RuntimeError: An input is missing, unknown or has the wrong type or shape, or the engine failed.
        """
        start = time.perf_counter_ns()
        result = self._predict(data, state)
        self._last_prediction_ns = time.perf_counter_ns() - start
        return result

    def batchPredict(self, batch: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:  # noqa: N802
        """Several predictions, one after the other."""
        start = time.perf_counter_ns()
        results = [self._predict(data, None) for data in batch]
        self._last_prediction_ns = time.perf_counter_ns() - start
        return results

    def newState(self) -> StateProxy:  # noqa: N802
        """A state whose values are zero."""
        with as_runtime_error():
            return StateProxy(self._predictor.new_state())

    def get_compiled_model_path(self) -> str:
        """The compiled model's folder. One that was made for this object goes with it."""
        if is_own_compiled(self._folder):
            with as_runtime_error():
                compiled.write_description(self._model, self._folder)
        return str(self._folder)

    def get_load_duration_in_nano_seconds(self) -> int:
        """How long loading took, and building what the engine needs where that was not done before."""
        return self._load_ns

    def get_last_predict_duration_in_nano_seconds(self) -> int | None:
        """How long the last prediction, or batch of predictions, took; None before the first."""
        return self._last_prediction_ns

    def _predict(self, data: Mapping[str, Any], state: StateProxy | None) -> dict[str, Any]:
        with prediction_errors(self._model, self._predictor.description, data):
            return self._predictor.predict(data, None if state is None else state.state)

    @staticmethod
    def compileModel(path: str) -> str:  # noqa: N802
        """Compiles a model into a temporary `.mlmodelc` folder, which is the caller's to move or remove.

        Raises:
            RuntimeError: The model cannot be read.
        """
        with as_runtime_error("Error compiling model: "):
            return str(compiled.compile_path(Path(path).expanduser(), keep=True))

    @staticmethod
    def create_model_asset_from_path(path: str) -> Any:
        """A compiled model as coremltools' `MLModelAsset`."""
        with as_runtime_error():
            container.read(path)
        return _as_asset(AssetProxy(Path(path)))

    @staticmethod
    def create_model_asset_from_memory(spec: bytes, blobs: Mapping[str, bytes] | None = None) -> Any:
        """A model that is given as bytes, as coremltools' `MLModelAsset`.

        Args:
            spec: The serialised specification.
            blobs: Weight files by their names in the program.
        """
        with as_runtime_error():
            return _as_asset(AssetProxy(compiled.compile_bytes(spec, blobs or {}), is_temporary=True))

    @staticmethod
    def get_model_structure(path: str) -> Any:
        """The structure of a compiled model as coremltools' `MLModelStructure`."""
        with as_runtime_error():
            return model_structure(container.read(path))

    @staticmethod
    def get_compute_plan(path: str, compute_units: str) -> Any:
        """The plan of a model as coremltools' `MLComputePlan`, for the device that was chosen.

        Raises:
            RuntimeError: The model cannot be read or planned, or the device is unknown.
        """
        with as_runtime_error():
            return load_plan(path, compute_units)

    @staticmethod
    def get_all_compute_devices() -> list[Any]:
        """The devices of the machine that plans are made for."""
        with as_runtime_error():
            return compute_devices(chosen_device())

    @staticmethod
    def get_available_compute_devices() -> list[Any]:
        """The same; each would be available to Core ML there."""
        return ModelProxy.get_all_compute_devices()

    @staticmethod
    def maximum_supported_specification_version() -> int:
        """The newest specification version that can be read."""
        return _NEWEST_SPECIFICATION

    @staticmethod
    def auto_set_specification_version(spec: Any) -> Any:
        """The specification with the version that it has, which is always new enough for its content."""
        return spec


def _as_asset(proxy: AssetProxy) -> Any:
    from coremltools.models.model import MLModelAsset

    return MLModelAsset(proxy)
