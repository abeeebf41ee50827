"""The child process that asks coremltools for a compute plan and sends it to its parent.

It calls `send_plan`. Loading a plan can take minutes and gigabytes; the parent process limits both.
coremltools asks for the default function only: others are asked for through pyobjc where it is installed,
else each is copied into a package of its own.
"""

from __future__ import annotations

import itertools
import math
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from coremlscope.base.processes.channel import send
from coremlscope.measure.coreml.kept import compiled_in
from coremlscope.measure.coreml.messages import end_with_error, read_message
from coremlscope.measure.coreml.objective_c import find_framework, load_plan

_UNITS = {
    "MLCPUComputeDevice": "cpu",
    "MLGPUComputeDevice": "gpu",
    "MLNeuralEngineComputeDevice": "neural_engine",
}
_CONSTANT = "const"


def send_plan(model: str, units: str, folder: str, *functions: str) -> None:
    """Sends the plan of a model.

    Args:
        model: The model.
        units: The name of a `coremltools.ComputeUnit`.
        folder: A folder with the compiled model, or to compile into.
        *functions: The functions besides the default one.
    """
    try:
        _answer(model, units, Path(folder), functions)
    except Exception as error:
        end_with_error(error)


def _answer(model: str, units: str, folder: Path, functions: Sequence[str]) -> None:
    """Sends the plan of the default function, then those of others."""
    import coremltools
    from coremltools.libcoremlpython import _MLModelProxy  # noqa: F401 - absent: Core ML is out of reach
    from coremltools.models.compute_plan import MLComputePlan
    from coremltools.models.utils import compile_model

    compiled = model.rstrip("/")
    if not compiled.endswith(".mlmodelc") and (before := compiled_in(folder)) is not None:
        compiled = str(before)
    elif not compiled.endswith(".mlmodelc"):
        send(begins="compile")
        compiled = compile_model(model, str(folder / "compiled.mlmodelc"))
    send(begins="plan")
    plan = MLComputePlan.load_from_path(compiled, getattr(coremltools.ComputeUnit, units.upper()))
    answer = _Answer()
    answer.add(plan, plan.model_structure, "")
    answer.send()
    for name in functions:
        try:
            answer.add_function(_plan_of_function(model, compiled, units, name, folder), name)
        except Exception as error:  # the other functions still have plans
            answer.failed[name] = read_message(str(error))
        answer.send()


def _plan_of_function(model: str, compiled: str, units: str, name: str, folder: Path) -> Any:
    """Loads the plan of a function that is not the default one."""
    import coremltools
    from coremltools.models.compute_plan import MLComputePlan
    from coremltools.models.utils import MultiFunctionDescriptor, compile_model, save_multifunction

    framework = find_framework()
    if framework is not None:
        return load_plan(framework, compiled, units.lower(), name)
    descriptor = MultiFunctionDescriptor()
    descriptor.add_function(model.rstrip("/"), name, name)
    descriptor.default_function_name = name
    package = folder / f"{uuid.uuid4()}.mlpackage"
    save_multifunction(descriptor, str(package))
    own = compile_model(str(package), str(package.with_suffix(".mlmodelc")))
    shutil.rmtree(package, ignore_errors=True)
    return MLComputePlan.load_from_path(own, getattr(coremltools.ComputeUnit, units.upper()))


class _Answer:
    """The plans for every operation and layer that they place."""

    def __init__(self) -> None:
        self.functions: dict[str, list[Mapping[str, Any]]] = {}
        self.layers: dict[str, list[Mapping[str, Any]]] = {}
        self.failed: dict[str, str] = {}
        self.asked = 0

    def send(self) -> None:
        """Sends what is known so far."""
        send(functions=self.functions, layers=self.layers, asked=self.asked, failed=self.failed)

    def add_function(self, plan: Any, name: str) -> None:
        """Asks for one function, whose plan it is."""
        block = plan.model_structure.program.functions[name].block
        self.functions[name] = list(self._operations(plan, block, itertools.count()))

    def add(self, plan: Any, structure: Any, stage: str) -> None:
        """Asks for a model; for a pipeline, for each of its models."""
        prefix = f"{stage}/" if stage else ""
        if structure.program is not None:
            functions = structure.program.functions
            for name, function in functions.items():
                before = self.asked
                placed = list(self._operations(plan, function.block, itertools.count()))
                self.functions[prefix + name] = placed
                if len(functions) > 1 and not placed:  # the plan is that of another function
                    self.asked = before
        if structure.neuralnetwork is not None:
            self.layers[stage] = list(self._layers(plan, structure.neuralnetwork.layers))
        if structure.pipeline is not None:
            for name, inner in structure.pipeline.sub_models:
                self.add(plan, inner, prefix + name)

    def _operations(self, plan: Any, block: Any, unnamed: Iterator[int]) -> Iterator[Mapping[str, Any]]:
        """The operations of a block that have a place, nested ones after their owner.

        Those without results, such as `write_state`, are numbered over the whole function by `unnamed`.
        """
        for op in block.operations:
            number = None if op.outputs else next(unnamed)
            self.asked += op.operator_name.rpartition(".")[2] != _CONSTANT
            usage = plan.get_compute_device_usage_for_mlprogram_operation(op)
            cost = plan.get_estimated_cost_for_mlprogram_operation(op)
            place = _place(usage)
            if place:
                yield {
                    "type": op.operator_name,
                    "outputs": [output.name for output in op.outputs],
                    "unnamed": number,
                    "weight": _weight(cost),
                    **place,
                }
            for inner in op.blocks:
                yield from self._operations(plan, inner, unnamed)

    def _layers(self, plan: Any, layers: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
        """The layers that have a place. Core ML has no costs of layers."""
        for layer in layers:
            self.asked += 1
            usage = plan.get_compute_device_usage_for_neuralnetwork_layer(layer)
            if place := _place(usage):
                yield {"name": layer.name, "type": layer.type, **place}


def _place(usage: Any) -> Mapping[str, Any]:
    """The units of an operation; empty where Core ML names none."""
    if usage is None:
        return {}
    preferred = _unit(usage.preferred_compute_device)
    supported = [unit for device in usage.supported_compute_devices or () if (unit := _unit(device))]
    return {"preferred": preferred, "supported": supported} if preferred or supported else {}


def _unit(device: Any) -> str | None:
    """The unit of a device; None for one that coremltools does not know, or has none of."""
    # Core ML may answer with a private subclass; pyobjc shows the classes above it as those of Python.
    names = (_UNITS.get(kind.__name__) for kind in type(device).__mro__)
    return next(filter(None, names), None)


def _weight(cost: Any) -> float | None:
    """The share of an operation in the cost; None where Core ML gives no number."""
    return cost.weight if cost is not None and math.isfinite(cost.weight) else None
