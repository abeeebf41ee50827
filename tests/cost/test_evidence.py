"""Published latencies that are shipped, the distance of structures, and the nearest rows."""

from __future__ import annotations

import gzip
import math

import numpy as np
import pytest

from benchmarks.latency.dataset import load_measurements, load_networks
from benchmarks.latency.shipped_evidence import EVIDENCE, published
from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, all_chips
from coremlscope.planning.cost.latency.evidence import find_nearest, load_evidence, write_evidence
from coremlscope.planning.cost.latency.structure import distance, structure_of
from coremlscope.planning.cost.latency.table import KernelTable

NETWORKS = load_networks()


def structure(name: str):
    network = NETWORKS[name]
    return structure_of(network.table, network.times)


def test_the_shipped_table_is_that_of_the_measurements() -> None:
    assert gzip.decompress(EVIDENCE.read_bytes()) == gzip.decompress(write_evidence(published())), (
        "run `python -m benchmarks.latency calibrate`"
    )


def test_every_row_is_shipped_small_and_with_its_source() -> None:
    rows = load_evidence()
    assert len(rows) == sum(m.ran_on not in ("", "idle") and m.is_fitted for m in load_measurements())
    assert all(row.publication and row.chip in all_chips() for row in rows)
    assert sum(row.url.startswith("http") for row in rows) > 0.5 * len(rows)
    assert EVIDENCE.stat().st_size < 40_000


def test_weights_count_in_every_kernel_of_a_network() -> None:
    """ResNet50 has 25.6 million parameters."""
    rows = (row for row in load_evidence() if (row.network, row.precision) == ("resnet50-224", "fp16"))
    assert next(rows).structure.weight_bytes == pytest.approx(51.1e6, rel=0.02)


def test_sizes_by_hand() -> None:
    columns = {name: [0.0, 0.0] for name in KernelTable.__struct_fields__}
    columns |= {"kind": [0.0, 7.0], "macs": [100.0, 0.0], "inputs": [10.0, 4.0], "outputs": [20.0, 4.0]}
    columns |= {"weight_bytes": [50.0, 0.0]}
    found = structure_of(KernelTable.of_columns(columns), np.array([2.0, 3.0]))
    assert (found.kernels, found.macs, found.dense, found.weight_bytes) == (5, 200, 200, 50)
    assert (found.matrix, found.simple, found.traffic) == (60, 24, 84)


def test_equal_structures_are_at_no_distance_and_like_ones_are_near() -> None:
    resnet = structure("resnet50-224")
    assert distance(resnet, resnet) == 0
    assert distance(resnet, structure("resnet101-224")) < 0.5
    assert distance(resnet, structure("resnet101-224")) < distance(resnet, structure("mobilenet_v2-224"))
    assert distance(resnet, structure("poolformer_s12-224")) > 0.5


def test_distance_is_symmetric() -> None:
    names = ["resnet50-224", "mobilenet_v2-224", "densenet121-224"]
    for one in names:
        for other in names:
            assert distance(structure(one), structure(other)) == pytest.approx(
                distance(structure(other), structure(one))
            )


@pytest.mark.parametrize("unit", [NEURAL_ENGINE, CPU, GPU])
def test_the_nearest_rows_are_of_the_unit_and_begin_with_the_network_itself(unit: str) -> None:
    rows = find_nearest(structure("resnet50-224"), unit, all_chips()["a13"])
    assert len(rows) == 5
    assert {row.unit for row in rows} == {unit}
    assert rows[0].network == "resnet50-224"
    assert len({(r.network, r.publication, r.chip, r.precision) for r in rows}) == 5
    assert max(sum(row.network == name for row in rows) for name in {row.network for row in rows}) <= 2


def test_rows_of_the_same_chip_come_first() -> None:
    for chip in ("a14", "a15", "a16"):
        row = find_nearest(structure("mobilenet_v2-224"), NEURAL_ENGINE, all_chips()[chip])[0]
        assert row.chip == chip
        assert 0.3 < row.estimated_s / row.measured_s < 3
        assert math.isfinite(row.distance)
