"""Every verb shows the known hazards that answer its question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope import api, check, verify
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.model import ir
from coremlscope.planning.forecast.hazards import find_hazards
from coremlscope.planning.hazards import HAZARDS
from coremlscope.planning.hazards.find import find_in_function
from coremlscope.planning.hazards.hazard import GraphPattern, OpPattern
from coremlscope.planning.patterns.rule import example_view
from coremlscope.studies.doctor.model import find_problems
from tests.support.programs import build


def _product(x: Any) -> Any:
    return mb.linear(x=mb.cast(x=x, dtype="int32"), weight=np.ones((8, 8), np.int32))


def _vector(x: Any) -> Any:
    return mb.matmul(x=x, y=np.ones((10, 4, 3), np.float32))


def _strided(x: Any) -> Any:
    weight = np.ones((64, 64, 5, 5), np.float16)
    return mb.conv(x=mb.cast(x=x, dtype="fp16"), weight=weight, strides=[5, 5], pad_type="valid")


def _overflowing(x: Any) -> Any:
    weight = np.ones((64, 64, 3, 3), np.float16)
    return mb.softplus(x=mb.conv(x=mb.cast(x=x, dtype="fp16"), weight=weight, pad_type="same"))


#: A model for each kind: how it is built, its input, the row, and the setting whose plan meets it.
_MODELS = {
    "refused": (_product, (8, 8), "integer-product", "all"),
    "crash": (_vector, (4,), "product-with-vector", "cpu_only"),
    "endless load": (_strided, (1, 64, 500, 500), "endless-compile", "cpu_and_ne"),
    "wrong values": (_overflowing, (1, 64, 64, 64), "exponential-overflow", "cpu_and_ne"),
}


@pytest.fixture(scope="module")
def models() -> dict[str, ir.Model]:
    return {
        kind: build(make, {"x": np.zeros(shape, np.float32)}) for kind, (make, shape, *_) in _MODELS.items()
    }


@pytest.mark.parametrize("kind", _MODELS)
def test_every_verb_shows_them(kind: str, models: dict[str, ir.Model], tmp_path: Path) -> None:
    _, _, row, setting = _MODELS[kind]
    path = tmp_path / "a.mlpackage"
    write_mlpackage(models[kind], path)
    assert any(problem.id.endswith(row) for problem in find_problems(models[kind]))

    profile = api.plan(path, ["m3"], compute_units=setting)
    assert any(finding.id.endswith(row) for finding in profile.findings)
    (plan,) = profile.plans
    met = [one for one in find_hazards(models[kind], plan.view()) if one.id.endswith(row)]
    assert [(one.kind, one.is_certain) for one in met] == [(kind, True)]

    report = check(path, device=["m3"], compute_units=setting, no_known_crash=True)
    failed = {one.kind for one in report.models[0].checks if one.verdict != "pass"}
    assert failed == {"no-known-crash" if kind in ("crash", "wrong values") else "loads"}


def test_verify_names_wrong_values(models: dict[str, ir.Model], tmp_path: Path) -> None:
    path = tmp_path / "a.mlpackage"
    write_mlpackage(models["wrong values"], path)
    found = verify(path, path).findings
    assert "ne-exponential-overflow" in {one.id for one in found}


def test_an_anecdote_decides_nothing(tmp_path: Path) -> None:
    """What only an anecdote tells is shown, but no gate fails by it, and no headline begins with it."""
    model = build(
        lambda x: mb.reduce_argmax(x=x, axis=-1, keep_dims=False), {"x": np.zeros((10, 10), np.float32)}
    )
    assert any(one.id.endswith("argmax-of-all") for one in find_problems(model))
    (answer,) = (one for one in api.plan(model, ["m1"]).answers if one.compute_units == "all")
    assert [one.confidence for one in answer.hazards] == ["anecdotal"]
    assert not answer.is_hazardous
    path = tmp_path / "a.mlpackage"
    write_mlpackage(model, path)
    report = check(path, device=["m1"], no_known_crash=True)
    assert [one.verdict for one in report.models[0].checks] == ["uncertain"]


@pytest.mark.parametrize("kind", ["endless load", "wrong values"])
def test_a_unit_that_is_not_asked_for_has_none(kind: str, models: dict[str, ir.Model]) -> None:
    model = models[kind]
    profile = api.plan(model, ["m3"], compute_units="cpu_only")
    assert not find_hazards(model, profile.plans[0].view())


@pytest.mark.parametrize("row", [row for row in HAZARDS if row.pattern], ids=lambda row: row.id)
def test_rows_are_found_wherever_a_model_is_planned(row: Any) -> None:
    match row.pattern:
        case OpPattern(accepts=accepts, rejects=rejects):
            functions = [((one,), True, one.facts) for one in accepts[:1]]
            functions += [((one,), False, one.facts) for one in rejects]
        case GraphPattern(examples=examples):
            functions = [(one.ops, bool(one.hits), one.facts) for one in examples]
    for ops, is_met, facts in functions:
        views: list[Any] = []
        for number, example in enumerate(ops):
            views.append(example_view(example, f"main/{number}", views))
        producers = {value.name: view for view in views for value in view.op.outputs}
        found = {one.id for one in find_in_function(views, producers, facts)}
        assert any(id_.endswith(row.id) for id_ in found) is is_met
