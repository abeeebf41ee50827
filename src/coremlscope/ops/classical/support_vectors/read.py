"""Reads the parameters of support vector machines."""

from __future__ import annotations

import numpy as np

from coremlscope.model import ir
from coremlscope.model.schema import Message
from coremlscope.ops.classical.messages import doubles, indices, read_labels, require
from coremlscope.ops.classical.support_vectors.model import (
    DenseVectors,
    Kernel,
    LinearKernel,
    PolyKernel,
    RBFKernel,
    SigmoidKernel,
    SparseVectors,
    SupportVectorClassifier,
    SupportVectorRegressor,
    SupportVectors,
)


def read_support_vector_regressor(message: Message) -> SupportVectorRegressor:
    """Reads a `SupportVectorRegressor`."""
    kind = SupportVectorRegressor.kind
    support, count = _read_vectors(message, kind)
    alpha = message.coefficients.alpha
    require(len(alpha) == count, kind, f"{len(alpha)} coefficients for {count} support vectors")
    return SupportVectorRegressor(_read_kernel(message, kind), support, doubles(alpha), message.rho)


def read_support_vector_classifier(message: Message) -> SupportVectorClassifier:
    """Reads a `SupportVectorClassifier`."""
    kind = SupportVectorClassifier.kind
    support, count = _read_vectors(message, kind)
    labels, per_class = read_labels(message), tuple(message.numberOfSupportVectorsPerClass)
    classes = len(labels)
    require(classes > 1, kind, f"{classes} classes")
    require(len(per_class) == classes, kind, f"vectors of {len(per_class)} classes, and {classes} labels")
    is_whole = min(per_class) >= 0 and sum(per_class) == count
    require(is_whole, kind, f"{list(per_class[:8])} support vectors of its classes, which are not {count}")
    rows = [row.alpha for row in message.coefficients]
    is_matrix = len(rows) == classes - 1 and all(len(row) == count for row in rows)
    require(is_matrix, kind, f"coefficients other than {classes - 1} for each of {count} support vectors")
    pairs = classes * (classes - 1) // 2
    for name in ("rho", "probA", "probB"):
        given = len(getattr(message, name))
        is_right = given == pairs or (given == 0 and name != "rho")
        require(is_right, kind, f"{given} numbers {name} for {pairs} pairs of classes")
    both = len(message.probA) == len(message.probB)
    require(both, kind, "only one of probA and probB")
    has_probabilities = len(message.probA) > 0
    return SupportVectorClassifier(
        kernel=_read_kernel(message, kind),
        support=support,
        vectors_per_class=per_class,
        coefficients=ir.constant(np.array(rows, np.float64).reshape(classes - 1, count)),
        rho=doubles(message.rho),
        prob_a=doubles(message.probA) if has_probabilities else None,
        prob_b=doubles(message.probB) if has_probabilities else None,
        labels=labels,
    )


def _read_kernel(message: Message, kind: str) -> Kernel:
    name = message.kernel.WhichOneof("kernel")
    require(name is not None, kind, "no kernel")
    kernel = getattr(message.kernel, name)
    match name:
        case "linearKernel":
            return LinearKernel()
        case "rbfKernel":
            return RBFKernel(kernel.gamma)
        case "polyKernel":
            require(kernel.degree >= 0, kind, f"a polynomial of the degree {kernel.degree}")
            return PolyKernel(kernel.degree, kernel.c, kernel.gamma)
        case _:
            return SigmoidKernel(kernel.gamma, kernel.c)


def _read_vectors(message: Message, kind: str) -> tuple[SupportVectors, int]:
    """The support vectors and their number."""
    form = message.WhichOneof("supportVectors")
    require(form is not None, kind, "no support vectors")
    vectors = getattr(message, form).vectors
    if form == "denseSupportVectors":
        widths = sorted({len(vector.values) for vector in vectors})
        require(len(widths) == 1 and widths[0] > 0, kind, f"support vectors of {widths or 'no'} numbers")
        array = np.array([vector.values for vector in vectors], np.float64)
        return DenseVectors(ir.constant(array)), len(vectors)
    nodes = [(row, node) for row, vector in enumerate(vectors) for node in vector.nodes]
    # LIBSVM and the specification count features from 1.
    columns = indices((node.index - 1 for _, node in nodes), 2**31, kind, "a support vector of the feature")
    rows = np.array([row for row, _ in nodes], np.int32)
    elements = doubles(node.value for _, node in nodes)
    sparse = SparseVectors(ir.constant(rows), ir.constant(columns), elements, len(vectors))
    return sparse, len(vectors)
