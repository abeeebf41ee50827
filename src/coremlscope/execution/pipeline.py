"""Pipelines: models that follow one another, compiled, timed and predicted with as one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Unpack

from coremlscope.classical.function import with_absent_values
from coremlscope.engines.base import Engine, EngineOptions
from coremlscope.errors import EngineError, OutputError, UnsupportedModelError
from coremlscope.execution.cache import ArtefactCache
from coremlscope.execution.executable import CompileOptions, Executable, compile_model, load_compiled
from coremlscope.execution.predictor import Predictor
from coremlscope.execution.ranges import OpRange
from coremlscope.execution.standin import StandIn
from coremlscope.execution.state import State
from coremlscope.execution.wiring import (
    ShapeFlow,
    Stage,
    Wiring,
    in_stage,
    interface_of,
    is_external,
    output_shapes,
    wire,
)
from coremlscope.features import Held, bind_shapes, take, to_tensors
from coremlscope.ir import Array, Model, Pipeline, Shape
from coremlscope.ops.program import Precision

__all__ = [
    "PipelineExecutable",
    "PipelinePredictor",
    "Runnable",
    "StageRun",
    "compile_whole",
    "load_whole",
    "open_predictor",
    "refuse_empty",
]

_OPTIONS = EngineOptions()
#: Which shapes a pipeline was compiled for, in its folder.
_MANIFEST = "pipeline.json"


@dataclass(frozen=True, slots=True)
class StageRun:
    """One run of one stage of a pipeline.

    Attributes:
        index: Which stage.
        tensors: What it was fed, by name of the input.
        convert_s: Seconds that went into making them from what the stages before it gave.
        run_s: Seconds that the stage itself took.
    """

    index: int
    tensors: Mapping[str, Array]
    convert_s: float
    run_s: float


class PipelineExecutable:
    """A pipeline whose stages are bound to shapes and loaded, with the same face as `Executable`.

    Attributes:
        model: The pipeline, as it was read.
        wiring: Its stages.
        steps: What runs each of them, or stands in for it.
        description: The interface of the whole.
        shapes: The tensor shape of each input of the whole that has one.
        folder: Where the compiled stages lie.
    """

    def __init__(
        self,
        model: Model,
        wiring: Wiring,
        steps: Sequence[Executable | StandIn],
        shapes: Mapping[str, Shape],
        folder: Path,
    ) -> None:
        self.model = model
        self.wiring = wiring
        self.steps = tuple(steps)
        self.description = model.description.main
        self.shapes = dict(shapes)
        self.folder = folder

    @property
    def function(self) -> str:
        """The function's name in the model's description."""
        return self.model.description.default

    def new_state(self) -> State:
        """A state without values: models with a state cannot be part of a pipeline."""
        return State(())

    def run(
        self,
        tensors: Mapping[str, Array],
        state: State | None = None,
        *,
        watch: Callable[[StageRun], None] | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> dict[str, Held]:
        """Predicts from the tensors of the inputs of the whole; conversions between stages are part of it.

        Args:
            tensors: By name of the input, as `to_tensors` makes them.
            state: Not used.
            watch: Told of each stage that ran.
            clock: What the stages are timed with.

        Raises:
            InputError: A stage does not take what those before it gave.
            EngineError: The engine failed.
        """

        def run_step(index: int, held: Mapping[str, Held]) -> Mapping[str, Held]:
            step = self.steps[index]
            if isinstance(step, StandIn):
                return step.results
            start = clock()
            fed = _take(self.wiring.stages[index], held, step.shapes)
            taken = clock()
            results = _held(step, step.run(fed))
            if watch is not None:
                watch(StageRun(index, fed, taken - start, clock() - taken))
            return results

        return _run(self.wiring, self._given(tensors), run_step)

    def run_with_ranges(self, tensors: Mapping[str, Array]) -> tuple[dict[str, Held], tuple[OpRange, ...]]:
        """Like `run`, and tells the range of every operation's fp16 results; see `Executable`."""
        ranges: list[OpRange] = []

        def run_step(index: int, held: Mapping[str, Held]) -> Mapping[str, Held]:
            step = self.steps[index]
            if isinstance(step, StandIn):
                return step.results
            results, found = step.run_with_ranges(_take(self.wiring.stages[index], held, step.shapes))
            ranges.extend(found)
            return _held(step, results)

        return _run(self.wiring, self._given(tensors), run_step), tuple(ranges)

    def _given(self, tensors: Mapping[str, Array]) -> dict[str, Held]:
        features = {feature.name: feature for feature in self.description.inputs}
        return {name: Held(features[name], tensor, is_fed=True) for name, tensor in tensors.items()}

    def close(self) -> None:
        """Lets go of the engine's memory. The folder stays."""
        for step in self.steps:
            if isinstance(step, Executable):
                step.close()


#: A loaded model, whatever it consists of.
Runnable = Executable | PipelineExecutable


def compile_whole(
    model: Model,
    folder: Path,
    *,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    **options: Unpack[CompileOptions],
) -> Runnable:
    """Compiles a function of a model, or every stage of a pipeline; see `compile_model`.

    Raises:
        UnsupportedModelError: Nothing of a pipeline can be run here.
        CorruptModelError: The stages of a pipeline do not fit each other.
    """
    if not isinstance(model.content, Pipeline):
        return compile_model(model, folder, function=function, shapes=shapes, **options)
    interface_of(model, function)
    wiring = wire(model)
    refuse_empty(wiring)
    bound = bind_shapes(model.description.main, shapes)
    flow = ShapeFlow(wiring, bound)
    steps: list[Executable | StandIn] = []
    with ExitStack() as opened:
        for index, stage in enumerate(wiring.stages):
            if is_external(stage.model):
                steps.append(StandIn(wiring, index))
                flow.give(steps[-1].shapes)
                continue
            with in_stage(stage):
                step = compile_model(stage.model, folder / str(index), shapes=flow.asked(index), **options)
            opened.callback(step.close)
            steps.append(step)
            flow.give(output_shapes(step.bound))
        _write_manifest(folder, bound)
        opened.pop_all()
    return PipelineExecutable(model, wiring, steps, bound, folder)


def load_whole(
    folder: Path, model: Model, *, engine: Engine | None = None, options: EngineOptions = _OPTIONS
) -> Runnable:
    """Loads what `compile_whole` wrote; see `load_compiled`."""
    if not isinstance(model.content, Pipeline):
        return load_compiled(folder, model, engine=engine, options=options)
    wiring = wire(model)
    steps: list[Executable | StandIn] = []
    with ExitStack() as opened:
        for index, stage in enumerate(wiring.stages):
            if is_external(stage.model):
                steps.append(StandIn(wiring, index))
                continue
            step = load_compiled(folder / str(index), stage.model, engine=engine, options=options)
            opened.callback(step.close)
            steps.append(step)
        shapes = _read_manifest(folder)
        opened.pop_all()
    return PipelineExecutable(model, wiring, steps, shapes, folder)


def refuse_empty(wiring: Wiring) -> None:
    """Refuses a pipeline of which nothing can be run.

    Raises:
        UnsupportedModelError: It is one.
    """
    stages = wiring.stages
    if all(is_external(stage.model) for stage in stages):
        names = ", ".join(f"{stage.name} ({stage.model.kind})" for stage in stages)
        raise UnsupportedModelError(
            f"nothing of this pipeline can be run here: {names}",
            "its parts are in Apple's systems or in an app; `coremlscope inspect` tells what the file holds",
        )


def _write_manifest(folder: Path, shapes: Mapping[str, Shape]) -> None:
    try:
        text = json.dumps({name: list(shape) for name, shape in shapes.items()})
        (folder / _MANIFEST).write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write the compiled model into {folder}: {error.strerror}") from error


def _read_manifest(folder: Path) -> dict[str, Shape]:
    try:
        content = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        return {name: tuple(shape) for name, shape in content.items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise EngineError(f"{folder} does not hold a compiled pipeline", "compile the model again") from error


def _run(
    wiring: Wiring,
    given: Mapping[str, Held],
    run_step: Callable[[int, Mapping[str, Held]], Mapping[str, Held]],
) -> dict[str, Held]:
    """Runs the stages in order; inputs of the whole that are absent are absent in its stages, too."""
    results: list[Mapping[str, Held]] = []
    for index, stage in enumerate(wiring.stages):
        held = {}
        for name, found in stage.wires.items():
            source = given if found.is_outside else results[found.stage]
            if found.feature.name in source:
                held[name] = source[found.feature.name]
        with in_stage(stage):
            results.append(run_step(index, held))
    return {
        name: (given if found.is_outside else results[found.stage])[found.feature.name]
        for name, found in wiring.outputs.items()
    }


def _take(stage: Stage, held: Mapping[str, Held], shapes: Mapping[str, Shape] | None) -> dict[str, Array]:
    inputs = stage.description.inputs
    values: Mapping[str, Any] = {}
    if any(feature.name not in held for feature in inputs):
        known = {name: one.value() for name, one in held.items()}
        values = with_absent_values(stage.model.content, stage.description, known)
    return take(inputs, held, shapes, values)


def _held(executable: Executable, results: Mapping[str, Array]) -> dict[str, Held]:
    """What a stage gave, with the labels that its numbers stand for."""
    features = {feature.name: feature for feature in executable.description.outputs}
    return {
        name: Held(features[name], tensor, executable.labels.get(name))
        for name, tensor in results.items()
        if name in features
    }


class PipelinePredictor:
    """Predicts with the models of a pipeline in order; safe to use from several threads.

    Args:
        model: A pipeline. Each of its models takes features of the pipeline and of the models before it.
        precision: `fp16` rounds every result that is declared as fp16, as a device does, and tells its range.

    Raises:
        UnsupportedModelError: A model of the pipeline is of a kind that cannot be run.
        CorruptModelError: The models do not fit each other; see `wire`.
    """

    def __init__(self, model: Model, *, precision: Precision = "fp32") -> None:
        assert isinstance(model.content, Pipeline)
        self.model = model
        self.description = model.description.main
        self.wiring = wire(model)
        self._predictors: list[Predictor] = []
        with ExitStack() as opened:
            for stage in self.wiring.stages:
                with in_stage(stage):
                    self._predictors.append(Predictor(stage.model, precision=precision))
                opened.callback(self._predictors[-1].close)
            self._opened = opened.pop_all()

    def prepare(self) -> None:
        """Compiles every model for its default shapes."""
        for stage, predictor in zip(self.wiring.stages, self._predictors, strict=True):
            with in_stage(stage):
                predictor.prepare()

    def predict(self, values: Mapping[str, Any], state: State | None = None) -> dict[str, Any]:
        """Predicts from feature values to feature values; see `Predictor.predict`.

        Args:
            values: By name of the feature.
            state: Not used: models with a state cannot be part of a pipeline.
        """
        return self.predict_with_ranges(values, state)[0]

    def predict_with_ranges(
        self, values: Mapping[str, Any], state: State | None = None
    ) -> tuple[dict[str, Any], tuple[OpRange, ...]]:
        """Like `predict`, and tells the range of every operation's fp16 results, of all models."""
        ranges: list[OpRange] = []

        def run_step(index: int, held: Mapping[str, Held]) -> Mapping[str, Held]:
            tensors = _take(self.wiring.stages[index], held, None)
            executable, results, found = self._predictors[index].run(tensors)
            ranges.extend(found)
            return _held(executable, results)

        # Raises where a value is missing or of another type.
        tensors = to_tensors(self.description.inputs, values)
        features = {feature.name: feature for feature in self.description.inputs}
        given = {name: Held(features[name], tensors[name], is_fed=True) for name in values}
        results = _run(self.wiring, given, run_step)
        named = {feature.name: feature for feature in self.description.outputs}
        return {name: held.value_for(named[name]) for name, held in results.items()}, tuple(ranges)

    def new_state(self) -> State:
        """A state without values."""
        return State(())

    def close(self) -> None:
        """Lets go of the models."""
        self._opened.close()

    def __enter__(self) -> PipelinePredictor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_predictor(
    model: Model,
    function: str | None = None,
    cache: ArtefactCache | None = None,
    *,
    precision: Precision = "fp32",
) -> Predictor | PipelinePredictor:
    """A predictor for a single model, or for a pipeline.

    Args:
        model: The model.
        function: A function of a program; None for its default one.
        cache: Where a program's compiled functions are kept; see `Predictor`.
        precision: As in `Predictor`.

    Raises:
        UsageError: The model has no such function.
        UnsupportedModelError: The model is of a kind that cannot be run.
    """
    if not isinstance(model.content, Pipeline):
        return Predictor(model, function=function, cache=cache, precision=precision)
    interface_of(model, function)
    return PipelinePredictor(model, precision=precision)
