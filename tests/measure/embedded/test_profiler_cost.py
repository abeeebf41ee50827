"""Times of loops without the time that the engine's profiler takes to record their steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from coremltools.models.neural_network import NeuralNetworkBuilder

from coremlscope.measure.embedded.attribution import Attribution, NodeGroup
from coremlscope.measure.embedded.profiler_cost import GroupTimes, time_groups
from coremlscope.reports.markdown.writer import write_markdown
from coremlscope.reports.renderers import document_of
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.reports.timing import nodes_line
from coremlscope.results.measurement import Settings, Status
from coremlscope.results.profile import Profile
from coremlscope.runtime.engines.base import EngineNode, NodeProfile
from coremlscope.runtime.engines.scripted import ScriptedClock, ScriptedEngine
from tests.support.ir_models import perceptron
from tests.support.measuring import joined_rows, measure, op_ids
from tests.support.networks import network, read

#: Seconds of a record: a power of two, so that sums are exact.
RECORD_S = 2.0**-20


def _node(name: str, *seconds: float, outer: int | None = None, runs: int = 2) -> EngineNode:
    return EngineNode(name=name, op_type="Op", inputs=(), outputs=(), seconds=seconds, outer=outer, runs=runs)


def _times(plain_s: float, *parts: tuple[float, int]) -> GroupTimes:
    """Times groups of one node, each with its time and its nested executions in each of two runs."""
    nodes: list[EngineNode] = []
    groups = []
    ops = [f"main/{index}" for index in range(len(parts))]
    for op, (seconds, steps) in zip(ops, parts, strict=True):
        groups.append(NodeGroup((op,), (len(nodes),)))
        nodes.append(_node(op, *(seconds + steps * RECORD_S,) * 2))
        if steps:
            nodes.append(_node(f"{op}/body", 0.0, 0.0, outer=len(nodes) - 1, runs=2 * steps))
    run_s = sum(node.seconds[0] for node in nodes) + len(parts) * RECORD_S
    status: dict[str, Status] = dict.fromkeys(ops, "timed")
    attribution = Attribution(tuple(groups), status, {op: index for index, op in enumerate(ops)})
    return time_groups(attribution, NodeProfile(tuple(nodes), (run_s, run_s), 0), plain_s)


def test_records_are_taken_off_the_loop_that_contains_them() -> None:
    times = _times(0.25, (0.1875, 2**20), (0.0625, 0))
    assert times.seconds == (pytest.approx((0.1875,) * 2), (0.0625,) * 2)
    assert (times.executions, times.recording_s) == (2**20, pytest.approx(1.0))
    assert times.joined == ()


def test_without_loops_nothing_is_taken_off() -> None:
    times = _times(0.01, (0.1875, 0), (0.0625, 0))
    assert times.seconds == ((0.1875,) * 2, (0.0625,) * 2)
    assert (times.executions, times.recording_s) == (0, 0.0)


def test_nothing_is_taken_off_if_the_profiler_costs_nothing() -> None:
    times = _times(9.0, (0.1875, 1000), (0.0625, 0))
    assert times.recording_s == 0.0
    assert times.seconds[1] == (0.0625,) * 2


def test_loops_that_the_records_decide_are_one_group() -> None:
    # Records take a second in each loop: whether they take one or 0.9 s decides what is left of it.
    times = _times(0.1875, (0.0625, 2**20), (0.0625, 0), (0.0625, 2**20))
    attribution = times.attribution
    assert [group.ops for group in attribution.groups] == [("main/0", "main/2"), ("main/1",)]
    assert attribution.group == {"main/0": 0, "main/1": 1, "main/2": 0}
    assert attribution.status == {"main/0": "fused", "main/1": "timed", "main/2": "fused"}
    assert times.seconds == (pytest.approx((0.125,) * 2), (0.0625,) * 2)
    assert [group.ops for group in times.joined] == [("main/0",), ("main/2",)]


def test_loops_that_take_much_longer_than_their_records_stay_apart() -> None:
    times = _times(16.0, (8.0, 2**20), (8.0, 2**20))
    assert [group.ops for group in times.attribution.groups] == [("main/0",), ("main/1",)]
    assert times.seconds == (pytest.approx((8.0,) * 2), pytest.approx((8.0,) * 2))


def test_a_loop_that_the_records_of_other_operations_decide_is_not_told_apart() -> None:
    # The records of a thousand operations outside the loop take longer than the loop.
    times = _times(3 * RECORD_S, (RECORD_S, 100), *[(0.0, 0)] * 1000)
    assert len(times.attribution.groups) == 1
    assert len(times.joined) == 1001


def _loop(builder: NeuralNetworkBuilder, name: str, iterations: int) -> None:
    """Adds a loop that overwrites `y` a number of times."""
    layer = builder.spec.neuralNetwork.layers.add(name=name)
    layer.loop.maxLoopIterations = iterations
    body = NeuralNetworkBuilder(nn_spec=layer.loop.bodyNetwork, disable_rank5_shape_mapping=True)
    body.add_activation(f"{name}_tanh", "TANH", "y", f"{name}_y")
    body.add_copy(f"{name}_copy", f"{name}_y", "y")


def _profile(**script: Any) -> Profile:
    builder = network({"x": (8,)}, exact=True)
    builder.add_activation("first", "SIGMOID", "x", "y")
    _loop(builder, "one", 400)
    _loop(builder, "two", 400)
    clock = ScriptedClock()
    engine = ScriptedEngine(clock=clock, run_s=(0.375,), **script)
    settings = Settings(iterations=4, compile_iterations=1, load_iterations=1, warmups=1)
    return measure(read(builder), settings, engine=engine, clock=clock)


def _loops(profile: Profile) -> dict[str, str]:
    """The names of the nodes of loops, by layer."""
    rows = [row for row in joined_rows(profile) if row.type == "while_loop"]
    return {str(row.layer): f"{row.id}/Loop:0" for row in rows}


def test_a_profile_of_loops_adds_up_to_the_prediction() -> None:
    names = _loops(_profile())
    assert list(names) == ["one", "two"]
    first = next(row.id for row in joined_rows(_profile()) if row.layer == "first")
    node_s = {f"{first}/Sigmoid:0": (0.125,), names["one"]: (0.125,), names["two"]: (0.125,)}
    profile = _profile(node_s=node_s, inner_runs=dict.fromkeys(names.values(), 400), record_s=RECORD_S)
    times = [group.wall_s for group in profile.measurement.groups if group.wall_s > 0.01]
    assert times == pytest.approx([0.125] * 3, rel=0.01)
    assert profile.measurement.nodes.nested_executions > 800
    assert "to record steps of loops, which is taken off" in nodes_line(profile.measurement)


def test_loops_that_cannot_be_told_apart_are_said_to_be_timed_together() -> None:
    names = _loops(_profile())
    node_s = dict.fromkeys(names.values(), (0.125,))
    profile = _profile(node_s=node_s, inner_runs=dict.fromkeys(names.values(), 400), record_s=2.0**-10)
    together = next(group for group in profile.measurement.groups if len(group.ops) == 2)
    assert together.wall_s == pytest.approx(0.375, rel=0.05)
    finding = next(f for f in profile.all_findings if f.id == "loops-timed-together")
    assert finding.ops == op_ids(profile, together)
    assert not any(f.id == "profiler-overhead" for f in profile.all_findings)
    total = sum(group.share for group in profile.measurement.groups)
    np.testing.assert_allclose(total, 1.0)


@pytest.mark.parametrize(("run_s", "has_shares"), [(0.25, True), (0.0625, False)])
def test_shares_that_the_profiler_decides_are_left_out(run_s: float, has_shares: bool) -> None:
    clock = ScriptedClock()
    names = ("main/1/Gemm:0", "main/2/Relu:0")
    engine = ScriptedEngine(clock=clock, run_s=(run_s,), node_s=dict.fromkeys(names, (0.125,)))
    settings = Settings(iterations=4, compile_iterations=1, load_iterations=1, warmups=1)
    profile = measure(perceptron(), settings, engine=engine, clock=clock)
    assert sum(group.wall_s for group in profile.measurement.groups) == pytest.approx(0.25, rel=0.01)
    shares = [group.share for group in profile.measurement.groups if group.wall_s > 0.01]
    assert shares == ([pytest.approx(0.5, rel=0.01)] * 2 if has_shares else [None] * 2)
    assert ("50.0 %" in write_terminal(document_of(profile))) is has_shares
    assert ("50.0 %" in write_markdown(document_of(profile))) is has_shares
    finding = [one for one in profile.all_findings if one.id == "profiler-overhead"]
    assert bool(finding) is not has_shares
