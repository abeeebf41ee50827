"""The contract of importers, over the table and every form of file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope import api
from coremlscope.api.imported import IMPORTERS, import_files, read_any
from coremlscope.base.errors import CoremlscopeError, CorruptModelError, ModelError, UsageError
from coremlscope.cli import main
from coremlscope.interop.source import SourceFile
from coremlscope.model.ir import Model
from coremlscope.reports.plan import plan_document
from coremlscope.reports.renderers import RENDERERS, document_of
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.results.profile import Profile
from tests.support import foreign_files, programs
from tests.support.planned_rows import rows

_X = np.zeros((1, 8), np.float16)


@pytest.fixture(scope="module")
def model() -> Model:
    """The model that the files are of, with an operation more."""

    def body(x: Any) -> Any:
        activated = mb.tanh(x=mb.relu(x=x, name="a"), name="b")
        return mb.exp(x=activated, name="c")

    return programs.build(body, {"x": _X})


def view(profile: Profile) -> list[Any]:
    return rows(profile.plans[0])


@pytest.mark.parametrize("name", foreign_files.FILES)
def test_each_file_has_one_importer(name: str, tmp_path: Path) -> None:
    source = SourceFile(foreign_files.write(tmp_path, name))
    assert sum(importer.matches(source) for importer in IMPORTERS) == 1


@pytest.mark.parametrize("name", foreign_files.FILES)
def test_files_become_profiles_that_say_where_they_are_from(name: str, tmp_path: Path) -> None:
    path = foreign_files.write(tmp_path, name)
    (profile,) = read_any(path)
    assert profile.plans or profile.measurements
    assert Profile.from_json(json.loads(json.dumps(profile.to_json()))) == profile
    for plan in profile.plans:
        assert (plan.planner, plan.origin) == ("Core ML", "planned")
        assert {basis for op in plan.ops for basis in op.cost_basis.values()} <= {"Core ML"}
        assert path.name in plan.notes[0]
        assert [op.unit for op in view(profile)] == ["neural_engine", "cpu"]
    for measured in profile.measurements:
        assert measured.label.endswith(f"from {path.name}")
        assert "nothing of them was measured here" in measured.findings[0].text


@pytest.mark.parametrize("name", foreign_files.FILES)
@pytest.mark.parametrize("renderer", RENDERERS, ids=lambda renderer: renderer.suffix)
def test_every_report_takes_them(name: str, renderer: Any, tmp_path: Path) -> None:
    assert renderer.render(import_files([foreign_files.write(tmp_path, name)]))


@pytest.mark.parametrize("name", [name for name in foreign_files.FILES if name != "remote_times.json"])
def test_operations_are_joined_to_a_model(name: str, tmp_path: Path, model: Model) -> None:
    profile = import_files([foreign_files.write(tmp_path, name)], model)
    assert [(op.name, op.unit) for op in view(profile)] == [
        ("a", "neural_engine"),
        ("b", "cpu"),
        ("c", None),
    ]
    (finding,) = [finding for finding in profile.findings if finding.id == "joined"]
    assert finding.text.startswith("2 of the 2 operations")
    assert not any(op.inserted for op in profile.plans[0].ops)


def test_files_of_one_model_become_one_profile(tmp_path: Path, model: Model) -> None:
    paths = [foreign_files.write(tmp_path, name) for name in foreign_files.FILES]
    profile = import_files(paths, model)
    assert (len(profile.plans), len(profile.measurements)) == (8, 7)
    devices = [(plan.device, plan.os) for plan in profile.plans]
    assert "unknown device (dump.json)" in dict(devices)
    alone = import_files(paths)
    assert (len(alone.plans), len(alone.measurements), len(alone.ops)) == (8, 7, 2)


def test_a_plan_of_core_ml_in_full(tmp_path: Path) -> None:
    profile = import_files(
        [foreign_files.write(tmp_path, "small.analytics.mil")], device="m1", system="macOS 14.5"
    )
    relu, tanh = view(profile)
    plan = profile.plans[0]
    assert (plan.device, plan.chip, plan.os, plan.settings[0].compute_units) == (
        "M1",
        "m1",
        "macOS 14.5",
        "cpu_and_ne",
    )
    assert (relu.backend, relu.planned_ms, relu.cost_ms["classic_cpu"]) == ("ane", 0.5, 0.375)
    assert relu.outputs == ("tensor<fp16, [1, 8]>",)
    assert relu.supported == {"cpu": "yes", "gpu": "unknown", "neural_engine": "yes"}
    assert (tanh.planned_ms, tanh.supported["neural_engine"]) == (6.25e-06, "no")
    assert [(reason.unit, reason.text) for reason in tanh.why] == [("neural_engine", 'Unsupported "tanh".')]
    assert plan.settings[0].functions["main"].total_ms == pytest.approx(0.5 + 6.25e-06 + 0.125 + 0.125)
    assert plan.settings[0].functions["main"].switches == 1
    text = write_terminal(plan_document(profile))
    assert 'Unsupported "tanh".' in text
    assert "Core ML's own message" in text
    assert "rule core-ml" not in text


def test_what_core_ml_does_not_state_is_not_said_to_lack_a_rule(tmp_path: Path) -> None:
    path = foreign_files.write(tmp_path, "small.analytics.mil")
    text = " ".join(write_terminal(document_of(api.import_files(path))).split())
    assert "not stated" in text
    assert "no rule" not in text


def test_our_plan_stands_beside_an_imported_one(tmp_path: Path, model: Model) -> None:
    path = foreign_files.write(tmp_path, "small.analytics.mil")
    profile = api.import_files(path, model=model, device="m1", os="14.5")
    assert [(plan.planner, plan.device, plan.os) for plan in profile.plans] == [
        ("Core ML", "M1", "14.5"),
        ("rules", "M1", "14.5"),
    ]
    (found,) = profile.agreements
    assert (found.compute_units, found.compared, found.weighted_by) == ("cpu_and_ne", 2, "Core ML")
    # The file puts `relu` on the Neural Engine and `tanh` on the CPU, with a message.
    for one in found.disagreements:
        assert (one.theirs, one.ours) in (("neural_engine", "cpu"), ("cpu", "neural_engine"))
        assert one.type != "tanh" or one.message == 'Unsupported "tanh".'
    assert found.agreed == found.compared - len(found.disagreements)
    assert Profile.from_json(json.loads(json.dumps(profile.to_json()))) == profile


@pytest.mark.parametrize(
    "where", [{}, {"device": "M99"}, {"device": "m1"}, {"device": "m1", "os": "Windows"}]
)
def test_without_a_known_device_and_system_nothing_is_planned(
    tmp_path: Path, model: Model, where: dict[str, str]
) -> None:
    path = foreign_files.write(tmp_path, "small.analytics.mil")
    profile = api.import_files(path, model=model, **where)
    assert [plan.planner for plan in profile.plans] == ["Core ML"]
    assert profile.agreements == ()


def test_a_file_is_compared_with_the_plan_of_core_ml(tmp_path: Path, model: Model) -> None:
    """Also where our own plan stands beside it in the other profile."""
    path = foreign_files.write(tmp_path, "small.analytics.mil")
    both = api.import_files(path, model=model, device="m1", os="14.5")
    (difference,) = api.compare(path, both).differences
    (plan,) = difference.plans
    assert plan.before == "unknown device, cpu_and_ne, planned by Core ML"
    assert plan.after == "M1, cpu_and_ne, planned by Core ML"
    assert plan.moved == 0


def test_several_functions(tmp_path: Path) -> None:
    line = foreign_files.op_line("a", "relu", "ane", {"ane": 0.5})
    path = tmp_path / "analytics.mil"
    path.write_text(foreign_files.analytics({"main": line, "prefill": line * 2}))
    profile = import_files([path])
    assert profile.ops.id == ("main/0", "prefill/0", "prefill/1")
    assert set(profile.plans[0].settings[0].functions) == {"main", "prefill"}


def test_operations_that_core_ml_inserts(tmp_path: Path, model: Model) -> None:
    lines = foreign_files.op_line("x", "tensor_buffer_to_tensor", "ane", {"ane": 0.0})
    lines += foreign_files.op_line("a", "relu", "ane", {"ane": 0.5})
    lines += foreign_files.op_line("cast_0", "cast", "ane", {"ane": 0.25})
    lines += foreign_files.op_line("b", "tanh", "bnns", {"bnns": 0.5})
    path = tmp_path / "analytics.mil"
    path.write_text(foreign_files.analytics({"main": lines}))
    profile = import_files([path], model)
    assert [(op.type, op.inserted, op.planned_ms) for op in view(profile)] == [
        ("tensor_buffer_to_tensor", True, 0.0),
        ("relu", False, 0.5),
        ("cast", True, 0.25),
        ("tanh", False, 0.5),
        ("exp", False, None),
    ]


def test_nested_blocks_have_ids_of_their_own(tmp_path: Path) -> None:
    line = foreign_files.op_line("a", "relu", "ane", {"ane": 0.5})
    nested = "            block {\n" + line * 2 + "            }\n"
    path = tmp_path / "analytics.mil"
    path.write_text(foreign_files.analytics({"main": line + nested + nested + line}))
    assert import_files([path]).ops.id == (
        "main/0",
        "main/0/block0/0",
        "main/0/block0/1",
        "main/0/block1/0",
        "main/0/block1/1",
        "main/1",
    )


def test_folders_of_the_cache_name_the_system(tmp_path: Path) -> None:
    folder = tmp_path / "com.apple.e5rt.e5bundlecache" / "23F79" / "9B1E" / "BF2A.bundle" / "H13G.bundle"
    foreign_files.write(folder, "small.analytics.mil")
    plan = import_files([folder / "small.analytics.mil"]).plans[0]
    assert (plan.device, plan.os) == ("M1 family", "build 23F79")


def test_a_report_of_xcode(tmp_path: Path) -> None:
    profile = import_files([foreign_files.write(tmp_path, "small.mlperf/report.json")])
    measured = profile.measurement
    assert measured.label == "Core ML on iPhone 15 Pro, iOS 18.7.8, from small.mlperf"
    assert measured.predict is not None
    assert measured.predict.samples_s == (0.002, 0.001, 0.003)
    assert (measured.compile, measured.compute_units) == (None, "cpu_and_ne")
    assert (profile.model.path, profile.plans[0].chip) == ("small", "a17-pro")
    assert [op.weight for op in view(profile)] == [0.75, 0.25]
    assert "SECRET" not in json.dumps(profile.to_json())


def test_shares_without_costs_are_no_planned_cost(tmp_path: Path) -> None:
    profile = import_files([foreign_files.write(tmp_path, "remote_plan.json")])
    assert {op.planned_ms for op in view(profile)} == {None}
    text = " ".join(write_terminal(document_of(profile)).split())
    assert "Neural Engine 1 75.0 % – 1" in text


def test_changes_of_unit_are_counted_where_a_file_has_no_costs(tmp_path: Path) -> None:
    (plan,) = import_files([foreign_files.write(tmp_path, "compute_plan.json")]).plans
    (setting,) = plan.settings
    assert (setting.switches, plan.total_ms(setting)) == (1, None)


@pytest.mark.parametrize("name", ["compute_plan.json", "dump.json"])
def test_a_median_alone_is_one_sample_and_said_to_be(name: str, tmp_path: Path) -> None:
    measured = import_files([foreign_files.write(tmp_path, name)]).measurement
    assert measured.predict is not None
    assert measured.predict.samples_s == pytest.approx((0.002,))
    assert "median-only" in [finding.id for finding in measured.findings]


def test_unknown_compute_units_are_not_recorded(tmp_path: Path) -> None:
    profile = import_files([foreign_files.write(tmp_path, "compute_plan.json")])
    assert "compute units not recorded" in " ".join(write_terminal(document_of(profile)).split())


def test_durations_of_the_runner(tmp_path: Path) -> None:
    measured = import_files([foreign_files.write(tmp_path, "remote_times.json")]).measurement
    assert measured.load is not None
    assert measured.predict is not None
    assert (measured.load.samples_s, measured.predict.samples_s) == ((0.05,), (0.002,))


def test_published_files(corpus: Path) -> None:
    files = sorted((corpus.parent / "knowledge" / "plan" / "analytics_samples").glob("*.mil"))
    if not files:
        pytest.skip("no published files")
    for file in files:
        profile = import_files([file])
        assert profile.findings == ()
        assert profile.plans[0].settings[0].compute_units == "cpu_and_ne"
        assert all(op.unit is not None for op in view(profile))
        assert profile.plans[0].settings[0].total_ms > 0


def test_a_published_plan_is_joined_by_order(corpus: Path) -> None:
    folder = corpus.parent / "knowledge" / "plan"
    dump = folder / "groundtruth" / "m4_pro_mobilenet_b16_all.json"
    if not dump.exists():
        pytest.skip("no published plan")
    profile = api.import_files(dump, model=folder / "models" / "mobilenet-b16.mlpackage")
    assert {op.unit for op in view(profile)} == {"neural_engine"}
    assert profile.findings[0].text.startswith("118 of the 118 operations")


_GOOD = foreign_files.FILES["small.analytics.mil"]()
_DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("analytics.mil", "", UsageError),
        ("analytics.mil", _GOOD[: len(_GOOD) // 2], CorruptModelError),
        ("analytics.mil", _GOOD.replace("0.375", "NaN"), CorruptModelError),
        ("analytics.mil", _GOOD.replace("0.375", "1e999"), CorruptModelError),
        ("analytics.mil", _GOOD.replace("fp64(0x1p-3)", "fp64(0x1p+99999)"), CorruptModelError),
        ("analytics.mil", "program(1.3)\n{\n}\n", UsageError),
        ("analytics.mil", "\x00\xff" * 1000, UsageError),
        ("analytics.mil", "{" * 100_000, CorruptModelError),
        ("a.json", "", UsageError),
        ("a.json", "null", UsageError),
        ("a.json", "[1, 2]", UsageError),
        ("a.json", _DEEP, UsageError),
        ("a.json", '{"a": ' * 5000 + "1" + "}" * 5000, UsageError),
        ("a.json", '{"deviceResults": 3}', UsageError),
        ("a.json", '{"deviceResults": {}}', UsageError),
        ("a.json", '{"deviceResults": {"predict": {"samples": [NaN]}}}', UsageError),
        ("a.json", '{"deviceResults": {"predict": {"samples": [1e400]}}}', UsageError),
        ("a.json", '{"deviceResults": {"predict": {"samples": [-1]}}}', UsageError),
        ("a.json", '{"deviceResults": {"predict": {"samples": ["1"]}}}', UsageError),
        ("a.json", '{"deviceResults": {"predict": {"samples": [true]}}}', UsageError),
        ("a.json", '{"deviceResults": {"modelStructure": {"program": []}}}', UsageError),
        ("a.json", '[{"operatorName": 3}]', UsageError),
        ("a.json", '[{"operatorName": "conv", "cost": -1}]', UsageError),
        ("a.json", '[{"operatorName": "const"}]', UsageError),
        ("a.json", '[{"operatorName": "conv"}, 3]', UsageError),
        ("a.json", '{"main": {"block": 1}}', UsageError),
        ("a.json", '{"infos": []}', UsageError),
        ("a.json", '{"infos": {"a": 1}}', UsageError),
        ("a.json", '{"predict": {"samples": 3}}', UsageError),
        ("a.json", '{"duration": "1"}', UsageError),
        ("a.json", '{"schema": "coremlscope.profile/2"}', UsageError),
    ],
)
def test_damaged_files_are_one_sentence_and_a_hint(
    name: str, text: str, error: type[CoremlscopeError], tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(error) as caught:
        import_files([path])
    assert name in caught.value.message
    assert caught.value.hint
    assert len(caught.value.message) < 300
    with pytest.raises((UsageError, ModelError)):
        read_any(path)


@pytest.mark.parametrize("name", foreign_files.FILES)
def test_truncated_files(name: str, tmp_path: Path) -> None:
    path = foreign_files.write(tmp_path, name)
    file = SourceFile(path).file
    whole = file.read_bytes()
    for part in range(1, 12):
        file.write_bytes(whole[: len(whole) * part // 12])
        with pytest.raises((UsageError, ModelError)):
            import_files([path])


def test_deeply_nested_blocks(tmp_path: Path) -> None:
    block: dict[str, Any] = {"operations": []}
    for _ in range(50):
        block = {"operations": [{"operatorName": "cond", "blocks": [block]}]}
    path = tmp_path / "deep.json"
    path.write_text(json.dumps({"main": {"block": block}}))
    with pytest.raises(UsageError, match="nests blocks too deeply"):
        import_files([path])


def test_files_of_another_model_are_refused(tmp_path: Path, model: Model) -> None:
    path = tmp_path / "analytics.mil"
    path.write_text(
        foreign_files.analytics({"main": foreign_files.op_line("z", "lstm", "bnns", {"bnns": 1.0})})
    )
    with pytest.raises(UsageError, match="none of the 1 operations"):
        import_files([path], model)


def test_a_file_that_is_hardly_of_the_model_is_questioned(tmp_path: Path) -> None:
    def body(x: Any) -> Any:
        for number in range(8):
            x = mb.relu(x=x, name=f"other_{number}")
        return x

    path = foreign_files.write(tmp_path, "small.analytics.mil")
    profile = import_files([path], programs.build(body, {"x": _X}))
    (finding,) = [finding for finding in profile.findings if finding.id == "joined"]
    assert finding.text.startswith("1 of the 2 operations")
    assert finding.severity == "warning"
    assert "check that small.analytics.mil is of this model" in (finding.hint or "")


def test_core_ml_s_own_operations_on_buffers_raise_no_question(tmp_path: Path, model: Model) -> None:
    path = tmp_path / "small.analytics.mil"
    own = [("tensor_buffer_to_tensor", number) for number in range(4)]
    own += [("tensor_to_tensor_buffer", number) for number in range(4)]
    lines = [
        foreign_files.op_line(f"{type_}_{number}", type_, "bnns", {"bnns": 0.0}) for type_, number in own
    ]
    lines += [foreign_files.op_line("a", "relu", "ane", {"ane": 0.5})]
    lines += [foreign_files.op_line("b", "tanh", "bnns", {"bnns": 0.25})]
    path.write_text(foreign_files.analytics({"main": "".join(lines)}))
    (finding,) = [finding for finding in import_files([path], model).findings if finding.id == "joined"]
    assert finding.text.startswith("2 of the 10 operations")
    assert (finding.severity, finding.hint) == ("info", "")


def test_missing_and_large_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="No such file"):
        import_files([tmp_path / "analytics.mil"])
    monkeypatch.setattr("coremlscope.interop.source._MOST_BYTES", 100)
    with pytest.raises(UsageError, match="at most 0 MB"):
        import_files([foreign_files.write(tmp_path, "small.analytics.mil")])


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mil = foreign_files.write(tmp_path, "small.analytics.mil")
    report = foreign_files.write(tmp_path, "small.mlperf/report.json")
    target = tmp_path / "profile.json"
    assert main(["import", str(mil), str(report), "-o", str(target)]) == 0
    assert "Core ML on iPhone 15 Pro, iOS 18.7.8, from small.mlperf" in " ".join(
        capsys.readouterr().out.split()
    )
    assert len(Profile.load(target).plans) == 2
    assert main(["import", str(target)]) == 0
    assert main(["import", str(target), str(mil)]) == 2


def test_compare_takes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("small.analytics.mil", "compute_plan.json", "small.mlperf/report.json")
    files = [str(foreign_files.write(tmp_path, name)) for name in names]
    assert main(["compare", *files]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "On unknown device, cpu_and_ne" in text
    assert "iPhone 15 Pro, cpu_and_ne" in text
