"""Reading of ONNX Runtime's profiler output, and its join with the optimised graph."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from coremlscope.base.errors import EngineError
from coremlscope.runtime.engines.base import EngineNode

_SUFFIX = "_kernel_time"
_MICROSECOND = 1e-6

#: The profiler's key of a node: its name and its operator.
Key = tuple[str, str]


class NodeEvents(msgspec.Struct, frozen=True):
    """Node executions, one tuple per run, each with its duration in seconds."""

    runs: tuple[tuple[tuple[Key, float], ...], ...]

    @classmethod
    def read(cls, path: Path, warmups: int) -> NodeEvents:
        """Reads a profile. It has one event per line, written when the event ends.

        Args:
            path: The profile.
            warmups: Number of runs at the start that are discarded.

        Raises:
            OSError: The file cannot be read.
            ValueError: The file is not a profile.
        """
        runs: list[tuple[tuple[Key, float], ...]] = []
        current: list[tuple[Key, float]] = []
        with path.open(encoding="utf-8") as file:
            for line in file:
                text = line.strip().rstrip(",")
                if text in ("", "[", "]"):
                    continue
                event = json.loads(text)
                if event["cat"] == "Node" and event["name"].endswith(_SUFFIX):
                    key = (event["name"].removesuffix(_SUFFIX), event["args"].get("op_name", ""))
                    current.append((key, event["dur"] * _MICROSECOND))
                elif event["name"] == "model_run":
                    runs.append(tuple(current))
                    current = []
        return cls(tuple(runs[warmups:]))


@dataclass(slots=True, kw_only=True)
class _NodeCounter:
    """A node of the saved graph, with its executions so far."""

    key: Key
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    outer: int | None
    seconds: list[float]
    runs: int = 0

    def result(self) -> EngineNode:
        name, op_type = self.key
        return EngineNode(
            name=name,
            op_type=op_type,
            inputs=self.inputs,
            outputs=self.outputs,
            seconds=tuple(self.seconds),
            outer=self.outer,
            runs=self.runs,
        )


@dataclass(slots=True)
class _Table:
    """The nodes of the saved graph, with an index by the profiler's key.

    Attributes:
        run_count: Number of profiled runs.
        rows: The nodes.
        indices: Indices into `rows`; several if nodes share a key.
    """

    run_count: int
    rows: list[_NodeCounter] = field(default_factory=list)
    indices: dict[Key, list[int]] = field(default_factory=dict)

    def add(self, key: Key, inputs: Sequence[str], outputs: Sequence[str], outer: int | None) -> int:
        index = len(self.rows)
        self.rows.append(
            _NodeCounter(
                key=key,
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                outer=outer,
                seconds=[0.0] * self.run_count,
            )
        )
        self.indices.setdefault(key, []).append(index)
        return index

    def walk(self, graph: Any, outer: int | None) -> None:
        for node in graph.node:
            reads = [name for name in node.input if name]
            reads += sorted({name for inner in _nested(node) for name in _outside_reads(inner)} - set(reads))
            index = self.add((node.name, node.op_type), reads, [n for n in node.output if n], outer)
            for inner in _nested(node):
                self.walk(inner, index)


def read_nodes(graph: Path, events: NodeEvents) -> tuple[EngineNode, ...]:
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
    table = _Table(len(events.runs))
    table.walk(model.graph, None)
    for number, run in enumerate(events.runs):
        executions: Counter[Key] = Counter()
        for key, seconds in run:
            indices = table.indices.get(key) or [table.add(key, (), (), None)]
            row = table.rows[indices[executions[key] % len(indices)]]
            executions[key] += 1
            row.seconds[number] += seconds
            row.runs += 1
    return tuple(row.result() for row in table.rows)


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
