"""Replaces custom layers of neural networks, so that the rest of a network can be timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from coremlscope.model.ir import (
    Function,
    Graph,
    Model,
    Op,
    Pipeline,
    Shape,
    TensorType,
    Value,
    constant,
)
from coremlscope.ops.randomness import DRAWN_ONCE

_CUSTOM, _REPLACEMENT = "custom", "random_uniform"


class CustomLayer(msgspec.Struct, frozen=True, kw_only=True):
    """A layer that a class in an app implements.

    Attributes:
        id: The operation's id.
        name: The layer's name in the model.
        class_name: The name of the class.
        shape_from: The source of the shapes of its results.
        reason: Why it cannot be run: a clause that follows the layer's name.
    """

    id: str
    name: str
    class_name: str
    shape_from: str
    reason: str


def custom_layers(function: Function) -> Iterator[CustomLayer]:
    """The custom layers of a function, before or after `replace_custom_layers`."""
    for op in function.graph.walk():
        if _is_custom(op) and op.type in (_CUSTOM, _REPLACEMENT) and "." not in op.id:
            yield CustomLayer(
                id=op.id,
                name=op.name,
                class_name=str(op.attributes["class"].item()),
                shape_from=str(op.attributes["shape_from"].item()),
                reason=str(op.attributes["reason"].item()),
            )


def replace_custom_layers(model: Model) -> Model:
    """Replaces the results of custom layers by random numbers.

    The numbers are drawn when the model is compiled, and an engine does not fold what depends on them, so
    that predictions lack the work of these layers and nothing else. A layer whose result shapes are unknown
    stays unchanged.
    """
    if isinstance(model.content, Pipeline):
        stages = tuple(map(replace_custom_layers, model.content.models))
        return replace(model, content=replace(model.content, models=stages))
    if not model.content.is_network:
        return model
    return model.with_functions(
        {name: _replace_in(function) for name, function in model.content.functions.items()}
    )


def _replace_in(function: Function) -> Function:
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
    # The inputs of these layers become graph outputs, so that they are still computed.
    graph = replace(graph, outputs=(*graph.outputs, *read.values()))
    return replace(function, graph=graph, specialise=_specialising(function.specialise))


def _specialising(
    specialise: Callable[[Mapping[str, Shape]], Function] | None,
) -> Callable[[Mapping[str, Shape]], Function] | None:
    return None if specialise is None else lambda shapes: _replace_in(specialise(shapes))


def _graph(graph: Graph) -> Graph:
    return replace(graph, ops=tuple(part for op in graph.ops for part in _parts(op)))


def _parts(op: Op) -> Iterator[Op]:
    """One operation per result of a custom layer; the first keeps the layer's id."""
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
            type=_REPLACEMENT,
            inputs=inputs,
            outputs=(value,),
            attributes={**op.attributes, DRAWN_ONCE: constant(True)},
            layer=layer,
        )


def _is_static(type_: object) -> bool:
    return isinstance(type_, TensorType) and type_.is_static


def _is_custom(op: Op) -> bool:
    return "class" in op.attributes
