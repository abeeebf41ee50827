"""Results of importers: measurements and plans over a table of the operations that a file lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import msgspec

from coremlscope.base.findings import Finding
from coremlscope.devices.unit import SETTINGS, UNITS, ComputeUnit, ComputeUnits
from coremlscope.results.measurement import Measurement
from coremlscope.results.operations import OpRow, OpTable
from coremlscope.results.plan import (
    Choice,
    FunctionCost,
    Plan,
    PlannedOp,
    PlannedOps,
    Reason,
    SettingPlan,
    Support,
    find_segments,
)
from coremlscope.results.plan_encoding import share_costs
from coremlscope.results.provider import ProviderLog

#: The type of operations in files that do not name types.
UNKNOWN_TYPE = "unknown"
#: Where a file names units and not the implementations on them, each unit is its own backend.
_UNIT_BACKENDS: Mapping[str, ComputeUnit] = {unit: unit for unit in UNITS}


class ListingOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where the figures of a file are from.

    Attributes:
        file: The name of the file.
        device: The device; `unknown device` where neither the file nor the user names it.
        chip: The chip's id; empty where unknown.
        os: The system; `unknown system` likewise.
        notes: Where device and system are known from, if not from the file.
    """

    file: str
    device: str = "unknown device"
    chip: str = ""
    os: str = "unknown system"
    notes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The source of the figures: `Core ML on M1, macOS 14.5, from analytics.mil`."""
        return f"Core ML on {self.device}, {self.os}, from {self.file}"


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a file.

    Attributes:
        origin: Where its figures are from.
        model: The model's name, as the file has it; empty where it has none.
        ops: The operations that it lists; its plans refer to them.
        measurements: What it says was measured. Nothing of it was measured here.
        plans: What it says of places and planned costs.
        findings: Remarks on the file.
        provider_logs: What it says of ONNX Runtime's Core ML provider.
    """

    origin: ListingOrigin
    model: str = ""
    ops: OpTable = msgspec.field(default_factory=OpTable)
    measurements: tuple[Measurement, ...] = ()
    plans: tuple[Plan, ...] = ()
    findings: tuple[Finding, ...] = ()
    provider_logs: tuple[ProviderLog, ...] = ()


class ListedOp(msgspec.Struct, frozen=True, kw_only=True):
    """An operation as a file lists it.

    Attributes:
        function: Its function.
        type: Its type without the opset; `unknown` where the file has none.
        output_names: Names of its results; empty where the file has none.
        outputs: Types of its results, as in op tables; empty where the file has none.
        name: The author's name.
        place: See `placement.analytics.AnalysedOp`; its number in the function where it is empty.
        layer: In a neural network, the layer.
        supported: By unit; units that are absent are unknown.
        backend: Where it goes, a name among the plan's backends; None where the file does not say.
        cost_ms: By backend.
        weight: Its share in the cost of its graph; None where the file has none.
        reasons: Why it cannot run on units.
    """

    function: str
    type: str
    output_names: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    name: str = ""
    place: tuple[int, ...] = ()
    layer: str | None = None
    supported: Mapping[ComputeUnit, Support] = msgspec.field(default_factory=dict)
    backend: str | None = None
    cost_ms: Mapping[str, float] = msgspec.field(default_factory=dict)
    weight: float | None = None
    reasons: tuple[Reason, ...] = ()


def table_of(ops: Sequence[ListedOp]) -> OpTable:
    """The operations of a file as an op table. Work, weights and data flow are not known."""
    counts: dict[str, int] = {}
    rows = []
    for op in ops:
        number = counts.get(op.function, 0)
        counts[op.function] = number + 1
        rows.append(
            OpRow(
                id=f"{op.function}/{_path(op.place or (number,))}",
                type=op.type,
                name=op.name or (op.output_names[0] if op.output_names else op.type),
                function=op.function,
                outputs=op.outputs,
                output_names=op.output_names,
                work_is_complete=False,
                layer=op.layer,
            )
        )
    return OpTable.of(rows) if rows else OpTable()


def _path(place: tuple[int, ...]) -> str:
    """`7`, and in a nested block `7/block0/3`."""
    return "/".join(f"block{part}" if index % 2 else str(part) for index, part in enumerate(place))


def plan_of(
    ops: Sequence[ListedOp],
    origin: ListingOrigin,
    setting: ComputeUnits,
    *,
    backends: Mapping[str, ComputeUnit] = _UNIT_BACKENDS,
    functions: Mapping[str, FunctionCost] | None = None,
    notes: Sequence[str] = (),
    planner: str = "Core ML",
) -> Plan:
    """Core ML's plan as a file has it, over the table of the same operations.

    Args:
        ops: The operations.
        origin: Where the file is from.
        setting: The setting of compute units that Core ML planned for.
        backends: What `ListedOp.backend` may be, with the unit of each.
        functions: Planned costs of functions, launches and switches included. None: the file has none, and
            the changes of unit are counted.
        notes: What else to know.
        planner: Whose plan it is: `Core ML`, `Core AI`.
    """
    places = [None if op.backend is None else backends[op.backend] for op in ops]
    costs = [op.cost_ms.get(op.backend) if op.backend is not None else None for op in ops]
    table = list(table_of(ops))
    weights: Sequence[float] = [op.weight or 0.0 for op in ops]
    if not any(op.weight is not None for op in ops):
        weights = share_costs([row.id.rpartition("/")[0] for row in table], costs)
    if functions is None:
        functions = {
            name: FunctionCost(0.0, len(segments) - 1)
            for name, walk in groupby(zip(table, places, strict=True), lambda pair: pair[0].function)
            if (segments := find_segments((row.id, unit) for row, unit in walk))
        }
    return Plan(
        device=origin.device,
        chip=origin.chip,
        os=origin.os,
        planner=planner,
        cost_model=origin.file,
        notes=(
            f"planned by {planner}, as {origin.file} says; nothing was planned here",
            *origin.notes,
            *notes,
        ),
        backends=dict(backends),
        ops=PlannedOps(
            msgspec.structs.replace(
                PlannedOp.of(
                    row, {setting: Choice(backend=op.backend, unit=unit, planned_ms=ms, weight=weight)}
                ),
                supported={unit: op.supported.get(unit, "unknown") for unit in UNITS},
                cost_ms=op.cost_ms,
                cost_basis=dict.fromkeys(op.cost_ms, planner),
                why=op.reasons,
            )
            for row, op, unit, ms, weight in zip(table, ops, places, costs, weights, strict=True)
        ),
        settings=(SettingPlan(compute_units=setting, functions=functions),),
    )


def smallest_setting(units: set[ComputeUnit]) -> ComputeUnits:
    """The setting that allows these units and as few others as possible."""
    fitting = [setting for setting, allowed in SETTINGS.items() if units <= set(allowed)]
    return min(fitting, key=lambda setting: len(SETTINGS[setting]))
