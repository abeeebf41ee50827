"""Flattens a pipeline: its stages in order, and the sources of their inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import msgspec
from msgspec.structs import replace

from coremlscope.base.errors import CoremlscopeError, CorruptModelError, UnsupportedModelError, UsageError
from coremlscope.model.features import bind_shapes, default_shape, describe_feature, is_compatible
from coremlscope.model.ir import (
    ArrayFeature,
    Content,
    Feature,
    Function,
    FunctionDescription,
    ImageFeature,
    Model,
    Pipeline,
    Shape,
    TensorType,
)
from coremlscope.ops.bind import BoundFunction
from coremlscope.runtime.execution.binding import bind_model, choose_function, program_of

#: `Wire.stage` of an input of the pipeline.
_OUTSIDE = -1
#: Protobuf limits the nesting to 100 messages, and a pipeline needs at least two of them.
_DEEPEST = 64
_DAMAGED = "the file is damaged or was assembled incorrectly; export or download the model again"


class Wire(msgspec.Struct, frozen=True):
    """The source of a feature.

    Attributes:
        stage: The index of the stage that computes it; -1 for an input of the pipeline.
        feature: The feature as its source describes it.
    """

    stage: int
    feature: Feature

    @property
    def is_outside(self) -> bool:
        """True if the feature is an input of the pipeline."""
        return self.stage == _OUTSIDE


class Stage(msgspec.Struct, frozen=True):
    """A model of a pipeline, other than a nested pipeline.

    Attributes:
        name: The path in the pipeline: `model0`, `encoder/model1`; empty for a single model.
        model: The model. Its `stage` is the name, so the ids of its operations begin with it.
        wires: The sources of its inputs by name. Optional inputs may have none.
    """

    name: str
    model: Model
    wires: Mapping[str, Wire]

    @property
    def description(self) -> FunctionDescription:
        """The inputs and outputs of the stage."""
        return self.model.description.main


class Wiring(msgspec.Struct, frozen=True):
    """A flattened pipeline.

    Attributes:
        stages: The stages in order, including those of nested pipelines.
        outputs: The sources of the pipeline's outputs by name.
    """

    stages: tuple[Stage, ...]
    outputs: Mapping[str, Wire]


def wire(model: Model) -> Wiring:
    """Flattens a pipeline. Any other model becomes a single stage without a name.

    Raises:
        CorruptModelError: The input of a stage has no source or a source of another type, or a pipeline is
            empty or nested too deeply.
    """
    interface = model.description.main
    inputs = {feature.name: Wire(_OUTSIDE, feature) for feature in interface.inputs}
    if not isinstance(model.content, Pipeline):
        outputs = {feature.name: Wire(0, feature) for feature in interface.outputs}
        return Wiring((Stage("", model, inputs),), outputs)
    stages: list[Stage] = []
    outputs = _flatten(model.content, interface, "", inputs, stages)
    return Wiring(tuple(stages), outputs)


def _flatten(
    content: Pipeline,
    whole: FunctionDescription,
    path: str,
    inputs: Mapping[str, Wire],
    stages: list[Stage],
    depth: int = 1,
) -> dict[str, Wire]:
    """Appends the stages of a pipeline to `stages`; returns the sources of its outputs."""
    subject = f"the pipeline {path!r}" if path else "the pipeline"
    if not content.models:
        raise CorruptModelError(f"{subject} has no models", _DAMAGED)
    if depth > _DEEPEST:
        raise CorruptModelError(f"pipelines are nested more than {_DEEPEST} deep", _DAMAGED)
    scope = dict(inputs)
    for name, stage in zip(stage_names(content), content.models, strict=True):
        where = f"{path}/{name}" if path else name
        interface = stage.description.main
        wires = {}
        for feature in interface.inputs:
            if feature.name in scope:
                wires[feature.name] = _checked(f"the stage {where!r} reads", feature, scope, stages)
            elif not feature.is_optional:
                raise _without_source(f"the stage {where!r} reads", feature)
        if isinstance(stage.content, Pipeline):
            scope.update(_flatten(stage.content, interface, where, wires, stages, depth + 1))
        else:
            scope.update((feature.name, Wire(len(stages), feature)) for feature in interface.outputs)
            stages.append(Stage(where, replace(stage, stage=where), wires))
    outputs = {}
    for feature in whole.outputs:
        if feature.name not in scope:
            raise _without_source(f"{subject} outputs", feature)
        outputs[feature.name] = _checked(f"{subject} outputs", feature, scope, stages)
    return outputs


def stage_of(model: Model, stage: str) -> Model:
    """Returns one stage of a pipeline; the ids of its operations begin with its name.

    Args:
        model: The pipeline.
        stage: The name of the stage, or its number from 0.

    Raises:
        UsageError: The model is no pipeline, or has no such stage.
        CorruptModelError: See `wire`.
    """
    if not model.content.models:
        raise UsageError("only a pipeline has stages", "leave out --stage")
    stages = wire(model).stages
    named = {one.name: one for one in stages}
    if stage not in named and stage.isdecimal() and int(stage) < len(stages):
        return stages[int(stage)].model
    if stage not in named:
        raise UsageError(f"the pipeline has no stage {stage!r}", f"stages: {', '.join(named)}")
    return named[stage].model


def stage_names(pipeline: Content) -> list[str]:
    """Unique names of the models. Models without a name get those of Apple's specification: `model0`, …"""
    counts = Counter(name or f"model{index}" for index, name in enumerate(pipeline.names))
    taken: set[str] = set()
    names = []
    for index, given in enumerate(pipeline.names):
        name = given or f"model{index}"
        while name in taken or (counts[name] > 1 and name == given):
            name = f"{name}.{index}"
        taken.add(name)
        names.append(name)
    return names


def _checked(subject: str, feature: Feature, scope: Mapping[str, Wire], stages: Sequence[Stage]) -> Wire:
    """The source of a feature, whose type must match."""
    source = scope[feature.name]
    if is_compatible(source.feature.type, feature.type):
        return source
    origin = "the pipeline's input" if source.is_outside else f"the output of {stages[source.stage].name!r}"
    expected, found = describe_feature(feature.type), describe_feature(source.feature.type)
    raise CorruptModelError(f"{subject} {feature.name!r} as {expected}, but {origin} is {found}", _DAMAGED)


def _without_source(subject: str, feature: Feature) -> CorruptModelError:
    return CorruptModelError(f"{subject} {feature.name!r}, which no earlier stage computes", _DAMAGED)


def stage_key(stage: str, name: str) -> str:
    """A function's name or an operation's id, made unique in a pipeline by the stage's name."""
    return f"{stage}/{name}" if stage else name


def interface_of(model: Model, function: str | None = None) -> tuple[str, FunctionDescription]:
    """The name and the interface of a function of a model. A pipeline has only its default function.

    Raises:
        UsageError: The function is unknown.
        UnsupportedModelError: Models of this kind cannot be run.
    """
    if not model.content.models:
        chosen = choose_function(model, function)
        return chosen.name, chosen.description
    if function not in (None, "", model.description.default):
        raise UsageError(f"unknown function {function!r}", "omit the function: pipelines have only one")
    return model.description.default, model.description.main


@contextmanager
def in_stage(stage: Stage) -> Iterator[None]:
    """Adds the stage's name to the errors that are raised inside."""
    try:
        yield
    except CoremlscopeError as error:
        if stage.name:
            error.message = f"in the stage {stage.name!r} of the pipeline, {error.message}"
            error.args = (error.message,)
        raise


class ShapeFlow:
    """Propagates the shapes of a pipeline's inputs from stage to stage.

    Args:
        wiring: The pipeline.
        inputs: Tensor shapes of the pipeline's inputs by name.
    """

    def __init__(self, wiring: Wiring, inputs: Mapping[str, Shape]) -> None:
        self._wiring = wiring
        self._inputs = inputs
        self._outputs: list[Mapping[str, Shape]] = []

    def stage_inputs(self, index: int) -> dict[str, tuple[int, ...]]:
        """The shapes to bind a stage to, of its flexible inputs. All earlier stages must have been added."""
        stage = self._wiring.stages[index]
        shapes = {}
        for feature in stage.description.inputs:
            shape = self._shape(stage.wires.get(feature.name))
            if shape is None or not _is_flexible(feature):
                continue
            is_image = isinstance(feature.type, ImageFeature)
            shapes[feature.name] = tuple(size or 1 for size in (shape[-2:] if is_image else shape))
        return shapes

    def add_outputs(self, shapes: Mapping[str, Shape]) -> None:
        """Adds the output shapes of the next stage."""
        self._outputs.append(shapes)

    def _shape(self, source: Wire | None) -> Shape | None:
        if source is None:
            return None
        known = self._inputs if source.is_outside else self._outputs[source.stage]
        shape = known.get(source.feature.name)
        return None if shape is None or None in shape else shape


def _is_flexible(feature: Feature) -> bool:
    type_ = feature.type
    if not isinstance(type_, (ArrayFeature, ImageFeature)):
        return False
    return type_.flexibility is not None or (isinstance(type_, ArrayFeature) and not type_.shape)


def output_shapes(bound: BoundFunction) -> dict[str, Shape]:
    """The shapes of a function's outputs by name, where they are known."""
    outputs = zip(bound.function.graph.outputs, bound.graph.outputs, strict=True)
    return {
        value.name: inferred.type.shape
        for value, inferred in outputs
        if isinstance(inferred.type, TensorType) and inferred.type.shape is not None
    }


class StageFunction(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A function of a model, or of a stage of a pipeline, bound to shapes.

    Attributes:
        stage: The stage; that of a single model has no name.
        name: The function's name in the description of the stage.
        description: Its inputs, outputs and states.
        shapes: The shapes of its flexible inputs by name.
        bound: The bound function; None if the file does not contain it or its kind is not supported.
        is_main: Whether a prediction runs it: the requested function of a model, the default one of a stage.
    """

    stage: Stage
    name: str
    description: FunctionDescription
    shapes: Mapping[str, Sequence[int]]
    bound: BoundFunction | None
    is_main: bool = True

    @property
    def key(self) -> str:
        """Its name in plans and tables of operations."""
        return stage_key(self.stage.name, self.name)

    @property
    def is_planned(self) -> bool:
        """Whether it has operations to plan: it is part of a program, no classical model."""
        return self.bound is not None and bool(self.stage.model.content.functions)


def bind_functions(
    model: Model,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    *,
    every: bool = False,
) -> tuple[StageFunction, ...]:
    """Binds a function of a model, or those of every stage of a pipeline, to shapes.

    A stage is bound to the shapes that follow from those of the pipeline's inputs. Here alone
    the stages and functions of a model are walked; what computes nothing here has no bound function.

    Args:
        model: The model.
        function: The function that a prediction runs; None for the default one. A pipeline has no other.
        shapes: Shapes of flexible inputs of that function or pipeline by name. The others get their defaults.
        every: Adds the other functions, with their default shapes, all in the order of the description.

    Raises:
        InputError: A shape is not allowed.
        UsageError: The model has no such function.
        CorruptModelError: The stages do not match each other; see `wire`.
    """
    wiring = wire(model)
    given = shapes or {}
    flow = ShapeFlow(wiring, bind_shapes(model.description.main, given)) if wiring.stages[0].name else None
    listed: list[StageFunction] = []
    for index, stage in enumerate(wiring.stages):
        asked = given if flow is None else flow.stage_inputs(index)
        with in_stage(stage):
            bound = _bind_stage(stage, None if flow else function, asked, every=every)
        if flow is not None:
            main = next(one for one in bound if one.is_main).bound
            flow.add_outputs(declared_shapes(stage) if main is None else output_shapes(main))
        listed += bound
    return tuple(listed)


def _bind_stage(
    stage: Stage, function: str | None, shapes: Mapping[str, Sequence[int]], *, every: bool
) -> list[StageFunction]:
    model, described = stage.model, stage.model.description.functions
    if program_of(model) is None:
        name = function or model.description.default
        description = described.get(name, stage.description)
        return [StageFunction(stage=stage, name=name, description=description, shapes=shapes, bound=None)]
    main = choose_function(model, function).name
    listed = []
    for name in described if every else [main]:
        asked = shapes if name == main else {}
        listed.append(
            StageFunction(
                stage=stage,
                name=name,
                description=choose_function(model, name).description,
                shapes=asked,
                bound=bind_model(model, name, asked),
                is_main=name == main,
            )
        )
    return listed


def declared_shapes(stage: Stage) -> dict[str, Shape]:
    """The default shapes of a stage's outputs according to its description."""
    shapes = {feature.name: default_shape(feature.type) for feature in stage.description.outputs}
    return {name: shape for name, shape in shapes.items() if shape is not None}


def bodies_of(model: Model, function: str | None = None, *, of_inputs: bool = False) -> list[Function]:
    """The function of a single model, or the functions of all stages of a pipeline that can be run.

    Args:
        model: The model.
        function: The function of a single model; None selects the default function. A pipeline has no other.
        of_inputs: Only stages that read inputs of the pipeline.

    Raises:
        UsageError: The function is unknown.
    """
    bodies = []
    for stage in wire(model).stages:
        if not stage.name:
            return [choose_function(model, function).function]
        if not of_inputs or any(source.is_outside for source in stage.wires.values()):
            with suppress(UnsupportedModelError):
                bodies.append(choose_function(stage.model).function)
    return bodies


def input_functions(model: Model, function: str | None = None) -> list[Function]:
    """The functions of `bodies_of` that read inputs of the model."""
    return bodies_of(model, function, of_inputs=True)
