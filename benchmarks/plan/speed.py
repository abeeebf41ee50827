"""Times the planning of a large model."""

from __future__ import annotations

import time

from msgspec.structs import replace

from coremlscope.devices import NEURAL_ENGINE, SETTINGS, ComputeUnit, find_device
from coremlscope.model.ir import (
    Description,
    DType,
    Function,
    FunctionDescription,
    Graph,
    Model,
    Op,
    Program,
    TensorType,
    Value,
    constant,
)
from coremlscope.planning.forecast.functions import planned_functions
from coremlscope.planning.forecast.planner import place_functions, plan_functions
from coremlscope.planning.patterns.verdict import Reason, Verdict
from coremlscope.planning.placement.hypotheses import Planning, weigh_reasons
from coremlscope.planning.placement.place import place
from coremlscope.runtime.execution.wiring import bind_functions

__all__ = ["large_model", "report"]

_OPS = 3000
_REASONS, _PERIOD = 20, 60


def large_model(count: int = _OPS) -> Model:
    """Returns a chain of operations of six types."""
    type_ = TensorType(DType.FP16, (1, 64, 32, 32))
    x = given = Value("x", type_)
    ops = []
    for index in range(count):
        y = Value(f"v{index}", type_)
        kind = ("relu", "mul", "add", "softmax", "sigmoid", "layer_norm")[index % 6]
        inputs = {"x": (x,)}
        extra: dict[str, tuple[object, ...]] = {}
        if kind in ("mul", "add"):
            extra = {"y": (given,)}
        elif kind == "softmax":
            extra = {"axis": (constant(1),)}
        elif kind == "layer_norm":
            extra = {"axes": (constant([1]),)}
        ops.append(Op(id=f"main/{index}", type=kind, inputs=inputs | extra, outputs=(y,)))  # type: ignore[arg-type]
        x = y
    function = Function(
        name="main", opset="CoreML8", graph=Graph(name="main", inputs=(given,), ops=tuple(ops), outputs=(x,))
    )
    description = Description({"main": FunctionDescription(inputs=(), outputs=())}, "main")
    return Model(spec_version=9, description=description, content=Program(functions={"main": function}))


def report() -> str:
    """Returns the times to plan 3,000 operations, and again without each of 20 reasons.

    The time to load the chips is not included.
    """
    device = find_device("m4")
    model = large_model()
    place_functions(large_model(12), device)
    start = time.perf_counter()
    place_functions(model, device, tuple(SETTINGS))
    placing = time.perf_counter() - start
    planning = _refused(
        plan_functions(planned_functions(bind_functions(model)), device, "cpu_and_ne")[0]["main"]
    )
    start = time.perf_counter()
    found = weigh_reasons(planning, "cpu_and_ne")
    again = time.perf_counter() - start
    return (
        f"plan of {_OPS} operations, four settings: {placing:.2f} s\n"
        f"planned again under {len(found)} hypotheses: {again:.2f} s\n"
    )


def _refused(planning: Planning) -> Planning:
    """Returns a plan where each of 20 rules keeps every 60th operation from the Neural Engine."""
    verdicts: dict[str, dict[ComputeUnit, Verdict]] = {}
    for place_, (id_, known) in enumerate(planning.verdicts.items()):
        verdicts[id_] = dict(known)
        if place_ % _PERIOD < _REASONS:
            reason = Reason(unit=NEURAL_ENGINE, rule=f"ne-{place_ % _PERIOD}", text="refused")
            verdicts[id_][NEURAL_ENGINE] = Verdict(NEURAL_ENGINE, "no", (reason,))
    placed = place(
        planning.graph,
        verdicts,
        planning.prices,
        planning.transition_costs,
        ["cpu_and_ne"],
    )
    return replace(planning, verdicts=verdicts, placed=placed)
