"""The suppression of boxes, the last stage of a detector, is verified by its outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coremlscope
from coremlscope import verify
from coremlscope.base.errors import UsageError
from coremlscope.cli import main
from coremlscope.model.ir import Model
from coremlscope.model.subject import Subject
from tests.support.classical_specs import DOUBLE, array_type, model_spec, read_spec


def _spec(*, per_class: bool = True, iou: float = 0.45, least: float = 0.25, rows: int | None = None) -> Any:
    given = {
        "pickTop": {"perClass": per_class},
        "iouThreshold": iou,
        "confidenceThreshold": least,
        "stringClassLabels": {"vector": ["cat", "dog", "owl"]},
        "confidenceInputFeatureName": "raw_confidence",
        "coordinatesInputFeatureName": "raw_coordinates",
        "iouThresholdInputFeatureName": "iouThreshold",
        "confidenceThresholdInputFeatureName": "confidenceThreshold",
        "confidenceOutputFeatureName": "confidence",
        "coordinatesOutputFeatureName": "coordinates",
    }
    inputs = {
        "raw_confidence": array_type(80, 3),
        "raw_coordinates": array_type(80, 4),
        "iouThreshold": DOUBLE,
        "confidenceThreshold": DOUBLE,
    }
    shapes = [(), ()] if rows is None else [(rows, 3), (rows, 4)]
    outputs = {"confidence": array_type(*shapes[0]), "coordinates": array_type(*shapes[1])}
    optional = ["iouThreshold", "confidenceThreshold"]
    return model_spec("nonMaximumSuppression", given, inputs, outputs, optional=optional)


def _suppression(**settings: Any) -> Model:
    return read_spec(_spec(**settings))


@pytest.fixture(scope="module")
def drawn() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    sizes = 0.1 + 0.3 * rng.random((80, 2))
    boxes = np.hstack([rng.random((80, 2)), sizes])
    return {"raw_confidence": rng.random((80, 3)), "raw_coordinates": boxes}


def _kept(model: Model, drawn: dict[str, np.ndarray], **thresholds: float) -> dict[str, np.ndarray]:
    return coremlscope.predict(model, {**drawn, **thresholds})


def test_kept_boxes_are_compared(drawn: dict[str, np.ndarray]) -> None:
    model = _suppression()
    for inputs in ({}, drawn):
        found = verify(Subject(model, inputs=inputs), model)
        assert found.passed
        assert {output.name for output in found.outputs} == {"confidence", "coordinates"}
    saved = verify(model, {**drawn, **_kept(model, drawn)})
    assert saved.passed
    assert saved.inputs[:2] == ("raw_confidence: given", "raw_coordinates: given")


@pytest.mark.parametrize("other", [{"iou": 0.65}, {"per_class": False}, {"least": 0.8}])
def test_other_settings_keep_other_boxes(other: Any, drawn: dict[str, np.ndarray]) -> None:
    right = _kept(_suppression(**other), drawn)
    found = verify(_suppression(), {**drawn, **right})
    assert not found.passed
    assert f"and {right['confidence'].size} in the reference" in found.outputs[0].why


def test_wrong_numbers_are_compared_in_order(drawn: dict[str, np.ndarray]) -> None:
    right = _kept(_suppression(), drawn)
    moved = {**right, "coordinates": right["coordinates"] + 0.1}
    found = verify(_suppression(), {**drawn, **moved})
    assert {output.name: output.passed for output in found.outputs} == {
        "confidence": True,
        "coordinates": False,
    }
    halved = verify(_suppression(), {**drawn, **right, "confidence": right["confidence"] / 2})
    assert "differs by up to" in next(o.why for o in halved.outputs if o.name == "confidence")


def test_compute_units_are_refused() -> None:
    with pytest.raises(UsageError, match="runs here only"):
        verify(_suppression(), _suppression(), compute_units=["all"])


def test_recorded_boxes_of_other_inputs_are_noted(drawn: dict[str, np.ndarray]) -> None:
    found = verify(_suppression(), _kept(_suppression(), drawn))
    assert not found.faults
    assert [finding.id for finding in found.findings] == ["recorded-for-other-inputs"]


def test_a_stage_of_a_pipeline(
    tmp_path: Path, drawn: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]
) -> None:
    stage = _spec()
    whole = type(stage)()
    whole.specificationVersion = stage.specificationVersion
    whole.description.CopyFrom(stage.description)
    whole.pipeline.models.add().CopyFrom(stage)
    whole.pipeline.names.append("suppression")
    (tmp_path / "detector.mlmodel").write_bytes(whole.SerializeToString())
    np.savez(tmp_path / "right.npz", **drawn, **_kept(_suppression(iou=0.65), drawn))
    np.savez(tmp_path / "same.npz", **drawn, **_kept(_suppression(), drawn))
    arguments = ["verify", str(tmp_path / "detector.mlmodel"), "--stage", "suppression", "--reference"]
    assert main([*arguments, str(tmp_path / "same.npz")]) == 0
    assert main([*arguments, str(tmp_path / "right.npz")]) == 11
    text = capsys.readouterr().out
    assert text.splitlines()[0].endswith("same: all outputs are equal")
    assert "in the reference" in text
