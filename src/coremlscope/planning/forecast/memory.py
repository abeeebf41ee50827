"""Estimates the memory of a prediction from the file: weights, results by their live ranges, states."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from coremlscope.base.figures import Figure
from coremlscope.base.findings import Finding
from coremlscope.base.units import format_bytes
from coremlscope.describe.stages import weights_of, why_absent
from coremlscope.devices import ComputeUnit, Device
from coremlscope.devices.app_limits import app_limit
from coremlscope.model.ir import DType, Model, StateFeature
from coremlscope.results.estimate import MemoryEstimate
from coremlscope.results.operations import OpTable

#: How the peak is derived.
_BASIS = "live ranges of the file's tensors; bounds, not measured"
_NO_SIZE = "the size of a result is not known before a prediction"


class MemoryModel(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a model from which its memory on any device is estimated.

    Attributes:
        ops: The operations.
        stored_bytes: Bytes of the weights in the file.
        expanded_bytes: Bytes of the weights in the type that operations read.
        state_bytes: Bytes of the states.
        why_unknown: Why the peak is not known, as a clause; empty if it is.
    """

    ops: OpTable
    stored_bytes: int
    expanded_bytes: int
    state_bytes: int
    why_unknown: str = ""

    @classmethod
    def of(cls, model: Model, ops: OpTable, function: str | None = None) -> MemoryModel:
        """Prepares a model.

        Args:
            model: The model. Weights may be absent.
            ops: Its operations, with bound shapes.
            function: The function whose states count; None for the default one.
        """
        groups = weights_of(model)
        described = model.description.functions.get(function or "", model.description.main)
        states = [f.type.array for f in described.states if isinstance(f.type, StateFeature)]
        return cls(
            ops=ops,
            stored_bytes=sum(group.nbytes for group in groups),
            expanded_bytes=sum(group.parameters * DType(group.dtype).bits // 8 for group in groups),
            state_bytes=sum(math.prod(array.shape) * array.dtype.bits // 8 for array in states),
            why_unknown=why_absent(model) or (_NO_SIZE if None in ops.live_bytes else ""),
        )

    def on(self, device: Device, units: Mapping[str, ComputeUnit]) -> MemoryEstimate:
        """Estimates the memory of a prediction on a device.

        Args:
            device: The device, to which the memory of an app is limited.
            units: The unit of each operation by id, as planned; empty where nothing is planned.
        """
        weights: dict[ComputeUnit, int] = {}
        alive: dict[ComputeUnit, int] = {}
        sizes = [size or 0 for size in self.ops.live_bytes]
        for id_, live, of_weights in zip(self.ops.id, sizes, self.ops.weight_bytes, strict=True):
            unit = units.get(id_)
            if unit is not None:
                alive[unit] = max(alive.get(unit, 0), live)
                weights[unit] = weights.get(unit, 0) + (of_weights or 0)
        peak, peak_op = max(zip(sizes, self.ops.id, strict=True), default=(0, ""))
        is_known = not self.why_unknown
        return MemoryEstimate(
            weights_bytes=self.stored_bytes,
            expanded_bytes=max(self.expanded_bytes, self.stored_bytes),
            activations_bytes=peak if is_known else None,
            peak_op=peak_op if is_known else "",
            state_bytes=self.state_bytes,
            # Weights that several operations or the steps of a loop share count once.
            weights_by_unit={unit: min(size, self.expanded_bytes) for unit, size in weights.items()},
            activations_by_unit=alive,
            peak=self.peak(),
            basis=_BASIS,
            limit=app_limit(device.name),
        )

    def peak(self) -> Figure | None:
        """Returns stored weights, states and live results, with bounds; None if `why_unknown` says so.

        The system maps stored weights and may drop them, so they may not count at all. At most there are
        weights in the type that operations read beside the stored ones, and each result twice.
        """
        if self.why_unknown:
            return None
        alive = max((size or 0 for size in self.ops.live_bytes), default=0)
        stored, expanded, state = self.stored_bytes, self.expanded_bytes, self.state_bytes
        copies = expanded if expanded > stored else 0
        return Figure(
            float(stored + state + alive),
            float(state + alive),
            float(stored + copies + state + 2 * alive),
            "estimated",
        )


def find_shortages(memory: MemoryModel, devices: Sequence[Device], where: str = "") -> Iterator[Finding]:
    """Yields each device on which a prediction takes more memory than a system gives to an app.

    Args:
        memory: The model.
        devices: The devices.
        where: The shapes that the figures are for, in words; empty for the planned ones.
    """
    peak = memory.peak()
    for name in dict.fromkeys(device.name for device in devices):
        limit = app_limit(name)
        if peak is None or limit is None or peak.value <= limit.limit_bytes:
            continue
        is_certain = peak.low > limit.limit_bytes
        verdict = "it will not load, or ends the app" if is_certain else "it may end the app"
        held = peak.low if is_certain else peak.value
        what = "inputs, results and states" if is_certain else "weights, results and states"
        yield Finding(
            id="out-of-memory",
            severity="warning",
            text=f"A prediction{where} holds {format_bytes(held)} of {what} at once (estimated), and an app"
            f" gets {format_bytes(limit.limit_bytes)} on {name}: {verdict}.",
            hint="use smaller shapes, compress the weights, or split the model; the entitlement"
            " com.apple.developer.kernel.increased-memory-limit gives some devices more",
            source=limit.source,
        )
