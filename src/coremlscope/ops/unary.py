"""Elementwise operations of one operand that are not activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from coremlscope.base.arrays import np
from coremlscope.model.ir import Array
from coremlscope.ops.emit import BOOL, F32, Lowering, Tensor
from coremlscope.ops.folding import folding, named
from coremlscope.ops.infer import same_as
from coremlscope.ops.spec import OpSpec
from coremlscope.ops.traits import Trait
from coremlscope.ops.work import per_element


def offset(op: Lowering, x: Tensor, name: str, default: float) -> Tensor:
    """`x` plus the small number that parameter `name` holds; `x` itself where that is zero."""
    value = op.view.real(name, default)
    return op.emit("Add", x, op.like(value, x)) if np.float32(value) else x


def _unary(
    name: str,
    onnx_op: str,
    doc: str,
    compute: Callable[[Array], Any],
    traits: Trait = Trait.ELEMENTWISE,
) -> OpSpec:
    def lower(op: Lowering) -> Tensor:
        return op.emit(onnx_op, op["x"])

    fold = folding(lambda view: np.asarray(compute(view.value("x"))))
    return OpSpec(
        name=name,
        doc=doc,
        traits=traits,
        infer=same_as(),
        lower=lower,
        work=per_element(1),
        fold=fold,
    )


def _row(
    name: str,
    doc: str,
    lower: Callable[[Lowering], Tensor],
    flops: int,
    traits: Trait = Trait.FUNCTION,
) -> OpSpec:
    return OpSpec(name=name, doc=doc, traits=traits, infer=same_as(), lower=lower, work=per_element(flops))


def _clip(op: Lowering) -> Tensor:
    x = op["x"]
    return op.emit("Clip", x, op.like(op.view.real("alpha"), x), op.like(op.view.real("beta"), x))


def _threshold(op: Lowering) -> Tensor:
    x = op["x"]
    return op.emit("Clip", x, op.like(op.view.real("alpha"), x))


def _exp2(op: Lowering) -> Tensor:
    return op.emit("Pow", op.like(2, op["x"]), op["x"])


def _inverse(op: Lowering) -> Tensor:
    return op.emit("Reciprocal", offset(op, op["x"], "epsilon", 1e-4))


def _log(op: Lowering) -> Tensor:
    return op.emit("Log", offset(op, op["x"], "epsilon", 1e-45))


def _rsqrt(op: Lowering) -> Tensor:
    return op.emit("Reciprocal", op.emit("Sqrt", offset(op, op["x"], "epsilon", 1e-12)))


def _logical_not(op: Lowering) -> Tensor:
    return op.emit("Not", op.cast(op["x"], BOOL))


def _square(op: Lowering) -> Tensor:
    return op.emit("Mul", op["x"], op["x"])


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[F32])(x))


OPS: tuple[OpSpec, ...] = (
    _unary("abs", "Abs", "The absolute value.", named("abs"), Trait.FUNCTION),
    _unary("acos", "Acos", "The inverse cosine.", named("arccos")),
    _unary("asin", "Asin", "The inverse sine.", named("arcsin")),
    _unary("atan", "Atan", "The inverse tangent.", named("arctan")),
    _unary("atanh", "Atanh", "The inverse hyperbolic tangent.", named("arctanh")),
    _unary("ceil", "Ceil", "Rounded up.", named("ceil")),
    _unary("cos", "Cos", "The cosine.", named("cos")),
    _unary("cosh", "Cosh", "The hyperbolic cosine.", named("cosh")),
    _unary("erf", "Erf", "The Gauss error function.", _erf, Trait.FUNCTION),
    _unary("exp", "Exp", "e to the power of the element.", named("exp"), Trait.FUNCTION),
    _unary("floor", "Floor", "Rounded down.", named("floor")),
    _unary("round", "Round", "Rounded to the nearest integer, halves to even.", named("round")),
    _unary("sin", "Sin", "The sine.", named("sin")),
    _unary("sinh", "Sinh", "The hyperbolic sine.", named("sinh")),
    _unary("sqrt", "Sqrt", "The square root.", named("sqrt"), Trait.FUNCTION),
    _unary("tan", "Tan", "The tangent.", named("tan")),
    _unary("tanh", "Tanh", "The hyperbolic tangent.", named("tanh"), Trait.ACTIVATION),
    _unary("sign", "Sign", "-1, 0 or 1 by the element's sign.", named("sign")),
    _row("clip", "Clamped between `alpha` and `beta`.", _clip, 2),
    _row("threshold", "The maximum of the element and `alpha`.", _threshold, 1),
    _row("exp2", "2 to the power of the element.", _exp2, 1),
    _row("inverse", "1 / (x + epsilon).", _inverse, 2),
    _row("log", "The natural logarithm of x + epsilon.", _log, 2),
    _row("rsqrt", "1 / sqrt(x + epsilon).", _rsqrt, 3),
    _row("square", "The square of the element.", _square, 1),
    _row("logical_not", "True where the element is false.", _logical_not, 1, Trait.MASK),
)
