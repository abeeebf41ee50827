"""Times the planning of a large model."""

from __future__ import annotations

import time

from coremlscope.devices import SETTINGS, find_device
from coremlscope.forecast.planner import place_functions
from coremlscope.ir import (
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

__all__ = ["large_model", "report"]

_OPS = 3000


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
    """Returns the time to plan 3,000 operations under every setting, without the time to load the chips."""
    device = find_device("m4")
    model = large_model()
    place_functions(large_model(12), device)
    start = time.perf_counter()
    place_functions(model, device, tuple(SETTINGS))
    return f"plan of {_OPS} operations, four settings: {time.perf_counter() - start:.2f} s\n"
