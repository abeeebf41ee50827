"""The Bayesian probit regressor: its message to `ir`."""

from __future__ import annotations

import numpy as np

from coremlscope import ir
from coremlscope.formats.classical.parts import doubles, require
from coremlscope.formats.schema import Message
from coremlscope.ir.classical import BayesianProbitRegressor

__all__ = ["read_bayesian_probit_regressor"]


def read_bayesian_probit_regressor(message: Message) -> BayesianProbitRegressor:
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
        ir.constant(np.array([feature for feature, _ in pairs], np.int64)),
        ir.constant(np.array([value for _, value in pairs], np.int64)),
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
