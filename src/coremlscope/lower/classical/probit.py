"""The Bayesian probit regressor to ONNX."""

from __future__ import annotations

import numpy as np

from coremlscope.errors import UnsupportedModelError
from coremlscope.ir import TensorType, Value
from coremlscope.ir.classical import BayesianProbitRegressor
from coremlscope.lower.classical.interface import F64, Interface
from coremlscope.lower.classical.linear import normal_cdf
from coremlscope.ops.emit import I64, Tensor

__all__ = ["lower_bayesian_probit_regressor"]


def lower_bayesian_probit_regressor(content: BayesianProbitRegressor, interface: Interface) -> None:
    """Lowers a `BayesianProbitRegressor`; only drawn probabilities cannot be given."""
    op = interface.op
    chosen = op.cast(_is_chosen(content, interface), F64)
    mean = _total(content.bias_mean, interface.weight(content.means, "means"), chosen, interface)
    variance = _total(
        content.bias_variance, interface.weight(content.variances, "variances"), chosen, interface
    )
    spread = op.emit("Sqrt", op.emit("Add", variance, op.const(1.0, F64)))
    for value in interface.outputs:
        match value.name:
            case content.mean_output:
                result = mean
            case content.variance_output:
                result = variance
            case content.sampled_output:
                raise UnsupportedModelError(
                    f"the output {value.name!r} of the {interface.kind} is drawn by chance, in a way that "
                    "Apple has not published",
                    "there is nothing that it could be compared with; the other outputs can be given",
                )
            case content.pessimistic_output:
                deviation = op.emit("Sqrt", variance)
                shift = op.emit("Mul", interface.row(1, [content.optimism]), deviation)
                result = normal_cdf(op, op.emit("Div", op.emit("Add", mean, shift), spread))
            case _:
                result = normal_cdf(op, op.emit("Div", mean, spread))
        _give(value, result, interface)


def _give(value: Value, result: Tensor, interface: Interface) -> None:
    interface.give(value, result, 1)


def _is_chosen(content: BayesianProbitRegressor, interface: Interface) -> Tensor:
    """Which weights the values of the features choose, bool `[1, weights]`."""
    op = interface.op
    x, type_ = op.cast(interface.tensor(content.input), F64), interface.type(content.input)
    features, values = content.feature_indices.numpy(), content.feature_values.numpy()
    of_weights = interface.emitter.array(values.astype(np.float64).reshape(1, -1))
    if isinstance(type_, TensorType) and type_.rank == 2 and (type_.shape or ())[1] == 2:
        # Rows of a feature and its value.
        numbers = interface.emitter.array(features.astype(np.float64).reshape(1, -1))
        named, valued = (op.emit("Gather", x, op.const([column], I64), axis=1) for column in (0, 1))
        fits = op.emit("And", op.emit("Equal", named, numbers), op.emit("Equal", valued, of_weights))
        found = op.emit("ReduceMax", op.cast(fits, np.int32), op.const([0], I64), keepdims=1)
        return op.emit("Greater", found, op.const(0, np.int32))
    size = interface.size(content.input)
    if features.size and size is not None and features.max() >= size:
        raise interface.error(
            f"has weights of the feature {features.max()}, but its input holds {size} numbers"
        )
    own = op.emit("Gather", op.reshape(x, (-1,)), interface.emitter.array(features), axis=0)
    return op.emit("Equal", op.reshape(own, (1, -1)), of_weights)


def _total(bias: float, weights: Tensor, chosen: Tensor, interface: Interface) -> Tensor:
    """The bias and the weights that are chosen, `[1, 1]`."""
    op = interface.op
    total = op.emit("MatMul", chosen, op.reshape(weights, (-1, 1)))
    return op.emit("Add", total, op.const(bias, F64))
