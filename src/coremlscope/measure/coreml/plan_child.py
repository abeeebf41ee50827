"""The child process that asks coremltools for a compute plan and sends it to its parent.

`python -m coremlscope.measure.coreml.plan_child MODEL COMPUTE_UNITS FOLDER`. Loading a plan can take minutes
and gigabytes; the parent process limits both.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from coremlscope.measure.coreml.channel import tell

__all__ = ["main"]

_UNITS = {
    "MLCPUComputeDevice": "cpu",
    "MLGPUComputeDevice": "gpu",
    "MLNeuralEngineComputeDevice": "neural_engine",
}
_CONSTANT = "const"


def main(arguments: Sequence[str]) -> int:
    """Sends the plan of a model.

    Args:
        arguments: The model, the name of a `coremltools.ComputeUnit`, a folder to compile into.
    """
    model, units, folder = arguments
    import coremltools
    from coremltools.libcoremlpython import _MLModelProxy  # noqa: F401 - absent: Core ML is out of reach
    from coremltools.models.compute_plan import MLComputePlan
    from coremltools.models.utils import compile_model

    compiled = model.rstrip("/")
    if not compiled.endswith(".mlmodelc"):
        compiled = compile_model(model, str(Path(folder) / "compiled.mlmodelc"))
    plan = MLComputePlan.load_from_path(compiled, getattr(coremltools.ComputeUnit, units.upper()))
    answer = _Answer(plan)
    answer.add(plan.model_structure, "")
    tell(functions=answer.functions, layers=answer.layers, asked=answer.asked)
    return 0


class _Answer:
    """What the plan says of every operation and layer that it has a place for."""

    def __init__(self, plan: Any) -> None:
        self._plan = plan
        self.functions: dict[str, list[Mapping[str, Any]]] = {}
        self.layers: dict[str, list[Mapping[str, Any]]] = {}
        self.asked = 0

    def add(self, structure: Any, stage: str) -> None:
        """Asks for a model; for a pipeline, for each of its models."""
        prefix = f"{stage}/" if stage else ""
        if structure.program is not None:
            for name, function in structure.program.functions.items():
                self.functions[prefix + name] = list(self._operations(function.block))
        if structure.neuralnetwork is not None:
            self.layers[stage] = list(self._layers(structure.neuralnetwork.layers))
        if structure.pipeline is not None:
            for name, inner in structure.pipeline.sub_models:
                self.add(inner, prefix + name)

    def _operations(self, block: Any) -> Iterator[Mapping[str, Any]]:
        """The operations of a block that have a place, nested ones after their owner."""
        for op in block.operations:
            self.asked += op.operator_name.rpartition(".")[2] != _CONSTANT
            usage = self._plan.get_compute_device_usage_for_mlprogram_operation(op)
            cost = self._plan.get_estimated_cost_for_mlprogram_operation(op)
            if usage is not None:
                yield {
                    "type": op.operator_name,
                    "outputs": [output.name for output in op.outputs],
                    "weight": None if cost is None else cost.weight,
                    **_place(usage),
                }
            for inner in op.blocks:
                yield from self._operations(inner)

    def _layers(self, layers: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
        """The layers that have a place. Core ML has no costs of layers."""
        for layer in layers:
            self.asked += 1
            usage = self._plan.get_compute_device_usage_for_neuralnetwork_layer(layer)
            if usage is not None:
                yield {"name": layer.name, "type": layer.type, **_place(usage)}


def _place(usage: Any) -> Mapping[str, Any]:
    return {
        "preferred": _unit(usage.preferred_compute_device),
        "supported": [_unit(device) for device in usage.supported_compute_devices],
    }


def _unit(device: Any) -> str:
    return _UNITS[type(device).__name__]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
