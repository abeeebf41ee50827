"""The verbs on pipelines: one whose first stage is Apple's, and one that is whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coremlscope.base.errors import CoremlscopeError, CorruptModelError
from coremlscope.cli import main
from coremlscope.describe.model import describe_model
from coremlscope.formats import container
from coremlscope.model.features import dummy_values
from coremlscope.model.schema import message_class
from coremlscope.results.profile import Profile
from coremlscope.runtime.execution.pipeline import open_predictor
from tests.support.classical_specs import classifier

_IMAGE = {"imageType": {"width": 299, "height": 299, "colorSpace": 30}}
_PRINT = {"multiArrayType": {"shape": [3], "dataType": 65600}}


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image classifier as Create ML writes it: Apple's network, then a linear model."""
    last = classifier([[1, 2, 3]], [0.5], ["cat", "dog"])
    for feature in last.description.input:
        feature.name = "print"
    described = {"input": [{"name": "image", "type": _IMAGE}], "output": list(last.description.output)}
    first = {
        "specificationVersion": 3,
        "description": {
            "input": [{"name": "image", "type": _IMAGE}],
            "output": [{"name": "print", "type": _PRINT}],
        },
        "visionFeaturePrint": {"scene": {"version": 1}},
    }
    spec = message_class("Model")(
        specificationVersion=3,
        description=described,
        pipelineClassifier={"pipeline": {"models": [first, last]}},
    )
    path = tmp_path_factory.mktemp("models") / "scenes.mlmodel"
    path.write_bytes(spec.SerializeToString())
    return path


@pytest.fixture(scope="module")
def whole(scenes: Path) -> Path:
    """The linear model alone, in a pipeline."""
    spec = message_class("Model").FromString(scenes.read_bytes())
    models = spec.pipelineClassifier.pipeline.models
    del models[0]
    del spec.description.input[:]
    spec.description.input.extend(models[0].description.input)
    path = scenes.with_name("whole.mlmodel")
    path.write_bytes(spec.SerializeToString())
    return path


_QUICK = ["--iterations", "3", "--compile-iterations", "1", "--load-iterations", "1"]


def test_profile(scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = [tmp_path / f"report.{kind}" for kind in ("json", "md", "html", "csv")]
    options = [word for report in reports for word in ("-o", str(report))]
    assert main(["profile", str(scenes), *_QUICK, *options]) == 0
    text = capsys.readouterr().out
    assert "The stage model0 (Vision feature print) was not run, because its network" in " ".join(
        text.split()
    )
    assert "model0 Vision feature print not run" in " ".join(text.split())
    stages = Profile.load(reports[0]).measurement.stages
    assert [(stage.name, bool(stage.absent)) for stage in stages] == [("model0", True), ("model1", False)]
    assert "| model1 | " in reports[1].read_text()


def test_predict(scenes: Path, whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(whole), "--input", "print=1", "--json", "-"]) == 0
    assert "dog" in json.dumps(json.loads(capsys.readouterr().out)["label"])
    assert main(["predict", str(scenes), "--input", "image=1"]) == 5
    error = capsys.readouterr().err
    assert "stage 'model0' of the pipeline, a Vision feature print cannot be run here: its network" in error
    assert "`coremlscope profile` runs the other stages" in error


def test_inspect_plan_and_export(
    scenes: Path, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(scenes), "--ops"]) == 0
    text = capsys.readouterr().out
    assert "Stages  2, one after the other" in text
    assert "cannot run here: its network is part of Apple's systems and not of the file" in text
    assert "model0/main" in text
    assert main(["export", str(whole), str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "pipeline.json").is_file()
    assert main(["export", str(whole), str(tmp_path / "out.onnx")]) == 2
    capsys.readouterr()
    assert main(["plan", str(scenes), "--device", "m1"]) == 0
    text = capsys.readouterr().out
    assert "not in the file, so that the placement is unknown: model0 (Vision feature print)" in " ".join(
        text.split()
    )
    assert (
        "on the CPU, as a whole, without operations to plan: model1 (generalized linear classifier)"
        in " ".join(text.split())
    )


def test_damaged_pipelines_are_errors_or_models(whole: Path) -> None:
    """A bit flipped in every fifth byte: one sentence, or a model that predicts."""
    data = whole.read_bytes()
    outcomes, sentences = set(), []
    for place in range(0, len(data), 5):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        try:
            model = container.read(bytes(damaged))
            describe_model(model, list_ops=True)
            with open_predictor(model) as predictor:
                predictor.predict(dummy_values(predictor.description))
        except CoremlscopeError as error:
            sentences.append(error.message)
            outcomes.add(type(error))
        else:
            outcomes.add(dict)
    assert {CorruptModelError, dict} <= outcomes
    assert all(sentence and "\n" not in sentence for sentence in sentences)
