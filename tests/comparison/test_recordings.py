"""Two recordings of a program, before and after a change."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from coremlscope.cli import main
from coremlscope.describe.comparison.recordings import compare_recordings
from coremlscope.dropin.tracing.saved import read_recording
from coremlscope.results.aggregate import aggregate
from coremlscope.results.trace import Trace
from tests.support import recorded_files as files


@pytest.fixture
def recordings(tmp_path: Path) -> tuple[Path, Path]:
    """A program that loads before each of 20 predictions, and one that loads once."""
    rows = [
        row
        for index in range(20)
        for row in ((100 * index, 60, "Net-1", "Load"), (100 * index + 65, 20 + index, "Net-1", "Prediction"))
    ]
    kept = [(start, length, "Net-2", kind) for start, length, _, kind in rows if kind != "Load" or not start]
    paths = tmp_path / "slow.xml", tmp_path / "fast.xml"
    for path, listed in zip(paths, (rows, kept), strict=True):
        path.write_text(files.document(files.core_ml(listed)), encoding="utf-8")
    return paths


def test_counts_means_and_totals_are_those_of_the_recordings(recordings: tuple[Path, Path]) -> None:
    before, after = (read_recording([path]) for path in recordings)
    changes = compare_recordings(before, after, ("a", "b"))
    for side, trace in enumerate((before, after)):
        totals = {row.kind: (row.count, row.mean_s, row.total_s) for row in aggregate(trace)}
        assert {
            row.kind: (row.counts[side], row.means_s[side], row.totals_s[side]) for row in changes.events
        } == {
            kind: (count, pytest.approx(mean), pytest.approx(total))
            for kind, (count, mean, total) in totals.items()
        }
    assert [row.model for row in changes.events] == ["Net-1 → Net-2"] * 2
    assert [one.id for one in changes.gone] == ["load-in-loop"]
    assert (changes.left, changes.new, changes.unsearched) == ((), (), ())


def test_compare_takes_saved_recordings_and_exports(
    recordings: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "slow.json"
    assert main(["trace", "--quiet", str(recordings[0]), "--json", str(saved)]) == 0
    outputs = [str(tmp_path / f"out{suffix}") for suffix in (".json", ".csv", ".md")]
    written = [part for path in outputs for part in ("-o", path)]
    assert main(["compare", str(saved), str(recordings[1]), *written]) == 0
    assert "1 mistake gone" in capsys.readouterr().out
    values = json.loads(Path(outputs[0]).read_text(encoding="utf-8"))
    loads = next(row for row in values["events"] if row["kind"] == "load")
    assert loads["counts"] == [20, 1]
    rows = list(csv.DictReader(Path(outputs[1]).read_text(encoding="utf-8").splitlines()))
    assert [float(row["total_before_s"]) for row in rows] == [row["totals_s"][0] for row in values["events"]]
    assert main(["compare", str(recordings[1]), str(saved), "--quiet", "--json", outputs[0]]) == 0
    assert [one["id"] for one in json.loads(Path(outputs[0]).read_text(encoding="utf-8"))["new"]] == [
        "load-in-loop"
    ]


def test_what_a_recording_cannot_show_is_not_gone(recordings: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "ane.xml"
    path.write_text(files.document(files.ane([(70, 10)])), encoding="utf-8")
    other: Trace = read_recording([path])
    changes = compare_recordings(read_recording(recordings[:1]), other, ("a", "b"))
    assert changes.searched == changes.gone == ()
    assert [one.id for one in changes.unsearched] == ["load-in-loop"]
