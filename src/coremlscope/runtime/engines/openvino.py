"""The OpenVINO engine, on the host's CPU, over the same lowered graph."""

from __future__ import annotations

import functools
import importlib.metadata
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coremlscope.base.budget import return_memory
from coremlscope.base.errors import EngineError, MissingDependencyError, how_to_install
from coremlscope.model.ir import Array
from coremlscope.ops.program import OnnxProgram
from coremlscope.runtime.engines.base import GRAPH_FILE, EngineNode, EngineOptions, NodeProfile, write_program

if TYPE_CHECKING:
    import onnx

__all__ = ["OpenVinoEngine"]

#: The keys of a node of the compiled graph.
_SOURCES, _KIND = "originalLayersNames", "layerType"
#: Nodes of the compiled graph that pass values on.
_PORTS = frozenset({"Input", "Output", "Parameter", "Result", "Const", "Constant"})
#: The reader of the graph's own outputs, among the places of nodes.
_OUTSIDE = -1
_LONGEST = 400


class OpenVinoEngine:
    """Runs lowered programs with OpenVINO's CPU kernels, in float32 as the graph says."""

    name = "openvino"
    title = "OpenVINO"

    @property
    def version(self) -> str:
        """The version of OpenVINO."""
        return _installed_version()

    def preload(self) -> None:
        """Imports OpenVINO; see `Engine.preload`."""
        _core()

    def build(self, program: OnnxProgram, folder: Path, options: EngineOptions) -> OpenVinoSession:
        """Writes `graph.onnx` and `weights.bin` into `folder` and loads them; see `Engine.build`."""
        _core()
        write_program(program, folder)
        return OpenVinoSession(folder, options)

    def load(self, folder: Path, options: EngineOptions) -> OpenVinoSession:
        """Loads the program that `build` wrote; see `Engine.load`."""
        if not (folder / GRAPH_FILE).is_file():
            raise EngineError(f"{folder} does not hold a compiled model", "compile the model again")
        return OpenVinoSession(folder, options)


class OpenVinoSession:
    """A graph loaded into OpenVINO. Its files must stay, as OpenVINO maps the weights."""

    def __init__(self, folder: Path, options: EngineOptions) -> None:
        self._folder, self._options = folder, options
        compiled = _compile(folder, options, is_profiled=False)
        self._request: Any = compiled.create_infer_request()
        graph = _read_graph(folder).graph
        self._inputs = _names(compiled.inputs, [port.name for port in graph.input])
        self._outputs = _names(compiled.outputs, [port.name for port in graph.output])
        # A request runs one prediction at a time, and its arrays are read before the next one.
        self._lock = threading.Lock()

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Runs the graph; see `Session.run`."""
        if self._request is None:
            raise EngineError("the session is closed")
        with self._lock:
            return _infer(self._request, self._inputs, self._outputs, feeds)

    def node_times(self, feeds: Mapping[str, Array], iterations: int, warmups: int) -> NodeProfile:
        """Times every node; see `Session.node_times`. Nodes inside loops are part of their loop."""
        compiled = _compile(self._folder, self._options, is_profiled=True)
        request = compiled.create_infer_request()
        runs: list[dict[str, float]] = []
        seconds = []
        for _ in range(warmups + iterations):
            began = time.perf_counter()
            _infer(request, self._inputs, self._outputs, feeds)
            seconds.append(time.perf_counter() - began)
            runs.append({row.node_name: row.real_time.total_seconds() for row in request.profiling_info})
        nodes = tuple(_nodes(self._folder, compiled.get_runtime_model(), runs[warmups:]))
        del request, compiled
        return_memory()
        return NodeProfile(nodes, tuple(seconds[warmups:]), warmups)

    def close(self) -> None:
        """Releases OpenVINO's memory; see `Session.close`."""
        self._request = None
        return_memory()


@functools.cache
def _installed_version() -> str:
    return importlib.metadata.version("openvino")


@functools.cache
def _core() -> Any:
    try:
        import openvino
    except ImportError:
        raise MissingDependencyError(
            "--engine openvino needs OpenVINO", f"{how_to_install('openvino')} installs it"
        ) from None
    return openvino.Core()


def _compile(folder: Path, options: EngineOptions, *, is_profiled: bool) -> Any:
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": options.thread_count,
        "PERF_COUNT": is_profiled,
    }
    with _failures("load the model"):
        return _core().compile_model(str(folder / GRAPH_FILE), "CPU", settings)


def _read_graph(folder: Path) -> onnx.ModelProto:
    import onnx

    return onnx.load(str(folder / GRAPH_FILE), load_external_data=False)


def _names(ports: Sequence[Any], declared: Sequence[str]) -> list[str]:
    """Returns the graph's own name of each port, which also has the names of copies of its value."""
    return [
        name if name in port.get_names() else next(iter(port.get_names() & set(declared)), name)
        for port, name in zip(ports, declared, strict=True)
    ]


def _infer(
    request: Any, inputs: list[str], outputs: list[str], feeds: Mapping[str, Array]
) -> dict[str, Array]:
    with _failures("run the model"):
        found = request.infer([feeds[name] for name in inputs], share_inputs=True, share_outputs=True)
        # The arrays are those of the request, which the next run overwrites.
        return {name: np.array(found[place]) for place, name in enumerate(outputs)}


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
