"""Reference convolutions and pooling windows in NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

Pads = Sequence[tuple[int, int]]


def windows(
    x: np.ndarray,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    counts: Sequence[int],
) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """The position of each result element and the elements of its window, along the axes after the second."""
    for place in itertools.product(*map(range, counts)):
        at = [
            slice(p * s, p * s + (k - 1) * d + 1, d)
            for p, s, k, d in zip(place, strides, kernel, dilations, strict=True)
        ]
        yield place, x[(slice(None), slice(None), *at)]


def padded(x: np.ndarray, pads: Pads, value: float = 0.0) -> np.ndarray:
    """`x` with its spatial axes padded."""
    return np.pad(x, [(0, 0), (0, 0), *pads], constant_values=value)


def counts_of(size: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]):
    """The number of whole windows that fit."""
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    return [(n - e) // s + 1 for n, e, s in zip(size, extent, strides, strict=True)]


def convolve(
    x: np.ndarray,
    weight: np.ndarray,
    pads: Pads,
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int,
) -> np.ndarray:
    """A convolution, element by element."""
    x, kernel = padded(x.astype(np.float64), pads), weight.shape[2:]
    counts = counts_of(x.shape[2:], kernel, strides, dilations)
    result = np.zeros((x.shape[0], weight.shape[0], *counts))
    share, each = weight.shape[0] // groups, x.shape[1] // groups
    for place, window in windows(x, kernel, strides, dilations, counts):
        for channel, filter_ in enumerate(weight):
            first = channel // share * each
            part = window[:, first : first + each] * filter_
            result[(slice(None), channel, *place)] = part.reshape(len(x), -1).sum(1)
    return result


def spread(
    x: np.ndarray, weight: np.ndarray, strides: Sequence[int], dilations: Sequence[int], groups: int
) -> np.ndarray:
    """An uncropped transposed convolution: the sum of each input element times the weights."""
    extent = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
    size = [(n - 1) * s + e for n, s, e in zip(x.shape[2:], strides, extent, strict=True)]
    each, per = x.shape[1] // groups, weight.shape[1]
    result = np.zeros((x.shape[0], per * groups, *size))
    for place in itertools.product(*map(range, x.shape[2:])):
        at = tuple(
            slice(p * s, p * s + e, d) for p, s, e, d in zip(place, strides, extent, dilations, strict=True)
        )
        for channel in range(x.shape[1]):
            group = channel // each
            value = x[(slice(None), channel, *place)].reshape(-1, *[1] * weight[0].ndim)
            target = (slice(None), slice(group * per, (group + 1) * per), *at)
            result[target] += value * weight[channel]
    return result
