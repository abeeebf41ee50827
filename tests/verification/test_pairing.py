"""Pairing and distances of arrays, on runs that are written out."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from coremlscope.verification.causes.relation import find_relation
from coremlscope.verification.distance import find_layout, relative_error
from coremlscope.verification.intermediates import Intermediate, Run
from coremlscope.verification.pairing import general_type, pair_runs, plain_name

_RANDOM = np.random.default_rng(0)


def _run(*values: Intermediate) -> Run:
    return Run(label="", values={v.name: v for v in values}, outputs={values[-1].name: values[-1].name})


def _value(name: str, array: np.ndarray, type_: str = "", *inputs: str) -> Intermediate:
    return Intermediate(name=name, array=array, op=name if type_ else "", type=type_, inputs=inputs)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("x_3_cast_fp16", "x_3"),
        ("layer1.0.conv1.weight_to_fp16", "layer1_0_conv1_weight"),
        ("p_layer1_conv_weight", "layer1_conv_weight"),
        ("/encoder/Add", "encoder_add"),
    ],
)
def test_names_lose_what_converters_add(name: str, plain: str) -> None:
    assert plain_name(name) == plain


def test_types_of_frameworks_are_one_word() -> None:
    assert {general_type(name) for name in ("conv", "Conv", "aten.conv2d.default")} == {"conv"}
    assert general_type("Gemm") == general_type("linear") == general_type("addmm")


def test_equal_values_are_paired_whatever_their_layout() -> None:
    x, y = _RANDOM.random((2, 3, 4, 5)), _RANDOM.random((2, 3, 4, 5))
    ours = _run(_value("a", x, "conv"), _value("b", y, "relu", "a"))
    theirs = _run(_value("r", y, "Relu"), _value("c", np.moveaxis(x, 1, -1), "Conv"))
    pairs = {pair.ours: pair for pair in pair_runs(ours, theirs, {})}
    assert pairs["a"].theirs == "c"
    assert pairs["a"].axes == (0, 2, 3, 1)
    assert np.array_equal(pairs["a"].in_our_layout(np.moveaxis(x, 1, -1), x.shape), x)
    assert (pairs["b"].theirs, pairs["b"].how) == ("r", "value")


def test_the_same_values_are_paired_before_similar_ones() -> None:
    """A normalisation of nearly normal values equals the sum behind it within 3 %, but not exactly."""
    norm = _RANDOM.standard_normal((8, 16))
    total = norm * (1 + 0.01 * _RANDOM.standard_normal((8, 16)))
    ours = _run(_value("n", norm, "layer_norm"), _value("s", total, "add", "n"))
    theirs = _run(_value("r", total, "add"), _value("q", norm, "odix"))
    pairs = {pair.ours: (pair.theirs, pair.error) for pair in pair_runs(ours, theirs, {})}
    assert pairs == {"n": ("q", 0.0), "s": ("r", 0.0)}


def test_values_that_differ_are_paired_by_flow_past_other_operations() -> None:
    x, scores = _RANDOM.random((4, 8)), _RANDOM.random((4, 4))
    ours = _run(_value("x", x), _value("s", scores, "matmul", "x"), _value("p", scores * 2, "softmax", "s"))
    theirs = _run(
        _value("x", x),
        _value("m", scores, "matmul", "x"),
        _value("d", scores / 8, "div", "m"),
        _value("q", scores * 3, "softmax", "d"),
    )
    pairs = {pair.ours: (pair.theirs, pair.how) for pair in pair_runs(ours, theirs, {})}
    assert pairs == {"x": ("x", "value"), "s": ("m", "value"), "p": ("q", "flow")}


def test_a_layer_with_a_folded_normalization_is_paired_with_the_normalization() -> None:
    x, made = _RANDOM.random((2, 8)), _RANDOM.random((2, 8))
    apart = (
        _value("c", made / 2, "conv", "x"),
        _value("n", made, "batch_norm", "c"),
        _value("r", made, "tanh", "n"),
    )
    folded = (_value("k", made * 3, "Conv", "x"), _value("t", np.tanh(made), "Tanh", "k"))
    ours, theirs = _run(_value("x", x), *apart), _run(_value("x", x), *folded)
    assert ("n", "k") in {(pair.ours, pair.theirs) for pair in pair_runs(ours, theirs, {})}
    assert ("k", "n") in {(pair.ours, pair.theirs) for pair in pair_runs(theirs, ours, {})}


def test_errors_count_infinities_and_nan() -> None:
    ones = np.ones(4)
    assert relative_error(ones, ones) == 0
    assert relative_error(np.array([1, np.inf]), np.array([1, np.inf])) == 0
    assert relative_error(np.array([1, np.nan]), np.array([1, 2.0])) == math.inf
    assert relative_error(ones * 1.5, ones) == pytest.approx(0.5)
    assert relative_error(ones, np.ones(5)) == math.inf


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda x: x * 8, "scale"),
        (lambda x: x + 3, "offset"),
        (lambda x: -x, "sign"),
        (lambda x: np.transpose(x, (0, 2, 1)), "layout"),
        (lambda x: x[:, ::-1], "layout"),
        (lambda x: np.sort(x.reshape(-1)), "layout"),
        (lambda x: x * 2 + np.arange(4)[None, :, None], "scale"),
    ],
)
def test_relations_are_told(change: Callable[[np.ndarray], np.ndarray], cause: str) -> None:
    x = _RANDOM.standard_normal((6, 4, 5)) * 3
    relation = find_relation(change(x), x)
    assert relation is not None
    assert relation.cause == cause
    right = np.sort(x, axis=None) if relation.is_sorted else x
    assert relative_error(relation.apply(change(x)), right) < 1e-6


def test_there_is_no_relation_between_other_numbers() -> None:
    x, y = _RANDOM.standard_normal((2, 6, 4, 5))
    assert find_relation(x, y) is None
    assert find_relation(x, x) is None
    assert find_layout(x, y, 0.01) is None
