from __future__ import annotations

import io

import pytest

from coremlscope.cli.progress import progress_line
from coremlscope.cli.terminal import print_note
from coremlscope.measure.contract import note_seconds


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def attach(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO | None = None) -> io.StringIO:
    """Makes standard error a terminal. Not a fixture, because pytest replaces the stream after fixtures."""
    stream = Terminal() if stream is None else stream
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("coremlscope.cli.progress._REDRAW_S", -1.0)
    monkeypatch.setattr("coremlscope.cli.progress._TICK_S", 1000.0)
    return stream


def test_a_terminal_has_a_line_of_the_phase_and_the_median_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attach(monkeypatch)
    with progress_line(True) as progress:
        assert progress is not None
        progress("compile", 0, 2)
        note_seconds(progress, "predict", [0.001, 0.003])
        progress("predict", 2, 3)
        note_seconds(progress, "predict", [0.002])
        progress("predict", 3, 3)
    drawn = [part.removesuffix(", after 0 s") for part in terminal.getvalue().split("\r\x1b[J")]
    # The last line is erased, so that later output starts on an empty line.
    assert drawn == [
        "",
        "compiling 0/2",
        "predicting 2/3, median 2.00 ms",
        "predicting 3/3, median 2.00 ms",
        "",
    ]


def test_the_seconds_go_on_while_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attach(monkeypatch)
    monkeypatch.setattr("coremlscope.cli.progress._TICK_S", 0.001)
    with progress_line(True):
        while "starting" not in terminal.getvalue():
            pass


def test_a_note_replaces_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attach(monkeypatch)
    with progress_line(True, lambda line: f"table\n{line}") as progress:
        assert progress is not None
        progress("search", 0, 2)
        print_note("note")
    assert terminal.getvalue().endswith("\x1b[1A\x1b[Jnote\n")


def test_nothing_is_shown_where_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attach(monkeypatch)
    with progress_line(False) as progress:
        assert progress is None
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("reason", ["dumb", "no terminal"])
def test_without_a_screen_there_is_a_line_every_ten_seconds(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coremlscope.cli.progress._PRINT_S", 10.0)
    stream = attach(monkeypatch, io.StringIO() if reason == "no terminal" else None)
    monkeypatch.setenv("TERM", "dumb" if reason == "dumb" else "xterm")
    seconds = iter(range(0, 100, 4))
    monkeypatch.setattr("coremlscope.cli.progress.time.monotonic", lambda: next(seconds))
    with progress_line(True) as progress:
        assert progress is not None
        for done in range(7):
            progress("predict", done, 7)
    assert stream.getvalue().splitlines() == [
        "predicting 2/7, after 12 s",
        "predicting 5/7, after 24 s",
    ]


def test_a_reader_that_goes_away_costs_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Terminal):
        def write(self, text: str, /) -> int:
            raise BrokenPipeError

    attach(monkeypatch, Broken())
    with progress_line(True) as progress:
        assert progress is not None
        progress("predict", 0, 1)
