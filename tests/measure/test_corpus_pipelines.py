"""Every pipeline of the corpus, and every model whose file does not hold what computes it."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from coremlscope.base.errors import UnsupportedModelError
from coremlscope.describe.model import describe_model
from coremlscope.formats import container
from coremlscope.model import ir
from coremlscope.results.measurement import Settings
from coremlscope.runtime.execution.pipeline import open_predictor
from coremlscope.runtime.execution.wiring import wire
from tests.support.measuring import measure

pytestmark = pytest.mark.corpus

_QUICK = Settings(iterations=1, compile_iterations=1, load_iterations=1, warmups=0)


def _models(corpus: Path, word: str) -> list[Path]:
    with (corpus / "index.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["container"] == "mlmodel"]
    return [corpus / row["path"] for row in rows if row["model_type"].startswith(word)]


def test_every_pipeline_is_profiled(corpus: Path) -> None:
    """Stages that are in the file run; of those that are not, the report says so."""
    paths = _models(corpus, "pipeline")
    assert len(paths) >= 9
    for path in paths:
        model = container.read(path)
        stages = wire(model).stages
        if any(isinstance(stage.model.content, ir.Opaque) for stage in stages):
            continue
        absent = [stage.name for stage in stages if stage.model.content.absent]
        profile = measure(model, _QUICK)
        assert [stage.name for stage in profile.measurement.stages] == [stage.name for stage in stages], path
        assert [stage.name for stage in profile.measurement.stages if stage.absent] == absent, path
        assert [f.ops for f in profile.all_findings if f.id == "stage-not-run"] == [
            (f"{name}/main",) for name in absent
        ], path
        assert "unattributed" not in profile.measurement.status, path
        if absent:
            with pytest.raises(UnsupportedModelError, match="of the pipeline, a Vision feature print"):
                open_predictor(model)


def test_models_of_the_system_say_why_they_cannot_be_run(corpus: Path) -> None:
    paths = _models(corpus, "textClassifier")
    assert len(paths) >= 4
    for path in paths:
        model = container.read(path)
        summary = describe_model(model)
        names = [name for name, _ in summary.facts]
        assert names[:5] == ["revision", "language", "data", "trained on", "vocabulary"]
        assert names[-1] == "to run it"
        assert summary.labels is not None
        with pytest.raises(UnsupportedModelError, match="only be read by Apple's Natural Language framework"):
            measure(model, _QUICK)


def test_one_hot_columns(corpus: Path) -> None:
    """Each of the eight columns becomes as many as it has categories, in order."""
    model = container.read(corpus / "models/onnx__onnxmltools/onehot_simple.mlmodel")
    stages = [stage.model.content for stage in wire(model).stages]
    if any(isinstance(content, ir.Opaque) for content in stages):
        pytest.skip("stages of it are not read")
    encoders = [content for content in stages if getattr(content, "kind", "") == "oneHotEncoder"]
    known = [list(content.keys.numpy().tolist()) for content in encoders]  # type: ignore[union-attr]
    with open_predictor(model) as predictor:
        given = np.array([categories[-1] for categories in known], np.float64)
        result = predictor.predict({"input": given})["transformed_features"]
    expected = [np.eye(len(categories))[-1] for categories in known]
    np.testing.assert_array_equal(result, np.concatenate(expected))
