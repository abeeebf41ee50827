"""Checks of the documentation: links, commands, code examples, and a page for each rule and finding.

`make site` builds the same pages with Sphinx, strictly.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from coremlscope.base.site import SITE, finding_page, rule_page
from coremlscope.cli import all_commands
from coremlscope.cli.command import Parser
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.planning.placement.catalog import list_rules

_ROOT = Path(__file__).resolve().parents[2]
_DOCS = _ROOT / "docs"
#: Written by benchmarks.
_FIGURES = ("accuracy.md", "speed.md", "token-rates.md", "waits.md")
#: Words of all pages that people write. What is said twice, or to nobody, goes first.
_MOST_WORDS = 30_000
#: Columns of a line of code, or of output.
_MOST_COLUMNS = 88


def _tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, _ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_MAKE_DOCS = _tool("make_docs")
#: Pages of the site by their path, written and generated ones.
_GENERATED = {**_tool("make_site").pages(), **{path: make() for path, make in _MAKE_DOCS.PAGES.items()}}
_WRITTEN = {
    **{page.relative_to(_DOCS).as_posix(): page.read_text(encoding="utf-8") for page in _DOCS.rglob("*.md")},
    "contributing.md": (_ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"),
}
_SITE = {**_WRITTEN, **_GENERATED}
#: Pages that are read in the repository.
_IN_REPOSITORY = {
    name: (_ROOT / name).read_text(encoding="utf-8")
    for name in ("README.md", "CHANGELOG.md", "skills/coremlscope/SKILL.md", "changes/README.md")
}
_TEXTS = {**_IN_REPOSITORY, **_WRITTEN}


def _blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def _anchors(text: str) -> set[str]:
    """The anchors that GitHub and MyST generate for the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", sorted(_MAKE_DOCS.SCHEMAS))
def test_schemas_are_up_to_date(name: str) -> None:
    assert (_DOCS / name).read_text(encoding="utf-8") == _MAKE_DOCS.SCHEMAS[name](), "run `make docs`"


def test_types_of_the_front_end_are_up_to_date() -> None:
    written = (_ROOT / "frontend" / "src" / "data" / "schema.ts").read_text(encoding="utf-8")
    assert written == _tool("make_types").type_script(), "run `make frontend`"


def test_pages_that_people_write_stay_short() -> None:
    texts = [text for page, text in _WRITTEN.items() if page not in _FIGURES]
    assert sum(len(text.split()) for text in [*texts, _IN_REPOSITORY["README.md"]]) <= _MOST_WORDS


@pytest.mark.parametrize("page", [*_WRITTEN, "README.md", "examples/README.md"])
def test_blocks_fit_into_the_page(page: str) -> None:
    """Lines of at most 88 columns need no scrolling next to the navigation."""
    text = _TEXTS.get(page) or (_ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```$", text, re.M | re.S)
    assert [line for block in blocks for line in block.splitlines() if len(line) > _MOST_COLUMNS] == []


def _check_link(page: str, target: str) -> None:
    target = target.removeprefix("<").removesuffix(">")
    if target.startswith(SITE):
        target = target.removeprefix(SITE)
        path, _, anchor = target.partition("#")
        name = f"{path.strip('/') or 'index'}.md"
        if path.endswith((".txt", ".json")):
            return
    elif target.startswith("https://"):
        return
    else:
        path, _, anchor = target.partition("#")
        folder = _DOCS / page if page in _SITE else _ROOT / page
        file = (folder.parent / path).resolve() if path else folder
        if file.suffix != ".md" or not file.is_relative_to(_DOCS):
            assert page not in _SITE or file.is_relative_to(_DOCS), f"{target} is outside of the site"
            assert file.exists(), target
            return
        name = file.relative_to(_DOCS).as_posix()
    assert name in _SITE, target
    if anchor:
        assert anchor in _anchors(_SITE[name]), target


@pytest.mark.parametrize("page", _TEXTS)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", _TEXTS[page]):
        _check_link(page, target)


def test_links_of_generated_pages_lead_somewhere() -> None:
    for page, text in _GENERATED.items():
        for target in re.findall(r"(?<!\\)\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
            _check_link(page, target)


def test_every_page_is_in_the_navigation() -> None:
    trees = {page: "\n".join(_blocks(text, r"\{toctree\}")) for page, text in _SITE.items()}
    listed = {
        (Path(page).parent / line.strip()).as_posix() + ".md"
        for page, tree in trees.items()
        for line in tree.splitlines()
        if line.strip() and not line.startswith(":")
    }
    alone = {page for page, text in _SITE.items() if text.startswith("---\norphan: true")}
    assert listed | alone | {"index.md"} == _SITE.keys()


def test_every_rule_and_finding_has_a_page_at_its_address() -> None:
    rules = [rule_page(entry.id) for entry in list_rules()]
    findings = [finding_page(key) for key in _tool("make_site").other_findings()]
    assert len(rules) > 150
    assert len(findings) > 100
    for address in [*rules, *findings]:
        _check_link("index.md", address)


def test_the_address_is_one() -> None:
    for file in ("pyproject.toml", "frontend/src/site.ts"):
        assert f'"{SITE}"' in (_ROOT / file).read_text(encoding="utf-8"), file


@pytest.mark.parametrize("page", _TEXTS)
def test_commands_are_ones_that_exist(page: str) -> None:
    text = _TEXTS[page].replace("\\\n", "")
    shown = re.findall(
        r"^(?:\$ )?(coremlscope .*|make .*)$", "\n".join(_blocks(text, "(?:console|sh)")), re.M
    )
    quoted = re.findall(
        r"`((?:make|coremlscope) [a-z][^`]*)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    )
    verbs = {command.name: command for command in all_commands()}
    targets = set(re.findall(r"^([a-z-]+):", (_ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for line in [*shown, *quoted]:
        program, name, *arguments = shlex.split(line, comments=True)
        if program == "make":
            assert name in targets | {".venv/.dev"}, line
        elif name != "--help" and not name.endswith(
            (".mlpackage", ".onnx")
        ):  # without a verb, the first answer
            assert name in verbs, line
            parser = Parser(prog=name)
            verbs[name].configure(parser)
            if arguments:
                parser.parse_args(arguments)


#: Folders from which pages name files, and what a page names that a user's machine or a reader puts there.
_BASES = ("", "src/coremlscope", "src/coremlscope/planning", "frontend/src")
_NOT_OURS = re.compile(r"FAMILY|ID\.toml|^out/|^_sources/|\*|^[A-Z]")


@functools.cache
def _identifiers(path: Path) -> frozenset[str]:
    """The constants in a file, or in the files of a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    texts = (file.read_text(encoding="utf-8") for file in files if file.suffix in {".py", ".ts", ".tsx"})
    return frozenset(name for text in texts for name in re.findall(r"\b_?[A-Z][A-Z_]{3,}\b", text))


@pytest.mark.parametrize("page", _TEXTS)
def test_files_and_constants_that_a_page_names_exist(page: str) -> None:
    """A constant stands in one of the files that its line names; in the package where that names none."""
    for line in _TEXTS[page].splitlines():
        quoted = re.findall(r"`([\w./*-]+)`", line)
        told = re.findall(r"(?<![/\w])(?:src|tests|frontend|tools|benchmarks)/[\w./-]*\w", line)
        is_file = re.compile(r"[\w/-]+/[\w-]+\.(?:py|ts|tsx|toml|csv)")
        places = []
        for path in {*told, *filter(is_file.fullmatch, quoted)}:
            if not _NOT_OURS.search(path):
                there = [_ROOT / base / path for base in _BASES if (_ROOT / base / path).exists()]
                assert there, path
                places += there[:1]
        for name in re.findall(r"`(_?[A-Z][A-Z_]{3,})`", line):
            assert any(name in _identifiers(place) for place in places or [_ROOT / "src"]), name


@pytest.mark.parametrize("page", [page for page, text in _TEXTS.items() if _blocks(text, "python")])
def test_python_code_runs(page: str, tmp_path: Path) -> None:
    if page == "guides/sweep.md":
        pytest.importorskip("pyarrow", reason="belongs to the extra `sweep`")
    write_mlpackage(sample_model(width=0.25), tmp_path / "MobileNetV2.mlpackage")
    script = "\n".join(_blocks(_TEXTS[page], "python"))
    finished = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
