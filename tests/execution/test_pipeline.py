"""Pipelines of programs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from coremlscope import ir
from coremlscope.errors import CorruptModelError, InputError, UnsupportedModelError, UsageError
from coremlscope.execution import PipelinePredictor, Predictor, open_predictor
from graphs import op, tensor, value
from handmade import array_feature, model

X = np.array([1, 2, 3], np.float32)


def _stage(kind: str, target: str, *sources: str) -> ir.Model:
    """An operation of one or two features of three numbers."""
    values = {name: value(name, tensor(3)) for name in (*sources, target)}
    given = dict(zip("xy", (values[name] for name in sources), strict=False))
    if len(sources) == 1:
        given["y"] = ir.constant(np.float32(10))
    row = op(kind, (values[target],), **given)
    graph = ir.Graph("main", tuple(values[name] for name in sources), (row,), (values[target],))
    inputs = [array_feature(name, (3,)) for name in sources]
    return model(inputs, [array_feature(target, (3,))], {"main": graph})


def _pipeline(outputs: tuple[str, ...], *stages: ir.Model) -> ir.Model:
    features = tuple(array_feature(name, (3,)) for name in outputs)
    interface = ir.FunctionDescription((array_feature("a", (3,)),), features)
    described = ir.Description({"main": interface}, "main")
    return ir.Model(9, described, ir.Pipeline("pipeline", ("",) * len(stages), stages))


def test_each_model_takes_what_came_before() -> None:
    stages = _stage("mul", "b", "a"), _stage("sub", "c", "b", "a"), _stage("add", "d", "c")
    with open_predictor(_pipeline(("d", "b"), *stages)) as predictor:
        assert isinstance(predictor, PipelinePredictor)
        predictor.prepare()
        results = predictor.predict({"a": X})
        assert list(results) == ["d", "b"]
        np.testing.assert_allclose(results["d"], 9 * X + 10)
        np.testing.assert_allclose(results["b"], 10 * X)
        assert predictor.new_state().names == ()


def test_a_pipeline_may_hold_a_pipeline() -> None:
    inner = _pipeline(("b",), _stage("mul", "b", "a"))
    with open_predictor(_pipeline(("c",), inner, _stage("add", "c", "b"))) as predictor:
        np.testing.assert_allclose(predictor.predict({"a": X})["c"], 10 * X + 10)


def test_wrong_inputs_are_refused_as_by_any_model() -> None:
    with open_predictor(_pipeline(("b",), _stage("mul", "b", "a"))) as predictor:
        with pytest.raises(InputError, match="'a'"):
            predictor.predict({})
        with pytest.raises(InputError, match="no input 'z'"):
            predictor.predict({"a": X, "z": X})


def test_features_must_come_from_somewhere() -> None:
    with pytest.raises(CorruptModelError, match="stage 'model1' takes 'q', which nothing"):
        open_predictor(_pipeline(("c",), _stage("mul", "b", "a"), _stage("add", "c", "q")))
    with pytest.raises(CorruptModelError, match="the pipeline gives 'c', which nothing"):
        open_predictor(_pipeline(("c",), _stage("mul", "b", "a")))


def test_what_a_pipeline_cannot_do() -> None:
    good = _pipeline(("b",), _stage("mul", "b", "a"))
    with pytest.raises(UsageError, match="no function 'other'"):
        open_predictor(good, "other")
    tree = dataclasses.replace(_stage("mul", "b", "a"), content=ir.Opaque("treeEnsembleRegressor"))
    with pytest.raises(UnsupportedModelError, match="treeEnsembleRegressor"):
        open_predictor(_pipeline(("b",), tree))


def test_programs_are_opened_as_ever() -> None:
    with open_predictor(_stage("mul", "b", "a")) as predictor:
        assert isinstance(predictor, Predictor)
