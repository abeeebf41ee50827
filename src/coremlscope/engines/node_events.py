"""What ONNX Runtime's profiler writes, joined with the graph that it ran."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coremlscope.engines.base import EngineNode
from coremlscope.errors import EngineError

__all__ = ["NodeEvents", "read_nodes"]

_SUFFIX = "_kernel_time"
_MICROSECOND = 1e-6

#: A node as the profiler names it: its name and its operator.
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class NodeEvents:
    """Executions of nodes, one list a run, each execution with its duration in seconds."""

    runs: tuple[tuple[tuple[Key, float], ...], ...]

    @classmethod
    def read(cls, path: Path, warmups: int) -> NodeEvents:
        """Reads a profile: one event a line, each written when it ends; the first runs are dropped.

        Raises:
            OSError: The file cannot be read.
            ValueError: The file is no profile.
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
class _Seen:
    """A node of the saved graph while its executions are counted."""

    key: Key
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    outer: int | None
    seconds: list[float]
    runs: int = 0

    def frozen(self) -> EngineNode:
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
    """The nodes of the saved graph, and where to find one by the profiler's name for it."""

    count: int
    rows: list[_Seen] = field(default_factory=list)
    places: dict[Key, list[int]] = field(default_factory=dict)

    def add(self, key: Key, inputs: Sequence[str], outputs: Sequence[str], outer: int | None) -> int:
        index = len(self.rows)
        self.rows.append(
            _Seen(
                key=key, inputs=tuple(inputs), outputs=tuple(outputs), outer=outer, seconds=[0.0] * self.count
            )
        )
        self.places.setdefault(key, []).append(index)
        return index

    def walk(self, graph: Any, outer: int | None) -> None:
        for node in graph.node:
            reads = [name for name in node.input if name]
            reads += sorted({name for inner in _nested(node) for name in _outside_reads(inner)} - set(reads))
            index = self.add((node.name, node.op_type), reads, [n for n in node.output if n], outer)
            for inner in _nested(node):
                self.walk(inner, index)


def read_nodes(graph: Path, events: NodeEvents) -> tuple[EngineNode, ...]:
    """The nodes of a saved graph with their times.

    The profiler names nodes; names are unique wherever the lowering or ONNX Runtime made them. Should two
    nodes share one, their executions go to them in turn, as nodes are run in the order in which they are
    saved. An execution of a node that the graph does not have keeps a row of its own.

    Raises:
        EngineError: The graph was not saved.
    """
    import onnx

    try:
        model = onnx.load(str(graph), load_external_data=False)
    except OSError as error:
        raise EngineError(f"ONNX Runtime did not save the graph that it profiled: {error}") from error
    table = _Table(len(events.runs))
    table.walk(model.graph, None)
    for number, run in enumerate(events.runs):
        turns: Counter[Key] = Counter()
        for key, seconds in run:
            indices = table.places.get(key) or [table.add(key, (), (), None)]
            row = table.rows[indices[turns[key] % len(indices)]]
            turns[key] += 1
            row.seconds[number] += seconds
            row.runs += 1
    return tuple(row.frozen() for row in table.rows)


def _nested(node: Any) -> Iterator[Any]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _outside_reads(graph: Any) -> set[str]:
    """Names that a nested graph reads and does not make."""
    made = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    reads: set[str] = {output.name for output in graph.output}
    for node in graph.node:
        reads.update(node.input)
        made.update(node.output)
        for inner in _nested(node):
            reads |= _outside_reads(inner)
    return reads - made - {""}
