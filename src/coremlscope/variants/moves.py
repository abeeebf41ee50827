"""Removes data movement: redundant concats, and swaps of red and blue of an image."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from coremlscope.advice import bind_default_function, find_channel_swaps, find_needless_concats
from coremlscope.ir import Argument, Feature, Function, ImageFeature, Model, Op, Program, Value
from coremlscope.ir.rewriting import with_ops

__all__ = ["with_joined_concats", "with_wanted_channels"]


def with_joined_concats(model: Model) -> tuple[Model, int]:
    """Joins concats of concats, and leaves out those of one value and of all parts of a split.

    Args:
        model: An ML Program with one function.

    Returns:
        The model, and how many concats it has fewer.
    """
    needless = [view.op.id for view, _ in find_needless_concats(bind_default_function(model))]
    if not needless:
        return model, 0
    return _with_body(model, lambda body: _without(body, needless)), len(needless)


def _without(function: Function, needless: Collection[str]) -> Function:
    """Returns a function in which the readers of some operations read what these read."""
    makers = {value.name: op for op in function.graph.ops for value in op.outputs}
    returned = {value.name for value in function.graph.outputs}
    instead: dict[str, tuple[Argument, ...]] = {}
    ops: list[Op] = []
    for op in function.graph.ops:
        inputs = {
            key: tuple(one for a in given for one in _resolved(a, instead))
            for key, given in op.inputs.items()
        }
        op = replace(op, inputs=inputs)
        if op.id not in needless:
            ops.append(op)
            continue
        values = inputs["values"] if op.type == "concat" else inputs["x"]
        first = values[0]
        split = makers.get(first.name) if isinstance(first, Value) else None
        if len(values) > 1 and split is not None and split.type == "split" and values == split.outputs:
            values = tuple(split.inputs["x"])
        if op.outputs[0].name in returned:
            ops.append(replace(op, type="identity", inputs={"x": values}) if len(values) == 1 else op)
        else:
            instead[op.outputs[0].name] = values
    return with_ops(function, _read(ops, returned))


def _resolved(argument: Argument, instead: dict[str, tuple[Argument, ...]]) -> tuple[Argument, ...]:
    return instead.get(argument.name, (argument,)) if isinstance(argument, Value) else (argument,)


def _read(ops: list[Op], returned: set[str]) -> list[Op]:
    """Returns the operations without splits whose parts nothing reads any longer."""
    names = {a.name for op in ops for given in op.inputs.values() for a in given if isinstance(a, Value)}
    names |= {
        a.name
        for op in ops
        for inner in _inside(op)
        for given in inner.inputs.values()
        for a in given
        if isinstance(a, Value)
    }
    wanted = names | returned | {v.name for op in ops for block in op.blocks for v in block.outputs}
    return [op for op in ops if op.type != "split" or any(value.name in wanted for value in op.outputs)]


def _inside(op: Op) -> list[Op]:
    return [inner for block in op.blocks for inner in block.walk()]


def with_wanted_channels(model: Model) -> tuple[Model, tuple[str, ...]]:
    """Declares images in the order of channels that the network computes with, and leaves out the swaps.

    Args:
        model: An ML Program with one function.

    Returns:
        The model, and the names of the images whose order is another one.
    """
    swaps = {name: view.op.id for name, view in find_channel_swaps(bind_default_function(model))}
    if not swaps:
        return model, ()
    swapped = _with_body(model, lambda body: _without(body, swaps.values()))
    main = model.description.main
    described = replace(main, inputs=tuple(_turned(one) if one.name in swaps else one for one in main.inputs))
    functions = {**model.description.functions, model.description.default: described}
    return replace(swapped, description=replace(model.description, functions=functions)), tuple(swaps)


def _turned(feature: Feature) -> Feature:
    assert isinstance(feature.type, ImageFeature)
    space = {"RGB": "BGR", "BGR": "RGB"}[feature.type.color_space]
    return replace(feature, type=replace(feature.type, color_space=space))


def _with_body(model: Model, change: Callable[[Function], Function]) -> Model:
    """Returns an ML Program with another body of its default function."""
    program = model.content
    assert isinstance(program, Program)
    name = model.description.default if model.description.default in program.functions else "main"
    functions = {**program.functions, name: change(program.functions[name])}
    return replace(model, content=replace(program, functions=functions))
