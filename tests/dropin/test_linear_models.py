"""Classical models through coremltools: predictions, batches, compiled models, renamed features, errors."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

ct = pytest.importorskip("coremltools")

from coremltools.models import CompiledMLModel, MLModel  # noqa: E402

from tests.support.classical_specs import classifier, regressor  # noqa: E402

pytestmark = pytest.mark.usefixtures("drop_in")


@pytest.fixture
def spec() -> Any:
    return ct.proto.Model_pb2.Model.FromString(regressor([[1, 2]], [0.1]).SerializeToString())


def test_predictions_and_batches(spec: Any) -> None:
    model = MLModel(spec)
    assert model.predict({"x0": 2, "x1": 3.0}) == {"y": 8.1}
    assert model.predict([{"x0": 1, "x1": 0}, {"x0": 2, "x1": 0}]) == [{"y": 1.1}, {"y": 2.1}]


def test_compiled_models(spec: Any, tmp_path: Path) -> None:
    model = MLModel(spec)
    copy = tmp_path / "copy.mlmodelc"
    shutil.copytree(model.get_compiled_model_path(), copy)
    assert CompiledMLModel(str(copy)).predict({"x0": 2, "x1": 3}) == {"y": 8.1}
    assert CompiledMLModel(ct.utils.compile_model(spec, str(tmp_path / "own.mlmodelc"))).predict(
        [{"x0": 0, "x1": 0}]
    ) == [{"y": 0.1}]


def test_renamed_features(spec: Any) -> None:
    ct.utils.rename_feature(spec, "x1", "renamed", rename_inputs=True)
    ct.utils.rename_feature(spec, "y", "result", rename_outputs=True)
    model = MLModel(spec)
    assert model.predict({"x0": 2, "renamed": 3}) == {"result": 8.1}
    with pytest.raises(RuntimeError, match="'renamed'"):
        model.predict({"x0": 2})


@pytest.mark.parametrize(
    ("values", "sentence"), [({"x0": 2}, "'x1'"), ({"x0": 2, "x1": "three"}, "'x1' takes double")]
)
def test_wrong_inputs(spec: Any, values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RuntimeError, match=sentence):
        MLModel(spec).predict(values)


def test_classifiers() -> None:
    source = classifier([[1, -1]], [0], [10, 20])
    model = MLModel(ct.proto.Model_pb2.Model.FromString(source.SerializeToString()))
    result = model.predict({"x": [0, 1]})
    assert result["label"] == 10
    assert list(result["probabilities"]) == [10, 20]
    assert sum(result["probabilities"].values()) == pytest.approx(1, abs=1e-15)
