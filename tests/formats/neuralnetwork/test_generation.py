"""Constants, shapes, ranges, random numbers, one-hot vectors, masks and cumulative sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coremlscope.formats.neuralnetwork import generation
from coremlscope.model.ir import Array
from tests.support.single_layers import predict, results_of, single

_RANDOM = np.random.default_rng(5)
_X = _RANDOM.standard_normal((2, 3, 4)).astype(np.float32)
_SPARSE = (_RANDOM.uniform(size=(3, 4)) < 0.5).astype(np.float32)

#: Layer type, inputs, parameters, expected result.
_CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ("cumSum", (_X,), {"axis": 1}, np.cumsum(_X, 1)),
    ("cumSum", (_X,), {"axis": -1, "excludeFinalSum": True}, np.cumsum(_X, 2) - _X),
    ("cumSum", (_X,), {"axis": 0, "reverse": True}, np.cumsum(_X[::-1], 0)[::-1]),
    ("fillDynamic", (np.array([2, 3]),), {"value": 7.5}, np.full((2, 3), 7.5)),
    ("fillLike", (_X,), {"value": 7.5}, np.full((2, 3, 4), 7.5)),
    ("fillStatic", (), {"value": 7.5, "targetShape": [2, 3]}, np.full((2, 3), 7.5)),
    ("getShape", (_X,), {}, np.array([2, 3, 4])),
    ("lowerTriangular", (_X,), {"k": 1}, np.tril(_X, 1)),
    ("lowerTriangular", (_X,), {"k": -1}, np.tril(_X, -1)),
    ("matrixBandPart", (_X,), {"numLower": 1, "numUpper": -1}, np.triu(_X, -1)),
    ("matrixBandPart", (_X,), {"numLower": 1, "numUpper": 0}, np.tril(np.triu(_X, -1))),
    (
        "oneHot",
        (np.array([0, 2]),),
        {"oneHotVectorSize": 3, "axis": -1, "onValue": 2.0, "offValue": -1.0},
        3 * np.eye(3)[[0, 2]] - 1,
    ),
    (
        "oneHot",
        (np.array([0, 2]), np.array([4])),
        {"axis": 0, "onValue": 1.0, "offValue": 0.0},
        np.eye(4)[[0, 2]].T,
    ),
    ("rangeDynamic", (np.array([5]),), {"startValue": 1.0, "stepSizeValue": 1.5}, np.arange(1, 5, 1.5)),
    ("rangeDynamic", (np.array([5]), np.array([2])), {"stepSizeValue": 2.0}, np.arange(2, 5, 2)),
    ("rangeDynamic", (np.array([-5]), np.array([2]), np.array([-3])), {}, np.arange(2, -5, -3)),
    (
        "rangeStatic",
        (),
        {"startValue": 24.0, "endValue": -65.0, "stepSizeValue": -2.0},
        np.arange(24, -65, -2),
    ),
    ("upperTriangular", (_X,), {"k": 1}, np.triu(_X, 1)),
    ("upperTriangular", (_X,), {"k": -1}, np.triu(_X, -1)),
    ("whereNonZero", (_SPARSE,), {}, np.argwhere(_SPARSE)),
]


@pytest.mark.parametrize(("type_", "inputs", "params", "expected"), _CASES)
def test_against_numpy(
    type_: str, inputs: tuple[Array, ...], params: dict[str, Any], expected: Array
) -> None:
    (result,) = results_of(type_, *inputs, **params)
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)
    assert result.shape == expected.shape


@pytest.mark.parametrize("is_half", [False, True])
def test_constant(is_half: bool) -> None:
    values = _X.astype(np.float16) if is_half else _X
    builder, inputs, _ = single("loadConstantND", shape=_X.shape)
    data = builder.nn_spec.layers[0].loadConstantND.data
    if is_half:
        data.float16Value = values.tobytes()
    else:
        data.floatValue.extend(values.ravel())
    result = np.asarray(predict(builder, inputs)["y0"])
    np.testing.assert_array_equal(result, values)


def test_cumulative_sum_along_a_constant_axis() -> None:
    builder, inputs, _ = single("cumSum", _X)
    constant = builder.nn_spec.layers.add(name="axis", output=["axis"]).loadConstantND
    constant.shape.append(1)
    constant.data.floatValue.append(2.0)
    layers = builder.nn_spec.layers
    layers[0].input.append("axis")
    first, second = (type(layers[0])(), type(layers[0])())
    first.CopyFrom(layers[1])
    second.CopyFrom(layers[0])
    del layers[:]
    layers.extend([first, second])
    np.testing.assert_allclose(
        np.asarray(predict(builder, inputs)["y0"]), np.cumsum(_X, 2), rtol=1e-5, atol=1e-6
    )


_SHAPE = (40, 50)
_RANDOM_PARAMS: dict[str, tuple[dict[str, float], float, float]] = {
    # Parameters, and the mean and standard deviation of the distribution.
    "randomBernoulli": ({"prob": 0.25}, 0.25, (0.25 * 0.75) ** 0.5),
    "randomNormal": ({"mean": 3.0, "stdDev": 2.0}, 3.0, 2.0),
    "randomUniform": ({"minVal": -1.0, "maxVal": 5.0}, 2.0, 6 / 12**0.5),
}


@pytest.mark.parametrize("name", _RANDOM_PARAMS)
@pytest.mark.parametrize("shape_from", ["Static", "Like", "Dynamic"])
def test_random_numbers(name: str, shape_from: str) -> None:
    params, mean, deviation = _RANDOM_PARAMS[name]
    given: dict[str, Any] = {**params, "seed": 12}
    inputs: tuple[Array, ...] = ()
    match shape_from:
        case "Static":
            given["outputShape"] = _SHAPE
        case "Like":
            inputs = (np.zeros(_SHAPE),)
        case "Dynamic":
            inputs = (np.array(_SHAPE),)
    (result,) = results_of(f"{name}{shape_from}", *inputs, **given)
    (again,) = results_of(f"{name}{shape_from}", *inputs, **given)
    assert result.shape == _SHAPE
    np.testing.assert_array_equal(result, again)
    # Four standard errors of a mean of 2000 numbers.
    assert abs(result.mean() - mean) < 4 * deviation / 2000**0.5
    assert abs(result.std() - deviation) < 0.1 * deviation


@pytest.mark.parametrize("is_logits", [False, True])
def test_classes_are_drawn_with_their_probabilities(is_logits: bool) -> None:
    chances = np.array([[0.1, 0.7, 0.2], [0.5, 0.0001, 0.4999]])
    given = np.log(chances) if is_logits else chances
    (result,) = results_of(
        "categoricalDistribution",
        given,
        numSamples=4000,
        isLogits=is_logits,
        eps=1e-10,
        temperature=1.0,
        seed=1,
    )
    assert result.shape == (2, 4000)
    drawn = np.stack([(result == c).mean(axis=1) for c in range(3)], 1)
    np.testing.assert_allclose(drawn, chances, atol=0.035)


def test_low_temperature_favours_the_most_probable_class() -> None:
    (result,) = results_of(
        "categoricalDistribution",
        np.array([[1.0, 2.0]]),
        numSamples=1000,
        isLogits=True,
        temperature=0.1,
        seed=1,
    )
    assert result.mean() > 0.99


def test_every_layer_has_a_case() -> None:
    random = {f"{name}{end}" for name in _RANDOM_PARAMS for end in ("Static", "Like", "Dynamic")}
    cases = {case[0] for case in _CASES} | random | {"loadConstantND", "categoricalDistribution"}
    assert {spec.type for spec in generation.LAYERS} == cases
