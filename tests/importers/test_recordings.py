"""Recordings and readings of power as profiles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec.structs
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.api.imported import IMPORTERS, import_files, read_any
from coremlscope.base.errors import UsageError
from coremlscope.cli import main
from coremlscope.interop.source import SourceFile, is_readable
from coremlscope.reports.renderers import RENDERERS, document_of
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.results.profile import Profile
from tests.support import foreign_files, programs, recorded_files
from tests.support.core_ai_files import core_ai_debug_info, core_ai_inspection


def _joined(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("name", recorded_files.FILES)
def test_each_file_has_one_importer(name: str, tmp_path: Path) -> None:
    source = SourceFile(recorded_files.write(tmp_path, name))
    assert sum(importer.matches(source) for importer in IMPORTERS) == 1


def test_every_importer_has_a_file(tmp_path: Path) -> None:
    sources = [SourceFile(recorded_files.write(tmp_path, name)) for name in recorded_files.FILES]
    sources += [SourceFile(foreign_files.write(tmp_path, name)) for name in foreign_files.FILES]
    (tmp_path / "net.h18p.aimodelc").mkdir()
    (tmp_path / "debug.json").write_text(core_ai_debug_info())
    (tmp_path / "inspect.json").write_text(core_ai_inspection())
    (tmp_path / "session.log").write_text(
        "CoreMLExecutionProvider::GetCapability, number of partitions supported by CoreML: 3"
        " number of nodes in the graph: 13 number of nodes supported by CoreML: 11\n"
    )
    named = ("net.h18p.aimodelc", "debug.json", "inspect.json", "session.log")
    sources += [SourceFile(tmp_path / name) for name in named]
    assert [one.name for one in IMPORTERS if not any(map(one.matches, sources))] == []


@pytest.mark.parametrize("name", recorded_files.FILES)
def test_files_become_profiles_that_say_where_they_are_from(name: str, tmp_path: Path) -> None:
    path = recorded_files.write(tmp_path, name)
    (profile,) = read_any(path)
    measured = profile.measurement
    assert (measured.recording is None) != (measured.energy is None)
    assert measured.label.endswith(f"from {name}")
    assert "nothing of them was measured here" in measured.findings[0].text
    assert Profile.from_json(json.loads(json.dumps(profile.to_json()))) == profile


@pytest.mark.parametrize("name", recorded_files.FILES)
@pytest.mark.parametrize("renderer", RENDERERS, ids=lambda renderer: renderer.suffix)
def test_every_report_takes_them(name: str, renderer: Any, tmp_path: Path) -> None:
    assert renderer.render(import_files([recorded_files.write(tmp_path, name)]))


def test_files_of_one_recording_complete_each_other(tmp_path: Path) -> None:
    paths = [recorded_files.write(tmp_path, name) for name in ("ane.xml", "toc.xml", "coreml.xml")]
    profile = import_files(paths)
    (measured,) = profile.measurements
    assert measured.recording is not None
    assert (measured.recording.template, measured.recording.predictions) == ("Core ML", 1)
    assert measured.label == "Core ML on MacBook Pro, macOS 27.0 (26A434), from ane.xml and 2 more"
    (unit,) = measured.recording.units
    assert unit.per_prediction is not None
    assert unit.per_prediction.median == 0.00054
    assert profile.model.path == "small-1"


def test_a_table_that_occurs_twice_is_of_another_recording(tmp_path: Path) -> None:
    first = recorded_files.write(tmp_path, "ane.xml")
    second = tmp_path / "again.xml"
    second.write_bytes(first.read_bytes())
    assert len(import_files([first, second]).measurements) == 2


@pytest.mark.parametrize(("name", "ids"), [("small", []), ("other", ["another-model-recorded"])])
def test_a_recording_of_another_model_is_named(name: str, ids: list[str], tmp_path: Path) -> None:
    model = programs.build(lambda x: mb.relu(x=x), {"x": np.zeros((1, 8), np.float32)})
    model = msgspec.structs.replace(model, source=tmp_path / f"{name}.mlpackage")
    profile = import_files([recorded_files.write(tmp_path, "coreml.xml")], model)
    assert [one.id for one in profile.findings] == ids
    assert profile.measurement.recording is not None
    assert len(profile.ops) == 1


def test_they_are_shown_beside_other_files_of_a_model(tmp_path: Path) -> None:
    paths = [recorded_files.write(tmp_path, name) for name in ("ane.xml", "power.plist")]
    paths.append(foreign_files.write(tmp_path, "small.analytics.mil"))
    profile = import_files(paths)
    assert (len(profile.measurements), len(profile.plans), len(profile.ops)) == (2, 1, 2)


@pytest.mark.parametrize("width", [60, 80, 140])
def test_reports_fit_and_say_what_is_estimated(width: int, tmp_path: Path) -> None:
    names = ("ane.xml", "power.plist")
    text = write_terminal(
        document_of(import_files([recorded_files.write(tmp_path, name) for name in names])),
        width=width,
        color=False,
    )
    assert max(map(len, text.splitlines())) <= width
    assert "Energy estimated by the system's counters" in _joined(text)
    assert "1.08 ms" in text
    assert "8.00 J" in text


def test_control_characters_of_names_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "ane.xml"
    label = "evil&#x9;\u202e<b>"
    row = '<row><start-time>0</start-time><duration>1</duration><gpu-channel-name fmt="Compute"/>'
    row += f'<process fmt="{label.replace("<", "&lt;")} (1)"/></row>'
    path.write_text(recorded_files.document(recorded_files.node("metal-gpu-intervals", (), [row])))
    for renderer in RENDERERS:
        rendered = renderer.render(import_files([path]))
        text = rendered if isinstance(rendered, str) else rendered.decode("utf-8", "replace")
        if renderer.suffix in (".txt", ".md"):
            assert "\u202e" not in text
        if renderer.suffix == ".html":
            assert "<b> (1)" not in text


def test_progress_tells_megabytes(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    path = tmp_path / "ane.xml"
    path.write_bytes(recorded_files.FILES["ane.xml"]() + b" " * (3 << 20))
    import_files([path], progress=lambda *state: seen.append(state))
    assert seen[-1] == ("read", 3, 3)
    assert [done for _, done, _ in seen] == [1, 2, 3, 3]


def test_files_larger_than_those_that_are_kept_are_streamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coremlscope.interop.source._MOST_BYTES", 100)
    for name in ("ane.xml", "power.plist", "power.txt"):
        assert import_files([recorded_files.write(tmp_path, name)]).measurements


@pytest.mark.parametrize("name", [name for name in recorded_files.FILES if name.endswith((".xml", ".json"))])
def test_truncated_files(name: str, tmp_path: Path) -> None:
    path = recorded_files.write(tmp_path, name)
    whole = path.read_bytes()
    for part in range(12):
        path.write_bytes(whole[: len(whole) * part // 12])
        with pytest.raises(UsageError) as caught:
            import_files([path])
        assert name in caught.value.message
        assert caught.value.hint


def test_recordings_themselves_are_for_instruments(tmp_path: Path) -> None:
    trace = tmp_path / "run.trace"
    trace.mkdir()
    with pytest.raises(UsageError, match="only Instruments opens") as caught:
        import_files([trace])
    assert "xctrace export" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("python3.ips", '{"bug_type": "309"}\n{"exception": {}}\n'),
        ("console.txt", "[espresso] [Espresso::handle_ex_plan] exception=ANECF error:\n"),
    ],
)
def test_logs_and_crash_reports_are_for_doctor(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UsageError, match="of no format") as caught:
        import_files([path])
    assert "coremlscope doctor" in caught.value.hint


def test_compare_takes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [recorded_files.write(tmp_path, name) for name in recorded_files.FILES]
    readable = [path for path in paths if is_readable(path)]
    assert [path.name for path in paths if path not in readable] == ["power.txt", "stacks.txt"]
    assert all(map(read_any, readable))
    assert main(["compare", str(tmp_path / "ane.xml"), str(tmp_path / "power.plist")]) == 0
    assert "ane.xml" in capsys.readouterr().out
