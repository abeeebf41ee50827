"""Edits of a program: operations in float32, other constants, further operations. Each returns a new
function."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from coremlscope.model.ir import (
    Argument,
    Array,
    ArrayFeature,
    Constant,
    Derived,
    DType,
    Feature,
    Function,
    Model,
    Op,
    Program,
    TensorType,
    Value,
    ValueType,
    constant,
)
from coremlscope.model.ir.rewriting import constants_of, with_ops

_FP32, _FP16 = "_fp32", "_fp16"


def with_function(model: Model, name: str, function: Function) -> Model:
    """Returns a model with another body of one of its functions, and the types of its outputs."""
    assert isinstance(model.content, Program)
    functions = {
        key: function if key == name or len(model.content.functions) == 1 else body
        for key, body in model.content.functions.items()
    }
    described = model.description.functions
    key = name if name in described else model.description.default
    types = {value.name: value.type for value in function.graph.outputs}
    types.update((value.name, value.type) for value in function.graph.inputs)
    outputs, inputs = (
        tuple(_retyped(feature, types.get(feature.name)) for feature in features)
        for features in (described[key].outputs, described[key].inputs)
    )
    interface = replace(described[key], outputs=outputs, inputs=inputs)
    description = replace(model.description, functions={**described, key: interface})
    return replace(model, content=replace(model.content, functions=functions), description=description)


def _retyped(feature: Feature, type_: ValueType | None) -> Feature:
    """Returns an input or output that is described as float32 where its value is."""
    if not isinstance(feature.type, ArrayFeature) or not isinstance(type_, TensorType):
        return feature
    is_wide = type_.dtype is DType.FP32 and feature.type.dtype is DType.FP16
    return replace(feature, type=replace(feature.type, dtype=DType.FP32)) if is_wide else feature


def _named(name: str) -> dict[str, Constant]:
    return {"name": constant(name)}


def _cast(value: Value, dtype: DType, name: str) -> Op:
    inputs: dict[str, tuple[Argument, ...]] = {"x": (value,), "dtype": (constant(dtype.value),)}
    return Op(id="", type="cast", inputs=inputs, outputs=(_as(value, dtype, name),), attributes=_named(name))


def _const(name: str, content: Constant) -> Op:
    attributes = {**_named(name), "val": content}
    return Op(id="", type="const", inputs={}, outputs=(Value(name, content.type),), attributes=attributes)


def _as_float32(content: Constant) -> Constant:
    assert isinstance(content.type, TensorType)
    data = Derived(lambda: content.numpy().astype(np.float32), (content,))
    return Constant(TensorType(DType.FP32, content.type.shape), data)


def _is_half(argument: Argument) -> bool:
    return isinstance(argument.type, TensorType) and argument.type.dtype is DType.FP16


def keep_fp32(function: Function, op_ids: Collection[str], wide_outputs: Collection[str] = ()) -> Function:
    """Makes operations compute in float32: their fp16 arguments are cast before them, their results after
    them.

    Between two of them nothing is cast. Operations with blocks stay as they are.

    Args:
        function: The function.
        op_ids: The ids of the operations.
        wide_outputs: Names of outputs that are returned in float32.
    """
    graph, constants = function.graph, constants_of(function)
    chosen = {op.id for op in graph.ops if op.id in op_ids and not op.blocks and op.constant is None}
    wide, narrow, ops = dict[str, Value](), dict[str, Value](), list[Op]()

    def widened(given: Argument) -> Argument:
        if not _is_half(given):
            return given
        if isinstance(given, Constant):
            return _as_float32(given)
        if given.name not in wide:
            known, name = constants.get(given.name), given.name + _FP32
            ops.append(_cast(given, DType.FP32, name) if known is None else _const(name, _as_float32(known)))
            wide[given.name] = ops[-1].outputs[0]
        return wide[given.name]

    for op in graph.ops:
        if op.id not in chosen:
            ops.append(_with_arguments(op, narrow))
            continue
        inputs = {name: tuple(map(widened, given)) for name, given in op.inputs.items()}
        half = [value for value in op.outputs if _is_half(value)]
        wide.update((v.name, _as(v, DType.FP32, v.name + _FP32 * (v.name not in wide_outputs))) for v in half)
        casts = [_cast(wide[v.name], DType.FP16, v.name + _FP16 * (v.name in wide_outputs)) for v in half]
        narrow.update(zip((value.name for value in half), (cast.outputs[0] for cast in casts), strict=True))
        ops += [_retyped_op(op, inputs, wide), *casts]
    return with_ops(_returning(function, {name: wide[name] for name in wide_outputs if name in wide}), ops)


def _retyped_op(op: Op, inputs: Mapping[str, tuple[Argument, ...]], wide: Mapping[str, Value]) -> Op:
    """Returns an operation with other arguments, and with results in float32."""
    outputs = tuple(wide.get(value.name, value) for value in op.outputs)
    is_to_half = op.type == "cast" and outputs != op.outputs
    dtype = {"dtype": (constant("fp32"),)} if is_to_half else {}
    return replace(op, inputs={**inputs, **dtype}, outputs=outputs)


def _returning(function: Function, instead: Mapping[str, Value]) -> Function:
    """Returns a function with other values as its outputs, by their names."""
    outputs = tuple(instead.get(value.name, value) for value in function.graph.outputs)
    return replace(function, graph=replace(function.graph, outputs=outputs))


def _as(value: Value, dtype: DType, name: str) -> Value:
    assert isinstance(value.type, TensorType)
    return Value(name, TensorType(dtype, value.type.shape))


def with_wide_inputs(function: Function, names: Collection[str]) -> Function:
    """Takes inputs in float32 that are declared as fp16, and casts them for all that reads them."""
    graph = function.graph
    casts, inputs, instead = [], [], dict[str, Value]()
    for value in graph.inputs:
        if value.name in names and _is_half(value):
            assert isinstance(value.type, TensorType)
            wide = replace(value, type=replace(value.type, dtype=DType.FP32))
            casts.append(_cast(wide, DType.FP16, value.name + _FP16))
            instead[value.name] = casts[-1].outputs[0]
            value = wide
        inputs.append(value)
    ops = [
        *casts,
        # What casts an input to float32 reads it as it is.
        *(op if _widens(op) else _with_arguments(op, instead) for op in graph.ops),
    ]
    return with_ops(replace(function, graph=replace(graph, inputs=tuple(inputs))), ops) if casts else function


def _widens(op: Op) -> bool:
    type_ = op.outputs[0].type if op.type == "cast" else None
    return isinstance(type_, TensorType) and type_.dtype is DType.FP32


def _with_arguments(op: Op, instead: Mapping[str, Value]) -> Op:
    """Returns an operation that reads other values."""
    if not any(isinstance(a, Value) and a.name in instead for given in op.inputs.values() for a in given):
        return op
    inputs = {
        name: tuple(instead.get(a.name, a) if isinstance(a, Value) else a for a in given)
        for name, given in op.inputs.items()
    }
    return replace(op, inputs=inputs)


def set_constant(function: Function, changes: Mapping[tuple[str, str], Array]) -> Function:
    """Replaces constants that operations read.

    Args:
        function: The function.
        changes: The new elements by the id of the operation and the name of its parameter. They get the type
            and the shape of the constant that they replace. Of several arguments, the first constant is
            replaced.

    Raises:
        ValueError: There are more or fewer elements than before.
    """
    ops: list[Op] = []
    constants = constants_of(function)
    for op in function.graph.ops:
        inputs = dict(op.inputs)
        for (op_id, parameter), array in changes.items():
            if op_id != op.id or not inputs.get(parameter):
                continue
            several = inputs[parameter]
            place = _place_of_constant(several, constants) if len(several) > 1 else 0
            old = several[place]
            assert isinstance(old.type, TensorType)
            shape = tuple(size or 1 for size in old.type.shape or ())
            content = constant(np.asarray(array).reshape(shape), old.type.dtype)
            new: Argument = content
            if not isinstance(old, Constant):
                added = _const(f"{old.name}_of_{op.outputs[0].name}", content)
                ops.append(added)
                new = added.outputs[0]
            inputs[parameter] = (*several[:place], new, *several[place + 1 :])
        ops.append(replace(op, inputs=inputs))
    return with_ops(function, ops)


def _place_of_constant(several: Sequence[Argument], constants: Collection[str]) -> int:
    """Returns the place of the first constant among arguments; 0 if there is none."""
    return next(
        (
            place
            for place, argument in enumerate(several)
            if isinstance(argument, Constant) or argument.name in constants
        ),
        0,
    )


def insert_after(
    function: Function,
    name: str,
    added: Sequence[tuple[str, Mapping[str, Array]]],
    readers: Collection[str] = (),
) -> Function:
    """Inserts operations behind a value, each of which returns a value of its shape.

    Args:
        function: The function.
        name: The value.
        added: The types of the operations, and their constant parameters next to `x`.
        readers: The ids of the operations that read the new value instead; empty for all, and the outputs.
    """
    graph = function.graph
    makers = {value.name: op for op in graph.ops for value in op.outputs}
    given = {**{value.name: value for value in graph.inputs}, **_values(graph.ops)}[name]
    assert isinstance(given.type, TensorType)
    first = given if readers else replace(given, name=f"{name}_before")
    chain, current = [], first
    for place, (kind, parameters) in enumerate(added, start=1):
        is_last = place == len(added) and not readers
        result = given if is_last else Value(f"{name}_{kind}_{place}", given.type)
        arguments: dict[str, tuple[Argument, ...]] = {"x": (current,)}
        arguments.update((key, (_number_of(one, given.type),)) for key, one in parameters.items())
        chain.append(
            Op(id="", type=kind, inputs=arguments, outputs=(result,), attributes=_named(result.name))
        )
        current = result
    ops: list[Op] = [] if name in makers else [*chain]
    for op in graph.ops:
        changed = _with_arguments(op, {name: current}) if op.id in readers else op
        if op is not makers.get(name):
            ops.append(changed)
            continue
        ops += [replace(op, outputs=tuple(first if v.name == name else v for v in op.outputs)), *chain]
    return with_ops(function, ops)


def _values(ops: Iterable[Op]) -> dict[str, Value]:
    return {value.name: value for op in ops for value in op.outputs}


def _number_of(array: Array, type_: TensorType) -> Constant:
    """Returns numbers in the element type of a value, and other settings in their own."""
    array = np.asarray(array)
    if array.dtype.kind != "f":
        return constant(array)
    if type_.dtype.numpy.kind != "f":
        array = np.rint(array).astype(type_.dtype.numpy)
    return constant(array, type_.dtype)


def read_instead(function: Function, instead: Mapping[str, str]) -> Function:
    """Makes all that reads some values read others, which are computed before them.

    Args:
        function: The function.
        instead: The name of the other value by the name of the value. An output becomes a copy of it.
    """
    graph = function.graph
    known = {**{value.name: value for value in graph.inputs}, **_values(graph.ops)}
    returned = {value.name for value in graph.outputs}
    values: dict[str, Value] = {}
    for name, other in instead.items():
        while other in instead:
            other = instead[other]
        values[name] = known[other]
    ops = []
    for op in graph.ops:
        copied = next((value.name for value in op.outputs if value.name in values), None)
        if copied in returned and copied is not None:
            ops.append(replace(op, type="identity", inputs={"x": (values[copied],)}))
        else:
            ops.append(_with_arguments(op, values))
    return with_ops(function, ops)


def bypass(function: Function, op_ids: Collection[str]) -> Function:
    """Removes operations that take one value `x` and return one: their readers read that value.

    Args:
        function: The function.
        op_ids: The ids of the operations.
    """
    instead = {}
    for op in function.graph.ops:
        given = op.inputs.get("x", ())
        if op.id in op_ids and len(given) == 1 and isinstance(given[0], Value):
            instead[op.outputs[0].name] = given[0].name
    return read_instead(function, instead)


def rename_outputs(function: Function, names: Mapping[str, str]) -> Function:
    """Returns outputs under each other's names.

    Args:
        function: The function.
        names: The new names of outputs by their names. The order of the names stays as it is.

    Raises:
        ValueError: No operation computes one of them.
    """
    graph = function.graph
    computed = {value.name: value for op in graph.ops for value in op.outputs if op.constant is None}
    if not set(names) <= set(computed):
        raise ValueError("outputs that no operation computes")
    values = {name: replace(computed[name], name=right) for name, right in names.items()}
    renamed = _returning(function, {value.name: value for value in values.values()})
    return with_ops(renamed, [_renamed(op, values) for op in graph.ops])


def _renamed(op: Op, values: Mapping[str, Value]) -> Op:
    """Returns an operation that reads and computes values under other names, in its blocks as well."""
    read = _with_arguments(op, values)
    blocks = tuple(
        replace(
            block,
            ops=tuple(_renamed(inner, values) for inner in block.ops),
            outputs=tuple(values.get(value.name, value) for value in block.outputs),
        )
        for block in op.blocks
    )
    return replace(read, outputs=tuple(values.get(v.name, v) for v in op.outputs), blocks=blocks)


def with_op(function: Function, op: Op) -> Function:
    """Replaces the operation that computes the same value by another one."""
    name = op.outputs[0].name
    ops = [op if one.outputs and one.outputs[0].name == name else one for one in function.graph.ops]
    return with_ops(function, ops)


def with_half_results(function: Function) -> Function:
    """Declares all float32 values of a neural network as fp16: the GPU and the Neural Engine compute it
    so."""
    graph = function.graph

    def half(value: Value) -> Value:
        is_single = isinstance(value.type, TensorType) and value.type.dtype is DType.FP32
        return _as(value, DType.FP16, value.name) if is_single else value

    values = {value.name: half(value) for value in (*graph.inputs, *_values(graph.ops).values())}
    ops = [
        replace(
            _with_arguments(op, values),
            outputs=op.outputs if op.constant is not None else tuple(map(half, op.outputs)),
        )
        for op in graph.ops
    ]
    inputs, outputs = (tuple(map(half, several)) for several in (graph.inputs, graph.outputs))
    halved = replace(graph, inputs=inputs, ops=tuple(ops), outputs=outputs)
    return replace(function, graph=halved, specialise=None)
