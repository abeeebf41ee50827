"""Tables on narrow screens: nothing is cut in silence, labels of rows stay, and words stay whole."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from coremlscope.cli import main
from coremlscope.reports.document import Column
from coremlscope.reports.terminal.layout import fit_columns
from coremlscope.reports.terminal.screen import Screen, wrap

COLUMNS = (
    Column("name", style="cyan"),
    Column("time", is_number=True),
    Column("interval", is_number=True, rank=1),
    Column("share", is_number=True),
    Column("reason"),
)
REASON = "a text that is much longer than what a narrow screen can show in a column"
ROWS = [("a_name_that_is_long", "1.00 ms", "0.90 – 1.10", "10.0 %", REASON), ("b", "2.00 ms", "", "90 %", "")]


def table(width: int) -> list[str]:
    screen = Screen(width, color=False)
    screen.table(COLUMNS, ROWS)
    lines = screen.text.splitlines()
    assert max(map(cell_len, lines)) <= width
    return lines


def test_wide_enough() -> None:
    title, first, _ = table(140)
    assert title.split() == ["name", "time", "interval", "share", "reason"]
    assert first.endswith(REASON)


def test_a_long_text_moves_below_its_row() -> None:
    _, first, *rest = table(60)
    assert first.split() == ["a_name_that_is_long", "1.00", "ms", "0.90", "–", "1.10", "10.0", "%"]
    assert "".join(line.strip() + " " for line in rest[:-1]).strip() == f"reason: {REASON}"
    assert rest[-1].split() == ["b", "2.00", "ms", "90", "%"]


@pytest.mark.parametrize(("width", "left_out"), [(48, "interval"), (40, "interval, share")])
def test_columns_are_left_out_by_rank_then_from_the_right(width: int, left_out: str) -> None:
    if width == 40:
        layout = fit_columns(COLUMNS, ROWS, 30)
        assert layout.left_out == (2, 3)
        return
    lines = table(width)
    assert lines[-1] == f"  left out at {width} columns: {left_out}"
    assert any(line.startswith("  a_name_that_is_long  1.00 ms  10.0 %") for line in lines)


@pytest.mark.parametrize("width", range(1, 40))
def test_the_label_is_never_left_out(width: int) -> None:
    layout = fit_columns(COLUMNS, ROWS, width)
    assert 0 in layout.widths
    assert sum(layout.widths.values()) + 2 * (len(layout.widths) - 1) <= max(width, 1)


def test_long_words_break_after_separators() -> None:
    address = "https://github.com/tensorflow/models/tree/master/research"
    lines = wrap(f"see {address}", 30)
    assert lines == [
        "see",
        "https://github.com/tensorflow/",
        "models/tree/master/research",
    ]
    assert wrap("constexpr_blockwise_shift_scale", 20) == ["constexpr_blockwise_", "shift_scale"]
    assert wrap("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]
    assert wrap("one\n\n  two  three", 11) == ["one", "", "  two", "three"]


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_devices_in_full_words(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["devices"]) == 0
    text = capsys.readouterr().out
    assert "…" not in text
    assert all(chip in text for chip in ("\n  m1-ultra ", "\n  a17-pro "))
    assert max(map(len, text.splitlines())) <= width


def test_figures_of_a_device_have_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "m4"]) == 0
    text = capsys.readouterr().out
    assert "dispatch floor" in text
    assert "peak rate" in text
    assert "static analysis" in text
    assert "_OPps" not in text


def test_devices_of_repeated_options_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "conv()", "--device", "m1", "--device", "m2,m1"]) == 0
    text = capsys.readouterr().out
    devices = [line.split()[1] for line in text.splitlines() if line.startswith("device ")]
    assert devices == ["M1,", "M2,"]
