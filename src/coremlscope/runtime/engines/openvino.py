"""The OpenVINO engine, on the host's CPU, over the same lowered graph."""

from __future__ import annotations

import functools
import importlib.metadata
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coremlscope.base.budget import return_memory
from coremlscope.base.errors import EngineError, MissingDependencyError, how_to_install
from coremlscope.base.libraries import import_quietly
from coremlscope.model.ir import Array
from coremlscope.ops.program import OnnxProgram, StatePort
from coremlscope.runtime.engines.base import (
    GRAPH_FILE,
    EngineNode,
    EngineOptions,
    NodeProfile,
    Session,
    write_program,
)
from coremlscope.runtime.engines.onnxruntime import OnnxRuntimeEngine

if TYPE_CHECKING:
    import onnx

#: The keys of a node of the compiled graph.
_SOURCES, _KIND = "originalLayersNames", "layerType"
#: Nodes of the compiled graph that pass values on.
_PORTS = frozenset({"Input", "Output", "Parameter", "Result", "Const", "Constant"})
#: The reader of the graph's own outputs, among the places of nodes.
_OUTSIDE = -1
_LONGEST = 400


class OpenVinoEngine:
    """Runs lowered programs with OpenVINO's CPU kernels, in float32: it leaves out all rounding to fp16.

    Programs that record what rounding does are run by ONNX Runtime. States are variables of OpenVINO.
    """

    name = "openvino"
    title = "OpenVINO"

    @property
    def version(self) -> str:
        """The version of OpenVINO."""
        return _installed_version()

    def preload(self) -> None:
        """Imports OpenVINO; see `Engine.preload`."""
        _core()

    def build(self, program: OnnxProgram, folder: Path, options: EngineOptions) -> Session:
        """Writes `graph.onnx` and `weights.bin` into `folder` and loads them; see `Engine.build`."""
        if program.ranges is not None:
            return OnnxRuntimeEngine().build(program, folder, options)
        _core()
        write_program(program, folder)
        return OpenVinoSession(folder, options, program.states)

    def load(self, folder: Path, options: EngineOptions, states: Sequence[StatePort] = ()) -> OpenVinoSession:
        """Loads the program that `build` wrote; see `Engine.load`."""
        if not (folder / GRAPH_FILE).is_file():
            raise EngineError(f"{folder} does not hold a compiled model", "compile the model again")
        return OpenVinoSession(folder, options, states)


class OpenVinoSession:
    """A graph loaded into OpenVINO. Its files must stay, as OpenVINO maps the weights."""

    def __init__(self, folder: Path, options: EngineOptions, states: Sequence[StatePort]) -> None:
        self._folder, self._options = folder, options
        #: The value that holds what becomes of a state, by the value that takes its content.
        self._updates = {port.value: port.updated for port in states if port.updated is not None}
        self._compiled = _compile(folder, options, self._updates, is_profiled=False)
        graph = _read_graph(folder).graph
        inputs = [port.name for port in graph.input if port.name not in self._updates]
        outputs = [port.name for port in graph.output if port.name not in self._updates.values()]
        self._inputs, self._outputs = (
            _names(self._compiled.inputs, inputs),
            _names(self._compiled.outputs, outputs),
        )
        self._request = None if states else self._compiled.create_infer_request()
        self._held: weakref.WeakSet[_OpenVinoState] = weakref.WeakSet()
        # A request runs one prediction at a time, and its arrays are read before the next one.
        self._lock = threading.Lock()

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Runs the graph; see `Session.run`."""
        if self._request is None:
            raise EngineError("the session is closed")
        with self._lock:
            return self._infer(self._request, feeds)

    def hold(self, content: Mapping[str, Array]) -> _OpenVinoState:
        """Keeps the content of states in a request of its own; see `Session.hold`."""
        if self._compiled is None:
            raise EngineError("the session is closed")
        held = _OpenVinoState(self._compiled.create_infer_request(), content, self._updates, self._infer)
        self._held.add(held)
        return held

    def node_times(self, feeds: Mapping[str, Array], iterations: int, warmups: int) -> NodeProfile:
        """Times every node; see `Session.node_times`. Nodes inside loops are part of their loop."""
        compiled = _compile(self._folder, self._options, self._updates, is_profiled=True)
        request = compiled.create_infer_request()
        runs: list[dict[str, float]] = []
        seconds = []
        for _ in range(warmups + iterations):
            began = time.perf_counter()
            self._infer(request, feeds)
            seconds.append(time.perf_counter() - began)
            runs.append({row.node_name: row.real_time.total_seconds() for row in request.profiling_info})
        nodes = tuple(_nodes(self._folder, compiled.get_runtime_model(), runs[warmups:]))
        del request, compiled
        return_memory()
        return NodeProfile(nodes, tuple(seconds[warmups:]), warmups)

    def _infer(self, request: Any, feeds: Mapping[str, Array]) -> dict[str, Array]:
        with _failures("run the model"):
            # A request that is given its inputs takes 25 µs longer to hand them on.
            for place, name in enumerate(self._inputs):
                request.set_input_tensor(place, _shared(feeds[name]))
            request.infer(share_outputs=True)
            # The arrays are those of the request, which the next run overwrites.
            return {
                name: np.array(request.get_output_tensor(place).data)
                for place, name in enumerate(self._outputs)
            }

    def close(self) -> None:
        """Releases OpenVINO's memory; see `Session.close`."""
        for held in self._held:
            held.close()
        self._request = self._compiled = None
        return_memory()


class _OpenVinoState:
    """The content of states as variables of a request, and of those that no run changes as arrays."""

    def __init__(
        self,
        request: Any,
        content: Mapping[str, Array],
        updates: Mapping[str, str],
        infer: Callable[[Any, Mapping[str, Array]], dict[str, Array]],
    ) -> None:
        self._request, self._infer = request, infer
        found = {variable.name: variable for variable in request.query_state()}
        self._variables = {value: found[value + updated] for value, updated in updates.items()}
        self._content = dict(content)
        for name in self._variables:
            self.write(name, self._content.pop(name))

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Runs the graph; see `SessionState.run`."""
        if self._request is None:
            raise EngineError("the session is closed")
        return self._infer(self._request, {**feeds, **self._content})

    def read(self, name: str) -> Array:
        """Copies the content of a state."""
        variable = self._variables.get(name)
        return np.array(self._content[name] if variable is None else variable.state.data)

    def write(self, name: str, content: Array) -> None:
        """Replaces the content of a state."""
        if name in self._variables:
            self._variables[name].state = _library().Tensor(content)
        else:
            self._content[name] = content

    def close(self) -> None:
        """Releases the request; the content stays."""
        self._content |= {name: self.read(name) for name in self._variables}
        self._variables, self._request = {}, None


@functools.cache
def _installed_version() -> str:
    return importlib.metadata.version("openvino")


@functools.cache
def _library() -> Any:
    try:
        return import_quietly("openvino")
    except ImportError:
        raise MissingDependencyError(
            "--engine openvino needs OpenVINO", f"{how_to_install('openvino')} installs it"
        ) from None


@functools.cache
def _core() -> Any:
    return _library().Core()


def _shared(array: Array) -> Any:
    """Returns a tensor of OpenVINO, with the memory of an array where that is possible."""
    is_shared = array.flags.c_contiguous and array.flags.writeable
    return _library().Tensor(array, shared_memory=is_shared)


def _compile(folder: Path, options: EngineOptions, updates: Mapping[str, str], *, is_profiled: bool) -> Any:
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": options.thread_count,
        "PERF_COUNT": is_profiled,
    }
    with _failures("load the model"):
        model = _core().read_model(str(folder / GRAPH_FILE))
        if updates:
            from openvino._offline_transformations import apply_make_stateful_transformation

            apply_make_stateful_transformation(model, dict(updates))
        return _core().compile_model(model, "CPU", settings)


def _read_graph(folder: Path) -> onnx.ModelProto:
    import onnx

    return onnx.load(str(folder / GRAPH_FILE), load_external_data=False)


def _names(ports: Sequence[Any], declared: Sequence[str]) -> list[str]:
    """Returns the graph's own name of each port, which also has the names of copies of its value."""
    return [
        name if name in port.get_names() else next(iter(port.get_names() & set(declared)), name)
        for port, name in zip(ports, declared, strict=True)
    ]


def _nodes(folder: Path, graph: Any, runs: list[dict[str, float]]) -> Iterator[EngineNode]:
    """Yields the nodes of the compiled graph, each with the values that its original nodes read and make."""
    model = _read_graph(folder).graph
    originals = list(model.node)
    places = {name: place for place, one in enumerate(originals) for name in (one.name, *one.output) if name}
    readers: dict[str, set[int]] = {port.name: {_OUTSIDE} for port in model.output}
    for place, one in enumerate(originals):
        for value in one.input:
            readers.setdefault(value, set()).add(place)
    for node in graph.get_ordered_ops():
        facts = node.get_rt_info()
        kind, name = str(facts[_KIND].astype(str)), node.get_friendly_name()
        runs_s = [run[name] for run in runs if name in run]
        if kind in _PORTS or not runs_s:  # what is folded when the graph is compiled has no time
            continue
        names = str(facts[_SOURCES].astype(str)).split(",")
        own = sorted({places[source.strip()] for source in names if source.strip() in places})
        reads, makes = _ends(own, originals, readers)
        yield EngineNode(
            name=name,
            op_type=kind,
            inputs=reads,
            outputs=makes,
            seconds=tuple(run.get(name, 0.0) for run in runs),
            runs=len(runs_s),
        )


def _ends(
    own: Sequence[int], originals: Sequence[onnx.NodeProto], readers: Mapping[str, set[int]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the values that nodes, by their places, read from others, and that others read from them."""
    made = [value for place in own for value in originals[place].output]
    read = (value for place in own for value in originals[place].input if value and value not in made)
    makes = (value for value in made if not readers.get(value, set()) <= set(own))
    return tuple(dict.fromkeys(read)), tuple(makes)


@contextmanager
def _failures(action: str) -> Iterator[None]:
    """Converts exceptions of OpenVINO to `EngineError` with a one-sentence message."""
    try:
        yield
    except KeyError as error:
        raise EngineError(f"OpenVINO cannot {action}: the input {error} is missing") from None
    except Exception as error:  # OpenVINO raises RuntimeError and its subclasses
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        text = " ".join(lines)[-_LONGEST:]
        raise EngineError(f"OpenVINO cannot {action}: {text}") from error
