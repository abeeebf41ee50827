"""Dataflow between operations, and the bytes that are alive at each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate

import msgspec

from coremlscope.model.ir import TensorType, Value, ValueType
from coremlscope.ops.view import BoundGraph, OpView


class Flow(msgspec.Struct, frozen=True):
    """The inputs of an operation, and the bytes that are alive while it runs.

    Attributes:
        inputs: Ids of the operations whose results it reads, in program order, once each (files keep
            the parameters of an operation in no order). What its nested graphs read is theirs.
        live_bytes: Bytes of all tensors that are alive while it runs: inputs of the function that are still
            read, results of operations before it that are still read, its own results; in a nested graph
            also those outside. Constants and states are not counted, and every result counts, though a
            runtime may keep some in place. None where the size of one is not known.
    """

    inputs: tuple[str, ...]
    live_bytes: int | None


def trace_dataflow(graph: BoundGraph) -> dict[str, Flow]:
    """Traces the flow of every operation except `const`, nested ones included, by id.

    A value dies with the last operation that reads it, itself or in a nested graph. An input of a nested
    graph is a value outside and is not counted again.
    """
    return dict(_trace(graph, {}, _sizes_of_inputs(graph), 0, 0))


def _trace(
    graph: BoundGraph, makers: Mapping[str, str], given: Mapping[str, int | None], outside: int, unknown: int
) -> Iterator[tuple[str, Flow]]:
    """Traces the flow within a graph.

    Args:
        graph: The graph.
        makers: The operation that made each value of the graphs around it.
        given: Sizes of the inputs that count.
        outside: Bytes that are alive around it.
        unknown: Values of unknown size that are alive around it.
    """
    hidden = {value.name for value in graph.graph.inputs}
    known = {name: id_ for name, id_ in makers.items() if name not in hidden}
    # Operations are numbered in program order.
    places = {id_: place for place, id_ in enumerate(dict.fromkeys(known.values()))}
    live = _Live(graph, given)
    for index, view in enumerate(graph.ops):
        op = view.op
        if op.constant is None:
            around, missing = outside + live.sizes[index], unknown + live.unknown[index]
            sources = {known[name] for name in _arguments(view) if name in known}
            yield op.id, Flow(tuple(sorted(sources, key=places.__getitem__)), None if missing else around)
            for block in view.blocks:
                yield from _trace(block, known, {}, around, missing)
            known.update((value.name, op.id) for value in op.outputs)
            places[op.id] = len(places)


class _Live:
    """Bytes alive at each operation of a graph: sums over the live ranges of its values."""

    def __init__(self, graph: BoundGraph, given: Mapping[str, int | None]) -> None:
        count = len(graph.ops)
        self._steps = [0] * (count + 1)
        self._missing = [0] * (count + 1)
        last = {name: index for index, view in enumerate(graph.ops) for name in _reads(view)}
        last.update((value.name, count - 1) for value in graph.graph.outputs)
        for name, size in given.items():
            self._add(0, last.get(name, -1), size)
        for index, view in enumerate(graph.ops):
            for value, bound in zip(view.op.outputs, view.outputs, strict=True):
                if bound.constant is None:
                    self._add(index, last.get(value.name, index), _size(bound.type))
        self.sizes = list(accumulate(self._steps))
        self.unknown = list(accumulate(self._missing))

    def _add(self, first: int, last: int, size: int | None) -> None:
        steps, amount = (self._missing, 1) if size is None else (self._steps, size)
        steps[first] += amount
        steps[max(last, first - 1) + 1] -= amount


def _sizes_of_inputs(graph: BoundGraph) -> dict[str, int | None]:
    pairs = zip(graph.graph.inputs, graph.inputs, strict=True)
    return {value.name: _size(bound.type) for value, bound in pairs}


def _size(type_: ValueType) -> int | None:
    """Returns the bytes of a tensor; 0 for values that are not numeric tensors."""
    if not isinstance(type_, TensorType) or not type_.dtype.bits:
        return 0
    return None if type_.elements is None else (type_.elements * type_.dtype.bits + 7) // 8


def _arguments(view: OpView) -> Iterator[str]:
    return (given.name for each in view.op.inputs.values() for given in each if isinstance(given, Value))


def _reads(view: OpView) -> Iterator[str]:
    """Returns the names that an operation reads, including those within its nested graphs."""
    yield from _arguments(view)
    for block in view.blocks:
        for inner in block.ops:
            yield from _reads(inner)
        yield from (value.name for value in block.graph.outputs)
