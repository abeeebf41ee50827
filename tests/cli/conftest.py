from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from coremlscope import ir
from coremlscope.formats import container
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small classifier of images."""
    path = tmp_path_factory.mktemp("models") / "sample.mlpackage"
    write_mlpackage(sample_model(size=32, width=0.5, classes=10), path)
    return path


@pytest.fixture(scope="session")
def hollow(sample: Path) -> Path:
    """The same without its weights."""
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
        ops.append(ir.Op(f"main/{index}", "add", {"x": (value,), "y": (value,)}, (outputs[-1],)))
    bounds = ir.RangeShapes(((1, 1), (2, 9)))
    interface = ir.FunctionDescription(
        (
            ir.Feature("picture", ir.ImageFeature("RGB", 6, 4)),
            ir.Feature("row", ir.ArrayFeature(ir.DType.FP32, (1, 4), bounds)),
            ir.Feature("more", ir.ArrayFeature(ir.DType.INT32, (1,), default=4.0), is_optional=True),
        ),
        (
            ir.Feature("twice_picture", ir.ImageFeature("RGB", 6, 4)),
            ir.Feature("twice_row", ir.ArrayFeature(ir.DType.FP32, ())),
            ir.Feature("twice_more", ir.ArrayFeature(ir.DType.INT32, (1,))),
        ),
    )
    function = ir.Function("main", "CoreML6", ir.Graph("main", inputs, tuple(ops), tuple(outputs)))
    metadata = ir.Metadata("Doubles.", "1.2", "somebody", "MIT", {"key": "value"})
    model = ir.Model(7, ir.Description({"main": interface}, "main"), ir.Program({"main": function}), metadata)
    path = tmp_path_factory.mktemp("models") / "doubler.mlpackage"
    write_mlpackage(model, path)
    return path


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """A picture of 12 × 8 pixels, all (10, 20, 200)."""
    path = tmp_path / "photo.png"
    Image.fromarray(np.full((8, 12, 3), (10, 20, 200), np.uint8)).save(path)
    return path
