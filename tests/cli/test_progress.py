from __future__ import annotations

import io

import pytest

from coremlscope.cli.progress import progress_bars


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def attach(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Makes standard error a terminal. Not a fixture, because pytest replaces the stream after fixtures."""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("coremlscope.cli.progress._REDRAW_S", -1.0)
    return stream


def test_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attach(monkeypatch)
    with progress_bars(True) as progress:
        assert progress is not None
        for phase, total in (("compile", 2), ("predict", 3)):
            for done in range(total + 1):
                progress(phase, done, total)
    text = terminal.getvalue()
    assert text.index("compiling") < text.index("predicting")
    assert "3/3" in text
    # The last bar is erased, so that later output starts on an empty line.
    assert text.endswith("\x1b[2K")


def test_nothing_is_shown_where_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attach(monkeypatch)
    with progress_bars(False) as progress:
        assert progress is None
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("reason", ["dumb", "no terminal"])
def test_without_bars_there_is_a_line_every_ten_seconds(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream: io.StringIO = attach(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    if reason == "no terminal":
        stream = io.StringIO()
        monkeypatch.setattr("sys.stderr", stream)
    seconds = iter(range(0, 100, 4))
    monkeypatch.setattr("coremlscope.cli.progress.time.monotonic", lambda: next(seconds))
    with progress_bars(True) as progress:
        assert progress is not None
        for done in range(7):
            progress("predict", done, 7)
    assert stream.getvalue().splitlines() == [
        "predicting 2/7, after 12 s",
        "predicting 5/7, after 24 s",
    ]
