"""The float network in a graph with QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

import msgspec

from coremlscope.base.arrays import np
from coremlscope.formats.onnx.graph import Graph, Node, bypass
from coremlscope.model.ir import Constant, Immediate

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"


def is_dequantised_constant(maker: Node | None, graph: Graph) -> bool:
    """True for the operator that makes floats of a quantised constant."""
    return maker is not None and maker.op == DEQUANTIZE and maker.inputs[0] in graph.constants


def without_quantisation(graph: Graph) -> Graph:
    """Returns a graph without QuantizeLinear and DequantizeLinear; its constants are zeros."""
    types, constants = dict(graph.types), dict(graph.constants)
    for node in graph.nodes:
        type_ = types.get(node.outputs[0]) if node.op == DEQUANTIZE else None
        if type_ is not None and is_dequantised_constant(node, graph) and type_.is_static:
            shape = [size or 0 for size in type_.shape or ()]
            values = np.broadcast_to(np.zeros((), type_.dtype.numpy), shape)
            constants[node.outputs[0]] = Constant(type_, Immediate(values))
        elif type_ is not None:
            types[node.inputs[0]] = type_
    nodes = [node for node in graph.nodes if node.outputs[0] not in constants]
    floats = msgspec.structs.replace(graph, nodes=nodes, types=types, constants=constants)
    return bypass(floats, {QUANTIZE, DEQUANTIZE})
