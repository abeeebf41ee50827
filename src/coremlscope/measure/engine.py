"""Measuring a model, and putting together what was measured."""

from __future__ import annotations

import dataclasses
import platform
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coremlscope.describe.model import ModelSummary, OpSummary, summarise
from coremlscope.devices.unit import SETTINGS
from coremlscope.engines import engine as default_engine
from coremlscope.engines.base import Engine, EngineOptions, NodeProfile
from coremlscope.engines.host import physical_cores, power_mode, processor_name
from coremlscope.engines.sampling import MOST_WARMUPS, Clock, Samples, median_interval, sample
from coremlscope.errors import UsageError
from coremlscope.execution.custom_layers import CustomLayer, custom_layers, replace_custom_layers
from coremlscope.execution.executable import CompileOptions, Executable, check_precision
from coremlscope.execution.pipeline import PipelineExecutable, Runnable, StageRun, compile_whole, load_whole
from coremlscope.execution.random_weights import missing_weights
from coremlscope.execution.ranges import OpRange
from coremlscope.execution.wiring import input_functions, interface_of, stage_key
from coremlscope.features import dummy_values, to_tensors
from coremlscope.ir import Array, FeatureType, FunctionDescription, Model
from coremlscope.measure.attribution import Attribution, NodeGroup, Status, attribute
from coremlscope.measure.findings import Evidence, note
from coremlscope.measure.overflow import note_ranges
from coremlscope.results.profile import (
    Group,
    Host,
    NodeTiming,
    OpRow,
    OpTable,
    Phase,
    Profile,
    Request,
    StageTiming,
)

__all__ = ["Progress", "describe_host", "measure"]

#: Called with the phase, how many repetitions are done, and how many there will be.
Progress = Callable[[str, int, int], None]

#: Profiled runs: enough for a stable median, few enough for the profiler's log to stay small.
_PROFILED_RUNS = 30
_PROFILED_WARMUPS = 3
#: A profile holds many groups: an interval of 95 % would miss the median of several.
_GROUP_LEVEL = 0.995


def measure(
    model: Model,
    request: Request | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    threads: int | None = None,
    engine: Engine | None = None,
    clock: Clock = time.perf_counter,
    progress: Progress | None = None,
) -> Profile:
    """Compiles, loads and runs a function of a model, again and again, and says where the time goes.

    Args:
        model: The model.
        request: What to measure and how often; the defaults where it is None.
        inputs: Values of inputs by name; those that are absent are made up from the request's seed.
        threads: Threads that work on one operation; None for one per physical core.
        engine: The engine; None for the default one.
        clock: What durations are measured with.
        progress: Told of each repetition.

    Raises:
        UsageError: A number of repetitions is not positive, or there is no such function.
        MissingWeightsError: Weights are absent and the request does not allow made-up ones.
        UnsupportedModelError: The model cannot be run here.
        InputError: A shape or a value is not allowed.
        EngineError: The engine failed.
    """
    request = request or Request()
    _check(request)
    function, interface = interface_of(model, request.function or None)
    shapes = {**_own_shapes(interface, inputs or {}), **request.shapes}
    request = dataclasses.replace(
        request, function=function, inputs=tuple(sorted(inputs or {})), shapes=shapes
    )
    summary = summarise(model, request.shapes, function=function, list_ops=True)
    bodies = input_functions(model, function)
    made = dummy_values(interface, *bodies, seed=request.seed, shapes=request.shapes)
    chosen, engine_options = engine or default_engine(), EngineOptions(threads)
    options = CompileOptions(
        engine=chosen,
        engine_options=engine_options,
        random_weights=request.seed if request.random_weights else None,
    )
    run = _Run(
        model=replace_custom_layers(model), request=request, options=options, clock=clock, progress=progress
    )
    with tempfile.TemporaryDirectory(prefix="coremlscope-", ignore_cleanup_errors=True) as name:
        compiled = run.compile(Path(name))
        loaded, executable = run.load(Path(name))
        tensors = to_tensors(executable.description.inputs, {**made, **(inputs or {})}, executable.shapes)
        predicted, stages = run.predict(executable, tensors)
        parts = run.profile_nodes(executable, tensors, predicted, stages)
        ranges = run.round(Path(name), tensors) if request.precision == "fp16" else None
    phases = (Phase(taken.seconds, taken.warmups) for taken in (compiled, loaded, predicted))
    host = describe_host(chosen, engine_options)
    return _assemble(summary, host, request, tuple(phases), parts, ranges)


def _own_shapes(interface: FunctionDescription, values: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shapes of the values that are given for flexible inputs."""
    flexible = [f for f in interface.inputs if f.name in values and _is_flexible(f.type)]
    tensors = to_tensors(flexible, {feature.name: values[feature.name] for feature in flexible})
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def _is_flexible(type_: FeatureType) -> bool:
    return bool(getattr(type_, "flexibility", None) or getattr(type_, "takes_sequences", False))


def _check(request: Request) -> None:
    for name in ("iterations", "compile_iterations", "load_iterations"):
        if getattr(request, name) < 1:
            option = name.replace("_", "-")
            raise UsageError(f"--{option} must be at least 1, not {getattr(request, name)}")
    check_precision(request.precision)
    if request.compute_units not in SETTINGS:
        raise UsageError(
            f"there are no compute units {request.compute_units!r}", f"use one of {', '.join(SETTINGS)}"
        )
    if request.seed < 0:
        raise UsageError(f"--seed must be at least 0, not {request.seed}")
    if request.warmups is not None and request.warmups < 0:
        raise UsageError(f"--warmups cannot be {request.warmups}")


def describe_host(engine: Engine, options: EngineOptions) -> Host:
    """The machine that this runs on."""
    processor = processor_name()
    label = f"{engine.name} {engine.version} on {processor}"
    return Host(
        processor, physical_cores(), _os_name(), platform.python_version(), engine.name, engine.version,
        options.thread_count, label, power_mode(),
    )  # fmt: skip


def _os_name() -> str:
    """`Ubuntu 24.04 LTS (x86_64)`, `macOS 15.1 (arm64)`, `Windows 11 (AMD64)`."""
    system = platform.system()
    name = f"{system} {platform.release()}"
    if system == "Darwin":
        name = f"macOS {platform.mac_ver()[0]}"
    elif system == "Linux":
        with suppress(OSError):
            name = platform.freedesktop_os_release().get("PRETTY_NAME", name)
    return f"{name} ({platform.machine()})"


@dataclass(frozen=True, slots=True)
class _Part:
    """A function that was profiled: the whole model, or a stage of a pipeline.

    Attributes:
        stage: The name of the stage; empty for the whole model.
        executable: It, closed.
        profiled: What the engine's profiler saw.
        run_s: Median of the time that it takes in a prediction, without the profiler.
        convert_s: Median of the time that goes into making its inputs from what other stages gave.
    """

    stage: str
    executable: Executable
    profiled: NodeProfile
    run_s: float
    convert_s: float = 0.0


#: By index of a stage: seconds of conversion and of the stage itself, of each prediction.
_StageTimes = Mapping[int, Sequence[tuple[float, float]]]


@dataclass(slots=True, kw_only=True)
class _Run:
    """The repetitions of one measurement."""

    model: Model
    request: Request
    options: CompileOptions
    clock: Clock
    progress: Progress | None
    _open: list[Runnable] = field(default_factory=list)

    def compile(self, folder: Path) -> Samples:
        """Compiles into a fresh folder each time; the last one stays, as `compiled`."""
        count = self.request.compile_iterations
        names = iter([*(f"cold{index}" for index in range(count)), "compiled"])

        def work() -> None:
            self._open.append(self._compiled(folder / next(names), self.options))

        def after() -> None:
            executable = self._open.pop()
            executable.close()
            if executable.folder.name != "compiled":
                shutil.rmtree(executable.folder, ignore_errors=True)

        return sample(work, count, 1, clock=self.clock, after=self._told("compile", count + 1, after))

    def load(self, folder: Path) -> tuple[Samples, Runnable]:
        """Loads what was compiled; the last one stays loaded."""
        count = self.request.load_iterations

        def before() -> None:
            while self._open:
                self._open.pop().close()

        def work() -> None:
            self._open.append(load_whole(folder / "compiled", self.model, options=self.options))

        told = self._told("load", count + 1)
        taken = sample(work, count, 1, clock=self.clock, before=before, after=told)
        return taken, self._open.pop()

    def predict(self, executable: Runnable, tensors: Mapping[str, Array]) -> tuple[Samples, _StageTimes]:
        """Predicts with one state that goes on from prediction to prediction."""
        state, request = executable.new_state(), self.request
        stages: dict[int, list[tuple[float, float]]] = {}

        def watch(run: StageRun) -> None:
            stages.setdefault(run.index, []).append((run.convert_s, run.run_s))

        def work() -> None:
            if isinstance(executable, PipelineExecutable):
                executable.run(tensors, watch=watch, clock=self.clock)
            else:
                executable.run(tensors, state)

        warmups = MOST_WARMUPS if request.warmups is None else request.warmups
        warm = sample(work, 0, request.warmups, clock=self.clock, after=self._told("warm-up", warmups))
        told = self._told("predict", request.iterations)
        taken = sample(work, request.iterations, 0, clock=self.clock, after=told)
        timed = {index: times[-request.iterations :] for index, times in stages.items()}
        return Samples(taken.seconds, warm.warmups), timed

    def profile_nodes(
        self, executable: Runnable, tensors: Mapping[str, Array], predicted: Samples, stages: _StageTimes
    ) -> list[_Part]:
        """Has the engine profile the nodes of every part, once the plain sessions' memory is free."""
        if isinstance(executable, PipelineExecutable):
            feeds = _stage_feeds(executable, tensors)
        else:
            feeds = [("", executable, _feeds(executable, tensors))]
            stages = {0: [(0.0, predicted.statistics.median)]}
        executable.close()
        told = self._told("operations", len(feeds))
        runs = min(self.request.iterations, _PROFILED_RUNS)
        parts = []
        for (stage, step, fed), index in zip(feeds, sorted(stages), strict=True):
            profiled = step.session.node_times(fed, runs, _PROFILED_WARMUPS)
            converts, took = (statistics.median(times) for times in zip(*stages[index], strict=True))
            parts.append(_Part(stage, step, profiled, took, converts))
            told()
        return parts

    def round(self, folder: Path, tensors: Mapping[str, Array]) -> tuple[OpRange, ...]:
        """Predicts once with results rounded to fp16, when everything is timed."""
        told = self._told("fp16", 1)
        executable = self._compiled(folder / "rounded", dataclasses.replace(self.options, precision="fp16"))
        _, ranges = executable.run_with_ranges(tensors)
        executable.close()
        told()
        return ranges

    def _compiled(self, folder: Path, options: CompileOptions) -> Runnable:
        request = self.request
        return compile_whole(
            self.model, folder, function=request.function, shapes=request.shapes, options=options
        )

    def _told(self, phase: str, total: int, then: Callable[[], None] | None = None) -> Callable[[], None]:
        """Something to call behind each repetition: tells of it, and does what else is to be done."""
        done = 0
        if self.progress is not None:
            self.progress(phase, 0, total)

        def after() -> None:
            nonlocal done
            done += 1
            if then is not None:
                then()
            if self.progress is not None:
                self.progress(phase, done, total)

        return after


def _feeds(executable: Executable, tensors: Mapping[str, Array]) -> dict[str, Array]:
    return {**executable.feeds(tensors), **executable.new_state().feeds()}


def _stage_feeds(
    executable: PipelineExecutable, tensors: Mapping[str, Array]
) -> list[tuple[str, Executable, dict[str, Array]]]:
    """What each stage of a pipeline is fed in a prediction."""
    found = []

    def watch(run: StageRun) -> None:
        step = executable.steps[run.index]
        assert isinstance(step, Executable)
        found.append((executable.wiring.stages[run.index].name, step, _feeds(step, run.tensors)))

    executable.run(tensors, watch=watch)
    return found


def _assemble(
    summary: ModelSummary,
    host: Host,
    request: Request,
    phases: tuple[Phase, ...],
    parts: Sequence[_Part],
    ranges: Sequence[OpRange] | None,
) -> Profile:
    compiled, loaded, predict = phases
    types = {row.id: row.type for row in summary.op_list}
    groups: list[Group] = []
    placed: dict[str, tuple[str, int, Status]] = {}
    customs: list[CustomLayer] = []
    for part in parts:
        found = attribute(part.executable.bound.graph.graph, part.executable.program, part.profiled.nodes)
        in_part = list(custom_layers(part.executable.bound.function))
        found = found.without(frozenset(layer.id for layer in in_part))
        customs += in_part
        for op_id, status in found.status.items():
            number = found.group.get(op_id)
            place = -1 if number is None else number + len(groups)
            placed[op_id] = _function(part.stage, op_id), place, status
        groups += _groups(found, part, types)
    groups = _with_shares(groups)
    ops = OpTable.of(_rows(summary.op_list, placed, ranges or ()))
    nodes = _timing(parts)
    made_up = sum(
        missing_weights(part.executable.bound.function)
        for part in parts
        if part.executable.manifest.random_weights is not None
    )
    problems = tuple(problem for part in parts for problem in part.executable.bound.problems)
    absent = tuple(stage for stage in summary.stages if stage.absent)
    evidence = Evidence(
        host, request, predict, nodes, ops, tuple(groups), made_up, problems, absent, tuple(customs)
    )
    findings = note(evidence)
    if ranges is not None:
        unused = frozenset(row.id for row in ops if row.status == "not run")
        graphs = [part.executable.bound.graph.graph for part in parts]
        findings += note_ranges(graphs, ranges, unused)
    model = dataclasses.replace(summary, op_list=())
    stages = tuple(_stage_timings(summary, parts, groups))
    return Profile(
        model, host, request, compiled, loaded, predict, nodes, ops, tuple(groups), findings, stages=stages
    )


def _stage_timings(
    summary: ModelSummary, parts: Sequence[_Part], groups: Sequence[Group]
) -> Iterator[StageTiming]:
    by_name = {part.stage: part for part in parts}
    for stage in summary.stages:
        part = by_name.get(stage.name)
        if part is None:
            yield StageTiming(stage.name, stage.kind, stage.absent)
        else:
            inside = sum(group.wall_s for group in groups if group.stage == stage.name)
            yield StageTiming(stage.name, stage.kind, "", part.run_s, part.convert_s, inside)


def _timing(parts: Sequence[_Part]) -> NodeTiming:
    """That of the whole; of the stages of a pipeline, which are profiled one by one, the sums."""
    timings = [_part_timing(part.profiled, part.run_s) for part in parts]
    return NodeTiming(
        min(timing.iterations for timing in timings),
        max(timing.warmups for timing in timings),
        sum(timing.run_s for timing in timings),
        sum(timing.nodes_s for timing in timings),
        sum(timing.node_overhead_s for timing in timings),
        sum(timing.profiler_overhead_s for timing in timings),
    )


def _part_timing(profiled: NodeProfile, plain_s: float) -> NodeTiming:
    top = [node for node in profiled.nodes if node.outer is None]
    sums = [sum(node.seconds[index] for node in top) for index in range(len(profiled.seconds))]
    run_s, nodes_s = statistics.median(profiled.seconds), statistics.median(sums)
    beside = statistics.median(run - nodes for run, nodes in zip(profiled.seconds, sums, strict=True))
    return NodeTiming(len(profiled.seconds), profiled.warmups, run_s, nodes_s, beside, run_s - plain_s)


def _function(stage: str, op_id: str) -> str:
    """The function that an operation is in, with its stage."""
    return stage_key(stage, op_id.removeprefix(f"{stage}/").partition("/")[0])


def _rows(
    ops: Sequence[OpSummary], placed: Mapping[str, tuple[str, int, Status]], ranges: Sequence[OpRange]
) -> Iterator[OpRow]:
    by_id = {row.id: (row.largest, row.overflows, row.infinities, row.nans) for row in ranges}
    index = {op.id: place for place, op in enumerate(ops)}
    for op in ops:
        # What no part was compiled for is a stage of a pipeline whose file does not hold what computes it.
        function, group, status = placed.get(op.id, (op.id, -1, "not run"))
        largest, overflows, infinities, nans = by_id.get(op.id, (None, None, None, None))
        yield OpRow(
            op.id, op.type, op.name, function, op.outputs, op.flops, op.read_bytes,
            op.written_bytes, op.weight_bytes, group, status,
            op.work_is_complete, largest, overflows, infinities, nans, op.layer, op.layer_type,
            tuple(index[maker] for maker in op.inputs if maker in index), op.live_bytes,
        )  # fmt: skip


def _groups(attribution: Attribution, part: _Part, types: Mapping[str, str]) -> list[Group]:
    """The groups of a part, without their shares of the whole."""
    profiled = part.profiled
    runs = range(len(profiled.seconds))
    times = [
        [sum(profiled.nodes[node].seconds[index] for node in group.nodes) for index in runs]
        for group in attribution.groups
    ]
    walls = [statistics.median(seconds) for seconds in times]
    intervals = [median_interval(seconds, _GROUP_LEVEL) or (None, None) for seconds in times]
    return [
        Group(
            _label(group, profiled, types), group.ops, wall, 0.0,
            tuple((profiled.nodes[node].name, profiled.nodes[node].op_type) for node in group.nodes),
            low_s=interval[0], high_s=interval[1], stage=part.stage,
        )
        for group, wall, interval in zip(attribution.groups, walls, intervals, strict=True)
    ]  # fmt: skip


def _with_shares(groups: Sequence[Group]) -> list[Group]:
    total = sum(group.wall_s for group in groups)
    return [dataclasses.replace(g, share=g.wall_s / total if total else 0.0) for g in groups]


def _label(group: NodeGroup, profiled: NodeProfile, types: Mapping[str, str]) -> str:
    """`conv + relu`, `slice_by_index ×17`, `ReorderInput (added by the engine)`."""
    named = [types.get(op, op) for op in group.ops] or [profiled.nodes[node].op_type for node in group.nodes]
    counted = Counter(named)
    text = " + ".join(name if count == 1 else f"{name} ×{count}" for name, count in counted.items())
    if group.ops:
        return text
    return f"{text} ({'made-up values' if group.makes_up else 'added by the engine'})"
