"""Debug information, events and compiled models of Core AI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coremlscope import api
from coremlscope.api.imported import IMPORTERS
from coremlscope.base.errors import UsageError
from coremlscope.interop.core_ai.regions import count_regions
from coremlscope.interop.source import SourceFile
from coremlscope.reports.renderers import RENDERERS, document_of
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.reports.timing import describe_units
from coremlscope.results.profile import Profile
from tests.support.aicode import Body, Graph, Val, tensor, write_bundle
from tests.support.aimodels import sample
from tests.support.core_ai_files import (
    NOT_ON_ANE,
    core_ai_debug_info,
    core_ai_events,
    core_ai_inspection,
)
from tests.support.planned_rows import rows
from tests.support.recorded_files import document, node, row


@pytest.fixture
def debug_info(tmp_path: Path) -> Path:
    """As community code reads it on a Mac: the last residency counts, and the reason stands beside it."""
    path = tmp_path / "debug.json"
    path.write_text(core_ai_debug_info())
    return path


def _units(profile: Profile) -> dict[str, str | None]:
    return {op.name: op.unit for op in rows(profile.plans[0])}


def test_units_and_reasons(debug_info: Path) -> None:
    profile = api.import_files(debug_info)
    assert _units(profile) == {"ReLU$1/relu": "neural_engine", "to": "gpu"}
    (plan,) = profile.plans
    assert plan.planner == "Core AI"
    (reason,) = (reason for op in rows(plan) for reason in op.why)
    assert (reason.text, reason.unit, reason.source) == (NOT_ON_ANE, "neural_engine", "Core AI")
    assert plan.total_ms(plan.settings[0]) is None
    assert "planned by Core AI" in write_terminal(document_of(profile), width=100)


def test_units_are_joined_to_the_model(tmp_path: Path) -> None:
    """The debug information of Linux, with the key that it has on a Mac."""
    model = sample("tiny_conv")
    records = json.loads(model.with_name("tiny_conv.debuginfo.json").read_text())
    for op in records[0]["operations"]:
        op["metadatas"].append({"key": "residency", "value": {"string": {"_0": "ANE"}}})
    path = tmp_path / "debug.json"
    path.write_text(json.dumps(records))
    profile = api.import_files(path, model=model)
    (plan,) = profile.plans
    listed = [op for op in rows(plan) if not op.inserted]
    assert {op.unit for op in listed} == {"neural_engine"}
    assert len(listed) == len(profile.ops)


def test_events_are_joined_to_layers(tmp_path: Path, debug_info: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(
        core_ai_events(
            ("Function Load", 9, 0, 1000),
            ("Function Execute", 9, 2000, 12_000),
            ("call.coreai.relu", 1, 3000, 7000),
            ("call.NDArray.alloc", 1, 7000, 8000),
            ("call.coreai.cast", 2, 8000, 10_000),
            ("call.Context.alloc", 77, 10_000, 10_500),
            ("Function Execute", 9, 20_000, 32_000),
            ("call.coreai.relu", 1, 23_000, 29_000),
        )
    )
    (measured,) = api.import_files(path, debug_info).measurements
    assert measured.load is not None
    assert measured.predict is not None
    assert [s * 1e9 for s in measured.predict.samples_s] == pytest.approx([10_000, 12_000])
    times = {group.label: group.wall_s * 1e9 for group in measured.groups}
    assert times == pytest.approx({"relu": 5500, "cast": 1000, "Context.alloc": 250})
    assert measured.status == ("timed", "timed")
    assert measured.nodes is not None
    assert measured.nodes.nodes_s * 1e9 == pytest.approx(6750)
    assert any(finding.id == "interpreted" for finding in measured.findings)


def test_recorded_events_of_a_model() -> None:
    model = sample("tiny_conv")
    files = [model.with_name(f"tiny_conv.{name}") for name in ("debuginfo.json", "events.jsonl")]
    profile = api.import_files(*files, model=model)
    (measured,) = profile.measurements
    assert set(measured.status) <= {"timed", "fused"}
    slowest = max((group for group in measured.groups if group.ops), key=lambda group: group.wall_s)
    assert profile.ops.name[slowest.ops[0]] == "Conv2d$2/convolution_1"
    assert slowest.wall_s == pytest.approx(1.15e-3, rel=0.01)


@pytest.mark.parametrize("renderer", RENDERERS, ids=lambda renderer: renderer.suffix)
def test_every_report_takes_them(renderer: Any, tmp_path: Path, debug_info: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(core_ai_events(("Function Execute", 9, 0, 9000), ("call.coreai.relu", 1, 3000, 7000)))
    profile = api.import_files(debug_info, path)
    assert renderer.render(profile)
    assert Profile.from_json(json.loads(json.dumps(profile.to_json()))) == profile


@pytest.mark.parametrize("part", range(1, 8))
def test_truncated_debug_information(part: int, debug_info: Path) -> None:
    whole = debug_info.read_bytes()
    debug_info.write_bytes(whole[: len(whole) * part // 8])
    with pytest.raises(UsageError):
        api.import_files(debug_info)


def test_intervals_of_a_mac_have_their_duration(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    rows = [
        {"event_id": name, "timestamp": 1, "id": -1, "encoded_data": {"interval": {"duration": 5000}}}
        for name in ("Function Load", "Function Execute")
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    (measured,) = api.import_files(path).measurements
    assert measured.predict is not None
    assert measured.predict.samples_s == (5e-6,)
    assert not any(finding.id == "interpreted" for finding in measured.findings)
    assert describe_units(measured) == "not recorded"


@pytest.mark.parametrize(
    "text",
    [
        '{"event_id": "a", "timestamp": 1}\n{"event_id": "b", "timestamp": 2}',
        '{"event_id": "a", "timestamp": 1}\n{"event_id": 3}',
        '{"event_id": "Function Execute", "timestamp": "x", "kind": "begin"}\n'
        '{"event_id": "Function Execute", "timestamp": [], "kind": "end"}',
    ],
)
def test_damaged_core_ai_events(text: str, tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"events\.jsonl"):
        api.import_files(path)


@pytest.mark.parametrize(
    "text",
    [
        '[{"metadatas": 1}]',
        '[{"metadatas"',
        '[{"operations": [{"metadatas": [{"value": {"array": 3}}]}]}, 7]',
    ],
)
def test_damaged_debug_information(text: str, tmp_path: Path) -> None:
    path = tmp_path / "debug.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"debug\.json"):
        api.import_files(path)


def test_inspections_of_coreai_build(tmp_path: Path) -> None:
    path = tmp_path / "inspect.json"
    path.write_text(core_ai_inspection())
    assert sum(importer.matches(SourceFile(path)) for importer in IMPORTERS) == 1
    profile = api.import_files(path)
    found = {finding.id: finding.text for finding in profile.findings}
    assert "main (x NDArray (Float32, 2 × 3)) → (y NDArray (Float32, 2 × 3))" in found["core-ai-functions"]
    assert "constant ×4, relu ×1. Composites" in found["core-ai-operations"]
    assert "compiled for h13g (M1)" in found["core-ai-architectures"]
    assert "constant ×4" in write_terminal(document_of(profile), width=80)


@pytest.mark.parametrize(
    "changes",
    [
        {"functions": 3},
        {"operationDistribution": [{"name": 1, "count": 2}]},
        {"operationDistribution": [{"name": "relu", "count": "many"}]},
    ],
)
def test_damaged_inspections(changes: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "inspect.json"
    path.write_text(core_ai_inspection(**changes))
    with pytest.raises(UsageError):
        api.import_files(path)


def _compiled(folder: Path, *names: str) -> Path:
    path = folder / "net.h18p.aimodelc"
    inside = path / "main-h18p-delegates" / "binary_0.llir.bundle"
    inside.mkdir(parents=True)
    for name in names:
        region = inside / f"{name}.bc" / "h18p"
        region.mkdir(parents=True)
        (region / f"{name}.mlir.bc").write_bytes(b"")
    return path


def test_regions_of_compiled_models(tmp_path: Path) -> None:
    names = ("main_ANE_region_0_0", "main_ANE_region_1_0", "main_GPU_region_0_0")
    path = _compiled(tmp_path, *names)
    assert count_regions(path).neural_engine == {("h18p", "main"): 2}
    (finding,) = api.import_files(path).findings
    assert finding.severity == "info"
    assert "2 in main for h18p; 1 for the GPU" in finding.text


def test_operations_of_the_source_are_counted(tmp_path: Path) -> None:
    bundle = tmp_path / "net.aimodelc"
    (bundle / "main-h18p-delegates" / "MPSGraph").mkdir(parents=True)
    (bundle / "stats.json").write_text('{"operationDistribution": [{"count": 2, "name": "add"}]}')
    found = {finding.id: finding for finding in api.import_files(bundle).findings}
    assert set(found) == {"no-neural-engine-regions", "core-ai-operations"}
    assert "2 in all: add ×2" in found["core-ai-operations"].text
    assert "MPSGraph" in found["core-ai-operations"].hint


def test_no_region_is_a_warning(tmp_path: Path) -> None:
    (finding,) = api.import_files(_compiled(tmp_path, "main_GPU_region_0_0")).findings
    assert (finding.id, finding.severity) == ("no-neural-engine-regions", "warning")


def test_layers_of_single_models_are_joined(tmp_path: Path, debug_info: Path) -> None:
    def body(b: Body, x: Val) -> list[Val]:
        return [b.op("relu", [x], [x.type])]

    model = write_bundle(tmp_path / "net.aimodel", [Graph("main", {"x": tensor("fp16", 1, 8)}, body)])
    with pytest.raises(UsageError, match="none of the 2 operations"):
        api.import_files(debug_info, model=model)


#: The columns that are published; their types are not.
_ODIE = (
    ("start", "start-time"),
    ("duration", "duration"),
    ("model-name", "string"),
    ("base-function-name", "string"),
    ("function-name", "string"),
    ("phase", "odie-phase"),
    ("category", "odie-category"),
)


def _odie(start: int, duration: int, category: str, function: str) -> str:
    return row(
        f'<start-time fmt="x">{start}</start-time>',
        f'<duration fmt="x">{duration}</duration>',
        '<string fmt="granite">granite</string>',
        '<string fmt="main">main</string>',
        f'<string fmt="{function}">{function}</string>',
        '<odie-phase fmt="Inference">1</odie-phase>',
        f'<odie-category fmt="{category}">2</odie-category>',
    )


def test_predictions_of_instruments(tmp_path: Path) -> None:
    """Functions within a prediction, and set-up, are no predictions of their own."""
    rows = [
        _odie(1000, 500, "Setup", "main"),
        _odie(2000, 4000, "Inference", "main"),
        _odie(2500, 3000, "Inference", "$main"),
        _odie(8000, 5000, "Inference", "main"),
    ]
    path = tmp_path / "odie.xml"
    path.write_text(document(node("ODIEProfile", _ODIE, rows)))
    (measured,) = api.import_files(path).measurements
    assert measured.predict is not None
    assert [s * 1e9 for s in measured.predict.samples_s] == pytest.approx([4000, 5000])
    assert measured.recording is not None
    assert measured.recording.units == ()
