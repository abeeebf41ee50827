"""The Bayesian probit regressor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coremlscope.ir.data import Constant

__all__ = ["BayesianProbitRegressor"]


@dataclass(frozen=True, slots=True)
class BayesianProbitRegressor:
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
