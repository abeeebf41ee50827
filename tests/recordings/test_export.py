"""Exports of xctrace. Those built here follow published columns and are not captures."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coremlscope.base.errors import UsageError
from coremlscope.formats.recordings.activity import Summary, summarize_exports
from coremlscope.formats.recordings.export import Export, read_export
from coremlscope.formats.recordings.stacks import classify_frame
from tests.support import recorded_files as files
from tests.support.recorded_files import document, node, row


def read(text: str, chunk: int = 64) -> Export:
    """Reads in small pieces, so that every value is split somewhere."""
    content = text.encode()
    return read_export(content[start : start + chunk] for start in range(0, len(content), chunk))


def summary(*texts: str) -> Summary:
    return summarize_exports([read(text) for text in texts])


def gpu_row(start: int, process: str, cells: str = "") -> str:
    return row(
        f"<start-time>{start}</start-time><duration>1000000</duration>",
        f"<gpu-channel-name>Compute</gpu-channel-name>{cells}{process}",
    )


def test_reconstructed_intervals_of_the_neural_engine() -> None:
    (unit,) = summary(document(files.ane([(500, 0.54), (501.23, 0.538)]))).recording.units
    assert (unit.unit, unit.table, unit.scope) == ("neural_engine", "ane-hw-intervals", "device")
    assert (unit.intervals, unit.busy_s, unit.first_s, unit.last_s) == (2, 0.001078, 0.5, 0.501768)
    assert [(part.name, part.intervals) for part in unit.labels] == [("Neural Engine Prediction", 2)]
    assert unit.durations is not None
    assert unit.durations.median == pytest.approx(539e-6)


def test_overlapping_intervals_count_once() -> None:
    (unit,) = summary(document(files.ane([(10, 5), (0, 2), (12, 1), (14, 4), (30, 1)]))).recording.units
    assert unit.busy_s == pytest.approx((2 + 8 + 1) / 1e3)


def test_reconstructed_events_delimit_predictions() -> None:
    events = [(0, 3, "net-1", "Prediction"), (10, 3, "net-1", "Prediction"), (1, 0.5, "net-1", "CPU")]
    events.append((20, 9, "other-1", "Prediction"))
    activity = summary(document(files.core_ml(events)), document(files.ane([(1, 1), (2.5, 1), (11, 4)])))
    assert activity.predictions_s == (0.003, 0.003)
    assert (activity.model, activity.recording.predictions, activity.recording.are_delimited) == (
        "net-1",
        2,
        True,
    )
    by_unit = {unit.unit: unit for unit in activity.recording.units}
    busy = by_unit["neural_engine"].per_prediction
    assert busy is not None
    assert (busy.min, busy.max) == pytest.approx((0.0015, 0.002))
    assert by_unit["neural_engine"].intervals_per_prediction == 1.5
    assert by_unit["cpu"].busy_s == 0.0005
    assert "other-1" in next(one.text for one in activity.findings if one.id == "other-models")


def test_references_lead_across_rows_tables_and_nested_values() -> None:
    first = gpu_row(
        0,
        '<formatted-label id="4" fmt="x"><process id="6" fmt="a (1)"><pid id="7">1</pid></process>'
        "</formatted-label>",
    )
    second = gpu_row(2_000_000, '<process ref="6"/>')
    dropped = row('<start-time id="9">x</start-time><duration id="10">5000000</duration>')
    other = row('<start-time>9</start-time><duration ref="10"/><formatted-label ref="4"/>')
    export = read(
        document(
            node("metal-gpu-intervals", (), [first, second, dropped]), node("ane-hw-intervals", (), [other])
        )
    )
    assert (export.unresolved, export.damaged) == (0, 1)
    gpu, ane = summarize_exports([export]).recording.units
    assert [(part.name, part.intervals) for part in gpu.processes] == [("a (1)", 1)]
    assert (ane.busy_s, ane.labels[0].name) == (0.005, "x")


def test_references_may_point_to_later_texts() -> None:
    late = '<process id="p1" fmt="never"/><process id="44" fmt="late (9)"><pid>9</pid></process>'
    text = document(node("mps-hw-intervals", (), [gpu_row(0, '<process ref="44"/>')])).replace(
        "</trace-query-result>", f"{late}</trace-query-result>"
    )
    export = read(text)
    assert export.unresolved == 0
    assert summarize_exports([export]).recording.units[0].processes[0].name == "late (9)"


def test_references_that_lead_nowhere_are_counted() -> None:
    rows = [gpu_row(0, '<process ref="999"/>'), gpu_row(5, '<process ref="x"/>')]
    rows.append(
        row('<start-time ref="12345"/><duration>1</duration><gpu-channel-name>Compute</gpu-channel-name>')
    )
    export = read(document(node("metal-gpu-intervals", (), rows)))
    assert (export.unresolved, export.damaged) == (3, 1)
    found = summarize_exports([export])
    assert found.recording.units[0].processes == ()
    assert {one.id for one in found.findings} >= {"unresolved-references", "damaged-rows"}


def test_columns_tell_a_duration_from_a_latency() -> None:
    columns = (("start", "start-time"), ("start-latency", "duration"), ("duration", "duration"))
    cells = row("<start-time>0</start-time><duration>7</duration><duration>1000000</duration>")
    assert summary(document(node("ane-hw-intervals", columns, [cells]))).recording.units[0].busy_s == 0.001


def test_a_table_without_columns_is_known_by_its_types() -> None:
    text = document(files.ane([(0, 1)])).replace("\n", "")
    bare = text[: text.index("<schema")] + text[text.index("</schema>") + 9 :]
    assert read(bare).tables.keys() == {"ane-hw-intervals"}


def test_no_rows_and_no_table_are_told_apart() -> None:
    empty = summary(files.contents("ane-hw-intervals", "coreml-os-signpost"), document(files.ane([])))
    assert empty.recording.tables["ane-hw-intervals"] == 0
    assert "has no rows" in next(one.text for one in empty.findings if one.id == "neural-engine-unknown")
    absent = summary(files.contents("coreml-os-signpost"), document(files.core_ml([])))
    assert absent.recording.tables == {
        "coreml-os-signpost": 0,
        "ane-hw-intervals": None,
        "mps-hw-intervals": None,
        "metal-gpu-intervals": None,
    }
    assert "has no table" in next(one.text for one in absent.findings if one.id == "neural-engine-unknown")
    assert read(document('<node xpath="x"/>')).empty == 1


def test_the_target_of_the_recording_is_told_from_other_processes() -> None:
    own, other = ('<process fmt="python3 (4711)"/>', '<process fmt="WindowServer (1)"/>')
    rows = [gpu_row(0, own), gpu_row(5_000_000, other), gpu_row(9_000_000, own)]
    activity = summary(files.contents("metal-gpu-intervals"), document(node("metal-gpu-intervals", (), rows)))
    (unit,) = activity.recording.units
    assert (activity.recording.target, unit.intervals, unit.busy_s) == ("python3 (4711)", 2, 0.002)
    assert {part.name: part.intervals for part in unit.processes} == {
        "python3 (4711)": 2,
        "WindowServer (1)": 1,
    }
    assert (activity.device, activity.system) == ("MacBook Pro", "macOS 27.0 (26A434)")
    assert "SECRET" not in repr(activity)


def test_the_first_of_several_runs_is_described() -> None:
    text = files.contents("ane-hw-intervals")
    run = text[text.index("<run") : text.index("</trace-toc>")]
    activity = summary(text.replace(run, run + run.replace("15.0", "99.0").replace("python3", "other")))
    assert (activity.recording.duration_s, activity.recording.target) == (15.0, "python3 (4711)")
    assert "2 runs" in next(one.text for one in activity.findings if one.id == "several-runs")


def test_stacks_are_classified_by_their_frames() -> None:
    def sample(*frames: str) -> str:
        stack = "".join(frames)
        return row(f"<sample-time>1</sample-time><weight>1</weight><backtrace>{stack}</backtrace>")

    ane = '<frame id="1" name="-[_ANEClient x]"><binary id="2" name="AppleNeuralEngine"/></frame>'
    rows = [
        sample(ane, '<frame name="main"><binary name="python3"/></frame>'),
        sample('<frame ref="1"/>'),
        sample('<frame name="x"><binary id="3" name="libBNNS.dylib"/></frame>', '<frame name="MTLFence"/>'),
        sample('<frame name="y"><binary ref="3"/></frame>'),
        row("<sample-time>1</sample-time><sentinel/>"),
    ]
    recording = summary(document(node("counters-profile", (), rows))).recording
    assert {one.unit: one.samples for one in recording.samples} == {"cpu": 2, "gpu": 1, "neural_engine": 2}
    assert recording.total_samples == 5


def test_innermost_functions_are_listed_by_unit_and_thread() -> None:
    columns = (("time", "sample-time"), ("thread", "thread"), ("stack", "backtrace"))
    wait, evaluate, main = (
        '<frame name="mach_msg"/>',
        '<frame id="1" name="evaluate"><binary name="ANEServices"/></frame>',
        '<frame name="main"/>',
    )
    outer = '<frame name="_ANEClient"/>'
    first = '<thread id="7" fmt="Main Thread 0x1 (app, pid: 4)"/>'
    rows = [
        row(
            "<sample-time>1</sample-time>",
            first,
            f'<backtrace id="9">{wait}{evaluate}{outer}{main}</backtrace>',
        ),
        row("<sample-time>2</sample-time>", '<thread ref="7"/>', '<backtrace ref="9"/>'),
        row(
            "<sample-time>3</sample-time>",
            '<thread fmt="worker"/>',
            f'<backtrace><frame ref="1"/>{main}</backtrace>',
        ),
        row("<sample-time>4</sample-time>", '<thread ref="7"/>', f"<backtrace>{wait}{main}</backtrace>"),
    ]
    (unit,) = summary(document(node("time-profile", columns, rows))).recording.samples
    assert (unit.unit, unit.samples) == ("neural_engine", 3)
    assert [(one.function, one.thread, one.samples) for one in unit.frames] == [
        ("evaluate", "Main Thread 0x1 (app, pid: 4)", 2),
        ("evaluate", "worker", 1),
    ]


@pytest.mark.parametrize(
    ("name", "units"),
    [
        ("H11ANEServicesThread", 4),
        ("ANERuntimeEngine::Execute()", 4),
        ("-[MTLCommandQueue commit]", 2),
        ("MPSNDArrayMatrixMultiplication", 2),
        ("MetalPerformanceShadersGraph", 2),
        ("Metal", 2),
        ("BNNSFilterApply", 1),
        ("HTMLParser", 0),
        ("CANEL", 0),
        ("main", 0),
    ],
)
def test_frames(name: str, units: int) -> None:
    assert classify_frame(name) == units


_BOMB = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
    "<trace-query-result><node>&b;</node></trace-query-result>"
)
_WHOLE = document(files.ane([(0, 1), (2, 1)]))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "truncated"),
        (_WHOLE[: len(_WHOLE) // 2], "truncated"),
        ("<html></html>", "not that of an xctrace export"),
        (_BOMB, "declares"),
        ('<!DOCTYPE x SYSTEM "file:///etc/passwd"><trace-toc/>', "declares"),
        ("<trace-query-result>" + "<node>" * 100_000, "nested too deeply"),
        ("<trace-query-result><node>\x00</node></trace-query-result>", "not valid XML"),
        ("<trace-query-result><node>&nope;</node></trace-query-result>", "not valid XML"),
    ],
)
def test_damaged_exports_are_one_sentence(text: str, what: str) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        read(text, 4096)
    assert caught.value.hint


def test_values_that_are_too_long_are_refused() -> None:
    def chunks() -> Iterator[bytes]:
        yield b'<trace-query-result><node xpath="'
        for _ in range(40):
            yield b"a" * (1 << 20)

    with pytest.raises(UsageError, match="too long"):
        read_export(chunks())


@pytest.mark.parametrize("id_", ["99999999999999999999999", "-1", "1e9", "100000000000000", "¹"])
def test_huge_and_invalid_ids_take_no_memory(id_: str) -> None:
    text = document(files.ane([(0, 1), (2, 1)])).replace('id="100"', f'id="{id_}"')
    assert summary(text).recording.units[0].busy_s == 0.002


def test_scattered_ids_have_a_limit() -> None:
    rows = (f'<row><start-time id="{n * 10**9}">1</start-time></row>' for n in range(1, 300_000))
    text = '<trace-query-result><node><schema name="ane-hw-intervals"/>'
    with pytest.raises(UsageError, match="too many ids"):
        read_export(chunk.encode() for chunk in (text, *rows))


@pytest.mark.parametrize("value", ["-5", "1e3", "nan", "9" * 30, "", "0x10"])
def test_times_that_are_not_nanoseconds_drop_their_row(value: str) -> None:
    rows = [row(f"<start-time>{value}</start-time><duration>5</duration>")]
    export = read(document(node("ane-hw-intervals", (), rows)))
    assert (export.tables["ane-hw-intervals"].rows, export.damaged) == (1, 1)


def test_many_different_texts_share_one_name() -> None:
    rows = (
        f"<row><start-time>{n}</start-time><duration>1</duration><formatted-label fmt='label {n}'/></row>"
        for n in range(70_000)
    )
    text = '<trace-query-result><node><schema name="ane-hw-intervals"/>'
    export = read_export(chunk.encode() for chunk in (text, *rows, "</node></trace-query-result>"))
    assert len(export.texts.all()) == 1 << 16
    assert summarize_exports([export]).recording.units[0].labels[0].name == "(others)"


_LARGE = """
import itertools, resource, sys
from coremlscope.formats.recordings.activity import summarize_exports
from coremlscope.formats.recordings.export import read_export

def row(n):
    return (f'<row><start-time id="{9 * n + 1}">{n * 1000}</start-time>'
            f'<duration id="{9 * n + 2}">500</duration>'
            f'<gpu-channel-name id="{9 * n + 3}">Compute</gpu-channel-name>'
            f'<formatted-label id="{9 * n + 4}" fmt="Command Buffer {n}">'
            f'<string id="{9 * n + 5}">{"x" * 300}</string>'
            f'</formatted-label><uint64 id="{9 * n + 6}">{n}</uint64></row>').encode()

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
head = b'<trace-query-result><node><schema name="metal-gpu-intervals"/>'
export = read_export(itertools.chain((head,), map(row, range(60_000)), (b"</node></trace-query-result>",)))
summary = summarize_exports([export])
assert summary.recording.units[0].intervals == 60_000
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="memory is not reported")
def test_memory_does_not_grow_with_the_text_of_an_export() -> None:
    """33 MB of rows, whose ids and times take 6 MB."""
    finished = subprocess.run([sys.executable, "-c", _LARGE], capture_output=True, text=True, check=True)
    kilobytes = int(finished.stdout) / (1024 if sys.platform == "darwin" else 1)
    assert kilobytes < 30_000


def test_published_samples(corpus: Path) -> None:
    found = {}
    for path in sorted((corpus.parent / "knowledge" / "xctrace").glob("*.xml")):
        found[path.name.partition(".")[0]] = summary(path.read_text(encoding="utf-8"))
    if not found:
        pytest.skip("no published samples")
    assert found["ane-hw-intervals-internal"].recording.units[0].busy_s == 0.6
    assert found["ane-hw-intervals"].recording.units[0].intervals == 2
    assert found["coreml-os-signpost"].predictions_s == (0.0021,)
    assert found["metal-gpu-intervals"].recording.units[0].processes[0].name == "qwen38 (2297)"
    assert found["toc"].recording.target == "app (123)"
