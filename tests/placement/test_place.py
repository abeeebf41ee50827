from __future__ import annotations

from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, UNITS, ComputeUnits, find_device, macos
from coremlscope.model import ir
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind
from coremlscope.planning.forecast.plans import make_plan
from coremlscope.planning.patterns.verdict import Verdict
from coremlscope.planning.placement.backend import BACKENDS, PlannedCost
from coremlscope.planning.placement.coreml_view import view_function
from coremlscope.planning.placement.place import PlacedFunction, place
from coremlscope.planning.placement.search import TransitionCosts
from coremlscope.results.operations import OpRow, OpTable
from coremlscope.results.plan import COST_RULE, Plan, Reason, SettingPlan, unit_costs_ms, unit_counts
from tests.support import graphs

TYPE = graphs.tensor(1, 8, dtype=ir.DType.FP16)
TRANSITION_COSTS = TransitionCosts({"ane": 1.0, "mps_graph": 1.0}, 1.0, {"ane": 1.0})
WHY = Reason(unit=NEURAL_ENGINE, rule="no-abs", text="cannot", fix="do not", source="a test")


def planned(
    *kinds: str, refused=(), unknown=(), setting="cpu_and_ne", settings=None, ane=1.0, cpu=10.0, bounds=None
):
    """A chain; `refused` operations do not run on the Neural Engine, of `unknown` ones nothing is known."""
    x = given = graphs.value("x", TYPE)
    ops = []
    for index, kind in enumerate(kinds):
        y = graphs.value(f"main/{index}", TYPE)
        ops.append(graphs.op(kind, y, x=x))
        x = y
    function = ir.Function(
        name="main", opset="CoreML8", graph=graphs.graph("main", (given,), tuple(ops), (x,))
    )
    graph = view_function(bind(function, OPS, None), macos(26))

    def of(node):
        if node.id in unknown:
            return {unit: Verdict(unit, "unknown") for unit in UNITS}
        no = Verdict(NEURAL_ENGINE, "no", (WHY,))
        yes = {unit: Verdict(unit, "yes") for unit in UNITS}
        return yes | ({NEURAL_ENGINE: no} if node.id in refused else {})

    def pricing(node):
        if node.inserted:
            return dict.fromkeys(BACKENDS, PlannedCost(0.0, "recovered"))
        costs = {"ane": ane, "mps_graph": 20.0, "bnns": cpu, "classic_cpu": cpu}
        return {
            backend: PlannedCost(ms, "recovered", bounds_ms=(bounds or {}).get(backend))
            for backend, ms in costs.items()
        }

    verdicts = {node.id: of(node) for node in graph.walk()}
    prices = {node.id: pricing(node) for node in graph.walk()}
    return place(graph, verdicts, prices, TRANSITION_COSTS, settings or [setting])


def alternatives(plan, setting="cpu_and_ne"):
    return [dict(op.choices[setting].alternatives) for op in plan.ops if not op.inserted]


def test_ties_leave_both_units_open() -> None:
    """A launch and an end cost 1 ms each, so that three operations that save 2 ms may go either way."""
    tie = planned("relu", "relu", ane=1.0, cpu=2.0)
    assert alternatives(tie) == [{"cpu": "tie"}] * 2
    assert alternatives(planned("relu", "relu", ane=1.0, cpu=2.001)) == [{}] * 2


def test_costs_within_their_bounds_leave_both_units_open() -> None:
    wide = planned("relu", "relu", ane=1.0, cpu=3.0, bounds={"ane": (0.5, 30.0)})
    assert set(units(wide)) == {NEURAL_ENGINE}
    assert alternatives(wide) == [{"cpu": "rates"}] * 2
    # They move from 2 ms each on.
    few = planned("relu", "relu", ane=1.0, cpu=3.0, bounds={"ane": (0.5, 1.9)})
    assert alternatives(few) == [{}] * 2
    many = planned("relu", "relu", ane=1.0, cpu=3.0, bounds={"ane": (0.5, 2.5)})
    assert alternatives(many) == [{"cpu": "rates"}] * 2
    assert many.rivals["cpu_and_ne"]["main/0"] == "cpu"
    narrow = planned("relu", "relu", ane=1.0, cpu=3.0, bounds={"ane": (0.9, 1.1)})
    assert alternatives(narrow) == [{}] * 2
    # What cannot run there stays decided.
    refused = planned("relu", "relu", refused=("main/0",), ane=1.0, cpu=3.0, bounds={"ane": (0.5, 2.5)})
    assert alternatives(refused)[0] == {}


def units(plan, setting="cpu_and_ne"):
    return [op.choices[setting].unit for op in plan.ops]


def reasons_of(placed: PlacedFunction, place: int) -> list[Reason]:
    plan, setting, _ = view_of(placed)
    return plan.reasons(plan.ops[place], setting)


def view_of(placed: PlacedFunction) -> tuple[Plan, ComputeUnits, SettingPlan]:
    """The placed function as a plan, with its first setting."""
    ops = OpTable.of(
        OpRow(
            id=op.id,
            type=op.type,
            name=op.name,
            function="main",
            outputs=op.outputs,
            output_names=op.output_names,
        )
        for op in placed.ops
        if not op.inserted
    )
    plan = make_plan(ops, find_device("m1"), {"main": placed}, list(placed.total_ms), "a test")
    return plan, plan.settings[0].compute_units, plan.settings[0]


def test_weights_are_shares_of_the_planned_cost() -> None:
    plan = planned("relu", "abs", "relu", refused=("main/1",))
    weights = [op.choices["cpu_and_ne"].weight for op in plan.ops]
    assert sum(weights) == 1.0
    assert units(plan) == [NEURAL_ENGINE, NEURAL_ENGINE, CPU, NEURAL_ENGINE, NEURAL_ENGINE]
    assert weights[1:4] == [1 / 12, 10 / 12, 1 / 12]


def test_the_conversion_of_outputs_follows_its_input() -> None:
    plan = planned("relu", "abs", refused=("main/1",))
    assert units(plan) == [NEURAL_ENGINE, NEURAL_ENGINE, CPU, CPU]
    assert plan.ops[-1].choices["cpu_and_ne"].backend == plan.ops[-2].choices["cpu_and_ne"].backend


def test_segments_and_switches() -> None:
    plan = planned("relu", "abs", "relu", refused=("main/1",))
    found = plan.segments("cpu_and_ne")
    assert [(one.unit, len(one.ops)) for one in found] == [(NEURAL_ENGINE, 2), (CPU, 1), (NEURAL_ENGINE, 2)]
    assert plan.switches("cpu_and_ne") == 2
    # Launch, one, switch, ten, switch and launch, one, end.
    assert plan.total_ms["cpu_and_ne"] == 1 + 1 + 1 + 10 + 2 + 1 + 1


def test_the_plan_says_the_same_of_segments_units_and_costs() -> None:
    placed = planned("relu", "abs", "relu", refused=("main/1",))
    plan, name, setting = view_of(placed)
    assert [segment.ops for segment in placed.segments(name)] == [
        ("main/input", "main/0"),
        ("main/1",),
        ("main/2", "main/output"),
    ]
    assert unit_counts(plan.ops, name) == {NEURAL_ENGINE: 4, CPU: 1}
    assert unit_costs_ms(plan.ops, name) == {CPU: 10.0, NEURAL_ENGINE: 2.0}
    assert setting.functions["main"].total_ms == placed.total_ms["cpu_and_ne"]
    assert (setting.total_ms, setting.switches) == (placed.total_ms["cpu_and_ne"], 2)
    assert tuple(plan.ops) == placed.ops


def test_settings_are_planned_separately() -> None:
    plan = planned("relu", "abs", settings=["all", "cpu_and_ne", "cpu_and_gpu", "cpu_only"], cpu=30.0)
    assert set(units(plan, "all")) == {NEURAL_ENGINE}
    assert set(units(plan, "cpu_and_gpu")) == {GPU}
    assert set(units(plan, "cpu_only")) == {CPU}


def test_a_rejection_is_a_reason() -> None:
    plan = planned("relu", "abs", refused=("main/1",))
    assert reasons_of(plan, 2) == [WHY]
    assert WHY not in reasons_of(plan, 1)


def test_an_eligible_operation_that_is_too_cheap_has_its_cost_as_the_reason() -> None:
    plan = planned("relu", ane=1.0, cpu=2.5)
    assert set(units(plan)) == {CPU}
    op = plan.ops[1]
    assert op.choices["cpu_and_ne"].detour_ms == {NEURAL_ENGINE: 0.5}
    (reason,) = reasons_of(plan, 1)
    assert (reason.rule, reason.unit) == (COST_RULE, NEURAL_ENGINE)
    assert "at a planned cost of 1 against 2.5" in reason.text
    assert "0.5 more" in reason.text
    assert set(op.cost_ms) == set(BACKENDS)


def test_unknown_operations_are_not_placed_and_counted_separately() -> None:
    plan = planned("relu", "abs", "relu", unknown=("main/1",))
    assert units(plan)[2] is None
    assert "main/1" not in {id_ for one in plan.segments("cpu_and_ne") for id_ in one.ops}
    op = plan.ops[2]
    assert op.cost_ms == {}
    assert op.choices["cpu_and_ne"].weight == 0.0
    assert op.supported[CPU] == "unknown"


def test_nested_graphs_are_searched_separately() -> None:
    x, y = graphs.value("x", TYPE), graphs.value("y", TYPE)
    pred = graphs.value("p", graphs.tensor(dtype=ir.DType.BOOL))
    blocks = tuple(
        graphs.graph(
            name, (), (graphs.op("relu", graphs.value(name, TYPE), x=x),), (graphs.value(name, TYPE),)
        )
        for name in ("true", "false")
    )
    ops = (graphs.op("cond", y, pred=pred, blocks=blocks),)
    function = ir.Function(name="main", opset="CoreML8", graph=graphs.graph("main", (pred, x), ops, (y,)))
    graph = view_function(bind(function, OPS, None), macos(14))
    verdicts = {node.id: {unit: Verdict(unit, "yes") for unit in UNITS} for node in graph.walk()}
    plan = place(
        graph,
        verdicts,
        {node.id: dict.fromkeys(BACKENDS, PlannedCost(1.0, "assumed")) for node in graph.walk()},
        TRANSITION_COSTS,
        ["cpu_only"],
    )
    assert [op.id for op in plan.ops] == ["main/input", "y", "true", "false"]
    # Each graph's weights sum to one.
    assert [op.choices["cpu_only"].weight for op in plan.ops] == [0.5, 0.5, 1.0, 1.0]
