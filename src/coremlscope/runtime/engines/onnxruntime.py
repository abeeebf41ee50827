"""The ONNX Runtime engine, on the host's CPU."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
import sys
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from coremlscope.base.budget import return_memory
from coremlscope.base.errors import EngineError
from coremlscope.base.libraries import import_quietly
from coremlscope.base.scratch import scratch_folder
from coremlscope.model.ir import Array
from coremlscope.ops.program import OnnxProgram, StatePort
from coremlscope.runtime.engines.base import GRAPH_FILE, EngineOptions, NodeProfile, write_program
from coremlscope.runtime.engines.host import logical_processors
from coremlscope.runtime.engines.node_events import read_nodes, read_runs

#: ONNX Runtime logs to standard error; every failure is also raised as an exception.
_FATAL_ONLY = 4
#: Limit of node executions in one profile. The profiler stops at a million, and writes 0.5 kB for each.
_MOST_EXECUTIONS = 200_000
#: The file that `save_structure` makes.
OPTIMISED_GRAPH = "optimised.onnx"
_OPTIMISED_WEIGHTS = "optimised.bin"


@functools.cache
def _installed_version() -> str:
    """Returns the installed version. The lookup takes as long as compiling a small model, so it is cached."""
    return importlib.metadata.version("onnxruntime")


class OnnxRuntimeEngine:
    """Runs lowered programs with ONNX Runtime's CPU kernels."""

    name = "onnxruntime"
    title = "ONNX Runtime"

    @property
    def version(self) -> str:
        """The version of ONNX Runtime."""
        return _installed_version()

    def preload(self) -> None:
        """Imports ONNX Runtime; see `Engine.preload`."""
        _library()

    def build(self, program: OnnxProgram, folder: Path, options: EngineOptions) -> OnnxRuntimeSession:
        """Writes `graph.onnx` and `weights.bin` into `folder` and loads them; see `Engine.build`."""
        graph = write_program(program, folder)
        return OnnxRuntimeSession(graph, folder, options, program.states)

    def load(
        self, folder: Path, options: EngineOptions, states: Sequence[StatePort] = ()
    ) -> OnnxRuntimeSession:
        """Loads the program that `build` wrote; see `Engine.load`."""
        try:
            graph = (folder / GRAPH_FILE).read_bytes()
        except OSError as error:
            raise EngineError(
                f"{folder} does not hold a compiled model: {error.strerror or error}",
                "compile the model again",
            ) from error
        return OnnxRuntimeSession(graph, folder, options, states)


class OnnxRuntimeSession:
    """A graph loaded into ONNX Runtime."""

    def __init__(
        self, graph: bytes, folder: Path, options: EngineOptions, states: Sequence[StatePort] = ()
    ) -> None:
        self._graph = graph
        self._folder = folder
        self._options = options
        self._session: Any = _create(graph, _session_options(folder, options))
        self._outputs: list[str] = [output.name for output in self._session.get_outputs()]
        #: The value that holds what becomes of a state, by the value that takes its content.
        self._updates = {port.value: port.updated for port in states if port.updated is not None}
        self._held: weakref.WeakSet[_OnnxRuntimeState] = weakref.WeakSet()

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Runs the graph; see `Session.run`."""
        return dict(zip(self._outputs, _run(self._opened(), self._outputs, feeds), strict=True))

    def hold(self, content: Mapping[str, Array]) -> _OnnxRuntimeState:
        """Keeps the content of states; see `Session.hold`."""
        held = _OnnxRuntimeState(self, content, self._updates)
        self._held.add(held)
        return held

    def bind(self, inputs: Mapping[str, Any], changed: Mapping[str, Any]) -> Any:
        """Binds values of ONNX Runtime to inputs, and to outputs, which take the results."""
        binding = self._opened().io_binding()
        for name in self._outputs:
            if name not in changed:
                binding.bind_output(name)
        for name, value in inputs.items():
            binding.bind_ortvalue_input(name, value)
        for name, value in changed.items():
            binding.bind_ortvalue_output(name, value)
        return binding

    def run_bound(self, binding: Any, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Runs the graph on a binding and arrays for its other inputs; returns the outputs of no state."""
        session = self._opened()
        with _failures("run the model"):
            given = {name: _ort_value(array) for name, array in feeds.items()}
            for name, value in given.items():
                binding.bind_ortvalue_input(name, value)
            outputs = [name for name in self._outputs if name not in self._updates.values()]
            for name in outputs:  # takes new memory, as the shape may be another one
                binding.bind_output(name)
            session.run_with_iobinding(binding)
            return {name: value.numpy() for name, value in zip(outputs, binding.get_outputs(), strict=False)}

    def _opened(self) -> Any:
        if self._session is None:
            raise EngineError("the session is closed")
        return self._session

    def node_times(self, feeds: Mapping[str, Array], iterations: int, warmups: int) -> NodeProfile:
        """Times every node; see `Session.node_times`."""
        import onnx

        graph = onnx.ModelProto.FromString(self._graph).graph
        if any(attribute.HasField("g") for node in graph.node for attribute in node.attribute):
            # The number of executions of nested nodes is known only after a run, and the profiler's log is
            # limited.
            pilot = self._profile(feeds, 1, 0)
            executions = sum(node.runs for node in pilot.nodes)
            if not executions:
                return pilot
            iterations = min(iterations, max(1, _MOST_EXECUTIONS // executions))
            warmups = min(warmups, iterations)
        return self._profile(feeds, iterations, warmups)

    def _profile(self, feeds: Mapping[str, Array], iterations: int, warmups: int) -> NodeProfile:
        """Runs the graph with the profiler enabled; `nodes` is empty if the profile is incomplete."""
        with scratch_folder() as name:
            scratch = Path(name)
            options = _session_options(self._folder, self._options)
            save_structure(options, scratch)
            options.enable_profiling = True
            options.profile_file_prefix = str(scratch / "profile")
            session = _create(self._graph, options)
            seconds = []
            for _ in range(warmups + iterations):
                start = time.perf_counter()
                _run(session, self._outputs, feeds)
                seconds.append(time.perf_counter() - start)
            with _failures("profile the model"):
                runs = read_runs(Path(session.end_profiling()), warmups)
            del session
            nodes = read_nodes(scratch / OPTIMISED_GRAPH, runs)
        return_memory()
        is_complete = len(runs) == iterations
        return NodeProfile(nodes if is_complete else (), tuple(seconds[warmups:]), warmups)

    def close(self) -> None:
        """Releases ONNX Runtime's memory; see `Session.close`. The session is not in a reference cycle."""
        for held in self._held:
            held.unbind()
        self._session = None
        return_memory()


class _OnnxRuntimeState:
    """The content of states, and as much space for the next one: a run reads one and writes the other."""

    def __init__(
        self, session: OnnxRuntimeSession, content: Mapping[str, Array], updates: Mapping[str, str]
    ) -> None:
        self._session, self._updates = session, updates
        #: The binding of the next run, and of the one after it.
        self._bindings: list[Any] = []
        self._content = {name: _ort_value(array) for name, array in content.items()}
        self._next = {updated: _ort_value(np.empty_like(content[name])) for name, updated in updates.items()}

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Runs the graph; see `SessionState.run`."""
        if not self._bindings:
            following = {**self._content, **{name: self._next[made] for name, made in self._updates.items()}}
            present = {made: self._content[name] for name, made in self._updates.items()}
            self._bindings = [
                self._session.bind(self._content, self._next),
                self._session.bind(following, present),
            ]
        results = self._session.run_bound(self._bindings[0], feeds)
        self._bindings.reverse()
        for name, updated in self._updates.items():
            self._content[name], self._next[updated] = self._next[updated], self._content[name]
        return results

    def unbind(self) -> None:
        """Lets go of the session's memory."""
        self._bindings = []

    def read(self, name: str) -> Array:
        """Copies the content of a state."""
        return np.array(self._content[name].numpy())

    def write(self, name: str, content: Array) -> None:
        """Replaces the content of a state."""
        self._content[name] = _ort_value(content)
        self.unbind()


def _ort_value(array: Array) -> Any:
    """The array as a value of ONNX Runtime, which shares its memory."""
    return _library().OrtValue.ortvalue_from_numpy(np.asarray(array, order="C"))


@functools.cache
def _library() -> Any:
    """Imports ONNX Runtime, without telemetry, even where a script has imported it before."""
    onnxruntime = import_quietly("onnxruntime")
    onnxruntime.disable_telemetry_events()
    onnxruntime.set_default_logger_severity(_FATAL_ONLY)
    return onnxruntime


def _session_options(folder: Path, options: EngineOptions) -> Any:
    settings = _library().SessionOptions()
    settings.log_severity_level = _FATAL_ONLY
    settings.intra_op_num_threads = options.thread_count
    if not options.fuses:
        settings.graph_optimization_level = _library().GraphOptimizationLevel.ORT_DISABLE_ALL
    if options.thread_count > logical_processors() or not options.fuses:
        # Spinning threads would take processors from working threads, such as those of a reference.
        settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    settings.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    return settings


def save_structure(settings: Any, scratch: Path) -> None:
    """Makes ONNX Runtime save the optimised graph, without its weights if the system allows that.

    ONNX Runtime always writes the weights to a file next to the graph. On systems with a null device, that
    file is a link to it.
    """
    settings.optimized_model_filepath = str(scratch / OPTIMISED_GRAPH)
    entry = settings.add_session_config_entry
    entry("session.optimized_model_external_initializers_file_name", _OPTIMISED_WEIGHTS)
    entry("session.optimized_model_external_initializers_min_size_in_bytes", "0")
    if sys.platform != "win32":
        (scratch / _OPTIMISED_WEIGHTS).symlink_to(os.devnull)


def _create(graph: bytes, settings: Any) -> Any:
    with _failures("load the model"):
        return _library().InferenceSession(graph, settings, providers=["CPUExecutionProvider"])


def _run(session: Any, outputs: list[str], feeds: Mapping[str, Array]) -> list[Array]:
    with _failures("run the model"):
        results: list[Array] = session.run(outputs, dict(feeds))
    return results


_PREFIX = re.compile(r"^(?:\[ONNXRuntimeError\] : \d+ : \w+ : )+")
_SOURCE = re.compile(r"\S*/onnxruntime/\S+:\d+ .*?\) ?(?=\S)")
_LONGEST = 400
#: Texts in ONNX Runtime's messages of failed allocations.
_OUT_OF_MEMORY = ("bad_alloc", "bad allocation", "Failed to allocate memory")
_NO_MEMORY, _LESS_MEMORY = (
    "it needs more memory than is free",
    "free memory, or set smaller shapes with --shape",
)


@contextmanager
def _failures(action: str) -> Iterator[None]:
    """Converts exceptions of ONNX Runtime to `EngineError` with a one-sentence message."""
    try:
        yield
    except EngineError:
        raise
    except MemoryError:  # std::bad_alloc
        raise EngineError(f"ONNX Runtime cannot {action}: {_NO_MEMORY}", _LESS_MEMORY) from None
    except Exception as error:  # ONNX Runtime's exceptions have no other common base class
        text = _PREFIX.sub("", " ".join(str(error).split()))
        text = _SOURCE.sub("", text).strip().rstrip(".")
        if any(part in text for part in _OUT_OF_MEMORY):
            raise EngineError(f"ONNX Runtime cannot {action}: {_NO_MEMORY}", _LESS_MEMORY) from error
        text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
        raise EngineError(f"ONNX Runtime cannot {action}: {text}") from error
