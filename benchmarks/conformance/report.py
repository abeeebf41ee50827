"""Summarises results: pass rates by folder, and failures by message."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.conformance.runner import FOLDERS, Result

_EXAMPLES = 3
_GROUPS = 60
#: The model families that results are grouped by; see `family`.
FAMILIES = ("ML Programs", "neural networks", "classical models")


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """Failures that the runtime does not cause.

    Attributes:
        pattern: A regular expression that matches the start of a test's id.
        message: A regular expression that occurs in the failure's message.
        reason: Why the tests fail, in one line.
        covers: The number of tests in the suite that fail for this reason.
    """

    pattern: str
    message: str
    reason: str
    covers: int


def read_known_failures(path: Path) -> list[KnownFailure]:
    """Reads the table of known failures."""
    rows = tomllib.loads(path.read_text(encoding="utf-8")).get("failure", [])
    return [KnownFailure(r["pattern"], r.get("message", ""), r["reason"], r["covers"]) for r in rows]


def in_scope(result: Result) -> bool:
    """True for tests that loaded a model or predicted, and passed or failed."""
    return result["outcome"] in ("passed", "failed") and bool(result["scope"])


def family(result: Result) -> str:
    """The model family that a test belongs to."""
    kinds = set(result["kinds"])
    if "neuralnetwork" in result["id"].lower() or any(k.startswith("neural") for k in kinds):
        return "neural networks"
    return "classical models" if kinds and "mlProgram" not in kinds else "ML Programs"


class Table:
    """Summarised results.

    Attributes:
        scope: The results of tests in scope.
        passed: The number of tests in scope that passed.
        failed: The number of tests in scope that failed.
        failures: The results of the failed tests.
        explained: The number of known failures by reason.
        unexplained: The failures that are not known.
    """

    def __init__(self, results: Sequence[Result], known: Sequence[KnownFailure]) -> None:
        self.scope = [r for r in results if in_scope(r)]
        self.failures = [r for r in self.scope if r["outcome"] == "failed"]
        self.passed = len(self.scope) - len(self.failures)
        self.failed = len(self.failures)
        self.explained: Counter[str] = Counter()
        self.unexplained: list[Result] = []
        for result in self.failures:
            reason = explain(result, known)
            if reason is None:
                self.unexplained.append(result)
            else:
                self.explained[reason] += 1

    def write(self, folder: Path) -> str:
        """Writes `report.md` and `failures.json`, which lists every failure; returns the report."""
        text = self.render()
        (folder / "report.md").write_text(text, encoding="utf-8")
        rows = [
            {"id": r["id"], "explained": r not in self.unexplained, "message": r["message"]}
            for r in self.failures
        ]
        (folder / "failures.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        return text

    def render(self) -> str:
        """The report as Markdown."""
        lines = [
            "# Conformance",
            "",
            "| folder | models | in scope | passed | failed | pass rate |",
            "|---|---|---:|---:|---:|---:|",
        ]
        for folder in (*FOLDERS, ""):
            rows = [r for r in self.scope if r["id"].startswith(folder)]
            for kind in FAMILIES:
                lines += _row(folder or "**all**", kind, [r for r in rows if family(r) == kind])
        lines += _row("**all**", "**all**", self.scope)
        lines += ["", f"## Failures: {self.failed}, unexplained: {len(self.unexplained)}", ""]
        lines += _grouped(self.unexplained)
        if self.explained:
            lines += ["", "## Known failures", ""]
            lines += [f"- {count} × {reason}" for reason, count in self.explained.most_common()]
        return "\n".join([*lines, ""])


def explain(result: Result, known: Sequence[KnownFailure]) -> str | None:
    """The reason of a known failure; None if it is not known."""
    for row in known:
        if re.match(row.pattern, result["id"]) and re.search(row.message, result["message"]):
            return row.reason
    return None


def _row(folder: str, kind: str, results: Sequence[Result]) -> list[str]:
    if not results:
        return []
    passed = sum(r["outcome"] == "passed" for r in results)
    numbers = f"{len(results)} | {passed} | {len(results) - passed} | {passed / len(results):.2%}"
    return [f"| {folder} | {kind} | {numbers} |"]


def _grouped(failures: Sequence[Result]) -> list[str]:
    groups: Mapping[str, list[str]] = defaultdict(list)
    for result in failures:
        groups[headline(result["message"])].append(result["id"])
    lines = []
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    for message, ids in ordered[:_GROUPS]:
        lines.append(f"- **{len(ids)}** × `{message}`")
        lines += [f"  - {test}" for test in ids[:_EXAMPLES]]
    if len(ordered) > _GROUPS:
        lines.append(f"- … and {len(ordered) - _GROUPS} more messages")
    return lines


def headline(message: str) -> str:
    """The error line of a traceback, without addresses, paths and operation ids."""
    errors = [line[2:].strip() for line in message.splitlines() if line.startswith("E ")]
    line = errors[0] if errors else (message.strip().splitlines() or ["no message"])[-1]
    return re.sub(r"main/[\w/]+", "OP", re.sub(r"0x[0-9a-f]+|/tmp/\S+", "…", line))[:160]
