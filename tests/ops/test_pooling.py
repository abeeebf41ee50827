from __future__ import annotations

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from tests.support.op_cases import check, works
from tests.support.programs import run
from tests.support.sliding_windows import counts_of, padded, windows

SIZES = (7, 6, 5)
KERNEL = (3, 2, 3)
STRIDES = (2, 2, 1)


def _pool(x, pads, kernel, strides, compute, filler=0.0, extra=None):
    """Pools whole windows; `extra`, NaN to the reduction, is what hangs over behind the padding."""
    x = padded(padded(x, pads, filler), extra or [(0, 0)] * len(kernel), np.nan)
    ones = [1] * len(kernel)
    counts = counts_of(x.shape[2:], kernel, strides, ones)
    result = np.zeros((*x.shape[:2], *counts))
    for place, window in windows(x, kernel, strides, ones, counts):
        result[(slice(None), slice(None), *place)] = compute(window.reshape(*x.shape[:2], -1), axis=-1)
    return result


def _l2(x, axis):
    return np.sqrt(np.nansum(x * x, axis=axis))


def _same(size, kernel, stride, lower):
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    less, more = total // 2, total - total // 2
    return (more, less) if lower else (less, more)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_poolings(rank):
    x = np.random.default_rng(3).standard_normal((2, 2, *SIZES[:rank])).astype(np.float32)
    kernel, strides = KERNEL[:rank], STRIDES[:rank]
    none, custom = [(0, 0)] * rank, [(1, 2), (0, 1), (1, 1)][:rank]
    placements = {"valid": none, "custom": custom}
    for name in ("same", "same_lower"):
        placements[name] = [
            _same(*each, name == "same_lower") for each in zip(SIZES, kernel, strides, strict=False)
        ]
    cases = {}
    for pad_type, pads in placements.items():
        given = {"kernel_sizes": kernel, "strides": strides, "pad_type": pad_type}
        if pad_type == "custom":
            given["pad"] = np.ravel(pads)
        excluding = given | {"exclude_padding_from_average": True}
        cases |= {
            f"avg {pad_type}": (
                lambda x, g=given: mb.avg_pool(x=x, **g),
                _pool(x, pads, kernel, strides, np.mean),
            ),
            f"avg {pad_type} excluding": (
                lambda x, g=excluding: mb.avg_pool(x=x, **g),
                _pool(x, pads, kernel, strides, np.nanmean, np.nan),
            ),
            f"max {pad_type}": (
                lambda x, g=given: mb.max_pool(x=x, **g),
                _pool(x, pads, kernel, strides, np.max, -np.inf),
            ),
        }
        if rank < 3:
            cases[f"l2 {pad_type}"] = (
                lambda x, g=given: mb.l2_pool(x=x, **g),
                _pool(x, pads, kernel, strides, _l2),
            )
    cases["defaults"] = (
        lambda x: mb.avg_pool(x=x, kernel_sizes=kernel, pad_type="valid"),
        _pool(x, none, kernel, [1] * rank, np.mean),
    )
    check(cases, {"x": x})


@pytest.mark.parametrize("pad", [0, 1])
def test_incomplete_windows(pad):
    # 6 elements, windows of 3, step 2: three windows with a padding of 0, four with 1; one incomplete.
    x = np.random.default_rng(4).standard_normal((1, 2, 6, 6)).astype(np.float32)
    kernel, strides, pads = (3, 3), (2, 2), [(pad, pad)] * 2
    over = [(0, 1)] * 2
    given = {
        "kernel_sizes": kernel,
        "strides": strides,
        "pad_type": "custom",
        "pad": [pad] * 4,
        "ceil_mode": True,
    }
    excluding = given | {"exclude_padding_from_average": True}
    cases = {
        "max": (
            lambda x: mb.max_pool(x=x, **given),
            _pool(x, pads, kernel, strides, np.nanmax, -np.inf, over),
        ),
        "avg": (
            lambda x: mb.avg_pool(x=x, **given),
            _pool(x, [(pad, pad + 1)] * 2, kernel, strides, np.nanmean, 0.0),
        ),
        "avg excluding": (
            lambda x: mb.avg_pool(x=x, **excluding),
            _pool(x, pads, kernel, strides, np.nanmean, np.nan, over),
        ),
        "l2": (lambda x: mb.l2_pool(x=x, **given), _pool(x, pads, kernel, strides, _l2, 0.0, over)),
    }
    check(cases, {"x": x})


def test_averages_of_incomplete_windows_as_core_ml_gives_them():
    """The values that apple/coremltools pull request 2844 and issue 2772 print for Core ML, not PyTorch's."""
    x = np.arange(49, dtype=np.float32).reshape(1, 1, 7, 7)
    wide = {"kernel_sizes": [2, 2], "strides": [3, 3]}
    cases = {
        "plane": (
            lambda x: mb.avg_pool(x=x, pad_type="valid", ceil_mode=True, **wide),
            [[[[4.0, 7.0, 4.75], [25.0, 28.0, 15.25], [21.25, 22.75, 12.0]]]],
        )
    }
    check(cases, {"x": x})
    row = np.arange(7, dtype=np.float32).reshape(1, 1, 7)
    line = {"kernel_sizes": [2], "strides": [3], "pad_type": "valid", "ceil_mode": True}
    check({"row": (lambda x: mb.avg_pool(x=x, **line), [[[0.5, 3.5, 3.0]]])}, {"x": row})


def test_no_window_starts_in_the_padding():
    x = np.arange(5, dtype=np.float32).reshape(1, 1, 5)
    given = {"kernel_sizes": [2], "strides": [3], "pad_type": "custom", "pad": [1, 1], "ceil_mode": True}
    # Windows start at -1 and 2; one at 5 would hold padding alone.
    check({"max": (lambda x: mb.max_pool(x=x, **given), [[[0.0, 3.0]]])}, {"x": x})


def test_padding_wider_than_the_window():
    x = np.arange(1, 5, dtype=np.float32).reshape(1, 1, 4)
    given = {"kernel_sizes": [2], "strides": [2], "pad_type": "custom", "pad": [2, 0]}
    cases = {"avg": (lambda x: mb.avg_pool(x=x, **given), [[[0.0, 1.5, 3.5]]])}
    check(cases, {"x": x})


def test_work():
    def body(x):
        return mb.l2_pool(
            x=mb.avg_pool(x=x, kernel_sizes=[3, 3], pad_type="same"), kernel_sizes=[2, 2], pad_type="valid"
        )

    found = works(body, {"x": np.zeros((1, 2, 5, 5), np.float32)})
    # 50 windows of 9 elements; 2·4·4 windows of 4 elements, each squared and added.
    assert (found["avg_pool"].flops, found["l2_pool"].flops) == (450, 256)


@pytest.mark.parametrize("pool", ["avg_pool", "max_pool", "l2_pool"])
def test_a_pad_of_the_program_that_is_wider_than_the_window(pool):
    x = np.random.default_rng(4).random((1, 2, 4, 4)).astype(np.float32)

    def body(x):
        wide = mb.pad(x=x, pad=np.array([0, 0, 0, 0, 2, 2, 2, 2], np.int32), constant_val=0.0)
        return getattr(mb, pool)(x=wide, kernel_sizes=[2, 2], strides=[2, 2], pad_type="valid")

    compute = {"avg_pool": np.mean, "max_pool": np.max, "l2_pool": _l2}[pool]
    expected = _pool(x, [(2, 2), (2, 2)], (2, 2), (2, 2), compute)
    np.testing.assert_allclose(run(body, {"x": x})[0], expected, rtol=1e-5)
