"""Convolutions and deconvolutions, compared with sums over windows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from coremltools.models.neural_network import NeuralNetworkBuilder

from tests.support.networks import Floats, layers_of, network, predict, random, read

X = random(4, 9, 10)


def _convolved(
    x: Floats,
    weight: Floats,
    *,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
    pads: tuple[tuple[int, int], ...] = ((0, 0), (0, 0)),
) -> Floats:
    """Convolves `x` of shape `[C, *spatial]` with `weight` of shape `[out, C / groups, *kernel]`."""
    padded = np.pad(x, ((0, 0), *pads))
    kernel = weight.shape[2:]
    counts = [
        (n - (k - 1) * dilation - 1) // stride + 1 for n, k in zip(padded.shape[1:], kernel, strict=True)
    ]
    result = np.zeros((weight.shape[0], *counts))
    for out, place in itertools.product(range(weight.shape[0]), np.ndindex(*counts)):
        first = out // (weight.shape[0] // groups) * weight.shape[1]
        steps = (
            slice(p * stride, p * stride + (k - 1) * dilation + 1, dilation)
            for p, k in zip(place, kernel, strict=True)
        )
        window = padded[(slice(first, first + weight.shape[1]), *steps)]
        result[(out, *place)] = (window * weight[out]).sum()
    return result.astype(np.float32)


def _spread(x: Floats, weight: Floats, *, stride: int, groups: int = 1, dilation: int = 1) -> Floats:
    """Computes a deconvolution without cropping; `weight` has shape `[C, out / groups, *kernel]`."""
    kernel, each = [(k - 1) * dilation + 1 for k in weight.shape[2:]], weight.shape[1]
    size = [(n - 1) * stride + k for n, k in zip(x.shape[1:], kernel, strict=True)]
    result = np.zeros((each * groups, *size), np.float32)
    for channel in range(x.shape[0]):
        first = channel // (x.shape[0] // groups) * each
        for place in np.ndindex(*x.shape[1:]):
            window = tuple(
                slice(p * stride, p * stride + k, dilation) for p, k in zip(place, kernel, strict=True)
            )
            result[(slice(first, first + each), *window)] += x[(channel, *place)] * weight[channel]
    return result


def _add(builder: NeuralNetworkBuilder, weight: Floats, **options: Any) -> None:
    """Adds a convolution with weights `[out, in, H, W]`, or a deconvolution with `[in, out, H, W]`."""
    bias = options.pop("b", None)
    stride = options.pop("stride", 1)
    groups = options.pop("groups", 1)
    is_deconv = options.get("is_deconv", False)
    builder.add_convolution(
        "conv",
        kernel_channels=weight.shape[0 if is_deconv else 1],
        output_channels=weight.shape[1] * groups if is_deconv else weight.shape[0],
        height=weight.shape[2],
        width=weight.shape[3],
        stride_height=stride,
        stride_width=stride,
        border_mode=options.pop("border_mode", "valid"),
        groups=groups,
        W=weight.transpose(2, 3, 0, 1) if is_deconv else weight.transpose(2, 3, 1, 0),
        b=bias,
        has_bias=bias is not None,
        input_name="x",
        output_name="y",
        **options,
    )


@pytest.mark.parametrize("exact", [False, True])
def test_strides_dilations_groups_padding_and_bias(exact: bool) -> None:
    weight, bias = random(6, 2, 3, 3, seed=1), random(6, seed=2)
    builder = network({"x": (1, *X.shape) if exact else X.shape}, exact=exact)
    _add(
        builder,
        weight,
        b=bias,
        groups=2,
        stride=2,
        dilation_factors=[2, 2],
        padding_top=1,
        padding_bottom=2,
        padding_left=3,
        padding_right=0,
    )
    result = predict(builder, x=X[None] if exact else X)
    expected = _convolved(X, weight, stride=2, dilation=2, groups=2, pads=((1, 2), (3, 0)))
    expected = expected + bias[:, None, None]
    np.testing.assert_allclose(result, expected[None] if exact else expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("mode", "pads"), [("BOTTOM_RIGHT_HEAVY", ((0, 1), (1, 2))), ("TOP_LEFT_HEAVY", ((1, 0), (2, 1)))]
)
def test_same_padding_is_asymmetric(mode: str, pads: tuple[tuple[int, int], ...]) -> None:
    # 4 windows of 3 with a stride of 2 need 1 more than 8 rows; 5 windows of 5 need 3 more than 10 columns.
    x, weight = X[:, :8], random(2, 4, 3, 5, seed=1)
    builder = network({"x": x.shape})
    _add(builder, weight, stride=2, border_mode="same", same_padding_asymmetry_mode=mode)
    expected = _convolved(x, weight, stride=2, pads=pads)
    np.testing.assert_allclose(predict(builder, x=x), expected, rtol=1e-4, atol=1e-4)


def test_weights_as_an_input() -> None:
    weight = random(5, 4, 3, 3, seed=1)
    builder = network({"x": (1, *X.shape), "w": weight.shape}, exact=True)
    builder.add_convolution(
        "conv", 4, 5, 3, 3, 1, 1, "valid", 1, None, None, False, input_name=["x", "w"], output_name="y"
    )
    expected = _convolved(X, weight)[None]
    np.testing.assert_allclose(predict(builder, x=X[None], w=weight), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("groups", [1, 2])
def test_deconvolution(groups: int) -> None:
    weight, bias = random(4, 3, 3, 4, seed=1), random(3 * groups, seed=2)
    builder = network({"x": X.shape})
    _add(
        builder,
        weight,
        b=bias,
        groups=groups,
        stride=2,
        is_deconv=True,
        padding_top=1,
        padding_bottom=0,
        padding_left=0,
        padding_right=2,
    )
    expected = _spread(X, weight, stride=2, groups=groups)[:, 1:, :-2] + bias[:, None, None]
    np.testing.assert_allclose(predict(builder, x=X), expected, rtol=1e-4, atol=1e-4)


def test_deconvolution_with_same_padding() -> None:
    weight = random(4, 3, 3, 3, seed=1)
    builder = network({"x": X.shape})
    _add(builder, weight, stride=2, is_deconv=True, border_mode="same")
    expected = _spread(X, weight, stride=2)[:, :18, :20]
    np.testing.assert_allclose(predict(builder, x=X), expected, rtol=1e-4, atol=1e-4)


def test_deconvolution_with_an_output_size() -> None:
    weight = random(4, 3, 3, 3, seed=1)
    builder = network({"x": X.shape})
    _add(builder, weight, stride=2, is_deconv=True, padding_top=1, padding_left=1, output_shape=(18, 20))
    expected = _spread(X, weight, stride=2)[:, 1:19, 1:21]
    np.testing.assert_allclose(predict(builder, x=X), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [None, (21, 23)])
def test_deconvolution_with_dilation(size: tuple[int, int] | None) -> None:
    weight = random(4, 3, 3, 3, seed=1)
    builder = network({"x": X.shape})
    pads = {f"padding_{side}": 1 for side in ("top", "bottom", "left", "right")}
    _add(builder, weight, stride=2, is_deconv=True, dilation_factors=[3, 3], output_shape=size, **pads)
    expected = _spread(X, weight, stride=2, dilation=3)[:, 1:-1, 1:-1]
    assert expected.shape == (3, 21, 23)
    np.testing.assert_allclose(predict(builder, x=X), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("padding_mode", ["custom", "valid", "same"])
def test_three_spatial_axes(padding_mode: str) -> None:
    x, weight, bias = random(4, 5, 6, 7), random(2, 2, 2, 3, 3, seed=1), random(2, seed=2)
    pads = {"custom": ((1, 0), (2, 1), (0, 1)), "same": ((0, 1), (1, 1), (1, 1))}.get(
        padding_mode, ((0, 0), (0, 0), (0, 0))
    )
    sides = ("front", "back", "top", "bottom", "left", "right")
    custom = {f"padding_{side}": pad for side, pad in zip(sides, sum(pads, ()), strict=True)}
    builder = network({"x": (1, *x.shape)}, exact=True)
    builder.add_convolution3d(
        "conv",
        input_channels=4,
        output_channels=2,
        depth=2,
        height=3,
        width=3,
        W=weight,
        b=bias,
        has_bias=True,
        groups=2,
        padding_mode=padding_mode,
        input_name="x",
        output_name="y",
        **(custom if padding_mode == "custom" else {}),
    )
    expected = _convolved(x, weight, groups=2, pads=pads) + bias[:, None, None, None]
    np.testing.assert_allclose(predict(builder, x=x[None])[0], expected, rtol=1e-4, atol=1e-4)


def test_deconvolution_over_three_axes() -> None:
    x, weight = random(2, 3, 4, 3), random(2, 3, 2, 3, 3, seed=1)
    builder = network({"x": (1, *x.shape)}, exact=True)
    builder.add_convolution3d(
        "conv",
        input_channels=2,
        output_channels=3,
        depth=2,
        height=3,
        width=3,
        W=weight.transpose(1, 0, 2, 3, 4),
        b=None,
        has_bias=False,
        is_deconv=True,
        stride_depth=2,
        stride_height=2,
        stride_width=2,
        input_name="x",
        output_name="y",
    )
    expected = _spread(x, weight, stride=2)[None]
    np.testing.assert_allclose(predict(builder, x=x[None]), expected, rtol=1e-4, atol=1e-4)


def test_folded_convolutions_are_adjacent() -> None:
    """There is one operation per layer, so that engines can fuse them."""
    builder = network({"x": X.shape})
    for index in range(2):
        source, middle, target = (("x", "a", "b"), ("b", "c", "y"))[index]
        builder.add_convolution(
            f"conv{index}",
            kernel_channels=4,
            output_channels=4,
            height=3,
            width=3,
            stride_height=1,
            stride_width=1,
            border_mode="same",
            groups=1,
            W=random(3, 3, 4, 4, seed=index),
            b=None,
            has_bias=False,
            input_name=source,
            output_name=middle,
        )
        builder.add_activation(f"relu{index}", "RELU", middle, target)
    model = read(builder)
    types = [op.type for op in layers_of(model)]
    # The first operation adds the batch axis, and the last one removes it.
    assert types == ["reshape", "conv", "relu", "conv", "relu", "reshape"]
