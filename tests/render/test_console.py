from __future__ import annotations

import pytest

import golden
from coremlscope.render import render_console
from render.made import made_profile, made_summary

SUBJECTS = {"inspect": made_summary, "profile": made_profile}


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("name", SUBJECTS)
def test_screens(name: str, width: int) -> None:
    golden.check(f"{name}_{width}.txt", render_console(SUBJECTS[name](), width=width))


@pytest.mark.parametrize("width", [80, 140])
def test_operations(width: int) -> None:
    text = render_console(made_summary(list_ops=True), width=width)
    lines = text[text.index("All operations") :].splitlines(keepends=True)
    golden.check(f"inspect_ops_{width}.txt", "".join([*lines[:6], *lines[-4:]]))


@pytest.mark.parametrize("width", [40, 80, 100, 140, 200])
@pytest.mark.parametrize("name", SUBJECTS)
def test_nothing_is_wider_than_the_terminal(name: str, width: int) -> None:
    lines = render_console(SUBJECTS[name](), width=width).splitlines()
    assert max(map(len, lines)) <= width


def test_colour_changes_no_text() -> None:
    import re

    plain = render_console(made_profile(), width=100)
    coloured = render_console(made_profile(), width=100, color=True)
    assert "\x1b[" in coloured
    assert "\x1b" not in plain
    bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in bare.splitlines()] == plain.splitlines()
