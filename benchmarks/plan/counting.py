"""Compares the number of operations on each unit with the published one, with and without open operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from benchmarks.plan.agreement import Agreement
from coremlscope.devices import UNITS, ComputeUnit
from coremlscope.results.plan import Choice

__all__ = ["CountedNetworks"]

#: The part of a network's operations that may be on other units than published.
_CLOSE = 0.05


class CountedNetworks:
    """Networks of which the number of operations on each unit is published.

    Attributes:
        agreement: The networks within 5 % of their operations.
    """

    def __init__(self, name: str) -> None:
        """Begins without networks.

        Args:
            name: The subject of the comparison.
        """
        self.agreement = Agreement(name)
        self._total = self._same = self._possible = self._open = self._within = 0

    def compare(self, name: str, published: Mapping[ComputeUnit, int], choices: Sequence[Choice]) -> None:
        """Counts one network.

        Args:
            name: The network.
            published: The number of its operations on each unit.
            choices: Ours, one for each operation.
        """
        ours = Counter(choice.unit for choice in choices if choice.unit is not None)
        open_ = Counter(unit for choice in choices for unit in choice.alternatives)
        missing = {unit: max(count - ours[unit], 0) for unit, count in published.items()}
        total = sum(published.values())
        same = total - sum(missing.values())
        possible = same + sum(min(count, open_[unit]) for unit, count in missing.items())
        self._total += total
        self._same += same
        self._possible += possible
        self._open += sum(bool(choice.alternatives) for choice in choices)
        self._within += total - possible <= _CLOSE * total
        text = f"{name}: {_words(published)}, ours {_words(ours)}"
        self.agreement.count(total - same <= _CLOSE * total, text)

    def finished(self) -> Agreement:
        """Returns the agreement with remarks on operations, and on open ones."""
        total = max(self._total, 1)
        self.agreement.notes += [
            f"with open operations on either unit: {self._within} of {self.agreement.total} networks",
            f"operations on the same unit by counts: {self._same} of {self._total}"
            f" ({self._same / total:.1%}), {self._possible / total:.1%} with open ones on either",
            f"open operations: {self._open / total:.1%}",
        ]
        return self.agreement


def _words(counts: Mapping[ComputeUnit, int]) -> str:
    return " ".join(f"{unit} {counts[unit]}" for unit in UNITS if unit in counts)
