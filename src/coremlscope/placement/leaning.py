"""Plans again at costs that lean to the ends of their intervals, to find which operations are undecided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from coremlscope.devices.unit import ComputeUnit
from coremlscope.placement.backend import UNIT_OF, Backend, PlannedCost
from coremlscope.placement.replan import Costs, replan
from coremlscope.placement.search import TransitionCosts, lean, search_path

__all__ = ["Cell", "leaning_paths"]

#: How far costs lean towards the ends of their intervals at the same time: if errors are independent, that of
#: a sum of about sixteen costs is 1 / √16 of that of one.
_TOGETHER = 0.25
#: How far the costs of one class lean on all units where others stay: the difference of two such errors is
#: larger in a fifth of all cases (0.84 · √2 / 2 standard deviations each, of 1.645 in an interval).
_ALONE = 0.36
#: Classes whose costs change by less in sum, in milliseconds, move no operation.
_NOTHING_MS = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """Planned costs of equal operations on the backends that may run them.

    Attributes:
        allowed: The backends; empty where no unit is known to run the operations.
        prices: Their planned costs on every backend.
        costs_ms: The costs of a path. An operation that no unit is known to run must not cut the path in two:
            it costs zero on the backends of the CPU.
    """

    allowed: tuple[Backend, ...]
    prices: Mapping[Backend, PlannedCost]
    costs_ms: Mapping[Backend, float]

    @property
    def is_exact(self) -> bool:
        """Whether all costs are known."""
        return all(self.prices[backend].low == self.prices[backend].high for backend in self.allowed)

    def leaning(self, unit: ComputeUnit, share: float, of_class: str | None = None) -> Costs:
        """Returns costs on the way to the lower ends of their intervals on one unit, to the upper on others.

        Args:
            unit: The unit.
            share: How far they are on the way, in logarithms. Costs of which nothing is published are there.
            of_class: The class whose costs lean; by default all of them.
        """
        return {
            backend: _lean(self.prices[backend], UNIT_OF[backend] == unit, share)
            if of_class is None or _class(self.prices[backend]) == of_class
            else self.costs_ms[backend]
            for backend in self.allowed
        } or self.costs_ms


def _lean(cost: PlannedCost, is_favoured: bool, share: float) -> float:
    return lean(cost.ms, cost.low if is_favoured else cost.high, 1.0 if cost.is_open else share)


def _class(cost: PlannedCost) -> str:
    return "" if cost.rate is None or cost.low == cost.high else cost.rate.name


def leaning_paths(
    cells: Sequence[Cell],
    chosen: Sequence[Backend],
    transition_costs: TransitionCosts,
    units: Sequence[ComputeUnit],
) -> list[tuple[Backend, ...]]:
    """Returns the cheapest paths at costs within their intervals that favour one unit.

    All costs on the unit are low and all others are high: uncertain rates of one unit are wrong together, as
    they come from the same chip by the same ratio. Few of them are at the ends of their intervals at the same
    time, so they go `_TOGETHER` of the way. A choice may also hang on one class, as that of encoders on
    `linear`: its costs go `_ALONE` of the way while others stay. So nearly all operations are found that
    change their unit in a fifth of the plans with rates drawn within their intervals (`benchmarks.plan
    draws`).

    Args:
        cells: The costs of each operation; equal operations share one.
        chosen: The backend of each operation as planned.
        transition_costs: The costs of a path besides its operations.
        units: The units that may run them.
    """
    kinds = list(dict.fromkeys(cells))
    launches = {
        UNIT_OF[backend]
        for backend, known in transition_costs.launch_bounds.items()
        if known.low < known.high
    }
    if len(units) == 1 or (all(cell.is_exact for cell in kinds) and not launches & set(units)):
        return []
    found = []
    for unit in units:
        favouring = {cell: cell.leaning(unit, _TOGETHER) for cell in kinds}
        costs = [favouring[cell] for cell in cells]
        found.append(search_path(costs, transition_costs.favouring(unit, _TOGETHER)))
    changes = list(_changes(cells, kinds, units))
    again = replan([cell.costs_ms for cell in cells], changes, chosen, transition_costs)
    return [*found, *(path for path, _ in again)]


def _changes(
    cells: Sequence[Cell], kinds: Sequence[Cell], units: Sequence[ComputeUnit]
) -> Iterator[dict[int, Costs]]:
    """Yields for each class and unit the costs of the operations of the class that favour the unit."""
    places: dict[Cell, list[int]] = {}
    for index, cell in enumerate(cells):
        places.setdefault(cell, []).append(index)
    classes: dict[str, list[Cell]] = {}
    for cell in kinds:
        for name in {_class(cell.prices[backend]) for backend in cell.allowed} - {""}:
            classes.setdefault(name, []).append(cell)
    if len(classes) < 2:
        return
    for name, members in sorted(classes.items()):
        for unit in units:
            leaning = {cell: cell.leaning(unit, _ALONE, name) for cell in members}
            most = sum(
                len(places[cell]) * max(abs(ms - cell.costs_ms[backend]) for backend, ms in costs.items())
                for cell, costs in leaning.items()
            )
            if most > _NOTHING_MS:
                yield {index: costs for cell, costs in leaning.items() for index in places[cell]}
