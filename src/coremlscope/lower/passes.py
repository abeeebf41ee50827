"""What is done to a graph once it is lowered: an ordered list of passes, each with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx.helper

from coremlscope.lower.clamps import join_clamps
from coremlscope.lower.layer_norms import join_layer_norms
from coremlscope.ops.emit import Emitter
from coremlscope.ops.program import MERGED

__all__ = ["PASSES", "Pass", "used_names"]

Nodes = list[onnx.NodeProto]

#: How far apart neighbouring half-precision numbers are, relative to their size: constants are no nearer.
_FP16_SPACING = 2.0**-10


@dataclass(frozen=True, slots=True)
class Pass:
    """One rewriting of the node list.

    Attributes:
        name: What it is called.
        reason: Why it exists.
        run: From nodes, the names of the graph's outputs and what its constants are kept in to the new nodes.
    """

    name: str
    reason: str
    run: Callable[[Nodes, Sequence[str], Emitter], Nodes]


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g


def used_names(nodes: Sequence[onnx.NodeProto]) -> set[str]:
    """Every name that the nodes read, those read inside nested graphs included."""
    names: set[str] = set()
    for node in nodes:
        names.update(node.input)
        for graph in _subgraphs(node):
            names |= used_names(list(graph.node))
            names.update(output.name for output in graph.output)
    names.discard("")
    return names


def _rename_reads(node: onnx.NodeProto, names: dict[str, str]) -> None:
    for index, name in enumerate(node.input):
        if name in names:
            node.input[index] = names[name]
    for graph in _subgraphs(node):
        for inner in graph.node:
            _rename_reads(inner, names)


def _name_outputs(nodes: Nodes, outputs: Sequence[str], emitter: Emitter) -> Nodes:
    """Lets the node that makes an output carry the output's name, instead of a copy behind it."""
    made = {name for node in nodes for name in node.output}
    renamed: dict[str, str] = {}
    kept = []
    for node in nodes:
        copy = node.op_type == "Identity" and node.output[0] in outputs
        if copy and node.input[0] in made and node.input[0] not in renamed and node.input[0] not in outputs:
            renamed[node.input[0]] = node.output[0]
        else:
            kept.append(node)
    for node in kept:
        for index, name in enumerate(node.output):
            if name in renamed:
                node.output[index] = renamed[name]
        _rename_reads(node, renamed)
    return kept


def _drop_dead(nodes: Nodes, outputs: Sequence[str], emitter: Emitter) -> Nodes:
    """Drops nodes that nothing reads, in nested graphs too."""
    live = set(outputs)
    kept = []
    for node in reversed(nodes):
        if live.intersection(node.output):
            for graph in _subgraphs(node):
                alive = _drop_dead(list(graph.node), [output.name for output in graph.output], emitter)
                del graph.node[:]
                graph.node.extend(alive)
            kept.append(node)
            live |= used_names([node])
    return kept[::-1]


def _number(node: onnx.NodeProto, name: str) -> float:
    return next(float(a.f) for a in node.attribute if a.name == name)


def _hard_swish(nodes: Nodes, outputs: Sequence[str], emitter: Emitter) -> Nodes:
    """Makes one node of `x` times its hard sigmoid; what cuts `x` off where that product is zero goes."""
    makers = {name: node for node in nodes for name in node.output}
    for node in nodes:
        if node.op_type != "Mul":
            continue
        for gate, value in (tuple(node.input), tuple(reversed(node.input))):
            sigmoid = makers.get(gate)
            if sigmoid is None or sigmoid.op_type != "HardSigmoid":
                continue
            x = _uncut(value, sigmoid, makers)
            if sigmoid.input[0] not in (x, value):
                continue
            if _is_standard(sigmoid):
                node.CopyFrom(onnx.helper.make_node("HardSwish", [x], list(node.output), name=node.name))
                node.metadata_props.add(key=MERGED, value=f"{gate}\n{value}")
                break
            if sigmoid.input[0] == x != value:
                node.input[list(node.input).index(value)] = x
                node.metadata_props.add(key=MERGED, value=value)
                break
    return nodes


def _uncut(value: str, sigmoid: onnx.NodeProto, makers: Mapping[str, onnx.NodeProto]) -> str:
    """What `value` was before it was cut off, where the hard sigmoid is zero for all that was cut."""
    cut = makers.get(value)
    slope = _number(sigmoid, "alpha")
    if cut is None or cut.op_type != "ThresholdedRelu" or slope <= 0:
        return value
    zero = -_number(sigmoid, "beta") / slope
    return cut.input[0] if _number(cut, "alpha") - zero <= abs(zero) * _FP16_SPACING else value


def _is_standard(sigmoid: onnx.NodeProto) -> bool:
    """Whether the constants are those of ONNX's HardSwish, which has none of its own, in single precision."""
    return np.float32(_number(sigmoid, "alpha")) == np.float32(1 / 6) and _number(sigmoid, "beta") == 0.5


PASSES: tuple[Pass, ...] = (
    Pass(
        "clamps",
        "converters write a bound of a neural network as a chain; engines fuse one node with what is before",
        join_clamps,
    ),
    Pass(
        "layer-norms",
        "converters spell them out for neural networks; one node goes over the memory once, not ten times",
        join_layer_norms,
    ),
    Pass(
        "hard-swish",
        "converters write it as two activations and a product; an engine fuses it as one",
        _hard_swish,
    ),
    Pass("name-outputs", "a copy behind every output would cost a pass over its memory", _name_outputs),
    Pass("drop-dead", "ONNX Runtime runs nodes that nothing reads", _drop_dead),
)
