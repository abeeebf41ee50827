"""Resizing, cropping, padding and rearranging of images."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.networks import Floats, network, predict, random

X = random(2, 3, 4)


def _interpolated(x: Floats, points: tuple[Floats, Floats]) -> Floats:
    """Interpolates `x` linearly at the points of a grid."""
    for axis, along in zip((-2, -1), points, strict=True):
        length = x.shape[axis]
        clipped = np.clip(along, 0, length - 1)
        weights = np.maximum(0, 1 - np.abs(clipped[:, None] - np.arange(length)))
        x = np.moveaxis(np.moveaxis(x, axis, -1) @ weights.T, -1, axis)
    return x


@pytest.mark.parametrize("exact", [False, True])
def test_nearest_neighbour_upsampling(exact: bool) -> None:
    builder = network({"x": X.shape}, exact=exact)
    builder.add_upsample("up", 2, 3, "x", "y", "NN")
    np.testing.assert_array_equal(predict(builder, x=X), X.repeat(2, -2).repeat(3, -1))


@pytest.mark.parametrize("mode", ["DEFAULT", "ALIGN_CORNERS_TRUE", "ALIGN_CORNERS_FALSE"])
def test_linear_upsampling(mode: str) -> None:
    builder = network({"x": X.shape})
    builder.add_upsample("up", 2, 3, "x", "y", "BILINEAR", mode)

    def points(length: int, factor: int) -> Floats:
        steps = np.arange(length * factor)
        if mode == "ALIGN_CORNERS_TRUE":
            return steps * (length - 1) / (length * factor - 1)
        return (steps + 0.5) / factor - 0.5 if mode == "ALIGN_CORNERS_FALSE" else steps / factor

    expected = _interpolated(X, (points(3, 2), points(4, 3)))
    np.testing.assert_allclose(predict(builder, x=X), expected, rtol=1e-4, atol=1e-5)


def test_upsampling_by_a_fraction() -> None:
    builder = network({"x": X.shape})
    builder.add_upsample("up", 1.5, 2.5, "x", "y", "BILINEAR", "ALIGN_CORNERS_TRUE")
    expected = _interpolated(X, (np.linspace(0, 2, 4), np.linspace(0, 3, 10)))
    np.testing.assert_allclose(predict(builder, x=X), expected, rtol=1e-4, atol=1e-5)


def _line(mode: str, length: int, count: int) -> Floats:
    match mode:
        case "STRICT_ALIGN_ENDPOINTS_MODE":
            return np.linspace(0, length - 1, count)
        case "ALIGN_ENDPOINTS_MODE":
            return np.linspace(0, length - 1, count) if count > 1 else np.array([(length - 1) / 2])
        case "UPSAMPLE_MODE":
            return np.arange(count) * length / count
        case _:
            return (np.arange(count) + 0.5) * max(1, length - 1) / count


_MODES = ["STRICT_ALIGN_ENDPOINTS_MODE", "ALIGN_ENDPOINTS_MODE", "UPSAMPLE_MODE", "ROI_ALIGN_MODE"]


@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("size", [(5, 7), (1, 2)])
def test_resizing(mode: str, size: tuple[int, int]) -> None:
    builder = network({"x": X.shape})
    builder.add_resize_bilinear("resize", "x", "y", *size, mode=mode)
    expected = _interpolated(X, (_line(mode, 3, size[0]), _line(mode, 4, size[1])))
    np.testing.assert_allclose(predict(builder, x=X), expected, rtol=1e-4, atol=1e-5)


def _cropped(boxes: Floats, shape: tuple[int, ...], **options: object) -> Floats:
    x = random(1, 2, 3, 6, 8)
    builder = network({"x": x.shape, "boxes": shape}, exact=True)
    builder.add_crop_resize("crop", ["x", "boxes"], "y", 2, 3, **options)
    return np.asarray(predict(builder, x=x, boxes=boxes.reshape(shape)))


def test_boxes_are_cropped_from_every_image() -> None:
    boxes = np.array([[1, 2, 3, 6], [0, 0, 5, 7]], np.float32)
    result = _cropped(boxes, (2, 1, 4, 1, 1), mode="STRICT_ALIGN_ENDPOINTS_MODE")
    x = random(1, 2, 3, 6, 8)[0]
    expected = [
        _interpolated(x, (np.linspace(top, bottom, 2), np.linspace(left, right, 3)))
        for top, left, bottom, right in boxes
    ]
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_boxes_with_image_indices() -> None:
    """Boxes are centre and size, width first, relative to the image. Outside it, edge pixels repeat."""
    boxes = np.array([[1, 0.5, 0.5, 1.0, 1.0], [0, 1.0, 0.5, 1.0, 0.5]], np.float32)
    result = _cropped(
        boxes,
        (2, 1, 5, 1, 1),
        mode="STRICT_ALIGN_ENDPOINTS_MODE",
        normalized_roi=True,
        box_indices_mode="CENTER_SIZE_WIDTH_FIRST",
    )
    x = random(1, 2, 3, 6, 8)[0]
    expected = [
        _interpolated(x[1], (np.linspace(0, 5, 2), np.linspace(0, 7, 3))),
        _interpolated(x[0], (np.linspace(1.25, 3.75, 2), np.linspace(3.5, 10.5, 3))),
    ]
    np.testing.assert_allclose(result[:, 0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "mode"), [("constant", "constant"), ("reflection", "reflect"), ("replication", "edge")]
)
@pytest.mark.parametrize("exact", [False, True])
def test_padding(kind: str, mode: str, exact: bool) -> None:
    builder = network({"x": X.shape}, exact=exact)
    builder.add_padding("pad", 1, 2, 2, 0, value=-1.5, input_name="x", output_name="y", padding_type=kind)
    options = {"constant_values": -1.5} if mode == "constant" else {}
    expected = np.pad(X, ((0, 0), (2, 0), (1, 2)), mode, **options)
    np.testing.assert_array_equal(predict(builder, x=X), expected)


@pytest.mark.parametrize("given_by_input", [False, True])
@pytest.mark.parametrize("is_size", [False, True])
def test_padding_of_every_axis(given_by_input: bool, is_size: bool) -> None:
    pads = [(1, 0), (0, 2), (0, 0)]
    amounts = np.array([(3, 0), (0, 5), (0, 0)] if is_size else pads).reshape(-1)
    shapes = {"x": X.shape} | ({"pads": (6,)} if given_by_input else {})
    builder = network(shapes, exact=True)
    builder.add_constant_pad(
        "pad", list(shapes), "y", 7.0, is_size, [] if given_by_input else [int(a) for a in amounts]
    )
    values = {"x": X} | ({"pads": amounts.astype(np.float32)} if given_by_input else {})
    np.testing.assert_array_equal(predict(builder, **values), np.pad(X, pads, constant_values=7))


def test_cropping_by_amounts_and_to_the_size_of_another_input() -> None:
    builder = network({"x": X.shape, "z": (2, 2, 1)}, outputs=("y", "like"))
    builder.add_crop("crop", 1, 2, 0, 1, 0, ["x"], "y")
    builder.add_crop("like", 0, 0, 0, 0, [1, 2], ["x", "z"], "like")
    results = predict(builder, x=X, z=np.zeros((2, 2, 1)))
    np.testing.assert_array_equal(results["y"], X[:, :2, 1:2])
    np.testing.assert_array_equal(results["like"], X[:, 1:3, 2:3])


@pytest.mark.parametrize("mode", ["SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "PIXEL_SHUFFLE"])
@pytest.mark.parametrize("exact", [False, True])
def test_space_and_depth_rearrangement(mode: str, exact: bool) -> None:
    x = random(8, 2, 4)
    builder = network({"x": x.shape}, exact=exact)
    builder.add_reorganize_data("move", "x", "y", mode, 2)
    match mode:
        case "SPACE_TO_DEPTH":
            expected = x.reshape(8, 1, 2, 2, 2).transpose(2, 4, 0, 1, 3).reshape(32, 1, 2)
        case "DEPTH_TO_SPACE":
            expected = x.reshape(2, 2, 2, 2, 4).transpose(2, 3, 0, 4, 1).reshape(2, 4, 8)
        case _:
            expected = x.reshape(2, 2, 2, 2, 4).transpose(0, 3, 1, 4, 2).reshape(2, 4, 8)
    np.testing.assert_array_equal(predict(builder, x=x), expected)
