"""Files of Core AI about a small model, in the forms that coreai-core and community code show."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["NOT_ON_ANE", "core_ai_debug_info", "core_ai_events", "core_ai_inspection"]

NOT_ON_ANE = "Incompatible element type for ANE: expected fp16, f8E4M3, si8, ui8, si16, or ui16"


def _wrapped(value: Any) -> Any:
    """A value as Swift encodes it."""
    match value:
        case str():
            return {"string": {"_0": value}}
        case int():
            return {"integer": {"_0": value}}
        case list():
            return {"array": {"_0": [_wrapped(one) for one in value]}}
    return {"dictionary": {"_0": {name: _wrapped(one) for name, one in value.items()}}}


def _op(
    name: str, node: str, *, stack: list[str], units: list[str], reason: str = "", number: int = 0
) -> Any:
    metadatas = [
        {"key": "sources", "value": _wrapped([{"name": "torch", "id": 1, "identifiers": [node]}])},
        {"key": "call_stack", "value": _wrapped(stack)},
        *({"key": "residency", "value": _wrapped(unit)} for unit in units),
    ]
    if reason:
        metadatas.append({"key": "ane_validation_message", "value": _wrapped(reason)})
    return {"name": name, "odixId": number, "metadatas": metadatas, "sourceLocations": []}


def core_ai_debug_info() -> str:
    """Two operations, on the Neural Engine and, with the reason, on the GPU; the last residency counts."""
    ops = [
        _op("relu_1", "relu", stack=["ReLU$1", "Net$1"], units=["GPU", "ANE"], number=1),
        _op("cast_1", "to", stack=["Net$1"], units=["ANE", "GPU"], reason=NOT_ON_ANE, number=2),
    ]
    return json.dumps([{"identifier": "MPSGraph_optimized_op_id", "operations": ops}])


def core_ai_events(*rows: tuple[str, int, int, int]) -> str:
    """Lines of intervals: name, number, begin and end in nanoseconds."""
    marks = []
    for place, (name, number, begin, end) in enumerate(rows):
        both = {"event_id": name, "id": number, "interval": place, "phase": "inference"}
        marks += [(begin, 0, {**both, "kind": "begin"}), (end, 1, {**both, "kind": "end"})]
    marks.sort(key=lambda mark: mark[:2])
    return "\n".join(json.dumps({**event, "timestamp": at}) for at, _, event in marks)


def core_ai_inspection(**changes: Any) -> str:
    """Returns the JSON of `coreai-build inspect --ops --json`, with the keys that public programs read."""
    value = {"name": "x", "type": "NDArray (Float32, 2 × 3)"}
    summary = {
        "compatibilityVersion": "27.0",
        "functions": [{"name": "main", "inputs": [value], "outputs": [{**value, "name": "y"}]}],
        "operationDistribution": [{"name": "relu", "count": 1}, {"name": "constant", "count": 4}],
        **changes,
    }
    return json.dumps({"summary": summary, "supportedArchitectures": ["h13g"], "supportedChips": ["M1"]})
