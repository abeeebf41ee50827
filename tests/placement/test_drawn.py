"""How often operations go to other units in plans with rates drawn within their intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from coremlscope.planning.placement import drawn as drawn_module
from coremlscope.planning.placement.backend import BACKENDS, Backend, PlannedCost, Rate
from coremlscope.planning.placement.drawn import DRAWS, Cell, draw_costs, draw_launches, draw_shares
from coremlscope.planning.placement.search import Bounds, TransitionCosts, search

FREE = TransitionCosts()
ACCELERATORS: tuple[Backend, ...] = ("mps_graph", "ane")


def rate(name: str) -> Rate:
    return Rate(value=1.0, low=0.5, high=2.0, basis="transferred", publication="M1", name=name)


def cell(ane: float, gpu: float, name: str = "add", width: float = 1.0, is_open: bool = False) -> Cell:
    """Costs whose intervals reach `width` times to either side on both units."""
    prices: dict[Backend, PlannedCost] = {
        backend: PlannedCost(
            ms, "transferred", bounds_ms=(ms / width, ms * width), is_open=is_open, rate=rate(name)
        )
        for backend, ms in (("ane", ane), ("mps_graph", gpu))
    }
    cpu = dict.fromkeys(("bnns", "classic_cpu"), PlannedCost(100.0, "recovered"))
    return Cell(name, ACCELERATORS, prices | cpu, {b: cost.ms for b, cost in prices.items()})


def shares(
    cells: Sequence[Cell], transition_costs: TransitionCosts = FREE, chosen: Backend = "ane"
) -> list[dict[str, float]]:
    return draw_shares({"all": cells}, {"all": [chosen] * len(cells)}, transition_costs)["all"]


def test_exact_costs_are_not_drawn() -> None:
    cells = [cell(1.0, 2.0), cell(1.0, 1.0)]
    assert draw_shares({"all": cells, "cpu_only": cells}, {"all": ["ane"] * 2}, FREE) == {}
    # A launch of the GPU is uncertain only where the setting allows the GPU.
    launch = TransitionCosts({"mps_graph": 0.2}, 0.0, {}, {"mps_graph": Bounds(0.1, 0.4)})
    settings = {"all": cells, "cpu_and_ne": cells}
    assert set(draw_shares(settings, {name: ["ane"] * 2 for name in settings}, launch)) == {"all"}


def test_equal_uncertain_costs_go_either_way_half_the_time() -> None:
    (found,) = shares([cell(1.0, 1.0, width=2.0)])
    assert set(found) == {"gpu"}
    assert found["gpu"] == pytest.approx(0.5, abs=0.05)


def test_the_share_follows_from_the_interval() -> None:
    """Both logarithms have a standard deviation of ln 2 / 1.645, their difference 1.41 times that."""
    (found,) = shares([cell(1.0, 1.4, width=2.0)])
    assert found["gpu"] == pytest.approx(0.286, abs=0.05)
    assert shares([cell(1.0, 40.0, width=2.0)]) == [{}]


def test_operations_of_a_class_go_together() -> None:
    """A launch of 0.5 ms is as much as ten operations save; each alone would stay."""
    launch = TransitionCosts({"mps_graph": 0.5, "ane": 0.5}, 0.0, {})
    found = shares([cell(1.0, 1.0, width=1.5)] * 10, launch)
    assert len({share["gpu"] for share in found}) == 1
    assert found[0]["gpu"] == pytest.approx(0.5, abs=0.05)


def test_open_costs_are_drawn_evenly() -> None:
    """Of the logarithms from 1 to 16 times, those below 2 are a quarter."""
    prices = dict(cell(2.0, 1.0).prices)
    prices["mps_graph"] = PlannedCost(
        16.0, "assumed", bounds_ms=(1.0, 16.0), is_open=True, rate=rate("bytes")
    )
    one = Cell("lstm", ACCELERATORS, prices, {b: prices[b].ms for b in ACCELERATORS})
    assert shares([one]) == [{"gpu": 0.25}]


def test_uncertain_launches_are_drawn() -> None:
    launch = TransitionCosts(
        {"mps_graph": 0.5, "ane": 0.5}, 0.0, {}, {"mps_graph": Bounds(0.25, 1.0), "ane": Bounds(0.5, 0.5)}
    )
    (found,) = shares([cell(1.0, 1.0)], launch)
    assert found["gpu"] == pytest.approx(0.5, abs=0.02)


def test_an_operation_without_a_unit_does_not_cut_the_path() -> None:
    unknown = Cell("odd", (), cell(1.0, 1.0).prices, dict.fromkeys(("bnns", "classic_cpu"), 0.0))
    found = draw_shares({"all": [cell(1.0, 1.0, width=2.0), unknown]}, {"all": ["ane", "bnns"]}, FREE)["all"]
    assert found[0]["gpu"] == pytest.approx(0.5, abs=0.05)
    assert found[1] == {}


def test_shares_are_those_of_single_plans() -> None:
    cells = [
        cell(1.0, 1.1, "linear", 1.4),
        cell(0.5, 0.4, "add", 2.0),
        cell(1.0, 1.6, "convolution, dense", 3.0),
        cell(0.3, 0.3, "convolution, medium", 1.2),
    ]
    transition_costs = TransitionCosts(
        {"mps_graph": 0.2, "ane": 0.1}, 0.05, {"ane": 0.1}, {"mps_graph": Bounds(0.1, 0.4)}
    )
    chosen = search([one.costs_ms for one in cells], transition_costs).backends
    found = draw_shares({"all": cells}, {"all": chosen}, transition_costs)["all"]
    drawn = [draw_costs(one.type, one.prices) for one in cells]
    launches = draw_launches(transition_costs)
    elsewhere = np.zeros(len(cells))
    for draw in range(DRAWS):
        costs = [{b: float(of_op[BACKENDS.index(b), draw]) for b in ACCELERATORS} for of_op in drawn]
        launch = {b: float(launches[place, draw]) for place, b in enumerate(BACKENDS)}
        path = search(costs, TransitionCosts(launch, 0.05, {"ane": 0.1})).backends
        elsewhere += [one != planned for one, planned in zip(path, chosen, strict=True)]
    assert [sum(share.values()) for share in found] == pytest.approx(list(elsewhere / DRAWS))


def test_shares_are_the_same_again_in_parts_and_beside_other_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cells = [cell(1.0, 1.1, name, 1.5) for name in ("add", "mul", "linear", "matmul")]
    alone = shares(cells)
    assert any(alone)
    assert shares(cells) == alone
    settings = {"all": cells, "cpu_and_gpu": [cell(1.0, 1.0)] * 4}
    chosen: dict[str, list[Backend]] = {"all": ["ane"] * 4, "cpu_and_gpu": ["mps_graph"] * 4}
    assert draw_shares(settings, chosen, FREE)["all"] == alone  # type: ignore[arg-type]
    monkeypatch.setattr(drawn_module, "_MOST", 4 * 64)
    assert shares(cells) == alone
