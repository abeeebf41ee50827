"""Changes of an ONNX message before ONNX Runtime optimises it, and their return afterwards.

The file that ONNX Runtime saves has passed more than the level BASIC: operators that its CPU provider has no
kernel for are expanded, and those of float16 are cast. The Core ML provider is asked before that. So 16-bit
floats are declared as 32-bit ones, and such operators are replaced by one with a kernel and the same shapes.
(Measured with ONNX Runtime 1.32 by sessions of one operator.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

import msgspec
import numpy as np

from coremlscope.base.errors import InputError
from coremlscope.formats.onnx.element_types import element_types
from coremlscope.formats.onnx.graph import OWN_DOMAINS, Graph, Node, OnnxModel, bypass
from coremlscope.formats.onnx.model import infer_types
from coremlscope.formats.onnx.reader import model_of, read_message
from coremlscope.formats.onnx.schema import Message
from coremlscope.model.ir import DType

_FLOAT, _HALF = 1, 10
_FLOAT_ATTRIBUTE, _TENSOR_ATTRIBUTE, _GRAPH_ATTRIBUTE = 1, 4, 5
_INT_ATTRIBUTE = 2
#: The operator that is put in the place of others: with a threshold below all values it changes nothing.
_STAND_IN = "ThresholdedRelu"
_THRESHOLD, _STEP = -1.0e30, 1.0e28
#: Operators with one result of the first input's shape that ONNX Runtime expands.
_EXPANDED = ("HardSwish", "Mish", "Swish", "GroupNormalization")
_HALF_CAST = "Cast"
#: What ONNX Runtime removes from every graph.
_REMOVED = frozenset({"Dropout", "Identity"})
#: Attributes with an element type.
_TYPE_ATTRIBUTES = frozenset({"to", "dtype"})


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """What was changed.

    Attributes:
        replaced: The operators behind the stand-ins, by their result.
        half: Whether 16-bit floats were declared as 32-bit ones.
        is_changed: Whether anything was changed.
    """

    replaced: Mapping[str, Node]
    half: bool
    is_changed: bool


#: What is said of a graph that no engine optimised.
AS_IT_STANDS = "before ONNX Runtime's own optimisation"


class SeenGraph(msgspec.Struct, frozen=True, kw_only=True):
    """The graph that providers are asked about.

    Attributes:
        model: The model with that graph.
        basis: Which graph it is.
        doubt: Why it is not the optimised one, as a clause; empty if it is.
    """

    model: OnnxModel
    basis: str
    doubt: str = ""


def as_it_stands(model: OnnxModel, shapes: Mapping[str, Sequence[int]], doubt: str) -> SeenGraph:
    """Returns a model with its own graph, without operators that change nothing; no engine optimised it.

    Args:
        model: The model.
        shapes: Shapes of inputs by name, and sizes of free dimensions by theirs.
        doubt: Why nothing optimised it, as a clause.

    Raises:
        InputError: There is no such input or dimension, or a size differs.
    """
    if shapes:
        message = read_message(model.path)
        bind(message.graph, shapes)
        model = model_of(message, model.path)
    model = msgspec.structs.replace(model, graph=bypass(model.graph, _REMOVED))
    types = {**infer_types(model), **model.graph.types}
    graph = msgspec.structs.replace(model.graph, types=types)
    return SeenGraph(model=msgspec.structs.replace(model, graph=graph), basis=AS_IT_STANDS, doubt=doubt)


def prepare(message: Message, shapes: Mapping[str, Sequence[int]], graph: Graph) -> Prepared:
    """Changes a message.

    Args:
        message: The model.
        shapes: Shapes of inputs by name, and sizes of free dimensions by theirs.
        graph: Its graph, as it was read.

    Raises:
        InputError: There is no such input or dimension, or a size differs.
    """
    is_bound = bind(message.graph, shapes)
    is_half = any(_is_half(graph) for graph in _graphs(message.graph))
    nodes = {node.outputs[0]: node for _, node in graph.walk() if node.outputs}
    dtypes = element_types(graph) if is_half else {}
    floats = {name for name, dtype in dtypes.items() if dtype in (DType.FP16, DType.FP32)}
    replaced: dict[str, Node] = {}
    # With functions in the file, ONNX Runtime expands before it optimises.
    if is_half or not message.functions:
        for one in _graphs(message.graph):
            _replace_operators(one, nodes, replaced, floats, expands=bool(message.functions))
    if is_half:
        for one in _graphs(message.graph):
            _widen(one)
    return Prepared(replaced=replaced, half=is_half, is_changed=is_bound or is_half or bool(replaced))


def bind(graph: Message, shapes: Mapping[str, Sequence[int]]) -> bool:
    """Gives free dimensions sizes; returns whether there were any.

    Raises:
        InputError: There is no such input or dimension, or a size differs.
    """
    if not shapes:
        return False
    constants = {one.name for one in graph.initializer}
    inputs = {one.name: one.type.tensor_type.shape.dim for one in graph.input if one.name not in constants}
    free = {dim.dim_param for dims in inputs.values() for dim in dims if dim.dim_param}
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        if name in inputs:
            sizes.update(_bind_input(name, inputs[name], shape))
        elif name in free and len(shape) == 1:
            sizes[name] = int(shape[0])
        else:
            known = ", ".join([*inputs, *sorted(free)])
            raise InputError(f"there is no input or free dimension {name!r}", f"there are {known}")
    for value in (*graph.input, *graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    # Declared sizes of other values may contradict the new ones.
    del graph.value_info[:]
    return True


def _bind_input(name: str, dims: Sequence[Message], shape: Sequence[int]) -> Mapping[str, int]:
    """Gives an input a shape; returns the sizes of its named dimensions."""
    if len(dims) != len(shape) or any(
        dim.HasField("dim_value") and dim.dim_value != size for dim, size in zip(dims, shape, strict=True)
    ):
        given = ", ".join(str(dim.dim_value or dim.dim_param or "?") for dim in dims)
        raise InputError(f"the input {name!r} has the shape [{given}], not {list(shape)}", "check --shape")
    sizes = {dim.dim_param: int(size) for dim, size in zip(dims, shape, strict=True) if dim.dim_param}
    for dim, size in zip(dims, shape, strict=True):
        dim.dim_value = int(size)
    return sizes


def _graphs(graph: Message) -> Iterator[Message]:
    """Iterates over a graph and the bodies of its operators."""
    yield graph
    for node in graph.node:
        for one in node.attribute:
            if one.type == _GRAPH_ATTRIBUTE:
                yield from _graphs(one.g)


def _is_half(graph: Message) -> bool:
    return any(one.data_type == _HALF for one in graph.initializer) or any(
        one.type.tensor_type.elem_type == _HALF for one in (*graph.input, *graph.output)
    )


def _replace_operators(
    graph: Message, nodes: Mapping[str, Node], replaced: dict[str, Node], floats: Set[str], *, expands: bool
) -> None:
    kinds = {op: index for index, op in enumerate((*_EXPANDED, _HALF_CAST))}
    if expands:
        kinds = {op: index for op, index in kinds.items() if op in (_HALF_CAST, "GroupNormalization")}
    for message in graph.node:
        op = message.op_type
        if op not in kinds or message.domain not in OWN_DOMAINS or not message.output:
            continue
        if op == _HALF_CAST and not (message.input[0] in floats and _casts_to_float(message)):
            continue
        replaced[message.output[0]] = nodes[message.output[0]]
        target = next((one.i for one in message.attribute if one.name == "to"), 0)
        del message.input[1:], message.attribute[:]
        message.op_type = _STAND_IN
        message.attribute.add(
            name="alpha",
            type=_FLOAT_ATTRIBUTE,
            f=_THRESHOLD - _STEP * (kinds[op] + (1 if target == _HALF else 0)),
        )


def _casts_to_float(message: Message) -> bool:
    return any(one.name == "to" and one.i in (_FLOAT, _HALF) for one in message.attribute)


def _widen(graph: Message) -> None:
    """Declares 16-bit floats as 32-bit ones. Names of casts are kept by stand-ins."""
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == _HALF:
            value.type.tensor_type.elem_type = _FLOAT
    for node in graph.node:
        for one in node.attribute:
            if one.type == _TENSOR_ATTRIBUTE:
                _widen_tensor(one.t)
            elif one.type == _INT_ATTRIBUTE and one.name in _TYPE_ATTRIBUTES and one.i == _HALF:
                one.i = _FLOAT


def _widen_tensor(tensor: Message) -> None:
    if tensor.data_type != _HALF:
        return
    tensor.data_type = _FLOAT
    if tensor.HasField("raw_data"):
        values = np.frombuffer(tensor.raw_data, np.float16)
    else:
        values = np.array(tensor.int32_data, np.uint16).view(np.float16)
        del tensor.int32_data[:]
    tensor.raw_data = values.astype(np.float32).tobytes()


def restore(graph: Graph, prepared: Prepared) -> Graph:
    """Puts the operators back that stand-ins replaced."""
    nodes = [
        msgspec.structs.replace(
            prepared.replaced[node.outputs[0]], inputs=_inputs(node, prepared), outputs=node.outputs
        )
        if node.op == _STAND_IN and node.outputs[0] in prepared.replaced
        else node
        for node in graph.nodes
    ]
    return msgspec.structs.replace(graph, nodes=nodes)


def _inputs(node: Node, prepared: Prepared) -> tuple[str, ...]:
    return (node.inputs[0], *prepared.replaced[node.outputs[0]].inputs[1:])
