"""Where the installed coremltools writes a text: file, function and condition."""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

#: A string of a source file, and what stands for the values in it.
_STRING = re.compile(r"""(?<![\w])[rf]{0,2}(["'])((?:(?!\1)[^\\\n]|\\.){12,})\1""")
_VALUES = re.compile(r"\{[^{}]*\}|%[-\d.]*[sdrfi]|\\[nt\"']")
_WORD = re.compile(r"[A-Za-z_]+")
#: The shortest part of a text that counts, and the least that all parts of it hold.
_PART, _LEAST = 6, 16


class Raised(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a text in the installed coremltools.

    Attributes:
        file: The file, below the package's folder.
        line: The line of the text.
        function: The function around it; empty at the top of a module.
        condition: The condition that leads to it; empty if there is none.
    """

    file: str
    line: int
    function: str = ""
    condition: str = ""

    def __str__(self) -> str:
        inside = f" in {self.function}" if self.function else ""
        condition = f", if {self.condition}" if self.condition else ""
        return f"coremltools/{self.file}:{self.line}{inside}{condition}"


def find_raised(text: str) -> Raised | None:
    """Returns where the installed coremltools writes a text; None if it is not installed or does not.

    Args:
        text: A line of a log.
    """
    best: tuple[int, Path, int] | None = None
    words = _WORD.findall(text)
    runs = [" ".join(run) for run in zip(words, words[1:], words[2:], strict=False)]
    for path in _sources():
        source = path.read_text(encoding="utf-8", errors="replace")
        if not any(run in source for run in runs):
            continue
        for match in _STRING.finditer(source):
            parts = [part.strip() for part in _VALUES.split(match[2]) if len(part.strip()) >= _PART]
            size = sum(map(len, parts))
            if size >= _LEAST and (best is None or size > best[0]) and all(part in text for part in parts):
                best = size, path, source.count("\n", 0, match.start()) + 1
    return None if best is None else _place(best[1], best[2])


@functools.cache
def _sources() -> Sequence[Path]:
    """The files of the installed coremltools, but its tests and generated code."""
    spec = importlib.util.find_spec("coremltools")
    if spec is None or spec.origin is None:
        return ()
    files = sorted(Path(spec.origin).parent.rglob("*.py"))
    return tuple(path for path in files if "test" not in path.as_posix() and "proto" not in path.parts)


def _place(path: Path, line: int) -> Raised:
    root = next(parent for parent in path.parents if parent.name == "coremltools")
    function = condition = ""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
    except SyntaxError:
        tree = ast.Module(body=[], type_ignores=[])
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or not node.lineno <= line <= (node.end_lineno or node.lineno):
            continue
        if isinstance(node, ast.FunctionDef):
            function, condition = node.name, ""
        elif isinstance(node, ast.If) and any(
            one.lineno <= line <= (one.end_lineno or one.lineno) for one in node.body
        ):
            condition = " ".join(ast.unparse(node.test).split())
        elif isinstance(node, ast.Assert):
            condition = f"not ({' '.join(ast.unparse(node.test).split())})"
    return Raised(file=path.relative_to(root).as_posix(), line=line, function=function, condition=condition)
