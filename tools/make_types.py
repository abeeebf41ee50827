"""Writes the TypeScript types of the page's data, from the data classes that Python writes as JSON.

python tools/make_types.py
"""

from __future__ import annotations

import sys
import textwrap
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import inspect

from coremlscope.describe.comparison.profiles import Comparison
from coremlscope.model.ir import KIND_NAMES
from coremlscope.results.encoding import COMPARISON, MODEL, PROFILE, PROFILES
from coremlscope.results.events import EventKind
from coremlscope.results.model import ModelSummary
from coremlscope.results.plan import PlannedOps
from coremlscope.results.plan_encoding import PlanColumns
from coremlscope.results.preview import PREVIEW, Preview
from coremlscope.results.profile import Profile
from coremlscope.results.schema import docstring_parts
from coremlscope.results.sweep import RESULT_TABLE, ResultTable
from coremlscope.results.trace import SCHEMA as TRACE
from coremlscope.results.trace import Trace
from coremlscope.results.variants import VARIANTS, VariantReport
from coremlscope.server.app import SCHEMA as SERVER
from coremlscope.server.app import PageState

OUTPUT = Path(__file__).parents[1] / "frontend" / "src" / "data" / "schema.ts"

_HEAD = """\
// Written by tools/make_types.py from the data classes of the Python package; do not edit.
// Times are seconds, sizes are bytes, columns have one entry for each row of the op table.
"""

#: The data of pages: for each form, the extended type and the additional fields.
_FORMS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "ProfileForm": ("Profile", {"schema": f'"{PROFILE}"'}),
    "ProfilesForm": ("", {"schema": f'"{PROFILES}"', "profiles": "ProfileForm[]"}),
    "ModelForm": ("ModelSummary", {"schema": f'"{MODEL}"'}),
    "ComparisonForm": (
        "Comparison",
        {"schema": f'"{COMPARISON}"', "differing": "string[]", "profiles": "ProfileForm[]"},
    ),
    "TraceForm": (
        "Trace",
        {"schema": f'"{TRACE}"', "facts": "[string, string][]", "kinds": "EventKind[]"},
    ),
    "VariantsForm": ("VariantReport", {"schema": f'"{VARIANTS}"'}),
    "ResultsForm": ("ResultTable", {"schema": f'"{RESULT_TABLE}"'}),
    "PreviewForm": ("Preview", {"schema": f'"{PREVIEW}"', "model": "string"}),
    "ServerForm": ("PageState", {"schema": f'"{SERVER}"'}),
}
_ROOTS = (
    *(Profile, ModelSummary, Comparison, Trace, EventKind, VariantReport, ResultTable, PageState),
    *(Preview, PlanColumns),
)
#: The maximum line length of the front end's formatter.
_WIDTH = 140


def type_script() -> str:
    """Returns the content of the file."""
    kinds = sorted(_classes(), key=lambda kind: kind.__name__)
    names = _literals(kinds)
    parts = [_HEAD]
    parts += [_alias(name, values) for values, name in sorted(names.items(), key=lambda item: item[1])]
    parts += [_interface(kind, names) for kind in kinds]
    parts += [_form(name, base, fields) for name, (base, fields) in _FORMS.items()]
    parts.append(_table("KIND_NAMES", KIND_NAMES, "Display names of Apple's model types."))
    parts.append(_union("Result", list(_FORMS), "What a page shows; `schema` tells the kinds apart."))
    return "\n".join(parts)


def _classes() -> set[type]:
    """Returns the data classes nested in the root types."""
    found: set[type] = set()
    queue = list(inspect.multi_type_info(_ROOTS))
    while queue:
        info = queue.pop()
        if isinstance(info, inspect.StructType):
            if info.cls in found:
                continue
            found.add(info.cls)
            queue += [field.type for field in info.fields]
        else:
            queue += _inner(info)
    return found


def _inner(info: inspect.Type) -> Iterator[inspect.Type]:
    match info:
        case inspect.UnionType():
            yield from info.types
        case inspect.VarTupleType() | inspect.ListType():
            yield info.item_type
        case inspect.TupleType():
            yield from info.item_types
        case inspect.DictType():
            yield info.key_type
            yield info.value_type


def _literals(kinds: list[type]) -> dict[frozenset[Any], str]:
    """Returns the names of literal types in the classes' modules, by their values."""
    found: dict[frozenset[Any], str] = {}
    for kind in kinds:
        for name, value in vars(sys.modules[kind.__module__]).items():
            if typing.get_origin(value) is typing.Literal and not name.startswith("_"):
                found.setdefault(frozenset(typing.get_args(value)), name)
    used = {frozenset(info.values) for kind in kinds for info in _all_types(kind) if _is_literal(info)}
    return {values: name for values, name in found.items() if values in used}


def _all_types(kind: type) -> Iterator[inspect.Type]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    queue = [field.type for field in info.fields]
    while queue:
        one = queue.pop()
        yield one
        queue += _inner(one)


def _is_literal(info: inspect.Type) -> typing.TypeGuard[inspect.LiteralType]:
    return isinstance(info, inspect.LiteralType)


def _alias(name: str, values: frozenset[Any]) -> str:
    return _union(name, [f'"{value}"' for value in sorted(values)])


def _table(name: str, rows: Mapping[str, str], doc: str) -> str:
    lines = "".join(f'  {key}: "{value}",\n' for key, value in rows.items())
    return f"{_comment(doc)}export const {name}: Record<string, string> = {{\n{lines}}};\n"


def _union(name: str, members: list[str], doc: str = "") -> str:
    line = f"export type {name} = {' | '.join(members)};\n"
    if len(line) > _WIDTH + 1:
        line = f"export type {name} =\n" + "\n".join(f"  | {member}" for member in members) + ";\n"
    return _comment(doc) + line


def _interface(kind: type, names: Mapping[frozenset[Any], str]) -> str:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    text, descriptions = docstring_parts(kind.__doc__ or "")
    lines = []
    for field in info.fields:
        lines.append(_comment(descriptions.get(field.name, ""), "  "))
        lines.append(f"  {field.encode_name}: {_spell(field.type, names)};\n")
    return f"{_comment(text.split(chr(10))[0])}export interface {kind.__name__} {{\n{''.join(lines)}}}\n"


def _form(name: str, base: str, fields: Mapping[str, str]) -> str:
    extends = f" extends {base}" if base else ""
    lines = "".join(f"  {field}: {spelled};\n" for field, spelled in fields.items())
    return f"export interface {name}{extends} {{\n{lines}}}\n"


def _comment(text: str, indent: str = "") -> str:
    """Returns a doc comment; empty for no text."""
    safe = text.replace("*/", "* /")
    if not safe:
        return ""
    line = f"{indent}/** {safe} */\n"
    if len(line) <= _WIDTH + 1:
        return line
    wrapped = textwrap.wrap(safe, _WIDTH - len(indent) - 3, break_long_words=False)
    return "".join([f"{indent}/**\n", *(f"{indent} * {one}\n" for one in wrapped), f"{indent} */\n"])


def _spell(info: inspect.Type, names: Mapping[frozenset[Any], str]) -> str:
    """Names a type in TypeScript.

    Raises:
        TypeError: The type is not supported.
    """
    match info:
        case inspect.StrType():
            return "string"
        case inspect.IntType() | inspect.FloatType():
            return "number"
        case inspect.BoolType():
            return "boolean"
        case inspect.NoneType():
            return "null"
        case inspect.AnyType():
            return "unknown"
        case inspect.CustomType(cls=cls) if cls is PlannedOps:
            return PlanColumns.__name__
        case inspect.CustomType():  # a column of a trace, as text
            return "string"
        case inspect.StructType():
            return str(info.cls.__name__)
        case inspect.LiteralType():
            return names.get(frozenset(info.values)) or " | ".join(f'"{value}"' for value in info.values)
        case inspect.UnionType():
            return " | ".join(_spell(one, names) for one in info.types)
        case inspect.VarTupleType() | inspect.ListType():
            element = _spell(info.item_type, names)
            return f"({element})[]" if " | " in element and not element.endswith(")[]") else f"{element}[]"
        case inspect.TupleType():
            return f"[{', '.join(_spell(one, names) for one in info.item_types)}]"
        case inspect.DictType():
            return _record(info, names)
    raise TypeError(f"unsupported type {info}")


def _record(info: inspect.DictType, names: Mapping[frozenset[Any], str]) -> str:
    record = f"Record<{_spell(info.key_type, names)}, {_spell(info.value_type, names)}>"
    return f"Partial<{record}>" if isinstance(info.key_type, inspect.LiteralType) else record


def main() -> int:
    """Writes the file; returns the exit code."""
    OUTPUT.write_text(type_script(), encoding="utf-8")
    print(OUTPUT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
