"""Encodes results as plain JSON values and decodes them.

The dataclasses are the schema: msgspec encodes, validates and describes them, so nothing is defined twice.
Unknown keys are ignored and absent keys take their defaults, so that neighbouring versions read each other's
files. A change that breaks this increases the number in `PROFILE`, and `upgrade` converts the older form.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from coremlscope.errors import UsageError

__all__ = ["MODEL", "PROFILE", "PROFILES", "decode", "plain"]

#: Names and versions of the schemas that are written.
PROFILE = "coremlscope.profile/2"
PROFILES = "coremlscope.profiles/2"
MODEL = "coremlscope.model/2"

Result = TypeVar("Result")


def plain(result: Any) -> Any:
    """Converts a result to plain JSON values, without the schema's name."""
    return msgspec.to_builtins(result, str_keys=True)


def decode(data: object, type_: type[Result]) -> Result:
    """Converts plain JSON values to a result.

    Raises:
        UsageError: A value is missing or has the wrong type.
    """
    try:
        return msgspec.convert(data, type_)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UsageError(f"this profile is damaged: {error}", "profile the model again") from error
