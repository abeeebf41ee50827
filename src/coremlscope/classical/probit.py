"""The Bayesian probit regressor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from coremlscope.classical.contract import ClassicalType, Fact
from coremlscope.classical.interface import F64, Interface
from coremlscope.classical.messages import doubles, require
from coremlscope.classical.normal_cdf import normal_cdf
from coremlscope.errors import UnsupportedModelError
from coremlscope.ir import Classical, Constant, TensorType, Value, constant
from coremlscope.ops.emit import I64, Tensor
from coremlscope.ops.spec import Work, moved
from coremlscope.ops.view import OpView
from coremlscope.schema import Message

__all__ = ["TYPES", "BayesianProbitRegressor"]


@dataclass(frozen=True, slots=True)
class BayesianProbitRegressor(Classical):
    """The probability of an event, each value of each feature adding a weight that is normally distributed.

    The probability is the share of the standard normal distribution below `mean / sqrt(1 + variance)`, with
    the mean and variance of the sum of weights.

    Attributes:
        feature_count: How many features there are.
        bias_mean: The mean of the weight that is always added.
        bias_variance: Its variance.
        feature_indices: int64 `[weights]`: which feature a weight is for.
        feature_values: int64 `[weights]`: which value of that feature.
        means: fp64 `[weights]`.
        variances: fp64 `[weights]`.
        input: The input with the values of the features, or with pairs of a feature and its value.
        optimism: The input with how many standard deviations the mean is shifted by; empty for none.
        sampling_scale: The input by which the standard deviation is multiplied when drawing a probability.
        sampling_truncation: The input with how many standard deviations are drawn from at most.
        mean_output: Output names; empty for none. This one is the mean of the sum.
        variance_output: The variance of the sum.
        pessimistic_output: The probability after the shift.
        sampled_output: A probability that is drawn.
    """

    kind: ClassVar[str] = "bayesianProbitRegressor"
    feature_count: int
    bias_mean: float
    bias_variance: float
    feature_indices: Constant
    feature_values: Constant
    means: Constant
    variances: Constant
    input: str
    optimism: str
    sampling_scale: str
    sampling_truncation: str
    mean_output: str
    variance_output: str
    pessimistic_output: str
    sampled_output: str


def _read(message: Message) -> BayesianProbitRegressor:
    """Reads a `BayesianProbitRegressor`."""
    kind = BayesianProbitRegressor.kind
    weights = [(feature.featureId, weight) for feature in message.features for weight in feature.weights]
    gaussians = [message.bias, *(weight.featureWeight for _, weight in weights)]
    worst = min(gaussian.precision for gaussian in gaussians)
    require(worst > 0, kind, f"a weight of the precision {worst:g}")
    pairs = [(feature, weight.featureValue) for feature, weight in weights]
    require(len(set(pairs)) == len(pairs), kind, "two weights for the same value of a feature")
    return BayesianProbitRegressor(
        message.numberOfFeatures,
        message.bias.mean,
        1 / message.bias.precision,
        constant(np.array([feature for feature, _ in pairs], np.int64)),
        constant(np.array([value for _, value in pairs], np.int64)),
        doubles(weight.featureWeight.mean for _, weight in weights),
        doubles(1 / weight.featureWeight.precision for _, weight in weights),
        message.regressionInputFeatureName,
        message.optimismInputFeatureName,
        message.samplingScaleInputFeatureName,
        message.samplingTruncationInputFeatureName,
        message.meanOutputFeatureName,
        message.varianceOutputFeatureName,
        message.pessimisticProbabilityOutputFeatureName,
        message.sampledProbabilityOutputFeatureName,
    )


def _lower(content: BayesianProbitRegressor, interface: Interface) -> None:
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


def _work(view: OpView) -> Work:
    """Two comparisons and two multiply-adds per weight, for the mean and for the variance."""
    return moved(view, 6 * view.static_shape("means")[0])


def _describe(content: BayesianProbitRegressor) -> Iterator[Fact]:
    yield "features", str(content.feature_count)
    yield "weights", f"{len(content.means.numpy())}, each with a mean and a variance"


#: The rows of this family.
TYPES: tuple[ClassicalType[Any], ...] = (
    ClassicalType(
        content=BayesianProbitRegressor,
        read=_read,
        lower=_lower,
        work=_work,
        describe=_describe,
    ),
)
