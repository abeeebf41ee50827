from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import coremlscope
from coremlscope import api
from coremlscope.base.errors import UsageError
from coremlscope.formats.sample import sample_model
from coremlscope.results.measurement import Settings
from tests.support.classical_specs import regressor


def test_everything_that_is_promised_is_there() -> None:
    for name in coremlscope.__all__:
        assert getattr(coremlscope, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'measur'"):
        coremlscope.measur  # noqa: B018


def test_models_from_memory(tmp_path: Path) -> None:
    model = sample_model(size=32, width=0.5, classes=10)
    assert api.read(model) is model
    assert coremlscope.inspect(model).path == ""
    results = coremlscope.predict(model, {"image": np.zeros((32, 32, 3), np.uint8)})
    assert sum(results["classLabel_probs"].values()) == pytest.approx(1, abs=1e-3)
    assert coremlscope.export(model, tmp_path / "m.onnx") == (tmp_path / "m.onnx",)


def test_profile() -> None:
    calls: list[str] = []
    profile = coremlscope.profile(
        sample_model(size=32, width=0.5, classes=10),
        iterations=2,
        effort=coremlscope.Effort(compile_iterations=1, load_iterations=1, warmups=0, threads=1),
        progress=lambda phase, done, total: calls.append(phase),
    )
    assert profile.measurement.predict.statistics.count == 2
    assert {"compile", "load", "predict", "operations"} <= set(calls)


def test_keywords_of_a_profile_are_the_attributes_of_its_settings() -> None:
    # `early` names numbers of repetitions that were left open; operations of steps of decoders are not timed.
    attributes = set(Settings.__struct_fields__) - {"early", "times_operations"}
    grouped = {*coremlscope.Subject.__struct_fields__, *coremlscope.Effort.__struct_fields__}
    assert attributes <= grouped | set(inspect.signature(api.profile).parameters)


def test_one_spelling_of_each_keyword() -> None:
    for function in (api.plan, api.estimate, api.compare, api.profile):
        parameters = inspect.signature(function).parameters
        assert {"devices", "compute_units"} <= set(parameters)
        assert not any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def test_what_cannot_be_estimated_does_not_stop_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    model = api.read(regressor([[1.0, 2.0]], [0.5]).SerializeToString())
    monkeypatch.setattr("coremlscope.planning.forecast.functions.tabular_kernels", lambda functions: [])
    profile = coremlscope.profile(
        model,
        iterations=2,
        effort=coremlscope.Effort(compile_iterations=1, load_iterations=1, warmups=0),
        devices=["m1"],
    )
    assert profile.estimates == ()
    assert [finding.text for finding in profile.all_findings if finding.id == "not-estimated"] == [
        "The latency of a generalized linear regressor cannot be estimated."
    ]


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: api.compare(["a", "b"]), "arguments of their own"),  # type: ignore[arg-type]
        (lambda: api.inspect(None), "pass a string"),  # type: ignore[arg-type]
        (lambda: coremlscope.check(["a"], max_size="1MB"), "arguments of their own"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_path_is_named_with_a_hint_in_the_traceback(call: Callable[[], object], hint: str) -> None:
    with pytest.raises(UsageError, match="by its path") as caught:
        call()
    assert hint in caught.value.hint
    assert f"hint: {caught.value.hint}" in "".join(traceback.format_exception(caught.value))
