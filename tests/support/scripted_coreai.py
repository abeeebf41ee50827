"""The parts of `coreai` that measurements use, scripted: each operation of a function takes a millisecond.

`python -c "from tests.support import scripted_coreai; scripted_coreai.install()"` puts them in place. Names,
argument forms and events are those of coreai-core 1.0.0b3; those of the system's framework are known from its
Python sources alone.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["install"]

_MS = 1_000_000
#: The interpreter's operations: their numbers, those of the file's operations, and their labels.
_RUN = ((7, 1, "coreai.relu"), (8, 2, "coreai.decomposable.broadcasting_add"), (9, None, "Context.alloc"))
#: The same on the system's framework: two operations that a delegate runs as one.
_GROUP, _MEMBERS = 40, (3, 4)


@dataclass
class _Descriptor:
    shape: list[int]
    dtype: str


class _NDArray:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def numpy(self) -> np.ndarray:
        return self.array

    @classmethod
    def _wrap(cls, array: np.ndarray) -> _NDArray:
        return cls(array)


class _Function:
    """A function with an input `x`, float32 1×4, and a state `s`, float32 4."""

    def __init__(self, profiler: Any, logger: Any, fault: str, is_system: bool) -> None:
        self._profiler, self._fault, self._is_system = profiler, fault, is_system
        self._logger = logger
        self._clock = 0
        self.desc = SimpleNamespace(
            input_names=["x"],
            state_names=["s"],
            input_descriptor=lambda _: _Descriptor([1, 4], "float32"),
            state_descriptor=lambda _: _Descriptor([4], "float32"),
        )

    async def __call__(self, inputs: Mapping[str, _NDArray], state: Mapping[str, _NDArray]) -> dict[str, Any]:
        assert inputs["x"].array.dtype == np.float32
        assert inputs["x"].array.shape == (1, 4)
        assert state["s"].array.shape == (4,)
        if self._fault == "abort":
            os.abort()
        if self._profiler is not None:
            (self._report_delegate if self._is_system else self._report)()
            if self._fault == "abort while profiled":
                os.abort()
        return {} if self._logger is None else self._report_values(inputs["x"].array)

    def _report_values(self, x: np.ndarray) -> dict[str, Any]:
        """Reports buffers before they have values, and inputs; returns the output of `relu(x) + 1`.

        A single operation is not reported: its start comes from the clock, which is not scripted.
        """
        relu = np.maximum(x, 0) if self._fault != "wrong relu" else np.abs(x)
        if len(self._logger.wanted) == 1:
            return {"y": _NDArray(relu + 1)}
        for (number, *_), value in zip(_RUN, (relu, relu + 1), strict=False):
            assert number in self._logger.wanted
            self._logger.callback([None], "input", SimpleNamespace(id=number))
            for array in (np.full_like(x, np.nan), value):
                self._logger.callback([array], "output", SimpleNamespace(id=number))
        return {"y": _NDArray(relu + 1)}

    def _event(self, label: str, number: int, **given: Any) -> Any:
        ids = SimpleNamespace(id=number, delegate_id=given.get("delegate"))
        content = given.get("content")
        encoded = json.dumps(content) if content else b""
        return SimpleNamespace(event_id=label, timestamp=self._clock, compile_ids=ids, encoded_data=encoded)

    def _interval(self, label: str, number: int, inner: Callable[[], None]) -> None:
        id_ = self._profiler.begin(self._event(label, number))
        inner()
        self._profiler.end(self._event(label, number), id_)

    def _advance(self) -> None:
        self._clock += _MS

    def _report(self) -> None:
        def run() -> None:
            for number, _, label in _RUN:
                self._interval(f"call.{label}", number, self._advance)

        self._interval("Function Execute", 1, run)

    def _report_delegate(self) -> None:
        interval = {"interval": {"duration": 3 * _MS}}
        group = {"compileIdGroup": {"groupId": _GROUP, "members": list(_MEMBERS)}}
        for label in ("GPU HW CB:0, Enc:3", "GPU Host CB:0, Enc:3"):
            self._profiler.event(self._event(label, -1, delegate=_GROUP, content=interval))
        self._profiler.event(self._event("group", -1, content=group))


class _Profiler:
    def __init__(self, on_log_event: Any, on_log_event_begin: Any, on_log_event_end: Any) -> None:
        self.event, self.begin, self.end = on_log_event, on_log_event_begin, on_log_event_end


class _IntermediateLogger:
    def __init__(self, requested_intermediates: Any, callback: Any, is_enabled: bool) -> None:
        assert is_enabled
        self.wanted = {ids.id for ids in requested_intermediates}
        self.callback = callback


def _tagged(value: Any) -> Any:
    """Returns a value as Core AI tags it with types."""
    if isinstance(value, list):
        return {"array": {"_0": [_tagged(item) for item in value]}}
    if isinstance(value, dict):
        return {"dictionary": {"_0": {key: _tagged(item) for key, item in value.items()}}}
    return {"integer" if isinstance(value, int) else "string": {"_0": value}}


def _debug_op(number: int, op: int | None) -> dict[str, Any]:
    metadata = {"key": "op_id", "value": _tagged({"type": "coreai", "value": op})}
    ends = {
        "source": {"level": "coreai", "id": op, "output": 0},
        "target": {"level": "odix", "output": 0},
    }
    maps = {"key": "output_maps", "value": _tagged([ends])}
    metadatas = [] if op is None else [metadata, maps]
    return {"name": f"odix_{number}", "odixId": number, "metadatas": metadatas}


def _debug_infos(is_system: bool) -> bytes:
    if is_system:
        ops = [_debug_op(member, op) for member, op in zip(_MEMBERS, (1, 2), strict=True)]
        return json.dumps([{"identifier": "MPSGraph_optimized_op_id", "operations": ops}]).encode()
    ops = [_debug_op(number, op) for number, op, _ in _RUN]
    return json.dumps([{"identifier": "odix_op_id", "operations": ops}]).encode()


class _Options:
    def __init__(self, kind: str) -> None:
        self._kind = kind

    def with_debug(self, *, enabled: bool) -> tuple[str, bool]:
        return self._kind, enabled

    @classmethod
    def from_preferred_compute_unit_kind(cls, kind: str) -> _Options:
        return cls(kind)


def install(fault: str = "", *, is_system: bool = False) -> None:
    """Puts the modules in place.

    Args:
        fault: `abort` to abort in predictions, `abort while profiled` in those that are profiled,
            `wrong relu` to compute another function.
        is_system: True for the system's framework.
    """

    class AIModel:
        @classmethod
        async def load(cls, path: Path, **options: Any) -> AIModel:
            assert path.suffix == (".aimodel" if is_system else ".aimodelx")
            assert is_system == ("specialization_options" in options)
            if is_system:
                assert options["specialization_options"] == ("neural engine", True)
            return cls()

        _debug_infos = _debug_infos(is_system)

        def load_function(
            self, name: str, profiler: Any = None, intermediate_logger: Any = None
        ) -> _Function:
            assert name == "main"
            return _Function(profiler, intermediate_logger, fault, is_system)

    class AIModelAsset:
        @classmethod
        def load(cls, path: Path) -> AIModelAsset:
            assert path.suffix == ".aimodel"
            return cls()

        def _write_odix(self, folder: Path, *, enable_debug_info: bool) -> None:
            assert enable_debug_info
            (folder / "main-universal.odix").write_bytes(b"")

    runtime = ModuleType("coreai.runtime")
    vars(runtime).update(
        AIModel=AIModel,
        NDArray=_NDArray,
        Profiler=_Profiler,
        IntermediateLogger=_IntermediateLogger,
        CompileIdentifiers=lambda number, delegate: SimpleNamespace(id=number, delegate_id=delegate),
        _ndarray=SimpleNamespace(NDArray=_NDArray),
        SpecializationOptions=_Options,
        ComputeUnitKind=SimpleNamespace(neural_engine=lambda: "neural engine"),
        _use_os_coreai=is_system,
    )
    authoring = ModuleType("coreai.authoring")
    vars(authoring).update(AIModelAsset=AIModelAsset)
    package = ModuleType("coreai")
    vars(package).update(runtime=runtime, authoring=authoring, __path__=[])
    sys.modules.update({"coreai": package, "coreai.runtime": runtime, "coreai.authoring": authoring})
    importlib.metadata.version = lambda _: "1.0.0b3"
