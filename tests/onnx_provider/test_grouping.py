"""The formula of partitions next to the walk of queues from which it is derived."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence

import pytest

from coremlscope.formats.onnx.graph import Node
from coremlscope.planning.onnxruntime.grouping import group
from tests.onnx_provider.build import Built


def _walk(nodes: Sequence[Node], taken: Sequence[bool]) -> list[list[int]]:
    """The algorithm as it is described: a queue of ready nodes, and one of nodes of the next wave."""
    makers = {name: index for index, node in enumerate(nodes) for name in node.outputs}
    sources = [{makers[name] for name in node.inputs if name in makers} for node in nodes]
    left = [len(one) for one in sources]
    ready = deque(index for index, count in enumerate(left) if not count)
    waiting: deque[int] = deque()
    groups, open_group = [], set()
    while ready or waiting:
        if not ready:
            if open_group:
                groups.append(sorted(open_group))
            open_group, ready, waiting = set(), waiting, deque()
            continue
        index = ready.popleft()
        if taken[index]:
            open_group.add(index)
        elif sources[index] & open_group:
            waiting.append(index)
            continue
        for other, one in enumerate(sources):
            if index in one:
                left[other] -= 1
                if not left[other]:
                    ready.append(other)
    if open_group:
        groups.append(sorted(open_group))
    return groups


@pytest.mark.parametrize("seed", range(200))
def test_the_formula_agrees_with_the_queues(seed: int) -> None:
    chance = random.Random(seed)
    nodes = []
    for index in range(chance.randint(1, 25)):
        given = chance.sample(range(index), min(index, chance.randint(0, 3)))
        nodes.append(
            Node(
                op="Relu",
                domain="",
                name="",
                inputs=tuple(f"v{one}" for one in given),
                outputs=(f"v{index}",),
                attributes={},
            )
        )
    taken = [chance.random() < 0.6 for _ in nodes]
    assert group(nodes, taken) == _walk(nodes, taken)


def test_a_second_round() -> None:
    built = Built(opset=14)
    value = built.input([1, 3, 8, 8])
    for index in range(22):
        weight = built.constant([[[[0.0]] * 1] * 3] * 3)
        weight = built.constant([[[[0.0]]] * 3] * 3)
        value = built.node("Conv", value, weight, shape=[1, 3, 8, 8])
        if index < 21:
            value = built.node("HardSwish", value, shape=[1, 3, 8, 8])
    report = built.divide("mlprogram", (1, 32)).report
    assert [(one.partitions, one.nodes, one.supported) for one in report.rounds] == [
        (22, 43, 22),
        (21, 64, 42),
    ]
    assert report.models == 43
    assert (report.inside, report.outside) == (64, 0)


@pytest.mark.parametrize(("opset", "nodes", "supported"), [(18, 25, 14), (21, 29, 14)])
def test_a_group_normalization_that_is_expanded(opset: int, nodes: int, supported: int) -> None:
    built = Built(opset)
    value = built.input([1, 8, 4, 4])
    relu = built.node("Relu", value, shape=[1, 8, 4, 4])
    weights = [built.constant([0.0] * (2 if opset == 18 else 8)) for _ in range(2)]
    norm = built.node("GroupNormalization", relu, *weights, shape=[1, 8, 4, 4], num_groups=2)
    built.node("Relu", norm, shape=[1, 8, 4, 4])
    rounds = built.divide("neuralnetwork").report.rounds
    assert [(one.partitions, one.nodes, one.supported) for one in rounds] == [
        (2, 3, 2),
        # Each partition of the first round is one operator, which Core ML does not get again.
        (rounds[1].partitions, nodes + 2, supported),
    ]
    assert [one.models for one in (built.divide("mlprogram").report,)] == [1]


def test_trivial_groups_are_dropped() -> None:
    built = Built()
    first = built.node("Transpose", built.input([2, 3]), shape=[3, 2], perm=[1, 0])
    kept = built.node("Relu", built.node("NonZero", first, shape=[2, None]), shape=[2, None])
    built.node("Sigmoid", kept, shape=[2, None])
    assert (built.divide(release=(1, 26)).report.partitions, built.divide().report.partitions) == (2, 1)
    assert [one.rule for one in built.divide().report.left] == ["trivial-group", "no-builder"]
