"""Compiled bundles of Core AI (`.aimodelc`): what their readable files tell of them.

The programs are in a format that is not published. `stats.json` counts operations and element types of the
source, `metadata.json` names the compiler, and the folders `main-ARCHITECTURE-delegates` hold what each
framework runs. (Source: bundles that coreai-build 3600.67 wrote.)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from coremlscope.base.units import shown
from coremlscope.formats.aimodel.bundle import find_compiled, read_metadata
from coremlscope.formats.external import compiled_model
from coremlscope.model import ir

_STATS, _DELEGATES = "stats.json", "-delegates"
_MOST_BYTES = 4 << 20


def read_compiled_bundle(path: Path) -> ir.Model:
    """Reads a compiled bundle as a model of which only the description is known.

    Raises:
        CorruptModelError: Its metadata are not a JSON object.
    """
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    interface = ir.FunctionDescription(inputs=(), outputs=())
    content = compiled_model(ir.CORE_AI, size)
    return ir.Model(
        spec_version=0,
        description=ir.Description({"main": interface}, "main"),
        content=replace(
            content,
            how_to_run="use the .aimodel bundle that it was compiled from",
            facts=(*content.facts, *list_facts(path)),
        ),
        metadata=read_metadata(path).metadata,
        source=path,
        container="aimodel",
        size_bytes=size,
    )


def list_facts(path: Path) -> Iterator[tuple[str, str]]:
    """Yields what readable files of a bundle tell, as pairs of a label and a text."""
    yield "compiled for", ", ".join(find_compiled(path))
    for folder in sorted(path.glob(f"*{_DELEGATES}")):
        names = ", ".join(shown(one.name) for one in sorted(folder.iterdir()) if one.is_dir())
        yield "delegates", f"{shown(folder.name.removesuffix(_DELEGATES))}: {names or 'none'}"
    stats = _stats(path / _STATS)
    for key, label in (("operationDistribution", "operations"), ("storageTypes", "stores in")):
        counts = _counts(stats.get(key))
        if counts:
            listed = ", ".join(f"{name} ×{count}" for name, count in counts)
            yield (
                label,
                f"{sum(count for _, count in counts)} in all: {listed}" if label == "operations" else listed,
            )
    types = stats.get("computeTypes")
    if isinstance(types, list) and types:
        yield "computes in", ", ".join(shown(str(name)) for name in types)


def _stats(file: Path) -> dict[str, Any]:
    if not file.is_file() or file.stat().st_size > _MOST_BYTES:
        return {}
    try:
        content = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _counts(rows: object) -> list[tuple[str, int]]:
    """Returns names and counts, most frequent first."""
    found = [
        (shown(str(row["name"])), row["count"])
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict) and "name" in row and type(row.get("count")) is int
    ]
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))
