"""Compares the published rates of each chip with those transferred from all other chips.

Which physical quantity a rate follows, and how wide intervals must be, is judged by this table: each row is a
published rate that was kept aside.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from coremlscope.devices.chip import Device
from coremlscope.planning.cost.planned.publications import publications
from coremlscope.planning.cost.planned.rates import rate_table
from coremlscope.planning.placement.backend import Backend

__all__ = ["KeptAside", "compare_rates", "report"]

_BACKENDS: tuple[Backend, ...] = ("ane", "mps_graph", "bnns")
#: Rates of bytes are the same on the Neural Engine and the GPU, and move nothing between them.
_COMMON = ("bytes", "relu")


@dataclass(frozen=True, kw_only=True)
class KeptAside:
    """A published rate, and what follows from the other chips.

    Attributes:
        name: The class of operations.
        backend: The backend.
        publication: Chip and system.
        published: The rate in 10⁹ per second.
        transferred: The same from all other chips.
        low: The lower end of its interval.
        high: The upper end.
        is_assumed: Whether no other chip has a rate of this class.
    """

    name: str
    backend: Backend
    publication: str
    published: float
    transferred: float
    low: float
    high: float
    is_assumed: bool

    @property
    def error(self) -> float:
        """The logarithm of transferred over published."""
        return math.log(self.transferred / self.published)

    @property
    def is_within(self) -> bool:
        """Whether the published rate lies in the interval."""
        return self.low <= self.published <= self.high


def compare_rates() -> list[KeptAside]:
    """Returns each published rate with its transfer from the other publications."""
    found = []
    for one in publications():
        others = [other for other in publications() if other.chip.id != one.chip.id]
        table = rate_table(Device(one.chip, one.os, one.chip.id), others)
        for name, by_backend in one.rates.items():
            for backend in _BACKENDS:
                if backend in by_backend and name not in _COMMON:
                    rate = table.rates[name][backend]
                    found.append(
                        KeptAside(
                            name=name,
                            backend=backend,
                            publication=one.name,
                            published=by_backend[backend].value,
                            transferred=rate.value,
                            low=rate.low,
                            high=rate.high,
                            is_assumed=rate.basis == "assumed",
                        )
                    )
    return sorted(found, key=lambda row: (_BACKENDS.index(row.backend), row.name, row.publication))


def _correlation(rows: Sequence[KeptAside]) -> float:
    """The correlation of the errors of two classes of one chip."""
    products = [
        one.error * other.error
        for one, other in itertools.combinations(rows, 2)
        if one.publication == other.publication
    ]
    return statistics.mean(products) / statistics.mean(row.error**2 for row in rows)


def report() -> str:
    """Returns the table and its summary."""
    rows = compare_rates()
    lines = ["Published rates, kept aside, and transferred from the other chips (10⁹ per second)"]
    for row in rows:
        marks = ("" if row.is_within else " outside") + (" assumed" if row.is_assumed else "")
        lines.append(
            f"  {row.backend:10} {row.name:44} {row.publication:22} {row.published:10.5g}"
            f" {row.transferred:10.5g} ×{row.transferred / row.published:.2f}"
            f"  {row.low:.4g} … {row.high:.4g}{marks}"
        )
    for backend in _BACKENDS:
        known = [row for row in rows if row.backend == backend and not row.is_assumed]
        convolutions = [row for row in known if row.name.startswith("convolution")]
        others = [row for row in known if row not in convolutions]
        errors = [abs(row.error) for row in known]
        within = sum(row.is_within for row in known)
        width = math.exp(statistics.mean(math.log(row.high / row.low) for row in known))
        assumed = [row for row in rows if row.backend == backend and row.is_assumed]
        lines.append(
            f"  {backend}: {len(known)} transferred, error median ×{math.exp(statistics.median(errors)):.2f},"
            f" root mean square ×{math.exp(math.sqrt(statistics.mean(e * e for e in errors))):.2f},"
            f" {within / len(known):.0%} within, width ×{width:.2f};"
            f" {sum(row.is_within for row in assumed)} of {len(assumed)} assumed within;"
            f" correlation of convolutions {_correlation(convolutions):.2f},"
            f" of others {_correlation(others):.2f}"
        )
    return "\n".join(lines) + "\n"
