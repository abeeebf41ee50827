"""Generalised linear models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from coremlscope.ir.data import Constant

__all__ = ["ClassEncoding", "GLMClassifier", "GLMRegressor", "Transform"]

#: What is done to a linear score `s`, in Apple's words: nothing, the logistic function `1 / (1 + exp(-s))`,
#: or the cumulative distribution function of the standard normal distribution.
Transform = Literal["NoTransform", "Logit", "Probit"]
#: Which class each row of weights stands for: every class but the first, or each class against all others.
#: Two classes have one row in either encoding; it stands for the second.
ClassEncoding = Literal["ReferenceClass", "OneVsRest"]


@dataclass(frozen=True, slots=True)
class GLMRegressor:
    """A generalised linear regression: `transform(weights · x + offsets)`.

    Attributes:
        weights: fp64 `[results, features]`.
        offsets: fp64 `[results]`.
    """

    kind: ClassVar[str] = "glmRegressor"
    weights: Constant
    offsets: Constant
    transform: Transform


@dataclass(frozen=True, slots=True)
class GLMClassifier:
    """A generalised linear classification: the scores `weights · x + offsets` become probabilities.

    Attributes:
        weights: fp64 `[rows, features]`; see `encoding`.
        offsets: fp64 `[rows]`.
        transform: `Logit`, or with two classes `Probit`.
        labels: The classes.
    """

    kind: ClassVar[str] = "glmClassifier"
    weights: Constant
    offsets: Constant
    transform: Transform
    encoding: ClassEncoding
    labels: tuple[str | int, ...]
