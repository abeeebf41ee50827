"""The plan that rates at the ends of their intervals lead to."""

from __future__ import annotations

from coremlscope.planning.placement.backend import Backend, PlannedCost, Rate
from coremlscope.planning.placement.rivals import Cell, find_rival
from coremlscope.planning.placement.search import Bounds, TransitionCosts

FREE = TransitionCosts()
ACCELERATORS: tuple[Backend, ...] = ("mps_graph", "ane")


def rate(name: str) -> Rate:
    return Rate(value=1.0, low=0.5, high=2.0, basis="transferred", publication="M1", name=name)


def cell(ane: float, gpu: float, name: str = "add", width: float = 1.0) -> Cell:
    """Costs whose intervals reach `width` times to either side on both units."""
    prices: dict[Backend, PlannedCost] = {
        backend: PlannedCost(ms, "transferred", bounds_ms=(ms / width, ms * width), rate=rate(name))
        for backend, ms in (("ane", ane), ("mps_graph", gpu))
    }
    cpu = dict.fromkeys(("bnns", "classic_cpu"), PlannedCost(100.0, "recovered"))
    return Cell(name, ACCELERATORS, prices | cpu, {b: cost.ms for b, cost in prices.items()})


def test_exact_costs_have_no_other_plan() -> None:
    cells = [cell(1.0, 2.0), cell(1.0, 1.0)]
    assert find_rival(cells, ["ane"] * 2, FREE, "all") == ()


def test_a_plan_within_the_intervals_is_found_and_one_beyond_is_not() -> None:
    assert find_rival([cell(1.0, 1.5, width=2.0)], ["ane"], FREE, "all") == ("gpu",)
    assert find_rival([cell(1.0, 2.5, width=2.0)], ["ane"], FREE, "all") == ()


def test_operations_of_a_class_go_together_and_others_stay() -> None:
    """A launch of 0.5 ms is as much as ten operations save; each alone would stay."""
    launch = TransitionCosts({"mps_graph": 0.5, "ane": 0.5}, 0.0, {})
    several = [cell(1.0, 1.1, "linear, large", 1.5)] * 10
    assert find_rival(several, ["ane"] * 10, launch, "all") == ("gpu",) * 10
    mixed = [*several, *[cell(1.0, 50.0, "convolution, dense", 1.1)] * 2]
    assert find_rival(mixed, ["ane"] * 12, launch, "all") == ("gpu",) * 10 + ("neural_engine",) * 2


def test_an_uncertain_launch_counts_where_the_setting_allows_its_unit() -> None:
    launch = TransitionCosts({"mps_graph": 0.5, "ane": 0.4}, 0.0, {}, {"mps_graph": Bounds(0.25, 1.0)})
    cells = [cell(1.0, 1.0)]
    assert find_rival(cells, ["ane"], launch, "all") == ("gpu",)
    assert find_rival(cells, ["ane"], launch, "cpu_only") == ()


def test_an_operation_without_a_unit_does_not_cut_the_path() -> None:
    unknown = Cell("odd", (), cell(1.0, 1.0).prices, dict.fromkeys(("bnns", "classic_cpu"), 0.0))
    found = find_rival([cell(1.0, 1.2, width=2.0), unknown], ["ane", "bnns"], FREE, "all")
    assert found == ("gpu", "cpu")


def test_of_several_plans_the_one_that_differs_most_is_taken() -> None:
    few = [cell(1.0, 1.2, "linear, large", 1.5)]
    many = [cell(1.0, 1.2, "convolution, dense", 1.5)] * 3
    assert find_rival([*few, *many], ["ane"] * 4, FREE, "all") == ("neural_engine", "gpu", "gpu", "gpu")
