"""Findings on values in Core ML: a hardswish behind a linear layer, and its other form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import coremlscope
from coremlscope import api
from coremlscope.formats import container
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.model.ir import Model
from coremlscope.planning.advice import CORE_ML_VALUE_RULES, bind_default_function, find_remarks
from coremlscope.planning.rewrites.transforms import parse_transform
from coremlscope.studies.variants.coremltools_steps import transform_file
from tests.support.advised_models import F16, F32, MODELS, hard_swish

_RULE = "hard-swish-behind-linear"


def _found(model: Model) -> set[str]:
    return {remark.rule.id for remark in find_remarks(bind_default_function(model))}


def test_every_rule_is_tested() -> None:
    assert [rule.id for rule in CORE_ML_VALUE_RULES] == [_RULE]


@pytest.mark.parametrize("thresholded", [True, False])
def test_the_layer_is_named(thresholded: bool) -> None:
    assert _RULE in _found(hard_swish(rank=2, thresholded=thresholded))


@pytest.mark.parametrize(
    "model", [hard_swish(rank=3), hard_swish(rank=2, dtype=F32), MODELS["composed-activation"][1][0]]
)
def test_other_layers_are_not_named(model: Model) -> None:
    assert _RULE not in _found(model)


@pytest.mark.parametrize(("setting", "expected"), [("all", True), ("cpu_and_ne", True), ("cpu_only", False)])
def test_it_is_shown_where_the_neural_engine_may_run_it(setting: str, expected: bool) -> None:
    found = api.plan(hard_swish(rank=2), ["m1"], compute_units=[setting]).findings
    assert (_RULE in {one.id for one in found}) is expected


def test_verify_notes_it_and_what_if_writes_it_in_another_way(tmp_path: Path) -> None:
    path, target = tmp_path / "m.mlpackage", tmp_path / "v.mlpackage"
    write_mlpackage(hard_swish(rank=2, dtype=F16), path)
    verified = coremlscope.verify(path, path)
    assert verified.passed
    (note,) = (one for one in verified.findings if one.id == _RULE)
    assert "swish" in note.text
    transform = parse_transform(note.transform)
    transform_file(path, transform, target, shapes={}, samples=[], folder=tmp_path)
    assert _RULE not in _found(container.read(target))
    values = {"x": np.random.default_rng(0).standard_normal((4, 16)).astype(np.float32)}
    before, after = (coremlscope.predict(one, values)["swish"] for one in (path, target))
    np.testing.assert_allclose(after, before, rtol=0, atol=2e-3)
