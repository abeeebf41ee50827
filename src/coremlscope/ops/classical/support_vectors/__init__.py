"""Support vector machines."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from coremlscope.ops.classical.contract import ClassicalType, Fact
from coremlscope.ops.classical.support_vectors.lower import (
    lower_support_vector_classifier,
    lower_support_vector_regressor,
)
from coremlscope.ops.classical.support_vectors.model import (
    DenseVectors,
    Kernel,
    LinearKernel,
    PolyKernel,
    RBFKernel,
    SupportVectorClassifier,
    SupportVectorRegressor,
    SupportVectors,
)
from coremlscope.ops.classical.support_vectors.read import (
    read_support_vector_classifier,
    read_support_vector_regressor,
)
from coremlscope.ops.spec import Work, moved
from coremlscope.ops.view import OpView

__all__ = ["TYPES", "SupportVectorClassifier", "SupportVectorRegressor"]


def _work(view: OpView) -> Work:
    """A multiply-add per element of a vector and per coefficient, and one operation per kernel value."""
    if view.has("vectors"):
        vectors, features = view.static_shape("vectors")
        elements = vectors * features
    else:
        elements, vectors = view.static_shape("elements")[0], int(view.value("count"))
    coefficients = math.prod(view.static_shape("coefficients"))
    return moved(view, 2 * elements + vectors + 2 * coefficients)


def _describe(content: SupportVectorRegressor | SupportVectorClassifier) -> Iterator[Fact]:
    yield from _describe_vectors(content.support)
    yield "kernel", _describe_kernel(content.kernel)
    if isinstance(content, SupportVectorClassifier):
        yield "probabilities", "none: classes vote" if content.prob_a is None else "of pairs, coupled"


def _describe_vectors(support: SupportVectors) -> Iterator[Fact]:
    if isinstance(support, DenseVectors):
        yield "support vectors", f"{support.count} of {support.vectors.numpy().shape[1]} features"
    else:
        yield "support vectors", f"{support.count}, sparse, of {len(support.elements.numpy())} elements"


def _describe_kernel(kernel: Kernel) -> str:
    match kernel:
        case LinearKernel():
            return "linear"
        case RBFKernel(gamma):
            return f"radial (RBF), gamma {gamma:g}"
        case PolyKernel(degree, c, gamma):
            return f"polynomial of degree {degree}, gamma {gamma:g}, c {c:g}"
        case _:
            return f"sigmoid, gamma {kernel.gamma:g}, c {kernel.c:g}"


#: The rows of this family.
TYPES: tuple[ClassicalType[Any], ...] = (
    ClassicalType(
        content=SupportVectorRegressor,
        read=read_support_vector_regressor,
        lower=lower_support_vector_regressor,
        work=_work,
        describe=_describe,
    ),
    ClassicalType(
        content=SupportVectorClassifier,
        read=read_support_vector_classifier,
        lower=lower_support_vector_classifier,
        work=_work,
        describe=_describe,
    ),
)
