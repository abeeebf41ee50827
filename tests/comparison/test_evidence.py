"""Evidence for rules: the rows that differ, their forms, and nothing that identifies a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec.structs
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope import api
from coremlscope.api.evidence import gather_evidence
from coremlscope.base.errors import UsageError
from coremlscope.cli import main
from coremlscope.describe.forms import list_forms
from coremlscope.model.ir import Model
from coremlscope.results.evidence import SCHEMA, OpForm
from coremlscope.results.plan import Reason
from coremlscope.results.profile import Profile
from tests.support import foreign_files, programs
from tests.support.partial_profiles import PROFILES
from tests.support.planned_rows import with_ops

BOTH = PROFILES["several measurements"]


@pytest.fixture(scope="module")
def model() -> Model:
    """The model of the files, with names that nobody else needs to know."""

    def body(x: Any) -> Any:
        return mb.softmax(x=mb.tanh(x=mb.relu(x=x, name="a"), name="b"), axis=-1, name="patented_trick")

    return programs.build(body, {"x": np.zeros((1, 8), np.float16)})


def test_rows_are_the_operations_on_different_units() -> None:
    found = gather_evidence(BOTH())
    (plan,) = found.plans
    assert (plan.chip, plan.os, plan.compute_units) == ("m1", "macOS 15", "all")
    assert (plan.compared, plan.agreed, plan.weighted_by) == (5, 4, "Core ML")
    (row,) = plan.rows
    assert (row.type, row.ours.unit, row.theirs.unit) == ("linear", "cpu", "neural_engine")
    assert row.ours.reasons == {"neural_engine": ("ne-odd",)}
    assert row.theirs.cost_ms == {"ane": 0.125, "bnns": 1.0}
    assert row.share == pytest.approx(0.125)


def with_message(profile: Profile, text: str) -> Profile:
    """A profile in which Core ML says why `linear` is not on the CPU."""
    theirs = profile.plans[0]
    reason = Reason(unit="cpu", rule="core-ml", text=text, core_ml=text)
    linear = next(op for op in theirs.ops if op.type == "linear")
    changed = with_ops(theirs, {op.id: {"why": (reason,) if op is linear else ()} for op in theirs.ops})
    return msgspec.structs.replace(profile, plans=(changed, *profile.plans[1:]))


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
    (row,) = gather_evidence(with_message(BOTH(), said)).plans[0].rows
    assert row.theirs.reasons == {"cpu": (shown,)}


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
    profile = api.import_files(path, model=model, device="m1", os="14.5")
    (plan,) = gather_evidence(profile, model).plans
    assert (plan.compute_units, plan.kind) == ("cpu_and_ne", "mlProgram")
    (relu,) = plan.rows
    assert relu.form.inputs == {"x": ("tensor<fp16, [1, 8]>",)}
    assert (relu.ours.unit, relu.theirs.unit) == ("cpu", "neural_engine")


def test_what_lacks_a_plan_is_refused(tmp_path: Path, model: Model) -> None:
    path = foreign_files.write(tmp_path, "small.analytics.mil")
    with pytest.raises(UsageError, match="no plan of Core ML beside one by rules") as caught:
        gather_evidence(api.import_files(path, model=model), model)
    assert "--device" in caught.value.hint
    saved = tmp_path / "other.json"
    BOTH().save(saved)
    with pytest.raises(UsageError, match="not a profile of that model"):
        api.import_files(saved, model=model)


def test_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved, target = tmp_path / "profile.json", tmp_path / "evidence.json"
    BOTH().save(saved)
    assert main(["import", str(saved), "--share", str(target), "--json", "-"]) == 0
    printed = capsys.readouterr()
    assert "1 row, out of 5 operations" in printed.err
    assert json.loads(printed.out)["agreements"][0]["compared"] == 5
    text = target.read_text()
    assert json.loads(text)["schema"] == SCHEMA
    assert "classifier" not in text
    assert "sample" not in text
    for damaged in ("[1, 2]", "{"):
        saved.write_text(damaged)
        assert main(["import", str(saved), "--share", str(target)]) == 2
        assert "Traceback" not in capsys.readouterr().err
    assert main(["import", str(tmp_path / "absent.json"), "--share", str(target)]) == 2
    assert target.read_text() == text
