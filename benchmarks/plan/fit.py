"""Derives the rates of convolutions from the M1's dump and reports the cross-validation error.

The planned cost of a convolution is its number of operations (two for a product and a sum, and one for each
output element if there is a bias) divided by the rate of a leaf of a decision tree. Shapes whose rates agree
to single precision belong to one leaf. The leaves are ranges of operations per byte, and the border between
two leaves is the geometric mean of the nearest shapes on either side.

The error is that of held-out shapes: all convolutions of one shape are left out together, the leaves are
derived from the others, and the cost of the shape left out is predicted. The baseline is the cost of the
nearest other shape, in the logarithms of operations and bytes.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.plan.edgetpu import network
from benchmarks.plan.published import read_dump
from coremlscope.devices import find_device
from coremlscope.ops.view import OpView
from coremlscope.planning.cost.planned.rates import rate_table
from coremlscope.planning.placement.backend import BACKENDS, Backend
from coremlscope.runtime.execution.binding import bind_model

__all__ = ["Convolution", "Leaf", "derive", "report", "shapes"]

#: Relative tolerance of rates in single precision.
_SAME = 1e-6


@dataclass(frozen=True)
class Convolution:
    """A shape of convolutions and its costs in the dump.

    Attributes:
        key: Shapes of input and weight, strides, groups.
        operations: Products and sums.
        nbytes: Bytes of input, weight, bias and result.
        costs_ms: By backend.
        count: Number of such convolutions in the network.
    """

    key: tuple[object, ...]
    operations: int
    nbytes: int
    costs_ms: dict[Backend, float]
    count: int

    @property
    def density(self) -> float:
        """Operations per byte."""
        return self.operations / self.nbytes

    def rate(self, backend: Backend) -> float:
        """Operations a second."""
        return self.operations / self.costs_ms[backend] * 1e3


@dataclass(frozen=True)
class Leaf:
    """The range of densities of shapes with equal rates, and the rates."""

    least: float
    most: float
    rates: dict[Backend, float]


def shapes() -> list[Convolution]:
    """Returns the distinct shapes of the dump's convolutions."""
    views = [view for view in bind_model(network()).graph.ops if view.op.type == "conv"]
    rows = [row for row in read_dump() if row.type == "conv"]
    found: dict[tuple[object, ...], Convolution] = {}
    for view, row in zip(views, rows, strict=True):
        one = _convolution(view, dict(row.costs_ms))
        seen = found.get(one.key)
        count = seen.count + 1 if seen else 1
        found[one.key] = Convolution(one.key, one.operations, one.nbytes, one.costs_ms, count)
    return list(found.values())


def _convolution(view: OpView, costs: dict[Backend, float]) -> Convolution:
    weight, result = view.static_shape("weight"), view.output_type()
    outputs = result.elements or 0
    has_bias = view.has("bias")
    operations = 2 * outputs * math.prod(weight[1:]) + (outputs if has_bias else 0)
    arguments = ["x", "weight", *(["bias"] if has_bias else [])]
    nbytes = sum(view.type(name).nbytes or 0 for name in arguments) + (result.nbytes or 0)
    strides = tuple(view.integers("strides", [1, 1]))
    key = (view.static_shape("x"), weight, strides, view.integer("groups", 1))
    return Convolution(key, operations, nbytes, costs, 1)


def derive(seen: Sequence[Convolution]) -> list[Leaf]:
    """Derives the leaves in ascending density: neighbours with equal rates belong to one leaf."""
    leaves: list[Leaf] = []
    for one in sorted(seen, key=lambda shape: shape.density):
        rates = {backend: one.rate(backend) for backend in BACKENDS}
        last = leaves[-1] if leaves else None
        if last and all(abs(rates[b] - last.rates[b]) <= _SAME * last.rates[b] for b in BACKENDS):
            leaves[-1] = Leaf(last.least, one.density, last.rates)
        else:
            leaves.append(Leaf(one.density, one.density, rates))
    return leaves


def _borders(leaves: Sequence[Leaf]) -> list[float]:
    return [math.sqrt(a.most * b.least) for a, b in itertools.pairwise(leaves)] + [math.inf]


def _by_leaf(one: Convolution, others: Sequence[Convolution], backend: Backend) -> float:
    leaves = derive(others)
    borders = _borders(leaves)
    leaf = next(leaf for leaf, border in zip(leaves, borders, strict=True) if one.density <= border)
    return one.operations / leaf.rates[backend] * 1e3


def _by_nearest(one: Convolution, others: Sequence[Convolution], backend: Backend) -> float:
    def distance(other: Convolution) -> float:
        return math.hypot(math.log(other.operations / one.operations), math.log(other.nbytes / one.nbytes))

    return min(others, key=distance).costs_ms[backend]


Predict = Callable[[Convolution, Sequence[Convolution], Backend], float]


def _errors(seen: Sequence[Convolution], backend: Backend, predict: Predict) -> list[float]:
    """Returns the relative error of every convolution with its shape left out."""
    errors = []
    for one in seen:
        others = [other for other in seen if other.key != one.key]
        truth = one.costs_ms[backend]
        errors += [abs(predict(one, others, backend) - truth) / truth] * one.count
    return errors


def report() -> str:
    """Returns the errors, the derived leaves, and whether they equal those in use."""
    seen = shapes()
    count = sum(one.count for one in seen)
    lines = [f"M1 · planned cost of {count} convolutions of {len(seen)} shapes, each shape left out in turn"]
    lines.append(f"  {'':12} {'leaf: median':>14} {'90 %':>8} {'nearest shape: median':>24} {'90 %':>8}")
    for backend in BACKENDS:
        cells = []
        for predict in (_by_leaf, _by_nearest):
            errors = sorted(_errors(seen, backend, predict))
            cells += [statistics.median(errors), errors[math.ceil(0.9 * len(errors)) - 1]]
        lines.append(f"  {backend:12} {cells[0]:14.1%} {cells[1]:8.1%} {cells[2]:24.1%} {cells[3]:8.1%}")
    leaves = derive(seen)
    rates = rate_table(find_device("m1", "14.5")).rates
    used = [rates[f"convolution, {name}"] for name in ("sparse", "medium", "dense")]
    for leaf, border in zip(leaves, _borders(leaves), strict=True):
        listed = ", ".join(f"{backend} {leaf.rates[backend] / 1e9:.6g}" for backend in BACKENDS)
        span = f"{leaf.least:.4g} to {leaf.most:.4g} operations a byte (border {border:.4g})"
        lines.append(f"  {span}: {listed} GFLOP/s")
    same = len(leaves) == len(used) and all(
        abs(known[backend].value * 1e9 - leaf.rates[backend]) <= _SAME * leaf.rates[backend]
        for leaf, known in zip(leaves, used, strict=True)
        for backend in BACKENDS
    )
    lines.append(f"  the leaves in use are {'the same' if same else 'DIFFERENT'}\n")
    return "\n".join(lines)
