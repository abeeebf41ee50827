"""The shape of the code: sizes, names, docstrings, and what an import costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[1]
_PACKAGE = _ROOT / "src" / "coremlscope"
_MODULES = sorted(_PACKAGE.rglob("*.py"))
_TEXTS = [
    path for folder in ("src", "tests", "tools", "benchmarks") for path in (_ROOT / folder).rglob("*.py")
]

#: Names that say nothing about what is inside.
_EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}

#: What only a verb that needs it may load: slow to import, or absent on some platforms.
_HEAVY = ("coremltools", "google.protobuf", "ml_dtypes", "onnx", "onnxruntime", "PIL", "rich", "torch")

_MAX_MODULE_LINES = 500
_MAX_FUNCTION_LINES = 50


def _name(path: Path) -> str:
    return str(path.relative_to(_ROOT))


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    """Name and number of lines of every function, decorators and docstring left out."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None and len(node.body) > 1 else node.body
            yield node.name, (node.end_lineno or node.lineno) - body[0].lineno + 1


@pytest.mark.parametrize("path", _TEXTS, ids=_name)
def test_files_and_functions_are_short(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= _MAX_MODULE_LINES, f"{lines} lines"
    long = {name: size for name, size in _functions(path) if size > _MAX_FUNCTION_LINES}
    assert not long


@pytest.mark.parametrize("path", _MODULES, ids=_name)
def test_every_module_has_a_docstring(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)


def test_no_module_has_an_empty_name() -> None:
    parts = {part for path in _MODULES for part in path.relative_to(_PACKAGE).with_suffix("").parts}
    assert not parts & _EMPTY_NAMES


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = (
        "import sys, coremlscope\n"
        f"print([name for name in {_HEAVY!r} if name in sys.modules])\n"
    )  # fmt: skip
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False
    )
    assert (finished.stdout, finished.stderr) == ("[]\n", "")
