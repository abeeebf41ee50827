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

from coremlscope.devices.unit import SETTINGS
from coremlscope.engines import engine as default_engine
from coremlscope.engines.base import Engine, EngineOptions, NodeProfile
from coremlscope.engines.host import physical_cores, power_mode, processor_name
from coremlscope.engines.sampling import MOST_WARMUPS, Clock, Samples, median_interval, sample
from coremlscope.errors import UsageError
from coremlscope.execution import (
    Executable,
    OpRange,
    choose_function,
    compile_model,
    load_compiled,
    missing_weights,
)
from coremlscope.execution.executable import check_precision
from coremlscope.features import dummy_values, to_tensors
from coremlscope.ir import Array, FeatureType, FunctionDescription, Model
from coremlscope.profiling.attribution import Attribution, NodeGroup, attribute
from coremlscope.profiling.notes import Evidence, note
from coremlscope.profiling.overflow import note_ranges
from coremlscope.profiling.profile import Group, Host, NodeTiming, OpRow, OpTable, Phase, Profile, Request
from coremlscope.profiling.summary import ModelSummary, OpSummary, summarise

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
    chosen = choose_function(model, request.function or None)
    shapes = {**_own_shapes(chosen.description, inputs or {}), **request.shapes}
    request = dataclasses.replace(
        request, function=chosen.name, inputs=tuple(sorted(inputs or {})), shapes=shapes
    )
    summary = summarise(model, request.shapes, function=chosen.name, list_ops=True)
    made = dummy_values(chosen.description, chosen.function, seed=request.seed, shapes=request.shapes)
    run = _Run(model, request, engine or default_engine(), EngineOptions(threads), clock, progress)
    with tempfile.TemporaryDirectory(prefix="coremlscope-", ignore_cleanup_errors=True) as name:
        compiled = run.compile(Path(name))
        loaded, executable = run.load(Path(name))
        tensors = to_tensors(executable.description.inputs, {**made, **(inputs or {})}, executable.shapes)
        predicted = run.predict(executable, tensors)
        profiled = run.profile_nodes(executable, tensors)
        ranges = run.round(Path(name), tensors) if request.precision == "fp16" else None
    phases = (Phase(taken.seconds, taken.warmups) for taken in (compiled, loaded, predicted))
    host = describe_host(run.engine, run.options)
    return _assemble(summary, host, request, tuple(phases), profiled, executable, ranges)


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


@dataclass(slots=True)
class _Run:
    """The repetitions of one measurement."""

    model: Model
    request: Request
    engine: Engine
    options: EngineOptions
    clock: Clock
    progress: Progress | None
    _open: list[Executable] = field(default_factory=list)

    def compile(self, folder: Path) -> Samples:
        """Compiles into a fresh folder each time; the last one stays, as `compiled`."""
        count = self.request.compile_iterations
        names = iter([*(f"cold{index}" for index in range(count)), "compiled"])
        seed = self.request.seed if self.request.random_weights else None

        def work() -> None:
            self._open.append(
                compile_model(
                    self.model, folder / next(names), function=self.request.function,
                    shapes=self.request.shapes, engine=self.engine, options=self.options, random_weights=seed,
                )
            )  # fmt: skip

        def after() -> None:
            executable = self._open.pop()
            executable.close()
            if executable.folder.name != "compiled":
                shutil.rmtree(executable.folder, ignore_errors=True)

        return sample(work, count, 1, clock=self.clock, after=self._told("compile", count + 1, after))

    def load(self, folder: Path) -> tuple[Samples, Executable]:
        """Loads what was compiled; the last one stays loaded."""
        count = self.request.load_iterations

        def before() -> None:
            while self._open:
                self._open.pop().close()

        def work() -> None:
            self._open.append(
                load_compiled(folder / "compiled", self.model, engine=self.engine, options=self.options)
            )

        told = self._told("load", count + 1)
        taken = sample(work, count, 1, clock=self.clock, before=before, after=told)
        return taken, self._open.pop()

    def predict(self, executable: Executable, tensors: Mapping[str, Array]) -> Samples:
        """Predicts with one state that goes on from prediction to prediction."""
        state, request = executable.new_state(), self.request

        def work() -> None:
            executable.run(tensors, state)

        warmups = MOST_WARMUPS if request.warmups is None else request.warmups
        warm = sample(work, 0, request.warmups, clock=self.clock, after=self._told("warm-up", warmups))
        told = self._told("predict", request.iterations)
        taken = sample(work, request.iterations, 0, clock=self.clock, after=told)
        return Samples(taken.seconds, warm.warmups)

    def profile_nodes(self, executable: Executable, tensors: Mapping[str, Array]) -> NodeProfile:
        """Has the engine profile its nodes, once the plain session's memory is free."""
        feeds = {**executable.feeds(tensors), **executable.new_state().feeds()}
        executable.close()
        told = self._told("operations", 1)
        profiled = executable.session.node_times(
            feeds, min(self.request.iterations, _PROFILED_RUNS), _PROFILED_WARMUPS
        )
        told()
        return profiled

    def round(self, folder: Path, tensors: Mapping[str, Array]) -> tuple[OpRange, ...]:
        """Predicts once with results rounded to fp16, when everything is timed."""
        told = self._told("fp16", 1)
        executable = compile_model(
            self.model, folder / "rounded", function=self.request.function, shapes=self.request.shapes,
            engine=self.engine, options=self.options, precision="fp16",
            random_weights=self.request.seed if self.request.random_weights else None,
        )  # fmt: skip
        _, ranges = executable.run_with_ranges(tensors)
        executable.close()
        told()
        return ranges

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


def _assemble(
    summary: ModelSummary,
    host: Host,
    request: Request,
    phases: tuple[Phase, ...],
    profiled: NodeProfile,
    executable: Executable,
    ranges: Sequence[OpRange] | None,
) -> Profile:
    compiled, loaded, predict = phases
    attribution = attribute(executable.bound.graph.graph, executable.program, profiled.nodes)
    groups = _groups(attribution, profiled, {row.id: row.type for row in summary.op_list})
    ops = OpTable.of(_rows(summary.op_list, attribution, ranges or ()))
    nodes = _timing(profiled, predict)
    made_up = (
        missing_weights(executable.bound.function) if executable.manifest.random_weights is not None else 0
    )
    evidence = Evidence(host, request, predict, nodes, ops, groups, made_up, executable.bound.problems)
    findings = note(evidence)
    if ranges is not None:
        unused = frozenset(row.id for row in ops if row.status == "not run")
        findings += note_ranges(executable.bound.graph.graph, ranges, unused)
    model = dataclasses.replace(summary, op_list=())
    return Profile(model, host, request, compiled, loaded, predict, nodes, ops, groups, findings)


def _timing(profiled: NodeProfile, predict: Phase) -> NodeTiming:
    top = [node for node in profiled.nodes if node.outer is None]
    sums = [sum(node.seconds[index] for node in top) for index in range(len(profiled.seconds))]
    run_s, nodes_s = statistics.median(profiled.seconds), statistics.median(sums)
    beside = statistics.median(run - nodes for run, nodes in zip(profiled.seconds, sums, strict=True))
    return NodeTiming(
        len(profiled.seconds), profiled.warmups, run_s, nodes_s, beside, run_s - predict.statistics.median
    )


def _rows(ops: Sequence[OpSummary], attribution: Attribution, ranges: Sequence[OpRange]) -> Iterator[OpRow]:
    by_id = {row.id: (row.largest, row.overflows, row.infinities, row.nans) for row in ranges}
    for op in ops:
        yield OpRow(
            op.id, op.type, op.name, op.id.partition("/")[0], op.outputs, op.flops, op.read_bytes,
            op.written_bytes, op.weight_bytes, attribution.group.get(op.id, -1), attribution.status[op.id],
            op.work_is_complete, *by_id.get(op.id, ()),
        )  # fmt: skip


def _groups(attribution: Attribution, profiled: NodeProfile, types: Mapping[str, str]) -> tuple[Group, ...]:
    runs = range(len(profiled.seconds))
    times = [
        [sum(profiled.nodes[node].seconds[index] for node in group.nodes) for index in runs]
        for group in attribution.groups
    ]
    walls = [statistics.median(seconds) for seconds in times]
    intervals = [median_interval(seconds, _GROUP_LEVEL) or (None, None) for seconds in times]
    total = sum(walls)
    return tuple(
        Group(
            _label(group, profiled, types), group.ops, wall, wall / total if total else 0.0,
            tuple((profiled.nodes[node].name, profiled.nodes[node].op_type) for node in group.nodes),
            *interval,
        )
        for group, wall, interval in zip(attribution.groups, walls, intervals, strict=True)
    )  # fmt: skip


def _label(group: NodeGroup, profiled: NodeProfile, types: Mapping[str, str]) -> str:
    """`conv + relu`, `slice_by_index ×17`, `ReorderInput (added by the engine)`."""
    named = [types.get(op, op) for op in group.ops] or [profiled.nodes[node].op_type for node in group.nodes]
    counted = Counter(named)
    text = " + ".join(name if count == 1 else f"{name} ×{count}" for name, count in counted.items())
    return text if group.ops else f"{text} (added by the engine)"
