"""Commands in texts can be pasted into zsh, and their verbs take them."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import coremlscope
from coremlscope.base.errors import UsageError
from coremlscope.cli.command import Parser
from coremlscope.cli.main import VERBS, find_command

_SOURCES = Path(coremlscope.__file__).parent
_COMMAND = re.compile(r"`((?:coremlscope|pip install) [^`]*)`|^  (coremlscope [^\n]*)$", re.MULTILINE)
#: What a file with a command contains besides imports and names of modules.
_MENTIONED = re.compile(r"(?:(?<!from )coremlscope|pip install)\b(?![.\w])")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
#: What zsh expands or interprets outside quotes: patterns, with EXTENDED_GLOB `#`, `^` and `~` as well.
_SPECIAL = re.compile(r"[][*?#^~(){}<>|;&$!]")

#: What is meant to be expanded: patterns of models, and the home folder.
_ALLOWED = re.compile(r"\*\.ml\w+|(?<= )~/")


def _commands() -> list[tuple[str, str]]:
    found = []
    for path in sorted(_SOURCES.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for value in _texts(ast.parse(text)) if _MENTIONED.search(text) else ():
            found += [(path.name, a or b) for a, b in _COMMAND.findall(value)]
    return found


def _texts(tree: ast.AST) -> Iterator[str]:
    """Yields the texts of a module, those with values in them whole."""
    parts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts.update(map(id, node.values))
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


def test_commands_are_quoted() -> None:
    commands = _commands()
    assert len(commands) > 100
    special = {
        (file, command)
        for file, command in commands
        if _SPECIAL.search(_ALLOWED.sub("", _QUOTED.sub("", command.partition(" | ")[0])))
    }
    assert not special


@pytest.mark.parametrize("text", ["pip install coremlscope[coreml]", "coremlscope inspect App.ipa#Name"])
def test_the_check_finds_what_zsh_expands(text: str) -> None:
    assert _SPECIAL.search(_QUOTED.sub("", text))


#: A fragment of a command names no operands: `coremlscope inspect --ops`.
_FRAGMENT = re.compile(r"(?:is|are) missing$|expected (?:one|at least one) argument")


def _refusal(command: str) -> str:
    """Returns what a verb says against its arguments; empty for nothing."""
    text = command.partition(" | ")[0].replace("=SHAPE", "=1x3x8x8").replace("measurements X", "measurements")
    words = [str(Path(word).expanduser()) if word.startswith("~") else word for word in shlex.split(text)[1:]]
    if not words or words[0] in ("VERB", "X", "--help-all") or "--help" in words:
        return ""
    name, given = (words[0], words[1:]) if words[0] in VERBS else ("answer", words)
    parser = Parser(prog=name)
    find_command(name).configure(parser)
    if name in ("run", "trace"):  # what follows the script is the script's
        given = given[: next((i + 1 for i, word in enumerate(given) if word.endswith(".py")), len(given))]
    try:
        parser.parse_args(given)
    except UsageError as error:
        return "" if _FRAGMENT.search(error.message) else error.message
    return ""


def test_verbs_take_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder in (".zfunc", ".config/fish/completions", ".local/share/bash-completion/completions"):
        (tmp_path / folder).mkdir(parents=True)
    commands = [command for _, command in _commands() if command.startswith("coremlscope")]
    assert len(commands) > 100
    assert [(command, refused) for command in commands if (refused := _refusal(command))] == []


@pytest.mark.parametrize(
    "command", ["coremlscope inspect M --opps", "coremlscope plan M --compute-units gpu_only"]
)
def test_the_check_finds_what_a_verb_does_not_take(command: str) -> None:
    assert _refusal(command)


def test_extras_that_texts_name_exist() -> None:
    project = tomllib.loads((_SOURCES.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {
        extra
        for path in _SOURCES.rglob("*.py")
        for extra in re.findall(r"how_to_install\(\"([^\"]+)\"\)", path.read_text(encoding="utf-8"))
    }
    assert "mcp" in named
    assert named <= project["optional-dependencies"].keys()
