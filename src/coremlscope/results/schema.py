"""The JSON schema of results, derived from the dataclasses.

The dataclasses are the schema: msgspec encodes, validates and describes them, so nothing is defined twice.
Unknown keys are ignored and absent keys take their defaults, so that neighbouring versions read each other's
files. A change that breaks this increases the number in `PROFILE`, and `upgrade` converts the older form.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from coremlscope.errors import UsageError
from coremlscope.results.model import ModelSummary
from coremlscope.results.profile import Profile
from coremlscope.results.upgrade import upgrade_profile

__all__ = [
    "MODEL",
    "PROFILE",
    "PROFILES",
    "SCHEMAS",
    "decode",
    "docstring_parts",
    "json_schema",
    "plain",
    "profile_from_json",
    "profiles_from_json",
    "to_json",
]

#: Names and versions of the schemas that are written.
PROFILE = "coremlscope.profile/2"
PROFILES = "coremlscope.profiles/2"
MODEL = "coremlscope.model/2"

_OLD_PROFILE = "coremlscope.profile/1"
#: The schema of each type of result.
SCHEMAS: Mapping[type, str] = {Profile: PROFILE, ModelSummary: MODEL}

Result = TypeVar("Result")


def plain(result: Any) -> Any:
    """Converts a result to plain JSON values, without the schema's name."""
    return msgspec.to_builtins(result, str_keys=True)


def to_json(result: Profile | ModelSummary | Sequence[Profile]) -> dict[str, Any]:
    """Converts a result to plain JSON values, with the schema's name."""
    if isinstance(result, (Profile, ModelSummary)):
        return {"schema": SCHEMAS[type(result)], **plain(result)}
    return {"schema": PROFILES, "profiles": [to_json(profile) for profile in result]}


def decode(data: object, type_: type[Result]) -> Result:
    """Converts plain JSON values to a result.

    Raises:
        UsageError: A value is missing or has the wrong type.
    """
    try:
        return msgspec.convert(data, type_)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UsageError(f"this profile is damaged: {error}", "profile the model again") from error


def profile_from_json(data: object) -> Profile:
    """Converts plain JSON values to a profile; older versions are upgraded.

    Raises:
        UsageError: The data are not a profile, follow an unknown version, or are damaged.
    """
    schema = data.get("schema") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or not str(schema).startswith("coremlscope.profile/"):
        hint = "write one with `coremlscope profile MODEL -o profile.json`"
        raise UsageError("this JSON is not a profile written by coremlscope", hint)
    if schema not in (PROFILE, _OLD_PROFILE):
        raise UsageError(
            f"this profile has the schema {schema}, but this version of coremlscope reads {PROFILE}",
            "profile the model again, or use the version of coremlscope that wrote it",
        )
    if schema == _OLD_PROFILE:
        try:
            data = upgrade_profile(data)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise UsageError(
                f"this profile is damaged: {type(error).__name__} {error}", "profile the model again"
            ) from error
    return decode(data, Profile)


def profiles_from_json(data: object) -> tuple[Profile, ...]:
    """Converts plain JSON values to profiles: one, or the list that `matrix` writes.

    Raises:
        UsageError: The data are neither, have an unknown version, or are damaged.
    """
    if isinstance(data, Mapping) and data.get("schema") == PROFILES:
        listed = data.get("profiles")
        if not isinstance(listed, Sequence):
            raise UsageError("this list of profiles is damaged", "profile the models again")
        return tuple(map(profile_from_json, listed))
    return (profile_from_json(data),)


def json_schema() -> dict[str, Any]:
    """Returns the JSON Schema (2020-12) of profiles, lists of profiles and model summaries."""
    (profile, model), definitions = msgspec.json.schema_components(
        [Profile, ModelSummary], ref_template="#/$defs/{name}"
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
