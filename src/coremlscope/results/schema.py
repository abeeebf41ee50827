"""The JSON Schema of results, derived from the dataclasses."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from coremlscope.results.encoding import MODEL, PROFILE, PROFILES
from coremlscope.results.model import ModelSummary
from coremlscope.results.plan_encoding import PlanColumns, schema_hook
from coremlscope.results.profile import Profile


def json_schema() -> dict[str, Any]:
    """Returns the JSON Schema (2020-12) of profiles, lists of profiles and model summaries."""
    (profile, model, _), definitions = msgspec.json.schema_components(
        [Profile, ModelSummary, PlanColumns], schema_hook=schema_hook, ref_template="#/$defs/{name}"
    )
    forms = [
        _form(profile, PROFILE),
        _form(model, MODEL),
        {
            "type": "object",
            "properties": {
                "schema": {"const": PROFILES},
                "profiles": {"type": "array", "items": _form(profile, PROFILE)},
            },
            "required": ["schema", "profiles"],
        },
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Results of coremlscope",
        "oneOf": forms,
        "$defs": {name: _tidy(definition) for name, definition in sorted(definitions.items())},
    }


def json_schema_of(kind: type, title: str) -> dict[str, Any]:
    """Returns the JSON Schema (2020-12) of a dataclass and of those in it."""
    (root,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **root,
        "$defs": {name: _tidy(definition) for name, definition in sorted(definitions.items())},
    }


def _form(reference: Mapping[str, Any], name: str) -> dict[str, Any]:
    named = {"type": "object", "properties": {"schema": {"const": name}}, "required": ["schema"]}
    return {"allOf": [named, dict(reference)]}


def _tidy(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the descriptions of a class and its fields from the docstring."""
    plain_values: dict[str, Any] = _without_defaults(definition)
    text, fields = docstring_parts(definition.get("description", ""))
    plain_values["description"] = text
    for name, value in plain_values.get("properties", {}).items():
        if name in fields:
            value["description"] = fields[name]
    return plain_values


def _without_defaults(value: Any) -> Any:
    """Removes defaults, some of which are Python objects."""
    if isinstance(value, Mapping):
        return {key: _without_defaults(inner) for key, inner in value.items() if key != "default"}
    return [_without_defaults(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def docstring_parts(docstring: str) -> tuple[str, dict[str, str]]:
    """Splits the docstring of a dataclass into the text on the class and the text on each field.

    Paragraphs are single lines; Python's constants are spelled as in JSON.
    """
    text, _, section = inspect.cleandoc(docstring).partition("\n\nAttributes:\n")
    entries = re.findall(r"^    (\w+): (.*(?:\n {6,}.*)*)", section, re.M)
    paragraphs = (_in_json_terms(paragraph) for paragraph in text.split("\n\n"))
    return "\n\n".join(paragraphs), {name: _in_json_terms(entry) for name, entry in entries}


def _in_json_terms(text: str) -> str:
    line = " ".join(text.split())
    for constant, spelling in (("None", "null"), ("True", "true"), ("False", "false")):
        line = re.sub(rf"\b{constant}\b", spelling, line)
    return line
