from __future__ import annotations

import csv
import json
from pathlib import Path

import msgspec.structs
import numpy as np
import pytest

from coremlscope.base.errors import InputError, UsageError
from coremlscope.describe.model import describe_model
from coremlscope.formats import container
from coremlscope.formats.platforms import describe_opset, describe_platforms
from coremlscope.formats.sample import sample_model
from coremlscope.model import ir
from coremlscope.results.encoding import decode
from coremlscope.results.model import ModelSummary
from tests.support.graphs import op, tensor, value
from tests.support.ir_models import array_feature, model


@pytest.fixture(scope="module")
def sample() -> ModelSummary:
    return describe_model(sample_model(size=64, classes=10), list_ops=True)


def test_sample(sample: ModelSummary) -> None:
    assert (sample.kind, sample.spec_version, sample.platforms) == (
        "mlProgram",
        7,
        "iOS 16, macOS 13, watchOS 9, tvOS 16",
    )
    assert (sample.main.opset, sample.main.opset_os) == ("CoreML6", "iOS 16")
    assert (sample.main.predicted_feature, sample.main.predicted_probabilities) == (
        "classLabel",
        "classLabel_probs",
    )
    assert sample.main.ops["conv"] == 52
    assert "const" not in sample.main.ops
    assert [(f.name, f.type, f.shape) for f in sample.main.inputs] == [
        ("image", "image RGB 64×64", (1, 3, 64, 64))
    ]
    assert sample.labels is not None
    assert (sample.labels.count, sample.labels.first[:2]) == (10, ("class 0", "class 1"))
    assert sample.author == "coremlscope"


def test_parameters_of_the_sample(sample: ModelSummary) -> None:
    # torchvision's MobileNetV2 with ten classes: 2 236 682 parameters, of which 34 112 scales and shifts of
    # batch normalisation become 17 056 biases here; and three numbers of the image's preprocessing.
    assert sample.parameters == 2_236_682 - 34_112 + 17_056 + 3
    assert sample.weights_bytes == 2 * (sample.parameters - 3) + 4 * 3
    assert [(g.storage, g.dtype) for g in sample.weights] == [("fp16", "fp16"), ("fp32", "fp32")]


def test_work_follows_the_shape() -> None:
    small, large = (describe_model(sample_model(size=size, classes=10)).main.work for size in (64, 128))
    assert small is not None
    assert large is not None
    # Nearly all of it is convolution, whose work grows with the area.
    assert 3.8 < large.flops / small.flops < 4.0
    # 300 M multiply-adds at 224 × 224 (the paper's figure), a multiply-add counted as two.
    assert small.flops == pytest.approx(2 * 300e6 * (64 / 224) ** 2, rel=0.05)


def test_operations(sample: ModelSummary) -> None:
    first = next(op for op in sample.ops if op.type == "conv")
    assert first.outputs == ("tensor<fp16, [1, 32, 32, 32]>",)
    assert first.flops == 2 * 3 * 9 * 32 * 32 * 32 + 32 * 32 * 32
    assert len(sample.ops) == sum(sample.main.ops.values())
    assert len({op.id for op in sample.ops}) == len(sample.ops)


def test_json_and_back(sample: ModelSummary) -> None:
    data = json.loads(json.dumps(sample.to_json()))
    assert (data["schema"], data["parameters"]) == ("coremlscope.model/2", sample.parameters)
    assert decode(data, ModelSummary) == sample
    with pytest.raises(UsageError, match="damaged"):
        decode({**data, "functions": 3}, ModelSummary)


def relu_model(*names: str) -> ir.Model:
    """A model with one function a name, a relu of a flexible input, then an unknown operation."""
    functions, interfaces = {}, {}
    for name in names:
        x = ir.Value("x", ir.TensorType(ir.DType.FP32, (1, None)))
        y, z = (ir.Value(n, x.type) for n in "yz")
        ops = (
            ir.Op(id=f"{name}/0", type="relu", inputs={"x": (x,)}, outputs=(y,)),
            ir.Op(id=f"{name}/1", type="mystery", inputs={"x": (y,)}, outputs=(z,)),
        )
        functions[name] = ir.Function(
            name=name, opset="CoreML5", graph=ir.Graph(name=name, inputs=(x,), ops=ops, outputs=(z,))
        )
        bounds = ir.RangeShapes(((1, 1), (2, 9)))
        interfaces[name] = ir.FunctionDescription(
            inputs=(
                ir.Feature(
                    "x",
                    ir.ArrayFeature(dtype=ir.DType.FP32, shape=(1, 4), flexibility=bounds),
                    is_optional=True,
                ),
            ),
            outputs=(ir.Feature("z", ir.ArrayFeature(dtype=ir.DType.FP32, shape=())),),
        )
    return ir.Model(
        spec_version=9,
        description=ir.Description(interfaces, names[-1]),
        content=ir.Program(functions=functions),
    )


def test_flexible_shapes_and_unknown_operations() -> None:
    main = describe_model(relu_model("main")).main
    assert (main.inputs[0].flexibility, main.inputs[0].is_optional) == ("1×(2…9)", True)
    assert main.work is not None
    assert (main.work.flops, main.work.is_complete, main.work.unknown_ops) == (4, False, {"mystery": 1})
    asked = describe_model(relu_model("main"), {"x": (1, 8)}, list_ops=True)
    assert asked.main.work is not None
    assert asked.main.work.flops == 8
    assert [(op.outputs, op.flops) for op in asked.ops] == [
        (("tensor<fp32, [1, 8]>",), 8),
        (("tensor<fp32, [1, ?]>",), None),
    ]
    with pytest.raises(InputError, match="does not allow the shape 1×10"):
        describe_model(relu_model("main"), {"x": (1, 10)})


def test_several_functions() -> None:
    summary = describe_model(relu_model("one", "two"))
    assert [function.name for function in summary.functions] == ["two", "one"]
    assert describe_model(relu_model("one", "two"), function="one").main.name == "one"
    with pytest.raises(UsageError, match="unknown function 'three'"):
        describe_model(relu_model("one", "two"), function="three")


def test_other_kinds_show_everything_above_the_content() -> None:
    interface = ir.FunctionDescription(
        inputs=(ir.Feature("n", ir.Int64Feature()),), outputs=(ir.Feature("s", ir.StringFeature()),)
    )
    described = ir.Description({"main": interface}, "main")
    stages = tuple(
        ir.Model(spec_version=3, description=described, content=ir.Opaque(kind))
        for kind in ("neuralNetwork", "glmClassifier")
    )
    model = ir.Model(
        spec_version=3,
        description=described,
        content=ir.Pipeline("pipeline", ("first", ""), stages),
        metadata=ir.Metadata(
            description="about", version="2", author="me", licence="MIT", user_defined={"key": "value"}
        ),
        is_updatable=True,
    )
    summary = describe_model(model)
    assert [(stage.name, stage.kind) for stage in summary.stages] == [
        ("first", "neuralNetwork"),
        ("model1", "glmClassifier"),
    ]
    assert summary.main.work is not None
    assert not summary.main.work.is_complete
    assert (summary.parameters, summary.labels) == (0, None)
    assert (summary.licence, summary.user_defined, summary.is_updatable) == ("MIT", {"key": "value"}, True)
    assert decode(json.loads(json.dumps(summary.to_json())), ModelSummary) == summary
    with pytest.raises(UsageError, match="unknown function 'other'"):
        describe_model(model, function="other")
    with pytest.raises(InputError, match="'n' has no shape"):
        describe_model(model, {"n": (1,)})


def test_absent_weights_are_named() -> None:
    model = msgspec.structs.replace(
        relu_model("main"), weight_files=(ir.WeightFile("a.bin", None), ir.WeightFile("b", 3))
    )
    assert describe_model(model).missing_weights == ("a.bin",)


def test_integer_labels_in_a_tensor() -> None:
    scores = ir.Value("scores", ir.TensorType(ir.DType.FP32, (1, 3)))
    label = ir.Value("label", ir.TensorType(ir.DType.INT64, ()))
    op = ir.Op(
        id="main/0",
        type="classify",
        inputs={"probabilities": (scores,), "classes": (ir.constant(np.int64([5, 6, 7])),)},
        outputs=(label,),
    )
    function = ir.Function(
        name="main",
        opset="CoreML5",
        graph=ir.Graph(name="main", inputs=(scores,), ops=(op,), outputs=(label,)),
    )
    interface = ir.FunctionDescription(
        inputs=(ir.Feature("scores", ir.ArrayFeature(dtype=ir.DType.FP32, shape=(1, 3))),),
        outputs=(ir.Feature("label", ir.Int64Feature()),),
    )
    model = ir.Model(
        spec_version=6,
        description=ir.Description({"main": interface}, "main"),
        content=ir.Program(functions={"main": function}),
    )
    labels = describe_model(model).labels
    assert labels is not None
    assert labels.first == (5, 6, 7)


def test_platforms() -> None:
    assert describe_platforms(1) == "iOS 11, macOS 10.13, watchOS 4, tvOS 11"
    assert describe_platforms(10).startswith("iOS 26, macOS 26")
    assert describe_platforms(99) == "newer systems than are known here (version 10)"
    assert (describe_opset("CoreML7"), describe_opset("CoreML99")) == ("iOS 17", "")


@pytest.mark.corpus
def test_histograms_of_real_models(corpus: Path) -> None:
    checked = 0
    with (corpus / "index.csv").open() as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if row["model_type"] == "mlProgram" and row["container"] == "mlpackage"
        ]
    for row in rows:
        summary = describe_model(container.read(corpus / row["path"]))
        counts: dict[str, int] = {}
        for function in summary.functions:
            for name, number in {**function.ops, "const": function.constants}.items():
                counts[name] = counts.get(name, 0) + number
        words = (
            word.rsplit(":", 1) for word in row["layers_or_ops"].split() if ":" in word and "#" not in word
        )
        expected = {name: int(number) for name, number in words if number.isdigit()}
        assert {name: counts.get(name) for name in expected} == expected, row["path"]
        checked += 1
    assert checked >= 20


def test_contradictory_operations_are_shown_without_work() -> None:
    x, y, z = (ir.Value(name, ir.TensorType(ir.DType.FP32, (2, 3))) for name in "xyz")
    ops = (
        ir.Op(id="main/0", type="linear", inputs={"x": (x,)}, outputs=(y,)),  # without a weight
        ir.Op(id="main/1", type="cond", inputs={"pred": (y,)}, outputs=(z,)),  # without branches
    )
    features = ([array_feature("x", (2, 3))], [array_feature("z", (2, 3))])
    summary = describe_model(
        model(*features, {"main": ir.Graph(name="main", inputs=(x,), ops=ops, outputs=(z,))}), list_ops=True
    )
    assert [op.flops for op in summary.ops] == [None, None]
    assert summary.main.work is not None
    assert not summary.main.work.is_complete


def test_work_of_open_shapes_is_a_lower_bound() -> None:
    x, y, z = (
        ir.Value(name, ir.TensorType(ir.DType.FP32, shape))
        for name, shape in (("x", (2, 3)), ("y", (None, 2)), ("z", (2, 3)))
    )
    ops = (
        ir.Op(id="main/0", type="non_zero", inputs={"x": (x,)}, outputs=(y,)),
        ir.Op(id="main/1", type="relu", inputs={"x": (x,)}, outputs=(z,)),
    )
    features = ([array_feature("x", (2, 3))], [array_feature("z", (2, 3))])
    summary = describe_model(
        model(*features, {"main": ir.Graph(name="main", inputs=(x,), ops=ops, outputs=(z,))}), list_ops=True
    )
    assert [op.work_is_complete for op in summary.ops] == [False, True]


def _relu(flexibility: ir.ShapeFlexibility) -> ir.Model:
    x, y = (value(name, tensor(1, None, None)) for name in "xy")
    body = ir.Graph(name="main", inputs=(x,), ops=(op("relu", y, x=x),), outputs=(y,))
    return model(
        [array_feature("x", (1, 8, 8), flexibility=flexibility)], [array_feature("y", ())], {"main": body}
    )


@pytest.mark.parametrize(
    ("flexibility", "largest"),
    [
        (ir.EnumeratedShapes(((1, 8, 8), (1, 4, 4), (1, 32, 16))), (32, 16)),
        (ir.RangeShapes(((1, 1), (4, 16), (4, 64))), (16, 64)),
    ],
    ids=str,
)
def test_figures_of_flexible_sizes_name_them(
    flexibility: ir.ShapeFlexibility, largest: tuple[int, int]
) -> None:
    main, (height, width) = describe_model(_relu(flexibility)).main, largest
    assert main.work is not None
    assert main.largest_work is not None
    assert (main.work.sizes, main.largest_work.sizes) == ("x 1×8×8", f"x 1×{height}×{width}")
    assert main.largest_work.flops == main.work.flops * height * width // 64 > 0
    assert f"1×{height}×{width}" in main.outputs[0].flexibility
    asked = describe_model(_relu(flexibility), {"x": (1, 4, 4)}).main.work
    assert asked is not None
    assert asked.sizes == "x 1×4×4"


def test_unbounded_sizes_have_no_largest() -> None:
    main = describe_model(_relu(ir.RangeShapes(((1, 1), (4, 16), (4, -1))))).main
    assert main.work is not None
    assert (main.work.sizes, main.largest_work) == ("x 1×8×8", None)
