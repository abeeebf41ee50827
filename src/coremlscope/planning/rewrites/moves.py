"""Removes data movement: redundant concats and reshapes, and swaps of red and blue of an image."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from coremlscope.model.ir import (
    Argument,
    Feature,
    Function,
    ImageFeature,
    Model,
    Op,
    Program,
    TensorType,
    Value,
    constant,
)
from coremlscope.model.ir.rewriting import with_ops
from coremlscope.planning.advice import (
    bind_default_function,
    find_channel_swaps,
    find_needless_concats,
    find_needless_reshapes,
)


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


def with_joined_reshapes(model: Model) -> tuple[Model, int]:
    """Leaves out reshapes, insertions and removals of axes that follow each other, but one of each chain.

    coremltools' own pass joins operations of the type `reshape` only.

    Args:
        model: An ML Program with one function. Where shapes are flexible, its chains stay as they are.

    Returns:
        The model, and how many operations it has fewer.
    """
    chains = [
        ([view.op.id for view in chain], is_whole)
        for chain, is_whole in find_needless_reshapes(bind_default_function(model))
    ]
    counts: list[int] = []

    def change(function: Function) -> Function:
        joined = _joined(function, chains)
        counts.append(len(function.graph.ops) - len(joined.graph.ops))
        return joined

    return (_with_body(model, change), sum(counts)) if chains else (model, 0)


def _joined(function: Function, chains: Sequence[tuple[Sequence[str], bool]]) -> Function:
    """Returns a function with one reshape instead of each chain, or none where it changes nothing."""
    ops = {op.id: op for op in function.graph.ops}
    kept = {value.name for value in function.graph.outputs} | _read_inside(function.graph.ops)
    instead: dict[str, tuple[Argument, ...]] = {}
    written: dict[str, Op | None] = {}
    for ids, is_whole in chains:
        chain = [ops[one] for one in ids if one in ops]
        last, given = ops.get(ids[-1]), chain[0].inputs["x"][0] if chain else None
        if last is None or given is None or len(chain) < len(ids) or not _are_fixed(given, last.outputs[0]):
            continue
        other: Op | None = _as_one(last, given, is_whole=is_whole)
        if is_whole and last.outputs[0].name not in kept:
            instead[last.outputs[0].name], other = (given,), None
        elif other is not None and len(chain) == 1:
            continue
        written |= {**dict.fromkeys(ids[:-1]), last.id: other}
    made: list[Op] = []
    for op in function.graph.ops:
        one = written.get(op.id, op)
        if one is not None:
            inputs = {key: tuple(_followed(a, instead) for a in given) for key, given in one.inputs.items()}
            made.append(replace(one, inputs=inputs))
    return with_ops(function, made)


def _as_one(last: Op, given: Argument, *, is_whole: bool) -> Op:
    """Returns one operation instead of a chain: a reshape, or the value itself under another name."""
    if is_whole:
        return replace(last, type="identity", inputs={"x": (given,)})
    type_ = last.outputs[0].type
    assert isinstance(type_, TensorType)
    shape = constant(np.array(type_.shape, np.int32))
    return replace(last, type="reshape", inputs={"x": (given,), "shape": (shape,)})


def _are_fixed(*given: Argument) -> bool:
    return all(isinstance(one.type, TensorType) and one.type.is_static for one in given)


def _followed(argument: Argument, instead: Mapping[str, tuple[Argument, ...]]) -> Argument:
    while isinstance(argument, Value) and argument.name in instead:
        (argument,) = instead[argument.name]
    return argument


def _read_inside(ops: Iterable[Op]) -> set[str]:
    """Returns the names of the values that operations inside others read, and those that blocks return."""
    names = {
        a.name
        for op in ops
        for inner in _inside(op)
        for given in inner.inputs.values()
        for a in given
        if isinstance(a, Value)
    }
    return names | {value.name for op in ops for block in op.blocks for value in block.outputs}


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
    wanted = names | returned | _read_inside(ops)
    return [op for op in ops if op.type != "split" or any(value.name in wanted for value in op.outputs)]


def _inside(op: Op) -> list[Op]:
    return [inner for block in op.blocks for inner in block.walk()]


def with_wanted_channels(model: Model) -> tuple[Model, int]:
    """Declares images in the order of channels that the network computes with, and leaves out the swaps.

    Args:
        model: An ML Program with one function.

    Returns:
        The model, and the number of images whose order is another one.
    """
    swaps = {name: view.op.id for name, view in find_channel_swaps(bind_default_function(model))}
    if not swaps:
        return model, 0
    swapped = _with_body(model, lambda body: _without(body, swaps.values()))
    main = model.description.main
    described = replace(main, inputs=tuple(_turned(one) if one.name in swaps else one for one in main.inputs))
    functions = {**model.description.functions, model.description.default: described}
    return replace(swapped, description=replace(model.description, functions=functions)), len(swaps)


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
