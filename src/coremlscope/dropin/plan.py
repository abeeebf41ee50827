"""Compute plans for coremltools: `MLComputePlan` for a device that is named, not present.

The device is the one given to `install(device=…)`, else that of the environment variable COREMLSCOPE_DEVICE
(and COREMLSCOPE_OS for its system), else a Mac with an M4. What the plan holds is planned by Core ML's cost
model.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coremlscope.base.errors import UsageError
from coremlscope.devices import SETTINGS, ComputeUnit, ComputeUnits, Device, find_device
from coremlscope.dropin.compute_devices import device_of_unit
from coremlscope.dropin.structure import model_structure
from coremlscope.formats import container
from coremlscope.model import ir
from coremlscope.runtime.execution.wiring import stage_key, wire

if TYPE_CHECKING:
    from coremlscope.planning.placement.place import PlacedFunction
    from coremlscope.results.plan import PlannedOp

_DEVICE_VARIABLE, _OS_VARIABLE = "COREMLSCOPE_DEVICE", "COREMLSCOPE_OS"
#: A Mac as `install` declares it to coremltools.
_DEFAULT_DEVICE, _DEFAULT_OS = "m4", "26"

_chosen: Device | None = None


def choose_device(device: str | None, release: str | None = None) -> None:
    """Sets the device that plans are made for; None goes back to the environment's.

    Raises:
        UsageError: There is no such device, or the version does not run on it.
    """
    global _chosen
    _chosen = None if device is None else find_device(device, release)


def chosen_device() -> Device:
    """The device that plans are made for.

    Raises:
        UsageError: The environment names an unknown device.
    """
    if _chosen is not None:
        return _chosen
    name = os.environ.get(_DEVICE_VARIABLE)
    if name:
        return find_device(name, os.environ.get(_OS_VARIABLE))
    return find_device(_DEFAULT_DEVICE, os.environ.get(_OS_VARIABLE) or _DEFAULT_OS)


class ComputePlanProxy:
    """Where each operation would run. The base of coremltools' plans of remote devices."""


class PlannedModel(ComputePlanProxy):
    """A plan behind coremltools' `MLComputePlan`.

    Attributes:
        model_structure: The model's structure as coremltools' `MLModelStructure`; its operations are what
            the plan is asked for.
    """

    def __init__(self, model: ir.Model, device: Device, setting: ComputeUnits) -> None:
        from coremlscope.planning.forecast.planner import place_functions  # predictions do not need it

        self.model_structure = model_structure(model)
        self._device = device
        self._setting: ComputeUnits = setting
        # By the operation itself: in the structure those of different stages may have the same id.
        self._planned = dict(
            _by_operation(model, place_functions(model, device, [setting], with_advice=False))
        )
        self._layers = _by_layer(self._planned.values(), setting)

    def get_compute_device_usage_for_mlprogram_operation(self, operation: Any) -> Any:
        """Coremltools' `MLComputePlanDeviceUsage`; None for constants and where no unit is known."""
        return self._usage(self._find(operation))

    def get_compute_device_usage_for_neuralnetwork_layer(self, layer: Any) -> Any:
        """The same for a layer: of its operation that costs most. None where it came to no operation."""
        known = getattr(layer, "__proxy__", None)
        held = self._layers.get(id(known))
        return self._usage(held[1] if held is not None and held[0] is known else None)

    def get_estimated_cost_for_mlprogram_operation(self, operation: Any) -> Any:
        """Coremltools' `MLComputePlanCost`: the operation's share of the planned cost; None for constants."""
        from coremltools.models.compute_plan import MLComputePlanCost

        planned = self._find(operation)
        return None if planned is None else MLComputePlanCost(weight=planned.choices[self._setting].weight)

    def _usage(self, planned: PlannedOp | None) -> Any:
        from coremltools.models.compute_plan import MLComputePlanDeviceUsage

        preferred = None if planned is None else planned.choices[self._setting].unit
        if planned is None or preferred is None:
            return None
        units = [unit for unit in SETTINGS[self._setting] if planned.supported[unit] == "yes"]
        return MLComputePlanDeviceUsage(
            preferred_compute_device=self._as_device(preferred),
            supported_compute_devices=[self._as_device(unit) for unit in units],
        )

    def _find(self, operation: Any) -> PlannedOp | None:
        op = getattr(operation, "__proxy__", None)
        held = self._planned.get(id(op))
        return held[1] if held is not None and held[0] is op else None

    def _as_device(self, unit: ComputeUnit) -> Any:
        return device_of_unit(unit, self._device)


def _by_operation(
    model: ir.Model, functions: Mapping[str, PlacedFunction]
) -> Iterator[tuple[int, tuple[ir.Op, PlannedOp]]]:
    """Each operation that is planned, by its identity; the operation is kept so that it stays its own."""
    for stage in wire(model).stages:
        content, description = stage.model.content, stage.model.description
        for function, body in content.functions.items():
            # As in coremltools, whose plans are those of the default function.
            if function in description.functions and function != description.default:
                continue
            planned = functions.get(stage_key(stage.name, description.default))
            ops = {} if planned is None else {op.id: op for op in planned.ops}
            for op in body.graph.walk():
                key = stage_key(stage.name, op.id)
                if key in ops:
                    yield id(op), (op, ops[key])


def _by_layer(
    planned: Iterable[tuple[ir.Op, PlannedOp]], setting: ComputeUnits
) -> dict[int, tuple[ir.Layer, PlannedOp]]:
    """The operation of each layer that costs most where it is planned to run, by the layer's identity."""
    layers: dict[int, tuple[ir.Layer, PlannedOp]] = {}
    for op, candidate in planned:
        if op.layer is None:
            continue
        held = layers.get(id(op.layer))
        if held is None or candidate.choices[setting].weight > held[1].choices[setting].weight:
            layers[id(op.layer)] = (op.layer, candidate)
    return layers


def load_plan(path: str, compute_units: str) -> Any:
    """The plan of a compiled model as coremltools' `MLComputePlan`.

    Args:
        path: The model.
        compute_units: Name of a `coremltools.ComputeUnit`: `ALL`, `CPU_AND_NE`, …

    Raises:
        CoremlscopeError: The model is not compiled, cannot be read or planned, or the device is unknown.
            Core ML itself ends the process where the model is not compiled (apple/coremltools #2757).
    """
    from coremltools.models.compute_plan import MLComputePlan

    setting = next(known for known in SETTINGS if known == compute_units.lower())
    return MLComputePlan(PlannedModel(read_compiled(path), chosen_device(), setting))


def read_compiled(path: str) -> ir.Model:
    """Reads a compiled model; others are refused, where Core ML itself ends the process.

    Raises:
        CoremlscopeError: The model is not compiled, or cannot be read.
    """
    file = Path(path).expanduser()
    if file.exists() and container.sniff(file) != "mlmodelc":
        raise UsageError(
            f"{path} is not a compiled model, as plans and structures of models need",
            "compile it with coremltools.models.utils.compile_model(path)",
        )
    return container.read(file)
