"""Measures a model with one of the embedded engines: phases, operations, stages of pipelines."""

from __future__ import annotations

import shutil
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import msgspec.structs

from coremlscope.base.findings import Finding
from coremlscope.base.scratch import scratch_folder
from coremlscope.measure.contract import MeasuredModel, Progress, now
from coremlscope.measure.embedded.attribution import NodeGroup, attribute
from coremlscope.measure.embedded.findings import MeasurementEvidence, remark_on
from coremlscope.measure.embedded.interleaved import time_interleaved
from coremlscope.measure.embedded.overflow import note_ranges
from coremlscope.measure.embedded.profiler_cost import GroupTimes, time_groups
from coremlscope.measure.repetitions import ends_predictions, phase_budget_s, repetition_findings
from coremlscope.model.features import dummy_values, to_tensors
from coremlscope.model.ir import Array, Model
from coremlscope.results.measurement import (
    Fp16Ranges,
    Group,
    Measurement,
    NodeTiming,
    Phase,
    Runtime,
    Settings,
    StageTiming,
    Status,
    condition_findings,
)
from coremlscope.results.model import ModelSummary
from coremlscope.results.operations import OpTable
from coremlscope.results.statistics import median_interval
from coremlscope.runtime.engines import engine as default_engine
from coremlscope.runtime.engines.base import Engine, EngineOptions, NodeProfile
from coremlscope.runtime.engines.host import conditions, this_machine
from coremlscope.runtime.engines.sampling import (
    MOST_WARMUPS,
    Clock,
    Samples,
    sample,
    sample_within,
)
from coremlscope.runtime.execution.custom_layers import CustomLayer, custom_layers, replace_custom_layers
from coremlscope.runtime.execution.executable import CompileOptions, Executable
from coremlscope.runtime.execution.pipeline import (
    PipelineExecutable,
    Runnable,
    StageRun,
    compile_whole,
    load_whole,
)
from coremlscope.runtime.execution.random_weights import missing_weights
from coremlscope.runtime.execution.ranges import OpRange
from coremlscope.runtime.execution.wiring import input_functions

#: Called with the phase and the seconds of each repetition, warm-ups included, outside the timing.
OnRepetition = Callable[[str, float], object]

#: Numbers of profiled runs, and seconds of them from the least number on: enough for a stable median and its
#: interval, few enough for a small log of the profiler.
_LEAST_PROFILED, _MOST_PROFILED, _PROFILED_S = 9, 30, 2.0
#: Ratio of the sum of groups to a prediction without the profiler, above which the profiler decides shares.
_DECIDED = 1.5
#: A measurement has many groups, several of whose medians would be outside a 95 % interval.
_GROUP_LEVEL = 0.995


class EngineMeasurer(msgspec.Struct, frozen=True, kw_only=True):
    """Measures with an embedded engine, on this machine's processor.

    Attributes:
        engine: The engine; None for the default one.
        threads: Threads that work on one operation; None for one per physical core.
        clock: Returns seconds since an arbitrary time.
        on_repetition: Called after each repetition.
    """

    engine: Engine | None = None
    threads: int | None = None
    clock: Clock = time.perf_counter
    on_repetition: OnRepetition | None = None

    def measure(
        self,
        subject: MeasuredModel,
        settings: Settings,
        *,
        inputs: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Measurement:
        """Compiles, loads and runs a function repeatedly, and times each operation; see `Measurer`."""
        return self.measure_model(subject.model, lambda: subject, settings, inputs=inputs, progress=progress)

    def measure_model(
        self,
        model: Model,
        described: Callable[[], MeasuredModel],
        settings: Settings,
        *,
        inputs: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Measurement:
        """Measures a model that is described in the meantime; see `Measurer`.

        Args:
            model: The model.
            described: Returns the model with its description, after all timing.
            settings: The settings.
            inputs: Values of inputs by name; absent ones are synthetic.
            progress: Called after each repetition.
        """
        engine = self.engine or default_engine()
        before = conditions()
        options = CompileOptions(
            engine=engine,
            engine_options=EngineOptions(self.threads),
            random_weights=settings.seed if settings.random_weights else None,
        )
        run = _Run(
            model=replace_custom_layers(model),
            settings=settings,
            options=options,
            clock=self.clock,
            progress=progress,
            on_repetition=self.on_repetition,
        )
        with scratch_folder() as name:
            compiled = run.compile(Path(name))
            loaded, executable = run.load(Path(name))
            tensors = _tensors(model, executable, settings, inputs or {})
            predicted, stages = run.predict(executable, tensors)
            parts = run.profile_nodes(executable, tensors, predicted, stages)
            ranges = run.round(Path(name), tensors) if settings.precision == "fp16" else None
        machine, runtime = this_machine(), Runtime(engine.name, engine.title, engine.version)
        bare = Measurement(
            label=f"{runtime.name} {runtime.version} on {machine.processor}",
            runtime=runtime,
            machine=machine,
            settings=settings,
            threads=options.engine_options.thread_count,
            compile=Phase.of(compiled.seconds, compiled.warmups),
            load=Phase.of(loaded.seconds, loaded.warmups),
            predict=Phase.of(predicted.seconds, predicted.warmups),
            before=before,
            after=conditions(),
            measured_at=now(),
        )
        return _assemble(bare, described(), parts, ranges) if parts else _without_operations(bare)

    def time_interleaved(
        self,
        models: Sequence[Model],
        settings: Sequence[Settings],
        *,
        inputs: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> list[list[tuple[float, ...]]]:
        """Times predictions of each model in interleaved rounds; see `interleaved.time_interleaved`."""
        return time_interleaved(
            models,
            settings,
            inputs=inputs,
            threads=self.threads,
            engine=self.engine,
            clock=self.clock,
            progress=progress,
        )


def _tensors(
    model: Model, executable: Runnable, settings: Settings, inputs: Mapping[str, Any]
) -> dict[str, Array]:
    """Returns the given values, and synthetic ones for the other inputs."""
    bodies = input_functions(model, settings.function)
    synthetic = dummy_values(executable.description, *bodies, seed=settings.seed, shapes=settings.shapes)
    return dict(to_tensors(executable.description.inputs, {**synthetic, **inputs}, executable.shapes))


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """A profiled function: the whole model, or a stage of a pipeline.

    Attributes:
        stage: The name of the stage; empty for the whole model.
        executable: The closed executable.
        profiled: The result of the engine's profiler.
        run_s: Median of its time in a prediction, without the profiler.
        convert_s: Median of the time to convert outputs of other stages to its inputs.
    """

    stage: str
    executable: Executable
    profiled: NodeProfile
    run_s: float
    convert_s: float = 0.0


#: By index of a stage: seconds of conversion and of the stage itself in each prediction.
_StageTimes = Mapping[int, Sequence[tuple[float, float]]]


@dataclass(slots=True, kw_only=True)
class _Run:
    """The repetitions of one measurement."""

    model: Model
    settings: Settings
    options: CompileOptions
    clock: Clock
    progress: Progress | None
    on_repetition: OnRepetition | None
    _open: list[Runnable] = field(default_factory=list)

    def compile(self, folder: Path) -> Samples:
        """Compiles repeatedly into an empty folder, `compiled`, and keeps the last result."""
        target = folder / "compiled"

        def before() -> None:
            shutil.rmtree(target, ignore_errors=True)

        def work() -> None:
            self._open.append(self._compiled(target, self.options))

        return self._repeat("compile", work, self.settings.compile_iterations, before, self._close)

    def load(self, folder: Path) -> tuple[Samples, Runnable]:
        """Loads the compiled model repeatedly, and keeps the last one loaded."""

        def work() -> None:
            self._open.append(load_whole(folder / "compiled", self.model, options=self.options))

        taken = self._repeat("load", work, self.settings.load_iterations, self._close)
        return taken, self._open.pop()

    def _close(self) -> None:
        while self._open:
            self._open.pop().close()

    def _repeat(
        self,
        phase: str,
        work: Callable[[], object],
        count: int,
        before: Callable[[], None],
        then: Callable[[], None] | None = None,
    ) -> Samples:
        """Times a phase once as a warm-up and then `count` times, or as often as there is time for."""
        budget_s = phase_budget_s(self.settings, phase)
        reported = self._told(phase, count + 1, then)
        return sample_within(work, count, budget_s, clock=self.clock, before=before, after=reported)

    def predict(self, executable: Runnable, tensors: Mapping[str, Array]) -> tuple[Samples, _StageTimes]:
        """Predicts repeatedly with one state that persists between predictions."""
        state, settings = executable.new_state(), self.settings
        stages: dict[int, list[tuple[float, float]]] = {}

        def watch(run: StageRun) -> None:
            stages.setdefault(run.index, []).append((run.convert_s, run.run_s))

        def work() -> None:
            if isinstance(executable, PipelineExecutable):
                executable.run(tensors, watch=watch, clock=self.clock)
            else:
                executable.run(tensors, state)

        warmups = MOST_WARMUPS if settings.warmups is None else settings.warmups
        warm = sample(work, 0, settings.warmups, clock=self.clock, after=self._told("warm-up", warmups))
        reported = self._told("predict", settings.iterations)
        enough = ends_predictions(settings)
        taken = sample(work, settings.iterations, 0, clock=self.clock, after=reported, enough=enough)
        timed = {index: times[-len(taken.seconds) :] for index, times in stages.items()}
        return Samples(taken.seconds, warm.warmups), timed

    def profile_nodes(
        self, executable: Runnable, tensors: Mapping[str, Array], predicted: Samples, stages: _StageTimes
    ) -> list[_Part]:
        """Profiles the nodes of every part after releasing the sessions without the profiler."""
        if isinstance(executable, PipelineExecutable):
            feeds = _stage_feeds(executable, tensors)
        else:
            feeds = [("", executable, _feeds(executable, tensors))]
            stages = {0: [(0.0, predicted.statistics.median)]}
        executable.close()
        if not self.settings.times_operations:
            return []
        reported = self._told("operations", len(feeds))
        runs, warmups = self._profiled_runs(predicted)
        parts = []
        for (stage, step, fed), index in zip(feeds, sorted(stages), strict=True):
            profiled = step.session.node_times(fed, runs, warmups)
            converts, took = (statistics.median(times) for times in zip(*stages[index], strict=True))
            parts.append(
                _Part(stage=stage, executable=step, profiled=profiled, run_s=took, convert_s=converts)
            )
            reported(sum(profiled.seconds))
        return parts

    def _profiled_runs(self, predicted: Samples) -> tuple[int, int]:
        """Returns the number of profiled runs, and of warm-ups before them."""
        fitting = int(_PROFILED_S / max(predicted.statistics.median, 1e-9))
        runs = min(len(predicted.seconds), max(fitting, _LEAST_PROFILED), _MOST_PROFILED)
        return runs, -(-runs // 10)

    def round(self, folder: Path, tensors: Mapping[str, Array]) -> tuple[OpRange, ...]:
        """Predicts once with results rounded to fp16, after all timing."""
        reported = self._told("fp16", 1)
        executable = self._compiled(
            folder / "rounded", msgspec.structs.replace(self.options, precision="fp16")
        )
        _, ranges = executable.run_with_ranges(tensors)
        executable.close()
        reported(0.0)
        return ranges

    def _compiled(self, folder: Path, options: CompileOptions) -> Runnable:
        return compile_whole(
            self.model,
            folder,
            function=self.settings.function,
            shapes=self.settings.shapes,
            options=options,
        )

    def _told(
        self, phase: str, total: int, then: Callable[[], None] | None = None
    ) -> Callable[[float], None]:
        """Returns a callback for each repetition that reports it and calls `then`."""
        done = 0
        if self.progress is not None:
            self.progress(phase, 0, total)

        def after(seconds: float) -> None:
            nonlocal done
            done += 1
            if then is not None:
                then()
            if self.on_repetition is not None:
                self.on_repetition(phase, seconds)
            if self.progress is not None:
                self.progress(phase, done, total)

        return after


def _feeds(executable: Executable, tensors: Mapping[str, Array]) -> dict[str, Array]:
    return {**executable.feeds(tensors), **executable.new_state().feeds()}


def _stage_feeds(
    executable: PipelineExecutable, tensors: Mapping[str, Array]
) -> list[tuple[str, Executable, dict[str, Array]]]:
    """Returns the inputs of each stage of a pipeline in a prediction."""
    found = []

    def watch(run: StageRun) -> None:
        step = executable.steps[run.index]
        assert isinstance(step, Executable)
        found.append((executable.wiring.stages[run.index].name, step, _feeds(step, run.tensors)))

    executable.run(tensors, watch=watch)
    return found


def _without_operations(bare: Measurement) -> Measurement:
    """Returns the measurement with findings, where operations are not to be timed."""
    findings = repetition_findings(bare.settings, bare.phases) + condition_findings(bare.before, bare.after)
    return msgspec.structs.replace(bare, findings=findings)


def _assemble(
    bare: Measurement, subject: MeasuredModel, parts: Sequence[_Part], ranges: Sequence[OpRange] | None
) -> Measurement:
    """Returns the measurement with the times of operations and stages, and findings."""
    rows = {id_: row for row, id_ in enumerate(subject.ops.id)}
    groups: list[Group] = []
    # Operations outside all parts belong to stages of a pipeline whose computation is not in the file.
    status: list[Status] = ["not run"] * len(rows)
    owners = [-1] * len(rows)
    customs: list[CustomLayer] = []
    timed: list[GroupTimes] = []
    for part in parts:
        found = attribute(part.executable.bound.graph.graph, part.executable.program, part.profiled.nodes)
        in_part = list(custom_layers(part.executable.bound.function))
        found = found.without(frozenset(layer.id for layer in in_part))
        timed.append(time_groups(found, part.profiled, part.run_s))
        found = timed[-1].attribution
        customs += in_part
        for op_id, known in found.status.items():
            if op_id in rows:
                number = found.group.get(op_id)
                owners[rows[op_id]] = -1 if number is None else number + len(groups)
                status[rows[op_id]] = known
        groups += _groups(timed[-1], part, subject.ops, rows)
    timing = _timing(parts, timed)
    measurement = msgspec.structs.replace(
        bare,
        groups=tuple(_with_shares(groups, timing)),
        status=tuple(status),
        group=tuple(owners),
        nodes=timing,
        stages=tuple(_stage_timings(subject.summary, parts, groups)),
        fp16=None if ranges is None else _ranges(ranges, subject.ops),
    )
    joined = [group for times in timed for group in times.joined]
    findings = _findings(measurement, subject, parts, customs, joined)
    if ranges is not None:
        unused = frozenset(id_ for id_, row in rows.items() if status[row] == "not run")
        graphs = [part.executable.bound.graph.graph for part in parts]
        findings += note_ranges(graphs, ranges, unused)
    findings += repetition_findings(bare.settings, bare.phases)
    findings += condition_findings(bare.before, bare.after)
    return msgspec.structs.replace(measurement, findings=findings)


def _findings(
    measurement: Measurement,
    subject: MeasuredModel,
    parts: Sequence[_Part],
    customs: Sequence[CustomLayer],
    joined: Sequence[NodeGroup],
) -> tuple[Finding, ...]:
    synthetic = sum(
        missing_weights(part.executable.bound.function)
        for part in parts
        if part.executable.manifest.random_weights is not None
    )
    return remark_on(
        MeasurementEvidence(
            measurement=measurement,
            ops=subject.ops,
            synthetic=synthetic,
            problems=tuple(problem for part in parts for problem in part.executable.bound.problems),
            absent=tuple(stage for stage in subject.summary.stages if stage.absent),
            customs=tuple(customs),
            joined=tuple(op for group in joined for op in group.ops),
        )
    )


def _ranges(ranges: Sequence[OpRange], ops: OpTable) -> Fp16Ranges:
    by_id = {row.id: row for row in ranges}
    rows = [by_id.get(id_) for id_ in ops.id]
    return Fp16Ranges(
        largest=tuple(None if row is None else row.largest for row in rows),
        overflows=tuple(None if row is None else row.overflows for row in rows),
        infinities=tuple(None if row is None else row.infinities for row in rows),
        nans=tuple(None if row is None else row.nans for row in rows),
    )


def _stage_timings(
    summary: ModelSummary, parts: Sequence[_Part], groups: Sequence[Group]
) -> Iterator[StageTiming]:
    by_name = {part.stage: part for part in parts}
    for stage in summary.stages:
        part = by_name.get(stage.name)
        if part is None:
            yield StageTiming(name=stage.name, kind=stage.kind, absent=stage.absent)
        else:
            inside = sum(group.wall_s for group in groups if group.stage == stage.name)
            yield StageTiming(
                name=stage.name,
                kind=stage.kind,
                run_s=part.run_s,
                convert_s=part.convert_s,
                operations_s=inside,
            )


def _timing(parts: Sequence[_Part], timed: Sequence[GroupTimes]) -> NodeTiming:
    """Returns the timing of the model; for a pipeline, sums over its separately profiled stages."""
    pairs = zip(parts, timed, strict=True)
    timings = [_part_timing(part.profiled, part.run_s, times) for part, times in pairs]
    return NodeTiming(
        iterations=min(timing.iterations for timing in timings),
        warmups=max(timing.warmups for timing in timings),
        run_s=sum(timing.run_s for timing in timings),
        nodes_s=sum(timing.nodes_s for timing in timings),
        node_overhead_s=sum(timing.node_overhead_s for timing in timings),
        profiler_overhead_s=sum(timing.profiler_overhead_s for timing in timings),
        nested_executions=sum(timing.nested_executions for timing in timings),
        recording_s=sum(timing.recording_s for timing in timings),
    )


def _part_timing(profiled: NodeProfile, plain_s: float, times: GroupTimes) -> NodeTiming:
    top = [node for node in profiled.nodes if node.outer is None]
    sums = [sum(node.seconds[index] for node in top) for index in range(len(profiled.seconds))]
    run_s, nodes_s = statistics.median(profiled.seconds), statistics.median(sums)
    beside = statistics.median(run - nodes for run, nodes in zip(profiled.seconds, sums, strict=True))
    return NodeTiming(
        iterations=len(profiled.seconds),
        warmups=profiled.warmups,
        run_s=run_s,
        nodes_s=nodes_s,
        node_overhead_s=beside,
        profiler_overhead_s=run_s - plain_s,
        nested_executions=times.executions,
        recording_s=times.recording_s,
    )


def _groups(timed: GroupTimes, part: _Part, ops: OpTable, rows: Mapping[str, int]) -> Iterator[Group]:
    """Yields the groups of a part, without their shares of the total."""
    nodes = part.profiled.nodes
    for group, times in zip(timed.attribution.groups, timed.seconds, strict=True):
        low, high = median_interval(times, _GROUP_LEVEL) or (None, None)
        yield Group(
            label=_label(group, part.profiled, ops, rows),
            ops=tuple(rows[op] for op in group.ops if op in rows),
            wall_s=statistics.median(times),
            share=None,
            engine_nodes=tuple((nodes[node].name, nodes[node].op_type) for node in group.nodes),
            low_s=low,
            high_s=high,
            stage=part.stage,
        )


def _with_shares(groups: Sequence[Group], timing: NodeTiming) -> list[Group]:
    """Adds shares of the total, unless the groups take much longer than a prediction without the profiler."""
    total = sum(group.wall_s for group in groups)
    plain = timing.run_s - timing.profiler_overhead_s
    if 0 < _DECIDED * plain < total:
        return list(groups)
    return [msgspec.structs.replace(g, share=g.wall_s / total if total else 0.0) for g in groups]


def _label(group: NodeGroup, profiled: NodeProfile, ops: OpTable, rows: Mapping[str, int]) -> str:
    """Returns a label: `conv + relu`, `slice_by_index ×17`, `ReorderInput (added by the engine)`."""
    named = [ops.type[rows[op]] if op in rows else op for op in group.ops]
    counted = Counter(named or [profiled.nodes[node].op_type for node in group.nodes])
    text = " + ".join(name if count == 1 else f"{name} ×{count}" for name, count in counted.items())
    return text if group.ops else f"{text} (added by the engine)"
