"""A plan whose verdicts and costs are made by hand."""

from __future__ import annotations

from collections.abc import Mapping

from coremlscope.devices import GPU, NEURAL_ENGINE, UNITS, ComputeUnit, ComputeUnits, find_device, macos
from coremlscope.model import ir
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind
from coremlscope.planning.forecast.plans import make_plan
from coremlscope.planning.patterns.verdict import Reason, Verdict
from coremlscope.planning.placement.backend import BACKENDS, Backend, PlannedCost
from coremlscope.planning.placement.coreml_view import Node, view_function
from coremlscope.planning.placement.place import PlacedFunction, place
from coremlscope.planning.placement.search import TransitionCosts
from coremlscope.results.model import FunctionSummary, ModelSummary
from coremlscope.results.operations import OpRow, OpTable
from coremlscope.results.profile import Profile
from tests.support import graphs
from tests.support.profiles import MADE

__all__ = ["small_plan"]

_TYPE = graphs.tensor(1, 64, 8, 8, dtype=ir.DType.FP16)
_TRANSITION_COSTS = TransitionCosts({"ane": 0.125, "mps_graph": 0.125}, 0.125, {"ane": 0.125})
_EVERY: tuple[ComputeUnits, ...] = ("all", "cpu_and_ne", "cpu_and_gpu", "cpu_only")

_SOURCE = "somebody/measurements"
_INT = Reason(
    unit=NEURAL_ENGINE,
    rule="ne-int32",
    text="int32 tensors: x is int32",
    fix="keep the counting outside the model",
    source=_SOURCE,
)
_GPU = Reason(
    unit=GPU, rule="gpu-odd", text="the GPU does not run this", confidence="anecdotal", source=_SOURCE
)
_SLOW = Reason(
    unit=NEURAL_ENGINE,
    rule="ne-slow",
    text="a slow layout",
    fix="transpose less",
    confidence="documented",
    source=_SOURCE,
    effect="advises",
)


def small_plan(*, every: bool = False) -> Profile:
    """A profile with a plan of six operations, and nothing else.

    Most are on the Neural Engine, two of integers on the CPU, and one is unknown.

    Args:
        every: Plans every setting instead of `all` only.
    """
    kinds = ("relu", "abs", "sign", "square", "sqrt", "exp")
    x = given = graphs.value("image", _TYPE)
    ops = []
    for index, kind in enumerate(kinds):
        y = graphs.value(f"a_rather_long_name_of_a_layer_{index}", _TYPE)
        ops.append(graphs.op(kind, y, x=x))
        x = y
    function = ir.Function(
        name="main", opset="CoreML8", graph=graphs.graph("main", (given,), tuple(ops), (x,))
    )
    graph = view_function(bind(function, OPS, None), macos(15))
    verdicts = {node.id: _verdicts(node) for node in graph.walk()}
    settings = _EVERY if every else _EVERY[:1]
    placed = place(
        graph, verdicts, {node.id: _prices(node) for node in graph.walk()}, _TRANSITION_COSTS, settings
    )
    table = _table(placed)
    plan = make_plan(
        table,
        find_device("m1", "15"),
        {"main": placed},
        settings,
        "M1, macOS 14.5",
        ("a remark",),
        _TRANSITION_COSTS,
    )
    main = FunctionSummary(name="main", inputs=(), outputs=(), ops=dict.fromkeys(kinds, 1))
    model = ModelSummary(path="folder/net.mlpackage", kind="mlProgram", functions=(main,))
    return Profile(model=model, ops=table, made=MADE, plans=(plan,))


def _table(placed: PlacedFunction) -> OpTable:
    return OpTable.of(
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


def _verdicts(node: Node) -> Mapping[ComputeUnit, Verdict]:
    kind = node.view.op.type
    found = {unit: Verdict(unit, "yes") for unit in UNITS}
    if kind in ("sqrt", "exp"):
        found[NEURAL_ENGINE] = Verdict(NEURAL_ENGINE, "no", (_INT,))
        found[GPU] = Verdict(GPU, "no", (_GPU,))
    if kind == "square":
        found = {unit: Verdict(unit, "unknown") for unit in UNITS}
    if kind == "abs":
        found[NEURAL_ENGINE] = Verdict(NEURAL_ENGINE, "yes", (), (_SLOW,))
    return found


def _prices(node: Node) -> Mapping[Backend, PlannedCost]:
    if node.inserted:
        return dict.fromkeys(BACKENDS, PlannedCost(0.0, "recovered"))
    kind = node.view.op.type
    slow = 0.004 if kind == "sqrt" else 0.5
    costs: dict[Backend, float] = {"ane": 0.01, "mps_graph": 0.2, "bnns": slow, "classic_cpu": slow * 1.15}
    return {backend: PlannedCost(ms, "fitted") for backend, ms in costs.items()}
