"""Models and values that Core ML refuses by public reports: the drop-in refuses them too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb
from coremltools.converters.mil.mil import get_new_symbol, types
from coremltools.proto import FeatureTypes_pb2, Model_pb2

pytestmark = pytest.mark.usefixtures("drop_in")

_TARGET = ct.target.iOS18


def _save(path: Path, program: Any, change: Callable[[Any], object] = lambda _: None, **options: Any) -> str:
    """Saves a program whose specification is changed before."""
    made = ct.convert(program, minimum_deployment_target=_TARGET, skip_model_load=True, **options)
    spec = made.get_spec()
    change(spec)
    ct.utils.save_spec(spec, str(path), weights_dir=made.weights_dir)
    return str(path)


def _enumerate(feature: Any, *shapes: tuple[int, ...]) -> None:
    for shape in shapes:
        feature.type.multiArrayType.enumeratedShapes.shapes.add().shape.extend(shape)


def _classifier(path: Path) -> str:
    """coremltools #2764: a classifier of batches."""

    @mb.program(input_specs=[mb.TensorSpec((get_new_symbol(), 3))], opset_version=_TARGET)
    def classified(x: Any) -> Any:
        return mb.softmax(x=x, name="p")

    return _save(
        path,
        classified,
        inputs=[ct.TensorType("x", ct.EnumeratedShapes([(1, 3), (4, 3)]))],
        classifier_config=ct.ClassifierConfig(["a", "b", "c"]),
    )


def _integer_product(path: Path) -> str:
    """coremltools #2575: a product of int32 by a constant."""

    @mb.program(input_specs=[mb.TensorSpec((8, 8), dtype=types.int32)], opset_version=_TARGET)
    def product(x: Any) -> Any:
        return mb.matmul(x=x, y=np.ones((8, 8), np.int32), name="y")

    return _save(path, product)


def _suppression(path: Path) -> str:
    """ultralytics/hub #1081: a suppression of float16."""
    spec = Model_pb2.Model(specificationVersion=7)
    half = FeatureTypes_pb2.ArrayFeatureType.FLOAT16
    for features, names in (
        (spec.description.input, ("scores", "boxes")),
        (spec.description.output, ("kept_scores", "kept_boxes")),
    ):
        for name, count in zip(names, (2, 4), strict=True):
            feature = features.add(name=name)
            feature.type.multiArrayType.dataType = half
            feature.type.multiArrayType.shape.extend([16, count])
    suppression = spec.nonMaximumSuppression
    suppression.confidenceInputFeatureName, suppression.coordinatesInputFeatureName = "scores", "boxes"
    suppression.confidenceOutputFeatureName = "kept_scores"
    suppression.coordinatesOutputFeatureName = "kept_boxes"
    suppression.stringClassLabels.vector.extend(["cat", "dog"])
    ct.utils.save_spec(spec, str(path.with_suffix(".mlmodel")))
    return str(path.with_suffix(".mlmodel"))


@pytest.mark.parametrize("write", [_classifier, _integer_product, _suppression])
def test_loads_that_are_refused(write: Callable[[Path], str], tmp_path: Path) -> None:
    path = write(tmp_path / "a.mlpackage")
    with pytest.warns(RuntimeWarning, match="You will not be able to run predict"):
        model = ct.models.MLModel(path)
    with pytest.raises(Exception, match=r"Core ML refuses|does not load"):
        model.predict({})


def test_enumerated_shapes_go_together_by_their_place(tmp_path: Path) -> None:
    """coremltools #2271."""

    @mb.program(input_specs=[mb.TensorSpec((1, 4)), mb.TensorSpec((1, 8))], opset_version=_TARGET)
    def two(a: Any, b: Any) -> Any:
        return mb.relu(x=a, name="c"), mb.relu(x=b, name="d")

    def change(spec: Any) -> None:
        _enumerate(spec.description.input[0], (1, 4), (2, 4))
        _enumerate(spec.description.input[1], (1, 8), (2, 8))

    model = ct.models.MLModel(_save(tmp_path / "a.mlpackage", two, change))
    with pytest.raises(RuntimeError, match="combination of enumerated shapes"):
        model.predict({"a": np.ones((2, 4), np.float32), "b": np.ones((1, 8), np.float32)})
