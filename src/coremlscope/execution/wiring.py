"""A pipeline laid out flat: its models in order, and where each takes its features from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from coremlscope.errors import CoremlscopeError, CorruptModelError, UnsupportedModelError, UsageError
from coremlscope.execution.binding import bind_model, choose_function
from coremlscope.features import bind_shapes, can_pass, default_shape, describe_feature
from coremlscope.ir import (
    ArrayFeature,
    External,
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

__all__ = [
    "BoundStage",
    "ShapeFlow",
    "Stage",
    "Wire",
    "Wiring",
    "bind_stages",
    "bodies_of",
    "declared_shapes",
    "in_stage",
    "input_functions",
    "interface_of",
    "is_external",
    "output_shapes",
    "shaped_stages",
    "stage_key",
    "stage_names",
    "wire",
]

#: What `Wire.stage` is for an input of the whole.
_OUTSIDE = -1
#: protobuf nests no deeper than 100 messages; a pipeline takes at least two of them.
_DEEPEST = 64
_DAMAGED = "the file is damaged or was put together wrongly; export or download the model again"


@dataclass(frozen=True, slots=True)
class Wire:
    """Where a feature comes from.

    Attributes:
        stage: Index of the model that gives it; -1 for an input of the whole.
        feature: The feature, as it is described there.
    """

    stage: int
    feature: Feature

    @property
    def is_outside(self) -> bool:
        """True where the feature is an input of the whole."""
        return self.stage == _OUTSIDE


@dataclass(frozen=True, slots=True)
class Stage:
    """A model of a pipeline that is no pipeline itself.

    Attributes:
        name: Where it stands: `model0`, `encoder/model1`; empty where the whole is a single model.
        model: The model; it knows its name, so that the ids of its operations begin with it.
        wires: Where its inputs come from, by name. Optional ones may come from nowhere.
    """

    name: str
    model: Model
    wires: Mapping[str, Wire]

    @property
    def description(self) -> FunctionDescription:
        """Its interface."""
        return self.model.description.main


@dataclass(frozen=True, slots=True)
class Wiring:
    """The models of a pipeline, those of pipelines within it included, in order.

    Attributes:
        outputs: Where the outputs of the whole come from, by name.
    """

    stages: tuple[Stage, ...]
    outputs: Mapping[str, Wire]


def wire(model: Model) -> Wiring:
    """Lays a pipeline out; any other model becomes a single stage without a name.

    Raises:
        CorruptModelError: A model takes what nothing before it gives, or something of another type, or a
            pipeline is empty or nested too deeply.
    """
    described = model.description.main
    outside = {feature.name: Wire(_OUTSIDE, feature) for feature in described.inputs}
    if not isinstance(model.content, Pipeline):
        outputs = {feature.name: Wire(0, feature) for feature in described.outputs}
        return Wiring((Stage("", model, outside),), outputs)
    stages: list[Stage] = []
    outputs = _lay_out(model, "", outside, stages)
    return Wiring(tuple(stages), outputs)


def _lay_out(
    model: Model, path: str, given: Mapping[str, Wire], stages: list[Stage], depth: int = 1
) -> dict[str, Wire]:
    """Appends the models of a pipeline to `stages`; returns where its outputs come from."""
    content = model.content
    assert isinstance(content, Pipeline)
    whole = f"the pipeline {path!r}" if path else "the pipeline"
    if not content.models:
        raise CorruptModelError(f"{whole} holds no models", _DAMAGED)
    if depth > _DEEPEST:
        raise CorruptModelError(f"pipelines are nested more than {_DEEPEST} deep", _DAMAGED)
    scope = dict(given)
    for name, stage in zip(stage_names(content), content.models, strict=True):
        where = f"{path}/{name}" if path else name
        interface = stage.description.main
        taken = {}
        for feature in interface.inputs:
            if feature.name in scope:
                taken[feature.name] = _checked(f"the stage {where!r} takes", feature, scope, stages)
            elif not feature.is_optional:
                raise _from_nowhere(f"the stage {where!r} takes", feature)
        if isinstance(stage.content, Pipeline):
            scope.update(_lay_out(stage, where, taken, stages, depth + 1))
        else:
            scope.update((feature.name, Wire(len(stages), feature)) for feature in interface.outputs)
            stages.append(Stage(where, replace(stage, stage=where), taken))
    outputs = {}
    for feature in model.description.main.outputs:
        if feature.name not in scope:
            raise _from_nowhere(f"{whole} gives", feature)
        outputs[feature.name] = _checked(f"{whole} gives", feature, scope, stages)
    return outputs


def stage_names(pipeline: Pipeline) -> list[str]:
    """What the models are called, each differently; those without a name as Apple's specification has it."""
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


def _checked(who: str, feature: Feature, scope: Mapping[str, Wire], stages: Sequence[Stage]) -> Wire:
    found = scope[feature.name]
    if can_pass(found.feature.type, feature.type):
        return found
    giver = "the pipeline takes it in" if found.is_outside else f"{stages[found.stage].name!r} gives it"
    wanted, given = describe_feature(feature.type), describe_feature(found.feature.type)
    raise CorruptModelError(f"{who} {feature.name!r} as {wanted}, but {giver} as {given}", _DAMAGED)


def _from_nowhere(who: str, feature: Feature) -> CorruptModelError:
    return CorruptModelError(f"{who} {feature.name!r}, which nothing before it gives", _DAMAGED)


def stage_key(stage: str, name: str) -> str:
    """A name that is unique in the whole model: of a function, or the id of an operation."""
    return f"{stage}/{name}" if stage else name


def is_external(model: Model) -> bool:
    """True where the file does not hold what computes the model."""
    return isinstance(model.content, External)


def interface_of(model: Model, function: str | None = None) -> tuple[str, FunctionDescription]:
    """The name and the interface of a function of a model; a pipeline has only its default one.

    Raises:
        UsageError: The model has no such function.
        UnsupportedModelError: The model is of a kind that cannot be run.
    """
    if not isinstance(model.content, Pipeline):
        chosen = choose_function(model, function)
        return chosen.name, chosen.description
    if function not in (None, "", model.description.default):
        raise UsageError(f"a pipeline has no function {function!r}", "leave the function out")
    return model.description.default, model.description.main


@contextmanager
def in_stage(stage: Stage) -> Iterator[None]:
    """Errors about a model of a pipeline say which one it is."""
    try:
        yield
    except CoremlscopeError as error:
        if stage.name:
            error.message = f"in the stage {stage.name!r} of the pipeline, {error.message}"
            error.args = (error.message,)
        raise


class ShapeFlow:
    """The shapes that follow from those of the inputs of the whole, from stage to stage.

    Args:
        wiring: The stages.
        inputs: Tensor shapes of the inputs of the whole.
    """

    def __init__(self, wiring: Wiring, inputs: Mapping[str, Shape]) -> None:
        self._wiring = wiring
        self._inputs = inputs
        self._given: list[Mapping[str, Shape]] = []

    def asked(self, index: int) -> dict[str, tuple[int, ...]]:
        """The shapes to bind a stage to: of those inputs whose description leaves them open."""
        stage = self._wiring.stages[index]
        shapes = {}
        for feature in stage.description.inputs:
            shape = self._shape(stage.wires.get(feature.name))
            if shape is None or not _is_open(feature):
                continue
            is_image = isinstance(feature.type, ImageFeature)
            shapes[feature.name] = tuple(size or 1 for size in (shape[-2:] if is_image else shape))
        return shapes

    def give(self, shapes: Mapping[str, Shape]) -> None:
        """Takes down the shapes of the outputs of the next stage."""
        self._given.append(shapes)

    def _shape(self, found: Wire | None) -> Shape | None:
        if found is None:
            return None
        known = self._inputs if found.is_outside else self._given[found.stage]
        shape = known.get(found.feature.name)
        return None if shape is None or None in shape else shape


def _is_open(feature: Feature) -> bool:
    type_ = feature.type
    if not isinstance(type_, (ArrayFeature, ImageFeature)):
        return False
    return type_.flexibility is not None or (isinstance(type_, ArrayFeature) and not type_.shape)


def output_shapes(bound: BoundFunction) -> dict[str, Shape]:
    """The shapes of the results of a function, where they are known."""
    values = zip(bound.function.graph.outputs, bound.graph.outputs, strict=True)
    return {
        value.name: given.type.shape
        for value, given in values
        if isinstance(given.type, TensorType) and given.type.shape is not None
    }


@dataclass(frozen=True, slots=True)
class BoundStage:
    """A stage and its function with bound shapes.

    Attributes:
        shapes: The shapes that the function was bound to, where its description leaves them open.
        bound: None where the file does not hold what computes the stage, or it is of a kind that is not read.
    """

    stage: Stage
    shapes: Mapping[str, tuple[int, ...]]
    bound: BoundFunction | None


def bind_stages(model: Model, shapes: Mapping[str, Sequence[int]] | None = None) -> list[BoundStage]:
    """Binds every stage of a pipeline (or a single model) to the shapes that follow from those asked for.

    Args:
        model: The model.
        shapes: Shapes of inputs of the whole, instead of the defaults.

    Raises:
        InputError: A shape is not allowed.
        CorruptModelError: The stages do not fit each other; see `wire`.
    """
    wiring = wire(model)
    flow = ShapeFlow(wiring, bind_shapes(model.description.main, shapes))
    found = []
    for index, stage in enumerate(wiring.stages):
        asked = flow.asked(index)
        bound = None
        with in_stage(stage), suppress(UnsupportedModelError):
            bound = bind_model(stage.model, None, asked)
        flow.give(declared_shapes(stage) if bound is None else output_shapes(bound))
        found.append(BoundStage(stage, asked, bound))
    return found


def shaped_stages(
    model: Model, shapes: Mapping[str, Sequence[int]] | None = None
) -> list[tuple[Stage, Mapping[str, Sequence[int]]]]:
    """Every stage of a pipeline with the shapes to bind it to; a single model with those asked for.

    Raises:
        InputError: A shape is not allowed in a pipeline.
        CorruptModelError: The stages do not fit each other; see `wire`.
    """
    if isinstance(model.content, Pipeline):
        return [(one.stage, one.shapes) for one in bind_stages(model, shapes)]
    return [(wire(model).stages[0], shapes or {})]


def declared_shapes(stage: Stage) -> dict[str, Shape]:
    """The shapes of a stage's outputs as its description has them."""
    shapes = {feature.name: default_shape(feature.type) for feature in stage.description.outputs}
    return {name: shape for name, shape in shapes.items() if shape is not None}


def input_functions(model: Model, function: str | None = None) -> list[Function]:
    """The functions that take inputs of the whole as they are, as far as there are any.

    Args:
        model: The model.
        function: The function of a single model; None for its default one.

    Raises:
        UsageError: There is no such function.
    """
    return _bodies(model, function, only_outside=True)


def bodies_of(model: Model, function: str | None = None) -> list[Function]:
    """The function of a single model, or those of all stages of a pipeline that have one."""
    return _bodies(model, function, only_outside=False)


def _bodies(model: Model, function: str | None, *, only_outside: bool) -> list[Function]:
    if not isinstance(model.content, Pipeline):
        return [choose_function(model, function).function]
    found = []
    for stage in wire(model).stages:
        if only_outside and not any(one.is_outside for one in stage.wires.values()):
            continue
        with suppress(UnsupportedModelError):
            found.append(choose_function(stage.model).function)
    return found
