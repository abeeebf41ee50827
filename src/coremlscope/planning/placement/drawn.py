"""Plans a list of operations again with rates drawn within their intervals: how often each goes elsewhere.

The share of these plans in which an operation goes to another unit says how much the plan hangs on rates that
are not known exactly. It rests on assumptions and is not a measured probability:

* The logarithm of a cost is normal on either side of the rate in use, and nine in ten draws lie within the
  interval, as published rates are that were kept aside (`python -m benchmarks.plan rates`).
* The costs of one class of operations on one unit are wrong by the same factor. The errors of two classes on
  a unit have the correlations that the same table shows.
* Costs of which nothing is published are drawn evenly between the logarithms of their ends.

Draws depend on the class and the unit only: equal plans have equal shares, and plans of two models or chips
differ by these and not by chance.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Mapping, Sequence
from statistics import NormalDist

import msgspec
import numpy as np
import numpy.typing as npt

from coremlscope.devices.unit import CPU, GPU, NEURAL_ENGINE, SETTINGS, ComputeUnit, ComputeUnits
from coremlscope.planning.placement.backend import BACKENDS, UNIT_OF, Backend, PlannedCost
from coremlscope.planning.placement.columns import Floats, Places, search_columns
from coremlscope.planning.placement.search import Bounds, TransitionCosts

__all__ = ["DRAWS", "UNDECIDED_SHARE", "Cell", "draw_costs", "draw_launches", "draw_shares", "is_exact"]

#: Number of plans with drawn rates.
DRAWS = 200
#: An operation is undecided if it goes to another unit in so many of them.
UNDECIDED_SHARE = 0.2
_SEED = 1
#: Standard deviations from the middle to the ends of an interval that holds nine in ten.
_NINE_IN_TEN = 1.645
#: The part of the variance that the classes of convolutions on a unit have in common, and all others.
_CONVOLUTIONS: Mapping[ComputeUnit, float] = {NEURAL_ENGINE: 0.44, GPU: 0.24, CPU: 0.0}
_OTHERS: Mapping[ComputeUnit, float] = {NEURAL_ENGINE: 0.15, GPU: 0.15, CPU: 0.45}
#: Operations times columns whose costs are held at once: about 130 MB.
_MOST = 4_000_000


#: One quantile of each of `DRAWS` equal parts of a distribution: every class is drawn from all of them.
_EVEN: Floats = (np.arange(DRAWS) + 0.5) / DRAWS
_NORMAL: Floats = np.array([NormalDist().inv_cdf(quantile) for quantile in _EVEN])


class Cell(msgspec.Struct, frozen=True, eq=False):
    """Planned costs of equal operations on the backends that may run them.

    Attributes:
        type: Apple's name of the operations.
        allowed: The backends; empty where no unit is known to run the operations.
        prices: Their planned costs on every backend.
        costs_ms: The costs of a path. An operation that no unit is known to run must not cut the path in two:
            it costs zero on the backends of the CPU.
    """

    type: str
    allowed: tuple[Backend, ...]
    prices: Mapping[Backend, PlannedCost]
    costs_ms: Mapping[Backend, float]

    @property
    def is_exact(self) -> bool:
        """Whether all costs are known."""
        return all(self.prices[backend].low == self.prices[backend].high for backend in self.allowed)


#: The units of the backends.
_UNITS = tuple(UNIT_OF[backend] for backend in BACKENDS)


def draw_shares(
    cells: Mapping[ComputeUnits, Sequence[Cell]],
    chosen: Mapping[ComputeUnits, Sequence[Backend]],
    transition_costs: TransitionCosts,
) -> dict[ComputeUnits, list[dict[ComputeUnit, float]]]:
    """Returns by setting, for each operation: the share of plans with drawn rates on each other unit.

    Settings whose costs are all known exactly, and those of one unit, are left out.

    Args:
        cells: By setting, the costs of each operation; equal operations share one.
        chosen: By setting, the backend of each operation as planned.
        transition_costs: The costs of a path besides its operations.
    """
    settings = [
        setting
        for setting, of_setting in cells.items()
        if len(SETTINGS[setting]) > 1 and not is_exact(of_setting, transition_costs, setting)
    ]
    if not settings or not cells[settings[0]]:
        return {}
    rows = list(zip(*(cells[setting] for setting in settings), strict=True))
    planned = np.array([[BACKENDS.index(b) for b in chosen[setting]] for setting in settings], dtype=np.uint8)
    counts = {unit: np.zeros(planned.shape) for unit in _UNITS}
    step = max(1, _MOST // planned.size)
    for first in range(0, DRAWS, step):
        paths = _draw_paths(rows, planned.T, transition_costs, slice(first, min(first + step, DRAWS)))
        for place, unit in enumerate(_UNITS):
            counts[unit] += (paths == place).sum(axis=2).T
    return {
        setting: [
            {
                unit: float(counts[unit][place, index]) / DRAWS
                for unit in SETTINGS[setting]
                if unit != UNIT_OF[backend] and counts[unit][place, index]
            }
            for index, backend in enumerate(chosen[setting])
        ]
        for place, setting in enumerate(settings)
    }


def is_exact(cells: Sequence[Cell], transition_costs: TransitionCosts, setting: ComputeUnits) -> bool:
    """Returns True if all costs are known exactly on the units of a setting."""
    launches = transition_costs.launch_bounds.items()
    return all(cell.is_exact for cell in dict.fromkeys(cells)) and all(
        bounds.low == bounds.high for backend, bounds in launches if UNIT_OF[backend] in SETTINGS[setting]
    )


def _draw_paths(
    rows: Sequence[tuple[Cell, ...]], planned: Places, transition_costs: TransitionCosts, draws: slice
) -> Places:
    """The places of the backends on the cheapest paths, by operation, setting and draw."""
    settings = planned.shape[1]
    kinds = {row: place for place, row in enumerate(dict.fromkeys(rows))}
    prices = np.stack([_draw_row(row, draws) for row in kinds])
    count = prices.shape[2] // settings
    launches = np.tile(draw_launches(transition_costs)[:, draws], settings)
    finishes = [[transition_costs.finish_ms.get(backend, 0.0)] for backend in BACKENDS]
    paths, _ = search_columns(
        prices,
        [kinds[row] for row in rows],
        np.repeat(planned, count, axis=1),
        launches,
        transition_costs.switch_ms,
        np.array(finishes),
    )
    return paths.reshape(len(rows), settings, count)


def _draw_row(row: Sequence[Cell], draws: slice) -> Floats:
    """Drawn costs of an operation by backend, and by setting and draw."""
    drawn = draw_costs(row[0].type, row[0].prices)[:, draws]
    return np.concatenate([_allowed(cell, drawn) for cell in row], axis=1)


def _allowed(cell: Cell, drawn: Floats) -> Floats:
    """Drawn costs, infinite on backends that do not run the operation."""
    if not cell.allowed:
        fixed = [[cell.costs_ms.get(backend, np.inf)] for backend in BACKENDS]
        return np.broadcast_to(np.array(fixed), drawn.shape)
    allowed = np.array([[backend in cell.allowed] for backend in BACKENDS])
    return np.where(allowed, drawn, np.inf)


def draw_costs(type_: str, prices: Mapping[Backend, PlannedCost]) -> Floats:
    """Draws the costs of operations of a type, by backend and draw, in milliseconds."""
    return np.array([prices[b].ms * _factors(type_, UNIT_OF[b], prices[b]) for b in BACKENDS])


def draw_launches(transition_costs: TransitionCosts) -> Floats:
    """Draws the costs of entering each backend, by backend and draw, in milliseconds."""
    drawn = []
    for backend in BACKENDS:
        cost = transition_costs.launch_ms.get(backend, 0.0)
        bounds = transition_costs.launch_bounds.get(backend, Bounds(cost, cost))
        drawn.append(cost * _between("launch", UNIT_OF[backend], *_ratios(cost, bounds.low, bounds.high)))
    return np.array(drawn)


def _factors(type_: str, unit: ComputeUnit, cost: PlannedCost) -> Floats:
    """Drawn costs over the planned one."""
    name = type_ if cost.rate is None or cost.is_open else cost.rate.name
    return _between(name, unit, *_ratios(cost.ms, cost.low, cost.high), cost.is_open)


def _ratios(cost: float, low: float, high: float) -> tuple[float, float]:
    """The ends of an interval over the cost, without the rounding in which equal ones differ."""
    return (round(low / cost, 9), round(high / cost, 9)) if low > 0.0 < cost else (1.0, 1.0)


@functools.lru_cache(maxsize=1024)
def _between(name: str, unit: ComputeUnit, low: float, high: float, is_open: bool = False) -> Floats:
    """Draws a factor: evenly between the logarithms of its ends where it is open, otherwise near one."""
    if low == high:
        return np.ones(DRAWS)
    if is_open:
        return low * np.power(high / low, _EVEN[_order(name, f"{unit}, open")])
    family = "convolution" if name.startswith("convolution") else ""
    common = 0.0 if name == "launch" else (_CONVOLUTIONS if family else _OTHERS)[unit]
    errors = math.sqrt(common) * _normal(family, unit) + math.sqrt(1 - common) * _normal(name, unit)
    ways = _NORMAL[errors.argsort().argsort()] / _NINE_IN_TEN
    drawn: Floats = np.where(ways > 0, high, low) ** np.abs(ways)
    return drawn


def _normal(name: str, unit: ComputeUnit) -> Floats:
    normal: Floats = _NORMAL[_order(name, unit)]
    return normal


@functools.lru_cache(maxsize=1024)
def _order(name: str, unit: str) -> npt.NDArray[np.int64]:
    """The numbers of all draws in an order that depends on the name and the unit."""
    generator = random.Random(f"{_SEED} {name} {unit}")
    return np.array(sorted(range(DRAWS), key=lambda _: generator.random()))
