"""Core ML's own interface through pyobjc, for what coremltools lacks: the plan of a named function.

pyobjc is the optional extra `[mac]`; without it, or where a class is missing, `load_plan` is absent. Written
against Apple's documented interface and pyobjc's metadata; not yet confirmed on a device.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

__all__ = ["ObjectiveCPlan", "find_framework", "load_plan"]

#: Members of `MLComputeUnits`, by coremltools' names.
_UNITS: Mapping[str, str] = {
    "all": "MLComputeUnitsAll",
    "cpu_and_ne": "MLComputeUnitsCPUAndNeuralEngine",
    "cpu_and_gpu": "MLComputeUnitsCPUAndGPU",
    "cpu_only": "MLComputeUnitsCPUOnly",
}


def find_framework() -> Any | None:
    """Returns pyobjc's module of Core ML; None if it is not installed or is older than compute plans."""
    try:
        framework = importlib.import_module("CoreML")
        importlib.import_module("Foundation")
    except ImportError:
        return None
    return framework if hasattr(framework, "MLComputePlan") else None


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
    configuration = framework.MLModelConfiguration.alloc().init()
    configuration.setComputeUnits_(getattr(framework, _UNITS[compute_units]))
    configuration.setFunctionName_(function)
    url = importlib.import_module("Foundation").NSURL.fileURLWithPath_(path)
    load = framework.MLComputePlan.loadContentsOfURL_configuration_completionHandler_
    return ObjectiveCPlan(_completed(lambda handler: load(url, configuration, handler)))


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
