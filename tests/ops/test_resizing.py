from __future__ import annotations

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.ops.lower import lower
from tests.support.op_cases import check, works
from tests.support.programs import bind_main, build

RNG = np.random.default_rng(11)
X = RNG.normal(size=(2, 3, 4, 5)).astype(np.float32)
MODES = ["DEFAULT", "STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "UNALIGN_CORNERS", "OFFSET_CORNERS"]


def points(mode, length, count):
    """The formulas of the documentation of resize_bilinear, written down as they stand there."""
    i = np.arange(count)
    if mode == "ALIGN_CORNERS" and count == 1:
        return np.array([(length - 1) / 2])
    if mode == "DEFAULT":
        spacing = (length - length / count) / (count - 1) if count > 1 else 0
        return np.minimum(length - 1, np.maximum(0, i * spacing))
    if mode.endswith("ALIGN_CORNERS") and mode != "UNALIGN_CORNERS":
        return np.minimum(length - 1, i * ((length - 1) / (count - 1) if count > 1 else 0))
    if mode == "OFFSET_CORNERS":
        delta = max(1, length - 1) / count
        return np.minimum(length - 1, np.maximum(0, 0.5 * delta + i * delta))
    spacing = length / count
    return np.minimum(length - 1, np.maximum(0, i * spacing + 0.5 * spacing - 0.5))


def interpolated(x, mode, *counts):
    """`x` with its last axes resized, one after the other."""
    for axis, count in zip(range(x.ndim - len(counts), x.ndim), counts, strict=True):
        at = points(mode, x.shape[axis], count)
        low = np.floor(at).astype(int)
        high = np.minimum(low + 1, x.shape[axis] - 1)
        share = (at - low).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        x = np.take(x, low, axis) * (1 - share) + np.take(x, high, axis) * share
    return x


def nearest(x, *counts):
    for axis, count in zip(range(x.ndim - len(counts), x.ndim), counts, strict=True):
        x = np.take(x, np.arange(count) * x.shape[axis] // count, axis)
    return x


@pytest.mark.parametrize("mode", MODES)
def test_resize_bilinear(mode):
    cases = {
        f"{height} {width}": (
            lambda x, height=height, width=width: mb.resize_bilinear(
                x=x, target_size_height=height, target_size_width=width, sampling_mode=mode
            ),
            interpolated(X, mode, height, width),
        )
        for height, width in [(8, 10), (7, 3), (1, 9), (2, 1), (4, 5)]
    }
    for shape in [(6, 4, 5), (1, 2, 3, 4, 5)]:
        cases[f"rank {len(shape)}"] = (
            lambda x, shape=shape: mb.resize_bilinear(
                x=mb.reshape(x=x, shape=shape), target_size_height=6, target_size_width=7, sampling_mode=mode
            ),
            interpolated(X.reshape(shape), mode, 6, 7),
        )
    check(cases, {"x": X})


def test_upsample_bilinear():
    cases = {
        "aligned": (
            lambda x: mb.upsample_bilinear(
                x=x, scale_factor_height=2, scale_factor_width=3, align_corners=True
            ),
            interpolated(X, "STRICT_ALIGN_CORNERS", 8, 15),
        ),
        "default": (
            lambda x: mb.upsample_bilinear(x=x, scale_factor_height=2),
            interpolated(X, "STRICT_ALIGN_CORNERS", 8, 5),
        ),
        "half pixels": (
            lambda x: mb.upsample_bilinear(
                x=x, scale_factor_height=1.6, scale_factor_width=0.7, align_corners=False
            ),
            interpolated(X, "UNALIGN_CORNERS", 6, 3),
        ),
        "neither": (
            lambda x: mb.upsample_bilinear(
                x=x,
                scale_factor_height=2,
                scale_factor_width=2,
                align_corners=False,
                half_pixel_centers=False,
            ),
            interpolated(X, "DEFAULT", 8, 10),
        ),
    }
    check(cases, {"x": X})


def test_nearest_neighbor():
    cases = {
        "doubled": (
            lambda x: mb.upsample_nearest_neighbor(x=x, scale_factor_height=2, scale_factor_width=3),
            nearest(X, 8, 15),
        ),
        "fractions": (
            lambda x: mb.upsample_nearest_neighbor(x=x, scale_factor_height=3.17, scale_factor_width=0.67),
            nearest(X, 12, 3),
        ),
        "rank 3": (
            lambda x: mb.upsample_nearest_neighbor(
                x=mb.reshape(x=x, shape=(6, 4, 5)), scale_factor_height=2, scale_factor_width=2
            ),
            nearest(X.reshape(6, 4, 5), 8, 10),
        ),
        "rank 5": (
            lambda x: mb.upsample_nearest_neighbor(
                x=mb.expand_dims(x=x, axes=[0]), scale_factor_height=2, scale_factor_width=1
            ),
            nearest(X[None], 8, 5),
        ),
        "target": (
            lambda x: mb.resize_nearest_neighbor(x=x, target_size_height=7, target_size_width=10),
            nearest(X, 7, 10),
        ),
        "smaller": (
            lambda x: mb.resize_nearest_neighbor(x=x, target_size_height=3, target_size_width=2),
            nearest(X, 3, 2),
        ),
    }
    check(cases, {"x": X})


@pytest.mark.parametrize("length", [3, 6, 7, 10, 49])
def test_nearest_neighbor_takes_exactly_every_so_many_th(length):
    x = np.arange(2 * length * 3, dtype=np.float32).reshape(1, 1, 1, -1)
    cases = {
        "smaller": (
            lambda x: mb.resize_nearest_neighbor(x=x, target_size_height=1, target_size_width=length),
            x[..., ::6],
        )
    }
    check(cases, {"x": x})


@pytest.mark.parametrize("mode", MODES)
def test_resize(mode):
    def resize(x, shape, dims, interpolation="LINEAR"):
        return mb.resize(
            x=x,
            shape=shape,
            resized_dims=np.uint32(dims),
            interpolation_mode=interpolation,
            sampling_mode=mode,
        )

    def closest(x, *counts):
        for axis, count in zip(range(x.ndim - len(counts), x.ndim), counts, strict=True):
            at = points(mode, x.shape[axis], count)
            chosen = np.ceil(at - 0.5) if mode == "DEFAULT" else np.floor(np.round(at, 9) + 0.5)
            x = np.take(x, chosen.astype(int), axis)
        return x

    cases = {
        "two": (lambda x: resize(x, [1, 6, 8], 2), interpolated(X, mode, 6, 8)),
        "inherited": (lambda x: resize(x, [9, 0, 8], 2), interpolated(X, mode, 4, 8)),
        "one": (lambda x: resize(x, [7], 1), interpolated(X, mode, 7)),
        "three": (lambda x: resize(x, [5, 3, 7], 3), interpolated(X, mode, 5, 3, 7)),
        "nearest": (lambda x: resize(x, [7, 3], 2, "NEAREST_NEIGHBOR"), closest(X, 7, 3)),
        "nearest integers": (
            lambda x: resize(mb.cast(x=x, dtype="int32"), [8, 10], 2, "NEAREST_NEIGHBOR"),
            closest(X.astype(np.int32), 8, 10),
        ),
    }
    check(cases, {"x": X}, target=ct.target.iOS17)


@pytest.mark.parametrize("mode", MODES[:4])
def test_resize_to_lengths_that_come_at_run_time(mode):
    cases = {
        "linear": (
            lambda x, shape: mb.resize(x=x, shape=shape, resized_dims=np.uint32(2), sampling_mode=mode),
            interpolated(X, mode, 4, 9),
        )
    }
    if mode == "DEFAULT":
        cases["nearest"] = (
            lambda x, shape: mb.resize(
                x=x, shape=shape, resized_dims=np.uint32(2), interpolation_mode="NEAREST_NEIGHBOR"
            ),
            X[..., [0, 1, 1, 2, 2, 3, 3, 4, 4]],
        )
    check(cases, {"x": X, "shape": np.array([3, 0, 9], np.int32)}, target=ct.target.iOS17)


def test_crop():
    cases = {
        "both": (lambda x: mb.crop(x=x, crop_height=[1, 1], crop_width=[0, 2]), X[:, :, 1:-1, :-2]),
        "rank 3": (
            lambda x: mb.crop(x=mb.reshape(x=x, shape=(6, 4, 5)), crop_height=[0, 0], crop_width=[2, 0]),
            X.reshape(6, 4, 5)[:, :, 2:],
        ),
    }
    check(cases, {"x": X})


def test_work():
    done = works(lambda x: mb.resize_bilinear(x=x, target_size_height=8, target_size_width=10), {"x": X})
    # Four multiply-adds for each of 480 elements.
    assert done["resize_bilinear"].flops == 480 * 8
    assert done["resize_bilinear"].written_bytes == 480 * 4


def test_the_same_size_needs_nothing():
    def body(x):
        resized = mb.resize_bilinear(
            x=x, target_size_height=3, target_size_width=4, sampling_mode="STRICT_ALIGN_CORNERS"
        )
        return mb.relu(x=resized)

    x = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
    assert [node.op_type for node in lower(bind_main(build(body, {"x": x}))).model.graph.node] == ["Relu"]
