"""Advice on operations that the Neural Engine does not run suits their form."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from coremlscope.devices import find_device
from coremlscope.model import ir
from coremlscope.model.ir import DType, FeatureType
from coremlscope.ops.view import OpView
from coremlscope.planning.patterns.rule import (
    Example,
    ProgramFacts,
    Result,
    example_view,
    fp16,
    fp32,
    int32,
    weight,
)
from coremlscope.planning.placement.coreml_view import CoreMLGraph, Node
from coremlscope.planning.placement.eligibility import judge

ARRAY = ir.ArrayFeature(dtype=DType.FP32, shape=(1, 3, 8, 8))


def image(color_space: str) -> FeatureType:
    return ir.ImageFeature(color_space=color_space, width=8, height=8)


def fixes(
    *views: OpView,
    rule: str,
    inputs: FeatureType | None = None,
    outputs: dict[str, FeatureType] | None = None,
    chip: str = "m1",
    os: str = "14.5",
) -> list[str]:
    """The advice of a rule on the operations to which it applies; the model's inputs are of one type."""
    names = {
        a.name
        for view in views
        for given in view.op.inputs.values()
        for a in given
        if isinstance(a, ir.Value)
    }
    facts = ProgramFacts(inputs=dict.fromkeys(names, inputs) if inputs else {}, outputs=outputs or {})
    graph = CoreMLGraph("main", tuple(map(Node, views)))
    verdicts = judge(graph, find_device(chip, os), facts)
    found = (reason for view in views for reason in verdicts[view.op.id]["neural_engine"].reasons)
    return [reason.fix for reason in found if reason.rule == rule]


CAST = Example("cast", {"x": fp32(1, 3, 8, 8), "dtype": "fp16"})
BACK = Example("cast", {"x": fp16(1, 3, 8, 8), "dtype": "fp32"})


@pytest.mark.parametrize(
    ("feature", "advice"),
    [
        (ARRAY, "declare the input as np.float16"),
        (image("RGB"), "color images are float32 in programs, and cannot be declared otherwise"),
        (image("GRAYSCALE"), "declare the image as ct.colorlayout.GRAYSCALE_FLOAT16"),
        (image("GRAYSCALE_FLOAT16"), "use float16 in the program as well"),
    ],
)
def test_an_input_in_single_precision(feature: FeatureType, advice: str) -> None:
    (fix,) = fixes(example_view(CAST), rule="ne-fp32-input", inputs=feature)
    assert fix.startswith(advice)
    buffer = Example("tensor_buffer_to_tensor", {"input": fp32(1, 3, 8, 8)}, outputs=(fp32(1, 3, 8, 8),))
    (fix,) = fixes(example_view(buffer), rule="ne-fp32-buffer", inputs=feature)
    assert fix.startswith(advice)


@pytest.mark.parametrize(
    ("feature", "advice"),
    [(ARRAY, "declare the output as np.float16"), (image("BGR"), "color images are float32")],
)
def test_an_output_in_single_precision(feature: FeatureType, advice: str) -> None:
    (fix,) = fixes(example_view(BACK), rule="ne-fp32-result", outputs={"main/0:0": feature})
    assert fix.startswith(advice)


def test_casts_and_operations_inside_a_program() -> None:
    relu = example_view(Example("relu", {"x": fp32(1, 3, 8, 8)}))
    assert fixes(relu, rule="ne-fp32-result") == ["convert with compute_precision=ct.precision.FLOAT16"]
    cast = example_view(replace(CAST, arguments={**CAST.arguments, "x": Result(0)}), "main/1", [relu])
    (fix,) = fixes(relu, cast, rule="ne-fp32-input", inputs=ARRAY)
    assert fix.startswith("let the operations around this cast compute in float16")


def test_the_scale_of_an_image_is_folded() -> None:
    scaled = example_view(Example("mul", {"x": fp32(1, 3, 8, 8), "y": 0.5}))
    named = replace(scaled.op.outputs[0], name="image__scaled__")
    view = OpView(
        op=replace(scaled.op, outputs=(named,)),
        inputs=scaled.inputs,
        opset=8,
        blocks=(),
        outputs=scaled.outputs,
    )
    (fix,) = fixes(view, rule="ne-fp32-result", inputs=image("RGB"))
    assert fix.startswith("fold the scale and bias of ct.ImageType")


def test_integers_at_the_edges() -> None:
    taken = example_view(Example("cast", {"x": int32(1, 8), "dtype": "fp16"}))
    (fix,) = fixes(taken, rule="ne-int32", inputs=ARRAY)
    assert fix.startswith("declare the input as np.float16, which is exact up to 2048")
    returned = example_view(Example("cast", {"x": fp16(1, 8), "dtype": "int32"}))
    (fix,) = fixes(returned, rule="ne-int32", outputs={"main/0:0": ARRAY})
    assert fix.startswith("return it as np.float16")
    (fix,) = fixes(returned, rule="ne-int32")
    assert fix.startswith("keep masks and positions in float16")


@pytest.mark.parametrize(
    ("shape", "kernel", "strides", "advice"),
    [
        (
            (1, 3, 224, 224),
            (32, 32),
            [32, 32],
            "the windows of this convolution do not overlap",
        ),
        ((1, 1, 16000), (400,), [160], "a filter this long, as of an STFT"),
        ((1, 8, 20, 20), (20, 20), [1, 1], "this convolution covers its whole input"),
        ((1, 8, 64, 64), (17, 17), [1, 1], "replace it by two smaller kernels"),
        (
            (1, 8, 64),
            (25,),
            [1],
            "replace it by two smaller kernels (k1 + k2 - 1 = the old size) and train again, or",
        ),
        ((1, 8, 64, 64), (3, 39), [1, 1], "cut the kernel along its long side"),
        ((1, 8, 64, 64), (1, 31), [1, 1], "lay the long axis along the height"),
    ],
)
def test_kernels(shape: tuple[int, ...], kernel: tuple[int, ...], strides: list[int], advice: str) -> None:
    conv = Example("conv", {"x": fp16(*shape), "weight": weight(8, shape[1], *kernel), "strides": strides})
    (fix,) = fixes(example_view(conv), rule="ne-conv-width", chip="m4", os="26")
    assert fix.startswith(advice)


def test_the_largest_score_is_taken_in_the_app() -> None:
    found = example_view(Example("reduce_argmax", {"x": fp16(1, 64, 32), "axis": 1, "keep_dims": False}))
    cast = example_view(Example("cast", {"x": Result(0), "dtype": "fp16"}), "main/1", [found])
    assert fixes(found, cast, rule="ne-int32") == ["return the scores, and take the arg-max in the app"]


@pytest.mark.parametrize(
    ("example", "advice"),
    [
        (Example("softmax", {"x": fp16(1, 6, 1500, 1500), "axis": -1}), "split attention by heads"),
        (
            Example("max_pool", {"x": fp16(1, 64, 512, 512), "kernel_sizes": [3, 3], "pad_type": "same"}),
            "reduce the",
        ),
        (Example("relu", {"x": fp16(1, 64, 256, 256)}), "work in chunks"),
    ],
)
def test_large_operands(example: Example, advice: str) -> None:
    graph = CoreMLGraph("main", (Node(view := example_view(example)),))
    advised = judge(graph, find_device("m4"), ProgramFacts())[view.op.id]["neural_engine"].advice
    (fix,) = [one.fix for one in advised if one.rule == "ne-slow-large-operand"]
    assert fix.startswith(advice)
