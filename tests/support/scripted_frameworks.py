"""pyobjc's modules `CoreML`, `Foundation` and `objc`, scripted: plans that put every operation on the CPU.

Predictions are those of the drop-in, which has to be installed for them.

`python -c "from tests.support import scripted_frameworks; scripted_frameworks.install()"` puts them in place.
Names, argument forms and the thread of completion handlers are those of pyobjc-framework-CoreML 12.2.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from coremlscope.formats import container
from coremlscope.model.ir import Graph, Op, Program

__all__ = ["install"]


class MLCPUComputeDevice:
    """The only device."""


class MLModelConfiguration:
    """A configuration, whose setters are found at run time by pyobjc."""

    @classmethod
    def alloc(cls) -> MLModelConfiguration:
        return cls()

    def init(self) -> MLModelConfiguration:
        return self

    def setComputeUnits_(self, units: int) -> None:  # noqa: N802
        self.units = units

    def setFunctionName_(self, name: str) -> None:  # noqa: N802
        self.function = name


class _Named:
    def __init__(self, name: str) -> None:
        self._name = name

    def name(self) -> str:
        return self._name


class _Operation:
    def __init__(self, op: Op, function: str) -> None:
        self._op, self.function = op, function

    def operatorName(self) -> str:  # noqa: N802
        return f"ios18.{self._op.type}"

    def outputs(self) -> list[_Named]:
        return [_Named(value.name) for value in self._op.outputs]

    def blocks(self) -> list[_Block]:
        return [_Block(block, self.function) for block in self._op.blocks]


class _Block:
    def __init__(self, graph: Graph, function: str) -> None:
        self._graph, self._function = graph, function

    def block(self) -> _Block:
        return self

    def operations(self) -> list[_Operation]:
        return [_Operation(op, self._function) for op in self._graph.ops]


class _Usage:
    def preferredComputeDevice(self) -> MLCPUComputeDevice:  # noqa: N802
        return MLCPUComputeDevice()

    def supportedComputeDevices(self) -> list[MLCPUComputeDevice]:  # noqa: N802
        return [MLCPUComputeDevice()]


class _Cost:
    def weight(self) -> float:
        return 0.125


class _Plan:
    """Says nothing of constants and of functions other than the one in the configuration."""

    def __init__(self, program: Program, function: str) -> None:
        self._program, self._function = program, function

    def modelStructure(self) -> _Plan:  # noqa: N802
        return self

    def program(self) -> _Plan:
        return self

    def functions(self) -> dict[str, _Block]:
        return {name: _Block(f.graph, name) for name, f in self._program.functions.items()}

    def computeDeviceUsageForMLProgramOperation_(self, op: _Operation) -> _Usage | None:  # noqa: N802
        is_told = op.function == self._function and not op.operatorName().endswith(".const")
        return _Usage() if is_told else None

    def estimatedCostOfMLProgramOperation_(self, op: _Operation) -> _Cost | None:  # noqa: N802
        return _Cost() if self.computeDeviceUsageForMLProgramOperation_(op) else None


class MLComputePlan:
    """Loads plans; the handler is called in a thread of its own, as Core ML does."""

    @staticmethod
    def loadContentsOfURL_configuration_completionHandler_(  # noqa: N802
        url: Path, configuration: MLModelConfiguration, handler: Callable[[Any, Any], None]
    ) -> None:
        content = container.read(url).content
        assert isinstance(content, Program)
        assert configuration.units == 0, "the scripted framework is asked for cpu_only"
        if configuration.function not in content.functions:
            answer = None, "Error Domain=com.apple.CoreML Code=0: no such function"
        else:
            answer = _Plan(content, configuration.function), None
        threading.Thread(target=handler, args=answer).start()


#: Rows begin at multiples of so many elements, as on surfaces of the Neural Engine.
_ROW = 16
_DTYPES = {65568: "float32", 65600: "float64", 131104: "int32", 65552: "float16"}
_ERROR = 'Error Domain=com.apple.CoreML Code=0 "scripted"\nUserInfo={}'


class _Pointer:
    def __init__(self, buffer: np.ndarray[Any, Any]) -> None:
        self._buffer = buffer

    def as_buffer(self, size: int) -> memoryview:
        bytes_ = self._buffer.view(np.uint8)
        assert size <= bytes_.size
        return memoryview(bytes_)[:size]


class MLMultiArray:
    """An array with padded rows; several of Python's objects can be one of Objective-C's."""

    flat: np.ndarray[Any, Any]
    view: np.ndarray[Any, Any]

    @classmethod
    def alloc(cls) -> MLMultiArray:
        return cls()

    def initWithShape_dataType_error_(  # noqa: N802
        self, shape: Sequence[int], data_type: int, error: None
    ) -> tuple[MLMultiArray | None, str | None]:
        row = -(-shape[-1] // _ROW) * _ROW if len(shape) > 1 else math.prod(shape)
        rows = math.prod(shape[:-1])
        self.flat = np.zeros(rows * row, _DTYPES[data_type])
        self.view = self.flat.reshape(*shape[:-1], row)[..., : shape[-1]]
        self._type = data_type
        return self, None

    def again(self) -> MLMultiArray:
        other = MLMultiArray()
        other.flat, other.view, other._type = self.flat, self.view, self._type
        return other

    def shape(self) -> list[int]:
        return list(self.view.shape)

    def strides(self) -> list[int]:
        return [stride // self.view.itemsize for stride in self.view.strides]

    def dataType(self) -> int:  # noqa: N802
        return self._type

    def dataPointer(self) -> _Pointer:  # noqa: N802
        return _Pointer(self.flat)

    def __c_void_p__(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(id(self.flat))


class MLFeatureValue:
    """A value of a feature, which is an array."""

    def __init__(self, array: MLMultiArray) -> None:
        self._array = array

    @classmethod
    def featureValueWithMultiArray_(cls, array: MLMultiArray) -> MLFeatureValue:  # noqa: N802
        return cls(array)

    def multiArrayValue(self) -> MLMultiArray:  # noqa: N802
        return self._array.again()


class NSDictionary(dict[str, Any]):
    """A dictionary of Objective-C."""

    @classmethod
    def dictionaryWithDictionary_(cls, values: Mapping[str, Any]) -> NSDictionary:  # noqa: N802
        return cls(values)


class MLDictionaryFeatureProvider:
    """Values of features by name."""

    @classmethod
    def alloc(cls) -> MLDictionaryFeatureProvider:
        return cls()

    def initWithDictionary_error_(  # noqa: N802
        self, values: Mapping[str, MLFeatureValue], error: None
    ) -> tuple[MLDictionaryFeatureProvider | None, str | None]:
        assert isinstance(values, NSDictionary), "Core ML would call back into Python"
        self._values = dict(values)
        return self, None

    def featureNames(self) -> set[str]:  # noqa: N802
        return set(self._values)

    def featureValueForName_(self, name: str) -> MLFeatureValue | None:  # noqa: N802
        return self._values.get(name)


class MLPredictionOptions:
    """Options of a prediction."""

    def __init__(self) -> None:
        self.backings: Mapping[str, MLMultiArray] = {}

    @classmethod
    def alloc(cls) -> MLPredictionOptions:
        return cls()

    def init(self) -> MLPredictionOptions:
        return self

    def setOutputBackings_(self, backings: Mapping[str, MLMultiArray]) -> None:  # noqa: N802
        assert isinstance(backings, NSDictionary), "Core ML would call back into Python"
        self.backings = backings


class MLModel:
    """A model that the drop-in runs."""

    fault = ""

    def __init__(self, path: Path, configuration: MLModelConfiguration) -> None:
        from coremltools import ComputeUnit
        from coremltools.models import CompiledMLModel

        assert configuration.units == 0, "the scripted framework is asked for cpu_only"
        self._model = CompiledMLModel(str(path), ComputeUnit.CPU_ONLY)

    @classmethod
    def modelWithContentsOfURL_configuration_error_(  # noqa: N802
        cls, url: Path, configuration: MLModelConfiguration, error: None
    ) -> tuple[MLModel | None, str | None]:
        return (None, _ERROR) if cls.fault == "no model" else (cls(url, configuration), None)

    def predictionFromFeatures_options_error_(  # noqa: N802
        self, inputs: MLDictionaryFeatureProvider, options: MLPredictionOptions, error: None
    ) -> tuple[MLDictionaryFeatureProvider | None, str | None]:
        if self.fault == "no outputs":
            return None, _ERROR
        values = {}
        for name in inputs.featureNames():
            value = inputs.featureValueForName_(name)
            assert value is not None
            values[name] = value.multiArrayValue().view
        found = {}
        for name, array in self._model.predict(values).items():
            made, _ = MLMultiArray.alloc().initWithShape_dataType_error_(array.shape, 65568, None)
            backing = None if self.fault == "ignored" else options.backings.get(name)
            output = backing or made
            assert output is not None
            output.view[...] = array
            found[name] = MLFeatureValue(output)
        return MLDictionaryFeatureProvider().initWithDictionary_error_(NSDictionary(found), None)

    def predictionFromFeatures_options_completionHandler_(  # noqa: N802
        self,
        inputs: MLDictionaryFeatureProvider,
        options: MLPredictionOptions,
        handler: Callable[[Any, Any], None],
    ) -> None:
        if self.fault == "abort":
            os.abort()

        def work() -> None:
            answer = self.predictionFromFeatures_options_error_(inputs, options, None)
            if self.fault != "never":
                handler(*((None, _ERROR) if self.fault == "late error" else answer))

        threading.Thread(target=work).start()


@contextlib.contextmanager
def _autorelease_pool() -> Iterator[None]:
    yield


class _URL:
    @staticmethod
    def fileURLWithPath_(path: str) -> Path:  # noqa: N802
        return Path(path)


def install(fault: str = "") -> None:
    """Puts the modules where `import CoreML` finds them.

    Args:
        fault: `no model`, `no outputs` (nil and an error), `ignored` (output backings), `never` (a completion
            handler that is not called), `late error` (from it), `abort`, `old` (a system before macOS 14),
            `absent` (pyobjc is not installed), or empty.
    """
    if fault == "absent":
        sys.modules["CoreML"] = None  # type: ignore[assignment]
        return
    MLModel.fault = fault
    if fault == "old":
        del MLModel.predictionFromFeatures_options_completionHandler_
    framework, foundation, bridge = ModuleType("CoreML"), ModuleType("Foundation"), ModuleType("objc")
    for name, value in {
        "MLComputePlan": MLComputePlan,
        "MLModelConfiguration": MLModelConfiguration,
        "MLComputeUnitsCPUOnly": 0,
        "MLComputeUnitsAll": 2,
        "MLDictionaryFeatureProvider": MLDictionaryFeatureProvider,
        "MLFeatureValue": MLFeatureValue,
        "MLModel": MLModel,
        "MLMultiArray": MLMultiArray,
        "MLMultiArrayDataTypeDouble": 65600,
        "MLMultiArrayDataTypeFloat32": 65568,
        "MLMultiArrayDataTypeInt32": 131104,
        "MLPredictionOptions": MLPredictionOptions,
    }.items():
        setattr(framework, name, value)
    bridge.autorelease_pool = _autorelease_pool  # type: ignore[attr-defined]
    foundation.NSURL = _URL  # type: ignore[attr-defined]
    foundation.NSDictionary = NSDictionary  # type: ignore[attr-defined]
    sys.modules.update({"CoreML": framework, "Foundation": foundation, "objc": bridge})
