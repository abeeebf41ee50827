"""Reads the chips' files `chips/*.toml`, and checks each of them as a whole."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

#: The numbers that a file may state, by part of the chip.
_FACTS: Mapping[str, frozenset[str]] = {
    "cpu": frozenset(
        {
            *("bandwidth_Bps", "efficiency_clock_Hz", "efficiency_cores", "l2_bytes", "matrix_FLOPps"),
            *("performance_clock_Hz", "performance_clusters", "performance_cores"),
        }
    ),
    "gpu": frozenset({"bandwidth_Bps", "clock_Hz", "cores", "fp16_FLOPps", "fp32_FLOPps", "matrix_speedup"}),
    "neural_engine": frozenset(
        {
            *("clock_Hz", "cores", "dispatch_floor_s", "dual_speedup", "fp16_FLOPps", "generation"),
            *("peak_OPps", "weight_stream_Bps", "working_set_bytes"),
        }
    ),
    "memory": frozenset({"bandwidth_Bps", "one_unit_bandwidth_Bps", "system_cache_bytes"}),
}
_TEXTS = ("id", "name", "family", "platform")
_TABLES = frozenset({*_TEXTS, *_FACTS, "releases", "devices"})


@functools.cache
def chip_tables() -> tuple[Mapping[str, Any], ...]:
    """Returns the content of every file.

    Raises:
        ValueError: A file is not one of a chip; the text names it.
    """
    import tomllib

    found = []
    for file in Path(__file__).with_name("chips").iterdir():
        if file.name.endswith(".toml"):
            table = tomllib.loads(file.read_text(encoding="utf-8"))
            if problem := next(check_chip(table), ""):
                raise ValueError(f"{file.name}: {problem}")
            found.append(table)
    return tuple(found)


@functools.cache
def newest_system() -> int:
    """Returns the newest major version of iOS and macOS, which the newest chips begin with."""
    versions = (one for table in chip_tables() for one in table["releases"].values())
    return max(version for version in versions if isinstance(version, int))


def check_chip(table: Mapping[str, Any]) -> Iterator[str]:
    """Yields what is wrong with the content of a chip's file."""
    yield from (f"{name} is missing" for name in _TEXTS if not isinstance(table.get(name), str))
    yield from (f"unknown table {name!r}" for name in sorted(set(table) - _TABLES))
    releases = table.get("releases")
    if not isinstance(releases, Mapping) or not releases.get("source"):
        yield "[releases] with the first systems and their source is missing"
    elif table.get("platform") not in releases:
        yield f"[releases] does not say the first {table.get('platform')}"
    if "generation" not in table.get("neural_engine", {}):
        yield "[[neural_engine.generation]] is missing"
    for part, known in _FACTS.items():
        for name, facts in table.get(part, {}).items():
            if name not in known:
                yield f"unknown number {part}.{name}; known ones: {', '.join(sorted(known))}"
            elif not isinstance(facts, list) or not all(map(_is_fact, facts)):
                yield f"{part}.{name} needs a value above 0, a source and a kind"


def _is_fact(fact: object) -> bool:
    if not isinstance(fact, Mapping):
        return False
    value = fact.get("value")
    is_number = isinstance(value, int | float) and value > 0
    return is_number and bool(fact.get("source")) and bool(fact.get("kind"))
