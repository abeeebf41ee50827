"""Which outputs of a network are signals, such as sound, pictures or states, not scores of classes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from coremlscope.model.ir import Graph, Model, Op, TensorType, Value
from coremlscope.runtime.execution.binding import choose_function, program_of

#: Operations that pass numbers on, in another shape, order or type.
_MOVING = frozenset(
    {"cast", "identity", "reshape", "squeeze", "expand_dims", "transpose", "slice_by_index", "quantize"}
    | {"dequantize", "flatten2d"}
)
#: Those that shift or scale all scores alike where the other operand is a constant.
_SCALING = frozenset({"add", "sub", "mul", "real_div"})
#: Results that are numbers by themselves: independent probabilities, waves, pixels and normalized features.
_SIGNALS = frozenset(
    {"sigmoid", "sigmoid_hard", "tanh", "scaled_tanh", "softsign", "relu", "relu6", "clamped_relu", "clip"}
    | {
        "leaky_relu",
        "elu",
        "gelu",
        "silu",
        "softplus",
        "sin",
        "cos",
        "exp",
        "sqrt",
        "pow",
        "abs",
        "sign",
        "round",
    }
    | {"conv_transpose", "upsample_bilinear", "upsample_nearest_neighbor", "resize_bilinear", "resize"}
    | {"pixel_shuffle", "layer_norm", "instance_norm", "l2_norm", "lstm", "gru", "rnn"}
)
#: Names of outputs of scores, by themselves independent or not.
_NAMED = re.compile(r"prob|logit|score|class", re.IGNORECASE)
#: The axis of the classes in results of layers that compute scores.
_CLASS_AXES: Mapping[str, int] = {"linear": -1, "matmul": -1, "einsum": -1, "conv": 1}


def find_signals(model: Model) -> frozenset[str]:
    """Returns the names of outputs whose largest element is not the best class.

    An output whose name tells of classes has scores. Else, the operation that computes it tells, behind those
    that only reshape, cast, shift or scale it: scores come from softmax, or from a layer whose channels are
    the last axis of the output. Where neither is found, an output is not a signal.
    """
    if program_of(model) is None:
        return frozenset()
    graph = choose_function(model).function.graph
    makers = {value.name: op for op in graph.ops for value in op.outputs}
    unnamed = (value for value in graph.outputs if not _NAMED.search(value.name))
    return frozenset(value.name for value in unnamed if _is_signal(value, graph, makers))


def _is_signal(output: Value, graph: Graph, makers: Mapping[str, Op]) -> bool:
    value = output
    for _ in range(len(graph.ops)):
        op = makers.get(value.name)
        if op is None:
            return False
        if op.type in _CLASS_AXES:
            return _classes_move(value, _CLASS_AXES[op.type], output)
        changing = list(_changing(op, makers))
        if len(changing) != 1 or op.type not in _MOVING | _SCALING:
            # A product of two results masks or gates.
            return op.type in _SIGNALS or op.type == "mul"
        value = changing[0]
    return False


def _changing(op: Op, makers: Mapping[str, Op]) -> Iterator[Value]:
    """Yields the arguments that are not constants."""
    for arguments in op.inputs.values():
        for argument in arguments:
            if isinstance(argument, Value):
                maker = makers.get(argument.name)
                if maker is None or not maker.type.startswith("const"):
                    yield argument


def _classes_move(value: Value, axis: int, output: Value) -> bool:
    """True where the last axis of the output is not that of the classes."""
    if not isinstance(value.type, TensorType) or not isinstance(output.type, TensorType):
        return False
    made, last = value.type.shape, output.type.shape
    if not made or not last or not isinstance(made[axis], int) or not isinstance(last[-1], int):
        return False
    return made[axis] != last[-1]
