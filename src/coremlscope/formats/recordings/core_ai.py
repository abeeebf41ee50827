"""Reads what Core AI reports on its runs: a loaded model's debug information, and saved logs of its profiler.

The form of `AIModel._debug_infos` and of the events follows coreai-core 1.0.0b3 on Linux, and for a Mac
coreai_torch.debugging and community code: a record whose operations have the key `residency` gives the unit
of each (not yet confirmed on a device). File names and paths of the author are not read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from coremlscope.base.errors import UsageError

#: The numbering of the operations that the interpreter runs.
INTERPRETER = "odix_op_id"
_HINT = "save the debug information or the events again"
#: More events or operations than any recording or model has.
_MOST_EVENTS, _MOST_OPS = 5_000_000, 500_000
#: The interval of a whole prediction, and of loading a function.
_EXECUTE, _LOAD = "Function Execute", "Function Load"


class DebugOp(msgspec.Struct, frozen=True, kw_only=True):
    """An operation of the debug information.

    Attributes:
        record: The numbering that it belongs to: `odix_op_id`, `MPSGraph_optimized_op_id`.
        name: Its name in this numbering.
        id: Its number, to which events refer; None if it has none.
        ops: The numbers that coreai-core gave to the operations of the file that it was made from.
        layers: The path of the module and the node in PyTorch of everything that it was made from, as a
            reader of the model names its layers: `Sequential$1/Linear$2/addmm`.
        residency: The unit that Core AI chose: `ANE`, `GPU`, `CPU`; empty if it is unknown.
        reason: Why the Neural Engine does not take it, in Core AI's words.
        results: Which result of which of the file's operations each result is: its place among the own
            results, the number of the operation, and the place among its results.
    """

    record: str
    name: str
    id: int | None
    ops: tuple[int, ...] = ()
    layers: tuple[str, ...] = ()
    residency: str = ""
    reason: str = ""
    results: tuple[tuple[int, int, int], ...] = ()


class Interval(msgspec.Struct, frozen=True):
    """One interval of the profiler: its name, the number of its operation, seconds."""

    name: str
    op: int | None
    seconds: float


class LoggedPrediction(msgspec.Struct, frozen=True):
    """A prediction: its seconds, and the intervals within it."""

    seconds: float
    intervals: tuple[Interval, ...]


class LoggedEvents(msgspec.Struct, frozen=True):
    """The content of a log: seconds of loads of functions, and predictions."""

    loads_s: tuple[float, ...]
    calls: tuple[LoggedPrediction, ...]


def read_debug_info(data: Any) -> tuple[DebugOp, ...]:
    """Reads debug information, as plain JSON values.

    Raises:
        UsageError: It is not of this form.
    """
    if not isinstance(data, list) or not all(isinstance(record, Mapping) for record in data):
        raise UsageError("this is not debug information of Core AI", _HINT)
    found: list[DebugOp] = []
    for record in data:
        ops = record.get("operations")
        if not isinstance(ops, list):
            continue
        if len(found) + len(ops) > _MOST_OPS:
            raise UsageError(f"the debug information has more than {_MOST_OPS} operations", _HINT)
        name = str(record.get("identifier", ""))
        found += [_debug_op(name, op) for op in ops if isinstance(op, Mapping)]
    if not found:
        raise UsageError("the debug information has no operations", _HINT)
    return tuple(found)


def _debug_op(record: str, op: Mapping[str, Any]) -> DebugOp:
    stacks: list[list[str]] = []
    nodes: list[str] = []
    numbers: list[int] = []
    units: list[str] = []
    reasons: list[str] = []
    results: list[tuple[int, int, int]] = []
    listed = op.get("metadatas")
    for metadata in listed if isinstance(listed, list) else []:
        if not isinstance(metadata, Mapping):
            continue
        value = _plain(metadata.get("value"))
        match metadata.get("key"):
            case "call_stack" if isinstance(value, list):
                stacks.append([str(name) for name in value])
            case "sources" if isinstance(value, list):
                nodes += _nodes(value)
            case "op_id" if isinstance(value, Mapping) and value.get("type") == "coreai":
                numbers += [value["value"]] if isinstance(value.get("value"), int) else []
            case "output_maps" if isinstance(value, list):
                results += _results(value)
            case "residency":
                units.append(str(value))
            case "ane_validation_message":
                reasons.append(str(value))
    number = op.get("odixId")
    return DebugOp(
        record=record,
        name=str(op.get("name", "")),
        id=number if isinstance(number, int) else None,
        ops=tuple(dict.fromkeys(numbers)),
        layers=tuple(dict.fromkeys(_layers(stacks, nodes))),
        residency=units[-1] if units else "",
        reason="; ".join(dict.fromkeys(reasons)),
        results=tuple(dict.fromkeys(results)),
    )


def _results(maps: list[Any]) -> Iterator[tuple[int, int, int]]:
    """Yields which results of the file's operations an operation of the interpreter has."""
    for found in maps:
        source, target = (
            (found.get(end) for end in ("source", "target")) if isinstance(found, Mapping) else (0, 0)
        )
        if not isinstance(source, Mapping) or not isinstance(target, Mapping):
            continue
        levels = (source.get("level"), target.get("level"))
        match target.get("output"), source.get("id"), source.get("output"):
            case int(own), int(number), int(place) if levels == ("coreai", "odix"):
                yield own, number, place


def _layers(stacks: list[list[str]], nodes: list[str]) -> Iterator[str]:
    """Yields the names of layers: stacks are innermost first and end with the whole module."""
    for place, node in enumerate(nodes):
        stack = stacks[min(place, len(stacks) - 1)] if stacks else []
        yield "/".join([*reversed(stack[:-1]), node])


def _nodes(sources: list[Any]) -> Iterator[str]:
    for source in sources:
        if isinstance(source, Mapping) and isinstance(source.get("identifiers"), list):
            yield from (str(name) for name in source["identifiers"])


def _plain(value: Any, depth: int = 0) -> Any:
    """Unwraps a value of Swift's encoding, `{"string": {"_0": "x"}}`."""
    if depth > 16 or not isinstance(value, Mapping) or len(value) != 1:
        return value
    ((kind, held),) = value.items()
    inner = held.get("_0") if isinstance(held, Mapping) else None
    match kind:
        case "array" if isinstance(inner, list):
            return [_plain(one, depth + 1) for one in inner]
        case "dictionary" if isinstance(inner, Mapping):
            return {name: _plain(one, depth + 1) for name, one in inner.items()}
        case "string" | "integer" | "float" | "double" | "bool":
            return inner
    return value


def read_events(lines: Iterable[bytes]) -> LoggedEvents:
    """Reads a log: an object of JSON for each call of the profiler, as `on_log_event…` got them.

    Raises:
        UsageError: A line is damaged, or there are no intervals.
    """
    opened: dict[object, Mapping[str, Any]] = {}
    loads: list[float] = []
    calls: list[LoggedPrediction] = []
    waiting: dict[object, list[Interval]] = defaultdict(list)
    depth = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        event = _event(line, number)
        if event.get("kind") == "begin":
            opened[event.get("interval")] = event
            depth += event.get("event_id") == _EXECUTE
            continue
        found = _interval(event, opened)
        if found is None:
            continue
        if found.name == _LOAD:
            loads.append(found.seconds)
        elif found.name == _EXECUTE:
            depth -= 1
            calls.append(LoggedPrediction(found.seconds, tuple(waiting.pop("", ()))))
        elif depth > 0:
            waiting[""].append(found)
    if not loads and not calls:
        raise UsageError("the log has no interval of a load or a prediction", _HINT)
    return LoggedEvents(tuple(loads), tuple(calls))


def _event(line: bytes, number: int) -> Mapping[str, Any]:
    if number > _MOST_EVENTS:
        raise UsageError(f"the log has more than {_MOST_EVENTS} events", _HINT)
    try:
        event = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"line {number} of the log is not valid JSON: {error}", _HINT) from error
    if not isinstance(event, Mapping) or not isinstance(event.get("event_id"), str):
        raise UsageError(f"line {number} of the log is not an event of Core AI", _HINT)
    return event


def _interval(event: Mapping[str, Any], opened: dict[object, Mapping[str, Any]]) -> Interval | None:
    """Returns the interval that an event ends, or that it reports as a whole, as on a Mac; else None."""
    number = event.get("id")
    op = number if isinstance(number, int) else None
    if event.get("kind") == "end":
        begin = opened.pop(event.get("interval"), None)
        if begin is None:
            return None
        nanoseconds = _number(event.get("timestamp")) - _number(begin.get("timestamp"))
        return Interval(event["event_id"], op, max(nanoseconds, 0.0) / 1e9)
    encoded = event.get("encoded_data")
    reported = encoded.get("interval") if isinstance(encoded, Mapping) else None
    if isinstance(reported, Mapping) and "duration" in reported:
        return Interval(event["event_id"], op, _number(reported["duration"]) / 1e9)
    return None


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e19:
        raise UsageError("a time of the log is not a number", _HINT)
    return float(value)
