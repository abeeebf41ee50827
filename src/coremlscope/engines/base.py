"""What an engine is: it builds a session from a lowered program, runs it, and times its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from coremlscope.engines.host import physical_cores
from coremlscope.errors import UsageError
from coremlscope.ir import Array
from coremlscope.ops.program import OnnxProgram

__all__ = ["GRAPH_FILE", "Engine", "EngineNode", "EngineOptions", "NodeProfile", "Session"]

#: The name of the graph in the folder that an engine builds into; the weights lie beside it.
GRAPH_FILE = "graph.onnx"


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What a person may set on an engine.

    Attributes:
        threads: Threads that work on one operation; None for one per physical core.

    Raises:
        UsageError: The number of threads is not positive.
    """

    threads: int | None = None

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise UsageError(f"--threads must be at least 1, not {self.threads}")

    @property
    def thread_count(self) -> int:
        """The number of threads meant."""
        return self.threads or physical_cores()


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineNode:
    """A node of the graph as the engine runs it, after its own rewriting.

    Attributes:
        name: The engine's name of it.
        op_type: The engine's name of its operator.
        inputs: Names of the values that it reads, those read inside its nested graphs included.
        outputs: Names of the values that it makes.
        seconds: Time spent in it during each profiled run, nested nodes included. A node that a run did
            not reach has 0 there.
        outer: For a node of a nested graph: index of the node that holds the graph. None at the top.
        runs: How often it was executed over all profiled runs.
    """

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    seconds: tuple[float, ...]
    outer: int | None = None
    runs: int = 0


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """What the engine's own profiler saw.

    Attributes:
        nodes: Every node, in the order of execution, each before the nodes of its nested graphs. Empty
            where a single run is more than the profiler can keep.
        seconds: Time of each profiled run as a whole, taken around the call like any prediction's.
        warmups: How many runs came before and were dropped.
    """

    nodes: tuple[EngineNode, ...]
    seconds: tuple[float, ...]
    warmups: int


class Session(Protocol):
    """A graph that is loaded and can be run."""

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Runs the graph.

        Args:
            feeds: An array for each input, by the name of its ONNX value.

        Returns:
            Every output, by the name of its ONNX value.

        Raises:
            EngineError: The engine failed.
        """

    def node_times(self, feeds: Mapping[str, Array], iterations: int, warmups: int) -> NodeProfile:
        """Times every node, in a session of its own whose profiler is on.

        Works on a closed session too, so that one model need not be in memory twice. Where a run executes
        very many nodes (a loop), fewer runs are profiled than asked for.

        Raises:
            EngineError: The engine failed.
        """

    def close(self) -> None:
        """Lets go of the engine's memory; the session cannot be run afterwards."""


class Engine(Protocol):
    """Something that runs lowered programs."""

    @property
    def name(self) -> str:
        """What it is called: `onnxruntime`."""

    @property
    def version(self) -> str:
        """Its version."""

    def build(self, program: OnnxProgram, folder: Path, options: EngineOptions) -> Session:
        """Writes the program into a folder that exists, and loads it.

        Raises:
            EngineError: The engine refused the graph, or the folder cannot be written.
            MissingWeightsError: A weight lies in a file that is absent.
        """

    def load(self, folder: Path, options: EngineOptions) -> Session:
        """Loads what `build` wrote.

        Raises:
            EngineError: The folder does not hold what `build` writes, or the engine refused it.
        """
