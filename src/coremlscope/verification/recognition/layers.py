"""Forms of layers: softmaxes, normalizations, products of matrices, convolutions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from coremlscope.ir import Array
from coremlscope.verification.recognition.form import Floats, Form, is_same, values_read

__all__ = ["along_axes", "convolutions", "products"]

#: The epsilon of normalizations in PyTorch.
_NORM_EPSILON = 1e-5
#: Products that are computed to recognise a convolution.
_MOST_PRODUCTS = 1 << 25


def along_axes(given: list[Floats], y: Floats, is_read: list[bool]) -> Iterator[Form]:
    """Yields softmaxes and normalizations."""
    for place, x in values_read(given, is_read):
        if x.shape != y.shape:
            continue
        for axis in range(x.ndim):
            powers = np.exp(x - x.max(axis, keepdims=True))
            if x.shape[axis] > 1 and is_same(powers / powers.sum(axis, keepdims=True), y):
                yield Form(type="softmax", reads={"x": (place,)}, settings={"axis": np.array(axis, np.int32)})
        for first in range(1, x.ndim):
            yield from _norms(given, y, place, tuple(range(first, x.ndim)))


def _norms(given: list[Floats], y: Floats, place: int, axes: tuple[int, ...]) -> Iterator[Form]:
    x = given[place]
    numbers = [float(a.reshape(-1)[0]) for a in given if a.size == 1]
    gains: list[int | None] = [
        i for i, a in enumerate(given) if a.shape == tuple(x.shape[axis] for axis in axes)
    ]
    centred = x - x.mean(axes, keepdims=True)
    for epsilon in [*numbers, _NORM_EPSILON]:
        even = centred / np.sqrt(np.square(centred).mean(axes, keepdims=True) + abs(epsilon))
        for gamma, beta in itertools.product([*gains, None], repeat=2):
            made = even * (1 if gamma is None else given[gamma]) + (0 if beta is None else given[beta])
            if (gamma is None or gamma != beta) and is_same(made, y):
                reads = {"x": (place,)}
                reads |= {} if gamma is None else {"gamma": (gamma,)}
                reads |= {} if beta is None else {"beta": (beta,)}
                settings: dict[str, Array | str] = {
                    "axes": np.array(axes, np.int32),
                    "epsilon": np.array(epsilon, np.float32),
                }
                yield Form(type="layer_norm", reads=reads, settings=settings)
                return


def products(given: list[Floats], y: Floats, is_read: list[bool]) -> Iterator[Form]:
    """Yields linear layers and products of matrices."""
    for one, two in itertools.permutations(range(len(given)), 2):
        x, w = given[one], given[two]
        if not is_read[one] or min(x.ndim, w.ndim) < 2 or x.shape[-1] not in w.shape[-2:]:
            continue
        for is_turned in (True, False):
            turned = np.swapaxes(w, -1, -2) if is_turned else w
            if x.shape[-1] != turned.shape[-2] or x.shape[-2] * turned.shape[-1] > y.size:
                continue
            try:
                made = x @ turned
            except ValueError:
                continue
            if is_read[two] and is_same(made, y):
                settings = {"transpose_x": np.array(False), "transpose_y": np.array(is_turned)}
                yield Form(type="matmul", reads={"x": (one,), "y": (two,)}, settings=settings)
            if is_read[two] or not is_turned or w.ndim != 2:
                continue
            if is_same(made, y):
                yield Form(type="linear", reads={"x": (one,), "weight": (two,)})
            for bias, b in enumerate(given):
                if b.shape == (len(w),) and is_same(made + b, y):
                    yield Form(type="linear", reads={"x": (one,), "weight": (two,), "bias": (bias,)})


def convolutions(given: list[Floats], y: Floats, is_read: list[bool]) -> Iterator[Form]:
    """Yields convolutions over two axes, with the strides and paddings that networks have."""
    for (place, x), (other, w) in itertools.product(values_read(given, is_read), enumerate(given)):
        if (
            is_read[other]
            or not x.ndim == w.ndim == y.ndim == 4
            or y.shape[1] != len(w)
            or x.shape[1] % w.shape[1]
        ):
            continue
        if y.size * w[0].size > _MOST_PRODUCTS:
            continue
        biases: list[int | None] = [i for i, b in enumerate(given) if b.shape == (len(w),) and not is_read[i]]
        for stride, pad in itertools.product((1, 2), range(max(w.shape[2:]) // 2 + 1)):
            wide = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
            made = _convolved(wide, w, stride)
            for bias in [*biases, None] if made.shape == y.shape else []:
                shift = 0 if bias is None else given[bias].reshape(-1, 1, 1)
                if is_same(made + shift, y):
                    reads = {"x": (place,), "weight": (other,)} | ({} if bias is None else {"bias": (bias,)})
                    settings: dict[str, Array | str] = {
                        "strides": np.array([stride] * 2, np.int32),
                        "pad": np.array([pad] * 4, np.int32),
                        "pad_type": "custom",
                        "dilations": np.array([1, 1], np.int32),
                        "groups": np.array(x.shape[1] // w.shape[1], np.int32),
                    }
                    yield Form(type="conv", reads=reads, settings=settings)
                    return


def _convolved(x: Floats, w: Floats, stride: int) -> Floats:
    if x.shape[2] < w.shape[2] or x.shape[3] < w.shape[3]:
        return np.zeros(0)
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))  # type: ignore[call-overload]
    windows = windows[:, :, ::stride, ::stride]
    groups = x.shape[1] // w.shape[1]
    parts = [
        np.einsum("nchwij,ocij->nohw", part, kernel)
        for part, kernel in zip(np.split(windows, groups, 1), np.split(w, groups), strict=True)
    ]
    made: Floats = np.concatenate(parts, 1)
    return made
