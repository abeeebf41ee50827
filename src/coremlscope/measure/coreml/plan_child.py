"""The child process that asks coremltools for a compute plan and writes it as JSON.

`python -m coremlscope.measure.coreml.plan_child MODEL COMPUTE_UNITS OUTPUT`. Loading a plan can take minutes
and gigabytes; the parent process limits both.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["main"]

_UNITS = {
    "MLCPUComputeDevice": "cpu",
    "MLGPUComputeDevice": "gpu",
    "MLNeuralEngineComputeDevice": "neural_engine",
}


def main(arguments: Sequence[str]) -> int:
    """Writes the plan of a model.

    Args:
        arguments: The model, the name of a `coremltools.ComputeUnit`, the file to write.
    """
    model, units, output = arguments
    import coremltools
    from coremltools.models.compute_plan import MLComputePlan
    from coremltools.models.utils import compile_model

    compiled = model if model.rstrip("/").endswith(".mlmodelc") else compile_model(model)
    plan = MLComputePlan.load_from_path(compiled, getattr(coremltools.ComputeUnit, units.upper()))
    program = plan.model_structure.program
    functions = {} if program is None else program.functions
    found = {name: _operations(plan, function.block) for name, function in functions.items()}
    Path(output).write_text(json.dumps({"functions": found}), encoding="utf-8")
    return 0


def _operations(plan: Any, block: Any) -> list[dict[str, Any]]:
    """The operations of a block that have a place, nested ones after their owner."""
    found = []
    for op in block.operations:
        usage = plan.get_compute_device_usage_for_mlprogram_operation(op)
        cost = plan.get_estimated_cost_for_mlprogram_operation(op)
        if usage is not None:
            found.append(
                {
                    "type": op.operator_name,
                    "outputs": [output.name for output in op.outputs],
                    "preferred": _unit(usage.preferred_compute_device),
                    "supported": [_unit(device) for device in usage.supported_compute_devices],
                    "weight": 0.0 if cost is None else cost.weight,
                }
            )
        for inner in op.blocks:
            found.extend(_operations(plan, inner))
    return found


def _unit(device: Any) -> str:
    return _UNITS[type(device).__name__]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
