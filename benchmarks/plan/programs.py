"""Compares our plans of programs of one kind of layer with published ones, whose chip is not stated.

thisisthepy/torchnative lists the unit that Core ML prefers with all units for programs of known shapes
(docs/graph/NPU2.md and ANEDECODE.md). Our plans use the rates of an M4. Four things were fitted to these:
that few rows of `linear` move their bytes on the Neural Engine, that wider results are not on its small leaf,
that ending on the GPU costs less than on the Neural Engine, and the large leaf of `linear` on the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from benchmarks.plan.agreement import Agreement
from coremlscope.devices import ComputeUnit, Device, find_device
from coremlscope.model.ir import (
    Description,
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
from coremlscope.planning.forecast.planner import place_functions
from coremlscope.planning.patterns.rule import fp16, weight

__all__ = ["compare_programs"]

_CPU: tuple[ComputeUnit, ...] = ("cpu",)
_NE: tuple[ComputeUnit, ...] = ("neural_engine",)
_GPU: tuple[ComputeUnit, ...] = ("gpu",)

#: Rows, width of the input, width of the result, number of layers in a chain, and the published unit.
_LINEAR = (
    (128, 1024, 1024, 1, _NE),
    (1, 1024, 1024, 1, _CPU),
    (1, 4096, 4096, 1, _CPU),
    (128, 576, 192, 1, _NE),
    (128, 576, 576, 1, _NE),
    (128, 576, 1536, 1, _NE),
    (128, 1536, 576, 1, _NE),
    (128, 576, 49152, 1, _CPU),
    (256, 576, 49152, 1, _NE),
    (512, 576, 49152, 1, _GPU),
    (16, 576, 192, 1, _NE),
    (16, 576, 576, 1, _NE),
    (16, 1536, 576, 1, _NE),
    (16, 576, 1536, 1, _CPU),
    (1, 576, 192, 1, _CPU),
    (1, 576, 576, 1, _CPU),
    (1, 576, 1536, 1, _CPU),
    (1, 576, 4096, 1, _CPU),
    (1, 576, 8192, 1, _CPU),
    (1, 576, 16384, 1, _CPU),
    (1, 576, 49152, 1, _CPU),
    (1, 576, 576, 64, _CPU),
)
#: Kernel, channels of the input and of the result, height, width, groups, number of layers, and the unit.
_CONVOLUTIONS = (
    (3, 64, 128, 32, 32, 1, 1, _CPU),
    (3, 128, 256, 32, 32, 1, 1, _NE),
    (3, 64, 64, 64, 64, 1, 1, _NE),
    (3, 64, 64, 32, 32, 64, 1, _CPU),
    (1, 576, 192, 1, 1, 1, 1, _CPU),
    (1, 576, 576, 1, 1, 1, 1, _CPU),
    (1, 576, 1536, 1, 1, 1, 1, _CPU),
    (1, 576, 4096, 1, 1, 1, 1, _CPU),
    (1, 576, 8192, 1, 1, 1, 1, _NE),
    (1, 576, 16384, 1, 1, 1, 1, _NE),
    (1, 576, 49152, 1, 1, 1, 1, _NE),
    (1, 8192, 576, 1, 1, 1, 1, _NE),
    (1, 2304, 2048, 1, 1, 1, 1, _NE),
    (1, 2048, 2304, 1, 1, 1, 1, _NE),
    (1, 4096, 576, 1, 1, 1, 1, _CPU),
    (1, 576, 576, 1, 128, 1, 1, _CPU),
    (1, 576, 192, 1, 128, 1, 1, _CPU),
    (1, 576, 1536, 1, 128, 1, 1, _NE),
    (1, 1536, 576, 1, 128, 1, 1, _NE),
    *((1, 576, 576, 1, 1, 1, layers, _CPU) for layers in (2, 4, 8)),
    *((1, 576, 576, 1, 1, 1, layers, _NE) for layers in (16, 32, 64)),
)
#: Decoder layers of SmolLM2-135M as convolutions of one position, and the unit of all their operations.
_DECODERS = ((1, _CPU), (2, _NE), (3, _NE), (4, _NE))
#: Operation, shape, parameters, and the units.
_OTHERS: tuple[tuple[str, tuple[int, ...], Mapping[str, object], tuple[ComputeUnit, ...]], ...] = (
    ("softmax", (1, 32, 512, 512), {"axis": 3}, _CPU),
    ("layer_norm", (1024, 4096), {"axes": [1]}, _CPU),
    ("relu", (1024, 4096), {}, ("cpu", "gpu")),
    ("gelu", (1024, 4096), {"mode": "EXACT"}, ("cpu", "gpu")),
    ("batch_norm", (1, 64, 32, 32), {"mean": weight(64), "variance": weight(64)}, _CPU),
    ("batch_norm", (32, 256, 64, 64), {"mean": weight(256), "variance": weight(256)}, _GPU),
)


def compare_programs() -> list[Agreement]:
    """Compares the preferred unit of single layers and chains with the rates of an M4."""
    device = find_device("m4", "27")
    found = Agreement("chip not stated, rates of M4 · preferred unit of programs of one kind of layer, all")
    decided = Agreement(f"{found.name}, open operations on either unit")
    for name, model, units in _programs():
        ours, others = _planned(model, device)
        text = f"{name}: {' or '.join(units)}, ours {ours}"
        found.count(ours in units, text)
        decided.count(bool({ours, *others} & set(units)), text)
    return [found, decided]


def _programs() -> list[tuple[str, Model, tuple[ComputeUnit, ...]]]:
    programs = []
    for rows, inner, outer, layers, units in _LINEAR:
        arguments = {"weight": weight(outer, inner), "bias": weight(outer)}
        model = _chain("linear", fp16(rows, inner), fp16(rows, outer), arguments, layers)
        programs.append((f"linear {rows}×{inner}→{outer} ×{layers}", model, units))
    for kernel, inner, outer, height, width, groups, layers, units in _CONVOLUTIONS:
        arguments = {"weight": weight(outer, inner // groups, kernel, kernel), "pad_type": "same"}
        x, y = fp16(1, inner, height, width), fp16(1, outer, height, width)
        model = _chain("conv", x, y, {**arguments, "groups": groups}, layers)
        programs.append((f"conv {kernel} {inner}→{outer} {height}×{width} ×{layers}", model, units))
    programs += [(f"decoder of {layers} layers", _decoder(layers), units) for layers, units in _DECODERS]
    for type_, shape, parameters, units in _OTHERS:
        programs.append((f"{type_} {shape}", _chain(type_, fp16(*shape), fp16(*shape), parameters, 1), units))
    return programs


def _chain(
    type_: str, x: TensorType, result: TensorType, arguments: Mapping[str, object], layers: int
) -> Model:
    """A program of equal layers, each with the result of the one before."""
    given = value = Value("x", x)
    constants = {name: (one if name in _TENSORS else constant(one),) for name, one in arguments.items()}
    ops = []
    for index in range(layers):
        made = Value(f"v{index}", result)
        inputs = {"x": (value,), **constants}
        ops.append(Op(id=f"main/{index}", type=type_, inputs=inputs, outputs=(made,)))  # type: ignore[arg-type]
        value = made
    return _model(given, ops, value)


def _model(given: Value, ops: Sequence[Op], result: Value) -> Model:
    graph = Graph(name="main", inputs=(given,), ops=tuple(ops), outputs=(result,))
    function = Function(name="main", opset="CoreML8", graph=graph)
    description = Description({"main": FunctionDescription(inputs=(), outputs=())}, "main")
    return Model(spec_version=9, description=description, content=Program(functions={"main": function}))


def _decoder(layers: int) -> Model:
    """The projections of decoder layers as convolutions of one position, with `silu`, `mul` and `add`."""
    ops: list[Op] = []

    def emit(type_: str, channels: int, **inputs: Value) -> Value:
        made = Value(f"v{len(ops)}", fp16(1, channels, 1, 1))
        arguments = {name: (value,) for name, value in inputs.items()}
        ops.append(Op(id=f"main/{len(ops)}", type=type_, inputs=arguments, outputs=(made,)))
        return made

    def project(x: Value, inner: int, outer: int) -> Value:
        made = emit("conv", outer, x=x)
        constants = {"weight": (weight(outer, inner, 1, 1),), "pad_type": (constant("valid"),)}
        ops[-1] = replace(ops[-1], inputs={**ops[-1].inputs, **constants})
        return made

    given = value = Value("x", fp16(1, 576, 1, 1))
    for _ in range(layers):
        query = project(value, 576, 576)
        for _ in ("key", "value"):
            project(value, 576, 192)
        attended = emit("add", 576, x=value, y=project(query, 576, 576))
        gate = emit("silu", 1536, x=project(attended, 576, 1536))
        wide = emit("mul", 1536, x=gate, y=project(attended, 576, 1536))
        value = emit("add", 576, x=attended, y=project(wide, 1536, 576))
    return _model(given, ops, value)


_TENSORS = ("weight", "bias", "mean", "variance")


def _planned(model: Model, device: Device) -> tuple[ComputeUnit | None, set[ComputeUnit]]:
    """The unit of the last layer, and those where it may go as well."""
    (function,) = place_functions(model, device, ("all",), with_advice=False).values()
    last = [op for op in function.ops if not op.inserted][-1].choices["all"]
    return last.unit, set(last.alternatives)
