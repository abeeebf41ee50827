"""Lowers support vector machines, computed as in LIBSVM (Chang and Lin 2011; Wu, Lin and Weng 2004)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coremlscope.ops.classical.interface import F64, Interface
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
from coremlscope.ops.emit import BOOL, I64, Lowering, Tensor

#: From LIBSVM's `svm_predict_probability`: the lowest probability in a pair, and when the coupling stops.
_LEAST_PROBABILITY, _COUPLING_EPSILON, _COUPLING_ROUNDS = 1e-7, 0.005, 100


def lower_support_vector_regressor(content: SupportVectorRegressor, interface: Interface) -> None:
    """Lowers a `SupportVectorRegressor`."""
    op = interface.op
    kernels = _kernels(content.kernel, content.support, interface)
    coefficients = interface.weight(content.coefficients, "coefficients")
    total = op.emit("MatMul", kernels, op.reshape(coefficients, (-1, 1)))
    interface.give(interface.only_output(), op.emit("Sub", total, op.const(content.rho, F64)), 1)


def lower_support_vector_classifier(content: SupportVectorClassifier, interface: Interface) -> None:
    """Lowers a `SupportVectorClassifier`: the label is the most probable class, or has most votes."""
    op, classes = interface.op, len(content.labels)
    scores = _pair_scores(content, interface)
    is_pair = op.const(np.triu(np.ones((classes, classes)), 1), BOOL)
    probabilities = None
    if content.prob_a is not None and content.prob_b is not None:
        a, b = (op.const(_upper(c.numpy(), classes), F64) for c in (content.prob_a, content.prob_b))
        first = op.emit("Sigmoid", op.emit("Neg", op.emit("Add", op.emit("Mul", scores, a), b)))
        low, high = op.const(_LEAST_PROBABILITY, F64), op.const(1 - _LEAST_PROBABILITY, F64)
        first = op.emit("Min", op.emit("Max", first, low), high)
        second = op.transpose(op.emit("Sub", op.const(1.0, F64), first), (1, 0))
        # Row i, column j: the probability of class i, given that it is i or j.
        nothing = op.const(0.0, F64)
        below = op.const(np.tril(np.ones((classes, classes)), -1), BOOL)
        upper = op.emit("Where", is_pair, first, nothing, dtype=F64)
        lower = op.emit("Where", below, second, nothing, dtype=F64)
        pairs = op.emit("Add", upper, lower)
        probabilities = _coupled(op, pairs, classes)
        best = probabilities
    else:
        is_first = op.emit("Greater", scores, op.const(0.0, F64))
        won = op.cast(op.emit("And", is_first, is_pair), I64)
        lost = op.cast(op.emit("And", op.emit("Not", is_first), is_pair), I64)
        best = op.emit(
            "Add",
            op.emit("ReduceSum", won, op.const([1], I64), keepdims=0),
            op.emit("ReduceSum", lost, op.const([0], I64), keepdims=0),
        )
    index = op.emit("ArgMax", best, dtype=I64, axis=0, keepdims=1)
    interface.give_classes(index, probabilities, content.labels)


def _upper(
    values: np.ndarray[tuple[int, ...], np.dtype[np.generic]], classes: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The values of the pairs 0-1, 0-2, …, 1-2, … as the upper triangle of a matrix."""
    matrix = np.zeros((classes, classes))
    matrix[np.triu_indices(classes, 1)] = values
    return matrix


def _pair_scores(content: SupportVectorClassifier, interface: Interface) -> Tensor:
    """The regression of each pair of classes, fp64 `[classes, classes]`; only the upper triangle is used."""
    op, classes = interface.op, len(content.labels)
    kernels = _kernels(content.kernel, content.support, interface)
    weighted = op.emit("Mul", interface.weight(content.coefficients, "coefficients"), kernels)
    of_class = np.repeat(np.eye(classes), content.vectors_per_class, axis=0)
    # Row r, column c: the sum over the vectors of class c with coefficients of row r.
    sums = op.emit("MatMul", weighted, interface.emitter.array(of_class))
    flat = op.reshape(sums, (-1,))
    i, j = np.meshgrid(np.arange(classes), np.arange(classes), indexing="ij")
    is_upper = i < j
    against_second = np.where(is_upper, (j - 1) * classes + i, 0)
    against_first = np.where(is_upper, i * classes + j, 0)
    both = op.emit(
        "Add",
        op.emit("Gather", flat, op.const(against_second, I64), axis=0),
        op.emit("Gather", flat, op.const(against_first, I64), axis=0),
    )
    return op.emit("Sub", both, op.const(_upper(content.rho.numpy(), classes), F64))


def _kernels(kernel: Kernel, support: SupportVectors, interface: Interface) -> Tensor:
    """The kernel of the features with each support vector, fp64 `[1, vectors]`."""
    op = interface.op

    def affine(gamma: float, c: float) -> Tensor:
        product = _products(support, interface)
        return op.emit("Add", op.emit("Mul", product, op.const(gamma, F64)), op.const(c, F64))

    match kernel:
        case LinearKernel():
            return _products(support, interface)
        case PolyKernel(degree, c, gamma):
            return _power(op, affine(gamma, c), degree)
        case SigmoidKernel(gamma, c):
            return op.emit("Tanh", affine(gamma, c))
        case RBFKernel(gamma):
            return op.emit("Exp", op.emit("Mul", _distances(support, interface), op.const(-gamma, F64)))


def _power(op: Lowering, base: Tensor, degree: int) -> Tensor:
    return op.emit("Pow", base, op.const(float(degree), F64))


def _products(support: SupportVectors, interface: Interface) -> Tensor:
    """The product of the features with each support vector, `[1, vectors]`."""
    op = interface.op
    if isinstance(support, DenseVectors):
        width = support.vectors.numpy().shape[1]
        return op.emit("Gemm", interface.row(width), interface.weight(support.vectors, "vectors"), transB=1)
    x, elements = _sparse_parts(support, interface)
    return _summed(support, op.emit("Mul", x, elements), interface)


def _distances(support: SupportVectors, interface: Interface) -> Tensor:
    """The squared distance of the features to each support vector, `[1, vectors]`."""
    op = interface.op
    if isinstance(support, DenseVectors):
        width = support.vectors.numpy().shape[1]
        apart = op.emit("Sub", interface.weight(support.vectors, "vectors"), interface.row(width))
        squares = op.emit("ReduceSumSquare", apart, op.const([1], I64), keepdims=0)
        return op.reshape(squares, (1, -1))
    x, elements = _sparse_parts(support, interface)
    apart = op.emit("Sub", x, elements)
    # Where a vector has an element, the squared difference replaces the squared feature.
    change = op.emit("Sub", op.emit("Mul", apart, apart), op.emit("Mul", x, x))
    whole = op.emit("ReduceSumSquare", interface.row(), op.const([1], I64), keepdims=1)
    return op.emit("Add", whole, _summed(support, change, interface))


def _sparse_parts(support: SparseVectors, interface: Interface) -> tuple[Tensor, Tensor]:
    """The feature of each element of the vectors, and the elements."""
    op, columns = interface.op, support.columns.numpy()
    sizes = [interface.size(name) for name in interface.inputs]
    known = sum(size or 0 for size in sizes)
    if None not in sizes and columns.size and columns.max() >= known:
        raise interface.error(f"has the feature {columns.max() + 1}, but its inputs hold {known} numbers")
    flat = op.reshape(interface.row(), (-1,))
    x = op.emit("Gather", flat, interface.emitter.array(columns.astype(np.int64)), axis=0)
    return x, interface.weight(support.elements, "elements")


def _summed(support: SparseVectors, terms: Tensor, interface: Interface) -> Tensor:
    """The sum of the terms of each vector, `[1, vectors]`."""
    op, emitter = interface.op, interface.emitter
    rows = emitter.array(support.rows.numpy().astype(np.int64))
    zeros = emitter.array(np.zeros(support.count))
    return op.reshape(op.emit("ScatterElements", zeros, rows, terms, axis=0, reduction="add"), (1, -1))


def _coupled(op: Lowering, pairs: Tensor, classes: int) -> Tensor:
    """The probability of each class from those of pairs, `[classes]`: LIBSVM's `multiclass_probability`.

    A round updates all classes; a step of the loop updates one class.
    """
    if classes == 2:
        return op.reshape(op.emit("Gather", op.reshape(pairs, (-1,)), op.const([1, 2], I64), axis=0), (2,))
    others = op.transpose(pairs, (1, 0))
    diagonal = op.emit("ReduceSumSquare", others, op.const([1], I64), keepdims=0)
    is_diagonal = op.const(np.eye(classes), BOOL)
    products = op.emit("Neg", op.emit("Mul", others, pairs))
    q = op.emit("Where", is_diagonal, op.reshape(diagonal, (1, -1)), products, dtype=F64)
    vector, one = (F64, (classes,)), (F64, (1,))
    arguments = [(np.dtype(I64), ()), (np.dtype(BOOL), ()), vector, vector, one]
    body, _ = op.graph("coupling", arguments, _coupling_step(op, q, diagonal, classes))
    results = op.emit_many(
        "Loop",
        op.const(max(_COUPLING_ROUNDS, classes) * classes, I64),
        op.const(True, BOOL),
        op.const(np.full(classes, 1 / classes), F64),
        op.const(np.zeros(classes), F64),
        op.const([0.0], F64),
        dtypes=[F64, F64, F64],
        body=body,
    )
    return results[0]


def _coupling_step(
    op: Lowering, q: Tensor, diagonal: Tensor, classes: int
) -> Callable[[list[Tensor]], list[Tensor]]:
    """One step of the loop: it updates the probability `p` of one class, `q p` and `p q p`."""
    zero = op.const([0.0], F64)

    def step(given: list[Tensor]) -> list[Tensor]:
        count, _, p, qp, pqp = given
        at = op.reshape(op.emit("Mod", count, op.const(classes, I64)), (1,))
        # At the start of a round, both products are computed again, and the loop may end.
        fresh_qp = op.reshape(op.emit("MatMul", q, op.reshape(p, (-1, 1))), (-1,))
        fresh_pqp = op.emit("ReduceSum", op.emit("Mul", p, fresh_qp), op.const([0], I64), keepdims=1)
        is_new = op.emit("Equal", at, op.const([0], I64))
        qp = op.emit("Where", is_new, fresh_qp, qp, dtype=F64)
        pqp = op.emit("Where", is_new, fresh_pqp, pqp, dtype=F64)
        error = op.emit("ReduceMax", op.emit("Abs", op.emit("Sub", qp, pqp)), op.const([0], I64), keepdims=1)
        is_small = op.emit("Less", error, op.const([_COUPLING_EPSILON / classes], F64))
        is_done = op.emit("And", is_new, is_small)
        own = op.emit("Gather", diagonal, at, axis=0)
        here = op.emit("Gather", qp, at, axis=0)
        change = op.emit("Div", op.emit("Sub", pqp, here), own)
        change = op.emit("Where", is_done, zero, change, dtype=F64)
        whole = op.emit("Add", change, op.const([1.0], F64))
        is_here = op.emit("Equal", op.const(np.arange(classes), I64), at)
        moved = op.emit("Add", p, op.emit("Where", is_here, change, zero, dtype=F64))
        term = op.emit("Add", op.emit("Mul", change, own), op.emit("Add", here, here))
        pqp = op.emit("Add", pqp, op.emit("Mul", change, term))
        pqp = op.emit("Div", op.emit("Div", pqp, whole), whole)
        row = op.reshape(op.emit("Gather", q, at, axis=0), (-1,))
        qp = op.emit("Div", op.emit("Add", qp, op.emit("Mul", change, row)), whole)
        goes_on = op.emit("Squeeze", op.emit("Not", is_done), op.const([0], I64), dtype=BOOL)
        return [goes_on, op.emit("Div", moved, whole), qp, pqp]

    return step
