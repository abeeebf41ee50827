"""Encodes results as plain JSON values, decodes them, and reads and writes JSON files.

The dataclasses are the schema: msgspec encodes, validates and describes them, so nothing is defined twice.
Operations of plans alone are rows in memory and columns in JSON (`plan_encoding`).
Unknown keys are ignored and absent keys take their defaults, so that neighbouring versions read each other's
files. A change that breaks this increases the number in `PROFILE`; files with another number are refused.
"""

from __future__ import annotations

import os
from typing import Any, TypeVar

import msgspec

from coremlscope.base.errors import UsageError
from coremlscope.base.escaping import json_text
from coremlscope.base.folders import read_file
from coremlscope.base.writing import write_file
from coremlscope.results.plan_encoding import decode_hook, encode_hook

#: Names and versions of the schemas that are written.
PROFILE = "coremlscope.profile/2"
PROFILES = "coremlscope.profiles/2"
MODEL = "coremlscope.model/2"
COMPARISON = "coremlscope.comparison/2"

Result = TypeVar("Result")


def plain(result: Any) -> Any:
    """Converts a result to plain JSON values, without the schema's name."""
    return msgspec.to_builtins(result, str_keys=True, enc_hook=encode_hook)


def decode(data: object, type_: type[Result]) -> Result:
    """Converts plain JSON values to a result.

    Raises:
        UsageError: A value is missing or has the wrong type.
    """
    try:
        return msgspec.convert(data, type_, dec_hook=decode_hook)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UsageError(f"this profile is damaged: {error}", "profile the model again") from error


def read_json(path: str | os.PathLike[str]) -> Any:
    """Reads a JSON file.

    Raises:
        UsageError: The file cannot be read or is not valid JSON.
    """
    try:
        return msgspec.json.decode(read_file(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", "check the path") from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        hint = "give a profile that `coremlscope profile -o profile.json` wrote"
        raise UsageError(f"{path} is not valid JSON: {error}", hint) from error


def write_json(path: str | os.PathLike[str], values: Any) -> None:
    """Writes plain values as indented JSON.

    Raises:
        OutputError: The file cannot be written.
    """
    text = msgspec.json.format(msgspec.json.encode(values), indent=1).decode()
    write_file(path, json_text(text) + "\n")
