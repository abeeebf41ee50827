"""Measured times of a model: phases, operations, stages, and their source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from coremlscope.base.figures import Origin
from coremlscope.base.findings import Finding
from coremlscope.base.units import short_repr
from coremlscope.results.recording import Energy, Recording
from coremlscope.results.statistics import Statistics, summarize

#: The precision of a prediction: `fp16` rounds every result that is declared as fp16, as a device does.
Precision = Literal["fp32", "fp16"]

#: The status of an operation. `timed`: it is alone in its group. `fused`: its group contains other
#: operations.
#: `inside`: it ran in a nested graph; its time is part of the group of the operation that contains the graph.
#: `folded`: it was computed or eliminated before run time. `not run`: nothing reads its result, its branch is
#: never taken, or its computation is not in the file. `unattributed`: no node of the engine was found for it.
Status = Literal["timed", "fused", "inside", "folded", "not run", "unattributed"]

_NOMINAL = ("", "nominal")


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that ran the model or made the profile.

    Attributes:
        processor: The name of the processor, as reported by the system.
        cores: Available physical cores; None if unknown.
        os: The operating system with its version.
        python: Python's version; empty if Python was not involved.
        power_mode: On a Mac, `low power`, `normal` or `high power`, as a measurement began; empty if the
            system does not report it.
    """

    processor: str
    cores: int | None = None
    os: str = ""
    python: str = ""
    power_mode: str = ""

    @property
    def is_virtual(self) -> bool:
        """Whether it is a virtual machine."""
        return "(virtual)" in self.processor.casefold()

    @property
    def is_translated(self) -> bool:
        """Whether Python ran under Rosetta, which translates programs of Intel Macs."""
        return "under Rosetta" in self.os


class Conditions(msgspec.Struct, frozen=True):
    """Conditions of a machine that can change while a model is measured; empty where it does not report them.

    Attributes:
        power_mode: `low power`, `normal` or `high power`.
        power_source: `AC Power` or `Battery Power`, as macOS names them.
        thermal_state: The level of thermal pressure, `nominal` without any, in the system's words: macOS says
            `nominal`, `moderate`, `heavy`, `trapping` or `sleeping`; programs read `nominal`, `fair`,
            `serious` or `critical`.
    """

    power_mode: str = ""
    power_source: str = ""
    thermal_state: str = ""


class Runtime(msgspec.Struct, frozen=True):
    """The runtime that compiled, loaded and ran the model.

    Attributes:
        id: The id of an engine or of another runtime: `onnxruntime`, `coreml`.
        name: The display name: `ONNX Runtime`, `Core ML`.
        version: Its version; empty if unknown.
        through: The library through which it was called: `coremltools 9.0`; empty if it was called directly.
    """

    id: str
    name: str
    version: str = ""
    through: str = ""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The requested settings of a measurement.

    Attributes:
        compute_units: The requested setting; only Core ML uses it.
        function: The function; empty for the default one.
        iterations: Timed predictions; the most of them if `early` names them.
        compile_iterations: Timed compilations, likewise.
        load_iterations: Timed loads, likewise.
        early: Phases that end early: `compile` and `load` when their time is spent, `predict` when the
            interval of the median is narrow.
        warmups: Predictions before the timed ones; None to detect a steady state.
        seed: Seed of synthetic inputs and weights.
        shapes: Shapes of inputs that differ from the defaults.
        inputs: Inputs whose values were given; the others were synthetic.
        random_weights: Whether absent weights were replaced by synthetic ones.
        precision: `fp16` requests one additional, untimed prediction in which every result that is declared
            as fp16 is rounded as on a device and its range is recorded.
        times_operations: Whether operations are timed as well, by engines that can.
    """

    compute_units: str = "all"
    function: str = ""
    iterations: int = 50
    compile_iterations: int = 10
    load_iterations: int = 10
    early: tuple[str, ...] = ()
    warmups: int | None = None
    seed: int = 0
    shapes: Mapping[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    random_weights: bool = False
    precision: Precision = "fp32"
    times_operations: bool = True


class TimesThroughPython(msgspec.Struct, frozen=True):
    """Durations of a phase around the calls of a library in Python.

    They contain more than the runtime's own: the conversion of inputs and outputs, and the call itself.

    Attributes:
        samples_s: Seconds, in the order of measurement.
        statistics: Summary statistics of `samples_s`.
        origin: `measured`.
    """

    samples_s: tuple[float, ...]
    statistics: Statistics
    origin: Origin = "measured"


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmarked phase and its samples.

    Attributes:
        samples_s: Seconds, in the order of measurement: by the runtime's own clock where it is called through
            a library that has one, else wall time around the calls.
        warmups_s: Earlier samples that were dropped.
        statistics: Summary statistics of `samples_s`.
        through_python: Wall times of the same repetitions around the calls of that library; None without it.
        remark: What each repetition also does: `fp16 as float32`; empty for nothing.
        origin: `measured`.
    """

    samples_s: tuple[float, ...]
    warmups_s: tuple[float, ...]
    statistics: Statistics
    through_python: TimesThroughPython | None = None
    remark: str = ""
    origin: Origin = "measured"

    @classmethod
    def of(
        cls,
        samples_s: Sequence[float],
        warmups_s: Sequence[float] = (),
        through_python_s: Sequence[float] = (),
        remark: str = "",
    ) -> Phase:
        """Returns a phase with the statistics of its samples.

        Args:
            samples_s: Seconds.
            warmups_s: Earlier samples that were dropped.
            through_python_s: Seconds of wall time around calls in Python, where `samples_s` are not these.
            remark: What each repetition also does.

        Raises:
            ValueError: There are no samples.
        """
        return cls(
            samples_s=tuple(samples_s),
            warmups_s=tuple(warmups_s),
            statistics=summarize(samples_s),
            through_python=(
                TimesThroughPython(tuple(through_python_s), summarize(through_python_s))
                if through_python_s
                else None
            ),
            remark=remark,
        )


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Operations and engine nodes whose time was measured together; it is never split among them.

    Attributes:
        label: The types of its operations, or of the nodes where the engine added them.
        ops: The operations, as rows of the op table in program order; empty if the engine added the nodes.
        wall_s: Median time per prediction, from the profiled runs.
        share: Its share of the sum over all groups; None if the profiler slows predictions so much that it
            decides the shares.
        engine_nodes: Name and operator of each engine node.
        low_s: Lower end of the median's confidence interval (99.5 %); None if there are too few runs.
        high_s: Upper end of the interval.
        stage: The stage of a pipeline that it belongs to; empty for other models.
    """

    label: str
    ops: tuple[int, ...]
    wall_s: float
    share: float | None
    engine_nodes: tuple[tuple[str, str], ...] = ()
    low_s: float | None = None
    high_s: float | None = None
    stage: str = ""


class StageTiming(msgspec.Struct, frozen=True, kw_only=True):
    """Times of a stage of a pipeline. All times are medians, in seconds.

    Attributes:
        name: Its path in the pipeline: `model0`, `encoder/model1`; the ids of its operations begin with it.
        kind: Apple's name of the model type.
        absent: Why it was not run, as the end of a sentence; it was replaced by synthetic values of its
            outputs' types and shapes. Empty if it was run.
        run_s: Time in a prediction, without the engine's profiler; None if it was not run.
        convert_s: Time of converting the outputs of earlier stages to its inputs; None if it was not run.
        operations_s: The sum over its groups, from the profiled runs; None if it was not run.
    """

    name: str
    kind: str
    absent: str = ""
    run_s: float | None = None
    convert_s: float | None = None
    operations_s: float | None = None
    origin: Origin = "measured"


class NodeTiming(msgspec.Struct, frozen=True, kw_only=True):
    """The relation between the times of groups and of predictions. All times are medians, in seconds.

    The engine's own profiler slows it down. Group times are measured in a separate session and never scaled
    to the time of a prediction without the profiler; only the time that the profiler takes to record steps of
    loops, or events of Core AI, is taken off. For Core AI, groups of short operations are also scaled to the
    time between the begins of operations that were watched alone.

    Attributes:
        iterations: Number of profiled runs.
        warmups: Number of profiled runs before them, which are dropped.
        run_s: Time of a profiled run.
        nodes_s: The sum over all nodes of a profiled run.
        node_overhead_s: Time of a profiled run outside its nodes.
        profiler_overhead_s: Time of a profiled run minus the time of a prediction.
        nested_executions: Executions of nodes inside loops and branches in a run.
        recording_s: Time that the profiler takes to record them, or for Core AI to record events, within
            `nodes_s`. It is estimated from `profiler_overhead_s`, for Core AI also from the shortest event or
            from operations that were watched alone, and was taken off the times of the groups.
    """

    iterations: int
    warmups: int
    run_s: float
    nodes_s: float
    node_overhead_s: float
    profiler_overhead_s: float
    nested_executions: int = 0
    recording_s: float = 0.0
    origin: Origin = "measured"


class Fp16Ranges(msgspec.Struct, frozen=True, kw_only=True):
    """Ranges of results in a prediction rounded to fp16, one entry for each row of the op table.

    Attributes:
        largest: The largest finite magnitude of the fp16 results before rounding; the largest fp16 number is
            65504. This column and the counts are None for operations without fp16 results and for operations
            that only move elements.
        overflows: Finite elements that rounding made infinite.
        infinities: Elements that were infinite before rounding.
        nans: Elements that were not a number.
    """

    largest: tuple[float | None, ...]
    overflows: tuple[int | None, ...]
    infinities: tuple[int | None, ...]
    nans: tuple[int | None, ...]


class EarlyEnd(msgspec.Struct, frozen=True):
    """Why a measurement ended before everything was measured.

    Attributes:
        cause: `interrupted`: the user ended it. `limit`: it reached a limit of time or memory. `failed`: the
            runtime failed, crashed or was killed.
        phase: The phase that was being repeated: `compile`, `first load`, `load`, `warm-up`, `predict`,
            `operations`.
        text: What happened, as a sentence without its full stop.
    """

    cause: Literal["interrupted", "limit", "failed"]
    phase: str
    text: str


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """Measured times of a model.

    Attributes:
        label: The source of the times: `ONNX Runtime 1.22 on AMD EPYC`, `Core ML on M2, macOS 15.1`.
        runtime: The runtime that compiled, loaded and ran the model.
        machine: The machine that ran the model.
        settings: The requested settings.
        compute_units: The setting of compute units in effect; empty if the runtime has none.
        threads: Threads per operation; None if unknown.
        compile: Compilation, cold each time; None if it was not measured.
        first_load: The first load after the last compilation, in which Core ML compiles for the device; None
            if it was not measured, or is like the others.
        load: Loading of the compiled model; None if it was not measured.
        predict: A prediction, from tensors to tensors; None if it was not measured.
        other_predictions: Other ways to predict, by name: `output backings`, `async, 2 in flight`. They were
            measured after the other phases, in processes of their own, by Core ML through pyobjc.
        groups: Times of operations, in order of execution; empty if the source has none.
        status: The status of every operation, one entry for each row of the op table; empty if the source has
            no operation times.
        group: Index into `groups` for each row of the op table, -1 for none; empty if the source has no
            operation times. An operation inside a loop has the group of the loop.
        nodes: The relation between the times of groups and of predictions; None if there are no groups.
        stages: Times of each model of a pipeline, those of nested pipelines included.
        fp16: Ranges of fp16 results; None if they were not requested.
        peak_memory_bytes: Peak resident memory of the process that ran the model; None if unknown.
        before: The machine's conditions as the measurement began; None if they are unknown.
        after: Its conditions as the measurement ended.
        recording: Busy times of compute units, where the run was recorded; None if it was not.
        energy: Energy that the system reported meanwhile; None if unknown.
        partial: Why it ended before everything was measured; None if it is complete.
        findings: Remarks on this measurement.
        measured_at: When it ended, UTC, ISO 8601 (`2026-01-31T12:00:00Z`); empty if unknown.
        origin: `measured`.
    """

    label: str
    runtime: Runtime
    machine: Machine
    settings: Settings = msgspec.field(default_factory=Settings)
    compute_units: str = ""
    threads: int | None = None
    compile: Phase | None = None
    first_load: Phase | None = None
    load: Phase | None = None
    predict: Phase | None = None
    other_predictions: Mapping[str, Phase] = msgspec.field(default_factory=dict)
    groups: tuple[Group, ...] = ()
    status: tuple[Status, ...] = ()
    group: tuple[int, ...] = ()
    nodes: NodeTiming | None = None
    stages: tuple[StageTiming, ...] = ()
    fp16: Fp16Ranges | None = None
    peak_memory_bytes: int | None = None
    before: Conditions | None = None
    after: Conditions | None = None
    recording: Recording | None = None
    energy: Energy | None = None
    partial: EarlyEnd | None = None
    findings: tuple[Finding, ...] = ()
    measured_at: str = ""
    origin: Origin = "measured"

    __repr__ = short_repr

    @property
    def host(self) -> str:
        """The label; without the file that it was read from, where it names device and system."""
        known = self.label.partition(", from ")[0]
        return self.label if "unknown" in known else known

    @property
    def phases(self) -> dict[str, Phase]:
        """The measured phases, by name."""
        found = {
            "compile": self.compile,
            "first load": self.first_load,
            "load": self.load,
            "predict": self.predict,
        }
        usual = {name: phase for name, phase in found.items() if phase is not None}
        return {**usual, **self.other_predictions}


def condition_findings(before: Conditions | None, after: Conditions | None) -> tuple[Finding, ...]:
    """Returns warnings about conditions that changed during a measurement, or that slow the machine down.

    Args:
        before: The conditions as the measurement began; None if they are unknown.
        after: The conditions as it ended.
    """
    first, last = before or Conditions(), after or Conditions()
    found = []
    for name, start, end, hint in (
        ("power mode", first.power_mode, last.power_mode, "keep the power mode unchanged"),
        ("power source", first.power_source, last.power_source, "leave the power adapter alone"),
    ):
        if start != end:
            text = f"The {name} changed from {start or 'unknown'} to {end or 'unknown'} while this was timed."
            found.append(_warning(f"{name.replace(' ', '-')}-changed", text, hint))
    if first.power_mode == last.power_mode == "low power":
        text = "The machine was in low power mode, in which the system slows processors down."
        hint = "switch it off in System Settings > Battery for times in normal mode"
        found.append(Finding(id="low-power-mode", severity="info", text=text, hint=hint))
    if first.thermal_state != last.thermal_state:
        states = " to ".join(state or "unknown" for state in (first.thermal_state, last.thermal_state))
        text = f"The thermal state changed from {states} while this was timed."
        found.append(_warning("thermal-state-changed", text, "let the machine cool down"))
    elif first.thermal_state not in _NOMINAL:
        text = f"The thermal state was {first.thermal_state}, in which the system slows processors down."
        found.append(_warning("thermal-state", text, "let the machine cool down"))
    return tuple(found)


def _warning(id_: str, text: str, hint: str) -> Finding:
    return Finding(id=id_, severity="warning", text=text, hint=f"{hint}, and run it again")
