"""Writes the JSON Schemas of `docs/`, and makes pages of the reference: the command line, results, rates.

python tools/make_docs.py
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest import mock

import msgspec
import msgspec.structs

from coremlscope.cli import all_commands, main
from coremlscope.devices import GPU, find_device
from coremlscope.devices.catalog import all_chips
from coremlscope.planning.cost.planned.publications import publications
from coremlscope.planning.cost.planned.rates import CLASSES, rate_table
from coremlscope.planning.placement.backend import BACKENDS, Backend
from coremlscope.results.encoding import COMPARISON, MODEL, PROFILE, PROFILES
from coremlscope.results.evidence import SCHEMA as EVIDENCE
from coremlscope.results.evidence import Evidence
from coremlscope.results.gate import GateReport
from coremlscope.results.profile import Profile
from coremlscope.results.runner_record import SCHEMA, Record
from coremlscope.results.schema import docstring_parts, json_schema, json_schema_of
from coremlscope.results.variants import VariantReport
from coremlscope.results.verification import VERIFICATION, Verification
from coremlscope.verification.causes.rounding import ROUNDING_ROWS
from coremlscope.verification.causes.table import ROWS

DOCS = Path(__file__).parents[1] / "docs"


def command_line() -> str:
    """Returns the page on the commands, with the help of each."""
    parts = ["# Command line", _help(), "## `coremlscope MODEL`", _help("./model")]
    for command in all_commands():
        parts += [f"## `coremlscope {command.name}`", _help(command.name)]
    return "\n\n".join([*parts, _WIDTH, _EXIT_CODES]) + "\n"


_WIDTH = """\
## Width of the terminal

Tables are as wide as the terminal, or as `COLUMNS` says, and 100 columns wide in pipes. On a narrow terminal,
columns of text become narrower first, then long texts move below their rows, and then columns are left out:
those that a table can best do without (intervals, bars), then the last ones first. A line below the table
names them; the labels of rows always stay, and numbers are never cut. Reports (`-o`) and `--json` have
all columns."""

_EXIT_CODES = """\
## Exit codes

Errors are printed to standard error as one sentence, usually with a hint. `compare` and `sweep` continue
after an error; their exit code is that of the first error.

| code | meaning |
|--:|---|
| 0 | success |
| 1 | any other error; for `run`, the script failed; for `doctor`, something required is broken |
| 2 | an option or an argument is invalid |
| 3 | the file is not a model, is damaged, or its weights are absent |
| 4 | an input value is missing, unknown, or has the wrong shape or type |
| 5 | the model is valid, but its kind or some of its operations (which are listed) cannot be run here |
| 6 | the engine rejected the model or failed |
| 7 | an optional package is not installed |
| 8 | the result cannot be written |
| 9 | `compare --fail-above`: predictions are slower; `check`: a limit is not kept |
| 10 | a measurement reached a limit of time or memory |
| 11 | `verify`: outputs differ from those of the reference |
| 12 | coremlscope itself failed; `--debug` with the same command prints the traceback |
| 130 | interrupted by Ctrl-C; `profile`, `compare` and `sweep` keep what they measured before |
| 141 | the reader of the output closed the pipe |
| 143 | ended by SIGTERM, which acts like Ctrl-C |"""


def _help(*verb: str) -> str:
    text = io.StringIO()
    with mock.patch.dict(os.environ, COLUMNS="88"), contextlib.redirect_stdout(text):
        main([*verb, "--help"])
    return f"```text\n{text.getvalue().rstrip()}\n```"


_FORMS = f"""\
`coremlscope profile MODEL -o profile.json` writes a profile, and so do `plan` and `estimate`: one object with
`"schema": "{PROFILE}"` and the fields of [Profile](#profile). Measurements, plans and estimates may each be
absent; their arrays are empty then.

| `schema` | written by | content |
|---|---|---|
| `{PROFILE}` | `profile`, `plan`, `estimate` | a [Profile](#profile) |
| `{PROFILES}` | `estimate` of several models | `profiles`: an array of profiles, each with its own `schema` |
| `{COMPARISON}` | `compare` | `profiles` as well, `subjects`, `differences`, `differing`, `exit_code` |
| `{MODEL}` | `inspect` | a [ModelSummary](#modelsummary) |

Times are seconds and sizes are bytes unless a name says otherwise (`total_ms`). Operations are columns: `ops`
lists them once, and every other array with one entry for each operation refers to its rows. The number in
`schema` changes when a field is removed or changes its meaning, not when one is added: ignore fields that you
do not know. `Profile.load` reads profiles of this and of older versions.
`profile.schema.json`, which `coremlscope schema` prints as well, describes the same as a
JSON Schema.

Below, `T[]` is a JSON array of T."""


def profile_schema() -> str:
    """Returns the page on the JSON of results, with the fields of every class."""
    parts = ["# The JSON of a profile", _FORMS]
    for kind in _reachable(Profile):
        parts += [f"## {kind.__name__}", docstring_parts(kind.__doc__ or "")[0], _fields(kind)]
    return "\n\n".join(parts) + "\n"


_EVIDENCE = f"""\
Where our [plan](../concepts/plans.md) and Core ML's own put an operation on different units, a rule is wrong
or missing. `--share` writes such operations to a file that you can send with an issue:

```console
coremlscope import profile.json --share evidence.json
coremlscope import analytics.mil --model model.mlpackage --device m1 --os 14.5 --share evidence.json
coremlscope plan model.mlpackage --share evidence.json
```

`import` reads a saved profile that contains both plans (of `profile` or `plan` on a Mac), or [files that can
be imported](../guides/mac-files.md), for which the model, the device and its system must be known. `plan`
asks Core ML on a Mac, which is not yet confirmed on a device. With a model, rows have the types of all
arguments and the values of small parameters; without it, the types of the results that an operation reads.

A file contains no weights, paths, descriptions or metadata. Names that you gave to operations, inputs,
outputs and functions are left out, and replaced by `‹name›` in Core ML's messages. Read the file before you
send it.

It is one object with `"schema": "{EVIDENCE}"` and the fields of [Evidence](#evidence)."""


def evidence() -> str:
    """Returns the page on evidence, with the fields of every class."""
    parts = ["# Evidence for rules", _EVIDENCE]
    for kind in _reachable(Evidence):
        parts += [f"## {kind.__name__}", docstring_parts(kind.__doc__ or "")[0], _fields(kind)]
    return "\n\n".join(parts) + "\n"


_RECORD = f"""\
The app that `coremlscope runner` writes records what it measures in `results.json`, one object with
`"schema": "{SCHEMA}"`. See [From a phone](../guides/iphone.md). The file is complete JSON after every step.
Times are seconds and sizes are bytes. `runner.schema.json` describes the same as a JSON
Schema; `coremlscope import` checks a file against it.

Below, `T[]` is a JSON array of T."""


def runner_schema() -> str:
    """Returns the page on the JSON of the runner."""
    parts = ["# The JSON of the runner", _RECORD]
    for kind in _reachable(Record):
        parts += [f"## {kind.__name__}", docstring_parts(kind.__doc__ or "")[0], _fields(kind)]
    return "\n\n".join(parts) + "\n"


def runner_schema_file() -> str:
    """Returns the JSON Schema of what the runner records."""
    schema = json_schema_of(Record, "Results of coremlscope's runner")
    return json.dumps(schema, ensure_ascii=False, indent=1) + "\n"


def json_schema_file() -> str:
    """Returns the JSON Schema of results."""
    return json.dumps(json_schema(), ensure_ascii=False, indent=1) + "\n"


def _reachable(root: type) -> list[type]:
    """Returns the dataclasses nested in `root`, `root` first."""
    found, queue = [], [root]
    while queue:
        kind = queue.pop(0)
        if kind in found:
            continue
        found.append(kind)
        queue += [inner for hint in typing.get_type_hints(kind).values() for inner in _classes(hint)]
    return found


def _classes(hint: object) -> Iterator[type]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for argument in typing.get_args(hint):
        yield from _classes(argument)


def _fields(kind: type) -> str:
    """Returns a table of a class's fields, described by the `Attributes` of its docstring."""
    _, descriptions = docstring_parts(kind.__doc__ or "")
    hints = typing.get_type_hints(kind)
    rows = [
        f"| `{field}` | {_spell(hints[field])} | {_in_a_cell(descriptions.get(field, ''))} |"
        for field in kind.__struct_fields__
    ]
    return "\n".join(["| field | type | meaning |", "|---|---|---|", *rows])


def _in_a_cell(text: str) -> str:
    return text.replace("|", "\\|")


_SCALARS: dict[object, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def _spell(hint: object) -> str:
    """Names a type in the terms of JSON."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            element = _spell(arguments[0])
            return f"({element})[]" if " or " in element else f"{element}[]"
        return f"[{', '.join(_spell(argument) for argument in arguments)}]"
    if origin is Mapping:
        keys = "" if arguments[0] is str else f"keys {_spell(arguments[0])}, "
        return f"object, {keys}values {_spell(arguments[1])}"
    return " or ".join(_spell(argument) for argument in arguments)


_VERIFICATION = f"""\
`coremlscope verify MODEL --reference model.onnx --json FILE` writes one object with
`"schema": "{VERIFICATION}"` and the fields of [Verification](#verification). See
[Verification of conversions](../verify.md).
`verification.schema.json` describes the same as a JSON Schema. Errors that are
infinite are null.

Below, `T[]` is a JSON array of T."""


def verification_schema() -> str:
    """Returns the page on the JSON of verifications, with the fields of every class."""
    parts = ["# The JSON of a verification", _VERIFICATION]
    for kind in _reachable(Verification):
        parts += [f"## {kind.__name__}", docstring_parts(kind.__doc__ or "")[0], _fields(kind)]
    return "\n\n".join(parts) + "\n"


def verification_schema_file() -> str:
    """Returns the JSON Schema of verifications."""
    schema = json_schema_of(Verification, "Verifications of coremlscope")
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def variants_schema_file() -> str:
    """Returns the JSON Schema of variants."""
    schema = json_schema_of(VariantReport, "Variants of a model by coremlscope what-if")
    return json.dumps(schema, ensure_ascii=False, indent=1) + "\n"


def check_schema_file() -> str:
    """Returns the JSON Schema of gates' results."""
    schema = json_schema_of(GateReport, "Limits of models by coremlscope check")
    return json.dumps(schema, ensure_ascii=False, indent=1) + "\n"


#: Backends of published rates; that of the older CPU backend follows from BNNS.
_UNITS: Mapping[Backend, str] = {"ane": "Neural Engine", "mps_graph": "GPU", "bnns": "CPU"}


def planned_rates() -> str:
    """Returns the page on the rates behind planned costs: those published, and how they grow with chips."""
    published = publications()
    chips = [one.name.replace(", macOS", "<br>macOS") for one in published]
    rates = [
        f"| class | unit | {' | '.join(chips)} | largest / smallest |",
        "|---|---|" + "---:|" * (len(chips) + 1),
    ]
    for name in CLASSES:
        for backend in (known for known in BACKENDS if known in _UNITS):
            found = [one.rates.get(name, {}).get(backend) for one in published]
            values = [one.value for one in found if one is not None]
            if values:
                cells = ["" if one is None else _in_digits(one.value, 5) for one in found]
                ratio = f"{max(values) / min(values):.2f}" if len(values) > 1 else ""
                rates.append(f"| {name} | {_UNITS[backend]} | {' | '.join(cells)} | {ratio} |")
    explained = (
        "Rates behind Core ML's planned costs ([plans](../concepts/plans.md#how-a-cost-is-known)), in 10⁹ "
        "operations, elements or bytes per second. `coremlscope devices NAME --rates` lists those in use for "
        "a chip, with sources and intervals."
    )
    parts = ["# Planned rates", explained, "## Published", "\n".join(rates), *_growth()]
    return "\n\n".join(parts) + "\n"


def _in_digits(value: float, digits: int) -> str:
    """Returns a number with so many significant digits, without an exponent."""
    return f"{float(f'{value:.{digits}g}'):,.12g}"


#: Classes that grow with the cores of the GPU.
_GROWING = ("add", "mul", "convolution, sparse", "convolution, dense", "linear, large", "matmul")


def _growth() -> Iterator[str]:
    """Yields the section on chips of one family: rates of the GPU must not fall as cores grow."""
    yield "## By chip"
    yield (
        "Rates of the GPU on macOS 27, published or transferred. Within a family they should not fall as the "
        "number of cores grows; the last column lists where they do."
    )
    lines = [
        "| chip | cores | " + " | ".join(_GROWING) + " | falls |",
        "|---|" + "---:|" * (len(_GROWING) + 1) + "---|",
    ]
    chips = [chip for chip in all_chips().values() if chip.platform == "macOS" and chip.value(GPU, "cores")]
    before: dict[str, dict[str, float]] = {}
    for chip in sorted(chips, key=lambda one: (one.family, one.value(GPU, "cores"))):
        table = rate_table(find_device(chip.id, "27"))
        values = {name: table.rates[name]["mps_graph"].value for name in _GROWING}
        smaller = before.get(chip.family, {})
        falls = [name for name, value in values.items() if value < smaller.get(name, 0.0)]
        cells = " | ".join(_in_digits(value, 4) for value in values.values())
        lines.append(f"| {chip.name} | {chip.value(GPU, 'cores'):.0f} | {cells} | {'; '.join(falls)} |")
        before[chip.family] = values
    yield "\n".join(lines)


_CAUSES_OF_VERIFY = """
When [`verify`](../verify.md) finds the first operation that differs, it asks these causes why, in this order.
Each predicts a value; it is named only if the prediction holds for every element."""


def causes() -> str:
    """Returns the page on the causes that a verification names."""
    parts = ["# Causes of wrong values", _CAUSES_OF_VERIFY.strip()]
    for title, rows in (("In float32", ROWS), ("In fp16", ROUNDING_ROWS)):
        parts.append(f"## {title}")
        for row in rows:
            facts = [
                f"Looks like: {row.looks_like}",
                f"What to do: {row.fix}",
                f"Source: <{row.source}>",
            ]
            parts += [f"### {row.cause}", "\n".join(f"- {fact}" for fact in facts)]
    return "\n\n".join(parts) + "\n"


#: Pages of the reference, which `make_site.py` writes beside those of rules, findings and operations.
PAGES = {
    "reference/causes.md": causes,
    "reference/cli.md": command_line,
    "reference/evidence.md": evidence,
    "reference/profile.md": profile_schema,
    "reference/rates.md": planned_rates,
    "reference/runner.md": runner_schema,
    "reference/verification.md": verification_schema,
}

#: Generated files that are part of the repository: JSON Schemas.
SCHEMAS = {
    "check.schema.json": check_schema_file,
    "profile.schema.json": json_schema_file,
    "runner.schema.json": runner_schema_file,
    "variants.schema.json": variants_schema_file,
    "verification.schema.json": verification_schema_file,
}


def write() -> int:
    """Writes every schema; returns the exit code."""
    for name, page in SCHEMAS.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
        print(DOCS / name)
    return 0


if __name__ == "__main__":
    sys.exit(write())
