"""What stands in for custom layers of neural networks, so that the rest of a network can be timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from coremlscope.ir import Function, Graph, Model, Op, Pipeline, Program, Shape, TensorType, Value, constant

__all__ = ["CustomLayer", "around_custom_layers", "custom_layers"]

_CUSTOM, _STAND_IN = "custom", "random_uniform"


@dataclass(frozen=True, slots=True)
class CustomLayer:
    """A layer that a class of an app computes.

    Attributes:
        id: The operation's id.
        name: The author's name of the layer.
        class_name: The class.
        shape_from: Where the shapes of its results are taken from.
        reason: Why it cannot be run; goes on from its name.
    """

    id: str
    name: str
    class_name: str
    shape_from: str
    reason: str


def custom_layers(function: Function) -> Iterator[CustomLayer]:
    """The custom layers of a function, be it before or behind `around_custom_layers`."""
    for op in function.graph.walk():
        if _is_custom(op) and op.type in (_CUSTOM, _STAND_IN) and "." not in op.id:
            yield CustomLayer(
                op.id,
                op.name,
                str(op.attributes["class"].item()),
                str(op.attributes["shape_from"].item()),
                str(op.attributes["reason"].item()),
            )


def around_custom_layers(model: Model) -> Model:
    """The model with random numbers in place of the results of custom layers.

    Numbers that were constant would let an engine compute all that follows ahead of time. A layer of which
    not even a shape is known stays as it is.
    """
    if isinstance(model.content, Pipeline):
        stages = tuple(map(around_custom_layers, model.content.models))
        return replace(model, content=replace(model.content, models=stages))
    if not isinstance(model.content, Program) or model.content.kind == "mlProgram":
        return model
    functions = {name: _around(function) for name, function in model.content.functions.items()}
    return replace(model, content=replace(model.content, functions=functions))


def _around(function: Function) -> Function:
    if not any(map(_is_custom, function.graph.walk())):
        return function
    graph = _graph(function.graph)
    known = {value.name for value in (*graph.inputs, *graph.outputs)}
    read = {
        value.name: value
        for op in function.graph.ops
        if _is_custom(op)
        for value in op.inputs.get("x", ())
        if isinstance(value, Value) and value.name not in known
    }
    # What these layers read goes out of the graph, so that it is computed though nothing reads it any more.
    graph = replace(graph, outputs=(*graph.outputs, *read.values()))
    return replace(function, graph=graph, specialise=_specialising(function.specialise))


def _specialising(
    again: Callable[[Mapping[str, Shape]], Function] | None,
) -> Callable[[Mapping[str, Shape]], Function] | None:
    return None if again is None else lambda shapes: _around(again(shapes))


def _graph(graph: Graph) -> Graph:
    return replace(graph, ops=tuple(part for op in graph.ops for part in _parts(op)))


def _parts(op: Op) -> Iterator[Op]:
    """One operation for each result of a custom layer; the first has the layer's id."""
    if not _is_custom(op) or not all(_is_static(value.type) for value in op.outputs):
        yield replace(op, blocks=tuple(map(_graph, op.blocks)))
        return
    layer = None if op.layer is None else replace(op.layer, problem="")
    for index, value in enumerate(op.outputs):
        assert isinstance(value.type, TensorType)
        given = {
            "shape": constant([size or 0 for size in value.type.shape or ()]),
            "low": constant(0.0),
            "high": constant(1.0),
            "seed": constant(index),
        }
        inputs = {name: (argument,) for name, argument in given.items()}
        op_id = op.id if index == 0 else f"{op.id}.{index}"
        yield Op(
            id=op_id,
            type=_STAND_IN,
            inputs=inputs,
            outputs=(value,),
            blocks=(),
            attributes=op.attributes,
            layer=layer,
        )


def _is_static(type_: object) -> bool:
    return isinstance(type_, TensorType) and type_.is_static


def _is_custom(op: Op) -> bool:
    return "class" in op.attributes
