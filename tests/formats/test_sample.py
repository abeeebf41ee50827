"""The sample model: MobileNetV2's structure, and a package that coremltools accepts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from coremlscope.formats import container, sample
from coremlscope.model import ir


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sample") / "sample.mlpackage"
    sample.write_sample(path)
    return path


def _ops(model: ir.Model) -> tuple[ir.Op, ...]:
    assert isinstance(model.content, ir.Program)
    return model.content.functions["main"].graph.ops


def _constant(model: ir.Model, name: str) -> ir.Constant:
    constant = next(op.constant for op in _ops(model) if op.name == name)
    assert constant is not None
    return constant


def test_structure_agrees_with_torchvision(package: Path) -> None:
    model = container.read(package)
    ops = [op for op in _ops(model) if op.type != "const"]
    assert Counter(op.type for op in ops) == {
        # 52 convolutions, ReLU6 after all but the 17 projections, 10 shortcuts and the image's bias.
        "conv": 52,
        "clip": 35,
        "add": 11,
        "mul": 1,
        "cast": 2,
        "reduce_mean": 1,
        "linear": 1,
        "softmax": 1,
        "classify": 1,
    }
    shapes = [ir.describe_type(op.outputs[0].type) for op in ops if op.type == "conv"]
    assert shapes[0] == "tensor<fp16, [1, 32, 112, 112]>"
    assert shapes[-1] == "tensor<fp16, [1, 1280, 7, 7]>"
    elements = [_constant(model, op.name).numpy().size for op in _ops(model) if op.name.endswith("weight")]
    # torchvision's 3,504,872 parameters without the weights and biases of batch normalisation.
    assert sum(elements) == 3_504_872 - 2 * 17_056 - 1000


def test_values_are_typed_and_defined_once(package: Path) -> None:
    names = [value.name for op in _ops(container.read(package)) for value in op.outputs]
    assert len(set(names)) == len(names)
    for op in _ops(container.read(package)):
        if op.constant:
            assert op.constant.type == op.outputs[0].type


def test_weights_depend_on_the_seed(package: Path) -> None:
    assert container.read(package) == sample.sample_model()
    small = {"size": 32, "width": 0.25, "classes": 3}
    assert sample.sample_model(1, **small) == sample.sample_model(1, **small)  # type: ignore[arg-type]
    assert sample.sample_model(1, **small) != sample.sample_model(2, **small)  # type: ignore[arg-type]


def test_coremltools_loads_the_sample(package: Path) -> None:
    import coremltools as ct
    from coremltools.converters.mil.frontend.milproto.load import load

    model = ct.models.MLModel(str(package), skip_model_load=True)
    spec = model.get_spec()
    assert ct.models.utils.load_spec(str(package)).WhichOneof("Type") == "mlProgram"
    program = load(spec, spec.specificationVersion, file_weights_dir=model.weights_dir)
    # coremltools infers all types and rejects a model if a declared type differs.
    ops = program.functions["main"].operations
    assert sum(op.op_type != "const" for op in ops) == 105
    weight = next(op.weight for op in ops if op.op_type == "conv").val
    np.testing.assert_array_equal(weight, _constant(container.read(package), "stem_weight").numpy())
