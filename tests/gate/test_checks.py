from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import coremltools as ct
import msgspec
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

import coremlscope
from coremlscope.base.errors import UsageError
from coremlscope.base.figures import Figure
from coremlscope.cli import main
from coremlscope.formats.expressions.reading import build_layer
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.model import ir
from coremlscope.reports.gate import render_sarif
from coremlscope.reports.json import render_json
from coremlscope.results.gate import CheckResult, GateReport, Place
from coremlscope.studies.gate import checks
from coremlscope.studies.gate.figures import Found
from coremlscope.studies.gate.run import check, check_project
from tests.support import networks, programs
from tests.support.converted_models import mlp, text_classifier
from tests.support.ir_models import array_feature
from tests.support.pipelines import image_feature, pipeline, scene_print, tripler

pytestmark = pytest.mark.usefixtures("_read_once")


def verdicts(report: GateReport) -> dict[str, str]:
    return {one.kind: one.verdict for model in report.models for one in model.checks}


@pytest.mark.parametrize(
    ("limit", "verdict", "lenient", "strict"),
    [
        (4.0, "pass", True, True),
        (2.5, "uncertain", True, False),
        (1.5, "fail", False, False),
        (0.5, "fail", False, False),
    ],
)
def test_what_an_interval_means(limit: float, verdict: str, lenient: bool, strict: bool) -> None:
    found = Found(value=Figure(2.0, 1.0, 3.0, "estimated"))
    checked = checks._check_limit("latency", Place(device="M1"), limit, found)
    assert (checked.verdict, checked.holds(False), checked.holds(True)) == (verdict, lenient, strict)
    assert checks._verdict(Found(value=Figure(-2.0, -3.0, -1.0, "measured")), -limit, True) == verdict


def test_a_figure_that_is_not_known_does_not_keep_a_limit() -> None:
    checked = checks._check_limit("latency", Place(device="m1"), 1.0, Found(why="there is a loop."))
    assert (checked.verdict, checked.holds(False)) == ("unknown", False)
    assert checked.text == "latency on m1 is not known: there is a loop"


def test_every_limit(model: Path) -> None:
    report = check(
        model,
        max_latency={"iphone-13": "1s", "m1": "1ns"},
        min_neural_engine="0%",
        max_size="1 kB",
        max_memory="1GB",
        min_psnr=10,
    )
    (found,) = report.models
    by_kind: dict[str, list[CheckResult]] = {}
    for one in found.checks:
        by_kind.setdefault(one.kind, []).append(one)
    assert [one.verdict for one in by_kind["max-latency"]] == ["pass", "fail"]
    assert by_kind["max-latency"][0].subject.startswith("iPhone 13, iOS")
    assert len(by_kind["min-neural-engine"]) == 2
    assert {one.verdict for one in by_kind["min-neural-engine"]} <= {"pass"}
    assert [by_kind[kind][0].verdict for kind in ("max-size", "max-memory", "min-psnr")] == [
        "fail",
        "pass",
        "pass",
    ]
    latency = by_kind["max-latency"][0].value
    (estimate,) = coremlscope.estimate(model, "iphone-13").estimates
    assert latency == estimate.latency
    assert report.exit_code == 9
    assert {one.kind for _, one in report.failed} == {"max-latency", "max-size"}


def test_memory_of_parameters_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "text.mlmodel"
    path.write_bytes(text_classifier().SerializeToString())
    report = check(path, max_memory="1GB", max_size="1MB")
    assert verdicts(report) == {"max-memory": "unknown", "max-size": "pass"}
    (memory,) = (one for one in report.models[0].checks if one.kind == "max-memory")
    assert memory.text.startswith("peak memory is not known: its parameters can only be read by Apple's")


def test_a_baseline_of_a_check_and_of_a_profile(model: Path, tmp_path: Path) -> None:
    larger = tmp_path / "larger.mlpackage"
    write_mlpackage(sample_model(size=32, width=1.0, classes=10), larger)
    saved, profile = tmp_path / "check.json", tmp_path / "profile.json"
    limits = {"max_latency": {"iphone-13": "1s"}, "max_memory": "1GB", "min_neural_engine": 0}
    saved.write_text(render_json(check(model, **limits)), encoding="utf-8")
    coremlscope.estimate(model, "iphone-13").save(profile)
    for baseline in (saved, profile):
        same = check(model, baseline=str(baseline), device="iphone-13")
        assert same.exit_code == 0
        names = {one.subject.split(" on ")[0].split(",")[0] for one in same.models[0].checks}
        assert names == {"size", "peak memory", "latency", "share"}
        origins = {
            one.subject.split(" on ")[0]: one.value.origin for one in same.models[0].checks if one.value
        }
        assert origins == {
            "size": "declared",
            "peak memory": "estimated",
            "latency": "estimated",
            "share": "planned",
        }
        worse = check(larger, baseline=str(baseline), device="iphone-13")
        assert worse.exit_code == 9
        assert "size" in {one.subject for _, one in worse.failed}
    assert check(larger, baseline=str(saved), tolerance="100%").failed


def test_a_reference_with_other_outputs(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.mlpackage"
    write_mlpackage(sample_model(seed=1, size=32, width=0.5, classes=10), other)
    report = check(model, min_psnr=60, reference=str(other))
    assert verdicts(report) == {"min-psnr": "fail"}
    assert verdicts(check(model, min_psnr=60, reference=str(model))) == {"min-psnr": "pass"}


def test_a_neural_network_is_rounded_as_on_the_neural_engine(tmp_path: Path) -> None:
    path = tmp_path / "network.mlmodel"
    builder = networks.network({"x": (8,)})
    builder.add_inner_product("dense", networks.random(4, 8), networks.random(4), 8, 4, True, "x", "y")
    path.write_bytes(builder.spec.SerializeToString())
    (found,) = check(path, min_psnr=20).models[0].checks
    assert found.verdict == "pass"
    assert found.value is not None, found.text
    assert 30 < found.value.value < 120


def test_nothing_is_rounded_in_a_program_without_fp16(tmp_path: Path) -> None:
    path = tmp_path / "float32.mlpackage"
    write_mlpackage(build_layer("linear", {"dtype": "fp32", "shape": (1, 8), "channels": 4}), path)
    (found,) = check(path, min_psnr=40).models[0].checks
    assert found.verdict == "pass"
    assert found.text.endswith("equal on 4 synthetic inputs: no operation has a result in fp16")


def test_a_precision_that_cannot_be_compared_does_not_stop_other_limits(model: Path, tmp_path: Path) -> None:
    absent = str(tmp_path / "absent.mlpackage")
    report = check(model, max_size="1GB", min_psnr=40, reference=absent)
    assert verdicts(report) == {"max-size": "pass", "min-psnr": "unknown"}
    assert report.exit_code == 9
    (_, unknown) = report.failed[0]
    assert "absent.mlpackage does not exist" in unknown.text


def test_outputs_of_another_shape_are_not_equal(tmp_path: Path) -> None:
    paths = []
    for channels in (4, 5):
        paths.append(tmp_path / f"{channels}.mlpackage")
        write_mlpackage(build_layer("linear", {"shape": (1, 8), "channels": channels}), paths[-1])
    report = check(paths[0], min_psnr=1, reference=str(paths[1]))
    assert verdicts(report) == {"min-psnr": "unknown"}


def test_the_size_of_a_package_without_its_weights_is_not_known(model: Path, tmp_path: Path) -> None:
    saved = tmp_path / "check.json"
    saved.write_text(render_json(check(model, max_size="1GB")), encoding="utf-8")
    pointed = tmp_path / model.name
    shutil.copytree(model, pointed)
    (weights,) = pointed.rglob("weight.bin")
    weights.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1000\n")
    report = check(pointed, max_size="1GB", baseline=str(saved))
    assert report.exit_code == 9
    unknown = [(one.kind, one.subject) for _, one in report.failed if "weights are absent" in one.text]
    assert unknown == [("loads", ""), ("max-size", ""), ("baseline", "size")]
    assert "git lfs pull" in report.failed[1][1].hint
    assert verdicts(check(pointed, max_size="1 kB")) == {"loads": "fail", "max-size": "fail"}


def test_a_baseline_of_another_model_is_named(model: Path, tmp_path: Path) -> None:
    saved, other = tmp_path / "check.json", tmp_path / "other.mlpackage"
    saved.write_text(render_json(check(model, max_size="1GB")), encoding="utf-8")
    shutil.copytree(model, other)
    for path in (model, other):
        texts = [one.text for one in check(path, baseline=str(saved)).models[0].checks]
        named = [f"(the baseline is of {model.name})" in text for text in texts]
        assert named == [path == other] * len(texts)


def test_what_is_no_baseline(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.sarif"
    path.write_text(render_sarif(check(model, max_size="1GB")), encoding="utf-8")
    with pytest.raises(UsageError, match=r"report.sarif cannot be a baseline"):
        check(model, baseline=str(path))


def test_a_model_that_cannot_be_read_does_not_stop_the_others(model: Path, tmp_path: Path) -> None:
    report = check(tmp_path / "absent.mlpackage", model, max_size="1GB")
    assert [bool(one.failure) for one in report.models] == [True, False]
    assert report.exit_code == 3


def test_limits_that_cannot_be_checked(model: Path) -> None:
    with pytest.raises(UsageError, match="there is no limit"):
        check(model)
    with pytest.raises(UsageError, match="are of a device"):
        check(model, min_neural_engine="95%")
    with pytest.raises(UsageError, match="unknown device"):
        check(model, max_latency={"iphone-99": "1s"})
    with pytest.raises(UsageError, match="no model is named"):
        check(max_size="1GB")
    # Each would be silently without an effect.
    for given in ({"only": "size"}, {"tolerance": "1%"}, {"reference": str(model)}):
        with pytest.raises(UsageError, match=r"--(baseline|min-psnr)"):
            check(model, max_size="1GB", **given)
    for name in ("baseline", "reference", "os", "function", "device"):
        with pytest.raises(UsageError, match="'' is not"):
            check(model, max_size="1GB", **{name: ""})


def test_a_project(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "pyproject.toml"
    config.write_text(
        f"[tool.coremlscope]\nmax-size='1GB'\n[[tool.coremlscope.models]]\npath={json.dumps(str(model))}\n"
    )
    assert check_project(config).exit_code == 0
    assert check_project(config, models=[model]).models[0].path == str(model)
    with pytest.raises(UsageError, match="does not list"):
        check_project(config, models=["other.mlpackage"])
    monkeypatch.chdir(tmp_path)
    assert len(check_project().models) == 1
    table = f"[[tool.coremlscope.models]]\npath={json.dumps(str(model))}\nmax-size="
    config.write_text(f"{table}'1B'\n{table}'1GB'\n")
    assert check_project(models=[model, model]).exit_code == 9
    assert len(check_project(models=[model, model]).models) == 2


def test_an_estimate_without_a_stage_keeps_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a stage that is not in the file comes on top of the rest."""
    source, target = array_feature("print", (2048,), ir.DType.FP32), array_feature("y", (2048,))
    given = pipeline([image_feature("image")], [target], scene_print(), tripler(source, target))
    monkeypatch.setattr(checks.container, "read", lambda _: given)
    report = check("given.mlmodel", max_latency={"m1": "1s", "iphone-13": "1ns"}, min_neural_engine=0)
    first, second, *shares = (one for one in report.models[0].checks if one.kind != "loads")
    assert (first.verdict, second.verdict) == ("unknown", "fail")
    assert "nothing is known of model0 (Vision feature print)" in first.text
    assert {one.verdict for one in shares} == {"unknown"}


def test_a_share_is_known_where_no_time_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def looped(x: Any, limit: Any) -> Any:
        loop = mb.while_loop(
            _cond=lambda i, y: mb.less(x=i, y=mb.squeeze(x=limit)),
            _body=lambda i, y: (mb.add(x=i, y=np.float16(1)), mb.relu(x=y)),
            loop_vars=(np.float16(0), x),
        )
        return mb.sigmoid(x=loop[1])

    given = programs.build(looped, {"x": np.zeros((1, 8), np.float16), "limit": np.ones(1, np.float16)})
    monkeypatch.setattr(checks.container, "read", lambda _: given)
    report = check("given.mlpackage", max_latency={"m1": "1s"}, min_neural_engine=0)
    assert verdicts(report) == {"max-latency": "unknown", "min-neural-engine": "pass"}


def test_a_baseline_without_the_device(model: Path, tmp_path: Path) -> None:
    saved = tmp_path / "check.json"
    saved.write_text(render_json(check(model, max_latency={"m1": "1s"})), encoding="utf-8")
    report = check(model, baseline=str(saved), device=["m1", "iphone-13"])
    (missing,) = (one for _, one in report.failed)
    assert missing.verdict == "unknown"
    assert missing.text.startswith("the baseline has no figures of iPhone 13")


def test_given_limits_replace_those_of_a_project(model: Path, tmp_path: Path) -> None:
    config = tmp_path / "pyproject.toml"
    limits = "max-size='1GB'\nmax-memory='1GB'"
    config.write_text(
        f"[tool.coremlscope]\n{limits}\n[[tool.coremlscope.models]]\npath={json.dumps(str(model))}\n"
    )
    report = check_project(config, max_size="1kB")
    assert verdicts(report) == {"max-size": "fail", "max-memory": "pass"}


def test_a_model_that_does_not_load_on_a_device_keeps_no_limit_there(model: Path) -> None:
    devices = {"iphone-13": "9s", "m1": "9s"}
    report = check(model, max_latency=devices, os="15", min_neural_engine=0, max_size="90MB")
    checks_ = report.models[0].checks
    loads, *others = checks_
    assert (loads.kind, loads.verdict, loads.subject) == ("loads", "fail", "iPhone 13, iOS 15")
    assert loads.text == "the model does not load on iPhone 13, iOS 15: specification version 7 needs iOS 16"
    assert "ct.target.iOS15" in loads.hint
    assert [one.verdict for one in others if "iPhone" in one.subject] == ["unknown", "unknown"]
    assert [one.verdict for one in others if "M1" in one.subject] == ["pass", "pass"]
    assert report.exit_code == 9
    assert "does not load" in render_sarif(report)


def test_damaged_weights_are_a_failure(model: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.mlpackage"
    shutil.copytree(model, cut)
    weights = next(cut.rglob("weight.bin"))
    weights.write_bytes(weights.read_bytes()[:1000])
    report = check(cut, max_latency={"m1": "9s"})
    assert "outside" in report.models[0].failure
    assert report.exit_code == 3


def _save(report: GateReport, path: Path) -> str:
    path.write_text(render_json(report), encoding="utf-8")
    return str(path)


def test_a_baseline_brings_its_devices_systems_and_settings(model: Path, tmp_path: Path) -> None:
    larger = tmp_path / "larger.mlpackage"
    write_mlpackage(sample_model(size=64, width=2.0, classes=10), larger)
    limits = {"max_latency": {"m1": "1s"}, "min_neural_engine": 0, "max_memory": "1GB", "os": "15"}
    saved = _save(check(model, **limits, compute_units="cpu_only", no_known_crash=True), tmp_path / "a.json")
    same = check(model, baseline=saved)
    assert {one.verdict for one in same.models[0].checks} == {"pass"}
    assert [one.figure for one in same.models[0].checks] == [
        *("size", "latency", "neural-engine", "known-crash", "memory")
    ]
    slower = check(larger, baseline=saved, only="latency")
    ((_, failed),) = slower.failed
    assert failed.verdict == "fail"
    assert (failed.place.device, failed.place.os, failed.place.compute_units) == (
        *("M1", "macOS 15", "cpu_only"),
    )


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda place: {**place, "os": "macOS 9999"}, "latency"),
        (lambda place: {**place, "device": "M99"}, "latency"),
        (lambda place: {**place, "function": "absent"}, "memory"),
    ],
    ids=["system", "device", "function"],
)
def test_a_figure_that_cannot_be_made_now_is_unknown(
    change: Any, kind: str, model: Path, tmp_path: Path
) -> None:
    report = json.loads(render_json(check(model, max_latency={"m1": "1s"}, max_memory="1GB")))
    for one in report["models"][0]["checks"]:
        if one["figure"] == kind:
            one["place"] = change(one["place"])
    saved = tmp_path / "main.json"
    saved.write_text(json.dumps(report), encoding="utf-8")
    found = check(model, baseline=str(saved))
    assert [one.figure for _, one in found.failed] == [kind]
    assert found.failed[0][1].verdict == "unknown"
    assert found.exit_code == 9
    others = {"latency", "memory", "size"} - {kind}
    assert check(model, baseline=str(saved), only=list(others)).exit_code == 0


def test_what_the_baseline_lacks_is_unknown_where_it_is_asked_for(model: Path, tmp_path: Path) -> None:
    saved = _save(check(model, max_size="1GB"), tmp_path / "main.json")
    assert check(model, baseline=saved).exit_code == 0
    for asked in ({"only": "latency"}, {"device": "m1"}, {"only": "psnr,size"}):
        report = check(model, baseline=saved, **asked)
        assert {one.verdict for _, one in report.failed} == {"unknown"}
        assert report.exit_code == 9
    main_json = _save(check(model, max_latency={"m1": "1s"}), tmp_path / "latency.json")
    for asked in ({"os": "14"}, {"compute_units": "cpu_only"}):
        report = check(model, baseline=main_json, **asked)
        assert {one.verdict for _, one in report.failed} == {"unknown"}


def test_figures_at_other_sizes_are_not_compared(tmp_path: Path) -> None:
    path = tmp_path / "mlp.mlpackage"
    mlp(flexible=ct.Shape((ct.RangeDim(1, 9, default=1), 8))).save(str(path))
    limits = {"max_latency": {"m1": "9s"}, "max_memory": "1GB"}
    at_four = {"shape": {"x": [4, 8]}}
    profile = coremlscope.plan(path, "m1", shapes={"x": [4, 8]})
    (tmp_path / "plan.json").write_text(render_json(profile))
    saved = _save(check(path, **limits, **at_four), tmp_path / "main.json")
    for baseline in (saved, str(tmp_path / "plan.json")):
        assert check(path, baseline=baseline, **at_four).exit_code == 0
        report = check(path, baseline=baseline)
        rows = {one.figure: one.verdict for one in report.models[0].checks}
        assert rows.pop("size") == "pass"
        assert {"latency", "memory"} <= rows.keys()
        assert {*rows.values()} == {"unknown"}


def test_options_of_devices_need_a_device(model: Path) -> None:
    for option in ({"os": "18"}, {"compute_units": "cpu_only"}, {"format": "mlprogram"}):
        with pytest.raises(UsageError, match="no limit is of one"):
            check(model, max_size="1GB", **option)
    assert check(model, max_size="1GB", os="18", device="m1").exit_code == 0


def test_the_baseline_is_not_replaced(model: Path, tmp_path: Path) -> None:
    saved = _save(check(model, max_size="1GB"), tmp_path / "main.json")
    before = Path(saved).read_bytes()
    assert main(["check", str(model), "--baseline", saved, "--json", saved]) == 8
    assert Path(saved).read_bytes() == before


def test_equal_outputs_of_a_baseline_must_stay_equal(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.mlpackage"
    write_mlpackage(sample_model(seed=1, size=32, width=0.5, classes=10), other)
    saved = _save(check(model, min_psnr=40, reference=str(model)), tmp_path / "main.json")
    given = {"baseline": saved, "reference": str(model), "only": "psnr"}
    assert check(model, **given).exit_code == 0
    assert [one.verdict for _, one in check(other, **given).failed] == ["fail"]
    assert [one.verdict for _, one in check(model, baseline=saved, only="psnr").failed] == ["unknown"]


def _with_outputs(path: Path, names: tuple[str, ...]) -> str:
    def body(x: Any) -> Any:
        values = {"y": mb.relu, "z": mb.sigmoid}
        return tuple(values[name](x=x, name=name) for name in names)

    write_mlpackage(programs.build(body, {"x": np.zeros((1, 8), np.float16)}), path)
    return str(path)


def test_an_output_on_one_side_only_keeps_no_limit(tmp_path: Path) -> None:
    one, two = (_with_outputs(tmp_path / f"{len(n)}.mlpackage", n) for n in (("y",), ("y", "z")))
    for path, reference in ((one, two), (two, one)):
        report = check(path, min_psnr=1, reference=reference)
        assert verdicts(report) == {"min-psnr": "unknown"}
        assert "'z' is only in " in report.failed[0][1].text
    assert check(two, min_psnr=1, reference=two).exit_code == 0


def test_outputs_without_a_finite_element_keep_no_limit(tmp_path: Path) -> None:
    def body(x: Any) -> Any:
        return mb.log(x=mb.sub(x=mb.mul(x=x, y=np.float16(0)), y=np.float16(1)), name="y")

    path = tmp_path / "nan.mlpackage"
    write_mlpackage(programs.build(body, {"x": np.zeros((1, 8), np.float16)}), path)
    for given in ({}, {"reference": str(path)}):
        report = check(path, min_psnr=1, **given)
        assert verdicts(report) == {"min-psnr": "unknown"}
        assert "no element of the reference is finite" in report.failed[0][1].text


def test_limits_hold_for_each_function(tmp_path: Path) -> None:
    small, large = (
        programs.build(mb_linear(size), {"x": np.zeros((1, 8), np.float16)}) for size in (8, 4096)
    )
    functions = {"small": small.content.functions["main"], "large": large.content.functions["main"]}
    interfaces = {"small": small.description.main, "large": large.description.main}
    several = msgspec.structs.replace(
        small,
        content=ir.Program(
            functions={
                name: msgspec.structs.replace(function, name=name) for name, function in functions.items()
            }
        ),
        description=ir.Description(interfaces, "small"),
    )
    path = tmp_path / "two.mlpackage"
    write_mlpackage(several, path)
    limits = {"max_latency": {"m1": "9s"}, "max_memory": "80kB", "min_psnr": 1}
    report = check(path, **limits)
    assert [(one.kind, one.place.function) for one in report.models[0].checks] == [
        (kind, name) for kind in ("max-latency", "max-memory", "min-psnr") for name in ("small", "large")
    ]
    assert [(one.kind, one.place.function) for _, one in report.failed] == [("max-memory", "large")]
    assert check(path, **limits, function="small").exit_code == 0
    write_mlpackage(small, tmp_path / "one.mlpackage")
    for name in ("one", "two"):
        report = check(tmp_path / f"{name}.mlpackage", max_size="1GB", function="absent")
        assert report.models[0].failure == "unknown function 'absent'"
        assert report.exit_code == 2


def mb_linear(size: int) -> Any:
    weight = np.ones((size, 8), np.float16)
    return lambda x: mb.relu(x=mb.linear(x=x, weight=weight))


def test_a_limit_that_is_given_twice_is_refused(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="M1 has 2 limits"):
        check(model, max_latency={"m1": "1ns", "M1": "100s"})
    with pytest.raises(UsageError, match="max-size is given twice"):
        check(model, **{"max-size": "1MB", "max_size": "1GB"})
    shape, size = ["--shape=x=1x4", "--shape=x=1x8"], ["--max-size=1B", "--max-size=1GB"]
    for options in (["--max-latency=m1=1ns", "--max-latency=m1=9s"], size, shape, ["--os=17", "--os=18"]):
        assert main(["check", str(model), *options]) == 2
        assert "given twice" in capsys.readouterr().err
