"""The comparison of operations by counts, with and without open ones."""

from __future__ import annotations

from benchmarks.plan.counting import CountedNetworks
from coremlscope.results.plan import Choice


def test_open_operations_count_for_either_unit_in_the_second_figures() -> None:
    found = CountedNetworks("networks")
    sure = Choice(backend="mps_graph", unit="gpu")
    open_ = Choice(backend="mps_graph", unit="gpu", alternatives={"cpu": "rates"})
    found.compare("open", {"gpu": 8, "cpu": 2}, [sure] * 7 + [open_] * 3)
    found.compare("wrong", {"gpu": 8, "cpu": 2}, [sure] * 10)
    agreement = found.finished()
    assert (agreement.right, agreement.total) == (0, 2)
    assert agreement.misses[0] == "open: cpu 2 gpu 8, ours gpu 10"
    assert agreement.notes == [
        "with open operations on either unit: 1 of 2 networks",
        "operations on the same unit by counts: 16 of 20 (80.0%), 90.0% with open ones on either",
        "open operations: 15.0%",
    ]


def test_one_operation_in_twenty_may_differ() -> None:
    found = CountedNetworks("networks")
    found.compare("close", {"gpu": 19, "cpu": 1}, [Choice(backend="mps_graph", unit="gpu")] * 20)
    assert found.finished().right == 1
