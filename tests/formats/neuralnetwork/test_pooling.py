"""Pooling, compared with NumPy on each window."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.support.networks import Floats, network, predict, random

X = random(2, 6, 7)
_FUNCTIONS: dict[str, Callable[[Floats], float]] = {
    "MAX": lambda window: float(np.nanmax(window)),
    "AVERAGE": lambda window: float(np.nanmean(window)),
    "L2": lambda window: float(np.sqrt(np.nansum(window**2))),
}


def _pooled(
    x: Floats, kind: str, kernel: int, stride: int, pads: tuple[tuple[int, int], ...], fill: float = np.nan
) -> Floats:
    """Pools with padding by `fill`; NaN is ignored. Windows may extend beyond the end."""
    padded = np.pad(x, ((0, 0), *pads), constant_values=fill)
    counts = [-(-(n - kernel) // stride) + 1 for n in padded.shape[1:]]
    result = np.zeros((x.shape[0], *counts), np.float32)
    for place in np.ndindex(*counts):
        window = padded[(slice(None), *(slice(p * stride, p * stride + kernel) for p in place))]
        result[(slice(None), *place)] = [_FUNCTIONS[kind](channel) for channel in window]
    return result


def _predicted(
    x: Floats, kind: str, padding: str, stride: int = 1, *, exact: bool = False, **options: object
) -> Floats:
    builder = network({"x": x.shape}, exact=exact)
    builder.add_pooling("pool", 3, 3, stride, stride, kind, padding, "x", "y", **options)
    return np.asarray(predict(builder, x=x))


@pytest.mark.parametrize("kind", ["MAX", "AVERAGE", "L2"])
@pytest.mark.parametrize("exact", [False, True])
def test_windows_without_padding(kind: str, exact: bool) -> None:
    x = X[None] if exact else X
    expected = _pooled(X, kind, 3, 2, ((0, 0), (0, 0)))[:, :2]
    result = _predicted(x, kind, "VALID", 2, exact=exact)
    np.testing.assert_allclose(result[0] if exact else result, expected, rtol=1e-5)


@pytest.mark.parametrize(("excludes", "fill"), [(True, np.nan), (False, 0.0)])
def test_averages_include_or_exclude_padding(excludes: bool, fill: float) -> None:
    result = _predicted(
        X,
        "AVERAGE",
        "VALID",
        padding_top=1,
        padding_bottom=2,
        padding_left=2,
        padding_right=1,
        exclude_pad_area=excludes,
    )
    expected = _pooled(X, "AVERAGE", 3, 1, ((1, 2), (2, 1)), fill)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("mode", "pads"), [("BOTTOM_RIGHT_HEAVY", (0, 1)), ("TOP_LEFT_HEAVY", (1, 0))])
def test_same_padding(mode: str, pads: tuple[int, int]) -> None:
    result = _predicted(X[:, :, :6], "MAX", "SAME", 2, same_padding_asymmetry_mode=mode)
    np.testing.assert_allclose(result, _pooled(X[:, :, :6], "MAX", 3, 2, (pads, pads)), rtol=1e-6)


def test_include_last_pixel() -> None:
    """6 rows with a stride of 2 leave one row, which gets a window; no window starts in the padding."""
    result = _predicted(X, "MAX", "INCLUDE_LAST_PIXEL", 2)
    np.testing.assert_allclose(result, _pooled(X, "MAX", 3, 2, ((0, 0), (0, 0))), rtol=1e-6)
    padded = _predicted(
        X, "MAX", "INCLUDE_LAST_PIXEL", 2, padding_top=1, padding_bottom=1, padding_left=1, padding_right=1
    )
    assert padded.shape == (2, 4, 4)
    np.testing.assert_allclose(padded, _pooled(X, "MAX", 3, 2, ((1, 1), (1, 1))), rtol=1e-6)


@pytest.mark.parametrize("kind", ["MAX", "AVERAGE", "L2"])
def test_global_pooling(kind: str) -> None:
    expected = [[[_FUNCTIONS[kind](channel)]] for channel in X]
    result = _predicted(X, kind, "VALID", is_global=True)
    np.testing.assert_allclose(result.reshape(2, 1, 1), expected, rtol=1e-5)


@pytest.mark.parametrize("kind", ["MAX", "AVERAGE"])
def test_three_spatial_axes(kind: str) -> None:
    x = random(2, 4, 5, 6)
    builder = network({"x": (1, *x.shape)}, exact=True, outputs=("y", "whole"))
    builder.add_pooling3d(
        "pool",
        input_name="x",
        output_name="y",
        pooling_type=kind,
        kernel_depth=2,
        kernel_height=2,
        kernel_width=2,
        stride_depth=1,
        stride_height=1,
        stride_width=1,
        padding_mode="CUSTOM",
        custom_padding_front=1,
        custom_padding_back=0,
        custom_padding_top=0,
        custom_padding_bottom=1,
        custom_padding_left=1,
        custom_padding_right=1,
        average_pooling_count_excludes_padding=True,
    )
    builder.add_global_pooling3d("global", "x", "whole", kind)
    results = predict(builder, x=x[None])
    expected = _pooled(x, kind, 2, 1, ((1, 0), (0, 1), (1, 1)))
    np.testing.assert_allclose(results["y"][0], expected, rtol=1e-5, atol=1e-6)
    whole = [_FUNCTIONS[kind](channel) for channel in x]
    assert results["whole"].shape == (1, 2, 1, 1, 1)
    np.testing.assert_allclose(results["whole"].reshape(-1), whole, rtol=1e-5, atol=1e-6)
