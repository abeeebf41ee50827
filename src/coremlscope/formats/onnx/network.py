"""Translation of ONNX graphs, or parts of them, to `ir.Program`, operator by operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from coremlscope.formats.neuralnetwork.builder import OPSET, Blob, Builder, CannotTranslate
from coremlscope.formats.onnx import contraction, elementwise, shaping
from coremlscope.formats.onnx.graph import Graph, Node
from coremlscope.formats.onnx.translation import Operand, Rows, Translation, plain_constant, plain_dtype
from coremlscope.model.ir import (
    ArrayFeature,
    Constant,
    Description,
    DType,
    Feature,
    Function,
    FunctionDescription,
    Layer,
    Model,
    Program,
    TensorType,
)
from coremlscope.ops.view import CONTRADICTIONS

#: The kind of programs that are ONNX models, and their version of Core ML's specification.
ONNX, NO_VERSION = "onnx", -1
#: Operators that return a constant as it is.
_PASSED_ON = frozenset({"Dropout", "Identity"})
_ROWS: Rows = {**elementwise.ROWS, **contraction.ROWS, **shaping.ROWS}
#: The name of the function.
FUNCTION = "main"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Operators that become a program.

    Attributes:
        nodes: The operators, in order.
        inputs: The names of the values that they read.
        outputs: The names of the values that are returned.
    """

    nodes: Sequence[Node]
    inputs: Sequence[str]
    outputs: Sequence[str]


def translate(
    graph: Graph,
    opset: int,
    part: Part,
    *,
    kind: str = ONNX,
    floats: DType = DType.FP32,
    types: Mapping[str, TensorType] | None = None,
) -> Model:
    """Translates operators into a model of one function.

    An operator without a translation becomes an operation without a definition, with the reason.

    Args:
        graph: The graph.
        opset: The version of ONNX's own operators.
        part: The operators.
        kind: The kind of the program: `onnx` and `neuralNetwork` do not specify a precision.
        floats: The type of all floats.
        types: Types of values, instead of those of the graph.
    """
    known = graph.types if types is None else types
    network = _Network(graph, opset, part, known, floats)
    function = network.translate()
    features = [
        tuple(Feature(value.name, _array(value.type)) for value in values)
        for values in (function.graph.inputs, function.graph.outputs)
    ]
    interface = FunctionDescription(inputs=features[0], outputs=features[1])
    return Model(
        spec_version=NO_VERSION,
        description=Description(functions={FUNCTION: interface}, default=FUNCTION),
        content=Program(functions={FUNCTION: function}, kind=kind),
        container=ONNX,
    )


def _array(type_: object) -> ArrayFeature:
    assert isinstance(type_, TensorType)
    allowed = (DType.FP16, DType.FP32, DType.INT32, DType.INT8)
    return ArrayFeature(
        dtype=type_.dtype if type_.dtype in allowed else DType.INT32,
        shape=tuple(size or 1 for size in type_.shape or ()),
    )


class _Network:
    def __init__(
        self, graph: Graph, opset: int, part: Part, types: Mapping[str, TensorType], floats: DType
    ) -> None:
        self.graph, self.opset, self.part, self.types, self.floats = graph, opset, part, types, floats
        self.builder = Builder(FUNCTION, [*part.inputs, *part.outputs])
        self.scope: dict[str, Operand] = {}
        self.layers: list[Layer] = []

    def translate(self) -> Function:
        b = self.builder
        inputs = []
        for name in self.part.inputs:
            type_ = self._type(name)
            blob = b.input(name, type_.dtype, type_.shape)
            self.scope[name] = blob
            inputs.append(blob)
        for node in self.part.nodes:
            self._node(node)
        b.layer = None
        outputs = [self._output(name) for name in dict.fromkeys(self.part.outputs)]
        graph = b.graph(FUNCTION, inputs, outputs)
        return Function(name=FUNCTION, opset=f"CoreML{OPSET}", graph=graph, layers=tuple(self.layers))

    def _type(self, name: str) -> TensorType:
        type_ = self.types.get(name) or TensorType(self.floats, None)
        return replace(type_, dtype=plain_dtype(type_.dtype, self.floats))

    def _output(self, name: str) -> Blob:
        blob = self._operand(name)
        self.builder.feature = name
        if isinstance(blob, Blob) and blob.value.name == name:
            return blob
        return self.builder.op("identity", named=name, x=blob)

    def _operand(self, name: str) -> Operand | None:
        if not name:
            return None
        if name not in self.scope:
            given = self.graph.constants.get(name)
            if given is None:
                type_ = self._type(name)
                self.scope[name] = self.builder.unknown("value", [], [type_])[0]
            else:
                self.scope[name] = plain_constant(given, self.floats)
        return self.scope[name]

    def _node(self, node: Node) -> None:
        b = self.builder
        layer = Layer(
            name=node.label,
            type=node.op,
            inputs=tuple(filter(None, node.inputs)),
            outputs=tuple(filter(None, node.outputs)),
        )
        b.layer, mark = layer, b.mark
        inputs = tuple(self._operand(name) for name in node.inputs)
        if node.op in _PASSED_ON and isinstance(inputs[0], Constant):
            self.scope[node.outputs[0]] = inputs[0]
            return
        try:
            results = self._translated(node, inputs)
        except CannotTranslate as error:
            problem = str(error)
        except CONTRADICTIONS as error:
            problem = f"its attributes do not match its definition ({type(error).__name__}: {error})"
        else:
            problem = ""
        if problem:
            b.undo_from(mark)
            b.layer = layer = replace(layer, problem=problem)
            read = [one for one in inputs if isinstance(one, Blob)]
            weights = [one for one in inputs if isinstance(one, Constant)]
            types = [self._type(name) for name in node.outputs]
            results = list(b.unknown(node.op, read, types, weights=weights))
        self.layers.append(layer)
        for name, blob in zip(node.outputs, results, strict=False):
            if name:
                self.scope[name] = b.rename(blob, name, mark, is_reserved=name in self.part.outputs)

    def _translated(self, node: Node, inputs: tuple[Operand | None, ...]) -> list[Blob]:
        row = _ROWS.get(node.op)
        if row is None:
            raise CannotTranslate("this operator is not supported")
        translation = Translation(
            builder=self.builder,
            node=node,
            opset=self.opset,
            inputs=inputs,
            floats=self.floats,
            types=[self.types.get(name) for name in node.outputs],
        )
        result = row(translation)
        results = [result] if isinstance(result, Blob) else list(result)
        wanted = len([name for name in node.outputs if name])
        if len(results) < wanted:
            raise CannotTranslate(f"it has {wanted} results instead of {len(results)}")
        return results
