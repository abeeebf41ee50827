"""The engine interface. An engine builds a session from a lowered program, runs it and times its nodes."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from coremlscope.base.errors import EngineError, UsageError
from coremlscope.base.units import format_bytes
from coremlscope.base.writing import write_draft
from coremlscope.model.ir import Array
from coremlscope.ops.program import WEIGHTS_FILE, OnnxProgram, StatePort
from coremlscope.runtime.engines.host import physical_cores

#: The file name of the graph in an engine's build folder; the weights are next to it.
GRAPH_FILE = "graph.onnx"


class EngineOptions(msgspec.Struct, frozen=True):
    """User settings of an engine.

    Attributes:
        threads: Number of threads per operation; None for one per physical core.
        fuses: Lets the engine fuse and rearrange operations. Without that, it is slower, and an operation's
            result does not depend on the operations around it.

    Raises:
        UsageError: The number of threads is not positive.
    """

    threads: int | None = None
    fuses: bool = True

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise UsageError(f"--threads must be at least 1, not {self.threads}")

    @property
    def thread_count(self) -> int:
        """The number of threads, with the default resolved."""
        return self.threads or physical_cores()


class EngineNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the graph as the engine runs it, after the engine's own optimisations.

    Attributes:
        name: The engine's name for it.
        op_type: The engine's name for its operator.
        inputs: Names of the values that it reads, including those read inside its nested graphs.
        outputs: Names of the values that it produces.
        seconds: Time spent in it during each profiled run, nested nodes included; 0 for a run that did not
            execute it.
        outer: For a node of a nested graph, the index of the node that contains the graph; otherwise None.
        runs: Number of its executions in all profiled runs.
    """

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    seconds: tuple[float, ...]
    outer: int | None = None
    runs: int = 0


class NodeProfile(msgspec.Struct, frozen=True):
    """The results of the engine's own profiler.

    Attributes:
        nodes: Every node, in execution order, each before the nodes of its nested graphs. Empty if a single
            run exceeds the profiler's capacity.
        seconds: Total time of each profiled run, measured around the call as for any prediction.
        warmups: Number of preceding runs that were discarded.
    """

    nodes: tuple[EngineNode, ...]
    seconds: tuple[float, ...]
    warmups: int


class SessionState(Protocol):
    """The content of the states of a graph, which the engine keeps from one run to the next.

    States go by the names of the ONNX values that take their content. Not for several threads at once.
    """

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Runs the graph like `Session.run`, states excluded; a failure leaves the content as it was."""

    def read(self, name: str) -> Array:
        """Copies the content of a state, also after the session was closed."""

    def write(self, name: str, content: Array) -> None:
        """Replaces the content of a state by an array of the same shape and type."""


class Session(Protocol):
    """A loaded graph that can be run."""

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Runs a graph without states.

        Args:
            feeds: An array for each input, by the name of the ONNX value.

        Returns:
            Every output, by the name of the ONNX value.

        Raises:
            EngineError: The engine failed.
        """

    def hold(self, content: Mapping[str, Array]) -> SessionState:
        """Keeps the content of states, by the names of the ONNX values that take it.

        Raises:
            EngineError: The engine failed, or the session is closed.
        """

    def node_times(self, feeds: Mapping[str, Array], iterations: int, warmups: int) -> NodeProfile:
        """Times every node, in a separate session with the profiler enabled.

        The feeds include the content of states.

        Also works after `close`, so that a model need not be in memory twice. If a run executes very many
        nodes (a loop), fewer runs are profiled than requested.

        Raises:
            EngineError: The engine failed.
        """

    def close(self) -> None:
        """Releases the engine's memory. The session cannot be run afterwards."""


class Engine(Protocol):
    """A library that runs lowered programs."""

    @property
    def name(self) -> str:
        """The name of the engine: `onnxruntime`."""

    @property
    def title(self) -> str:
        """Its name for people: `ONNX Runtime`."""

    @property
    def version(self) -> str:
        """The version of the engine."""

    def preload(self) -> None:
        """Imports the library of the engine, so that the first session does not wait for it."""

    def build(self, program: OnnxProgram, folder: Path, options: EngineOptions) -> Session:
        """Writes the program into an existing folder and loads it.

        Raises:
            EngineError: The engine rejected the graph, or the folder cannot be written.
            MissingWeightsError: A weight file is missing.
        """

    def load(self, folder: Path, options: EngineOptions, states: Sequence[StatePort] = ()) -> Session:
        """Loads the program that `build` wrote, whose states are given.

        Raises:
            EngineError: The folder does not contain a built program, or the engine rejected the program.
        """


def write_program(program: OnnxProgram, folder: Path) -> bytes:
    """Writes the graph and its weights into a folder, and returns the graph.

    Raises:
        EngineError: There is no space, or the folder cannot be written.
        MissingWeightsError: A weight file is missing.
    """
    try:
        free = shutil.disk_usage(folder).free
        if program.weights_bytes > free:
            raise EngineError(
                f"the unpacked weights take {format_bytes(program.weights_bytes)}, but {folder} has "
                f"{format_bytes(free)} of free space",
                "free some disk space, or choose another folder",
            )
        graph: bytes = program.model.SerializeToString()
        write_draft(folder / GRAPH_FILE, graph)
        program.write_weights(folder / WEIGHTS_FILE)
    except OSError as error:
        reason = error.strerror or str(error)
        raise EngineError(
            f"cannot write the compiled model into {folder}: {reason}",
            "free some disk space, or choose another folder",
        ) from error
    return graph
