"""Estimates of a prediction: its kernels, on a device under a setting, as planned or with changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from coremlscope.describe.left_out import find_left_out
from coremlscope.devices import ComputeUnit, ComputeUnits, Device
from coremlscope.model.ir import ArrayFeature, DType, Feature, ImageFeature
from coremlscope.ops.view import OpView
from coremlscope.planning.advice import FunctionView
from coremlscope.planning.cost.latency.core_ai import adapt
from coremlscope.planning.cost.latency.kernels import Kernel
from coremlscope.planning.cost.latency.model import estimate
from coremlscope.planning.cost.latency.own import NOTHING_OWN, Own
from coremlscope.planning.cost.latency.structure import Structure, structure_of
from coremlscope.planning.cost.latency.table import KernelTable
from coremlscope.planning.cost.latency.work import Work, place_kernels
from coremlscope.planning.patterns.forms import BUFFERS
from coremlscope.planning.placement.core_ai import crossings
from coremlscope.planning.placement.place import PlacedFunction
from coremlscope.results.estimate import Estimate

_PIXEL_BYTES = 4


class Kernels:
    """The kernels of a prediction.

    Args:
        functions: What a prediction runs, in order.
        own: A user's own measurements, which refine estimates.
        whole: Kernels of models without operations.
        stages: Stages of which nothing is known.

    Attributes:
        fused: The kernels in order.
        flows: The tensors from operations to others.
        unknown: Operations that they do not include.
        loops: The loops whose number of iterations is not known, by id.
    """

    def __init__(
        self,
        functions: Sequence[FunctionView],
        own: Own = NOTHING_OWN,
        whole: Sequence[Kernel] = (),
        stages: Sequence[str] = (),
    ) -> None:
        self.own = own
        self.fused = [*(kernel for one in functions for kernel in one.fused), *whole]
        self.flows = [flow for one in functions for flow in one.flows]
        self._views = functions
        self._pieces: dict[object, Sequence[Kernel]] = {}
        self._predictions: dict[object, Prediction] = {}
        self.unknown = find_left_out(one.bound.function for one in functions)
        self.left_out = (*stages, *filter(None, [self.unknown.text]))
        edges = (*functions[0].description.inputs, *functions[-1].description.outputs) if functions else ()
        self.converted_bytes = sum(map(_converted_bytes, edges))
        loops = {kernel.loop for kernel in self.fused} - {""}
        self.loops: dict[str, OpView] = {
            view.op.id: view for one in functions for view in one.bound.graph.walk() if view.op.id in loops
        }

    @cached_property
    def table(self) -> KernelTable:
        """The kernels as a table, which all devices share."""
        return KernelTable.of(self.fused)

    @cached_property
    def _places(self) -> Mapping[int, int]:
        """The place of each kernel, by its address."""
        return {id(kernel): place for place, kernel in enumerate(self.fused)}

    def table_of(self, kernels: Sequence[Kernel]) -> KernelTable:
        """Returns the table of other kernels, many of which are among its own."""
        others = [kernel for kernel in kernels if id(kernel) not in self._places]
        places = iter(range(len(self.fused), len(self.fused) + len(others)))
        order = [self._places.get(id(kernel), -1) for kernel in kernels]
        order = [next(places) if place < 0 else place for place in order]
        return self.table.joined(KernelTable.of(others)).take(order)

    def structure(self) -> Structure:
        """Returns what the network consists of."""
        return structure_of(self.table, np.array([kernel.steps for kernel in self.fused], dtype=np.float64))

    def on(
        self, device: Device, settings: Sequence[ComputeUnits], placed: Sequence[PlacedFunction]
    ) -> dict[ComputeUnits, Prediction]:
        """Returns a prediction on a device, as its functions are planned, by setting."""
        # What converts outputs runs where they are computed.
        rows = [op for one in placed for op in one.ops if not (op.inserted and op.type == BUFFERS[1])]
        return {
            setting: self.under(device, setting, {op.id: op.choices[setting].unit for op in rows})
            for setting in settings
        }

    def under(
        self, device: Device, setting: ComputeUnits, units: Mapping[str, ComputeUnit | None]
    ) -> Prediction:
        """Returns a prediction on a device under a setting, with the units of operations by id."""
        key = device.name, device.chip.id, str(device.os), setting, tuple(units.items())
        if key not in self._predictions:
            self._predictions[key] = Prediction(self, device, setting, units)
        return self._predictions[key]

    @cached_property
    def _owners(self) -> Mapping[str, FunctionView]:
        """The function of each operation of a kernel, by id."""
        return {id_: one for one in self._views for kernel in one.fused for id_ in kernel.ops}

    def cut(self, kernel: Kernel, groups: Sequence[Sequence[str]]) -> Sequence[Kernel]:
        """Returns the kernels of which a kernel consists where a plan divides it; see `Fused`."""
        key = kernel.weight_bytes, *map(tuple, groups)
        if key not in self._pieces:
            self._pieces[key] = self._owners[kernel.ops[0]].cut(kernel, groups)
        return self._pieces[key]


class Prediction:
    """A prediction on a device under one setting.

    Args:
        kernels: What it computes.
        device: The chip and system.
        setting: The setting of compute units.
        units: The unit of each operation by id, in order, as planned; None where no unit is known to run it.
    """

    def __init__(
        self,
        kernels: Kernels,
        device: Device,
        setting: ComputeUnits,
        units: Mapping[str, ComputeUnit | None],
    ) -> None:
        self.kernels, self.device, self.setting, self.units = kernels, device, setting, units

    @cached_property
    def work(self) -> Work:
        """What it does on each unit, as planned."""
        return self._place()

    @cached_property
    def planned(self) -> Estimate:
        """The estimate of it, as planned."""
        return self._price(self.work, with_notes=True)

    def estimate(
        self,
        moved: Mapping[str, ComputeUnit | None] | None = None,
        fused: Sequence[Kernel] | None = None,
        fewer_bytes: int = 0,
    ) -> Estimate:
        """Estimates it; without notes where anything differs from the plan.

        Args:
            moved: Operations that run on other units than planned, or on none, which are gone.
            fused: Other kernels than its own.
            fewer_bytes: Bytes of inputs and outputs that need no conversion.
        """
        if not moved and fused is None and not fewer_bytes:
            return self.planned
        return self._price(self._place(moved, fused, fewer_bytes), with_notes=False)

    def _place(
        self,
        moved: Mapping[str, ComputeUnit | None] | None = None,
        fused: Sequence[Kernel] | None = None,
        fewer_bytes: int = 0,
    ) -> Work:
        own = self.kernels
        return place_kernels(
            own.fused if fused is None else fused,
            [(id_, moved.get(id_, unit)) for id_, unit in self.units.items()]
            if moved
            else list(self.units.items()),
            own.flows,
            own.cut,
            own.table if fused is None else own.table_of(fused),
            max(own.converted_bytes - fewer_bytes, 0),
        )

    def _price(self, work: Work, *, with_notes: bool) -> Estimate:
        own = self.kernels
        return estimate(
            work,
            self.device,
            self.setting,
            calibration=own.own.calibration,
            left_out=own.left_out,
            with_notes=with_notes,
        )


def as_core_ai(found: Estimate, placed: Sequence[PlacedFunction]) -> Estimate:
    """Returns an estimate for Core AI, with the placement of Core AI."""
    return adapt(found, sum(crossings(one, found.compute_units) for one in placed))


def _converted_bytes(feature: Feature) -> int:
    """Returns the bytes of an input or output that is not in half precision; 0 for others."""
    match feature.type:
        case ArrayFeature(dtype=dtype, shape=shape) if dtype != DType.FP16:
            return math.prod(max(extent, 1) for extent in shape) * dtype.bits // 8
        # Its buffer is the operation's: nothing is copied or transformed (Apple, Core ML with iOS 16).
        case ImageFeature(color_space="GRAYSCALE_FLOAT16"):
            return 0
        case ImageFeature(width=width, height=height):
            return _PIXEL_BYTES * width * height
        case _:
            return 0
