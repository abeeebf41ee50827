"""Published figures of Neural Engines while they run."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from coremlscope import api
from coremlscope.devices import all_chips
from coremlscope.formats.sample import sample_model
from coremlscope.planning.cost.latency.geometry import Geometry
from coremlscope.planning.cost.latency.kernels import Kernel
from coremlscope.planning.cost.latency.running import describe_run, find_slow_loads, load_runs
from coremlscope.planning.cost.latency.table import KernelTable


def test_every_row_is_of_a_chip_and_has_a_source() -> None:
    for row in load_runs():
        assert row.chip in all_chips()
        assert 0 < row.low <= row.high
        assert row.publication


@pytest.mark.parametrize(("share", "count"), [(1.0, 2), (0.7, 1), (0.2, 0)])
def test_power_is_told_of_what_runs_wholly_on_the_neural_engine(share: float, count: int) -> None:
    found = api.estimate(sample_model(size=224), ["m1"], compute_units=["cpu_and_ne"]).estimates[0]
    placed = replace(found, placement={"neural_engine": share, "cpu": 1 - share})
    assert len(list(describe_run(placed))) == count


@pytest.mark.parametrize(
    ("chip", "layers", "megabytes", "share", "count"),
    [
        ("m6", 6, 40, 0.9, 1),
        ("m4", 6, 40, 0.9, 0),
        ("m6", 5, 60, 0.9, 0),
        ("m6", 6, 40, 0.1, 0),
        ("m6", 6, 1, 0.9, 0),
    ],
)
def test_slow_loads_are_told_of_deep_encoders_on_chips_where_they_were_seen(
    chip: str, layers: int, megabytes: int, share: float, count: int
) -> None:
    found = api.estimate(sample_model(size=224), [chip]).estimates[0]
    placed = replace(found, placement={"neural_engine": share, "cpu": 1 - share})
    attention = Kernel(kind="attention", ops=[], name="", geometry=Geometry(), weight_bytes=megabytes * 1e6)
    assert len(list(find_slow_loads([placed], KernelTable.of([attention] * layers)))) == count
