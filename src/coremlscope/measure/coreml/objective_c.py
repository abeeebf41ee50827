"""Core ML's own interface through pyobjc, for what coremltools lacks.

That is the plan of a named function, output backings and asynchronous predictions. pyobjc is the optional
extra `[mac]`; without it, or where a class is missing, `find_framework` finds nothing. Written
against Apple's documented interface and pyobjc's metadata; not yet confirmed on a device.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import numpy as np

#: Members of `MLComputeUnits`, by coremltools' names.
_UNITS: Mapping[str, str] = {
    "all": "MLComputeUnitsAll",
    "cpu_and_ne": "MLComputeUnitsCPUAndNeuralEngine",
    "cpu_and_gpu": "MLComputeUnitsCPUAndGPU",
    "cpu_only": "MLComputeUnitsCPUOnly",
}
#: Members of `MLMultiArrayDataType`, by the names of numpy's types; inputs have no others, see `values`.
_DATA_TYPES: Mapping[str, str] = {
    "float32": "MLMultiArrayDataTypeFloat32",
    "float64": "MLMultiArrayDataTypeDouble",
    "int32": "MLMultiArrayDataTypeInt32",
    "int8": "MLMultiArrayDataTypeInt8",
}


def find_framework(needed: str = "MLComputePlan") -> Any | None:
    """Returns pyobjc's module of Core ML; None if it is not installed or lacks a class.

    Args:
        needed: The class.
    """
    try:
        framework = importlib.import_module("CoreML")
        importlib.import_module("Foundation")
    except ImportError:
        return None
    return framework if hasattr(framework, needed) else None


def load_plan(framework: Any, path: str, compute_units: str, function: str) -> ObjectiveCPlan:
    """Loads the compute plan of one function.

    Args:
        framework: The result of `find_framework`.
        path: The compiled model.
        compute_units: Name of a `coremltools.ComputeUnit`, in lower case.
        function: The function.

    Raises:
        RuntimeError: Core ML gave no plan.
    """
    configuration = _configuration(framework, compute_units, function)
    url = _url(path)
    load = framework.MLComputePlan.loadContentsOfURL_configuration_completionHandler_
    return ObjectiveCPlan(_completed(lambda handler: load(url, configuration, handler)))


def release_pool() -> AbstractContextManager[None]:
    """Returns a context that releases temporary objects of Core ML at its end; a thread has none itself."""
    pool: AbstractContextManager[None] = importlib.import_module("objc").autorelease_pool()
    return pool


def _configuration(framework: Any, compute_units: str, function: str) -> Any:
    """An `MLModelConfiguration`; of the default function where no function is named."""
    configuration = framework.MLModelConfiguration.alloc().init()
    configuration.setComputeUnits_(getattr(framework, _UNITS[compute_units]))
    if function:
        configuration.setFunctionName_(function)
    return configuration


def _dictionary(values: Mapping[str, Any]) -> Any:
    """Returns an `NSDictionary`: Core ML would call back into Python, under its lock, for one of Python's."""
    return importlib.import_module("Foundation").NSDictionary.dictionaryWithDictionary_(dict(values))


def _url(path: str) -> Any:
    return importlib.import_module("Foundation").NSURL.fileURLWithPath_(path)


def _checked(answer: tuple[Any, Any], doing: str) -> Any:
    """The result of a method with an `error:` argument, which pyobjc returns with the error.

    Raises:
        RuntimeError: There is no result.
    """
    result, error = answer
    if result is None:
        raise RuntimeError(f"{doing}: {error}" if error is not None else f"{doing} gave no result")
    return result


class PredictionModel:
    """An `MLModel` with the predictions that coremltools lacks; inputs are multi-arrays."""

    def __init__(self, framework: Any, path: str, compute_units: str, function: str) -> None:
        """Loads a compiled model; arguments are those of `load_plan`.

        Raises:
            RuntimeError: Core ML did not load it.
        """
        configuration = _configuration(framework, compute_units, function)
        load = framework.MLModel.modelWithContentsOfURL_configuration_error_
        self._framework = framework
        self._model = _checked(load(_url(path), configuration, None), "loading the model")

    def provider(self, values: Mapping[str, np.ndarray[Any, Any]]) -> Any:
        """Returns an `MLFeatureProvider` of arrays by name."""
        feature = self._framework.MLFeatureValue.featureValueWithMultiArray_
        features = {name: feature(self._filled(value)) for name, value in values.items()}
        provider = self._framework.MLDictionaryFeatureProvider.alloc()
        given = _dictionary(features)
        return _checked(provider.initWithDictionary_error_(given, None), "passing the inputs")

    def options(self, backings: Mapping[str, Any] | None = None) -> Any:
        """Returns `MLPredictionOptions`, with arrays for outputs by name if there are any."""
        options = self._framework.MLPredictionOptions.alloc().init()
        if backings:
            options.setOutputBackings_(_dictionary(backings))
        return options

    def predict(self, provider: Any, options: Any) -> Any:
        """Predicts, and returns an `MLFeatureProvider` of the outputs.

        Raises:
            RuntimeError: Core ML gave no outputs.
        """
        answer = self._model.predictionFromFeatures_options_error_(provider, options, None)
        return _checked(answer, "predicting")

    def submitter(self, provider: Any) -> Callable[[Callable[[Any, Any], None]], object]:
        """Returns what starts an asynchronous prediction; it takes the completion handler.

        Raises:
            RuntimeError: This system has none: they came with macOS 14.
        """
        options = self.options()
        name = "predictionFromFeatures_options_completionHandler_"
        submit = getattr(self._model, name, None)
        if submit is None:
            raise RuntimeError("asynchronous predictions need macOS 14 or newer")
        return lambda handler: submit(provider, options, handler)

    def make_backings(self, outputs: Any) -> dict[str, Any]:
        """Makes an `MLMultiArray` like each output that is one."""
        found = {}
        for name in outputs.featureNames():
            array = outputs.featureValueForName_(name).multiArrayValue()
            if array is not None:
                found[str(name)] = self._array(array.shape(), array.dataType())
        return found

    def used_backings(self, outputs: Any, backings: Mapping[str, Any]) -> list[str]:
        """Names the outputs that are the very objects among the backings, which Core ML may ignore."""
        values = {name: outputs.featureValueForName_(name) for name in backings}
        return sorted(
            name
            for name, value in values.items()
            if value is not None and _is_same(value.multiArrayValue(), backings[name])
        )

    def _array(self, shape: Any, data_type: int) -> Any:
        made = self._framework.MLMultiArray.alloc().initWithShape_dataType_error_(shape, data_type, None)
        return _checked(made, "making an array")

    def _filled(self, value: np.ndarray[Any, Any]) -> Any:
        """An `MLMultiArray` with the elements of an array; Core ML may pad its rows."""
        array = self._array(list(value.shape), getattr(self._framework, _DATA_TYPES[value.dtype.name]))
        if value.size:
            strides = [int(stride) for stride in array.strides()]
            reach = 1 + sum((n - 1) * stride for n, stride in zip(value.shape, strides, strict=True))
            buffer = array.dataPointer().as_buffer(reach * value.itemsize)
            flat = np.frombuffer(buffer, value.dtype, reach)
            steps = [stride * value.itemsize for stride in strides]
            np.lib.stride_tricks.as_strided(flat, value.shape, steps, writeable=True)[...] = value
        return array


def _is_same(array: Any, backing: Any) -> bool:
    """Compares the addresses of two objects; pyobjc may represent one object by several of Python's."""
    return array is not None and array.__c_void_p__().value == backing.__c_void_p__().value


def _completed(start: Callable[[Callable[[Any, Any], None]], object]) -> Any:
    """Waits for a completion handler, which Core ML calls on a queue of its own; no run loop is needed."""
    done = threading.Event()
    found: list[tuple[Any, Any]] = []

    def handler(result: Any, error: Any) -> None:
        found.append((result, error))
        done.set()

    start(handler)
    done.wait()
    result, error = found[0]
    if result is None:
        raise RuntimeError(str(error) if error is not None else "Core ML gave neither a plan nor an error")
    return result


class ObjectiveCPlan:
    """An `MLComputePlan` of Core ML with the interface of coremltools' class of that name."""

    def __init__(self, plan: Any) -> None:
        self._plan = plan

    @property
    def model_structure(self) -> Any:
        """The structure of the model; only programs are read."""
        program = self._plan.modelStructure().program()
        functions = {} if program is None else program.functions()
        named = {str(name): SimpleNamespace(block=_block(f.block())) for name, f in functions.items()}
        return SimpleNamespace(program=SimpleNamespace(functions=named))

    def get_compute_device_usage_for_mlprogram_operation(self, operation: Any) -> Any:
        """The devices of an operation; None where Core ML does not know."""
        usage = self._plan.computeDeviceUsageForMLProgramOperation_(operation.handle)
        if usage is None:
            return None
        return SimpleNamespace(
            preferred_compute_device=usage.preferredComputeDevice(),
            supported_compute_devices=list(usage.supportedComputeDevices()),
        )

    def get_estimated_cost_for_mlprogram_operation(self, operation: Any) -> Any:
        """The share of an operation in the cost; None where Core ML does not know."""
        cost = self._plan.estimatedCostOfMLProgramOperation_(operation.handle)
        return None if cost is None else SimpleNamespace(weight=float(cost.weight()))


def _block(block: Any) -> Any:
    return SimpleNamespace(operations=[_operation(operation) for operation in block.operations()])


def _operation(operation: Any) -> Any:
    return SimpleNamespace(
        handle=operation,
        operator_name=str(operation.operatorName()),
        outputs=[SimpleNamespace(name=str(output.name())) for output in operation.outputs()],
        blocks=[_block(block) for block in operation.blocks()],
    )
