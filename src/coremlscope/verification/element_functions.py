"""Functions of each element that networks apply, to recognise one that a program lacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from coremlscope.ir import Array
from coremlscope.verification.distance import relative_error

__all__ = ["ElementFunction", "find_functions"]

_Floats = npt.NDArray[np.float64]
#: A result is that of a function if it differs by less.
_SAME_FUNCTION = 1e-4
#: Elements that reject most functions before all are computed, and how much more they may differ: the largest
#: magnitude, to which errors relate, may not be among them.
_SAMPLE, _LOOSE = 4096, 100
#: Slopes of leaky ReLUs: those of PyTorch and TensorFlow, and of common networks.
_SLOPES = (0.01, 0.1, 0.2, 0.3)


@dataclass(frozen=True, slots=True)
class ElementFunction:
    """A function of each element.

    Attributes:
        type: The type of its operation.
        compute: Computes it.
        parameters: The parameters of the operation besides `x`.
    """

    type: str
    compute: Callable[[_Floats], _Floats]
    parameters: Mapping[str, Array] = field(default_factory=dict)


def _gelu(x: _Floats) -> _Floats:
    error: _Floats = np.vectorize(math.erf)(x / math.sqrt(2))
    return x / 2 * (1 + error)


def _leaky(slope: float) -> ElementFunction:
    return ElementFunction(
        "leaky_relu", lambda x: np.where(x > 0, x, slope * x), {"alpha": np.array(slope, np.float32)}
    )


_NO_EPSILON: Mapping[str, Array] = {"epsilon": np.array(0, np.float32)}
_FUNCTIONS: tuple[ElementFunction, ...] = (
    ElementFunction("relu", lambda x: np.maximum(x, 0)),
    ElementFunction("relu6", lambda x: np.clip(x, 0, 6)),
    ElementFunction("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    ElementFunction("silu", lambda x: x / (1 + np.exp(-x))),
    ElementFunction("tanh", np.tanh),
    ElementFunction("softplus", lambda x: np.logaddexp(x, 0)),
    ElementFunction("exp", np.exp),
    ElementFunction("square", np.square),
    ElementFunction("sqrt", np.sqrt),
    ElementFunction("abs", np.abs),
    ElementFunction(
        "elu", lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), {"alpha": np.array(1, np.float32)}
    ),
    *map(_leaky, _SLOPES),
    ElementFunction("gelu", _gelu),
    ElementFunction("log", np.log, _NO_EPSILON),
    ElementFunction("inverse", lambda x: 1 / x, _NO_EPSILON),
    ElementFunction("rsqrt", lambda x: 1 / np.sqrt(x), _NO_EPSILON),
    ElementFunction("sin", np.sin),
    ElementFunction("cos", np.cos),
    ElementFunction(
        "sigmoid_hard",
        lambda x: np.clip(x / 6 + 0.5, 0, 1),
        {"alpha": np.array(1 / 6, np.float32), "beta": np.array(0.5, np.float32)},
    ),
)


def find_functions(given: Array, result: Array) -> Iterator[ElementFunction]:
    """Yields the functions that compute a result from given elements.

    Args:
        given: The elements.
        result: As many elements.
    """
    x, y = given.astype(np.float64).reshape(-1), result.reshape(-1)
    step = max(1, x.size // _SAMPLE)
    with np.errstate(all="ignore"):
        for function in _FUNCTIONS:
            sampled = relative_error(function.compute(x[::step]), y[::step])
            if (
                sampled <= _LOOSE * _SAME_FUNCTION
                and relative_error(function.compute(x), y) <= _SAME_FUNCTION
            ):
                yield function
