"""Builds the documentation: hand-written pages of `docs/`, and generated ones of the reference.

python tools/make_site.py SOURCES          write all pages, and llms.txt, into a folder for Sphinx
"""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import coremlscope
from coremlscope.base.findings import Severity
from coremlscope.base.site import SITE
from coremlscope.devices import all_chips
from coremlscope.ops import OPS
from coremlscope.planning.advice import CORE_ML_VALUE_RULES, RULES, VALUE_RULES, AdviceRule
from coremlscope.planning.hazards import HAZARDS
from coremlscope.planning.hazards.lines import FAILURES
from coremlscope.planning.placement.catalog import CatalogEntry, describe_op, list_rules
from coremlscope.studies.doctor.grid import CELLS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

_UNITS = {"neural_engine": "Neural Engine", "gpu": "GPU", "cpu": "CPU"}
_EFFECTS = {
    "rejects": "does not run there",
    "fails": "keeps the whole function off the unit",
    "corrupts": "returns wrong values",
    "crashes": "ends the app",
    "hangs": "never ends to load",
    "advises": "runs, but",
    "runs": "runs there",
    "confirms": "was seen to run there",
}


#: Hundreds of pages that indexes link to; the navigation of every page would list them all.
_ALONE = "---\norphan: true\n---"
_ON_RULES = """\
What each compute unit runs and does not run. Each rule has a page with a permanent address, its source,
and examples that a test runs. `coremlscope rules` shows the same in a terminal."""
_ON_A_RULE = """\
Does a plan of Core ML show something else? [Send it](../guides/mac-files.md#send-where-a-plan-is-wrong):
a rule is one row, and can be corrected."""
_ON_FINDINGS = """\
A finding is a remark about a result that does not stop the work. Each has a page with a permanent
address. Those on models are weighed: the function is planned and estimated again as if it were fixed, and
findings that save less than 0.5 % of the estimated time are not shown. Where several save time,
[findings-together](findings-together.md) gives what they save together. Savings are planned and
estimated, never measured."""
_ON_PYTHON = """\
Everything that `coremlscope` exports. Functions take a model as a path, as the bytes of a specification,
or as the result of `read`. Every error is a `CoremlscopeError` with `message` and `hint`. [From
Python](../guides/python.md) shows them at work."""
_ON_DEVICES = """\
Every name that `--device` takes: the id of a chip, or a device in kebab case (`iphone-15-pro`).
`coremlscope devices NAME` lists the numbers of a chip, each with its source; `--rates` adds the rates of
Core ML's cost model."""
_ON_FAILURES = """\
What Core ML, its compilers and the system write when something fails, with the likely cause and what to try.
`coremlscope doctor LOG` finds these in a log or a crash report. A cause is likely, not certain."""
_ON_OPERATIONS = """\
The operations of ML Programs, into which neural networks and Core AI models are translated too. Rules
about any operation are left out here. `coremlscope ops NAME` shows one in full."""


def pages() -> dict[str, str]:
    """Returns all generated pages by their path, without those that `make_docs.py` writes."""
    return {
        **_rules(),
        **_findings(),
        "reference/python.md": _python(),
        "reference/devices.md": _devices(),
        "reference/operations.md": _operations(),
        "reference/failures.md": _failures(),
    }


def _rules() -> dict[str, str]:
    entries = list_rules()
    parts = [
        "# Placement rules",
        _ON_RULES,
    ]
    for unit, name in _UNITS.items():
        for effect, what in _EFFECTS.items():
            chosen = [one for one in entries if (one.unit, one.effect) == (unit, effect)]
            if chosen:
                rows = [
                    f"| [{one.id}]({one.id}.md) | {_cell(one.text)} | {_cell(one.scope)} |" for one in chosen
                ]
                head = ["| rule | statement | where |", "|---|---|---|"]
                parts += [f"## {name}: {what}", "\n".join([*head, *rows])]
    return {
        "rules/index.md": "\n\n".join(parts) + "\n",
        **{f"rules/{one.id}.md": _rule(one) for one in entries},
    }


def _rule(entry: CatalogEntry) -> str:
    parts = [
        _ALONE,
        f"# {entry.id}",
        f"{_text(entry.text[:1].upper() + entry.text[1:])}.",
        "\n".join(
            f"- {name}: {value}"
            for name, value in {
                "Unit": _UNITS[entry.unit],
                "Effect": _EFFECTS[entry.effect],
                "Operations": _op_list(entry.ops),
                "Where": _text(entry.scope) or "everywhere",
                "Core ML says": _code(entry.core_ml) if entry.core_ml else "",
                "How it is known": _text(entry.evidence),
                "Source": _text(entry.source),
            }.items()
            if value
        ),
    ]
    if entry.fix:
        parts += ["## What to do", f"{_text(entry.fix[:1].upper() + entry.fix[1:])}."]
    if entry.applies_to:
        examples = [f"- {_code(op)}  \n  {_text(says)}" for op, says in entry.applies_to]
        parts += ["## Applies to", "\n".join(examples)]
    if entry.negative_examples:
        parts += ["## Does not apply to", "\n".join(f"- {_code(op)}" for op in entry.negative_examples)]
    parts += [_ON_A_RULE, "[All rules](index.md)"]
    return "\n\n".join(parts) + "\n"


def _op_list(ops: Sequence[str]) -> str:
    if not ops:
        return "whole models"
    return "any" if "*" in ops else ", ".join(f"`{op}`" for op in ops)


_GROUPS = (
    ("Costs and size", RULES),
    ("Wrong values in Core ML", CORE_ML_VALUE_RULES),
    ("Wrong values in Core AI", VALUE_RULES),
)


def _findings() -> dict[str, str]:
    made: dict[str, str] = {}
    parts = [
        "# Findings",
        _ON_FINDINGS,
    ]
    for title, rules in _GROUPS:
        rows = [f"| [{rule.id}]({rule.id}.md) | {_cell(_first_sentence(rule.doc))} |" for rule in rules]
        parts += [f"## {title}", "\n".join(["| finding | meaning |", "|---|---|", *rows])]
        made |= {f"findings/{rule.id}.md": _advice(rule) for rule in rules}
    others = {key: rows for key, rows in sorted(other_findings().items()) if f"findings/{key}.md" not in made}
    rows = [f"| [{key}]({key}.md) | {_cell(found[0].text)} |" for key, found in others.items()]
    parts += ["## Other remarks", "\n".join(["| finding | meaning |", "|---|---|", *rows])]
    made |= {f"findings/{key}.md": _other(key, found) for key, found in others.items()}
    return {"findings/index.md": "\n\n".join(parts) + "\n", **made}


def _advice(rule: AdviceRule) -> str:
    facts = [f"- What to do: {_text(rule.fix)}."]
    if rule.transform:
        facts.append(
            f"- `coremlscope what-if MODEL --try {rule.transform}` tries it and compares the outputs."
        )
    if rule.settings:
        facts.append(f"- Shown for: {', '.join(f'`{name}`' for name in sorted(rule.settings))}.")
    facts += [f"- How it is known: {rule.confidence}.", f"- Source: {_text(rule.source)}."]
    return "\n\n".join([_ALONE, f"# {rule.id}", _text(rule.doc), "\n".join(facts)]) + "\n"


class Other(NamedTuple):
    """A finding that is written in code: its sentence, with … for what depends on the model."""

    severity: Severity | str
    text: str
    hint: str
    module: str


def other_findings() -> dict[str, list[Other]]:
    """Returns the findings that the code makes, by id, as their sentences are written there."""
    found: dict[str, list[Other]] = {}
    for file in sorted((ROOT / "src" / "coremlscope").rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        if "Finding(" not in source:
            continue
        tree, module = ast.parse(source), file.relative_to(ROOT / "src").as_posix()
        for key, severity, text, hint in _made(tree):
            found.setdefault(key, []).append(Other(severity, text, hint, module))
    for row in HAZARDS:
        if not row.units:
            text = row.text.replace("{detail}", "…") or inspect.getdoc(row.check) or ""
            module = "coremlscope/planning/hazards"
            found.setdefault(row.id, []).append(Other("warning", text, row.fix, module))
    return found


#: Ids that code names by a constant.
_CONSTANTS = {"FAILED": "failed", "TOGETHER": "findings-together"}
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")


def _made(tree: ast.Module) -> Iterator[tuple[str, str, str, str]]:
    """Yields id, severity, text and hint of each finding; ids that a file passes on are in calls and rows."""
    said, passes_on = _Said(tree), False
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
            given = {one.arg: one.value for one in node.keywords}
            named = given["id"]
            key = named.value if isinstance(named, ast.Constant) else _CONSTANTS.get(ast.unparse(named), "")
            if key:
                severity = given.get("severity")
                yield (
                    str(key),
                    severity.value if isinstance(severity, ast.Constant) else "",
                    said.sentence(given.get("text")),
                    said.sentence(given.get("hint")),
                )
            passes_on = passes_on or not key
    if not passes_on:
        return
    for node in ast.walk(tree):
        values: list[ast.expr] = []
        fix = None
        if isinstance(node, ast.Call):
            given = {one.arg: one.value for one in node.keywords}
            texts = [given[name] for name in ("text", "describe", "find") if name in given]
            values, fix = [*([given["id"]] if "id" in given else node.args), *texts], given.get("fix")
        elif isinstance(node, ast.Tuple):
            values = list(node.elts)
        if len(values) > 1 and isinstance(values[0], ast.Constant) and _ID.fullmatch(str(values[0].value)):
            text = max(map(said.sentence, values[1:]), key=len)
            yield str(values[0].value), "", text, said.sentence(fix)


class _Said:
    """Texts as code has them, with … for their variable parts."""

    def __init__(self, tree: ast.Module) -> None:
        nodes = list(ast.walk(tree))
        self._functions = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}
        self._assigned = [
            (target.id, node)
            for node in nodes
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        ]

    def sentence(self, value: ast.expr | None) -> str:
        """Returns a text; a function stands for the longest that it returns."""
        match value:
            case ast.Constant(value=str(text)):
                return text
            case ast.JoinedStr(values=parts):
                return "".join(str(p.value) if isinstance(p, ast.Constant) else self._part(p) for p in parts)
            case ast.BinOp(left=left, right=right):
                return self.sentence(left) + self.sentence(right)
            case ast.IfExp(body=body, orelse=orelse):
                return self.sentence(body) or self.sentence(orelse)
            case ast.Name(id=name) if name in self._functions:
                nodes = ast.walk(self._functions[name])
                returned = [node.value for node in nodes if isinstance(node, ast.Return | ast.Yield)]
                firsts = [one.elts[0] if isinstance(one, ast.Tuple) else one for one in returned]
                return max(map(self.sentence, firsts), key=len, default="")
            case ast.Name():
                return self._named(value)
            case None | ast.Constant():
                return ""
        return "…"

    def _part(self, part: ast.expr) -> str:
        inside = part.value if isinstance(part, ast.FormattedValue) else part
        return (self.sentence(inside) if isinstance(inside, ast.Name | ast.IfExp) else "") or "…"

    def _named(self, name: ast.Name) -> str:
        """Returns what a name stands for: the nearest assignment above it, in its function or the module."""
        starts = [0] + [
            f.lineno for f in self._functions.values() if f.lineno <= name.lineno <= (f.end_lineno or 0)
        ]
        for start in (max(starts), 0):
            above = [
                node
                for own, node in self._assigned
                if own == name.id
                and start <= node.lineno
                and (node.end_lineno or 0) < name.lineno
                and (start or node.col_offset == 0)
            ]
            if above:
                return self.sentence(above[-1].value)
        return ""


def _other(key: str, found: Sequence[Other]) -> str:
    parts = [_ALONE, f"# {key}"]
    for one in found:
        text, hint = (value if value.strip("…:. ") else "" for value in (one.text, one.hint))
        if text:
            parts.append(f"> {_text(text)}")
        if hint:
            parts.append(f"What to do: {_text(hint)}.")
    severities = sorted({str(one.severity) for one in found if one.severity})
    facts = [f"Severity: {', '.join(severities)}."] if severities else []
    modules = ", ".join(f"`{module}`" for module in dict.fromkeys(one.module for one in found))
    parts.append(" ".join([*facts, f"Made in {modules}; … stands for what depends on the model."]))
    return "\n\n".join(dict.fromkeys(parts)) + "\n"


def _python() -> str:
    parts = [
        "# Python interface",
        _ON_PYTHON,
    ]
    for name in coremlscope.__all__:
        if name.startswith("_"):
            continue
        value = getattr(coremlscope, name)
        parts.append(f"## {name}")
        if inspect.isfunction(value):
            parts.append(f"```text\n{name}{_signature(value)}\n```")
        parts.append(_docstring(inspect.getdoc(value) or ""))
        if inspect.isclass(value):
            for own, method in sorted(vars(value).items()):
                if not own.startswith("_") and inspect.isfunction(method) and inspect.getdoc(method):
                    parts += [
                        f"### {name}.{own}",
                        f"```text\n{own}{_signature(method)}\n```",
                        _docstring(inspect.getdoc(method) or ""),
                    ]
    return "\n\n".join(parts) + "\n"


def _signature(function: Callable[..., object]) -> str:
    text = re.sub(r"coremlscope(\.\w+)+\.", "", str(inspect.signature(function))).replace("'", "")
    if len(text) < 100:
        return text
    inside, _, after = text[1:].rpartition(")")
    depth, parts, start = 0, [], 0
    for index, character in enumerate(inside):
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            parts.append(inside[start : index + 1].strip())
            start = index + 1
    parts.append(inside[start:].strip())
    return "(\n    " + "\n    ".join(parts) + f"\n){after}"


def _docstring(text: str) -> str:
    """Returns a docstring of Google's style as Markdown."""
    lines, section = [], ""
    for line in text.splitlines():
        heading = re.fullmatch(r"(Args|Returns|Raises|Attributes|Yields):", line)
        if heading:
            section = heading[1]
            lines += ["", f"**{section}**", ""]
        elif section and (item := re.match(r"    (\*{0,2}\w+): (.*)", line)):
            lines.append(f"- `{item[1]}`: {_text(item[2])}")
        elif section and line.startswith("    "):
            lines.append(
                f"  {_text(line.strip())}"
                if section in ("Args", "Raises", "Attributes")
                else _text(line.strip())
            )
        else:
            section = section if line.strip() == "" else ""
            lines.append(_text(line))
    return "\n".join(lines)


def _devices() -> str:
    rows = []
    for chip in all_chips().values():
        devices = ", ".join(one.name for one in chip.products)
        release = ", ".join(f"{platform} {number}" for platform, number in chip.releases.items())
        rows.append(f"| {chip.name} | `{chip.id}` | {release} | {devices} |")
    return (
        "\n\n".join(
            [
                "# Chips and devices",
                _ON_DEVICES,
                "\n".join(["| chip | id | first system | devices |", "|---|---|---|---|", *rows]),
            ]
        )
        + "\n"
    )


def _operations() -> str:
    rows = []
    for name in sorted(OPS):
        card = describe_op(name)
        rules = ", ".join(f"[{one.id}](../rules/{one.id}.md)" for one in card.rules if "*" not in one.ops)
        rows.append(
            f"| `{name}` | {_cell(card.doc)} | {_cell(card.work)} | {', '.join(card.onnx)} | {rules} |"
        )
    return (
        "\n\n".join(
            [
                "# Operations",
                _ON_OPERATIONS,
                "\n".join(["| operation | meaning | work | ONNX | rules |", "|---|---|---|---|---|", *rows]),
            ]
        )
        + "\n"
    )


def _failures() -> str:
    cells = [
        f"| {component}, {phase} | {_cell(cell.meaning)} | {_cell(cell.setting)} | {_cell(cell.next_line)} |"
        for (component, phase), cell in CELLS.items()
    ]
    table = "\n".join(["| written by | meaning | units | look for |", "|---|---|---|---|", *cells])
    parts = ["# Messages of Core ML", _ON_FAILURES, table]
    for row in FAILURES:
        facts = [f"- Likely cause: {_text(row.cause)}", f"- What to try: {_text(row.fix)}"]
        if row.rules:
            facts.append("- Rules: " + ", ".join(f"[{rule}](../rules/{rule}.md)" for rule in row.rules))
        facts.append(f"- How it is known: {row.confidence}. Source: {_text(row.source)}")
        lines = "\n".join(["```text", *row.examples[:3], "```"])
        parts += [f"## {row.id}", lines, "\n".join(facts)]
    return "\n\n".join(parts) + "\n"


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.:]) ", " ".join(text.split()), maxsplit=1)[0]


def _text(text: str) -> str:
    """Returns a text as Markdown, where code stays code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*_<>\[\]])", r"\\\1", part) for part in parts)


def _cell(text: str) -> str:
    return _text(" ".join(text.split())).replace("|", "\\|")


def _code(text: str) -> str:
    return f"``{text}``" if "`" in text else f"`{text}`"


def llms(sources: Path) -> str:
    """Returns `llms.txt` (https://llmstxt.org): every page with its title, as Markdown.

    Args:
        sources: The folder of all pages.
    """
    lines = [
        "# coremlscope",
        "",
        "> Profile, plan, estimate, verify and gate Core ML models on any machine.",
        "",
    ]
    for file in sorted(sources.rglob("*.md"), key=lambda one: (one.parent != sources, one.as_posix())):
        path = file.relative_to(sources)
        if path.parts[0] in ("rules", "findings") and path.name != "index.md":
            continue
        title = next(
            (line[2:] for line in file.read_text("utf-8").splitlines() if line.startswith("# ")), path.stem
        )
        lines.append(f"- [{title}]({SITE}_sources/{path.as_posix()})")
    return "\n".join(lines) + "\n"


def write(sources: Path, more: Mapping[str, Callable[[], str]]) -> None:
    """Writes everything that Sphinx reads into a folder.

    Args:
        sources: The folder, which is replaced.
        more: Generated pages of `make_docs.py`.
    """
    shutil.rmtree(sources, ignore_errors=True)
    shutil.copytree(DOCS, sources)
    (sources / "contributing.md").write_text((ROOT / "CONTRIBUTING.md").read_text("utf-8"), "utf-8")
    for path, text in {**pages(), **{name: make() for name, make in more.items()}}.items():
        (sources / path).parent.mkdir(parents=True, exist_ok=True)
        (sources / path).write_text(text, encoding="utf-8")
    extra = sources / "_extra"
    extra.mkdir()
    (extra / "llms.txt").write_text(llms(sources), encoding="utf-8")


if __name__ == "__main__":
    import make_docs

    write(Path(sys.argv[1]), make_docs.PAGES)
