"""Describes the stages of pipelines, and models whose computation is not in the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coremlscope.describe.weights import blobs_of, group_weights
from coremlscope.formats.weights import BlobData
from coremlscope.model.features import default_shape, describe_feature, describe_shape
from coremlscope.model.ir import (
    Classical,
    Constant,
    DictType,
    DType,
    External,
    Feature,
    Model,
    Nested,
    Op,
    Program,
    TensorType,
    Value,
)
from coremlscope.ops.classical import classical_types
from coremlscope.results.model import COMPILED_BY, StageSummary, WeightGroup
from coremlscope.runtime.execution.binding import program_of, share
from coremlscope.runtime.execution.wiring import Stage, StageFunction, stage_key

_Pairs = tuple[tuple[str, str], ...]

#: The attribute of a program in which converters and Apple's compiler leave their versions.
_BUILD_INFO, _COMPILER = "buildInfo", "coremlc-version"
_STRING = TensorType(DType.STRING, ())


def weights_of(model: Model) -> tuple[WeightGroup, ...]:
    """Returns the weights of a model, or of all stages of a pipeline; see `group_weights`."""
    return share(model, (group_weights,), lambda: group_weights(*programs_of(model)))


def list_blobs(model: Model) -> Sequence[BlobData]:
    """Returns the data in weight files of every constant that the programs of a model refer to."""
    return share(
        model, (blobs_of,), lambda: [blob for program in programs_of(model) for blob in blobs_of(program)]
    )


def programs_of(model: Model) -> Iterator[Program]:
    """Yields the program of a model, or the programs of all stages of a pipeline."""
    for stage in model.content.models:
        yield from programs_of(stage)
    if (program := program_of(model)) is not None:
        yield program


def row_id(stage: Stage) -> str:
    """Returns the id of the row that represents a stage without operations in an op table."""
    return stage_key(stage.name, "main")


def trace_stages(stages: Sequence[StageFunction]) -> dict[str, tuple[str, ...]]:
    """Traces values between stages.

    Args:
        stages: Every stage of a pipeline, in order.

    Returns:
        For each operation that reads outputs of other stages, by id: the ids of the operations that made
        them.
    """
    makers = [_makers(bound) for bound in stages]
    found: dict[str, tuple[str, ...]] = {}
    for bound in stages:
        sources = {
            name: makers[wire.stage].get(wire.feature.name, "")
            for name, wire in bound.stage.wires.items()
            if not wire.is_outside
        }
        if bound.bound is None:
            readers = [(row_id(bound.stage), list(sources))]
        else:
            ops = bound.bound.function.graph.walk()
            readers = [(op.id, [value.name for value in _read(op)]) for op in ops]
        for op_id, names in readers:
            ids = dict.fromkeys(sources[name] for name in names if sources.get(name))
            if ids:
                found[op_id] = tuple(ids)
    return found


def _makers(bound: StageFunction) -> dict[str, str]:
    """Returns the operation that makes each output of a stage, by the output's name."""
    if bound.bound is None:
        return {feature.name: row_id(bound.stage) for feature in bound.stage.description.outputs}
    return {value.name: op.id for op in bound.bound.function.graph.ops for value in op.outputs}


def _read(op: Op) -> Iterator[Value]:
    for arguments in op.inputs.values():
        yield from (argument for argument in arguments if isinstance(argument, Value))


def summarise_stages(stages: Sequence[StageFunction]) -> tuple[StageSummary, ...]:
    """Describes each stage of a pipeline."""
    return tuple(map(_summarise, stages))


def _summarise(bound: StageFunction) -> StageSummary:
    model, interface = bound.stage.model, bound.stage.description
    program = None if bound.bound is None else program_of(model)
    weights = () if program is None else group_weights(program)
    ops = None if bound.bound is None else bound.bound.function.graph.walk()
    return StageSummary(
        name=bound.stage.name,
        kind=model.kind,
        inputs=tuple(map(_feature, interface.inputs)),
        outputs=tuple(map(_feature, interface.outputs)),
        facts=describe_external(model),
        absent=why_absent(model),
        operations=None if ops is None else sum(op.type != "const" for op in ops),
        parameters=sum(group.parameters for group in weights),
        weights_bytes=sum(group.nbytes for group in weights),
    )


def _feature(feature: Feature) -> tuple[str, str]:
    return feature.name, describe_feature(feature.type)


def why_absent(model: Model) -> str:
    """Returns why a model cannot be run here, as the end of a sentence; empty where it can."""
    return model.content.absent


def describe_external(model: Model) -> _Pairs:
    """Returns label and value of further facts in the file, labels of classes excluded.

    For a classical model these are the form and number of its parameters, for a model whose computation is
    not in the file all contents of the file, and for a program the version of Apple's compiler, if it was
    compiled; other models have none.
    """
    match model.content:
        case Classical() as content:
            return tuple(classical_types()[model.kind].describe(content))
        case Program(attributes=attributes) if _BUILD_INFO in attributes:
            return tuple(_compiler(attributes[_BUILD_INFO]))
        case External(facts=facts, shapes=shapes):
            outputs = model.description.main.outputs
            is_shaped = all(default_shape(feature.type) is not None for feature in outputs)
            listed = ", ".join(f"{name} {describe_shape(shape)}" for name, shape in shapes.items())
            return (*facts, ("gives", listed)) if listed and not is_shaped else facts
    return ()


def _compiler(build_info: Constant) -> Iterator[tuple[str, str]]:
    """Yields the version of Apple's compiler, if a dictionary of versions contains it."""
    if not isinstance(build_info.type, DictType) or not isinstance(build_info.data, Nested):
        return
    items = build_info.data.items
    for key, value in zip(items[::2], items[1::2], strict=True):
        if all(item.type == _STRING for item in (key, value)) and key.item() == _COMPILER:
            yield COMPILED_BY, f"Apple's coremlc {value.item()}"
