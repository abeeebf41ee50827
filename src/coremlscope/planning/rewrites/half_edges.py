"""Inputs and outputs in half precision: their casts are left out, or stand at the other side of the edge."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from coremlscope.model.ir import (
    ArrayFeature,
    DType,
    Feature,
    Function,
    Model,
    Op,
    TensorType,
    Value,
    constant,
)
from coremlscope.model.ir.rewriting import Chain, names_read, with_ops, with_values

#: The first version of the specification with such inputs and outputs: that of iOS 16.
_IOS_16, _OPSET = 7, "CoreML6"


def with_half_edges(model: Model) -> tuple[Model, int]:
    """Declares float32 arrays at the interface of an ML Program with one function as float16.

    Returns:
        The model, and how many inputs and outputs are float16.
    """
    main = model.description.main
    names = {one.name for one in (*main.inputs, *main.outputs) if _is_single(one)}
    ((name, function),) = model.content.functions.items()
    function = _with_half_outputs(_with_half_inputs(function, names), names)
    if model.spec_version < _IOS_16:
        function = replace(function, opset=_OPSET)
    described = replace(main, inputs=_halved(main.inputs), outputs=_halved(main.outputs))
    functions = {**model.description.functions, model.description.default: described}
    made = replace(
        model.with_functions({name: function}),
        spec_version=max(model.spec_version, _IOS_16),
        description=replace(model.description, functions=functions),
    )
    return made, len(names)


def _with_half_inputs(function: Function, names: Collection[str]) -> Function:
    graph = function.graph
    returned = graph.outputs
    instead: dict[Value, Value] = {}
    given: list[Value] = []
    before: list[Op] = []
    gone: set[str] = set()
    for value in graph.inputs:
        if value.name not in names or not isinstance(value.type, TensorType):
            given.append(value)
            continue
        half = _typed(value, DType.FP16)
        given.append(half)
        casts = [op for op in graph.ops if _casts(op, value, DType.FP16) and op.outputs[0] not in returned]
        instead |= {op.outputs[0]: half for op in casts}
        gone.update(op.id for op in casts)
        if any(value.name in names_read(op) for op in graph.ops if op.id not in gone):
            chain = Chain(f"{value.name}_from_fp16", DType.FP32)
            instead[value] = chain.add("cast", value.type, x=half, dtype=constant("fp32"))
            before += chain.ops
    ops = [*before, *(with_values(op, instead) for op in graph.ops if op.id not in gone)]
    return with_ops(replace(function, graph=replace(graph, inputs=tuple(given))), ops)


def _with_half_outputs(function: Function, names: Collection[str]) -> Function:
    graph = function.graph
    read = {name for op in graph.ops for name in names_read(op)}
    instead: dict[Value, Value] = {}
    returned: list[Value] = []
    after: list[Op] = []
    gone: set[str] = set()
    for value in graph.outputs:
        if value.name not in names or not isinstance(value.type, TensorType):
            returned.append(value)
            continue
        half = _typed(value, DType.FP16)
        returned.append(half)
        maker = next((op for op in graph.ops if value in op.outputs), None)
        if maker is None:
            continue  # an input that is returned
        source = maker.inputs["x"][0] if maker.type == "cast" else None
        is_own = isinstance(source, Value) and source not in (*graph.inputs, *graph.outputs, *instead)
        if is_own and isinstance(source, Value) and _casts(maker, source, None) and value.name not in read:
            instead[source] = half
            gone.add(maker.id)
            continue
        single = Value(f"{value.name}_in_fp32", value.type)
        instead[value] = single
        chain = Chain(f"{value.name}_to_fp16", DType.FP16)
        chain.add("cast", half.type, x=single, dtype=constant("fp16"))  # type: ignore[arg-type]
        after += chain.ending(value.name)
    ops = [*(with_values(op, instead) for op in graph.ops if op.id not in gone), *after]
    return with_ops(replace(function, graph=replace(graph, outputs=tuple(returned))), ops)


def _casts(op: Op, value: Value, dtype: DType | None) -> bool:
    """Returns whether an operation casts a value to a type, or a value in half precision to any."""
    if op.type != "cast" or op.inputs["x"] != (value,):
        return False
    type_ = op.outputs[0].type if dtype is not None else value.type
    return isinstance(type_, TensorType) and type_.dtype is DType.FP16


def _is_single(feature: Feature) -> bool:
    return isinstance(feature.type, ArrayFeature) and feature.type.dtype is DType.FP32


def _halved(features: Sequence[Feature]) -> tuple[Feature, ...]:
    return tuple(
        replace(one, type=replace(one.type, dtype=DType.FP16))
        if isinstance(one.type, ArrayFeature) and _is_single(one)
        else one
        for one in features
    )


def _typed(value: Value, dtype: DType) -> Value:
    assert isinstance(value.type, TensorType)
    return Value(value.name, replace(value.type, dtype=dtype))
