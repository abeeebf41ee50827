from __future__ import annotations

import re

import msgspec.structs
import pytest
from rich.cells import cell_len

from coremlscope.reports.document import Column
from coremlscope.reports.markdown.writer import write_markdown
from coremlscope.reports.renderers import document_of
from coremlscope.reports.terminal import screen as screens
from coremlscope.reports.terminal.screen import Screen
from coremlscope.reports.terminal.writer import write_terminal
from tests.support import golden
from tests.support.partial_profiles import PROFILES
from tests.support.profiles import small_profile, small_summary

SUBJECTS = {"inspect": small_summary, "profile": small_profile}


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("name", SUBJECTS)
def test_screens(name: str, width: int) -> None:
    golden.check(f"{name}_{width}.txt", write_terminal(document_of(SUBJECTS[name]()), width=width))


@pytest.mark.parametrize("width", [80, 140])
def test_operations(width: int) -> None:
    text = write_terminal(document_of(small_summary(list_ops=True)), width=width)
    lines = text[text.index("All operations") :].splitlines(keepends=True)
    golden.check(f"inspect_ops_{width}.txt", "".join([*lines[:6], *lines[-4:]]))


@pytest.mark.parametrize("width", [40, 80, 100, 140, 200])
@pytest.mark.parametrize("name", SUBJECTS)
def test_nothing_is_wider_than_the_terminal(name: str, width: int) -> None:
    lines = write_terminal(document_of(SUBJECTS[name]()), width=width).splitlines()
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("name", PROFILES)
def test_no_profile_is_wider_than_the_terminal(name: str, width: int) -> None:
    assert max(map(len, write_terminal(document_of(PROFILES[name]()), width=width).splitlines())) <= width


@pytest.mark.parametrize("width", [80, 140])
def test_several_measurements(width: int) -> None:
    golden.check(
        f"profile_several_{width}.txt",
        write_terminal(document_of(PROFILES["several measurements"]()), width=width),
    )


def test_only_what_was_measured_by_others_is_called_not_core_ml() -> None:
    assert "not Core ML" not in write_terminal(document_of(PROFILES["one phase"]()))
    assert "not Core ML" in write_terminal(document_of(small_profile()))


def test_a_model_that_failed() -> None:
    text = write_terminal(document_of(PROFILES["failure"]()))
    assert text.startswith("c.txt  nothing was measured\n")
    assert "✗ read: c.txt is not a Core ML model\n    give a model" in text


def test_plans_are_shown_where_nothing_else_is() -> None:
    assert "Why not the Neural Engine" in write_terminal(document_of(PROFILES["plan"]()))
    assert "On M1, macOS 15  operations on each unit" in write_terminal(
        document_of(PROFILES["several measurements"]())
    )
    assert "On M1" not in write_terminal(document_of(PROFILES["everything"]()))


def test_colour_changes_no_text() -> None:
    plain = write_terminal(document_of(small_profile()), width=100)
    coloured = write_terminal(document_of(small_profile()), width=100, color=True)
    assert "\x1b[" in coloured
    assert "\x1b" not in plain
    bare = re.sub(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\", "", coloured)  # links of findings, too
    assert [line.rstrip() for line in bare.splitlines()] == plain.splitlines()


def test_times_are_never_cut_by_long_names() -> None:
    profile = small_profile()
    names = tuple(f"{name}_{'x' * 80}" for name in profile.ops.name)
    groups = tuple(
        msgspec.structs.replace(g, label=f"{g.label} and {'more ' * 12}") for g in profile.measurement.groups
    )
    measured = msgspec.structs.replace(profile.measurement, groups=groups)
    ops = msgspec.structs.replace(profile.ops, name=names)
    long = msgspec.structs.replace(profile, ops=ops, measurements=(measured,))
    for width in (80, 100, 140):
        text = write_terminal(document_of(long), width=width)
        slowest = text[text.index("Slowest") : text.index("Findings")]
        assert slowest.count(" µs ") == len(groups)
        assert slowest.count(" %  ") == len(groups)
        assert max(map(len, text.splitlines())) <= width


def test_wide_characters_take_two_columns() -> None:
    screen = Screen(40, color=False)
    screen.table(
        [Column("name", most=20), Column("n", is_number=True)], [("日本語モデル名前" * 5, "7"), ("b", "8")]
    )
    first, wide, narrow = screen.text.splitlines()
    assert cell_len(wide) == cell_len(narrow) == cell_len(first) <= 40


def test_foreign_text_steers_no_terminal() -> None:
    evil = "\x1b[31mred\x1b]0;title\x07\x9b2J\u202eright\n[bold]markup[/bold]"
    summary = msgspec.structs.replace(small_summary(list_ops=True), author=evil, user_defined={evil: evil})
    ops = msgspec.structs.replace(summary.ops, name=(evil,) * len(summary.ops))
    for text in (
        write_terminal(document_of(msgspec.structs.replace(summary, ops=ops)), width=140),
        write_markdown(document_of(msgspec.structs.replace(summary, ops=ops))),
    ):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
        assert "\\x1b[31mred" in text
    assert "[bold]markup[/bold]" in write_terminal(document_of(summary), width=140)


def test_long_names_that_differ_in_the_middle_stay_apart() -> None:
    screen = Screen(40, color=False)
    names = [f"models/experiment-{one}/converted/final/net.mlpackage" for one in ("aa", "ab", "b")]
    screen.table((Column("model", most=24), Column("n", is_number=True)), [[name, "1"] for name in names], 0)
    assert [line.split()[0] for line in screen.text.splitlines()[1:]] == [
        "…nt-aa/con…net.mlpackage",
        "…nt-ab/con…net.mlpackage",
        "…nt-b/conv…net.mlpackage",
    ]


def test_colours_can_be_read_on_light_and_on_dark_screens() -> None:
    from rich.color import Color

    def luminance(name: str) -> float:
        shares = [part / 255 for part in Color.parse(name).get_truecolor()]
        red, green, blue = (s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    shades = [f"color({code.removeprefix('38;5;')})" for code in screens._CODES.values() if ";" in code]
    assert len(shades) == 4
    for shade in shades:
        light = luminance(shade)
        assert 1.05 / (light + 0.05) > 3.8, f"{shade} on white"
        assert (light + 0.05) / 0.05 > 3.8, f"{shade} on black"
