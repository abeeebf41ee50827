"""Pipelines: compiles, runs and predicts with models that follow one another."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
import msgspec.structs
import numpy as np
from msgspec.structs import replace

from coremlscope.base.errors import EngineError, OutputError, UnsupportedModelError
from coremlscope.base.writing import write_draft
from coremlscope.model.features import (
    FeatureValue,
    bind_shapes,
    default_shape,
    dummy_value,
    input_tensors,
    to_tensors,
)
from coremlscope.model.ir import (
    Array,
    ArrayFeature,
    DictionaryFeature,
    Feature,
    Model,
    Shape,
    StringFeature,
    kind_name,
)
from coremlscope.ops.classical.function import with_absent_values
from coremlscope.ops.program import Precision
from coremlscope.runtime.engines.base import EngineOptions
from coremlscope.runtime.execution.cache import ArtefactCache
from coremlscope.runtime.execution.declared import find_contradictions
from coremlscope.runtime.execution.executable import (
    DEFAULT_OPTIONS,
    CompileOptions,
    Executable,
    compile_model,
    load_compiled,
)
from coremlscope.runtime.execution.predictor import FunctionPredictor, Predictor
from coremlscope.runtime.execution.ranges import OpRange
from coremlscope.runtime.execution.state import State
from coremlscope.runtime.execution.wiring import (
    ShapeFlow,
    Stage,
    Wiring,
    in_stage,
    interface_of,
    output_shapes,
    wire,
)

# Placeholders for pipeline stages that the file does not contain, so that the other stages can be timed.


class Placeholder:
    """Returns constant synthetic values of the types and shapes of a stage's outputs.

    A shape comes from the stage's description, else from Apple's specification of such a model, else from the
    description of the stage that reads the output.

    Args:
        wiring: The pipeline.
        index: The index of the stage to replace.

    Attributes:
        stage: The replaced stage.
        reason: Why the stage cannot be run: a clause that follows its name.
    """

    def __init__(self, wiring: Wiring, index: int) -> None:
        self.stage: Stage = wiring.stages[index]
        self.reason = self.stage.model.content.absent
        self._results = {f.name: self._make(wiring, index, f) for f in self.stage.description.outputs}

    @property
    def results(self) -> Mapping[str, FeatureValue]:
        """The synthetic values by output name."""
        return self._results

    @property
    def shapes(self) -> dict[str, Shape]:
        """The shapes by output name, for outputs that have a shape."""
        return {name: held.tensor.shape for name, held in self._results.items() if _has_shape(held.feature)}

    def _make(self, wiring: Wiring, index: int, feature: Feature) -> FeatureValue:
        shape = _shape(wiring, index, feature)
        if isinstance(feature.type, ArrayFeature) and shape is not None:
            feature = msgspec.structs.replace(
                feature, type=msgspec.structs.replace(feature.type, shape=shape)
            )
        tensor = to_tensors((feature,), {feature.name: self._value(feature, shape or (1,))})[feature.name]
        return FeatureValue(feature, tensor, is_input=True)

    def _value(self, feature: Feature, shape: tuple[int, ...]) -> Any:
        labels = self.stage.model.content.labels
        match feature.type:
            case StringFeature() if labels:
                return labels[0]
            case DictionaryFeature("string") if labels:
                return dict.fromkeys(labels, 1 / len(labels))
            case _:
                return dummy_value(feature.type, np.random.default_rng([0, *feature.name.encode()]), shape)


def _has_shape(feature: Feature) -> bool:
    return default_shape(feature.type) is not None


def _shape(wiring: Wiring, index: int, feature: Feature) -> tuple[int, ...] | None:
    """The shape of an output, from the first of three sources that declares one."""
    stage = wiring.stages[index]
    declared = (default_shape(feature.type), stage.model.content.shapes.get(feature.name))
    read = (
        default_shape(reader.type)
        for later in wiring.stages[index + 1 :]
        for reader in later.description.inputs
        if (wire := later.wires.get(reader.name)) is not None
        and (wire.stage, wire.feature.name) == (index, feature.name)
    )
    shape = next((shape for shape in itertools.chain(declared, read) if shape is not None), None)
    return None if shape is None else tuple(size or 1 for size in shape)


#: The file that holds the input shapes of a compiled pipeline.
_MANIFEST = "pipeline.json"

#: Feature values by name, as one stage computes them and later stages read them.
_Values = Mapping[str, FeatureValue]
_Step = Executable | Placeholder


class StageRun(msgspec.Struct, frozen=True):
    """One run of one stage of a pipeline.

    Attributes:
        index: The index of the stage.
        tensors: The stage's inputs by name.
        convert_s: The time for converting the results of earlier stages into these inputs, in seconds.
        run_s: The time for running the stage, in seconds.
    """

    index: int
    tensors: Mapping[str, Array]
    convert_s: float
    run_s: float


class PipelineExecutable:
    """A pipeline whose stages are bound to shapes and loaded, with the interface of `Executable`.

    Attributes:
        model: The pipeline as it was read.
        wiring: The stages and their connections.
        steps: The executable of each stage, or its placeholder.
        description: The inputs and outputs of the pipeline.
        shapes: Tensor shapes of the pipeline's inputs by name, for inputs that have a shape.
        folder: The folder of the compiled stages.
    """

    def __init__(
        self,
        model: Model,
        wiring: Wiring,
        steps: Sequence[_Step],
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
        """Creates an empty state: models with states cannot be part of a pipeline."""
        return State(())

    def run(
        self,
        tensors: Mapping[str, Array],
        state: State | None = None,
        *,
        watch: Callable[[StageRun], None] | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> dict[str, FeatureValue]:
        """Predicts from tensors, converting features between stages.

        Args:
            tensors: By input name, as `to_tensors` returns them.
            state: Not used.
            watch: Called after each stage that runs.
            clock: Returns the time in seconds.

        Returns:
            Features by output name.

        Raises:
            InputError: A stage does not accept the results of earlier stages.
            EngineError: The engine failed.
        """

        def run_step(index: int, executable: Executable, values: _Values) -> _Values:
            start = clock()
            inputs = _take(self.wiring.stages[index], values, executable.shapes)
            converted = clock()
            results = _held(executable, executable.run(inputs))
            if watch is not None:
                watch(StageRun(index, inputs, converted - start, clock() - converted))
            return results

        return self._run(tensors, run_step)

    def run_with_ranges(
        self, tensors: Mapping[str, Array]
    ) -> tuple[dict[str, FeatureValue], tuple[OpRange, ...]]:
        """Predicts like `run` and also returns ranges; see `Executable.run_with_ranges`."""
        ranges: list[OpRange] = []

        def run_step(index: int, executable: Executable, values: _Values) -> _Values:
            inputs = _take(self.wiring.stages[index], values, executable.shapes)
            results, found = executable.run_with_ranges(inputs)
            ranges.extend(found)
            return _held(executable, results)

        return self._run(tensors, run_step), tuple(ranges)

    def _run(
        self, tensors: Mapping[str, Array], run_step: Callable[[int, Executable, _Values], _Values]
    ) -> dict[str, FeatureValue]:
        """Runs the executables; placeholders return their synthetic values."""

        def run_stage(index: int, values: _Values) -> _Values:
            step = self.steps[index]
            return step.results if isinstance(step, Placeholder) else run_step(index, step, values)

        return _run_stages(self.wiring, _pipeline_inputs(self.description.inputs, tensors), run_stage)

    def close(self) -> None:
        """Releases engine resources. The folder stays."""
        for step in self.steps:
            if isinstance(step, Executable):
                step.close()


#: A compiled and loaded model of any kind.
Runnable = Executable | PipelineExecutable


def compile_whole(
    model: Model,
    folder: Path,
    *,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    options: CompileOptions = DEFAULT_OPTIONS,
) -> Runnable:
    """Compiles a function of a model, or every stage of a pipeline; see `compile_model`.

    Raises:
        UnsupportedModelError: No stage of a pipeline can be run.
        CorruptModelError: The stages of a pipeline do not match each other.
    """
    if not model.content.models:
        return compile_model(model, folder, function=function, shapes=shapes, options=options)
    interface_of(model, function)
    wiring = wire(model)
    check_runnable(wiring)
    bound = bind_shapes(model.description.main, shapes)
    flow = ShapeFlow(wiring, bound)

    def compile_stage(index: int, stage: Stage) -> Executable:
        return compile_model(
            stage.model, folder / str(index), shapes=flow.stage_inputs(index), options=options
        )

    def add_shapes(step: _Step) -> None:
        flow.add_outputs(step.shapes if isinstance(step, Placeholder) else output_shapes(step.bound))

    with ExitStack() as stack:
        steps = _open_steps(wiring, stack, compile_stage, add_shapes)
        _write_manifest(folder, bound)
        stack.pop_all()
    return PipelineExecutable(model, wiring, steps, bound, folder)


def load_whole(folder: Path, model: Model, *, options: CompileOptions = DEFAULT_OPTIONS) -> Runnable:
    """Loads a model that `compile_whole` wrote; see `load_compiled`."""
    if not model.content.models:
        return load_compiled(folder, model, options=options)
    wiring = wire(model)

    def load_stage(index: int, stage: Stage) -> Executable:
        return load_compiled(folder / str(index), stage.model, options=options)

    with ExitStack() as stack:
        steps = _open_steps(wiring, stack, load_stage)
        shapes = _read_manifest(folder)
        stack.pop_all()
    return PipelineExecutable(model, wiring, steps, shapes, folder)


def _open_steps(
    wiring: Wiring,
    stack: ExitStack,
    open_stage: Callable[[int, Stage], Executable],
    opened: Callable[[_Step], None] = lambda step: None,
) -> list[_Step]:
    """Opens every stage in order; `stack` closes the executables that are open when an error occurs.

    Args:
        wiring: The pipeline.
        stack: Gets the `close` of every executable.
        open_stage: Compiles or loads a stage.
        opened: Called with each step.
    """
    steps: list[_Step] = []
    for index, stage in enumerate(wiring.stages):
        if stage.model.content.absent:
            steps.append(Placeholder(wiring, index))
        else:
            with in_stage(stage):
                executable = open_stage(index, stage)
            stack.callback(executable.close)
            steps.append(executable)
        opened(steps[-1])
    return steps


def check_runnable(wiring: Wiring) -> None:
    """Checks that at least one stage of a pipeline can be run.

    Raises:
        UnsupportedModelError: The file does not contain any of the stages.
    """
    stages = wiring.stages
    if all(stage.model.content.absent for stage in stages):
        names = ", ".join(f"{stage.name} ({kind_name(stage.model.kind)})" for stage in stages)
        raise UnsupportedModelError(
            f"no stage of this pipeline can be run here: {names}",
            "the stages are part of Apple's systems or of an app; "
            "`coremlscope inspect` shows what the file holds",
        )


def _write_manifest(folder: Path, shapes: Mapping[str, Shape]) -> None:
    try:
        text = json.dumps({name: list(shape) for name, shape in shapes.items()})
        write_draft(folder / _MANIFEST, text)
    except OSError as error:
        raise OutputError(f"cannot write the compiled model into {folder}: {error.strerror}") from error


def _read_manifest(folder: Path) -> dict[str, Shape]:
    try:
        content = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        return {name: tuple(shape) for name, shape in content.items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise EngineError(f"{folder} does not hold a compiled pipeline", "compile the model again") from error


def _run_stages(
    wiring: Wiring, inputs: _Values, run_stage: Callable[[int, _Values], _Values]
) -> dict[str, FeatureValue]:
    """Runs the stages in order. Omitted inputs of the pipeline are also omitted in its stages."""
    results: list[_Values] = []
    for index, stage in enumerate(wiring.stages):
        values = {}
        for name, found in stage.wires.items():
            source = inputs if found.is_outside else results[found.stage]
            if found.feature.name in source:
                values[name] = source[found.feature.name]
        with in_stage(stage):
            results.append(run_stage(index, values))
    return {
        name: (inputs if found.is_outside else results[found.stage])[found.feature.name]
        for name, found in wiring.outputs.items()
    }


def _pipeline_inputs(features: Sequence[Feature], tensors: Mapping[str, Array]) -> dict[str, FeatureValue]:
    named = {feature.name: feature for feature in features}
    return {name: FeatureValue(named[name], tensor, is_input=True) for name, tensor in tensors.items()}


def _take(stage: Stage, values: _Values, shapes: Mapping[str, Shape] | None) -> dict[str, Array]:
    """Converts feature values into the tensors that a stage reads."""
    inputs = stage.description.inputs
    absent: Mapping[str, Any] = {}
    if any(feature.name not in values for feature in inputs):
        known = {name: held.value() for name, held in values.items()}
        absent = with_absent_values(stage.model.content, stage.description, known)
    return input_tensors(inputs, values, shapes, absent)


def _held(executable: Executable, results: Mapping[str, Array]) -> dict[str, FeatureValue]:
    """The results of a stage with the labels that their numbers refer to."""
    features = {feature.name: feature for feature in executable.description.outputs}
    return {
        name: FeatureValue(features[name], tensor, executable.labels.get(name))
        for name, tensor in results.items()
        if name in features
    }


class PipelinePredictor(Predictor):
    """Predicts with the stages of a pipeline in order.

    Args:
        model: The pipeline.
        options: The engine, its options, random weights and the precision.
        cache: The cache of compiled functions, for pipelines that were read from a path.

    Attributes:
        wiring: The stages and their connections.

    Raises:
        UnsupportedModelError: A stage is of a kind that cannot be run.
        CorruptModelError: The stages do not match each other; see `wire`.
    """

    def __init__(
        self,
        model: Model,
        *,
        options: CompileOptions = DEFAULT_OPTIONS,
        cache: ArtefactCache | None = None,
    ) -> None:
        super().__init__(model, model.description.main)
        self.wiring = wire(model)
        self._predictors: list[FunctionPredictor] = []
        with ExitStack() as stack:
            for stage in self.wiring.stages:
                with in_stage(stage):
                    part = replace(stage.model, source=model.source)
                    self._predictors.append(FunctionPredictor(part, options=options, cache=cache))
                stack.callback(self._predictors[-1].close)
            self._stack = stack.pop_all()

    def prepare(self) -> None:
        """Compiles every stage for its default shapes; see `Predictor.prepare`."""
        self._require_open()
        for stage, predictor in zip(self.wiring.stages, self._predictors, strict=True):
            with in_stage(stage):
                predictor.prepare()

    def predict_with_ranges(
        self, values: Mapping[str, Any], state: State | None = None
    ) -> tuple[dict[str, Any], tuple[OpRange, ...]]:
        """Predicts like `predict` and also returns the ranges of all stages.

        Args:
            values: By input name. Optional inputs may be omitted.
            state: Not used: models with states cannot be part of a pipeline.
        """
        self._require_open()
        ranges: list[OpRange] = []

        def run_stage(index: int, held: _Values) -> _Values:
            tensors = _take(self.wiring.stages[index], held, None)
            executable, results, found = self._predictors[index].run(tensors)
            ranges.extend(found)
            return _held(executable, results)

        # `to_tensors` checks the values and fills in omitted ones, but the stages have defaults of their own.
        tensors = to_tensors(self.description.inputs, values)
        inputs = _pipeline_inputs(self.description.inputs, {name: tensors[name] for name in values})
        results = _run_stages(self.wiring, inputs, run_stage)
        outputs = {feature.name: feature for feature in self.description.outputs}
        arrays = {name: held.tensor for name, held in results.items()}
        self.contradictions = tuple(find_contradictions(self.model, self.description, arrays))
        return {name: held.value_for(outputs[name]) for name, held in results.items()}, tuple(ranges)

    def new_state(self) -> State:
        """Creates an empty state: models with states cannot be part of a pipeline."""
        self._require_open()
        return State(())

    def _release(self) -> None:
        self._stack.close()


def open_predictor(
    model: Model,
    function: str | None = None,
    cache: ArtefactCache | None = None,
    *,
    precision: Precision = "fp32",
    threads: int | None = None,
) -> Predictor:
    """Opens a predictor for a model or a pipeline.

    Nothing is compiled until the first prediction, `Predictor.new_state` or `Predictor.prepare`.

    Args:
        model: The model.
        function: The function's name; None selects the default function. A pipeline has only one.
        cache: The cache of compiled functions, for models that were read from a path; None uses a temporary
            folder, which `Predictor.close` removes.
        precision: `fp16` rounds every result that the program declares as fp16, and every one of a neural
            network, as a device does, and records its range. `fp32` keeps float32 results.
        threads: Threads that work on one operation; None for one per physical core.

    Raises:
        UsageError: The function is unknown, or the precision is invalid.
        UnsupportedModelError: The model, or a stage of a pipeline, is of a kind that cannot be run.
        CorruptModelError: The model describes the function but does not hold it, or the stages of a pipeline
            do not match each other.
    """
    options = CompileOptions(precision=precision, engine_options=EngineOptions(threads))
    if not model.content.models:
        return FunctionPredictor(model, function=function, options=options, cache=cache)
    interface_of(model, function)
    return PipelinePredictor(model, options=options, cache=cache)
