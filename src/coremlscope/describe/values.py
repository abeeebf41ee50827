"""The ranges and histograms of weights."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from coremlscope.base.errors import CoremlscopeError
from coremlscope.formats.weights import BlobData
from coremlscope.model.ir import Constant, TensorType

#: The most values that are read of one weight, and of all weights of a model.
_MOST, _MOST_OF_ALL = 1 << 18, 1 << 24
#: The most elements of a weight that has to be decoded as a whole.
_MOST_DECODED = 1 << 22
#: The intervals of a histogram, and the fewest values of a weight that has one.
_INTERVALS, _FEWEST = 16, 1024


class Values(msgspec.Struct, frozen=True):
    """The values of a weight; see `WeightTable`."""

    looked_at: int = 0
    least: float | None = None
    greatest: float | None = None
    histogram: tuple[int, ...] = ()


class ValueReader:
    """Reads values of weights, within a limit for all of them.

    Args:
        weights: The weights that share the limit; values of others are not read.
    """

    def __init__(self, weights: Sequence[Constant]) -> None:
        self._share = min(_MOST, _MOST_OF_ALL // max(len(weights), 1))
        self._keys = {id(constant) for constant in weights}

    def summarise(self, constant: Constant) -> Values:
        """Returns the range and the histogram of a weight; nothing where it cannot be read."""
        type_ = constant.type
        if id(constant) not in self._keys or not isinstance(type_, TensorType) or not type_.elements:
            return Values()
        is_mapped = isinstance(constant.data, BlobData) and type_.dtype.bits >= 8
        if not constant.is_available or not (is_mapped or type_.elements <= _MOST_DECODED):
            return Values()
        try:
            found = constant.numpy().reshape(-1)
        except (CoremlscopeError, ValueError, MemoryError):
            return Values()  # What is damaged is reported by what has to read it.
        if found.dtype.kind not in "fiub":
            return Values()
        step = -(-found.size // max(self._share, 1))
        return _summarise(found[::step].astype(np.float32))


def _summarise(values: np.ndarray[tuple[int], np.dtype[np.float32]]) -> Values:
    finite = values if np.isfinite(values).all() else values[np.isfinite(values)]
    if finite.size == 0:
        return Values(looked_at=values.size)
    least, greatest = float(finite.min()), float(finite.max())
    shares: tuple[int, ...] = ()
    if least < greatest and finite.size >= _FEWEST:
        counts, _ = np.histogram(finite, _INTERVALS, (least, greatest))
        shares = tuple(max(int(count > 0), round(1000 * count / finite.size)) for count in counts.tolist())
    return Values(values.size, float(f"{least:.4g}"), float(f"{greatest:.4g}"), shares)
