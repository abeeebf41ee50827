"""The Bayesian probit regressor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
import numpy as np

from coremlscope.base.errors import UnsupportedModelError
from coremlscope.model.ir import Classical, Constant, TensorType, constant
from coremlscope.model.schema import Message
from coremlscope.ops.classical.contract import ClassicalType, Fact
from coremlscope.ops.classical.interface import F64, Interface
from coremlscope.ops.classical.messages import doubles, require
from coremlscope.ops.classical.normal_cdf import normal_cdf
from coremlscope.ops.emit import I64, Tensor
from coremlscope.ops.spec import Work, moved
from coremlscope.ops.view import OpView


class BayesianProbitRegressor(Classical, msgspec.Struct, frozen=True, kw_only=True):
    """The probability of an event. Each value of each feature adds a normally distributed weight.

    The probability is the cumulative distribution function of the standard normal distribution at
    `mean / sqrt(1 + variance)`, with the mean and variance of the sum of weights.

    Attributes:
        feature_count: The number of features.
        bias_mean: The mean of the weight that is added to every sum.
        bias_variance: Its variance.
        feature_indices: int64 `[weights]`: the feature of a weight.
        feature_values: int64 `[weights]`: the value of that feature.
        means: fp64 `[weights]`.
        variances: fp64 `[weights]`.
        input: The input with the values of the features, or with pairs of a feature and a value.
        optimism: The input with the shift of the mean, in standard deviations; empty for none.
        sampling_scale: The input with the factor of the standard deviation in sampling; empty for none.
        sampling_truncation: The input with the limit of sampling, in standard deviations; empty for none.
        mean_output: The output with the mean of the sum; empty for none, as in the following.
        variance_output: The output with the variance of the sum.
        pessimistic_output: The output with the probability after the shift.
        sampled_output: The output with a sampled probability.
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
        feature_count=message.numberOfFeatures,
        bias_mean=message.bias.mean,
        bias_variance=1 / message.bias.precision,
        feature_indices=constant(np.array([feature for feature, _ in pairs], np.int64)),
        feature_values=constant(np.array([value for _, value in pairs], np.int64)),
        means=doubles(weight.featureWeight.mean for _, weight in weights),
        variances=doubles(1 / weight.featureWeight.precision for _, weight in weights),
        input=message.regressionInputFeatureName,
        optimism=message.optimismInputFeatureName,
        sampling_scale=message.samplingScaleInputFeatureName,
        sampling_truncation=message.samplingTruncationInputFeatureName,
        mean_output=message.meanOutputFeatureName,
        variance_output=message.varianceOutputFeatureName,
        pessimistic_output=message.pessimisticProbabilityOutputFeatureName,
        sampled_output=message.sampledProbabilityOutputFeatureName,
    )


def _lower(content: BayesianProbitRegressor, interface: Interface) -> None:
    """Lowers a `BayesianProbitRegressor`; sampled probabilities are not supported."""
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
                    f"the output {value.name!r} of the {interface.kind} is not supported: Apple has not "
                    "published how this probability is sampled",
                    "remove this output from the model's description; the other outputs are supported",
                )
            case content.pessimistic_output:
                deviation = op.emit("Sqrt", variance)
                shift = op.emit("Mul", interface.row(1, [content.optimism]), deviation)
                result = normal_cdf(op, op.emit("Div", op.emit("Add", mean, shift), spread))
            case _:
                result = normal_cdf(op, op.emit("Div", mean, spread))
        interface.give(value, result, 1)


def _is_chosen(content: BayesianProbitRegressor, interface: Interface) -> Tensor:
    """True for each weight whose feature has the weight's value, bool `[1, weights]`."""
    op = interface.op
    x, type_ = op.cast(interface.tensor(content.input), F64), interface.type(content.input)
    features, values = content.feature_indices.numpy(), content.feature_values.numpy()
    of_weights = interface.emitter.array(values.astype(np.float64).reshape(1, -1))
    if isinstance(type_, TensorType) and type_.rank == 2 and (type_.shape or ())[1] == 2:
        # Each row is a feature and its value.
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
    """The sum of the bias and of the chosen weights, `[1, 1]`."""
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
