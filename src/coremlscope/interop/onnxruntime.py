"""Imports what ONNX Runtime writes of sessions: logs, profiles, and assignments of operators to providers.

A log has, for each round of partitioning, a line for each operator (at the level VERBOSE) and one with
counts; a profile (`enable_profiling`) has an event for each operator of each run, a Core ML model being one
operator; an assignment is the result of `get_provider_graph_assignment_info`, as a list of objects with
`ep_name` and `nodes`. (Sources: microsoft/onnxruntime, `coreml_execution_provider.cc`, `builders/helper.cc`,
`core/framework/session_state.cc`, `core/common/profiler.cc`; the forms of lines in public logs.)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coremlscope.base.errors import UsageError
from coremlscope.base.units import escape_controls
from coremlscope.interop.listing import Imported, ListingOrigin
from coremlscope.interop.phases import measurement_of
from coremlscope.interop.source import SourceFile, items, mapping, number, text
from coremlscope.results.provider import CORE_ML_PROVIDER, LoggedNode, ProviderLog, Round

_TOOL = "ONNX Runtime"
_BEGINNINGS = (b":onnxruntime:", CORE_ML_PROVIDER.encode(), b"Operator type: [")
_LINE = re.compile(
    r"(?P<session>Initializing session\.)"
    r"|Operator type: \[(?P<op>[^\]\n]*)\] index: \[\d+\] name: \[(?P<name>[^\n]*?)\]"
    r" supported: \[(?P<taken>[01])\]"
    r"|(?:coreml_execution_provider\.cc:(?P<place>\d+)[^\n]{0,200}?)?"
    r"number of partitions supported by CoreML:"
    r"\s*(?P<partitions>\d+)\s+number of nodes in the graph:\s*(?P<nodes>\d+)"
    r"\s+number of nodes supported by CoreML:\s*(?P<supported>\d+)"
    r"|nodes? ?(?:\(s\))? placed on \[(?P<provider>\w+)\]\.\s+Number of nodes:\s*(?P<placed>\d+)",
    re.IGNORECASE,
)
#: What a builder of the provider says before the line of an operator.
_REASON = re.compile(
    r"\[[VIW]:onnxruntime:[^,\]]*, (?:\w*builder\w*|helper|shape_utils|utils)\.cc:\d+ \w+\] ?([^\n]+)\n"
)
_MOST_REASON = 240
#: The releases of lines in the source.
_RELEASES: Mapping[str, tuple[str, str]] = {
    "113": ("1.24", "1.26"),
    "115": ("1.24", "1.26"),
    "137": ("1.27", "1.32"),
}
_MICROSECOND = 1e-6
_HINT = "set the session's log_severity_level to 1, or to 0 for a line for each operator"


def matches(source: SourceFile) -> bool:
    """By the tag of its lines; profiles and assignments by the keys of their first object."""
    if not source.looks_like_json:
        return any(one in source.head for one in _BEGINNINGS)
    data = source.json
    first = data[0] if isinstance(data, list) and data else None
    return isinstance(first, Mapping) and (
        "ep_name" in first or (first.get("cat") in ("Session", "Node") and "ph" in first)
    )


def read(source: SourceFile, origin: ListingOrigin) -> Imported:
    """Reads a file.

    Raises:
        UsageError: It is damaged, or says nothing of the provider.
    """
    if not source.looks_like_json:
        logs = tuple(_sessions(source.name, source.content.decode("utf-8", "replace")))
        if not logs:
            raise UsageError(f"{source.path} has no line of the Core ML provider", _HINT)
        return Imported(origin=origin, provider_logs=logs)
    listed = items({"events": source.json}, "events")
    if "ep_name" in listed[0]:
        return Imported(origin=origin, provider_logs=(_assignment(source.name, listed),))
    return _profile(source.name, listed, origin)


def _sessions(file: str, content: str) -> Iterator[ProviderLog]:
    """Yields what a log says, session by session."""
    matches_, start = list(_LINE.finditer(content)), 0
    begins = [index for index, one in enumerate(matches_) if one["session"]]
    found = 0
    for end in (*(begins if begins[:1] != [0] else begins[1:]), len(matches_)):
        log = _session(file, found + 1, content, matches_[start:end])
        start = end
        if log.rounds or log.placed or log.nodes:
            found += 1
            yield log


def _session(file: str, session: int, content: str, lines: Sequence[re.Match[str]]) -> ProviderLog:
    rounds: list[Round] = []
    nodes: list[LoggedNode] = []
    placed: dict[str, int] = {}
    releases: tuple[str, ...] = ()
    last = lines[0].start() if lines else 0
    for line in lines:
        if line["taken"] and not rounds:
            said = _REASON.findall(content, last, line.start())
            is_taken = line["taken"] == "1"
            reason = escape_controls(said[-1].strip()[:_MOST_REASON]) if said and not is_taken else ""
            nodes.append(
                LoggedNode(
                    op=escape_controls(line["op"]),
                    name=escape_controls(line["name"]),
                    is_taken=is_taken,
                    reason=reason,
                )
            )
        elif line["partitions"]:
            releases = releases or _RELEASES.get(line["place"] or "", ())
            rounds.append(
                Round(
                    partitions=int(line["partitions"]),
                    nodes=int(line["nodes"]),
                    supported=int(line["supported"]),
                    line=" ".join(escape_controls(line[0].replace("\n", " ")).split()),
                )
            )
        elif line["provider"]:
            placed[line["provider"]] = int(line["placed"])
        last = line.end()
    return ProviderLog(
        file=file,
        session=session,
        rounds=tuple(rounds),
        nodes=tuple(nodes),
        placed=placed,
        releases=releases,
    )


def _assignment(file: str, graphs: Sequence[Mapping[str, Any]]) -> ProviderLog:
    nodes: list[LoggedNode] = []
    placed = Counter[str]()
    for graph in graphs:
        provider, listed = text(graph, "ep_name"), items(graph, "nodes")
        is_taken = provider == CORE_ML_PROVIDER
        placed[provider] += 1 if is_taken else len(listed)
        nodes += [
            LoggedNode(op=text(one, "op_type"), name=text(one, "name"), is_taken=is_taken) for one in listed
        ]
    return ProviderLog(file=file, nodes=tuple(nodes), placed=placed)


def _profile(file: str, events: Sequence[Mapping[str, Any]], origin: ListingOrigin) -> Imported:
    runs, loads = [], []
    seconds: dict[str, float] = {}
    names: dict[str, set[str]] = {}
    for event in events:
        duration, name = (number(event, "dur") or 0.0) * _MICROSECOND, text(event, "name")
        if name == "model_run":
            runs.append(duration)
        elif name == "session_initialization":
            loads.append(duration)
        elif name.endswith("_kernel_time"):
            provider = text(mapping(event, "args"), "provider") or "unknown"
            names.setdefault(provider, set()).add(name)
            seconds[provider] = seconds.get(provider, 0.0) + duration
    if not runs or not names:
        raise UsageError(f"{file} has no run of a model", "run the session before `end_profiling`")
    measured = measurement_of(origin, {"predict": runs, "load": loads}, tool=_TOOL)
    log = ProviderLog(
        file=file,
        placed={provider: len(known) for provider, known in names.items()},
        runs=len(runs),
        seconds={provider: total / len(runs) for provider, total in seconds.items()},
    )
    return Imported(origin=origin, measurements=() if measured is None else (measured,), provider_logs=(log,))
