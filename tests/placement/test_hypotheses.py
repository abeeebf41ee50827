"""Cost of each reason, on chains whose costs are easy to add up."""

from __future__ import annotations

from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, UNITS, find_device, macos
from coremlscope.model import ir
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind
from coremlscope.planning.patterns.rule import ProgramFacts
from coremlscope.planning.patterns.verdict import Reason, Verdict
from coremlscope.planning.placement.backend import BACKENDS, PlannedCost
from coremlscope.planning.placement.coreml_view import view_function
from coremlscope.planning.placement.hypotheses import Planning, Replanned, weigh_reasons
from coremlscope.planning.placement.place import place
from coremlscope.planning.placement.search import TransitionCosts
from tests.support import graphs

_TYPE = graphs.tensor(1, 8, dtype=ir.DType.FP16)
_TRANSITIONS = TransitionCosts({"ane": 1.0, "mps_graph": 1.0}, 1.0, {"ane": 1.0})
_YES = {unit: Verdict(unit, "yes") for unit in UNITS}


def _reason(rule: str, effect: str = "rejects") -> Reason:
    return Reason(unit=NEURAL_ENGINE, rule=rule, text=f"{rule} says so", effect=effect)  # type: ignore[arg-type]


def _no(*rules: str) -> dict[str, Verdict]:
    return {NEURAL_ENGINE: Verdict(NEURAL_ENGINE, "no", tuple(map(_reason, rules)))}


def weigh(count: int, verdicts: dict[int, dict[str, Verdict]], ane: float = 1.0) -> list[Replanned]:
    """A chain where each operation costs `ane` ms on the Neural Engine and 10 ms on the CPU."""
    x = given = graphs.value("x", _TYPE)
    ops = []
    for index in range(count):
        y = graphs.value(f"main/{index}", _TYPE)
        ops.append(graphs.op("relu", y, x=x))
        x = y
    function = ir.Function(
        name="main", opset="CoreML8", graph=graphs.graph("main", (given,), tuple(ops), (x,))
    )
    graph = view_function(bind(function, OPS, None), macos(26))
    known = {node.id: dict(_YES) for node in graph.walk()}
    for index, changed in verdicts.items():
        known[f"main/{index}"] |= changed  # type: ignore[arg-type]

    def pricing(node):
        costs = {"ane": ane, "mps_graph": 20.0, "bnns": 10.0, "classic_cpu": 11.0}
        return {
            backend: PlannedCost(0.0 if node.inserted else costs[backend], "recovered")
            for backend in BACKENDS
        }

    prices = {node.id: pricing(node) for node in graph.walk()}
    placed = place(graph, known, prices, _TRANSITIONS, ["cpu_and_ne"])
    planning = Planning(
        device=find_device("m4"),
        facts=ProgramFacts(),
        graph=graph,
        verdicts=known,
        prices=prices,
        transition_costs=_TRANSITIONS,
        placed=placed,
    )
    found = weigh_reasons(planning, "cpu_and_ne")
    for one in found:
        assert one.total_ms + one.saved_ms == placed.total_ms["cpu_and_ne"]
    return found


def test_a_rule_costs_more_than_the_operation_that_it_holds() -> None:
    (without,) = weigh(5, {2: _no("ne-a")})
    # 3 launches and switches and 4 + 10 ms against one launch and 5 ms, and the end on the Neural Engine.
    assert (without.hypothesis, without.unit, without.ops) == ("without", NEURAL_ENGINE, ("main/2",))
    assert (without.saved_ms, without.switches) == (12.0, 0)
    assert without.moved == {"main/2": NEURAL_ENGINE}


def test_operations_held_by_two_rules_need_both_gone() -> None:
    every, first, second = weigh(5, {2: _no("ne-a", "ne-b")})
    assert (every.hypothesis, every.saved_ms) == ("without all", 12.0)
    assert [(one.hypothesis, one.free, one.saved_ms, dict(one.moved)) for one in (first, second)] == [
        ("without", 0, 0.0, {})
    ] * 2


def test_a_rule_takes_along_what_launches_keep_from_the_unit() -> None:
    found = weigh(3, {1: _no("ne-a")}, ane=8.5)
    (without,) = (one for one in found if one.hypothesis == "without")
    (moved,) = (one for one in found if one.hypothesis == "moved")
    # On the Neural Engine: 25.5 ms, a launch and the end, against 30 ms on the CPU.
    assert (without.saved_ms, set(without.moved.values())) == (2.5, {NEURAL_ENGINE})
    assert {"main/0", "main/1", "main/2"} <= set(without.moved)
    assert moved.ops == ("main/0", "main/2")
    assert (moved.gain_ms, moved.saved_ms < 0) == (3.0, True)


def test_doubts_are_planned_as_if_they_held() -> None:
    doubted = Verdict(NEURAL_ENGINE, "yes", doubts=(_reason("ne-doubtful"),))
    (doubt,) = weigh(5, {2: {NEURAL_ENGINE: doubted}})
    assert (doubt.hypothesis, doubt.saved_ms, dict(doubt.moved)) == ("doubt", -12.0, {"main/2": CPU})


def test_operations_of_which_nothing_is_known_do_not_move() -> None:
    unknown = {unit: Verdict(unit, "unknown") for unit in UNITS}
    found = weigh(5, {2: unknown, 3: _no("ne-a")})
    assert all("main/2" not in one.moved for one in found)
    assert {one.hypothesis for one in found} == {"without"}


def test_other_units_than_those_allowed_do_not_count() -> None:
    gpu = {GPU: Verdict(GPU, "no", (Reason(unit=GPU, rule="gpu-a", text="no"),))}
    assert weigh(5, {2: gpu}) == []
