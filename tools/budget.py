"""Counts the concepts of each room, and compares them with the budget that the repository holds.

`python tools/budget.py` prints a table of what each room holds. With `--against FOLDER`, another checkout, it
has the differences, as a pull request's workflow prints them. `--write` writes the budget anew.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: What is counted, and how a person lowers it.
COUNTED: Mapping[str, str] = {
    "tokens": "tokens of Python without comments, line ends and indents",
    "classes": "classes",
    "functions": "public functions and methods",
    "constants": "numeric constants of modules",
    "options": "options and arguments of the command line",
    "findings": "kinds of finding",
    "kind_checks": "places that ask what kind a model is",
}
_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
#: The kinds of content of `ir.Model`.
_CONTENTS = {"Program", "Pipeline", "Classical", "External", "Opaque", "NonMaximumSuppression"}


def _names(node: ast.AST) -> Iterator[str]:
    """Yields the last part of each name in an expression."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr


def _is_kind_check(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
        return len(node.args) == 2 and bool(_CONTENTS & set(_names(node.args[1])))
    if isinstance(node, ast.Match):
        return ast.unparse(node.subject).rpartition(".")[2] == "content"
    if isinstance(node, ast.Compare):
        return any(
            ast.unparse(part).endswith(("content.kind", "model.kind"))
            for part in (node.left, *node.comparators)
        )
    return False


def _is_number(node: ast.AST | None) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    if isinstance(node, ast.Tuple):  # two constants in one line: a, b = 1, 2
        return bool(node.elts) and all(map(_is_number, node.elts))
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _constants(tree: ast.Module) -> int:
    count = 0
    for node in tree.body:
        if isinstance(node, ast.Assign) and _is_number(node.value):
            target = node.targets[0]
            count += len(target.elts) if isinstance(target, ast.Tuple) else 1
        elif isinstance(node, ast.AnnAssign) and _is_number(node.value):
            count += 1
    return count


def _finding(node: ast.Call) -> str | None:
    """Returns the id that a call gives to a finding; None for another call."""
    if not isinstance(node.func, ast.Name | ast.Attribute):
        return None
    name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
    if name not in ("Finding", "AdviceRule"):
        return None
    given = [keyword.value for keyword in node.keywords if keyword.arg == "id"] or node.args[:1]
    return ast.unparse(given[0]) if given else None


def count_file(path: Path) -> tuple[Counter[str], set[str]]:
    """Returns the counts of a file, and the ids of findings in it."""
    found: Counter[str] = Counter()
    with path.open("rb") as file:
        found["tokens"] = sum(token.type not in _LAYOUT for token in tokenize.tokenize(file.readline))
    tree = ast.parse(path.read_bytes())
    found["constants"] = _constants(tree)
    ids = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            found["classes"] += 1
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found["functions"] += not node.name.startswith("_")
        elif isinstance(node, ast.Call):
            is_argument = isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument"
            found["options"] += is_argument
            if id_ := _finding(node):
                ids.add(id_)
        found["kind_checks"] += _is_kind_check(node)
    return found, ids


def count_rooms(root: Path = ROOT) -> dict[str, dict[str, int]]:
    """Returns the counts of each room of a checkout; modules at the top are the room `.`."""
    package = root / "src" / "coremlscope"
    rooms: dict[str, Counter[str]] = {}
    ids: dict[str, set[str]] = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).parts
        room = parts[0] if len(parts) > 1 else "."
        counts, found = count_file(path)
        rooms.setdefault(room, Counter()).update(counts)
        ids.setdefault(room, set()).update(found)
    for room, found in ids.items():
        rooms[room]["findings"] = len(found)
    return {room: {name: counts[name] for name in COUNTED} for room, counts in rooms.items()}


def read_budget(path: Path) -> dict[str, dict[str, int]]:
    """Returns the budget of each room."""
    with path.open("rb") as file:
        rooms: dict[str, dict[str, int]] = tomllib.load(file)["rooms"]
        return rooms


def exceeded(counts: Mapping[str, Mapping[str, int]], budget: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Returns a line for each count above its budget; a room without a budget may hold nothing."""
    return [
        f"{room}: {number} {COUNTED[name]}, {number - allowed} above the budget of {allowed}"
        for room, found in counts.items()
        for name, number in found.items()
        if number > (allowed := budget.get(room, {}).get(name, 0))
    ]


def _write(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Returns the file of a budget."""
    lines = [
        "# What each room may hold: `python tools/budget.py` prints the counts, `--write` writes them here.",
        "# A commit that takes something away lowers the numbers by `--write`. One that adds raises them by",
        "# it, and its message has the reason.",
        *(f"# {name}: {what}" for name, what in COUNTED.items()),
        "",
        "[rooms]",
    ]
    for room in sorted(counts):
        cells = ", ".join(f"{name} = {number}" for name, number in counts[room].items())
        lines.append(f'"{room}" = {{ {cells} }}')
    return "\n".join(lines) + "\n"


def _table(
    counts: Mapping[str, Mapping[str, int]], other: Mapping[str, Mapping[str, int]] | None
) -> Iterator[str]:
    """Yields the lines of a table in Markdown; with another checkout's counts, the differences to it."""
    yield f"| room | {' | '.join(COUNTED)} |"
    yield f"|---|{'---:|' * len(COUNTED)}"
    rooms = sorted({*counts, *(other or {})})
    for name in (*rooms, "all"):
        cells = []
        for what in COUNTED:
            here, there = (
                sum(side.get(room, {}).get(what, 0) for room in (rooms if name == "all" else [name]))
                for side in (counts, other or {})
            )
            cells.append(
                f"{here:,}" + (f" ({here - there:+,})" if other is not None and here != there else "")
            )
        yield f"| {name} | {' | '.join(cells)} |"


def main() -> int:
    """Prints the table, or writes the budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, help="another checkout: print the differences to it")
    parser.add_argument("--write", action="store_true", help="write tests/budget.toml anew")
    given = parser.parse_args()
    counts = count_rooms()
    if given.write:
        (ROOT / "tests" / "budget.toml").write_text(_write(counts), encoding="utf-8")
    print("\n".join(_table(counts, count_rooms(given.against) if given.against else None)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
