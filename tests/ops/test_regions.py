from __future__ import annotations

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from tests.support.op_cases import check, works
from tests.support.programs import run

RNG = np.random.default_rng(13)
X = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
Y = RNG.normal(size=(3, 2, 6, 5)).astype(np.float32)
MODES = ["DEFAULT", "STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "UNALIGN_CORNERS", "OFFSET_CORNERS"]


def crop(x, roi, size, *, target=ct.target.iOS15, **given):
    """`crop_resize` with fixed boxes; what comes out as vectors."""
    given = {"target_height": size, "target_width": size, **given}
    key = "roi" if target < ct.target.iOS17 else "boxes"
    [result] = run(
        lambda x: mb.crop_resize(x=x, **{key: np.array(roi, np.float32)}, **given), {"x": x}, target=target
    )
    return result


def rois(*boxes):
    return np.array(boxes, np.float32).reshape(len(boxes), 1, -1, 1, 1)


@pytest.mark.parametrize(
    ("box", "size", "given", "expected"),
    [
        ([1, 1, 2, 2], 2, {}, [6, 7, 10, 11]),
        ([1, 1, 2, 2], 1, {}, [8.5]),
        ([2, 2, 1, 1], 2, {}, [11, 10, 7, 6]),
        ([0, 0, 0, 1 / 3, 1 / 3], 2, {"normalized_coordinates": True}, [1, 2, 5, 6]),
        # Columns 1 to 2, rows 2 to 3.
        (
            [2, 4, 4, 6],
            2,
            {"spatial_scale": 0.5, "box_coordinate_mode": "CORNERS_WIDTH_FIRST"},
            [10, 11, 14, 15],
        ),
        ([1.5, 1, 1, 2], 2, {"box_coordinate_mode": "CENTER_SIZE_HEIGHT_FIRST"}, [5, 7, 9, 11]),
        ([1, 1.5, 2, 1], 2, {"box_coordinate_mode": "CENTER_SIZE_WIDTH_FIRST"}, [5, 7, 9, 11]),
    ],
)
def test_boxes(box, size, given, expected):
    result = crop(X, rois(box), size, sampling_mode="ALIGN_CORNERS", **given)
    np.testing.assert_allclose(result.reshape(-1), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        # The box from 1 to 2 is two pixels long; samples of three lie at:
        ("DEFAULT", [1, 1 + 2 / 3, 1 + 4 / 3]),
        ("STRICT_ALIGN_CORNERS", [1, 1.5, 2]),
        ("ALIGN_CORNERS", [1, 1.5, 2]),
        ("UNALIGN_CORNERS", [1 + 1 / 3 - 0.5, 1 + 3 / 3 - 0.5, 1 + 5 / 3 - 0.5]),
        ("OFFSET_CORNERS", [1 + 1 / 6, 1 + 3 / 6, 1 + 5 / 6]),
    ],
)
@pytest.mark.parametrize("target", [ct.target.iOS16, ct.target.iOS17])
def test_sampling_modes(mode, expected, target):
    box = rois([1, 1, 2, 2]) if target is ct.target.iOS16 else [[1, 1, 2, 2]]
    result = crop(X, box, 3, sampling_mode=mode, target=target)
    at = np.array(expected)
    np.testing.assert_allclose(result.reshape(3, 3), 1 + 4 * at[:, None] + at, rtol=1e-5)


def test_half_pixels_outside_the_image_are_mirrored():
    given = {"normalized_coordinates": True, "sampling_mode": "UNALIGN_CORNERS"}
    result = crop(X, rois([2, 2, 1, 1]), 2, **given)
    np.testing.assert_allclose(result.reshape(-1), [3.5, 5.5, 11.5, 13.5], rtol=1e-5)


@pytest.mark.parametrize("target", [ct.target.iOS16, ct.target.iOS17])
def test_outside_the_image_is_the_padding_value(target):
    boxes = np.array([[0.1, 0.3, 1.3, 1], [0.5, 1.8, 1.0, 0.3], [0.0, 0.4, 0.6, 0.7]], np.float32)
    given = {"normalized_coordinates": True, "sampling_mode": "ALIGN_CORNERS", "pad_value": 10.0}
    if target is ct.target.iOS16:
        result = crop(X, rois(*np.insert(boxes, 0, 0, axis=1)), 2, target=target, **given)
    else:
        result = crop(X, boxes, 2, target=target, box_indices=np.zeros(3, np.int32), **given)
    expected = [3.1, 5.2, 10, 10, 10, 7.9, 10, 13.9, 2.2, 3.1, 9.4, 10.3]
    np.testing.assert_allclose(result.reshape(-1), expected, rtol=1e-5)


def test_boxes_of_many_images():
    whole = [0, 0, 5, 4]
    every = crop(Y, rois(whole, [1, 1, 1, 1]), 1, sampling_mode="STRICT_ALIGN_CORNERS")
    assert every.shape == (2, 3, 2, 1, 1)
    np.testing.assert_allclose(every[:, :, :, 0, 0], np.stack([Y[:, :, 0, 0], Y[:, :, 1, 1]]), rtol=1e-6)
    named = crop(Y, [whole, whole], 1, target=ct.target.iOS17, box_indices=[2, 0])
    np.testing.assert_allclose(named[..., 0, 0], Y[[2, 0], :, 0, 0], rtol=1e-6)
    own = crop(Y, [whole, whole], 1, target=ct.target.iOS17)
    np.testing.assert_allclose(own[..., 0, 0], Y[:2, :, 0, 0], rtol=1e-6)


def test_boxes_that_come_at_run_time():
    boxes = np.array([[1, 1, 2, 2], [0, 2, 3, 3]], np.float32)
    index = np.array([0, 0], np.int32)
    given = {"target_height": 2, "target_width": 2, "sampling_mode": "ALIGN_CORNERS"}
    cases = {
        "boxes": (
            lambda x, boxes, index: mb.crop_resize(x=x, boxes=boxes, box_indices=index, **given),
            np.array([[6, 7, 10, 11], [3, 4, 15, 16]], np.float32).reshape(2, 1, 2, 2),
        )
    }
    check(cases, {"x": X, "boxes": boxes, "index": index}, target=ct.target.iOS17)


SMALL = np.array([11, 22, 33, 44], np.float32).reshape(1, 1, 2, 2)
AT = np.array([-1.0, -2.0, -3.7, -1.0, 0.0, 0.0, 3.5, 1.2], np.float32).reshape(1, 2, 2, 2)


@pytest.mark.parametrize(
    ("sampling", "padding", "value", "coordinates", "aligned", "expected"),
    [
        ("bilinear", "constant", 6.17, "normalized_minus_one_to_one", True, [8.585, 6.17, 27.5, 6.17]),
        ("nearest", "border", -1.0, "unnormalized", False, [11, 11, 11, 44]),
        ("bilinear", "reflection", -1.0, "normalized_zero_to_one", True, [22, 36.3, 11, 34.1]),
        ("nearest", "symmetric", -1.0, "normalized_zero_to_one", False, [22, 33, 11, 33]),
    ],
)
def test_resample(sampling, padding, value, coordinates, aligned, expected):
    given = {
        "sampling_mode": sampling,
        "padding_mode": padding,
        "padding_value": value,
        "coordinates_mode": coordinates,
        "align_corners": aligned,
    }
    cases = {
        "floats": (
            lambda x, at: mb.resample(x=x, coordinates=at, **given),
            np.reshape(np.float32(expected), (1, 1, 2, 2)),
        )
    }
    check(cases, {"x": SMALL, "at": AT}, tolerance=1e-4)


@pytest.mark.parametrize(
    "coordinates", ["unnormalized", "normalized_minus_one_to_one", "normalized_zero_to_one"]
)
@pytest.mark.parametrize("aligned", [True, False])
def test_resample_at_the_pixels_themselves_changes_nothing(coordinates, aligned):
    height, width = Y.shape[2:]
    pixels = np.stack(np.meshgrid(np.arange(width), np.arange(height)), -1).astype(np.float32)
    size = np.array([width, height])
    zero_to_one = pixels / (size - 1) if aligned else (pixels + 0.5) / size
    at = {
        "unnormalized": pixels,
        "normalized_minus_one_to_one": 2 * zero_to_one - 1,
        "normalized_zero_to_one": zero_to_one,
    }[coordinates]
    at = np.repeat(at[None], 3, 0).astype(np.float32)
    cases = {
        f"{padding} {sampling}": (
            lambda x, at, padding=padding, sampling=sampling: mb.resample(
                x=x,
                coordinates=at,
                sampling_mode=sampling,
                padding_mode=padding,
                padding_value=0.0,
                coordinates_mode=coordinates,
                align_corners=aligned,
            ),
            Y,
        )
        for padding in ("constant", "border", "reflection", "symmetric")
        for sampling in ("bilinear", "nearest")
    }
    check(cases, {"x": Y, "at": at}, tolerance=1e-4)


def test_affine():
    given = {
        "sampling_mode": "bilinear",
        "padding_mode": "constant",
        "padding_value": 0.0,
        "coordinates_mode": "normalized_minus_one_to_one",
        "align_corners": True,
    }
    same, mirror, turn = [1, 0, 0, 0, 1, 0], [-1, 0, 0, 0, 1, 0], [0, 1, 0, 1, 0, 0]
    square = Y[:, :, :5]
    cases = {
        "mirrored": (
            lambda x, m: mb.affine(
                x=x, transform_matrix=np.array([mirror], np.float32), output_height=5, output_width=5, **given
            ),
            square[..., ::-1],
        ),
        "each its own": (
            lambda x, m: mb.affine(x=x, transform_matrix=m, output_height=5, output_width=5, **given),
            np.stack([square[0], square[1][..., ::-1], square[2].transpose(0, 2, 1)]),
        ),
        "every other": (
            lambda x, m: mb.affine(
                x=x, transform_matrix=np.array([same], np.float32), output_height=3, output_width=3, **given
            ),
            square[:, :, ::2, ::2],
        ),
    }
    matrices = np.array([same, mirror, turn], np.float32)
    check(cases, {"x": square, "m": matrices}, tolerance=1e-4)


def test_work():
    done = works(
        lambda x: mb.crop_resize(x=x, roi=rois([0, 0, 1, 1]), target_height=3, target_width=3), {"x": X}
    )
    assert done["crop_resize"].flops == 9 * 8
