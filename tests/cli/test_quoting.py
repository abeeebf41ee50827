"""Commands in texts can be pasted into zsh: what it would expand is quoted."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import coremlscope

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
        for node in ast.walk(ast.parse(text)) if _MENTIONED.search(text) else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found += [(path.name, a or b) for a, b in _COMMAND.findall(node.value)]
    return found


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
