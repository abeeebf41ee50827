"""Exporting pipelines as folders of ONNX files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import coremlscope
from coremlscope.base.errors import OutputError, UnsupportedModelError, UsageError
from coremlscope.model import ir
from tests.support.ir_models import array_feature
from tests.support.pipelines import arithmetic, image_feature, pipeline, scene_print, tripler

A, C = [array_feature("a", (3,))], [array_feature("c", (3,))]


def test_a_file_for_each_stage_and_their_connections(tmp_path: Path) -> None:
    inner = pipeline([array_feature("b", (3,))], C, arithmetic("add", "c", "b"), names=("p/lus",))
    given = pipeline(A, C, arithmetic("mul", "b", "a"), inner)
    files = coremlscope.export(given, tmp_path / "out")
    assert [file.name for file in files] == ["00-model0.onnx", "01-model1_p_lus.onnx", "pipeline.json"]
    value = np.array([1, 2, 3], np.float32)
    for name, target in (("a", "b"), ("b", "c")):
        session = onnxruntime.InferenceSession(files["ab".index(name)], providers=["CPUExecutionProvider"])
        (value,) = session.run([target], {name: value})
    np.testing.assert_array_equal(value, [20, 30, 40])
    content = json.loads(files[-1].read_text())
    assert content["schema"] == "coremlscope.pipeline/1"
    first, second = content["stages"]
    assert first["inputs"] == {"a": {"stage": None, "feature": "a"}}
    assert second["inputs"] == {"b": {"stage": "model0", "feature": "b"}}
    assert content["outputs"] == {"c": {"stage": "model1/p/lus", "feature": "c"}}


def test_stages_missing_from_the_file_are_omitted(tmp_path: Path) -> None:
    source, target = (array_feature(name, (2048,), ir.DType.FP64) for name in ("print", "y"))
    given = pipeline([image_feature("image")], [target], scene_print(), tripler(source, target))
    files = coremlscope.export(given, tmp_path)
    assert [file.name for file in files] == ["01-model1.onnx", "pipeline.json"]
    first, second = json.loads(files[-1].read_text())["stages"]
    assert (first["file"], second["file"]) == (None, "01-model1.onnx")
    assert "Apple's systems" in first["left_out"]


def test_pipelines_that_cannot_be_exported(tmp_path: Path) -> None:
    given = pipeline(A, [array_feature("b", (3,))], arithmetic("mul", "b", "a"))
    with pytest.raises(UsageError, match="exported into a folder") as caught:
        coremlscope.export(given, tmp_path / "m.onnx")
    assert str(tmp_path / "m") in caught.value.hint
    with pytest.raises(UsageError, match="unknown function"):
        coremlscope.export(given, tmp_path / "m", function="other")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        coremlscope.export(given, tmp_path / "file")
    alone = scene_print()
    interface = alone.description.main
    whole = pipeline(interface.inputs, interface.outputs, alone)
    with pytest.raises(UnsupportedModelError, match="no stage of this pipeline"):
        coremlscope.export(whole, tmp_path / "m")
