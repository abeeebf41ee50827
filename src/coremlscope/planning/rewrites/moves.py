"""Removes data movement: redundant concats and reshapes, and swaps of red and blue of an image."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from coremlscope.model.ir import (
    Argument,
    Function,
    Model,
    Op,
    TensorType,
    Value,
    constant,
)
from coremlscope.model.ir.rewriting import with_ops
from coremlscope.planning.advice import (
    bind_default_function,
    find_needless_reshapes,
)


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


def _inside(op: Op) -> list[Op]:
    return [inner for block in op.blocks for inner in block.walk()]


def _with_body(model: Model, change: Callable[[Function], Function]) -> Model:
    """Returns an ML Program with another body of its default function."""
    functions = model.content.functions
    name = model.description.default if model.description.default in functions else "main"
    return model.with_functions({**functions, name: change(functions[name])})
