"""Parameters of support vector machines, in the terms of LIBSVM, which Core ML follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coremlscope.ir import Classical, Constant

__all__ = [
    "DenseVectors",
    "Kernel",
    "LinearKernel",
    "PolyKernel",
    "RBFKernel",
    "SigmoidKernel",
    "SparseVectors",
    "SupportVectorClassifier",
    "SupportVectorRegressor",
    "SupportVectors",
]


@dataclass(frozen=True, slots=True)
class LinearKernel:
    """`u · v`."""


@dataclass(frozen=True, slots=True)
class RBFKernel:
    """`exp(-gamma |u - v|²)`."""

    gamma: float


@dataclass(frozen=True, slots=True)
class PolyKernel:
    """`(gamma u · v + c) ** degree`."""

    degree: int
    c: float
    gamma: float


@dataclass(frozen=True, slots=True)
class SigmoidKernel:
    """`tanh(gamma u · v + c)`."""

    gamma: float
    c: float


Kernel = LinearKernel | RBFKernel | PolyKernel | SigmoidKernel


@dataclass(frozen=True, slots=True)
class DenseVectors:
    """Support vectors. `vectors` is fp64 `[vectors, features]`."""

    vectors: Constant

    @property
    def count(self) -> int:
        """The number of vectors."""
        return len(self.vectors.numpy())


@dataclass(frozen=True, slots=True)
class SparseVectors:
    """Support vectors with only some elements given; the others are 0.

    Attributes:
        rows: int32 `[elements]`: the vector of an element.
        columns: int32 `[elements]`: the feature of an element, counted from 0.
        elements: fp64 `[elements]`.
        count: The number of vectors.
    """

    rows: Constant
    columns: Constant
    elements: Constant
    count: int


SupportVectors = DenseVectors | SparseVectors


@dataclass(frozen=True, slots=True)
class SupportVectorRegressor(Classical):
    """`sum of coefficient · kernel(x, support vector) - rho`.

    Attributes:
        coefficients: fp64 `[vectors]`.
    """

    kind: ClassVar[str] = "supportVectorRegressor"
    kernel: Kernel
    support: SupportVectors
    coefficients: Constant
    rho: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportVectorClassifier(Classical):
    """A regression for each pair of classes, which votes for one of the two.

    Attributes:
        support: The vectors of the first class, then of the second, and so on.
        vectors_per_class: The number of vectors of each class.
        coefficients: fp64 `[classes - 1, vectors]`. For a vector of class `i`, row `j - 1` holds its
            coefficient against class `j > i`, and row `j` its coefficient against class `j < i`.
        rho: fp64 `[pairs]`, in the order 0-1, 0-2, …, 1-2, ….
        prob_a: fp64 `[pairs]`: the first class of a pair has the probability `1 / (1 + exp(a s + b))` against
            the second, where s is the pair's regression; None in a model without probabilities.
        prob_b: fp64 `[pairs]`.
        labels: The classes.
    """

    kind: ClassVar[str] = "supportVectorClassifier"
    kernel: Kernel
    support: SupportVectors
    vectors_per_class: tuple[int, ...]
    coefficients: Constant
    rho: Constant
    prob_a: Constant | None
    prob_b: Constant | None
    labels: tuple[str | int, ...]
