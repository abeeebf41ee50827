"""Exports of Instruments: joined on one clock, and searched for mistakes as recordings of programs are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coremlscope.base.errors import UsageError
from coremlscope.cli import main
from coremlscope.dropin.tracing.saved import read_recording
from coremlscope.reports.page import trace_values
from coremlscope.reports.program.lanes import draw_lanes
from coremlscope.reports.program.report import mistakes_title
from coremlscope.results.aggregate import aggregate, aggregate_models
from tests.support import recorded_files as files

_Row = tuple[float, float, str, str]
#: A program that loads the model before each of 20 predictions: 60 ms, then 20 ms.
_SLOW: list[_Row] = [
    row
    for index in range(20)
    for row in (
        (100 * index, 60, "Encoder-1", "Load"),
        (100 * index + 65, 20, "Encoder-1", "Prediction"),
        (100 * index + 66, 4, "Encoder-1", "GPU Request"),
    )
]


def write(folder: Path, name: str, *nodes: str) -> Path:
    """Writes an export."""
    path = folder / name
    path.write_text(files.document(*nodes), encoding="utf-8")
    return path


def gpu(ms: list[tuple[float, float]]) -> str:
    """Intervals of the GPU, by a process."""
    columns = (("start", "start-time"), ("duration", "duration"), ("channel-name", "gpu-channel-name"))
    rows = [
        files.row(
            f"<start-time>{round(start * 1e6)}</start-time><duration>{round(length * 1e6)}</duration>",
            '<gpu-channel-name fmt="Compute"/><process fmt="app (12)"/>',
        )
        for start, length in ms
    ]
    return files.node("metal-gpu-intervals", (*columns, ("process", "process")), rows)


def test_a_reload_before_each_prediction_is_named_with_its_saving(tmp_path: Path) -> None:
    trace = read_recording([write(tmp_path, "coreml.xml", files.core_ml(_SLOW))])
    assert (trace.loads, len(trace.models)) == (20, 20)
    (found,) = [one for one in trace.mistakes if one.gain_s]
    assert (found.id, found.events, found.gain_s) == ("load-in-loop", 20, pytest.approx(19 * 0.06))
    counts = {row.kind: (row.model, row.count) for row in aggregate(trace)}
    assert counts == dict.fromkeys(("load", "predict", "GPU request"), ("Encoder-1", 20))


def test_numbers_of_instances_are_not_those_of_other_models(tmp_path: Path) -> None:
    numbered = [
        (start, length, f"Net-{index // 3}", kind) for index, (start, length, _, kind) in enumerate(_SLOW)
    ]
    trace = read_recording([write(tmp_path, "numbered.xml", files.core_ml(numbered))])
    assert "load-in-loop" in [one.id for one in trace.mistakes]
    named = [(0, 9, "net-5", "Load"), (10, 9, "net-8", "Load"), (20, 9, "net", "Load")]
    trace = read_recording([write(tmp_path, "named.xml", files.core_ml(named))])
    assert {one.id for one in trace.mistakes} == {"model-unused"}


def test_loads_within_a_load_are_its_parts(tmp_path: Path) -> None:
    rows: list[_Row] = [(0, 50, "Pipe-1", "Load"), (5, 10, "Pipe-1", "Load"), (20, 10, "Pipe-1", "Load")]
    rows += [(60 + 10 * index, 5, "Pipe-1", "Prediction") for index in range(4)]
    trace = read_recording([write(tmp_path, "coreml.xml", files.core_ml(rows))])
    assert trace.loads == 1
    assert trace.mistakes == ()


def test_three_exports_are_three_lanes_with_one_clock(tmp_path: Path) -> None:
    paths = [
        write(tmp_path, "coreml.xml", files.core_ml([row for row in _SLOW if row[3] != "GPU Request"])),
        write(tmp_path, "ane.xml", files.ane([(100 * index + 70, 10) for index in range(20)])),
        write(tmp_path, "gpu.xml", gpu([(100 * index + 80, 2) for index in range(20)])),
    ]
    trace = read_recording(paths)
    lines = [line.partition(" ▏")[0][11:].strip() for line in draw_lanes(trace, 120)]
    assert {"GPU", "Neural Engine"} < set(lines)
    assert len(lines) == 3
    calls = trace.events.of("predict")
    for unit in ("Neural Engine busy", "GPU busy"):
        busy = trace.events.of(unit)
        assert (np.abs(busy.start_ns - calls.start_ns) < 20e6).all()
        assert (busy.end_ns <= calls.end_ns).all()
    assert [process.pid for process in trace.processes] == [0, 12]
    assert len(trace_values(trace)["models"]) == len(trace.models)
    with pytest.raises(UsageError, match="several recordings"):
        read_recording([*paths, write(tmp_path, "other.xml", files.ane([(5, 1)]))])


def test_requests_of_core_ml_and_intervals_of_the_hardware_differ_in_name(tmp_path: Path) -> None:
    requests = [(100 * index + 66, 12, "Encoder-1", "Neural Engine Prediction") for index in range(20)]
    paths = [
        write(tmp_path, "coreml.xml", files.core_ml([*_SLOW, *requests])),
        write(tmp_path, "ane.xml", files.ane([(100 * index + 70, 10) for index in range(20)])),
        write(tmp_path, "gpu.xml", gpu([(100 * index + 67, 2) for index in range(20)])),
    ]
    totals = {row.kind: row.total_s for row in aggregate(read_recording(paths))}
    assert {kind: round(total_s, 3) for kind, total_s in totals.items() if " " in kind} == {
        "GPU request": 0.08,
        "GPU busy": 0.04,
        "Neural Engine request": 0.24,
        "Neural Engine busy": 0.2,
    }


def test_the_verb_reads_all_files_and_options_between_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = str(write(tmp_path, "ane.xml", files.ane([(70, 10)])))
    second = str(write(tmp_path, "coreml.xml", files.core_ml(_SLOW)))
    assert main(["trace", first, "--fps", "60", second, "--fail-on-mistakes"]) == 1
    printed = capsys.readouterr().out
    assert "20 of 20 predictions miss a frame" in printed
    assert "20 loads of 1 model" in printed
    assert main(["trace", "--quiet", first, "run.json"]) == 2
    assert "recording of its own" in capsys.readouterr().err


def test_nothing_searched_is_not_nothing_found(tmp_path: Path) -> None:
    trace = read_recording([write(tmp_path, "ane.xml", files.ane([(70, 10)]))])
    assert (trace.searched, mistakes_title(trace)) == ((), "Not searched for mistakes")
    fine: list[_Row] = [_SLOW[0], *(row for row in _SLOW if row[3] == "Prediction")]
    trace = read_recording([write(tmp_path, "coreml.xml", files.core_ml(fine))])
    assert mistakes_title(trace) == "No mistakes found"
    assert "load-in-loop" in trace.searched
    assert not {"wide-inputs", "two-copies", "frames-missed"} & set(trace.searched)


def test_loads_of_the_neural_engine_show_a_reload_where_core_mls_table_is_empty(tmp_path: Path) -> None:
    def rows(label: str, offset: float, length: float) -> list[str]:
        return [
            files.row(
                f"<start-time>{round((100 * index + offset) * 1e6)}</start-time>",
                f"<duration>{round(length * 1e6)}</duration>",
                '<ane-event-name fmt="Apple Neural Engine"/><metal-nesting-level fmt="0"/>',
                f'<formatted-label fmt="{label}"/><gpu-state fmt="Active"/><render-buffer-depth fmt="0"/>',
            )
            for index in range(20)
        ]

    listed = [*rows("Neural Engine Load", 0, 50), *rows("Neural Engine Prediction", 70, 10)]
    trace = read_recording(
        [write(tmp_path, "ane.xml", files.node("ane-hw-intervals", files.ANE_COLUMNS, listed))]
    )
    (found,) = trace.mistakes
    assert (found.id, found.gain_s) == ("neural-engine-reloaded", pytest.approx(19 * 0.05))


def test_conversions_cost_what_they_take_once(tmp_path: Path) -> None:
    converted = [(row[0] + 1, 5, row[2], "Data Conversion") for row in _SLOW if row[3] == "Prediction"]
    slow_first = [(65, 34, "Encoder-1", "Prediction"), *_SLOW[4:]]
    rows = [_SLOW[0], *(row for row in slow_first if row[3] == "Prediction"), *converted]
    trace = read_recording([write(tmp_path, "coreml.xml", files.core_ml(rows))])
    (found,) = trace.mistakes
    assert (found.id, found.gain_s) == ("data-converted", pytest.approx(0.1))
    assert trace.gain_s == pytest.approx(0.1)


def test_sixty_loads_of_five_models_are_one_mistake(tmp_path: Path) -> None:
    styles = ("Candy", "Feathers", "Mosaic", "Scream", "Udnie")
    rows = [
        row
        for index in range(60)
        for name in [styles[index % 5]]
        for row in (
            (100 * index, 60, f"{name}-1", "Load"),
            (100 * index + 65, 20, f"{name}-1", "Prediction"),
            (100 * index + 86, 0.001, f"{name}-1", "Data Conversion"),
        )
    ]
    trace = read_recording([write(tmp_path, "coreml.xml", files.core_ml(rows))])
    (found,) = trace.mistakes
    assert (found.id, found.events, found.gain_s) == ("load-in-loop", 60, pytest.approx(55 * 0.06))
    assert all(name in found.title for name in styles)
    rows_of_all = {row.kind: (row.count, row.total_s, row.share) for row in aggregate_models(trace)}
    assert rows_of_all["load"][:2] == (60, pytest.approx(3.6))
    assert rows_of_all["load"][2] == pytest.approx(3.6 / trace.duration_s)


def test_models_that_load_longer_than_they_predict_are_one_mistake(tmp_path: Path) -> None:
    rows = [
        row
        for index in range(5)
        for row in (
            (2000 * index, 1280, f"Style{index}-1", "Load"),
            (2000 * index + 1300, 540, f"Style{index}-1", "Prediction"),
        )
    ]
    trace = read_recording([write(tmp_path, "coreml.xml", files.core_ml(rows))])
    (found,) = trace.mistakes
    assert (found.id, found.events) == ("load-above-predict", 5)
    assert "6.40 s" in found.evidence
    assert "2.70 s" in found.evidence


def test_what_costs_little_is_no_mistake(tmp_path: Path) -> None:
    rows = [(0, 0.4, "Net-1", "Load"), (1, 0.4, "Net-1", "Load"), (2, 0.4, "Net-1", "Load")]
    rows += [(3 + 10 * index, 5, "Net-1", "Prediction") for index in range(60)]
    trace = read_recording([write(tmp_path, "coreml.xml", files.core_ml(rows))])
    assert trace.mistakes == ()
    assert "load-in-loop" in trace.searched
