"""Reads the profiles of a recording: the operations of each run, as events inside it."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from coremlscope.base.errors import CoremlscopeError
from coremlscope.formats import container
from coremlscope.measure.embedded.attribution import group_nodes
from coremlscope.results.events import KIND_CODES, NESTED
from coremlscope.runtime.engines.base import EngineNode
from coremlscope.runtime.engines.node_events import Key, read_nodes
from coremlscope.runtime.engines.onnxruntime import OPTIMISED_GRAPH
from coremlscope.runtime.execution.artefact import read_artefact
from coremlscope.runtime.execution.binding import bind_model

_SUFFIX = "_kernel_time"
_MOST_NAMES = 3
#: The most operations of a process that are shown.
_MOST_OPERATIONS = 1 << 20
_PREDICT, _RUN, _OPERATION = (KIND_CODES[name] for name in ("predict", "run", "operation"))

_Rows = npt.NDArray[Any]
#: An execution of a node of the engine: its start and duration in nanoseconds, and its name and operator.
_Node = tuple[int, int, Key]


class _Run(msgspec.Struct, frozen=True):
    """A run in a profile; times are nanoseconds from the start of the profile.

    Attributes:
        start: Its start.
        duration: Its duration.
        nodes: The executions of nodes.
    """

    start: int
    duration: int
    nodes: Sequence[_Node]


class OperationReader:
    """Makes events of the profiles of a process.

    Args:
        rows: The records of the process.
        models: The paths of its models, by number.
        strings: Its strings by number; labels are added.
    """

    def __init__(self, rows: _Rows, models: Mapping[int, str], strings: dict[int, str]) -> None:
        runs = rows[np.isin(rows["event"], (_RUN, _PREDICT))]
        self._runs = runs[np.argsort(runs["start"], kind="stable")]
        self._longest = int(runs["duration"].max()) if len(runs) else 0
        self._models = models
        self._strings = strings
        self._numbers = {text: number for number, text in strings.items()}
        self._count = 0

    def read(self, folder: Path, start_ns: int) -> Iterator[_Rows]:
        """Makes records of the operations of a session, inside the records of its runs.

        Args:
            folder: The folder of the profile.
            start_ns: When the profile began, in nanoseconds of `time.perf_counter_ns`.
        """
        labels: Mapping[Key, str] | None = None
        for run in _read_runs(folder):
            outer = self._around(start_ns + run.start + run.duration // 2)
            self._count += len(run.nodes)
            if outer is None or self._count > _MOST_OPERATIONS:
                continue
            if labels is None:
                labels = _labels(folder, self._model_of(outer))
            yield self._records(outer, start_ns, run, labels)

    def _around(self, moment: int) -> Any:
        """The record of the innermost run or prediction at a moment; None if later ones replaced it."""
        best = None
        position = int(np.searchsorted(self._runs["start"], moment, "right")) - 1
        while position >= 0:
            record = self._runs[position]
            start, duration = int(record["start"]), int(record["duration"])
            if start < moment - self._longest:
                break
            if start + duration >= moment and (best is None or duration < int(best["duration"])):
                best = record
                if int(record["event"]) == _RUN:
                    break
            position -= 1
        return best

    def _model_of(self, outer: Any) -> str:
        """The path of the model of the prediction around a run; empty if it is unknown."""
        start, end = int(outer["start"]), int(outer["start"]) + int(outer["duration"])
        is_around = (self._runs["start"] <= start) & (self._runs["start"] + self._runs["duration"] >= end)
        around = self._runs[is_around & (self._runs["thread"] == outer["thread"]) & (self._runs["model"] > 0)]
        return self._models.get(int(around["model"][0]), "") if len(around) else ""

    def _records(self, outer: Any, start_ns: int, run: _Run, labels: Mapping[Key, str]) -> _Rows:
        first, last = int(outer["start"]), int(outer["start"]) + int(outer["duration"])
        # The clocks differ by microseconds: the run is moved into its record.
        shift = min(max(start_ns + run.start, first), max(last - run.duration, first)) - run.start
        rows = np.repeat(np.array([outer]), len(run.nodes))
        starts = np.clip([start + shift for start, _, _ in run.nodes], first, last)
        ends = np.clip([start + shift + length for start, length, _ in run.nodes], first, last)
        rows["start"], rows["duration"] = starts, ends - starts
        rows["detail"] = [self._number(labels.get(key) or _plain(key)) for _, _, key in run.nodes]
        rows["event"], rows["flags"] = _OPERATION, NESTED
        rows["model"], rows["bytes"], rows["address"] = 0, 0, 0
        return rows

    def _number(self, label: str) -> int:
        text = f"detail {label}"
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = max(self._strings, default=0) + 1
            self._strings[number] = text
        return number


def _read_runs(folder: Path) -> Iterator[_Run]:
    """Reads the runs of a profile; nothing if it has not ended."""
    path = next(folder.glob("profile*.json"), None)
    if path is None:
        return
    nodes: dict[int, list[_Node]] = {}
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                event = json.loads(line.strip().rstrip(","))
                thread, start, duration = event["tid"], event["ts"] * 1000, event["dur"] * 1000
                name, kind = event["name"], event["cat"]
                if kind == "Node" and name.endswith(_SUFFIX):
                    key = (name.removesuffix(_SUFFIX), event["args"].get("op_name", ""))
                    nodes.setdefault(thread, []).append((start, duration, key))
            except (
                ValueError,
                KeyError,
                TypeError,
                AttributeError,
            ):  # A bracket, or a cut line.
                continue
            if name == "model_run":
                yield _Run(start, duration, _apart(nodes.pop(thread, [])))


def _apart(nodes: Sequence[_Node]) -> list[_Node]:
    """Separates neighbours, which seem to overlap because the profile has whole microseconds."""
    ordered = sorted(nodes, key=lambda node: (node[0], -node[1]))
    for index, (following, _, _) in enumerate(ordered[1:]):
        start, length, key = ordered[index]
        if 0 < start + length - following <= 1000:
            ordered[index] = (start, following - start, key)
    return ordered


def _plain(key: Key) -> str:
    """Returns the engine's name of a node."""
    name, op_type = key
    return name if op_type in name else f"{op_type} {name}"


def _labels(folder: Path, model: str) -> Mapping[Key, str]:
    """Maps engine nodes to the operations that they execute; empty for sessions created by the program."""
    try:
        manifest, program = read_artefact(folder)
        nodes = read_nodes(folder / OPTIMISED_GRAPH)
    except CoremlscopeError:
        return {}
    names = _names(model, manifest.function, tuple(sorted(manifest.shapes.items()))) if model else {}
    found: dict[Key, str] = {}
    for group in group_nodes(program, nodes):
        texts = [names.get(op, op) for op in sorted(group.ops, key=_place)]
        more = f" and {len(texts) - _MOST_NAMES} more" if len(texts) > _MOST_NAMES else ""
        label = " + ".join(texts[:_MOST_NAMES]) + more
        for index in group.nodes:
            found[_key(nodes[index])] = label or f"{nodes[index].op_type}, added by the engine"
    for node in nodes:
        outer = node
        while outer.outer is not None:
            outer = nodes[outer.outer]
        if outer is not node:
            found[_key(node)] = f"{node.op_type} inside {found.get(_key(outer), outer.op_type)}"
    return found


def _place(op_id: str) -> list[tuple[int, str]]:
    """The place of an operation in its program: `main/9` comes before `main/12`."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in op_id.split("/")]


def _key(node: EngineNode) -> Key:
    return node.name, node.op_type


@functools.lru_cache(maxsize=16)
def _names(path: str, function: str, shapes: tuple[tuple[str, tuple[int, ...]], ...]) -> dict[str, str]:
    """The type, the name and the id of each operation of a model, by id; empty if it cannot be read."""
    with contextlib.suppress(CoremlscopeError):
        graph = bind_model(container.read(Path(path)), function, dict(shapes)).function.graph
        return {
            op.id: f"{op.type} ({op.id})" if op.name == op.id else f"{op.type} {op.name} ({op.id})"
            for op in graph.walk()
        }
    return {}
