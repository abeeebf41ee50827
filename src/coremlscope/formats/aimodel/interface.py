"""The interface of Core AI models, and the types with which their translation computes."""

from __future__ import annotations

from msgspec.structs import replace

from coremlscope.formats.aimodel.content import Content, GraphContent, GraphFeature
from coremlscope.model import ir
from coremlscope.model.ir import DType, TensorType

#: The assumed size of a dimension of which the file tells no more than that it may vary.
DYNAMIC_SIZE = 16
#: Integers with which Core ML does not compute; coreai-torch writes shapes and indices with them.
_WIDE = (DType.INT64, DType.UINT32, DType.UINT64)
#: The types of inputs and outputs of Core ML.
_FEATURES = (DType.FP16, DType.FP32, DType.FP64, DType.INT32, DType.INT8)


def plain_type(type_: TensorType) -> TensorType:
    """Returns the type with which the translation computes: wide and unsigned integers are int32."""
    return replace(type_, dtype=DType.INT32) if type_.dtype in _WIDE else type_


def describe(content: Content) -> ir.Description:
    """Returns the interface of every graph that can be called from outside."""
    functions = {graph.name: _interface(graph) for graph in content.graphs.values() if not graph.is_private}
    default = "main" if "main" in functions else next(iter(functions))
    return ir.Description(functions=functions, default=default)


def _interface(graph: GraphContent) -> ir.FunctionDescription:
    inputs = [feature for feature in graph.inputs if isinstance(feature.type, TensorType)]
    states = [feature for feature in graph.inputs if isinstance(feature.type, ir.StateType)]
    outputs = [feature for feature in graph.outputs if isinstance(feature.type, TensorType)]
    return ir.FunctionDescription(
        inputs=tuple(ir.Feature(feature.name, _array(feature)) for feature in inputs),
        outputs=tuple(ir.Feature(feature.name, _array(feature, is_output=True)) for feature in outputs),
        states=tuple(ir.Feature(feature.name, ir.StateFeature(_array(feature))) for feature in states),
    )


def _array(feature: GraphFeature, *, is_output: bool = False) -> ir.ArrayFeature:
    type_ = feature.type.wrapped if isinstance(feature.type, ir.StateType) else feature.type
    assert isinstance(type_, TensorType)
    dtype = plain_type(type_).dtype
    dims = type_.shape or ()
    dtype = dtype if dtype in _FEATURES else DType.INT32
    if None not in dims:
        return ir.ArrayFeature(dtype=dtype, shape=tuple(size or 0 for size in dims))
    if is_output:
        return ir.ArrayFeature(dtype=dtype, shape=())
    return ir.ArrayFeature(
        dtype=dtype,
        shape=tuple(DYNAMIC_SIZE if size is None else size for size in dims),
        flexibility=ir.RangeShapes(tuple((1, -1) if size is None else (size, size) for size in dims)),
    )
