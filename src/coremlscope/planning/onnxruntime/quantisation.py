"""The float network in a graph with QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

import msgspec

from coremlscope.base.arrays import np
from coremlscope.formats.onnx.graph import Graph, Node
from coremlscope.model.ir import Constant, Immediate

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"


def is_dequantised_constant(maker: Node | None, graph: Graph) -> bool:
    """True for the operator that makes floats of a quantised constant."""
    return maker is not None and maker.op == DEQUANTIZE and maker.inputs[0] in graph.constants


def without_quantisation(graph: Graph) -> Graph:
    """Returns a graph without QuantizeLinear and DequantizeLinear; its constants are zeros."""
    names: dict[str, str] = {}
    types, constants = dict(graph.types), dict(graph.constants)
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op not in (QUANTIZE, DEQUANTIZE):
            nodes.append(
                msgspec.structs.replace(node, inputs=tuple(names.get(one, one) for one in node.inputs))
            )
            continue
        made, source = node.outputs[0], names.get(node.inputs[0], node.inputs[0])
        type_ = types.get(made)
        if is_dequantised_constant(node, graph) and type_ is not None and type_.is_static:
            values = np.broadcast_to(
                np.zeros((), type_.dtype.numpy), [size or 0 for size in type_.shape or ()]
            )
            constants[made] = Constant(type_, Immediate(values))
            continue
        names[made] = source
        if node.op == DEQUANTIZE and type_ is not None:
            types[source] = type_
    outputs = [msgspec.structs.replace(one, name=names.get(one.name, one.name)) for one in graph.outputs]
    return msgspec.structs.replace(graph, nodes=nodes, types=types, constants=constants, outputs=outputs)
