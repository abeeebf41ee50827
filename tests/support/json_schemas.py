"""Checks JSON against the part of JSON Schema (2020-12) that the project writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["KEYWORDS", "violations"]

#: Every keyword that is understood here; a schema with another one is refused.
KEYWORDS = frozenset(
    {
        *("$schema", "$defs", "$ref", "title", "description"),
        *("type", "const", "enum", "allOf", "anyOf", "oneOf"),
        *("properties", "required", "additionalProperties"),
        *("items", "prefixItems", "minItems", "maxItems"),
    }
)

_TYPES: Mapping[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
}


def violations(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], place: str = "$") -> list[str]:
    """Where a value does not follow a schema, one line each.

    Args:
        value: Plain JSON values.
        schema: The schema, or a part of one.
        root: The whole schema, which holds `$defs`.
        place: Where the value stands.

    Raises:
        ValueError: The schema has a keyword that is not understood here.
    """
    if not schema.keys() <= KEYWORDS:
        raise ValueError(f"keywords that are not checked: {sorted(schema.keys() - KEYWORDS)}")
    return list(_violations(value, schema, root, place))


def _violations(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], place: str) -> Iterator[str]:
    if "$ref" in schema:
        yield from violations(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, place)
    if "type" in schema and not _is_type(value, schema["type"]):
        yield f"{place} is not of the type {schema['type']}"
    if "const" in schema and value != schema["const"]:
        yield f"{place} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place} is none of {schema['enum']}"
    for part in schema.get("allOf", ()):
        yield from violations(value, part, root, place)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            found = [violations(value, part, root, place) for part in schema[keyword]]
            fitting = sum(not lines for lines in found)
            if fitting == 0 or (keyword == "oneOf" and fitting > 1):
                yield f"{place} fits {fitting} of {len(found)} forms"
    if isinstance(value, dict):
        yield from _of_object(value, schema, root, place)
    if isinstance(value, list):
        yield from _of_array(value, schema, root, place)


def _is_type(value: Any, name: str) -> bool:
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, _TYPES[name])


def _of_object(
    value: dict[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any], place: str
) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{place} lacks {name}"
    for name, inner in value.items():
        if name in known:
            yield from violations(inner, known[name], root, f"{place}.{name}")
        elif isinstance(schema.get("additionalProperties"), dict):
            yield from violations(inner, schema["additionalProperties"], root, f"{place}.{name}")


def _of_array(
    value: list[Any], schema: Mapping[str, Any], root: Mapping[str, Any], place: str
) -> Iterator[str]:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{place} has {len(value)} items"
    first: Sequence[Any] = schema.get("prefixItems", ())
    for index, inner in enumerate(value):
        part = first[index] if index < len(first) else schema.get("items", {})
        if isinstance(part, dict):
            yield from violations(inner, part, root, f"{place}[{index}]")
