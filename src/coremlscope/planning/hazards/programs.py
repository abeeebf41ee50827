"""What Core ML's validator requires of an ML Program: its names, and what its description says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from coremlscope.base.units import shown
from coremlscope.model.features import describe_shape
from coremlscope.model.ir import (
    ArrayFeature,
    Feature,
    Function,
    FunctionDescription,
    Graph,
    ImageFeature,
    Model,
    RangeShapes,
    Shape,
    StateFeature,
    StateType,
    TensorType,
    Value,
    ValueType,
)
from coremlscope.planning.hazards.hazard import KnownHazard, Lines

_PROGRAM = (
    "https://github.com/apple/coremltools/blob/main/mlmodel/src/Validation/MLProgram/MLProgramValidator.cpp"
)
_INTERFACE = "https://github.com/apple/coremltools/blob/main/mlmodel/src/Validation/InterfaceValidators.cpp"


def _functions(model: Model) -> Iterator[tuple[FunctionDescription, Function]]:
    """Yields the functions of a program that is no network, each with its description."""
    program = model.content
    if not program.is_typed:
        return
    only = next(iter(program.functions.values())) if len(program.functions) == 1 else None
    for name, interface in model.description.functions.items():
        function = program.functions.get(name, only)
        if function is not None:
            yield interface, function


def _undefined(model: Model) -> Iterator[str]:
    for _, function in _functions(model):
        yield from _undefined_in(function.graph, frozenset())


def _undefined_in(graph: Graph, outer: Collection[str]) -> Iterator[str]:
    known = {*outer, *(value.name for value in graph.inputs)}
    for op in graph.ops:
        for given in op.inputs.values():
            for argument in given:
                if isinstance(argument, Value) and argument.name not in known:
                    reads = f"{shown(op.name)} ({op.type}) reads {shown(argument.name)!r}"
                    yield f"{reads}, which nothing before it defines"
                    return
        for block in op.blocks:
            yield from _undefined_in(block, known)
        known.update(value.name for value in op.outputs)
    for value in graph.outputs:
        if value.name not in known:
            yield f"{graph.name} returns {shown(value.name)!r}, which nothing defines"


def _twice(model: Model) -> Iterator[str]:
    for interface, function in _functions(model):
        made = [value.name for op in function.graph.ops for value in op.outputs]
        named = Counter([*(value.name for value in function.graph.inputs), *made])
        for name in [name for name, count in named.items() if count > 1][:1]:
            yield f"{shown(name)!r} is defined {named[name]} times"
        for features in (interface.inputs, interface.outputs):
            described = Counter(feature.name for feature in features)
            for name in [name for name, count in described.items() if count > 1][:1]:
                yield f"the description names {shown(name)!r} {described[name]} times"


def _passed_through(model: Model) -> Iterator[str]:
    """A function returns an input unchanged, which the CPU's graph compiler does not take; another does."""
    for _, function in _functions(model):
        given = {value.name for value in function.graph.inputs}
        for value in function.graph.outputs:
            if value.name in given:
                yield (
                    f"{shown(value.name)!r} is both an input and an output of the program, at which the graph"
                    " compiler of the CPU (BNNS) gives up: another backend runs the model"
                )


def _other_names(model: Model) -> Iterator[str]:
    program = model.content
    if program.is_typed and len(program.functions) > 1:
        for name in model.description.functions:
            if name not in program.functions:
                yield f"the description has a function {shown(name)!r}, and the program has none of that name"
    for interface, function in _functions(model):
        given = {value.name for value in function.graph.inputs}
        returned = {value.name for value in function.graph.outputs}
        pairs = ((interface.inputs, given, "input"), (interface.outputs, returned, "output"))
        for features, names, what in pairs:
            for feature in features:
                if feature.name not in names:
                    yield f"the description has an {what} {shown(feature.name)!r}, and the program has none"


def _other_types(model: Model) -> Iterator[str]:
    for interface, function in _functions(model):
        given = {value.name: value.type for value in function.graph.inputs}
        returned = {value.name: value.type for value in function.graph.outputs}
        for feature in (*interface.inputs, *interface.states):
            yield from _compare(feature, given)
        for feature in interface.outputs:
            yield from _compare(feature, returned)


def _compare(feature: Feature, types: Mapping[str, ValueType]) -> Iterator[str]:
    """Yields how the tensor of a program contradicts the feature that describes it."""
    name, type_ = shown(feature.name), types.get(feature.name)
    is_state = isinstance(feature.type, StateFeature)
    if type_ is not None and is_state != isinstance(type_, StateType):
        here, there = ("a state", "no state") if is_state else ("no state", "a state")
        yield f"{name!r} is {here} in the description and {there} in the program"
        return
    tensor = type_.wrapped if isinstance(type_, StateType) else type_
    declared = feature.type.array if isinstance(feature.type, StateFeature) else feature.type
    if not isinstance(tensor, TensorType) or tensor.shape is None:
        return
    shape = _declared_shape(declared)
    if shape is None or not shape:
        return
    if len(shape) != len(tensor.shape):
        yield (
            f"{name!r} has {len(shape)} dimensions in the description and {len(tensor.shape)} in the program"
        )
    elif any(None not in pair and pair[0] != pair[1] for pair in zip(shape, tensor.shape, strict=True)):
        here, there = describe_shape(shape), describe_shape(tensor.shape)
        yield f"{name!r} is {here} in the description and {there} in the program"


def _declared_shape(type_: object) -> Shape | None:
    """Returns the shape of an array or image, where a dimension may vary None; None for other features."""
    match type_:
        case ArrayFeature(shape=shape, flexibility=RangeShapes(bounds)) if len(shape) == len(bounds):
            return tuple(None if low != high else low for low, high in bounds)
        case ArrayFeature(shape=shape, flexibility=None):
            return tuple(shape)
        case ImageFeature(width=width, height=height, flexibility=None) if width > 0 and height > 0:
            return (None, None, height, width)  # Their channels have a row of their own.
    return None


HAZARDS: tuple[KnownHazard, ...] = (
    KnownHazard(
        id="refused-undefined-value",
        kind="refused",
        phase="load",
        check=_undefined,
        fix="convert again: an operation must come behind those whose results it reads",
        source=_PROGRAM,
        confidence="documented",
    ),
    KnownHazard(
        id="refused-repeated-name",
        kind="refused",
        phase="load",
        check=_twice,
        fix="give each value and each feature a name of its own",
        source=_PROGRAM,
        confidence="documented",
    ),
    KnownHazard(
        id="passed-input",
        kind="silent fallback",
        phase="load",
        check=_passed_through,
        fix="return a copy of the input (mb.identity, or x * 1 in the network), or leave the output out",
        source="FluidInference/FluidAudio #294",
        confidence="anecdotal",
        lines=Lines(
            texts=("as both an input and output",),
            examples=(
                "BNNS Graph Compile: Function main has tensor conv0_first as both an input and output.",
            ),
            negative_examples=("the tensor is both an input and an output",),
        ),
    ),
    KnownHazard(
        id="refused-other-name",
        kind="refused",
        phase="load",
        check=_other_names,
        fix="give inputs, outputs and functions the same names in the description and the program;"
        " coremltools.utils.rename_feature changes both",
        source=_PROGRAM,
        confidence="documented",
    ),
    KnownHazard(
        id="refused-other-type",
        kind="refused",
        phase="load",
        check=_other_types,
        fix="declare the shape that the program has: convert again with that shape in `inputs` or `outputs`",
        source=_INTERFACE,
        confidence="documented",
    ),
)
