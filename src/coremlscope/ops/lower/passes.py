"""Graph passes that run after lowering, in order, each with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
import onnx
import onnx.helper

from coremlscope.ops.emit import Emitter
from coremlscope.ops.lower.clamps import join_clamps
from coremlscope.ops.lower.layer_norms import join_layer_norms
from coremlscope.ops.program import MERGED

Nodes = list[onnx.NodeProto]

#: The relative spacing of fp16 numbers, which limits the precision of constants.
_FP16_SPACING = 2.0**-10


class Pass(msgspec.Struct, frozen=True):
    """A rewrite of the node list.

    Attributes:
        name: The pass's name.
        reason: Why the pass exists.
        run: Returns the new nodes, given the nodes, the names of the graph's outputs and the emitter that
            holds its constants.
    """

    name: str
    reason: str
    run: Callable[[Nodes, Sequence[str], Emitter], Nodes]


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g


def used_names(nodes: Sequence[onnx.NodeProto]) -> set[str]:
    """Every name that the nodes read, including reads inside nested graphs."""
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
    """Removes copies to outputs: the node that computes an output gets the output's name."""
    computed = {name for node in nodes for name in node.output}
    renamed: dict[str, str] = {}
    kept = []
    for node in nodes:
        is_copy = node.op_type == "Identity" and node.output[0] in outputs
        source = node.input[0] if is_copy else ""
        if source in computed and source not in renamed and source not in outputs:
            renamed[source] = node.output[0]
        else:
            kept.append(node)
    for node in kept:
        for index, name in enumerate(node.output):
            if name in renamed:
                node.output[index] = renamed[name]
        _rename_reads(node, renamed)
    return kept


def _drop_dead(nodes: Nodes, outputs: Sequence[str], emitter: Emitter) -> Nodes:
    """Removes nodes whose results are not read, including those of nested graphs."""
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
    """Merges `x` times its hard sigmoid into one node.

    A threshold of `x` is removed if the hard sigmoid is zero wherever the threshold applies.
    """
    makers = {name: node for node in nodes for name in node.output}
    for node in nodes:
        if node.op_type != "Mul":
            continue
        for gate, value in (tuple(node.input), tuple(reversed(node.input))):
            sigmoid = makers.get(gate)
            if sigmoid is None or sigmoid.op_type != "HardSigmoid":
                continue
            x = _without_threshold(value, sigmoid, makers)
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


def _without_threshold(value: str, sigmoid: onnx.NodeProto, makers: Mapping[str, onnx.NodeProto]) -> str:
    """The input of the threshold that computes `value`, if the hard sigmoid is zero below the threshold."""
    threshold = makers.get(value)
    slope = _number(sigmoid, "alpha")
    if threshold is None or threshold.op_type != "ThresholdedRelu" or slope <= 0:
        return value
    zero = -_number(sigmoid, "beta") / slope
    removable = _number(threshold, "alpha") - zero <= abs(zero) * _FP16_SPACING
    return threshold.input[0] if removable else value


def _is_standard(sigmoid: onnx.NodeProto) -> bool:
    """True if the constants equal those of ONNX's HardSwish, which are fixed, in float32."""
    return np.float32(_number(sigmoid, "alpha")) == np.float32(1 / 6) and _number(sigmoid, "beta") == 0.5


PASSES: tuple[Pass, ...] = (
    Pass(
        "clamps",
        "converters write bounds of neural networks as chains; engines fuse one node with its predecessor",
        join_clamps,
    ),
    Pass(
        "layer-norms",
        "converters spell them out for neural networks; one node reads the memory once instead of ten times",
        join_layer_norms,
    ),
    Pass(
        "hard-swish",
        "converters write it as two activations and a product; engines run it as one node",
        _hard_swish,
    ),
    Pass("name-outputs", "a copy of every output would cost memory bandwidth", _name_outputs),
    Pass("drop-dead", "ONNX Runtime runs nodes whose results are not read", _drop_dead),
)
