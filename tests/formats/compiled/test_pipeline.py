"""Compiled pipelines: folders of compiled models."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

import coremlscope
from coremlscope.base.errors import CorruptModelError
from coremlscope.formats import container
from coremlscope.formats.compiled.marker import COREMLDATA, PROGRAM_TEXT
from coremlscope.formats.compiled.metadata import METADATA
from coremlscope.formats.compiled.writing import write_compiled
from coremlscope.formats.description import write_description
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.model import ir, schema
from tests.support.pipelines import arithmetic, pipeline

_PIPELINE = 202


def _text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def _coremldata(model: ir.Model, kind: int = _PIPELINE, stages: int = 2) -> bytes:
    message = schema.message_class("ModelDescription")()
    write_description(model.description, model.metadata, message)
    layout = b"".join(b"generic.model%dv9.0.0" % index for index in range(stages)) + b"generic"
    head = struct.pack("<I3Q", kind, 1, 0, 0) + _text(layout) + struct.pack("<Q", 9) + bytes(24)
    return head + _text(message.SerializeToString()) + struct.pack("<QII", stages, kind, 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`z = (x + 10) · 10`, compiled."""
    stages = [arithmetic("add", "y", "x"), arithmetic("mul", "z", "y")]
    main = pipeline(stages[0].description.main.inputs, stages[1].description.main.outputs, *stages)
    target = tmp_path / "p.mlmodelc"
    target.mkdir()
    (target / COREMLDATA).write_bytes(_coremldata(main))
    for index, stage in enumerate(stages):
        package = tmp_path / f"{index}.mlpackage"
        write_mlpackage(stage, package)
        write_compiled(package, tmp_path / f"{index}.mlmodelc")
        (tmp_path / f"{index}.mlmodelc").rename(target / f"model{index}")
        (target / f"model{index}" / METADATA).unlink()
    (target / "modelNames").mkdir()
    (target / "modelNames" / COREMLDATA).write_bytes(struct.pack("<Q", 2) + _text(b"plus") + _text(b"times"))
    return target


def test_pipeline(folder: Path) -> None:
    model = container.read(folder)
    assert (model.kind, model.container, model.source) == ("pipeline", "mlmodelc", folder)
    assert isinstance(model.content, ir.Pipeline)
    assert model.content.names == ("plus", "times")
    assert [stage.kind for stage in model.content.models] == ["mlProgram", "mlProgram"]
    found = coremlscope.predict(folder, {"x": np.array([1, 2, 3], np.float32)})
    np.testing.assert_array_equal(found["z"], [110, 120, 130])
    assert [stage.name for stage in coremlscope.inspect(folder).stages] == ["plus", "times"]
    assert {op.split("/")[0] for op in coremlscope.plan(folder, "m1").ops.id} == {"plus", "times"}


def test_interface_from_the_metadata(folder: Path) -> None:
    (folder / COREMLDATA).unlink()
    array = {"type": "MultiArray", "dataType": "Float32", "shape": "[3]"}
    content = {
        "modelType": {"name": "MLModelType_pipeline", "structure": [{"name": "MLModelType_mlProgram"}] * 2},
        "specificationVersion": 9,
        "inputSchema": [{"name": "x", **array}],
        "outputSchema": [{"name": "z", **array}],
    }
    (folder / METADATA).write_text(json.dumps([content]))
    found = coremlscope.predict(folder, {"x": np.zeros(3, np.float32)})
    np.testing.assert_array_equal(found["z"], [100, 100, 100])


def test_stages_of_unknown_types(folder: Path) -> None:
    stage = folder / "model1"
    (stage / PROGRAM_TEXT).unlink()
    suppression = 610
    model = container.read(folder.parent / "1.mlpackage")
    message = schema.message_class("ModelDescription")()
    write_description(model.description, model.metadata, message)
    head = struct.pack("<I3Q", suppression, 5, 0, 0) + _text(b"generic") + struct.pack("<Q", 9) + bytes(24)
    (stage / COREMLDATA).write_bytes(head + _text(message.SerializeToString()) + b"unknown")
    stages = coremlscope.inspect(folder).stages
    assert [stage.kind for stage in stages] == ["mlProgram", "nonMaximumSuppression"]
    assert stages[1].absent


def test_names_are_optional(folder: Path) -> None:
    (folder / "modelNames" / COREMLDATA).unlink()
    content = container.read(folder).content
    assert isinstance(content, ir.Pipeline)
    assert content.names == ("", "")


def test_weights_beside_the_stages(folder: Path) -> None:
    text = folder / "model0" / PROGRAM_TEXT
    blob = (
        'tensor<fp32, [3]>(BLOBFILE(path = string("@model_path/../weights/weight.bin"), offset = uint64(64)))'
    )
    changed = text.read_text().replace("y = fp32(0x1.4p+3)", f"y = {blob}")
    assert blob in changed
    text.write_text(changed)
    (folder / "weights").mkdir()
    values = np.array([1, 2, 3], np.float32).tobytes()
    header = struct.pack("<II56x", 1, 2) + struct.pack("<IIQQQ32x", 0xDEADBEEF, 2, len(values), 128, 0)
    (folder / "weights/weight.bin").write_bytes(header + values)
    found = coremlscope.predict(folder, {"x": np.zeros(3, np.float32)})
    np.testing.assert_array_equal(found["z"], [10, 20, 30])
    text.write_text(changed.replace("@model_path/../weights", "@model_path/../../weights"))
    with pytest.raises(CorruptModelError, match="outside the model"):
        container.read(folder)


def test_missing_stages(folder: Path) -> None:
    (folder / "model1").rename(folder / "model3")
    with pytest.raises(CorruptModelError, match="lacks the folder model1"):
        container.read(folder)


def test_folders_of_models_that_are_no_pipeline(folder: Path) -> None:
    (folder / COREMLDATA).unlink()
    with pytest.raises(CorruptModelError, match=r"no coremldata.bin of a pipeline"):
        container.read(folder)


def test_links_and_depth_are_limited(folder: Path, tmp_path: Path) -> None:
    data = (folder / COREMLDATA).read_bytes()
    (folder / "model1").rename(tmp_path / "model1")
    (folder / "model1").symlink_to(folder)
    with pytest.raises(CorruptModelError, match="link"):
        container.read(folder)
    deep = folder
    (folder / "model1").unlink()
    (tmp_path / "model1").rename(folder / "model1")
    for _ in range(10):
        (deep / "model2").mkdir()
        for index in range(3):
            (deep / f"model{index}").mkdir(exist_ok=True)
        deep = deep / "model2"
        (deep / COREMLDATA).write_bytes(data)
        for index in range(2):
            (deep / f"model{index}").mkdir()
            for file in (folder / f"model{index}").glob("*.*"):
                (deep / f"model{index}" / file.name).write_bytes(file.read_bytes())
    with pytest.raises(CorruptModelError, match="inside each other"):
        container.read(folder)


@pytest.mark.parametrize(
    "names", [b"", b"\x01", struct.pack("<QQ", 1, 9) + b"short", b"\xff" * 8 + b"x" * 30]
)
def test_damaged_names(folder: Path, names: bytes) -> None:
    (folder / "modelNames" / COREMLDATA).write_bytes(names)
    with pytest.raises(CorruptModelError, match="is damaged"):
        container.read(folder)
