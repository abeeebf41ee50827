"""Evidence for rules: the rows that differ, their forms, and nothing that identifies a model."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope import api
from coremlscope.cli import main
from coremlscope.comparison.evidence import gather_evidence
from coremlscope.describe.forms import list_forms
from coremlscope.errors import UsageError
from coremlscope.ir import Model
from coremlscope.results.evidence import SCHEMA, OpForm
from coremlscope.results.plan import Reason
from coremlscope.results.profile import Profile
from tests.support import foreign_files, programs
from tests.support.partial_profiles import PROFILES

BOTH = PROFILES["several measurements"]


@pytest.fixture(scope="module")
def model() -> Model:
    """The model of the files, with names that nobody else needs to know."""

    def body(x: Any) -> Any:
        return mb.softmax(x=mb.tanh(x=mb.relu(x=x, name="a"), name="b"), axis=-1, name="patented_trick")

    return programs.build(body, {"x": np.zeros((1, 8), np.float16)})


def test_rows_are_the_operations_on_different_units() -> None:
    found = gather_evidence([BOTH()])
    (plan,) = found.plans
    assert (plan.chip, plan.os, plan.compute_units) == ("m1", "macOS 15", "all")
    assert (plan.compared, plan.agreed, plan.weighted_by) == (5, 4, "Core ML")
    (row,) = plan.rows
    assert (row.type, row.ours.unit, row.theirs.unit) == ("linear", "cpu", "neural_engine")
    assert row.ours.reasons == {"neural_engine": ("ne-odd",)}
    assert row.theirs.cost_ms == {"ane": 0.125, "bnns": 1.0}
    assert row.share == pytest.approx(0.125)
    every = gather_evidence([BOTH()], has_all=True).plans[0].rows
    assert [one.type for one in every] == ["mul", "cast", "conv", "clip", "linear"]


def test_names_are_there_only_if_asked_for() -> None:
    assert {row.name for row in gather_evidence([BOTH()], has_all=True).plans[0].rows} == {""}
    (row,) = gather_evidence([BOTH()], has_names=True).plans[0].rows
    assert row.name == "classifier"


def with_message(profile: Profile, text: str) -> Profile:
    """A profile in which Core ML says why `linear` is not on the CPU."""
    theirs = profile.plans[0]
    reason = Reason(unit="cpu", rule="core-ml", text=text, core_ml=text)
    changed = dataclasses.replace(theirs, reasons=(reason,), why=(*((),) * 4, (0,), (), ()))
    return dataclasses.replace(profile, plans=(changed, *profile.plans[1:]))


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Cannot run linear on this device.", "Cannot run linear on this device."),
        ("'classifier': unsupported linear.", "'‹name›': unsupported linear."),
        ("See /Users/ann/secret.mlmodelc/model.mil, line 3", "See ‹name›, line 3"),
        ("at file:///Users/ann/x.mil", "at ‹name›"),
        ("classifier: no", "‹name›: no"),
    ],
)
def test_messages_do_not_name_what_the_author_named(said: str, shown: str) -> None:
    (row,) = gather_evidence([with_message(BOTH(), said)]).plans[0].rows
    assert row.theirs.reasons == {"cpu": (shown,)}


def test_paths_are_hidden_even_where_names_are_not() -> None:
    profile = with_message(BOTH(), "classifier in /Users/ann/x.mil")
    (row,) = gather_evidence([profile], has_names=True).plans[0].rows
    assert row.theirs.reasons == {"cpu": ("classifier in ‹name›",)}


def test_forms_have_types_and_small_parameters(model: Model) -> None:
    forms = list(list_forms(model).values())
    assert OpForm(inputs={"x": ("tensor<fp16, [1, 8]>",)}, attributes={"axis": -1}) in forms


def test_forms_hold_no_weights() -> None:
    weight, scale = np.ones((4, 3, 3, 3), np.float16), np.ones((4,), np.float16)

    def body(x: Any) -> Any:
        y = mb.conv(x=x, weight=weight, strides=[2, 2], pad_type="custom", pad=[1, 0, 1, 0], name="c")
        return mb.batch_norm(x=y, mean=scale, variance=scale, epsilon=np.float16(0.5), name="n")

    forms = list_forms(programs.build(body, {"x": np.zeros((1, 3, 8, 8), np.float16)})).values()
    (conv,) = [form for form in forms if "weight" in form.inputs]
    assert conv.inputs["weight"] == ("const tensor<fp16, [4, 3, 3, 3]>",)
    assert (conv.attributes["strides"], conv.attributes["pad"]) == ([2, 2], [1, 0, 1, 0])
    assert conv.attributes["pad_type"] == "custom"
    (norm,) = [form for form in forms if "mean" in form.inputs]
    assert norm.attributes == {"epsilon": 0.5}


def test_a_file_of_core_ml_becomes_evidence(tmp_path: Path, model: Model) -> None:
    path = foreign_files.write(tmp_path, "small.analytics.mil")
    found = api.evidence(path, model=model, device="m1", os="14.5", has_all=True)
    (plan,) = found.plans
    assert (plan.compute_units, plan.kind, len(plan.rows)) == ("cpu_and_ne", "mlProgram", plan.compared)
    relu, tanh = plan.rows
    assert relu.form.inputs == {"x": ("tensor<fp16, [1, 8]>",)}
    assert tanh.theirs.reasons == {"neural_engine": ('Unsupported "tanh".',)}
    assert tanh.before == ("relu",)


def test_what_lacks_a_plan_is_refused(tmp_path: Path, model: Model) -> None:
    path = foreign_files.write(tmp_path, "small.analytics.mil")
    with pytest.raises(UsageError, match="does not contain a plan of Core ML beside one by rules") as caught:
        api.evidence(path, model=model)
    assert "--device" in caught.value.hint
    saved = tmp_path / "other.json"
    BOTH().save(saved)
    with pytest.raises(UsageError, match="not a profile of that model"):
        api.evidence(saved, model=model)


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved, target = tmp_path / "profile.json", tmp_path / "evidence.json"
    BOTH().save(saved)
    assert main(["evidence", str(saved), "-o", str(target)]) == 0
    assert "1 row, out of 5 operations" in capsys.readouterr().err
    assert main(["evidence", str(saved)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(target.read_text())
    assert printed["schema"] == SCHEMA
    text = target.read_text()
    assert "classifier" not in text
    assert "sample" not in text
    for damaged in ("[1, 2]", "{"):
        saved.write_text(damaged)
        assert main(["evidence", str(saved)]) == 2
        assert "Traceback" not in capsys.readouterr().err
    assert main(["evidence", str(tmp_path / "absent.json")]) == 2


def test_a_model_needs_a_mac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(UsageError, match="only on a Mac"):
        api.evidence(tmp_path / "model.mlpackage")
