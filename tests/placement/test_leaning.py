"""Which operations are undecided because of their costs' intervals."""

from __future__ import annotations

from coremlscope.devices import CPU, GPU, NEURAL_ENGINE
from coremlscope.placement.backend import PlannedCost, Rate
from coremlscope.placement.leaning import Cell, leaning_paths
from coremlscope.placement.search import TransitionCosts

BACKENDS = ("mps_graph", "ane")
FREE = TransitionCosts()


def rate(name: str) -> Rate:
    return Rate(value=1.0, low=0.5, high=2.0, basis="transferred", publication="M1", name=name)


def cell(ane: float, gpu: float, name: str, width: float = 1.0, is_open: bool = False) -> Cell:
    """Costs whose intervals reach `width` times to either side on both units."""
    prices = {
        backend: PlannedCost(
            ms, "transferred", bounds_ms=(ms / width, ms * width), is_open=is_open, rate=rate(name)
        )
        for backend, ms in (("ane", ane), ("mps_graph", gpu))
    }
    return Cell(BACKENDS, prices, {backend: cost.ms for backend, cost in prices.items()})


def chosen_at_some_end(cells: list[Cell]) -> list[set[str]]:
    paths = leaning_paths(cells, ["ane"] * len(cells), FREE, (NEURAL_ENGINE, GPU, CPU))
    return [{path[index] for path in paths} for index in range(len(cells))]


def test_costs_without_intervals_change_nothing() -> None:
    assert leaning_paths([cell(1.0, 2.0, "add")], ["ane"], FREE, (NEURAL_ENGINE, GPU)) == []


def test_a_choice_that_hangs_on_one_class_is_found() -> None:
    """The ratio of 1.8 lies between what all classes together change, and what one does: 3^0.5, 3^0.72."""
    alone = cell(1.0, 1.8, "linear", 3.0)
    assert chosen_at_some_end([alone]) == [{"ane"}]
    assert chosen_at_some_end([alone, cell(1.0, 9.0, "add", 1.1)]) == [{"ane", "mps_graph"}, {"ane"}]
    decided = cell(1.0, 2.4, "linear", 3.0)
    assert chosen_at_some_end([decided, cell(1.0, 9.0, "add", 1.1)]) == [{"ane"}] * 2


def test_costs_of_which_nothing_is_published_go_all_the_way() -> None:
    assert chosen_at_some_end([cell(1.0, 8.0, "lstm", 3.0)]) == [{"ane"}]
    assert chosen_at_some_end([cell(1.0, 8.0, "lstm", 3.0, is_open=True)]) == [{"ane", "mps_graph"}]
