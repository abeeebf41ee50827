"""Generated programs, and a form of programs that can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from coremlscope.formats.mlmodel import resolve_weight_name
from coremlscope.formats.values import BlobOpener
from coremlscope.formats.weights import BlobData, WeightStorage
from coremlscope.model import ir

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_@]{0,8}", fullmatch=True) | st.sampled_from(
    [
        "x:0",
        "a/b.c",
        "%1",
        "int32",
        "tensor",
        "list",
        "func",
        "true",
        "BLOBFILE",
        "a b",
        'q"',
        "x->y",
        "é",
        "",
        "?",
    ]
)
_SIZES = st.integers(0, 3) | st.none()
DTYPES = st.sampled_from(list(ir.DType))
TENSOR_TYPES = st.builds(ir.TensorType, DTYPES, st.lists(_SIZES, max_size=3).map(tuple) | st.none())
TYPES: st.SearchStrategy[ir.ValueType] = st.recursive(
    TENSOR_TYPES,
    lambda inner: st.one_of(
        st.builds(ir.ListType, inner, st.none() | st.integers(0, 5)),
        st.builds(ir.TupleType, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(ir.DictType, inner, inner),
        st.builds(ir.StateType, inner),
    ),
    max_leaves=4,
)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def blob_opener(folder: Path | None = None) -> BlobOpener:
    """Creates a function that opens the weight files of a folder."""
    storages: dict[str, WeightStorage] = {}

    def open_blob(name: str, offset: int, type_: ir.TensorType) -> BlobData:
        path = None if folder is None else folder / resolve_weight_name(name)
        return BlobData(storages.setdefault(name, WeightStorage(name, path)), offset, type_)

    return open_blob


@st.composite
def tensors(draw: st.DrawFn) -> ir.Constant:
    """Constants of every element type."""
    dtype = draw(DTYPES)
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    count = int(np.prod(shape, dtype=int))
    if dtype is ir.DType.STRING:
        elements = np.empty(count, object)
        elements[:] = draw(st.lists(_TEXTS, min_size=count, max_size=count))
    elif dtype is ir.DType.BOOL:
        elements = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), np.bool_)
    elif dtype.is_int:
        low, high = (
            (0, 2**dtype.bits - 1)
            if dtype.value[0] == "u"
            else (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1)
        )
        drawn = draw(st.lists(st.integers(low, high), min_size=count, max_size=count))
        elements = np.array(drawn, dtype.numpy)
    else:
        width = {2: 16, 4: 32, 8: 64}[dtype.numpy.itemsize]
        floats = st.floats(width=width).filter(lambda value: value == value) | st.just(float("nan"))  # type: ignore[arg-type]
        elements = np.array(draw(st.lists(floats, min_size=count, max_size=count)), dtype.numpy)
    return ir.Constant(ir.TensorType(dtype, shape), ir.Immediate(elements.reshape(shape)))


@st.composite
def _lists(draw: st.DrawFn) -> ir.Constant:
    items = draw(st.lists(_TEXTS.map(ir.constant), max_size=3))
    length = draw(st.sampled_from([len(items), None]))
    return ir.Constant(ir.ListType(ir.TensorType(ir.DType.STRING, ()), length), ir.Nested(tuple(items)))


def _tuple(items: list[ir.Constant]) -> ir.Constant:
    return ir.Constant(ir.TupleType(tuple(item.type for item in items)), ir.Nested(tuple(items)))


def _dictionary(content: dict[str, ir.Constant]) -> ir.Constant:
    kinds = {value.type for value in content.values()}
    kind = kinds.pop() if len(kinds) == 1 else ir.TensorType(ir.DType.STRING, ())
    members = [part for key, value in content.items() for part in (ir.constant(key), value)]
    return ir.Constant(ir.DictType(ir.TensorType(ir.DType.STRING, ()), kind), ir.Nested(tuple(members)))


_BLOBS = st.builds(
    lambda name, offset, type_: ir.Constant(type_, blob_opener()(name, offset, type_)),
    st.sampled_from(["@model_path/weights/weight.bin", "@model_path/weights/0-weight.bin"]),
    st.integers(0, 2**63),
    st.builds(ir.TensorType, st.sampled_from([ir.DType.FP16, ir.DType.UINT4]), st.just((1000, 10**9))),
)
CONSTANTS: st.SearchStrategy[ir.Constant] = st.recursive(
    tensors() | _lists() | _BLOBS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(_tuple),
        st.dictionaries(_TEXTS, _TEXTS.map(ir.constant), max_size=3).map(_dictionary),
    ),
    max_leaves=4,
)
ATTRIBUTES = st.dictionaries(NAMES, CONSTANTS, max_size=3)


@st.composite
def _graphs(draw: st.DrawFn, path: str, name: str, scope: tuple[ir.Value, ...], depth: int) -> ir.Graph:
    inputs = tuple(draw(st.lists(st.builds(ir.Value, NAMES, TYPES), max_size=2, unique_by=lambda v: v.name)))
    known = {value.name: value for value in (*scope, *inputs)}
    ops = []
    for index in range(draw(st.integers(0, 3 - depth))):
        op_id = f"{path}/{index}"
        arguments = CONSTANTS if not known else CONSTANTS | st.sampled_from(list(known.values()))
        kind = draw(NAMES | st.sampled_from(["cond", "while_loop", "conv"]))
        roles = {"cond": ("true", "false"), "while_loop": ("cond", "body")}.get(kind, ("0",))
        has_blocks = depth < 2 and draw(st.booleans())
        visible = tuple(known.values())
        blocks = [draw(_graphs(f"{op_id}/{role}", role, visible, depth + 1)) for role in roles * has_blocks]
        op = ir.Op(
            id=op_id,
            type=kind,
            inputs=draw(st.dictionaries(NAMES, st.lists(arguments, max_size=3).map(tuple), max_size=3)),
            outputs=tuple(
                draw(st.lists(st.builds(ir.Value, NAMES, TYPES), max_size=2, unique_by=lambda v: v.name))
            ),
            blocks=tuple(blocks),
            attributes=draw(ATTRIBUTES),
        )
        known |= {value.name: value for value in op.outputs}
        ops.append(op)
    outputs = tuple(draw(st.lists(st.sampled_from(list(known.values())), max_size=2))) if known else ()
    return ir.Graph(name=name, inputs=inputs, ops=tuple(ops), outputs=outputs, attributes=draw(ATTRIBUTES))


@st.composite
def programs(draw: st.DrawFn) -> ir.Program:
    """Programs with several functions, nested blocks, and attributes of everything."""
    functions = {}
    for name in draw(st.lists(NAMES, min_size=1, max_size=2, unique=True)):
        graph = draw(_graphs(name, name, (), 0))
        opset = draw(st.sampled_from(["CoreML5", "CoreML7", "CoreML8", "CoreML9", "other", ""]))
        functions[name] = ir.Function(name=name, opset=opset, graph=graph, attributes=draw(ATTRIBUTES))
    return ir.Program(functions=functions, attributes=draw(ATTRIBUTES))


def comparable(program: ir.Program) -> Any:
    """Converts a program to a value that equals that of a program with the same graph.

    Inputs of functions and members of dictionaries have no order in MIL text. References to weight files are
    compared, not the content.
    """
    functions = {
        name: (f.name, f.opset, _attributes(f.attributes), _graph(f.graph, is_function=True))
        for name, f in program.functions.items()
    }
    return functions, _attributes(program.attributes)


def _graph(graph: ir.Graph, *, is_function: bool = False) -> Any:
    inputs = sorted(graph.inputs, key=lambda value: value.name) if is_function else graph.inputs
    ops = [
        (
            op.id,
            op.type,
            {name: [_argument(argument) for argument in group] for name, group in op.inputs.items()},
            op.outputs,
            [_graph(block) for block in op.blocks],
            _attributes(op.attributes),
        )
        for op in graph.ops
    ]
    return graph.name, list(inputs), ops, graph.outputs, _attributes(graph.attributes)


def _attributes(attributes: Mapping[str, ir.Constant]) -> Any:
    return {name: _argument(value) for name, value in attributes.items()}


def _argument(argument: ir.Argument) -> Any:
    if isinstance(argument, ir.Value):
        return argument
    data = argument.data
    if isinstance(data, BlobData):
        return data.storage.name, data.offset, argument.type
    if not isinstance(data, ir.Nested):
        array = argument.numpy()
        return argument.type, array.shape, array.tolist() if array.dtype == object else array.tobytes()
    members = [_argument(item) for item in data.items]
    if isinstance(argument.type, ir.DictType):
        members = sorted(zip(members[::2], members[1::2], strict=True), key=repr)
    return argument.type, members
