from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from coremlscope.formats import container
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.model import ir


@pytest.fixture(autouse=True)
def own_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements that a test adds are those of that test: estimates of others would use them."""
    monkeypatch.setenv("COREMLSCOPE_DATA", str(tmp_path / "own-measurements"))


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small image classifier."""
    path = tmp_path_factory.mktemp("models") / "sample.mlpackage"
    write_mlpackage(sample_model(size=32, width=0.5, classes=10), path)
    return path


@pytest.fixture(scope="session")
def hollow(sample: Path) -> Path:
    """The same classifier with its weight files removed."""
    path = sample.with_name("hollow.mlpackage")
    shutil.copytree(sample, path)
    for file in container.read(sample).weight_files:
        next(path.rglob(Path(file.name).name)).unlink()
    return path


@pytest.fixture(scope="session")
def doubler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that doubles an image, an array of flexible length and an optional number."""
    picture = ir.Value("picture", ir.TensorType(ir.DType.FP32, (1, 3, 4, 6)))
    row = ir.Value("row", ir.TensorType(ir.DType.FP32, (1, None)))
    more = ir.Value("more", ir.TensorType(ir.DType.INT32, (1,)))
    inputs = (picture, row, more)
    ops, outputs = [], []
    for index, value in enumerate(inputs):
        assert isinstance(value.type, ir.TensorType)
        outputs.append(ir.Value(f"twice_{value.name}", value.type))
        ops.append(
            ir.Op(
                id=f"main/{index}", type="add", inputs={"x": (value,), "y": (value,)}, outputs=(outputs[-1],)
            )
        )
    bounds = ir.RangeShapes(((1, 1), (2, 9)))
    interface = ir.FunctionDescription(
        inputs=(
            ir.Feature("picture", ir.ImageFeature("RGB", 6, 4)),
            ir.Feature("row", ir.ArrayFeature(dtype=ir.DType.FP32, shape=(1, 4), flexibility=bounds)),
            ir.Feature(
                "more", ir.ArrayFeature(dtype=ir.DType.INT32, shape=(1,), default=4.0), is_optional=True
            ),
        ),
        outputs=(
            ir.Feature("twice_picture", ir.ImageFeature("RGB", 6, 4)),
            ir.Feature("twice_row", ir.ArrayFeature(dtype=ir.DType.FP32, shape=())),
            ir.Feature("twice_more", ir.ArrayFeature(dtype=ir.DType.INT32, shape=(1,))),
        ),
    )
    function = ir.Function(
        name="main",
        opset="CoreML6",
        graph=ir.Graph(name="main", inputs=inputs, ops=tuple(ops), outputs=tuple(outputs)),
    )
    metadata = ir.Metadata(
        description="Doubles.", version="1.2", author="somebody", licence="MIT", user_defined={"key": "value"}
    )
    model = ir.Model(
        spec_version=7,
        description=ir.Description({"main": interface}, "main"),
        content=ir.Program(functions={"main": function}),
        metadata=metadata,
    )
    path = tmp_path_factory.mktemp("models") / "doubler.mlpackage"
    write_mlpackage(model, path)
    return path


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """An image of 12 × 8 pixels, all of color (10, 20, 200)."""
    path = tmp_path / "photo.png"
    Image.fromarray(np.full((8, 12, 3), (10, 20, 200), np.uint8)).save(path)
    return path
