"""Writes the pages of `docs/` that follow from the code: the command line, the JSON of a profile, kernels.

python tools/make_docs.py
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import os
import re
import sys
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest import mock

import numpy as np

from coremlscope.cli import COMMANDS, main
from coremlscope.engines.sampling import Statistics
from coremlscope.ops import kernels
from coremlscope.results.profile import SCHEMA, Profile

DOCS = Path(__file__).parents[1] / "docs"

_WRITTEN = "<!-- Written by tools/make_docs.py; do not edit. -->"


def command_line() -> str:
    """The page on the verbs: the help of each, as it is printed."""
    parts = [_WRITTEN, "# Command line", _help()]
    for command in COMMANDS:
        parts += [f"## `coremlscope {command.name}`", _help(command.name)]
    return "\n\n".join([*parts, _EXIT_CODES]) + "\n"


_EXIT_CODES = """\
## Exit codes

Every error is one sentence and mostly a hint, on standard error.

| code | what is wrong |
|--:|---|
| 0 | nothing |
| 1 | something else than what follows; for `run`, the script failed |
| 2 | an option or an argument |
| 3 | the model: it is none, it is damaged, or its weights are absent |
| 4 | an input value: missing, unknown, of a wrong shape or type |
| 5 | nothing with the model, but it cannot be run here: its kind, or its operations, all of which are named |
| 6 | the engine refused the model or failed |
| 7 | an optional package is not installed |
| 8 | the result cannot be written |
| 9 | nothing, but `compare` found what `--fail-above` asks about |
| 130, 141 | interrupted; the reader of the output went away |"""


def _help(*verb: str) -> str:
    text = io.StringIO()
    with mock.patch.dict(os.environ, COLUMNS="100"), contextlib.redirect_stdout(text):
        main([*verb, "--help"])
    return f"```text\n{text.getvalue().rstrip()}\n```"


def profile_schema() -> str:
    """The page on the JSON of a profile: every object's fields, from the classes that are written."""
    parts = [
        _WRITTEN,
        "# The JSON of a profile",
        f"`coremlscope profile MODEL -o profile.json` writes one object. `schema` is `{SCHEMA}`; it changes "
        "when a field is removed or changes its meaning, not when one is added. Times are seconds, sizes are "
        "bytes. `Profile.from_json` reads it back. Below, `T[]` is a JSON array of T.",
    ]
    for kind in _reachable(Profile):
        parts += [f"## {kind.__name__}", _summary(kind), _fields(kind)]
    return "\n\n".join(parts) + "\n"


#: What `to_json` adds to the fields of a class.
_ADDED = {
    "Profile": (
        ("schema", "string", f"`{SCHEMA}`"),
        ("predictions_per_s", "number", "The inverse of the mean time of a prediction."),
    ),
    "Phase": (("statistics", "[Statistics](#statistics)", "What the samples amount to, in seconds."),),
    "ModelSummary": (
        ("schema", "string", "The version of this object."),
        ("parameters", "integer", "Sum over all weights."),
        ("weights_bytes", "integer", "Sum over all weights."),
    ),
}


def _reachable(root: type) -> list[type]:
    """The data classes that a value of `root` is made of, `root` first."""
    found, queue = [], [root]
    while queue:
        kind = queue.pop(0)
        if kind in found:
            continue
        found.append(kind)
        queue += [inner for hint in _hints(kind).values() for inner in _classes(hint)]
    return found


def _hints(kind: type) -> dict[str, object]:
    hints = typing.get_type_hints(kind)
    fields = {field.name: hints[field.name] for field in dataclasses.fields(kind)}
    if kind.__name__ == "Phase":
        fields["statistics"] = Statistics
    return fields


def _classes(hint: object) -> Iterator[type]:
    if dataclasses.is_dataclass(hint):
        yield typing.cast("type", hint)
    for argument in typing.get_args(hint):
        yield from _classes(argument)


def _summary(kind: type) -> str:
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


def _fields(kind: type) -> str:
    """A table of a class's fields, described by the `Attributes` of its docstring."""
    docs = _attributes(inspect.getdoc(kind) or "")
    hints = typing.get_type_hints(kind)
    rows = [
        (field.name, _spell(hints[field.name]), docs.get(field.name, ""))
        for field in dataclasses.fields(kind)
    ]
    rows += _ADDED.get(kind.__name__, ())
    lines = ["| field | type | |", "|---|---|---|"]
    return "\n".join(
        [
            *lines,
            *(f"| `{name}` | {type_} | {doc.replace('|', chr(92) + '|')} |" for name, type_, doc in rows),
        ]
    )


def _attributes(doc: str) -> dict[str, str]:
    """Name to text, from the `Attributes` section of a docstring."""
    _, _, section = doc.partition("Attributes:\n")
    entries = re.findall(r"^    (\w+): (.*(?:\n {6,}.*)*)", section, re.M)
    return {name: " ".join(text.split()) for name, text in entries}


_SCALARS: dict[object, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null",
}  # fmt: skip


def _spell(hint: object) -> str:
    """A type as JSON has it."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    if dataclasses.is_dataclass(hint):
        name = getattr(hint, "__name__", "")
        return f"[{name}](#{name.lower()})"
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            element = _spell(arguments[0])
            return f"({element})[]" if " or " in element else f"{element}[]"
        return f"[{', '.join(_spell(argument) for argument in arguments)}]"
    if origin is Mapping:
        return f"object, values {_spell(arguments[1])}"
    return " or ".join(_spell(argument) for argument in arguments)


#: The element types that lowered programs use, and those that they could.
_CARRIED = ("float32", "int32", "bool", "int64", "float64")
_OTHERS = ("float16", "int8", "uint8", "int16", "uint16")


def lacking_kernels() -> str:
    """Returns the page on missing kernels and their replacements."""
    summary, *more = (inspect.getdoc(kernels) or "").split("\n\n")
    lines = [f"| operator | {' | '.join(_CARRIED)} | not carried, missing |", "|---|" + "---|" * 6]
    for form, types in sorted(kernels.LACKING.items()):
        name, _, attribute = form.rstrip("]").partition("[")
        ways = [_way(name, attribute, dtype) if dtype in types else "" for dtype in _CARRIED]
        others = ", ".join(dtype for dtype in _OTHERS if dtype in types)
        lines.append(f"| {f'{name}, `{attribute}`' if attribute else name} | {' | '.join(ways)} | {others} |")
    explained = (
        "An empty cell means that there is a kernel. A type is the one to which inputs are cast instead, and "
        "– means that no operation is lowered to that node. Operators that are not listed have all kernels."
    )
    parts = [_WRITTEN, "# Missing kernels", summary, *more, explained, "\n".join(lines)]
    return "\n\n".join(part.replace("`emit.carry`", "see [numerics](numerics.md)") for part in parts) + "\n"


def _way(name: str, attribute: str, dtype: str) -> str:
    key, _, value = attribute.partition("=")
    try:
        found = kernels.detour(name, [np.dtype(dtype)] * 3, {key: value} if key else {})
    except LookupError:
        return "–"
    return found.through.name if found is not None else ""


PAGES = {"cli.md": command_line, "profile-schema.md": profile_schema, "kernels.md": lacking_kernels}


def write() -> int:
    """Writes every page; returns the exit code."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
        print(DOCS / name)
    return 0


if __name__ == "__main__":
    sys.exit(write())
