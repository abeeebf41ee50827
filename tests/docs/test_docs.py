"""Checks of the documentation: generated pages, links, commands and code examples."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from coremlscope.cli import COMMANDS
from coremlscope.cli.command import Parser
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model

_ROOT = Path(__file__).resolve().parents[2]
_PAGES = [
    _ROOT / "README.md",
    _ROOT / "skills" / "coremlscope" / "SKILL.md",
    _ROOT / "changes" / "README.md",
    *sorted((_ROOT / "docs").glob("*.md")),
]
_TEXTS = {page.relative_to(_ROOT).as_posix(): page.read_text(encoding="utf-8") for page in _PAGES}


def _blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def _anchors(text: str) -> set[str]:
    """The anchors that GitHub generates for the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _generator(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, _ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted(_generator("make_docs").PAGES))
def test_generated_pages_are_up_to_date(name: str) -> None:
    written = (_ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == _generator("make_docs").PAGES[name](), "run `make docs`"


def test_types_of_the_front_end_are_up_to_date() -> None:
    written = (_ROOT / "frontend" / "src" / "data" / "schema.ts").read_text(encoding="utf-8")
    assert written == _generator("make_types").type_script(), "run `make frontend`"


@pytest.mark.parametrize("page", _TEXTS)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", _TEXTS[page]):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = ((_ROOT / page).parent / path).resolve() if path else _ROOT / page
        assert file.exists(), target
        if anchor:
            assert anchor in _anchors(file.read_text(encoding="utf-8")), target


@pytest.mark.parametrize("page", _TEXTS)
def test_commands_are_ones_that_exist(page: str) -> None:
    text = _TEXTS[page]
    shown = re.findall(
        r"^(?:\$ )?(coremlscope .*|make .*)$", "\n".join(_blocks(text, "(?:console|sh)")), re.M
    )
    quoted = re.findall(
        r"`((?:make|coremlscope) [a-z][^`]*)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    )
    verbs = {command.name: command for command in COMMANDS}
    targets = set(re.findall(r"^([a-z-]+):", (_ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for line in [*shown, *quoted]:
        program, name, *arguments = shlex.split(line, comments=True)
        if program == "make":
            assert name in targets, line
        else:
            assert name in verbs, line
            parser = Parser(prog=name)
            verbs[name].configure(parser)
            if arguments:
                parser.parse_args(arguments)


@pytest.mark.parametrize("page", [page for page, text in _TEXTS.items() if _blocks(text, "python")])
def test_python_code_runs(page: str, tmp_path: Path) -> None:
    if page == "docs/sweep.md":
        pytest.importorskip("pyarrow", reason="belongs to the extra `sweep`")
    write_mlpackage(sample_model(width=0.25), tmp_path / "MobileNetV2.mlpackage")
    script = "\n".join(_blocks(_TEXTS[page], "python"))
    finished = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
