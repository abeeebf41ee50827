"""Elementwise layers, comparisons and logic, against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from coremlscope.formats.neuralnetwork import broadcasting
from coremlscope.model.ir import Array
from tests.support.single_layers import read, results_of, single

_RANDOM = np.random.default_rng(0)
_X = _RANDOM.uniform(-0.9, 0.9, (2, 3, 4)).astype(np.float32)
_Y = _RANDOM.uniform(-0.9, 0.9, (3, 1)).astype(np.float32)
_WHOLE = _RANDOM.integers(-2, 3, (2, 3, 4)).astype(np.float32)
_MORE = _RANDOM.integers(-2, 3, (3, 1)).astype(np.float32)

_FUNCTIONS: dict[str, Callable[[Array], Any]] = {
    "acos": np.arccos,
    "acosh": lambda x: np.arccosh(x + 3),
    "asin": np.arcsin,
    "asinh": lambda x: np.arcsinh(9 * x),
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": lambda x: np.ceil(9 * x),
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": lambda x: np.vectorize(math.erf)(x),
    "exp2": np.exp2,
    "floor": lambda x: np.floor(9 * x),
    "round": lambda x: np.round(9 * x),
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
}
#: Transformations of the input for functions that need another range.
_RANGES: dict[str, Callable[[Array], Array]] = {
    "acosh": lambda x: x + 3,
    **dict.fromkeys(("asinh", "ceil", "floor", "round"), lambda x: 9 * x),
}


@pytest.mark.parametrize("type_", _FUNCTIONS)
def test_functions(type_: str) -> None:
    given = _RANGES.get(type_, lambda x: x)(_X)
    (result,) = results_of(type_, given)
    np.testing.assert_allclose(result, _FUNCTIONS[type_](_X), rtol=2e-5, atol=1e-6)


_ARITHMETIC: dict[str, Callable[[Array, Array], Array]] = {
    "addBroadcastable": np.add,
    "divideBroadcastable": np.divide,
    "floorDivBroadcastable": np.floor_divide,
    "maxBroadcastable": np.maximum,
    "minBroadcastable": np.minimum,
    "modBroadcastable": np.mod,
    "multiplyBroadcastable": np.multiply,
    "powBroadcastable": lambda x, y: np.power(np.abs(x), y),
    "subtractBroadcastable": np.subtract,
}


@pytest.mark.parametrize("type_", _ARITHMETIC)
def test_arithmetic_broadcasts(type_: str) -> None:
    x = np.abs(_X) if type_ == "powBroadcastable" else _X
    (result,) = results_of(type_, x, _Y)
    np.testing.assert_allclose(result, _ARITHMETIC[type_](x, _Y), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("type_", ["addBroadcastable", "multiplyBroadcastable", "maxBroadcastable"])
def test_more_than_two_inputs(type_: str) -> None:
    (result,) = results_of(type_, _X, _Y, _WHOLE)
    expected = _ARITHMETIC[type_](_ARITHMETIC[type_](_X, _Y), _WHOLE)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_rank_5_blobs_stay_folded() -> None:
    builder, inputs, _ = single("addBroadcastable", _X, _X, exact=False)
    types = [op.type for op in read(builder).content.functions["main"].graph.ops]
    assert types.count("reshape") == 2 + 1  # inputs and output
    assert types.count("add") == 1
    (result,) = results_of("addBroadcastable", *inputs.values(), exact=False)
    np.testing.assert_allclose(result, 2 * _X, rtol=1e-6)


_COMPARISONS: dict[str, Callable[[Array, Any], Array]] = {
    "equal": np.equal,
    "greaterEqual": np.greater_equal,
    "greaterThan": np.greater,
    "lessEqual": np.less_equal,
    "lessThan": np.less,
    "notEqual": np.not_equal,
}


@pytest.mark.parametrize("type_", _COMPARISONS)
def test_comparisons(type_: str) -> None:
    (both,) = results_of(type_, _WHOLE, _MORE)
    np.testing.assert_array_equal(both, _COMPARISONS[type_](_WHOLE, _MORE).astype(np.float32))
    (with_alpha,) = results_of(type_, _WHOLE, alpha=1.0)
    np.testing.assert_array_equal(with_alpha, _COMPARISONS[type_](_WHOLE, 1).astype(np.float32))


@pytest.mark.parametrize(
    ("type_", "function"),
    [("logicalAnd", np.logical_and), ("logicalOr", np.logical_or), ("logicalXor", np.logical_xor)],
)
def test_logic_treats_nonzero_as_true(type_: str, function: Callable[[Array, Array], Array]) -> None:
    (result,) = results_of(type_, _WHOLE, _MORE)
    np.testing.assert_array_equal(result, function(_WHOLE, _MORE).astype(np.float32))


def test_not() -> None:
    (result,) = results_of("logicalNot", _WHOLE)
    np.testing.assert_array_equal(result, (_WHOLE == 0).astype(np.float32))


def test_selection() -> None:
    (result,) = results_of("whereBroadcastable", _MORE, _X, np.float32([7]))
    np.testing.assert_array_equal(result, np.where(_MORE != 0, _X, np.float32(7)))


def test_booleans_between_layers_are_not_cast_to_floats() -> None:
    builder, _, _ = single("greaterThan", _X, alpha=0.0)
    builder.nn_spec.layers.add(name="not", input=["y0"], output=["y1"]).logicalNot.SetInParent()
    builder.spec.description.output[0].name = "y1"
    types = [op.type for op in read(builder).content.functions["main"].graph.ops]
    assert "not_equal" not in types


def test_every_layer_has_a_case() -> None:
    cases = {*_FUNCTIONS, *_ARITHMETIC, *_COMPARISONS, "logicalAnd", "logicalOr", "logicalXor", "logicalNot"}
    assert {spec.type for spec in broadcasting.LAYERS} == {*cases, "whereBroadcastable"}
