"""Classical models seen as functions of one operation, to be bound, shown and timed like other functions."""

from __future__ import annotations

from coremlscope.errors import CorruptModelError, UnsupportedModelError
from coremlscope.features import describe_feature
from coremlscope.ir import (
    ArrayFeature,
    Classical,
    Constant,
    DictionaryFeature,
    DictType,
    DoubleFeature,
    DType,
    Feature,
    Function,
    FunctionDescription,
    GLMClassifier,
    GLMRegressor,
    Graph,
    Int64Feature,
    Op,
    StringFeature,
    TensorType,
    Value,
    ValueType,
)
from coremlscope.ops.spec import Work, moved
from coremlscope.ops.view import OpView

__all__ = ["CLASSICAL_WORK", "as_function"]

_NUMBER, _INTEGER = TensorType(DType.FP64, (1,)), TensorType(DType.INT64, (1,))


def as_function(content: Classical, name: str, interface: FunctionDescription) -> Function:
    """A function with one operation: the features come in as `features`, parameters are constants.

    Raises:
        UnsupportedModelError: A feature is of a type that the model is not run with here.
        CorruptModelError: The outputs are not those that such a model has.
    """
    inputs = tuple(Value(feature.name, _input_type(content, feature)) for feature in interface.inputs)
    match content:
        case GLMRegressor():
            outputs = _regressor_outputs(content, interface)
        case GLMClassifier():
            outputs = _classifier_outputs(content, interface)
    parameters: dict[str, tuple[Constant, ...]] = {
        "weights": (content.weights,),
        "offsets": (content.offsets,),
    }
    op = Op(f"{name}/0", content.kind, {"features": inputs, **parameters}, outputs)
    return Function(name, "", Graph(name, inputs, (op,), outputs))


def _input_type(content: Classical, feature: Feature) -> TensorType:
    match feature.type:
        case DoubleFeature():
            return _NUMBER
        case Int64Feature():
            return _INTEGER
        case ArrayFeature(dtype, shape, None) if shape:
            return TensorType(dtype, shape)
        case ArrayFeature(dtype):
            return TensorType(dtype, None)
        case _:
            raise UnsupportedModelError(
                f"a {content.kind} with {describe_feature(feature.type)} as the input {feature.name!r} "
                "cannot be run here",
                "numbers and arrays can be given to it",
            )


def _regressor_outputs(content: Classical, interface: FunctionDescription) -> tuple[Value, ...]:
    match interface.outputs:
        case (Feature(name, DoubleFeature()),):
            return (Value(name, _NUMBER),)
        case (Feature(name, ArrayFeature(dtype, shape)),) if dtype.is_float:
            return (Value(name, TensorType(dtype, shape or None)),)
    raise _contradiction(content, interface, "one number or array of floats")


def _classifier_outputs(content: Classical, interface: FunctionDescription) -> tuple[Value, ...]:
    outputs = []
    for feature in interface.outputs:
        type_: ValueType
        match feature.type:
            case StringFeature():
                type_ = TensorType(DType.STRING, ())
            case Int64Feature():
                type_ = TensorType(DType.INT64, ())
            case DictionaryFeature(key):
                type_ = DictType(TensorType(DType(key), ()), TensorType(DType.FP64, ()))
            case _:
                raise _contradiction(content, interface, "a label and a dictionary of probabilities")
        outputs.append(Value(feature.name, type_))
    return tuple(outputs)


def _contradiction(content: Classical, interface: FunctionDescription, what: str) -> CorruptModelError:
    described = ", ".join(f"{f.name!r} ({describe_feature(f.type)})" for f in interface.outputs) or "nothing"
    return CorruptModelError(f"a {content.kind} gives {what}, but the model is described to give {described}")


def _linear_work(view: OpView) -> Work:
    """A multiply-add per weight, and what the transform takes per row: counted as one."""
    rows, features = view.static_shape("weights")
    return moved(view, rows * (2 * features + 1))


#: FLOPs and bytes, by the operation's type; as in a row of the table of operations.
CLASSICAL_WORK = {GLMRegressor.kind: _linear_work, GLMClassifier.kind: _linear_work}
