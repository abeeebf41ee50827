"""Parameters of support vector machines, in the terms of LIBSVM, which Core ML follows."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from coremlscope.model.ir import Classical, Constant


class LinearKernel(msgspec.Struct, frozen=True):
    """`u · v`."""


class RBFKernel(msgspec.Struct, frozen=True):
    """`exp(-gamma |u - v|²)`."""

    gamma: float


class PolyKernel(msgspec.Struct, frozen=True):
    """`(gamma u · v + c) ** degree`."""

    degree: int
    c: float
    gamma: float


class SigmoidKernel(msgspec.Struct, frozen=True):
    """`tanh(gamma u · v + c)`."""

    gamma: float
    c: float


Kernel = LinearKernel | RBFKernel | PolyKernel | SigmoidKernel


class DenseVectors(msgspec.Struct, frozen=True):
    """Support vectors. `vectors` is fp64 `[vectors, features]`."""

    vectors: Constant

    @property
    def count(self) -> int:
        """The number of vectors."""
        return len(self.vectors.numpy())


class SparseVectors(msgspec.Struct, frozen=True):
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


class SupportVectorRegressor(Classical, msgspec.Struct, frozen=True):
    """`sum of coefficient · kernel(x, support vector) - rho`.

    Attributes:
        coefficients: fp64 `[vectors]`.
    """

    kind: ClassVar[str] = "supportVectorRegressor"
    kernel: Kernel
    support: SupportVectors
    coefficients: Constant
    rho: float


class SupportVectorClassifier(Classical, msgspec.Struct, frozen=True, kw_only=True):
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
