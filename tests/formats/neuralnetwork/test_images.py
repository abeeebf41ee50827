"""Image inputs and outputs of networks: colours, preprocessing, sizes."""

from __future__ import annotations

import numpy as np
import pytest
from coremltools.models.neural_network import NeuralNetworkBuilder, flexible_shape_utils
from coremltools.models.utils import convert_double_to_float_multiarray_type
from coremltools.proto import FeatureTypes_pb2
from PIL import Image

import coremlscope
from coremlscope.base.errors import InputError
from coremlscope.ops.lower import lower
from coremlscope.runtime.execution.binding import bind_model
from tests.support.networks import network, read

HEIGHT, WIDTH = 4, 5
PIXELS = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3)).astype(np.uint8)
GREY = PIXELS[..., 0]


def _doubled(color_space: str = "RGB", *, is_output: bool = False, planes: int = 3) -> NeuralNetworkBuilder:
    """Builds a network that doubles an image; the output is an array or an image."""
    builder = network({"x": (planes, HEIGHT, WIDTH)})
    builder.add_activation("twice", "LINEAR", "x", "y", [1.0 if is_output else 2.0, 0.0])
    description = builder.spec.description
    for feature in [*description.input, *description.output][: 2 if is_output else 1]:
        image = feature.type.imageType
        image.height, image.width = HEIGHT, WIDTH
        image.colorSpace = FeatureTypes_pb2.ImageFeatureType.ColorSpace.Value(color_space)
    convert_double_to_float_multiarray_type(builder.spec)
    return builder


@pytest.mark.parametrize(("color_space", "planes"), [("RGB", [0, 1, 2]), ("BGR", [2, 1, 0])])
@pytest.mark.parametrize("of_rank_4", [False, True])
def test_colour_channels_are_ordered(color_space: str, planes: list[int], of_rank_4: bool) -> None:
    builder = _doubled(color_space)
    builder.nn_spec.imageInputShapeMapping = int(of_rank_4)
    result = coremlscope.predict(read(builder), {"x": Image.fromarray(PIXELS)})["y"]
    expected = 2.0 * PIXELS.transpose(2, 0, 1)[planes]
    np.testing.assert_array_equal(result, expected[None] if of_rank_4 else expected)


@pytest.mark.parametrize(
    ("color_space", "values"), [("GRAYSCALE", GREY), ("GRAYSCALE_FLOAT16", GREY.astype(np.float32) / 8)]
)
def test_grey_images(color_space: str, values: np.ndarray) -> None:
    builder = _doubled(color_space, planes=1)
    result = coremlscope.predict(read(builder), {"x": Image.fromarray(values)})["y"]
    np.testing.assert_array_equal(result, 2.0 * values[None])


def test_grey_images_have_a_separate_bias() -> None:
    builder = _doubled("GRAYSCALE", planes=1)
    builder.set_pre_processing_parameters(image_input_names=["x"], gray_bias=-1.0, image_scale=2 / 255)
    result = coremlscope.predict(read(builder), {"x": Image.fromarray(GREY)})["y"]
    np.testing.assert_allclose(result, 2 * (GREY[None] / 127.5 - 1), rtol=1e-5, atol=1e-6)


def test_mean_image_is_subtracted() -> None:
    builder = _doubled()
    mean = np.random.default_rng(1).uniform(0, 255, (3, HEIGHT, WIDTH)).astype(np.float32)
    step = builder.nn_spec.preprocessing.add(featureName="x")
    step.meanImage.meanImage.extend(mean.reshape(-1))
    result = coremlscope.predict(read(builder), {"x": Image.fromarray(PIXELS)})["y"]
    np.testing.assert_allclose(result, 2 * (PIXELS.transpose(2, 0, 1) - mean), rtol=1e-5)


@pytest.mark.parametrize("color_space", ["RGB", "BGR"])
def test_colour_image_outputs(color_space: str) -> None:
    builder = _doubled(color_space, is_output=True)
    result = coremlscope.predict(read(builder), {"x": Image.fromarray(PIXELS)})["y"]
    assert result.mode == "RGBA"
    np.testing.assert_array_equal(np.asarray(result)[..., :3], PIXELS)


def test_grey_image_outputs() -> None:
    builder = _doubled("GRAYSCALE", is_output=True, planes=1)
    result = coremlscope.predict(read(builder), {"x": Image.fromarray(GREY)})["y"]
    assert result.mode == "L"
    np.testing.assert_array_equal(np.asarray(result), GREY)


def test_images_are_not_reshaped() -> None:
    nodes = lower(bind_model(read(_doubled(is_output=True)))).model.graph.node
    assert {node.op_type for node in nodes} <= {"Identity"}


def _picture(height: int, width: int) -> Image.Image:
    return Image.fromarray(np.arange(height * width * 3, dtype=np.uint8).reshape(height, width, 3))


def test_range_of_sizes() -> None:
    builder = _doubled()
    sizes = flexible_shape_utils.NeuralNetworkImageSizeRange((2, 10), (2, 20))
    flexible_shape_utils.update_image_size_range(builder.spec, "x", sizes)
    model = read(builder)
    for height, width in ((2, 20), (HEIGHT, WIDTH), (10, 3)):
        result = coremlscope.predict(model, {"x": _picture(height, width)})["y"]
        expected = 2.0 * np.asarray(_picture(height, width)).transpose(2, 0, 1)
        np.testing.assert_array_equal(result, expected)
    with pytest.raises(InputError, match="11"):
        coremlscope.predict(model, {"x": _picture(11, 5)})


def test_list_of_sizes() -> None:
    builder = _doubled()
    sizes = [flexible_shape_utils.NeuralNetworkImageSize(8, 6)]
    flexible_shape_utils.add_enumerated_image_sizes(builder.spec, "x", sizes)
    model = read(builder)
    assert coremlscope.predict(model, {"x": _picture(8, 6)})["y"].shape == (3, 8, 6)
    with pytest.raises(InputError, match="7×6"):
        coremlscope.predict(model, {"x": _picture(7, 6)})
