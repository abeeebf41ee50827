"""An engine with scripted results and times, for tests of the layers above engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from coremlscope.base.errors import EngineError
from coremlscope.base.writing import write_draft
from coremlscope.model.ir import Array
from coremlscope.ops.program import WEIGHTS_FILE, OnnxProgram, StatePort
from coremlscope.runtime.engines.base import GRAPH_FILE, EngineNode, EngineOptions, NodeProfile


@dataclass(slots=True)
class ScriptedClock:
    """A clock that advances only on request."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Advances the clock."""
        self.now += seconds


@dataclass(slots=True, kw_only=True)
class ScriptedEngine:
    """Runs nothing. Outputs are zeros of the declared shape, with unknown dimensions set to 1.

    Attributes:
        clock: Advanced by each of the durations below.
        build_s: Duration of a build.
        load_s: Duration of a load.
        run_s: Durations of successive runs; the last one repeats.
        node_s: Durations of each node in successive profiled runs, by node name; 1 µs for other nodes.
        inner_runs: By the name of a node with nested graphs, how often each nested node is executed in a run.
            Nested nodes of other nodes are left out.
        record_s: The time that the profiler takes to record an execution of a nested node. It is added to the
            duration of the node that contains the graph, and to the run.
        outputs: Computes outputs from feeds, instead of zeros.
    """

    clock: ScriptedClock = field(default_factory=ScriptedClock)
    build_s: float = 0.5
    load_s: float = 0.25
    run_s: Sequence[float] = (0.01,)
    node_s: Mapping[str, Sequence[float]] = field(default_factory=dict)
    inner_runs: Mapping[str, int] = field(default_factory=dict)
    record_s: float = 0.0
    outputs: Callable[[Mapping[str, Array]], dict[str, Array]] | None = None
    name: str = "scripted"
    title: str = "Scripted engine"
    version: str = "1"

    def preload(self) -> None:
        """Does nothing; there is no library."""

    def build(self, program: OnnxProgram, folder: Path, options: EngineOptions) -> ScriptedSession:
        """Writes the program as every engine does; see `Engine.build`."""
        try:
            write_draft(folder / GRAPH_FILE, program.model.SerializeToString())
            program.write_weights(folder / WEIGHTS_FILE)
        except OSError as error:
            raise EngineError(f"cannot write the compiled model into {folder}: {error.strerror}") from error
        self.clock.advance(self.build_s)
        return ScriptedSession(self, folder, program.states)

    def load(self, folder: Path, options: EngineOptions, states: Sequence[StatePort] = ()) -> ScriptedSession:
        """Reads the graph; see `Engine.load`."""
        session = ScriptedSession(self, folder, states)
        self.clock.advance(self.load_s)
        return session


class ScriptedSession:
    """A session of `ScriptedEngine`."""

    def __init__(self, engine: ScriptedEngine, folder: Path, states: Sequence[StatePort]) -> None:
        import onnx

        try:
            self._graph = onnx.load(str(folder / GRAPH_FILE), load_external_data=False).graph
        except OSError as error:
            raise EngineError(f"{folder} does not hold a compiled model: {error.strerror}") from error
        self._engine = engine
        self._updates = {port.updated: port.value for port in states if port.updated is not None}
        self._runs = 0

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Returns zeros or scripted outputs; see `Session.run`."""
        given = {*feeds, *(tensor.name for tensor in self._graph.initializer)}
        missing = [value.name for value in self._graph.input if value.name not in given]
        if missing:
            raise EngineError(f"inputs of the scripted engine are missing: {', '.join(missing)}")
        durations = self._engine.run_s
        self._engine.clock.advance(durations[min(self._runs, len(durations) - 1)])
        self._runs += 1
        if self._engine.outputs is not None:
            return self._engine.outputs(feeds)
        return {value.name: _zeros(value.type.tensor_type) for value in self._graph.output}

    def hold(self, content: Mapping[str, Array]) -> ScriptedState:
        """Keeps the content of states; see `Session.hold`."""
        return ScriptedState(self.run, dict(content), self._updates)

    def node_times(self, feeds: Mapping[str, Array], iterations: int, warmups: int) -> NodeProfile:
        """Returns the scripted times of the lowered nodes, without fusion; see `Session.node_times`."""
        nodes: list[EngineNode] = []
        for node in self._graph.node:
            given = self._engine.node_s.get(node.name, (1e-6,))
            inner = list(self._nested(node, len(nodes), iterations))
            records = sum(each.runs for each in inner) / iterations * self._engine.record_s
            seconds = tuple(given[min(index, len(given) - 1)] + records for index in range(iterations))
            nodes += [_engine_node(node, seconds, None, iterations), *inner]
        top = [node for node in nodes if node.outer is None]
        runs = tuple(sum(node.seconds[index] for node in top) for index in range(iterations))
        return NodeProfile(tuple(nodes), runs, warmups)

    def _nested(self, node: Any, outer: int, iterations: int) -> Iterator[EngineNode]:
        count = self._engine.inner_runs.get(node.name, 0)
        graphs = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
        for inner in (inner for graph in graphs for inner in graph.node if count):
            yield _engine_node(inner, (0.0,) * iterations, outer, count * iterations)

    def close(self) -> None:
        """Does nothing; there are no resources to release."""


@dataclass(slots=True)
class ScriptedState:
    """The content of states of a `ScriptedSession`."""

    run_all: Callable[[Mapping[str, Array]], dict[str, Array]]
    content: dict[str, Array]
    updates: Mapping[str, str]

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Returns what the session does, states excluded; see `SessionState.run`."""
        results = self.run_all({**feeds, **self.content})
        self.content |= {value: results.pop(updated) for updated, value in self.updates.items()}
        return results

    def read(self, name: str) -> Array:
        """Copies the content of a state."""
        return self.content[name].copy()

    def write(self, name: str, content: Array) -> None:
        """Replaces the content of a state."""
        self.content[name] = content


def _engine_node(node: Any, seconds: tuple[float, ...], outer: int | None, runs: int) -> EngineNode:
    return EngineNode(
        name=node.name,
        op_type=node.op_type,
        inputs=tuple(name for name in node.input if name),
        outputs=tuple(name for name in node.output if name),
        seconds=seconds,
        outer=outer,
        runs=runs,
    )


def _zeros(type_: object) -> Array:
    from onnx import helper

    shape = [d.dim_value or 1 for d in type_.shape.dim]  # type: ignore[attr-defined]
    return np.zeros(shape, helper.tensor_dtype_to_np_dtype(type_.elem_type))  # type: ignore[attr-defined]
