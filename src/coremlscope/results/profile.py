"""The result of profiling, as plain data: everything that is shown, exported or compared comes from here."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from coremlscope.describe.model import ModelSummary
from coremlscope.devices import ComputeUnit
from coremlscope.engines.sampling import Statistics, describe
from coremlscope.errors import UsageError
from coremlscope.figures import Figure, Origin
from coremlscope.findings import Finding
from coremlscope.measure.attribution import Status
from coremlscope.notebook import data_frame
from coremlscope.ops.program import Precision
from coremlscope.results.plan import DevicePlan

__all__ = [
    "SCHEMA",
    "DeviceLatency",
    "Group",
    "Host",
    "NodeTiming",
    "OpRow",
    "OpTable",
    "Phase",
    "Profile",
    "Request",
    "StageTiming",
]

SCHEMA = "coremlscope.profile/1"


@dataclass(frozen=True, slots=True)
class Host:
    """The machine and the software that did the work.

    Attributes:
        processor: What the processor calls itself.
        cores: Physical cores that could be used.
        os: The operating system with its version.
        python: Python's version.
        engine: The engine's name.
        engine_version: Its version.
        threads: Threads that worked on one operation.
        label: What compile, load and predict times are times of: `onnxruntime 1.22 on AMD EPYC`.
        power_mode: On a Mac `low power`, `normal` or `high power`; empty where the system does not tell.
    """

    processor: str
    cores: int
    os: str
    python: str
    engine: str
    engine_version: str
    threads: int
    label: str
    power_mode: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for.

    Attributes:
        compute_units: Recorded only: it has no influence on what is measured by this runtime.
        function: The function that was profiled.
        iterations: How often prediction was to be timed.
        warmups: How many predictions were to come before; None for as many as it takes.
        seed: Seeds made-up inputs and weights.
        shapes: Shapes that differ from the defaults.
        inputs: Inputs whose values were given; the others were made up.
        random_weights: True where weights that are absent were to be made up.
        precision: `fp16` asks for a prediction besides, never timed, in which every result that is declared
            as fp16 is rounded as on a device, and its range taken down.
    """

    compute_units: str = "all"
    function: str = ""
    iterations: int = 50
    compile_iterations: int = 10
    load_iterations: int = 10
    warmups: int | None = None
    seed: int = 0
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    random_weights: bool = False
    precision: Precision = "fp32"


@dataclass(frozen=True, slots=True)
class Phase:
    """Something that was timed again and again.

    Attributes:
        samples_s: Seconds, in the order in which they were taken.
        warmups_s: Those taken before that and dropped.
        origin: `measured`, on the host that the profile names.
    """

    samples_s: tuple[float, ...]
    warmups_s: tuple[float, ...] = ()
    origin: Origin = "measured"

    @property
    def statistics(self) -> Statistics:
        """What the samples amount to, in seconds."""
        return describe(self.samples_s)


@dataclass(frozen=True, slots=True)
class Group:
    """Operations and nodes of the engine whose time was measured together; it is never split among them.

    Attributes:
        label: For people: the types of its operations, or of the nodes where the engine added them.
        op_ids: The operations, in the program's order; empty where the engine added the nodes.
        wall_s: Median time per prediction, from the profiled runs.
        share: Its part of the sum over all groups.
        engine_nodes: Name and operator of each node of the engine.
        low_s: Lower end of the median's interval (99.5 %, see `sampling.median_interval`); None where the
            runs are too few to tell.
        high_s: Its upper end.
        stage: The stage of a pipeline that they are in; empty for other models.
    """

    label: str
    op_ids: tuple[str, ...]
    wall_s: float
    share: float
    engine_nodes: tuple[tuple[str, str], ...]
    low_s: float | None = None
    high_s: float | None = None
    stage: str = ""


@dataclass(frozen=True, slots=True)
class StageTiming:
    """What a stage of a pipeline takes. All times are medians, in seconds.

    Attributes:
        name: Where it stands: `model0`, `encoder/model1`; the ids of its operations begin with it.
        kind: Apple's name of the model type.
        absent: Why it was not run, going on from a name; made-up values of its outputs' types and shapes went
            on to the stages behind it. Empty where it was run.
        run_s: In a prediction, without the engine's profiler; None where it was not run, likewise the others.
        convert_s: What goes into making its inputs from what the stages before it gave.
        operations_s: The sum over its groups, from the profiled runs.
    """

    name: str
    kind: str
    absent: str = ""
    run_s: float | None = None
    convert_s: float | None = None
    operations_s: float | None = None
    origin: Origin = "measured"


@dataclass(frozen=True, slots=True)
class OpRow:
    """One operation; see `OpTable`."""

    id: str
    type: str
    name: str
    function: str
    outputs: tuple[str, ...]
    flops: int | None
    read_bytes: int | None
    written_bytes: int | None
    weight_bytes: int | None
    group: int
    status: Status
    work_is_complete: bool = True
    fp16_largest: float | None = None
    fp16_overflows: int | None = None
    fp16_infinities: int | None = None
    fp16_nans: int | None = None
    layer: str | None = None
    layer_type: str | None = None
    inputs: tuple[int, ...] | None = None
    live_bytes: int | None = None
    kernel: int | None = None


@dataclass(frozen=True, slots=True)
class OpTable:
    """Every operation of the function but constants, nested ones included, column by column.

    Attributes:
        id: Stable ids, in the program's order.
        type: Apple's names.
        name: The author's names.
        function: The function that each one is in; in a pipeline with its stage: `model1/main`.
        outputs: Types of the results, with bound shapes.
        flops: None where the operation is not known; likewise the bytes.
        group: Index into the profile's groups; -1 for none.
        status: What became of it; see `attribution.Status`.
        work_is_complete: False where FLOPs and bytes are lower bounds, as in a loop of unknown length.
        fp16_largest: The largest finite magnitude of its fp16 results before they were rounded; fp16 ends at
            65504. None where there is none, where it only moves elements, and where the request's precision
            is not `fp16`; likewise the counts.
        fp16_overflows: Elements that were finite and that rounding made infinite.
        fp16_infinities: Elements that were infinite before rounding.
        fp16_nans: Elements that were no number.
        layer: The author's name of the layer that it is a part of, in a neural network; else None.
        layer_type: Apple's name of that layer's type.
        inputs: The operations whose results it reads, as indices into this table; None in older profiles.
        live_bytes: Bytes of all tensors that are alive while it runs, by their declared types; see
            `dataflow.Flow`.
        kernel: The kernel that a device is taken to run it in, an index into the columns of
            `SettingEstimate`; None where no device was asked for, or where it costs nothing there.
    """

    id: tuple[str, ...] = ()
    type: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    function: tuple[str, ...] = ()
    outputs: tuple[tuple[str, ...], ...] = ()
    flops: tuple[int | None, ...] = ()
    read_bytes: tuple[int | None, ...] = ()
    written_bytes: tuple[int | None, ...] = ()
    weight_bytes: tuple[int | None, ...] = ()
    group: tuple[int, ...] = ()
    status: tuple[Status, ...] = ()
    work_is_complete: tuple[bool, ...] = ()
    fp16_largest: tuple[float | None, ...] = ()
    fp16_overflows: tuple[int | None, ...] = ()
    fp16_infinities: tuple[int | None, ...] = ()
    fp16_nans: tuple[int | None, ...] = ()
    layer: tuple[str | None, ...] = ()
    layer_type: tuple[str | None, ...] = ()
    inputs: tuple[tuple[int, ...] | None, ...] = ()
    live_bytes: tuple[int | None, ...] = ()
    kernel: tuple[int | None, ...] = ()

    def __len__(self) -> int:
        return len(self.id)

    def __iter__(self) -> Iterator[OpRow]:
        columns = (getattr(self, column.name) for column in dataclasses.fields(self))
        return (OpRow(*values) for values in zip(*columns, strict=True))

    @classmethod
    def of(cls, rows: Iterator[OpRow]) -> OpTable:
        """A table of rows."""
        columns = list(zip(*(dataclasses.astuple(row) for row in rows), strict=True))
        return cls(*columns)


@dataclass(frozen=True, slots=True)
class NodeTiming:
    """How the times of the groups relate to the times of predictions. All are medians, in seconds.

    The engine's own profiler slows it down. The groups' times are shown as they were measured, in a session
    of its own, and are never scaled to the time of a prediction without the profiler.

    Attributes:
        iterations: Profiled runs that count.
        warmups: Profiled runs before them.
        run_s: A profiled run as a whole.
        nodes_s: The sum over all nodes of a profiled run.
        node_overhead_s: What a profiled run takes beside its nodes.
        profiler_overhead_s: How much longer a profiled run takes than a prediction.
    """

    iterations: int
    warmups: int
    run_s: float
    nodes_s: float
    node_overhead_s: float
    profiler_overhead_s: float
    origin: Origin = "measured"


@dataclass(frozen=True, slots=True)
class DeviceLatency:
    """What a prediction is estimated to take on an Apple device. Nothing of it was measured.

    Attributes:
        device: The device, or its chip.
        chip: The chip's id.
        os: The system.
        compute_units: The setting that is assumed.
        latency: Seconds, with an interval that holds 80 % of the cases.
        basis: `calibrated` where published latencies of the chip went into the estimate, else `extrapolated`.
        bound: What takes most of the time.
        placement: The share of each compute unit in the time, as the plan places operations.
        left_out: Stages of a pipeline that the estimate lacks: they have no operations that are known.
    """

    device: str
    chip: str
    os: str
    compute_units: str
    latency: Figure
    basis: str
    bound: str
    placement: Mapping[ComputeUnit, float]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Profile:
    """A model and what it takes on one host.

    Attributes:
        model: What the model is.
        host: Who did the work.
        request: What was asked for.
        compile: Binding, lowering, writing weights and building the session, cold each time.
        load: Loading what was compiled.
        predict: A prediction from tensors to tensors.
        nodes: How the groups' times were taken.
        ops: Every operation.
        groups: In the order of execution.
        findings: What a person should know about all this.
        estimates: What a prediction is estimated to take on devices that were asked for.
        plans: Where each of these devices would run every operation, and how long that is estimated to take.
        stages: Of a pipeline: what each of its models takes, those of pipelines within it included.
    """

    model: ModelSummary
    host: Host
    request: Request
    compile: Phase
    load: Phase
    predict: Phase
    nodes: NodeTiming
    ops: OpTable
    groups: tuple[Group, ...]
    findings: tuple[Finding, ...] = ()
    estimates: tuple[DeviceLatency, ...] = ()
    plans: tuple[DevicePlan, ...] = ()
    stages: tuple[StageTiming, ...] = ()

    @property
    def predictions_per_s(self) -> float:
        """Predictions per second, one after the other: the inverse of the mean time of one."""
        mean = self.predict.statistics.mean
        return 1.0 / mean if mean else 0.0

    def to_pandas(self) -> Any:
        """The operations as a pandas DataFrame; see `columns.op_columns`.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        from coremlscope.render.columns import op_columns

        return data_frame(op_columns(self))

    def _repr_html_(self) -> str:
        from coremlscope.render.cards import profile_card

        return profile_card(self)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; statistics are added for readers that do not compute them."""
        data: dict[str, Any] = {"schema": SCHEMA}
        for column in dataclasses.fields(self):
            value = getattr(self, column.name)
            if isinstance(value, ModelSummary):
                data[column.name] = value.to_json()
            elif isinstance(value, Phase):
                data[column.name] = dataclasses.asdict(value)
                data[column.name]["statistics"] = dataclasses.asdict(value.statistics)
            elif isinstance(value, tuple):
                data[column.name] = [dataclasses.asdict(item) for item in value]
            else:
                data[column.name] = dataclasses.asdict(value)
        data["predictions_per_s"] = self.predictions_per_s
        return data

    @classmethod
    def from_json(cls, data: object) -> Profile:
        """The inverse of `to_json`, whether or not the values went through JSON text.

        Raises:
            UsageError: The data are no profile, one of another version, or damaged.
        """
        schema = data.get("schema") if isinstance(data, Mapping) else None
        if not isinstance(data, Mapping) or not str(schema).startswith("coremlscope.profile/"):
            raise UsageError(
                "this JSON is not a profile written by coremlscope", "`coremlscope profile MODEL -o p.json`"
            )
        if schema != SCHEMA:
            raise UsageError(
                f"this profile follows {schema}, and this version of coremlscope reads {SCHEMA}",
                "profile the model again, or use the version of coremlscope that wrote it",
            )
        try:
            return _from_json(data)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UsageError(
                f"this profile is damaged: {type(error).__name__} {error}", "profile the model again"
            ) from error


def _from_json(data: Mapping[str, Any]) -> Profile:
    request = dict(data["request"])
    request["shapes"] = {name: tuple(shape) for name, shape in request["shapes"].items()}
    request["inputs"] = tuple(request["inputs"])
    ops = {name: tuple(column) for name, column in data["ops"].items()}
    ops["outputs"] = tuple(tuple(types) for types in ops["outputs"])
    ops["inputs"] = tuple(x if x is None else tuple(x) for x in ops.get("inputs", (None,) * len(ops["id"])))
    for column in dataclasses.fields(OpRow):
        if column.default is None:  # added later: older profiles do not have it
            ops.setdefault(column.name, (None,) * len(ops["id"]))
    table = OpTable(**ops)
    if len({len(getattr(table, column.name)) for column in dataclasses.fields(table)}) > 1:
        raise ValueError("columns of different lengths")
    groups = tuple(
        Group(
            group["label"], tuple(group["op_ids"]), group["wall_s"], group["share"],
            tuple((name, op_type) for name, op_type in group["engine_nodes"]),
            group.get("low_s"), group.get("high_s"), group.get("stage", ""),
        )
        for group in data["groups"]
    )  # fmt: skip
    findings = tuple(Finding(**{**f, "ops": tuple(f["ops"])}) for f in data["findings"])
    estimates = tuple(
        DeviceLatency(**{**e, "latency": Figure(**e["latency"]), "left_out": tuple(e.get("left_out", ()))})
        for e in data.get("estimates", ())
    )
    return Profile(
        ModelSummary.from_json(data["model"]), Host(**data["host"]), Request(**request),
        _phase(data["compile"]), _phase(data["load"]), _phase(data["predict"]),
        NodeTiming(**data["nodes"]), table, groups, findings, estimates,
        tuple(map(DevicePlan.from_json, data.get("plans", ()))),
        stages=tuple(StageTiming(**stage) for stage in data.get("stages", ())),
    )  # fmt: skip


def _phase(data: Mapping[str, Any]) -> Phase:
    return Phase(tuple(data["samples_s"]), tuple(data["warmups_s"]), data["origin"])
