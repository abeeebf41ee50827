"""Every kind of model on a Mac: each screen says Core ML and the chip; the drop-in answers in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import coremltools as ct
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope import api
from coremlscope.cli import main
from coremlscope.describe.comparison.profiles import compare_profiles
from coremlscope.measure.effort import Effort
from coremlscope.reports.renderers import COMPARISON_RENDERERS, RENDERERS
from coremlscope.results.profile import Profile
from tests.support import converted_models, networks
from tests.support.planned_rows import rows


def _program(path: Path) -> None:
    converted_models.mlp(precision=ct.precision.FLOAT16).save(str(path))


def _network(path: Path) -> None:
    builder = networks.network({"x": (4,)})
    builder.add_inner_product("dense", networks.random(3, 4), None, 4, 3, False, "x", "h")
    builder.add_activation("act", "RELU", "h", "y")
    ct.models.MLModel(builder.spec, skip_model_load=True).save(str(path))


def _pipeline(path: Path) -> None:
    @mb.program(input_specs=[mb.TensorSpec(shape=(2, 5))], opset_version=ct.target.iOS16)
    def negated(y: Any) -> Any:
        return mb.mul(x=y, y=-1.0, name="z")

    second = ct.convert(negated, minimum_deployment_target=ct.target.iOS16)
    ct.utils.make_pipeline(converted_models.mlp(), second).save(str(path))


def _stateful(path: Path) -> None:
    converted_models.accumulator().save(str(path))


#: By name of the file.
MODELS: Mapping[str, Callable[[Path], None]] = {
    "program.mlpackage": _program,
    "network.mlmodel": _network,
    "pipeline.mlpackage": _pipeline,
    "stateful.mlpackage": _stateful,
    "functions.mlpackage": converted_models.sine_and_cosine,
}
#: Formats without a place for the source of figures.
_BARE = (".csv",)


@pytest.mark.usefixtures("mac")
@pytest.mark.parametrize("name", MODELS)
def test_reports_say_core_ml_and_the_chip(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    MODELS[name](path)
    quick = {"iterations": 2, "effort": Effort(compile_iterations=1, load_iterations=1, warmups=0)}
    profile = api.profile(path, **quick)
    _check_profile(profile)
    for renderer in RENDERERS:
        text = renderer.render(profile)
        assert renderer.suffix in _BARE or ("Core ML" in text and "M1" in text), renderer.suffix
    for renderer in COMPARISON_RENDERERS:
        text = renderer.render(compare_profiles([profile, profile]))
        assert "Core ML on M1, macOS 14.5" in text, renderer.suffix
    monkeypatch.setattr("coremlscope.cli.plan.sys.platform", "darwin")
    capsys.readouterr()
    assert main(["plan", str(path), "--against-rules"]) == 0
    screen = capsys.readouterr().out
    assert "planned by Core ML itself" in screen
    assert "M1, macOS 14.5" in screen
    assert "Agreement with Core ML" in screen


def _check_profile(profile: Profile) -> None:
    (measured,) = profile.measurements
    assert measured.label == "Core ML on M1, macOS 14.5"
    assert set(measured.phases) == {"compile", "first load", "load", "predict"}
    assert measured.predict is not None
    assert measured.predict.through_python is not None
    assert [plan.planner for plan in profile.plans] == ["Core ML", "rules"]
    theirs, ours = (rows(plan) for plan in profile.plans)
    placed = {op.id for op in theirs if op.unit is not None}
    # The drop-in plans by rules; of networks, Core ML knows layers only.
    is_layered = dict(zip(profile.ops.id, profile.ops.layer, strict=True))
    expected = {op.id for op in ours if op.unit is not None and not op.inserted}
    if any(is_layered.values()):
        expected = {id_ for id_ in expected if is_layered[id_]}
    assert placed == expected
    (agreement,) = profile.agreements
    assert agreement.compared
    assert agreement.share is not None


@pytest.mark.usefixtures("mac")
def test_a_comparison_says_core_ml_and_the_chip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / name for name in ("program.mlpackage", "network.mlmodel")]
    for path in paths:
        MODELS[path.name](path)
    arguments = [*map(str, paths), "--compute-units", "all,cpu_only", "--iterations", "2", "--quiet"]
    report = tmp_path / "models.txt"
    assert main(["compare", *arguments, "-o", str(report)]) == 0
    assert "by Core ML on M1, macOS 14.5" in report.read_text(encoding="utf-8")
