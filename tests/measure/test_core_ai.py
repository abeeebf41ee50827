"""Measurements of Core AI programs by Core AI itself: over a scripted runtime, and recorded events."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coremlscope import api
from coremlscope.base.errors import EngineError, MissingDependencyError, UsageError
from coremlscope.cli import main
from coremlscope.formats.aimodel.bundle import open_program
from coremlscope.formats.aimodel.content import read_content
from coremlscope.formats.aimodel.network import find_layers
from coremlscope.formats.recordings.core_ai import read_debug_info
from coremlscope.measure.coreai.measurer import CoreAIMeasurer
from coremlscope.measure.coreai.operations import Event, attribute
from coremlscope.measure.coreai.timing_child import _Recorder
from coremlscope.measure.effort import Effort
from coremlscope.model.subject import Subject
from coremlscope.results.measurement import Measurement
from tests.support import converted_models
from tests.support.aicode import write_numbered
from tests.support.aimodels import sample
from tests.support.preloaded import preloaded_child

_QUICK: dict[str, Any] = {
    "iterations": 2,
    "effort": Effort(compile_iterations=1, load_iterations=1, warmups=0),
}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A program of a constant 0, a relu 1 and an addition 2, with a state."""
    return write_numbered(tmp_path / "net.aimodel")


def _measurer(fault: str = "", *, is_system: bool = True) -> CoreAIMeasurer:
    installing = (
        f"from tests.support import scripted_coreai as s; s.install({fault!r}, is_system={is_system})"
    )
    return CoreAIMeasurer(
        command=preloaded_child(installing, "coremlscope.measure.coreai.timing_child:time_model")
    )


def _measure(bundle: Path, measurer: CoreAIMeasurer, **settings: Any) -> Measurement:
    subject = Subject(bundle, random_weights=settings.pop("random_weights", False))
    return api.profile(subject, engine=measurer, **_QUICK, **settings).measurement


def test_the_framework_of_the_system_is_measured(bundle: Path) -> None:
    measured = _measure(bundle, _measurer(), compute_units="cpu_and_ne")
    assert measured.runtime.name == "Core AI"
    assert (measured.compute_units, measured.threads, measured.compile) == ("cpu_and_ne", None, None)
    assert (measured.runtime.id, measured.runtime.through) == ("coreai", "coreai-core 1.0.0b3")
    assert measured.peak_memory_bytes
    assert {name: len(phase.samples_s) for name, phase in measured.phases.items()} == {
        "first load": 1,
        "load": 1,
        "predict": 2,
    }
    (group,) = measured.groups
    # The event of the GPU counts; that of the time waited for it does not.
    assert (group.label, group.wall_s, measured.status) == ("relu + add", 0.003, ("fused", "fused"))


def test_the_interpreter_is_not_timed(bundle: Path) -> None:
    with pytest.raises(EngineError, match="no Core AI framework"):
        _measure(bundle, _measurer(is_system=False))


def test_an_abort_keeps_what_was_measured(bundle: Path) -> None:
    measured = _measure(bundle, _measurer("abort while profiled"), compute_units="cpu_and_ne")
    assert measured.partial is not None
    assert "SIGABRT" in measured.partial.text
    assert measured.predict is not None
    with pytest.raises(EngineError, match="SIGABRT"):
        _measure(bundle, CoreAIMeasurer(command=("sh", "-c", "kill -ABRT $$", "sh")))


def test_an_error_of_core_ai_is_not_blamed_on_the_processor(bundle: Path) -> None:
    """Swift stops at an illegal instruction after an error of its own."""
    script = "echo 'Indexing.swift:178: Fatal error: Index 1 is out of bounds' >&2; kill -ILL $$"
    with pytest.raises(EngineError, match="Index 1 is out of bounds") as found:
        _measure(bundle, CoreAIMeasurer(command=("sh", "-c", script, "sh")))
    assert "processor" not in found.value.message


def test_other_models_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "mlp.mlpackage"
    converted_models.mlp().save(str(path))
    with pytest.raises(UsageError, match="aimodel bundles only"):
        _measure(path, _measurer())


@pytest.mark.parametrize("setting", [{"random_weights": True}, {"precision": "fp16"}])
def test_settings_of_other_engines_are_rejected(bundle: Path, setting: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="not for Core AI"):
        _measure(bundle, _measurer(), **setting)


def test_without_coreai_core(
    bundle: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(UsageError, match="only on a Mac"):
        api.profile(bundle, engine="coreai")
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(MissingDependencyError, match="coreai-core, which is not installed"):
        api.profile(bundle, engine="coreai")
    with pytest.raises(UsageError, match="threads"):
        api.profile(bundle, effort=Effort(threads=2), engine="coreai")
    assert main(["profile", str(bundle), "--engine", "coreai"]) != 0
    assert "[coreai]'" in capsys.readouterr().err


@dataclass
class _Ids:
    id: int | None
    delegate_id: int | None


def test_recorded_events_belong_to_operations() -> None:
    """Two predictions of a network of twelve operations, as coreai-core's profiler reported them."""
    path = sample("tiny_conv")
    recorder, runs = _Recorder(), []
    numbers: dict[int, int] = {}
    for line in (path.parent / "tiny_conv.events.jsonl").read_text().splitlines():
        row = json.loads(line)
        encoded = json.dumps(row["encoded_data"]) if row["encoded_data"] else ""
        event = SimpleNamespace(
            event_id=row["event_id"],
            timestamp=row["timestamp"],
            compile_ids=_Ids(row["id"], row["delegate_id"]),
            encoded_data=encoded,
        )
        if row["kind"] == "begin":
            numbers[row["interval"]] = recorder.begin(event)
        elif row["kind"] == "end":
            recorder.end(event, numbers[row["interval"]])
            if row["event_id"] == "Function Execute":
                recorder.read()
                runs.append([Event(n, d, label, ns / 1e9) for n, d, label, ns in recorder.operations])
                total = sum(event.seconds for event in runs[-1])
                assert 0.5 < total / recorder.call_s <= 1.0
                recorder.clear()
        else:
            recorder.event(event)
    assert len(runs) == 2
    content = read_content(open_program(path)[0])
    records = read_debug_info(json.loads((path.parent / "tiny_conv.debuginfo.json").read_bytes()))
    ops = api.profile(path, **_QUICK).ops
    found = attribute(runs, records, find_layers(content, content.graphs["main"]), ops)
    assert set(found.status) == {"timed"}
    assert [group.label for group in found.groups if group.ops] == list(ops.type)
    (conv, *_) = found.groups
    assert {label for _, label in conv.engine_nodes} >= {"coreai.pad", "coreai.conv2d"}
