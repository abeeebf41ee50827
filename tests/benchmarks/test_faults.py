"""The generator of sound networks and damaged twins."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch

from benchmarks.faults.__main__ import Score, score_verdicts
from benchmarks.faults.networks import NETWORKS, Network, build
from benchmarks.faults.twins import COUNT, permute_classes, twins_of


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_twins_are_the_network_but_for_one_mistake(network: Network) -> None:
    module = build(network, 0)
    twins = list(twins_of(network, module, 0))
    assert len(twins) == COUNT
    with torch.no_grad():
        x = network.draw(5)
        right, *wrong = (
            [one] if isinstance(one, torch.Tensor) else one
            for one in (part(x) for part in (module, *(twin.module for twin in twins)))
        )
    differ = [any(not torch.equal(a, b) for a, b in zip(right, one, strict=True)) for one in wrong]
    assert sum(differ) >= COUNT - 2
    if network.is_classifier:
        with torch.no_grad():
            permuted = permute_classes(module, 1)(x)
        assert torch.allclose(permuted.sort().values, right[0].sort().values, rtol=1e-4)
        assert not torch.equal(permuted, right[0])


def test_verdicts_of_one_network_are_right(tmp_path: Path) -> None:
    score = Score()
    score_verdicts(score, 0, tmp_path, {"plain"})
    assert not score.wrong
    assert score.counts["sound: right"] == 2
    assert score.counts["unlike: right"] == 2
