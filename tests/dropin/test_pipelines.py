"""Pipelines written by coremltools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

ct = pytest.importorskip("coremltools")

from coremltools.converters.mil import Builder as mb  # noqa: E402

from coremlscope.formats import container  # noqa: E402
from coremlscope.model import ir  # noqa: E402
from tests.support import converted_models  # noqa: E402

pytestmark = pytest.mark.usefixtures("drop_in")

_X = np.linspace(-2, 2, 16, dtype=np.float32).reshape(2, 8)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    @mb.program(input_specs=[mb.TensorSpec(shape=(2, 5))], opset_version=ct.target.iOS16)
    def negated(y: Any) -> Any:
        return mb.mul(x=y, y=-1.0, name="z")

    second = ct.convert(
        negated, compute_precision=ct.precision.FLOAT32, minimum_deployment_target=ct.target.iOS16
    )
    path = tmp_path_factory.mktemp("pipeline") / "pipeline.mlpackage"
    ct.utils.make_pipeline(converted_models.mlp(), second).save(str(path))
    return path


def test_predictions(path: Path) -> None:
    result = ct.models.MLModel(str(path)).predict({"x": _X})
    np.testing.assert_allclose(result["z"], -converted_models.mlp_result(_X), rtol=1e-5, atol=1e-6)


def test_stages_are_read_with_their_weights(path: Path) -> None:
    model = container.read(path)
    assert isinstance(model.content, ir.Pipeline)
    assert [stage.kind for stage in model.content.models] == ["mlProgram", "mlProgram"]
    assert [file.size is not None for file in model.weight_files] == [True]


def test_structure(path: Path) -> None:
    structure = ct.models.compute_plan.MLModelStructure.load_from_path(ct.utils.compile_model(str(path)))
    stages = [(name, part.program is not None) for name, part in structure.pipeline.sub_models]
    assert stages == [("model0", True), ("model1", True)]


def test_plan(path: Path) -> None:
    """Each operation is found, although both stages use the same operation ids."""
    plan = ct.models.compute_plan.MLComputePlan.load_from_path(ct.utils.compile_model(str(path)))
    found = [
        (operation.operator_name, plan.get_compute_device_usage_for_mlprogram_operation(operation))
        for _, part in plan.model_structure.pipeline.sub_models
        for operation in part.program.functions["main"].block.operations
    ]
    used = [name for name, usage in found if usage is not None]
    assert used == ["linear", "relu", "mul"]


def _in_pipeline(first: Any, second: Any) -> Any:
    """A pipeline as Create ML writes it: the last model predicts the label."""
    spec = ct.proto.Model_pb2.Model()
    spec.specificationVersion = 5
    spec.description.input.extend(first.description.input)
    spec.description.output.extend(second.description.output)
    spec.description.predictedFeatureName = second.description.predictedFeatureName
    spec.pipelineClassifier.pipeline.models.extend([first, second])
    return spec


def _linear_classifier() -> Any:
    from coremltools.models import datatypes
    from coremltools.models.feature_vectorizer import create_feature_vectorizer

    first, _ = create_feature_vectorizer([("p", datatypes.Double()), ("q", datatypes.Double())], "features")
    spec = ct.proto.Model_pb2.Model()
    spec.specificationVersion = 1
    spec.description.input.extend(first.description.output)
    for name, field in (("label", "int64Type"), ("odds", "dictionaryType")):
        getattr(spec.description.output.add(name=name).type, field).SetInParent()
    spec.description.output[1].type.dictionaryType.int64KeyType.SetInParent()
    spec.description.predictedFeatureName = "label"
    spec.description.predictedProbabilitiesName = "odds"
    spec.glmClassifier.weights.add(value=[1, 2])
    spec.glmClassifier.offset.append(0.5)
    spec.glmClassifier.int64ClassLabels.vector.extend([4, 9])
    return _in_pipeline(first, spec)


def test_a_classifier_with_integers_as_labels() -> None:
    result = ct.models.MLModel(_linear_classifier()).predict({"p": 1.0, "q": 2})
    assert result["label"] == 9
    assert result["odds"] == pytest.approx({4: 1 - 1 / (1 + np.exp(-5.5)), 9: 1 / (1 + np.exp(-5.5))})


def test_structure_of_a_pipeline_of_classical_models(tmp_path: Path) -> None:
    folder = ct.models.utils.compile_model(_linear_classifier(), str(tmp_path / "m.mlmodelc"))
    structure = ct.models.compute_plan.MLModelStructure.load_from_path(folder)
    parts = [part for _, part in structure.pipeline.sub_models]
    assert [(part.program, part.neuralnetwork, part.pipeline) for part in parts] == [(None, None, None)] * 2


def test_a_system_stage_is_an_error() -> None:
    image = ct.proto.Model_pb2.Model()
    image.specificationVersion = 3
    image.visionFeaturePrint.scene.version = 1
    feature = image.description.input.add(name="image").type.imageType
    feature.width, feature.height, feature.colorSpace = 299, 299, 30
    spec = _linear_classifier()
    last = spec.pipelineClassifier.pipeline.models[1]
    image.description.output.extend(last.description.input)
    with pytest.warns(RuntimeWarning, match="Vision feature print cannot be run here"):
        model = ct.models.MLModel(_in_pipeline(image, last))
    with pytest.raises(RuntimeError, match="its network is part of Apple's systems"):
        model.predict({"image": Image.new("RGB", (299, 299))})
