"""Imports the output of `xcrun coreai-build inspect --json`: a summary of a Core AI model.

Apple has not published the form. The keys are those that a public program reads in it, and those of
`AIModelAsset.Summary` in Apple's documentation: functions with inputs and outputs, and with `--ops` the
number of operations of each type, which counts composites and their parts. Not yet confirmed on a Mac here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from coremlscope.base.errors import UsageError
from coremlscope.base.findings import Finding
from coremlscope.interop.listing import Imported, ListingOrigin
from coremlscope.interop.source import SourceFile, items, mapping, number, text

_SUMMARY, _OPS, _FUNCTIONS = "summary", "operationDistribution", "functions"
_LISTED = 8


def matches(source: SourceFile) -> bool:
    """By the keys of the summary."""
    if not source.looks_like_json or f'"{_SUMMARY}"'.encode() not in source.head:
        return False
    summary = source.json.get(_SUMMARY) if isinstance(source.json, Mapping) else None
    return isinstance(summary, Mapping) and (_OPS in summary or "compatibilityVersion" in summary)


def read(source: SourceFile, origin: ListingOrigin) -> Imported:
    """Reads the summary.

    Raises:
        UsageError: It is damaged.
    """
    content = source.json
    return Imported(origin=origin, findings=tuple(_findings(content, mapping(content, _SUMMARY), origin)))


def _findings(
    content: Mapping[str, Any], summary: Mapping[str, Any], origin: ListingOrigin
) -> Iterator[Finding]:
    functions = ", ".join(_function(one) for one in items(summary, _FUNCTIONS, where="summary."))
    if functions:
        yield Finding(
            id="core-ai-functions", severity="info", text=f"Functions in {origin.file}: {functions}."
        )
    counts = {
        text(one, "name"): int(number(one, "count") or 0) for one in items(summary, _OPS, where="summary.")
    }
    if counts:
        listed = sorted(counts.items(), key=lambda item: -item[1])
        shown = ", ".join(f"{name} ×{count}" for name, count in listed[:_LISTED])
        more = f" and {len(listed) - _LISTED} more types" if len(listed) > _LISTED else ""
        yield Finding(
            id="core-ai-operations",
            severity="info",
            text=f"Operations in {origin.file}: {shown}{more}. Composites and their parts count both.",
            hint="`coremlscope inspect --ops` on the .aimodel lists the operations themselves",
        )
    architectures, chips = (_names(content, key) for key in ("supportedArchitectures", "supportedChips"))
    if architectures:
        of = f" ({', '.join(chips)})" if chips else ""
        yield Finding(
            id="core-ai-architectures",
            severity="info",
            text=f"{origin.file} is of a model that is compiled for {', '.join(architectures)}{of}.",
        )


def _function(one: Mapping[str, Any]) -> str:
    sides = [
        ", ".join(f"{text(value, 'name')} {text(value, 'type')}".strip() for value in items(one, key))
        for key in ("inputs", "outputs")
    ]
    return f"{text(one, 'name')} ({sides[0]}) → ({sides[1]})"


def _names(content: Mapping[str, Any], key: str) -> list[str]:
    value = content.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise UsageError(f"{key} is not a list of names", "export the file again")
    return value[:_LISTED]
