"""Reads the lines `[CostModelFeature]` that Core ML's compiler writes to the system log.

They are written after `defaults write -g espresso.e5compiler.log_cost_model -bool YES`, while a model is
compiled for the first time. Form as public parsers read it (Anemll/anemll-profile): the operation's name and
type, then keys and values; `Runtime` is in milliseconds, and `Bound:Memory` or `Bound:Compute` is one key.
"""

from __future__ import annotations

import heapq
import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from coremlscope.base.units import escape_controls

_MARK = "[CostModelFeature],"
_TYPE = re.compile(r"(?:ios\d+\.)?([a-z_][a-z0-9_]{0,63})$")
_PRIVATE = "<private>"
#: Most characters of a name, most types that are counted, and most operations and types that are listed.
_LONGEST_NAME, _MOST_TYPES, _LISTED = 80, 500, 10
_MOST_TOKENS = 256


class CostLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line: what Core ML's cost model says of an operation on one backend.

    Attributes:
        name: The operation's name; `<private>` where the system hides it.
        type: Its type, without the operation set.
        runtime_ms: The planned time in milliseconds; None if the line has none.
        bound: `Memory` or `Compute`; empty if the line does not say.
    """

    name: str
    type: str
    runtime_ms: float | None = None
    bound: str = ""


@dataclass(slots=True, kw_only=True)
class LoggedTypeCost:
    """The lines of one type of operation.

    Attributes:
        type: The type.
        lines: How many lines there are. An operation has one for each backend that was considered.
        longest_ms: The longest planned time.
        memory_bound: How many lines say that memory bounds the operation.
        compute_bound: How many say that arithmetic does.
    """

    type: str
    lines: int = 0
    longest_ms: float = 0.0
    memory_bound: int = 0
    compute_bound: int = 0


class Costs(msgspec.Struct, frozen=True):
    """Costs that the lines of a log state.

    Attributes:
        lines: How many lines there are.
        types: By type, the longest planned time first, at most 10.
        slowest: The lines with the longest planned times, at most 10.
        are_private: True if the system hid names of operations.
    """

    lines: int
    types: Sequence[LoggedTypeCost]
    slowest: Sequence[CostLine]
    are_private: bool


def parse_cost(text: str) -> CostLine | None:
    """Reads a line; None for any other line, and for one that names no type."""
    _, mark, rest = text.partition(_MARK)
    if not mark:
        return None
    tokens = [token.strip() for token in rest.split(",", _MOST_TOKENS)]
    found = [_TYPE.match(token) for token in tokens[1:3]]
    # The type has an operation set, or is the third token.
    named = next(
        (match for match in found if match and match[0].startswith("ios")), found[-1] if found else None
    )
    if named is None:
        return None
    pairs = dict(itertools.pairwise(tokens))
    bound = next((token.partition(":")[2] for token in tokens if token.startswith("Bound:")), "")
    return CostLine(
        name=escape_controls(tokens[0][:_LONGEST_NAME]),
        type=named[1],
        runtime_ms=_number(pairs.get("Runtime", "")),
        bound=bound if bound in ("Memory", "Compute") else "",
    )


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


class CostTable:
    """Collects the lines of a log; its size does not grow with them."""

    def __init__(self) -> None:
        self._lines = 0
        self._types: dict[str, LoggedTypeCost] = {}
        self._slowest: list[tuple[float, int, CostLine]] = []
        self._are_private = False

    def add(self, line: CostLine) -> None:
        """Adds a line."""
        self._lines += 1
        self._are_private |= line.name == _PRIVATE
        if line.runtime_ms is not None:
            heapq.heappush(self._slowest, (line.runtime_ms, -self._lines, line))
            if len(self._slowest) > _LISTED:
                heapq.heappop(self._slowest)
        if line.type not in self._types and len(self._types) >= _MOST_TYPES:
            return
        found = self._types.setdefault(line.type, LoggedTypeCost(type=line.type))
        found.lines += 1
        found.memory_bound += line.bound == "Memory"
        found.compute_bound += line.bound == "Compute"
        found.longest_ms = max(found.longest_ms, line.runtime_ms or 0.0)

    def costs(self) -> Costs | None:
        """Returns the costs of the lines added so far; None if there are none."""
        if not self._lines:
            return None
        types = sorted(self._types.values(), key=lambda one: -one.longest_ms)[:_LISTED]
        slowest = [line for *_, line in sorted(self._slowest, key=lambda entry: entry[:2], reverse=True)]
        return Costs(self._lines, types, slowest, self._are_private)
