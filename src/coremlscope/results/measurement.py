"""What a model took where it ran: phases, operations, stages, and who measured them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from coremlscope.figures import Origin
from coremlscope.findings import Finding
from coremlscope.results.statistics import Statistics, summarize

__all__ = [
    "Fp16Ranges",
    "Group",
    "Machine",
    "Measurement",
    "NodeTiming",
    "Phase",
    "Precision",
    "Runtime",
    "Settings",
    "StageTiming",
    "Status",
]

#: How a prediction computes: `fp16` rounds every result that is declared as fp16, as a device does.
Precision = Literal["fp32", "fp16"]

#: What became of an operation. `timed`: it has a group to itself. `fused`: it shares its group with others.
#: `inside`: it ran in a nested graph; its time is in the group of the operation that holds the graph.
#: `folded`: nothing of it is left at run time. `not run`: nothing reads its result, its branch is never
#: taken, or what computes it is not in the file. `unattributed`: no node of the engine was found for it.
Status = Literal["timed", "fused", "inside", "folded", "not run", "unattributed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine that ran the model, or made the profile.

    Attributes:
        processor: The processor's name, as it reports it.
        cores: Physical cores that could be used; None where unknown.
        os: The operating system with its version.
        python: Python's version; empty where Python was not involved.
        power_mode: On a Mac `low power`, `normal` or `high power`; empty where the system does not report it.
    """

    processor: str
    cores: int | None = None
    os: str = ""
    python: str = ""
    power_mode: str = ""


@dataclass(frozen=True, slots=True)
class Runtime:
    """What compiled, loaded and ran the model.

    Attributes:
        id: `onnxruntime`, `coreml`; the id of an engine or of another runtime.
        name: For people: `ONNX Runtime`, `Core ML`.
        version: Its version; empty where unknown.
    """

    id: str
    name: str
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a measurement was asked for.

    Attributes:
        compute_units: The setting that was asked for; only Core ML uses it.
        function: The function; empty for the default one.
        iterations: Timed predictions.
        compile_iterations: Timed compilations.
        load_iterations: Timed loads.
        warmups: Predictions before the timed ones; None for as many as it takes.
        seed: Seed of synthetic inputs and weights.
        shapes: Shapes of inputs that differ from the defaults.
        inputs: Inputs whose values were given; the others were synthetic.
        random_weights: Whether weights that are absent were replaced by synthetic ones.
        precision: `fp16` asks for one prediction besides, never timed, in which every result that is declared
            as fp16 is rounded as on a device, and its range recorded.
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
    """A benchmarked phase and its samples.

    Attributes:
        samples_s: Seconds, in the order in which they were taken.
        warmups_s: Samples that were taken before and dropped.
        statistics: Summary statistics of `samples_s`.
        origin: `measured`.
    """

    samples_s: tuple[float, ...]
    warmups_s: tuple[float, ...]
    statistics: Statistics
    origin: Origin = "measured"

    @classmethod
    def of(cls, samples_s: Sequence[float], warmups_s: Sequence[float] = ()) -> Phase:
        """A phase with the statistics of its samples.

        Raises:
            ValueError: There is no sample.
        """
        return cls(tuple(samples_s), tuple(warmups_s), summarize(samples_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Operations and engine nodes whose time was measured together; it is never split among them.

    Attributes:
        label: The types of its operations, or of the nodes where the engine added them.
        ops: The operations, as rows of the op table in program order; empty where the engine added the nodes.
        wall_s: Median time per prediction, from the profiled runs.
        share: Its part of the sum over all groups.
        engine_nodes: Name and operator of each node of the engine.
        low_s: Lower end of the median's confidence interval (99.5 %); None where there are too few runs.
        high_s: Upper end.
        stage: The stage of a pipeline that it belongs to; empty for other models.
    """

    label: str
    ops: tuple[int, ...]
    wall_s: float
    share: float
    engine_nodes: tuple[tuple[str, str], ...] = ()
    low_s: float | None = None
    high_s: float | None = None
    stage: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTiming:
    """What a stage of a pipeline takes. All times are medians, in seconds.

    Attributes:
        name: Its place: `model0`, `encoder/model1`; the ids of its operations begin with it.
        kind: Apple's name of the model type.
        absent: Why it was not run, as the end of a sentence; synthetic values of its outputs' types and
            shapes were passed on. Empty where it was run.
        run_s: In a prediction, without the engine's profiler; None where it was not run, likewise the others.
        convert_s: Converting the outputs of earlier stages to its inputs.
        operations_s: The sum over its groups, from the profiled runs.
    """

    name: str
    kind: str
    absent: str = ""
    run_s: float | None = None
    convert_s: float | None = None
    operations_s: float | None = None
    origin: Origin = "measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTiming:
    """How the times of the groups relate to the times of predictions. All are medians, in seconds.

    The engine's own profiler slows it down. Group times are shown as measured, in a session of their own, and
    are never scaled to the time of a prediction without the profiler.

    Attributes:
        iterations: Profiled runs that count.
        warmups: Profiled runs before them.
        run_s: A profiled run as a whole.
        nodes_s: The sum over all nodes of a profiled run.
        node_overhead_s: What a profiled run takes besides its nodes.
        profiler_overhead_s: How much longer a profiled run takes than a prediction.
    """

    iterations: int
    warmups: int
    run_s: float
    nodes_s: float
    node_overhead_s: float
    profiler_overhead_s: float
    origin: Origin = "measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fp16Ranges:
    """Ranges of results in a prediction rounded to fp16, one entry for each row of the op table.

    Attributes:
        largest: The largest finite magnitude of its fp16 results before rounding; fp16 ends at 65504. None
            where there is none, and where the operation only moves elements; likewise the counts.
        overflows: Elements that were finite and that rounding made infinite.
        infinities: Elements that were infinite before rounding.
        nans: Elements that were not a number.
    """

    largest: tuple[float | None, ...]
    overflows: tuple[int | None, ...]
    infinities: tuple[int | None, ...]
    nans: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What a model took where it ran.

    Attributes:
        label: What the times are times of: `ONNX Runtime 1.22 on AMD EPYC`, `Core ML on M2, macOS 15.1`.
        runtime: What compiled, loaded and ran the model.
        machine: Where.
        settings: What was asked for.
        compute_units: The setting of compute units that was in effect; empty where the runtime has none.
        threads: Threads that worked on one operation; None where unknown.
        compile: Compilation, cold each time; None where it was not measured, likewise the other phases.
        load: Loading what was compiled.
        predict: A prediction, from tensors to tensors.
        groups: Times of operations, in order of execution; empty where the source has none.
        status: What became of every operation, one entry for each row of the op table; empty where the source
            has no operation times.
        group: Index into `groups` for each row of the op table, -1 for none; empty likewise. An operation
            inside a loop has the group of the loop.
        nodes: How the times of the groups were taken.
        stages: Of a pipeline: what each of its models takes, those of nested pipelines included.
        fp16: Ranges of fp16 results, where they were asked for.
        peak_memory_bytes: Largest resident memory of the process that ran the model; None where unknown.
        findings: Remarks on this measurement.
        measured_at: When it ended, UTC, ISO 8601 (`2026-01-31T12:00:00Z`); empty where unknown.
        origin: `measured`.
    """

    label: str
    runtime: Runtime
    machine: Machine
    settings: Settings = field(default_factory=Settings)
    compute_units: str = ""
    threads: int | None = None
    compile: Phase | None = None
    load: Phase | None = None
    predict: Phase | None = None
    groups: tuple[Group, ...] = ()
    status: tuple[Status, ...] = ()
    group: tuple[int, ...] = ()
    nodes: NodeTiming | None = None
    stages: tuple[StageTiming, ...] = ()
    fp16: Fp16Ranges | None = None
    peak_memory_bytes: int | None = None
    findings: tuple[Finding, ...] = ()
    measured_at: str = ""
    origin: Origin = "measured"

    @property
    def phases(self) -> dict[str, Phase]:
        """The phases that were measured, by name."""
        found = {"compile": self.compile, "load": self.load, "predict": self.predict}
        return {name: phase for name, phase in found.items() if phase is not None}

    @property
    def predictions_per_s(self) -> float | None:
        """Sequential predictions per second: the inverse of the mean; None where none was timed."""
        mean = self.predict.statistics.mean if self.predict is not None else 0.0
        return 1.0 / mean if mean else None
