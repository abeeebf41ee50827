from __future__ import annotations

import numpy as np
import pytest

from coremlscope.describe.preprocessing import Preprocessing, find_preprocessing
from coremlscope.model import ir


def find(
    space: str, *steps: tuple[str, object] | tuple[str, object, bool], branch: bool = False
) -> Preprocessing:
    """Returns the preprocessing found behind operations on an image: `(type, operand, operand is first)`."""
    planes = 1 if space.startswith("GRAY") else 3
    type_ = ir.TensorType(ir.DType.FP32, (1, planes, 4, 4))
    image = current = ir.Value("image", type_)
    ops = []
    for index, (kind, operand, *first) in enumerate(steps):
        result = ir.Value(f"v{index}", type_)
        constant = ir.constant(operand)
        inputs = {"x": (current,), "y": (constant,)} if not first else {"x": (constant,), "y": (current,)}
        ops.append(ir.Op(id=f"main/{index}", type=kind, inputs=inputs, outputs=(result,)))
        current = result
    if branch:
        ops.append(ir.Op(id="main/b", type="relu", inputs={"x": (image,)}, outputs=(ir.Value("b", type_),)))
    function = ir.Function(
        name="main",
        opset="CoreML5",
        graph=ir.Graph(name="main", inputs=(image,), ops=tuple(ops), outputs=(current,)),
    )
    interface = ir.FunctionDescription(
        inputs=(ir.Feature("image", ir.ImageFeature(space, 4, 4)),), outputs=()
    )
    (found,) = find_preprocessing(function, interface)
    return found


def channels(*values: float) -> np.ndarray:
    return np.float32(values).reshape(1, 3, 1, 1)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (find("RGB"), "pixels 0…255, unchanged"),
        (find("RGB", ("mul", 1 / 255)), "pixels × 0.00392: 0…255 becomes 0…1"),
        (find("RGB", ("real_div", 127.5), ("sub", 1.0)), "pixels × 0.00784 − 1: 0…255 becomes −1…1"),
        (find("GRAYSCALE", ("sub", 255.0, True)), "pixels × −1 + 255: 0…255 becomes 0…255"),
        (find("GRAYSCALE_FLOAT16"), "float16 pixels of any range, unchanged"),
        (find("GRAYSCALE_FLOAT16", ("mul", 2.0)), "float16 pixels of any range × 2"),
        (find("RGB", ("cast", "fp16"), ("mul", 2.0), ("cast", "fp32")), "pixels × 2: 0…255 becomes 0…510"),
        (
            find("RGB", ("mul", 0.01), ("add", channels(-1, -2, 1.5))),
            "R × 0.01 − 1, G × 0.01 − 2, B × 0.01 + 1.5: 0…255 becomes −2…4.05",
        ),
        (
            find("BGR", ("sub", channels(104, 117, 123))),
            "B − 104, G − 117, R − 123: 0…255 becomes −123…151",
        ),
    ],
)
def test_texts(found: Preprocessing, text: str) -> None:
    assert found.text == text


@pytest.mark.parametrize("space", ["RGB", "BGR"])
def test_imagenet(space: str) -> None:
    order = slice(None, None, 1 if space == "RGB" else -1)
    mean, std = (np.array(v)[order] for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    found = find(space, ("sub", channels(*(255 * mean))), ("real_div", channels(*(255 * std))))
    assert found.text.endswith("(ImageNet's mean and deviation)")
    assert "ImageNet" not in find(space, ("sub", channels(*(255 * mean[[1, 2, 0]])))).text


def test_where_it_ends() -> None:
    assert find("RGB", ("mul", 2.0), ("relu", 0.0), ("mul", 3.0)).ops == ("main/0",)
    # A constant along the width is no preprocessing, and neither is what other operations also read.
    assert find("RGB", ("mul", np.ones((1, 1, 1, 4), np.float32))).ops == ()
    assert find("RGB", ("mul", 2.0), branch=True).ops == ()
    assert find("RGB", ("real_div", 1.0, True)).ops == ()
    assert find("RGB", ("cast", "fp16"), ("relu", 0.0)).ops == ()
