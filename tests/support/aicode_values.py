"""Computes Core AI programs with NumPy, operation by operation: nothing is joined or translated."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from coremlscope.formats.aimodel.content import BlockContent, Content, StoredOp
from coremlscope.model.ir import StateType

__all__ = ["run"]

Array = Any


def run(
    content: Content, inputs: Mapping[str, Array], states: dict[str, Array] | None = None
) -> dict[str, Array]:
    """Runs the graph `main`. States are changed in place.

    Args:
        content: The program.
        inputs: By name.
        states: By name.

    Returns:
        The outputs by name.
    """
    graph = content.graphs["main"]
    given = [
        (states or {}, feature.name) if isinstance(feature.type, StateType) else inputs[feature.name]
        for feature in graph.inputs
    ]
    results = _run_block(content, graph.body, given)
    named = zip(graph.outputs, results, strict=True)
    return {feature.name: value for feature, value in named if isinstance(value, np.ndarray)}


def _run_block(content: Content, body: BlockContent, given: Sequence[Any]) -> list[Any]:
    values: dict[Any, Any] = dict(zip(body.arguments, given, strict=True))
    for op in body.ops:
        if op.name == "constant":
            values[op.results[0]] = content.constant(op).numpy()
            continue
        operands = [values[operand] for operand in op.operands]
        if op.name == "output":
            return operands
        if op.name == "invoke":
            callee = content.graphs[str(op.attributes["callee"])]
            found: Any = _run_block(content, callee.body, operands)
        else:
            found = _OPS[op.name](op, *operands)
        values.update(zip(op.results, found if isinstance(found, list) else [found], strict=True))
    raise AssertionError("no output")


def _conv(op: StoredOp, x: Array, weight: Array, strides: Array, dilations: Array, groups: Array) -> Array:
    out, _, height, width = weight.shape
    (sy, sx), (dy, dx), parts = strides.tolist(), dilations.tolist(), int(groups)
    rows = (x.shape[2] - (height - 1) * dy - 1) // sy + 1
    columns = (x.shape[3] - (width - 1) * dx - 1) // sx + 1
    result = np.zeros((x.shape[0], out, rows, columns), np.float32)
    for group in range(parts):
        mine = slice(group * out // parts, (group + 1) * out // parts)
        part = x[:, group * x.shape[1] // parts : (group + 1) * x.shape[1] // parts]
        for i in range(height):
            for j in range(width):
                seen = part[:, :, i * dy : i * dy + rows * sy : sy, j * dx : j * dx + columns * sx : sx]
                result[:, mine] += np.einsum("nchw,oc->nohw", seen, weight[mine, :, i, j])
    return result


def _softmax(op: StoredOp, x: Array, axis: Array) -> Array:
    powers = np.exp(x - x.max(int(axis), keepdims=True))
    return powers / powers.sum(int(axis), keepdims=True)


def _gelu(op: StoredOp, x: Array) -> Array:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def _slice(op: StoredOp, x: Array, begin: Array, end: Array, step: Array) -> Array:
    return x[tuple(slice(*each) for each in zip(begin.tolist(), end.tolist(), step.tolist(), strict=True))]


def _read(op: StoredOp, handle: tuple[dict[str, Array], str], token: Any) -> list[Any]:
    return [handle[0][handle[1]].copy(), None]


def _write(op: StoredOp, handle: tuple[dict[str, Array], str], data: Array, token: Any) -> Any:
    handle[0][handle[1]] = data
    return [None]


def _blocks(op: StoredOp, data: Array, scale: Array, offset: Array, second: Array) -> Array:
    return (data.astype(np.float32) - offset) * scale + second  # one block along each axis of length 1


def _split(op: StoredOp, x: Array, sizes: Array, axis: Array) -> list[Array]:
    return list(np.split(x, np.cumsum(sizes)[:-1], int(axis)))


_OPS: dict[str, Callable[..., Any]] = {
    "pad": lambda op, x, p, v: np.pad(x, p.astype(int).reshape(-1, 2), constant_values=v),
    "conv2d": _conv,
    "broadcasting_add": lambda op, x, y: x + y,
    "broadcasting_sub": lambda op, x, y: x - y,
    "broadcasting_mul": lambda op, x, y: x * y,
    "broadcasting_equal": lambda op, x, y: x == y,
    "broadcasting_greater": lambda op, x, y: x > y,
    "broadcasting_where": lambda op, c, x, y: np.where(c, x, y),
    "broadcasting_batch_matmul": lambda op, x, y: x @ y,
    "relu": lambda op, x: np.maximum(x, 0),
    "not": lambda op, x: ~x,
    "rsqrt": lambda op, x: 1 / np.sqrt(x),
    "silu": lambda op, x: x / (1 + np.exp(-x)),
    "gelu": _gelu,
    "softmax": _softmax,
    "reduce_mean": lambda op, x, axes: x.mean(tuple(axes.tolist()), keepdims=True),
    "reshape": lambda op, x, shape: x.reshape(shape),
    "transpose": lambda op, x, perm: x.transpose(perm),
    "concat": lambda op, axis, *parts: np.concatenate(parts, int(axis)),
    "cast": lambda op, x: x.astype(np.float32 if x.dtype == np.bool_ else np.int32),
    "get_shape": lambda op, x: np.array(x.shape),
    "broadcast_shapes": lambda op, x, y: np.array(np.broadcast_shapes(tuple(x), tuple(y))),
    "broadcast_to": lambda op, x, shape: np.broadcast_to(x, shape),
    "gather_nd": lambda op, x, indices: x[indices[..., 0]],
    "slice": _slice,
    "split": _split,
    "create_token": lambda op: [None],
    "read_handle": _read,
    "write_handle": _write,
    "blockwise_shift_scale": _blocks,
    "lut_to_dense": lambda op, indices, lut, axis: lut.reshape(-1)[indices],
}
