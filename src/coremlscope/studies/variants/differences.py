"""Compares the outputs of a variant with those of the original, sample by sample."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coremlscope.model.ir import Array
from coremlscope.results.variants import OutputDifference

#: Arrays with several rows rank classes if they have at least as many columns: boxes have fewer.
_LEAST_CLASSES = 100


class Differences:
    """Collects the differences of all outputs, without keeping the arrays.

    Args:
        signals: Names of outputs of the other model whose largest element says nothing (`find_signals`).
    """

    def __init__(self, signals: Collection[str] = ()) -> None:
        self._outputs: dict[str, _Tally] = {}
        self._signals = frozenset(signals)

    def add(self, original: Mapping[str, Any], other: Mapping[str, Any]) -> None:
        """Adds the outputs of one prediction of both models.

        Outputs that were renamed belong to those at the same place; others that one model lacks are skipped.
        """
        names = _renamed(list(original), list(other))
        for name, value in original.items():
            now = names.get(name, name)
            if now in other:
                tally = self._outputs.setdefault(name, _Tally(is_signal=now in self._signals))
                tally.add(value, other[now])

    def result(self) -> tuple[OutputDifference, ...]:
        """Returns the differences over all samples."""
        return tuple(tally.result(name) for name, tally in self._outputs.items())


def _renamed(before: Sequence[str], after: Sequence[str]) -> dict[str, str]:
    """Returns the new names of outputs that a transform renamed, by their places."""
    if len(before) != len(after):
        return {}
    return {
        old: new for old, new in zip(before, after, strict=True) if old not in after and new not in before
    }


@dataclass(slots=True, kw_only=True)
class _Tally:
    """Sums over the elements of one output."""

    is_signal: bool = False
    elements: int = 0
    unequal: int = 0
    numeric: int = 0
    noise: float = 0.0
    energy: float = 0.0
    max_abs: float = 0.0
    largest: float = 0.0
    ranked: int = 0
    agreeing: int = 0
    not_finite: int = 0

    def add(self, value: Any, other: Any) -> None:
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            first, second = (
                np.array([float(each.get(key, 0.0)) for key in value]) for each in (value, other)
            )
            if first.size:
                self._rank(first, second)
            self._add_numbers(first, second)
        elif isinstance(value, (str, int, list)):
            self.elements += 1
            self.unequal += value != other
            if isinstance(value, (str, int)):
                self.ranked += 1
                self.agreeing += value == other
        else:
            self._add_arrays(np.asarray(value), np.asarray(other))

    def _add_arrays(self, value: Array, other: Array) -> None:
        if value.shape != other.shape:
            self.elements += value.size
            self.unequal += value.size
            return
        if value.ndim and value.shape[-1] > 1 and not self.is_signal:
            is_single_row = value.size == value.shape[-1]
            if is_single_row or (value.ndim <= 3 and value.shape[-1] >= _LEAST_CLASSES):
                self._rank(value, other)
        self._add_numbers(value, other)

    def _add_numbers(self, value: Array, other: Array) -> None:
        first, second = value.astype(np.float64).ravel(), other.astype(np.float64).ravel()
        finite = np.isfinite(first)
        lost = finite & ~np.isfinite(second)
        both = finite & ~lost
        self.elements += first.size
        self.not_finite += int(lost.sum())
        self.unequal += int((~np.equal(first, second) & ~(np.isnan(first) & np.isnan(second))).sum())
        first, second = first[both], second[both]
        if first.size:
            gap = np.abs(first - second)
            self.numeric += first.size
            self.noise += float(np.square(gap).sum())
            self.energy += float(np.square(first).sum())
            self.max_abs = max(self.max_abs, float(gap.max()))
            self.largest = max(self.largest, float(np.abs(first).max()))

    def _rank(self, value: Array, other: Array) -> None:
        rows = value.reshape(-1, value.shape[-1])
        same = rows.argmax(axis=-1) == other.reshape(rows.shape).argmax(axis=-1)
        self.ranked += same.size
        self.agreeing += int(same.sum())

    def result(self, name: str) -> OutputDifference:
        is_numeric, noise = self.numeric > 0, self.noise
        return OutputDifference(
            name=name,
            elements=self.elements,
            is_equal=self.unequal == 0,
            max_abs=self.max_abs if is_numeric else None,
            largest=self.largest if is_numeric else None,
            snr_db=_decibels(self.energy, noise) if is_numeric else None,
            psnr_db=_decibels(self.largest**2 * self.numeric, noise) if is_numeric else None,
            top1=self.agreeing / self.ranked if self.ranked else None,
            not_finite=self.not_finite,
        )


def _decibels(signal: float, noise: float) -> float | None:
    """Returns a ratio of energies in decibels; None where there is no noise or no signal."""
    return 10 * math.log10(signal / noise) if signal > 0 and noise > 0 else None
