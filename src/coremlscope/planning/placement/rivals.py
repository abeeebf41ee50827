"""Plans a list of operations again with rates at the ends of their intervals: which other plan is possible.

The rates of one class of operations on one unit are wrong together, so that operations move together: each
class (convolutions, linear layers, launches, the rest) is taken at both ends of its interval on each unit,
one at a time. Of these plans, the one that differs most is what the evidence leaves open.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec
import numpy as np

from coremlscope.devices.unit import SETTINGS, UNITS, ComputeUnit, ComputeUnits
from coremlscope.planning.placement.backend import BACKENDS, UNIT_OF, Backend, PlannedCost
from coremlscope.planning.placement.search import Bounds, Floats, TransitionCosts, by_backend, find_paths

_LAUNCH = "launch"
_CLASSES = ("convolution", "linear", _LAUNCH, "")
#: A hypothesis: a class on a unit, at the low or the high end of its interval.
_Hypothesis = tuple[str, ComputeUnit, bool]


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


def is_exact(cells: Sequence[Cell], transition_costs: TransitionCosts, setting: ComputeUnits) -> bool:
    """Returns True if all costs are known exactly on the units of a setting."""
    launches = transition_costs.launch_bounds.items()
    costs = (cell.prices[backend] for cell in dict.fromkeys(cells) for backend in cell.allowed)
    return all(cost.low == cost.high for cost in costs) and all(
        bounds.low == bounds.high for backend, bounds in launches if UNIT_OF[backend] in SETTINGS[setting]
    )


def find_rival(
    cells: Sequence[Cell],
    chosen: Sequence[Backend],
    transition_costs: TransitionCosts,
    setting: ComputeUnits,
) -> tuple[ComputeUnit, ...]:
    """Returns the unit of each operation in the plan that differs most; empty if all are the same.

    Args:
        cells: The costs of each operation; equal operations share one.
        chosen: The backend of each operation as planned.
        transition_costs: The costs of a path besides its operations.
        setting: The setting of compute units.
    """
    kinds = {cell: place for place, cell in enumerate(dict.fromkeys(cells))}
    hypotheses = _hypotheses(kinds, transition_costs, setting, set(zip(cells, chosen, strict=True)))
    if not kinds or not hypotheses:
        return ()
    planned = np.array([[BACKENDS.index(backend)] for backend in chosen], dtype=np.uint8)
    places, _, _ = find_paths(
        np.stack([_prices(cell, hypotheses) for cell in kinds]),
        [kinds[cell] for cell in cells],
        _launches(transition_costs, hypotheses),
        transition_costs.switch_ms,
        np.array([by_backend(transition_costs.finish_ms, 0.0)]).T,
        np.repeat(planned, len(hypotheses), axis=1),
    )
    unit_of = np.array([UNITS.index(UNIT_OF[backend]) for backend in BACKENDS])
    units, mine = unit_of[places], unit_of[planned]
    moved = (units != mine).sum(axis=0)
    most = int(moved.argmax())
    return tuple(UNITS[place] for place in units[:, most]) if moved[most] else ()


def _hypotheses(
    cells: Mapping[Cell, int],
    transition_costs: TransitionCosts,
    setting: ComputeUnits,
    planned: Collection[tuple[Cell, Backend]],
) -> list[_Hypothesis]:
    """Returns the ends of every class on every unit whose rates are not exact, and that may change the plan.

    A plan stays the cheapest where only what it does not use costs more, and where all that costs less is on
    the unit already.
    """
    if len(SETTINGS[setting]) == 1:
        return []
    found = {
        (_class(cell, backend), UNIT_OF[backend])
        for cell in cells
        for backend in cell.allowed
        if cell.prices[backend].low != cell.prices[backend].high
    }
    found |= {
        (_LAUNCH, UNIT_OF[backend])
        for backend, bounds in transition_costs.launch_bounds.items()
        if bounds.low != bounds.high and UNIT_OF[backend] in SETTINGS[setting]
    }
    used = {(_class(cell, backend), UNIT_OF[backend]) for cell, backend in planned}
    used |= {(_LAUNCH, unit) for _, unit in used}
    open_ = {
        (_class(cell, other), UNIT_OF[other])
        for cell, backend in planned
        for other in cell.allowed
        if other != backend
    }
    launches = {one for one in found if one[0] == _LAUNCH}
    ends = ((False, open_ | launches), (True, used))
    return [(*one, is_high) for one in sorted(found) for is_high, telling in ends if one in telling]


def _class(cell: Cell, backend: Backend) -> str:
    """Returns the class whose rate an operation's cost comes from; the empty one for the rest."""
    rate = cell.prices[backend].rate
    name = cell.type if rate is None else rate.name
    return next(one for one in _CLASSES if name.startswith(one))


def _prices(cell: Cell, hypotheses: Sequence[_Hypothesis]) -> Floats:
    """Costs by backend and hypothesis; infinite where a backend does not run the operation."""
    found = np.repeat(np.array(by_backend(cell.costs_ms))[:, np.newaxis], len(hypotheses), axis=1)
    for backend in cell.allowed:
        cost, name, unit = cell.prices[backend], _class(cell, backend), UNIT_OF[backend]
        for is_high, ms in (False, cost.low), (True, cost.high):
            if (name, unit, is_high) in hypotheses:
                found[BACKENDS.index(backend), hypotheses.index((name, unit, is_high))] = ms
    return found


def _launches(transition_costs: TransitionCosts, hypotheses: Sequence[_Hypothesis]) -> Floats:
    rows = []
    for backend in BACKENDS:
        ms = transition_costs.launch_ms.get(backend, 0.0)
        bounds = transition_costs.launch_bounds.get(backend, Bounds(ms, ms))
        ends = {
            (_LAUNCH, UNIT_OF[backend], False): bounds.low,
            (_LAUNCH, UNIT_OF[backend], True): bounds.high,
        }
        rows.append([ends.get(hypothesis, ms) for hypothesis in hypotheses])
    return np.array(rows)
