"""Reading of ONNX Runtime's profiler output, and its join with the optimised graph."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from coremlscope.base.errors import EngineError
from coremlscope.runtime.engines.base import EngineNode

_SUFFIX = "_kernel_time"
_MICROSECOND = 1e-6

#: The profiler's key of a node: its name and its operator.
Key = tuple[str, str]


#: The executions of nodes in one run, each with its duration in seconds.
Run = tuple[tuple[Key, float], ...]


class _Event(msgspec.Struct):
    cat: str
    name: str
    dur: int
    args: dict[str, Any]


def read_runs(path: Path, warmups: int) -> tuple[Run, ...]:
    """Reads the runs of a profile. It has one event per line, written when the event ends.

    Args:
        path: The profile.
        warmups: Number of runs at the start that are discarded.

    Raises:
        OSError: The file cannot be read.
        msgspec.DecodeError: The file is not a profile.
    """
    runs: list[Run] = []
    current: list[tuple[Key, float]] = []
    decoder = msgspec.json.Decoder(_Event)
    with path.open("rb") as file:
        for line in file:
            text = line.strip().rstrip(b",")
            if text in (b"", b"[", b"]"):
                continue
            event = decoder.decode(text)
            if event.cat == "Node" and event.name.endswith(_SUFFIX):
                key = (event.name.removesuffix(_SUFFIX), event.args.get("op_name", ""))
                current.append((key, event.dur * _MICROSECOND))
            elif event.name == "model_run":
                runs.append(tuple(current))
                current = []
    return tuple(runs[warmups:])


def read_nodes(graph: Path, runs: Sequence[Run] = ()) -> tuple[EngineNode, ...]:
    """Returns the nodes of a saved graph with their times.

    The profiler identifies nodes by name. Names are unique if the lowering or ONNX Runtime created them. If
    nodes share a name, the executions are assigned to them cyclically in graph order, because nodes run in
    the order in which they are saved. An execution of a node that is not in the graph gets its own row.

    Raises:
        EngineError: The graph was not saved.
    """
    import onnx

    try:
        model = onnx.load(str(graph), load_external_data=False)
    except OSError as error:
        raise EngineError(f"ONNX Runtime did not save the profiled graph: {error}") from error
    nodes = list(_nodes(model.graph, None, itertools.count()))
    places: dict[Key, list[int]] = {}
    for place, node in enumerate(nodes):
        places.setdefault((node.name, node.op_type), []).append(place)
    spent_s: dict[tuple[int, int], float] = {}
    executed = Counter[int]()
    for number, run in enumerate(runs):
        executions: Counter[Key] = Counter()
        for key, seconds in run:
            if key not in places:
                places[key] = [len(nodes)]
                nodes.append(EngineNode(name=key[0], op_type=key[1], inputs=(), outputs=(), seconds=()))
            place = places[key][executions[key] % len(places[key])]
            executions[key] += 1
            spent_s[place, number] = spent_s.get((place, number), 0.0) + seconds
            executed[place] += 1
    numbers = range(len(runs))
    return tuple(
        replace(
            node,
            seconds=tuple(spent_s.get((place, number), 0.0) for number in numbers),
            runs=executed[place],
        )
        for place, node in enumerate(nodes)
    )


def _nodes(graph: Any, outer: int | None, numbers: Iterator[int]) -> Iterator[EngineNode]:
    """Yields the nodes of a graph without times, each before those of its nested graphs."""
    for node in graph.node:
        reads = [name for name in node.input if name]
        reads += sorted({name for inner in _nested(node) for name in _outside_reads(inner)} - set(reads))
        number = next(numbers)
        yield EngineNode(
            name=node.name,
            op_type=node.op_type,
            inputs=tuple(reads),
            outputs=tuple(filter(None, node.output)),
            seconds=(),
            outer=outer,
        )
        for inner in _nested(node):
            yield from _nodes(inner, number, numbers)


def _nested(node: Any) -> Iterator[Any]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _outside_reads(graph: Any) -> set[str]:
    """Returns the names of values that a nested graph reads but does not define."""
    made = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    reads: set[str] = {output.name for output in graph.output}
    for node in graph.node:
        reads.update(node.input)
        made.update(node.output)
        for inner in _nested(node):
            reads |= _outside_reads(inner)
    return reads - made - {""}
