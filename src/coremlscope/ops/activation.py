"""Activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coremlscope.base.arrays import np
from coremlscope.ops.emit import Lowering, Tensor
from coremlscope.ops.infer import normal_axis, same_as
from coremlscope.ops.spec import OpSpec, Work, moved
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotLower, OpView
from coremlscope.ops.work import per_element

#: ONNX's name of each mode of `gelu` that it knows, and the operations per element of all modes:
#: 0.5·x·(1 + erf(x/√2)); 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))); x·sigmoid(1.702·x).
_GELU_ONNX = {"EXACT": "none", "TANH_APPROXIMATION": "tanh"}
_GELU_FLOPS = {"EXACT": 5, "TANH_APPROXIMATION": 9, "SIGMOID_APPROXIMATION": 6}


def _alpha(onnx_op: str, *names: str) -> Callable[[Lowering], Tensor]:
    """An ONNX operator whose attributes have the parameters' names."""

    def lower(op: Lowering) -> Tensor:
        attributes: dict[str, Any] = {name: op.view.real(name) for name in names}
        return op.emit(onnx_op, op["x"], **attributes)

    return lower


def _scaled(op: Lowering, x: Tensor, factor: float) -> Tensor:
    return x if factor == 1 else op.emit("Mul", x, op.like(factor, x))


def _relu6(op: Lowering) -> Tensor:
    x = op["x"]
    return op.emit("Clip", x, op.like(0, x), op.like(6, x))


def _clamped_relu(op: Lowering) -> Tensor:
    x, alpha, beta = op["x"], op.view.real("alpha"), op.view.real("beta")
    if alpha == 0 and beta >= 0:
        return op.emit("Clip", x, op.like(0, x), op.like(beta, x))
    return op.emit("Min", op.emit("LeakyRelu", x, alpha=alpha), op.like(beta, x))


def _gelu(op: Lowering) -> Tensor:
    x, mode = op["x"], op.view.text("mode", "EXACT")
    if mode == "SIGMOID_APPROXIMATION":
        return op.emit("Mul", x, op.emit("Sigmoid", _scaled(op, x, 1.702)))
    if mode not in _GELU_ONNX:
        raise CannotLower(f"the mode {mode!r}")
    return op.emit("Gelu", x, approximate=_GELU_ONNX[mode])


def _gelu_work(view: OpView) -> Work:
    """The operations of the chosen formula per element."""
    flops = _GELU_FLOPS.get(view.text("mode", "EXACT"), 0)
    return moved(view, flops * (view.output_type().elements or 0))


def _linear(op: Lowering) -> Tensor:
    x, beta = op["x"], op.view.real("beta")
    scaled = _scaled(op, x, op.view.real("alpha"))
    return op.emit("Add", scaled, op.like(beta, x)) if beta else scaled


def _per_channel(op: Lowering, name: str) -> Tensor:
    """One number per channel, shaped to broadcast along axis 1 of `x`; or a single number."""
    rank = len(op.view.shape("x"))
    (count,) = op.view.static_shape(name) or (1,)
    shape = (count, *[1] * (rank - 2))
    return op.derived(name, lambda array: array.reshape(shape), shape, ("per channel", rank))


def _prelu(op: Lowering) -> Tensor:
    return op.emit("PRelu", op["x"], _per_channel(op, "alpha"))


def _scaled_tanh(op: Lowering) -> Tensor:
    inner = _scaled(op, op["x"], op.view.real("beta"))
    return _scaled(op, op.emit("Tanh", inner), op.view.real("alpha"))


def _silu(op: Lowering) -> Tensor:
    return op.emit("Mul", op["x"], op.emit("Sigmoid", op["x"]))


def _softplus_parametric(op: Lowering) -> Tensor:
    inner = op.emit("Mul", op["x"], _per_channel(op, "beta"))
    return op.emit("Mul", op.emit("Softplus", inner), _per_channel(op, "alpha"))


def _softmax(op: Lowering) -> Tensor:
    shape = op.view.shape("x")
    axis = normal_axis(op.view.integer("axis", -1), len(shape))
    return op.emit("Softmax", op["x"], axis=axis)


def _thresholded_relu(op: Lowering) -> Tensor:
    x, alpha = op["x"], op.view.real("alpha")
    if alpha == 0:
        return op.emit("Relu", x)
    # ONNX keeps elements above its alpha, MIL also those equal to it. The next smaller number serves both.
    below = np.nextafter(np.float32(alpha), np.float32(-np.inf))
    return op.emit("ThresholdedRelu", x, alpha=float(below))


def _row(
    name: str,
    doc: str,
    lower: Callable[[Lowering], Tensor],
    flops: int,
    traits: Trait = Trait.ACTIVATION,
) -> OpSpec:
    return OpSpec(name=name, doc=doc, traits=traits, infer=same_as(), lower=lower, work=per_element(flops))


OPS: tuple[OpSpec, ...] = (
    _row("relu", "max(x, 0).", _alpha("Relu"), 1),
    _row("relu6", "min(max(x, 0), 6).", _relu6, 2),
    _row("leaky_relu", "x where x is at least 0, else alpha·x.", _alpha("LeakyRelu", "alpha"), 2),
    _row("clamped_relu", "min(beta, x) where x is at least 0, else min(beta, alpha·x).", _clamped_relu, 3),
    _row("prelu", "x where x is above 0, else alpha·x with an alpha per channel.", _prelu, 2),
    _row("thresholded_relu", "x where x is at least alpha, else 0.", _thresholded_relu, 1),
    _row("elu", "x where x is above 0, else alpha·(exp(x) − 1).", _alpha("Elu", "alpha"), 4),
    OpSpec(
        name="gelu",
        doc="The Gaussian error linear unit, exact or approximate.",
        traits=Trait.ACTIVATION,
        infer=same_as(),
        lower=_gelu,
        work=_gelu_work,
    ),
    _row("sigmoid", "1 / (1 + exp(−x)).", _alpha("Sigmoid"), 4, Trait.ACTIVATION | Trait.GATE),
    _row(
        "sigmoid_hard",
        "min(max(alpha·x + beta, 0), 1).",
        _alpha("HardSigmoid", "alpha", "beta"),
        4,
        Trait.ACTIVATION | Trait.GATE,
    ),
    _row("silu", "x·sigmoid(x).", _silu, 5, Trait.ACTIVATION | Trait.GATED),
    _row("linear_activation", "alpha·x + beta.", _linear, 2),
    _row("scaled_tanh", "alpha·tanh(beta·x).", _scaled_tanh, 3),
    _row("softplus", "log(1 + exp(x)).", _alpha("Softplus"), 3),
    _row(
        "softplus_parametric",
        "alpha·log(1 + exp(beta·x)) with an alpha and a beta per channel.",
        _softplus_parametric,
        5,
    ),
    _row("softsign", "x / (1 + |x|).", _alpha("Softsign"), 3),
    # Per element: a comparison for the maximum, a subtraction, exp, an addition and a division.
    _row("softmax", "exp(x) over its sum along one axis.", _softmax, 5, Trait.SOFTMAX),
)
