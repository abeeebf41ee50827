"""Merges chains of activations, factors and bounds that are equivalent to one activation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.helper
from msgspec.structs import replace
from onnx import numpy_helper

from coremlscope.ops.clamp import Clamp
from coremlscope.ops.emit import F32, Emitter
from coremlscope.ops.program import MERGED


class _Clamp(Clamp, frozen=True, kw_only=True):
    """A chain of nodes.

    Attributes:
        x: The name of the chain's input.
        through: The names of the values that the chain computes, in order.
    """

    x: str
    through: tuple[str, ...] = ()


def join_clamps(
    nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], emitter: Emitter
) -> list[onnx.NodeProto]:
    """Replaces each chain that only bounds its input, or is a hard sigmoid of it, by one node.

    Converters write `relu6` for neural networks as a ReLU, a factor of -1, a lower bound of -6 and a factor
    of -1, and write hard sigmoids similarly. Nodes whose results other nodes read stay in the graph.
    """
    numbers = _numbers(emitter)
    clamps: dict[str, _Clamp] = {}
    joined = []
    for node in nodes:
        clamp = _clamp(node, clamps, numbers)
        if clamp is None:
            joined.append(node)
            continue
        clamps[node.output[0]] = clamp
        joined.append(_one_node(node, clamp, emitter) if len(clamp.through) > 1 else node)
    return joined


def _numbers(emitter: Emitter) -> dict[str, float]:
    """The float32 scalars among the constants, by name."""
    found = {}
    for tensor in emitter.initializers:
        if not tensor.dims and tensor.data_type == onnx.TensorProto.FLOAT:
            found[tensor.name] = float(numpy_helper.to_array(tensor))
    return found


def _clamp(node: onnx.NodeProto, clamps: Mapping[str, _Clamp], numbers: Mapping[str, float]) -> _Clamp | None:
    """The chain that ends with this node; None if the node cannot be part of a chain."""
    link = _LINKS.get(node.op_type)
    if link is None:
        return None
    names = list(node.input)
    if node.op_type in ("Add", "Mul") and names[0] in numbers:
        names.reverse()
    before = clamps.get(names[0]) or _Clamp(x=names[0])
    after = link(before, node, [numbers.get(name) if name else math.nan for name in names[1:]])
    return None if after is None else replace(after, through=(*before.through, node.output[0]))


def _relu(x: _Clamp, node: onnx.NodeProto, numbers: Sequence[Any]) -> _Clamp:
    return x.within(0.0, math.inf)


def _bounds(x: _Clamp, node: onnx.NodeProto, numbers: Sequence[Any]) -> _Clamp | None:
    if None in numbers:
        return None
    low, high = [*numbers, math.nan, math.nan][:2]
    low, high = -math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high
    return x.within(low, high) if low <= high else None


def _factor(x: _Clamp, node: onnx.NodeProto, numbers: Sequence[Any]) -> _Clamp | None:
    (number,) = numbers
    # Zero and infinite factors are excluded, because their products with infinite bounds are undefined.
    return x.times(number) if number and math.isfinite(number) else None


def _summand(x: _Clamp, node: onnx.NodeProto, numbers: Sequence[Any]) -> _Clamp | None:
    (number,) = numbers
    return x.plus(number) if number is not None and math.isfinite(number) else None


def _hard_sigmoid(x: _Clamp, node: onnx.NodeProto, numbers: Sequence[Any]) -> _Clamp | None:
    given = {attribute.name: float(attribute.f) for attribute in node.attribute}
    slope, offset = given.get("alpha", 0.2), given.get("beta", 0.5)
    return x.times(slope).plus(offset).within(0.0, 1.0) if slope else None


#: The effect of each type of node on a chain, given the constants after its first input: None for an input
#: that is not constant, NaN for an omitted input. A function returns None if the node ends the chain.
_LINKS: Mapping[str, Callable[[_Clamp, onnx.NodeProto, Sequence[Any]], _Clamp | None]] = {
    "Add": _summand,
    "Clip": _bounds,
    "HardSigmoid": _hard_sigmoid,
    "Mul": _factor,
    "Relu": _relu,
}


def _one_node(node: onnx.NodeProto, clamp: _Clamp, emitter: Emitter) -> onnx.NodeProto:
    """One node for the chain that ends with this node; the node itself if no single node is equivalent."""
    if clamp.is_bound:
        if (clamp.low, clamp.high) == (0.0, math.inf):
            merged = onnx.helper.make_node("Relu", [clamp.x], list(node.output), name=node.name)
        else:
            ends = [
                emitter.array(np.array(end, F32)).name if math.isfinite(end) else ""
                for end in (clamp.low, clamp.high)
            ]
            merged = onnx.helper.make_node("Clip", [clamp.x, *ends], list(node.output), name=node.name)
    elif clamp.is_hard_sigmoid:
        merged = onnx.helper.make_node(
            "HardSigmoid",
            [clamp.x],
            list(node.output),
            name=node.name,
            alpha=clamp.factor,
            beta=clamp.summand,
        )
    else:
        return node
    merged.metadata_props.add(key=MERGED, value="\n".join(clamp.through[:-1]))
    return merged
