"""The file `coremldata.bin` of compiled models."""

from __future__ import annotations

import contextlib
import json
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coremlscope.base.errors import CorruptModelError, NotAModelError, UnsupportedModelError
from coremlscope.describe.model import describe_model
from coremlscope.formats import container
from coremlscope.formats.compiled.coremldata import parse_compiled_data, read_compiled_data
from coremlscope.formats.compiled.interface import find_interface
from coremlscope.formats.compiled.marker import COREMLDATA
from coremlscope.formats.compiled.metadata import METADATA
from coremlscope.formats.description import read_description
from coremlscope.formats.external import compiled_model
from coremlscope.formats.mlmodel import write_spec
from coremlscope.formats.values import write_immediate
from coremlscope.model import schema
from coremlscope.runtime.execution.pipeline import open_predictor
from tests.support.constant_programs import linear_model

_NETWORK, _CLASSIFIER, _PROGRAM, _TEXT_CLASSIFIER = 500, 403, 502, 2000


def _text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def _head(kind: int, layout: bytes, version: tuple[int, int, int] = (5, 0, 0)) -> bytes:
    return struct.pack("<I3Q", kind, *version) + _text(layout) + struct.pack("<Q", 7) + bytes(24)


def _description() -> bytes:
    message = schema.message_class("ModelDescription")()
    message.input.add(name="x").type.doubleType.SetInParent()
    message.output.add(name="y").type.stringType.SetInParent()
    message.metadata.author = "somebody"
    data: bytes = message.SerializeToString()
    return data


def _generic(kind: int, content: bytes, version: tuple[int, int, int] = (5, 0, 0)) -> bytes:
    return _head(kind, b"generic", version) + _text(_description()) + struct.pack("<Q", kind) + content


@pytest.mark.parametrize("version", [(5, 0, 0), (1, 3, 0), (1, 2, 1)], ids=str)
def test_network(version: tuple[int, int, int]) -> None:
    content = struct.pack("<Q", 2) + _text(b"probs") + _text(b"boxes")
    data = parse_compiled_data(_generic(_NETWORK, content, version), "m")
    assert (data.kind, data.spec_version, data.version) == ("neuralNetwork", 7, version)
    assert (data.output_names, data.class_labels, data.rest) == (("probs", "boxes"), (), b"")
    described = read_description(data.description).main
    assert [f.name for f in described.inputs + described.outputs] == ["x", "y"]
    assert data.description.metadata.author == "somebody"


def test_classifiers() -> None:
    names = struct.pack("<QQ", 100, 2) + _text(b"cat") + _text(b"dog") + struct.pack("<Q", 1) + _text(b"y")
    data = parse_compiled_data(_generic(_CLASSIFIER, names), "m")
    assert (data.kind, data.class_labels) == ("neuralNetworkClassifier", ("cat", "dog"))
    assert data.output_names == ("y",)
    numbers = struct.pack("<QQqqQ", 101, 2, -3, 7, 0)
    assert parse_compiled_data(_generic(_CLASSIFIER, numbers), "m").class_labels == (-3, 7)


def test_unknown_bytes_after_the_description_are_kept() -> None:
    data = parse_compiled_data(_generic(_PROGRAM, struct.pack("<Q", 0) + b"more"), "m")
    assert (data.output_names, data.rest) == ((), b"more")
    unknown = parse_compiled_data(_head(_CLASSIFIER, b"generic") + _text(_description()) + b"other", "m")
    assert (unknown.class_labels, unknown.rest) == ((), b"other")


def test_complete_specification(tmp_path: Path) -> None:
    spec = schema.message_class("Model")(specificationVersion=3)
    spec.description.ParseFromString(_description())
    spec.textClassifier.revision, spec.textClassifier.language = 1, "en"
    spec.textClassifier.stringClassLabels.vector.extend(["spam", "ham"])
    content = _head(_TEXT_CLASSIFIER, b"spec", (1, 0, 0)) + spec.SerializeToString()
    (tmp_path / COREMLDATA).write_bytes(content)
    model = container.read(tmp_path)
    assert (model.kind, model.content.labels) == ("textClassifier", ("spam", "ham"))
    assert (model.container, model.source, model.size_bytes) == ("mlmodelc", tmp_path, len(content))
    program = _head(_TEXT_CLASSIFIER, b"spec") + write_spec(linear_model(), write_immediate)
    with pytest.raises(CorruptModelError, match="says that the model is a textClassifier, but contains"):
        parse_compiled_data(program, "m")


@pytest.mark.parametrize("layout", [b"spec", b"generic"])
def test_layout_of_the_first_betas(layout: bytes) -> None:
    head = struct.pack("<I3Q", 300, 1, 0, 0) + _text(b"") + struct.pack("<3Q", 1, 0, 0) + _text(layout)
    spec = schema.message_class("Model")(specificationVersion=1)
    spec.description.ParseFromString(_description())
    spec.glmRegressor.offset.append(2)
    content = spec.SerializeToString() if layout == b"spec" else _text(_description()) + b"rest"
    data = parse_compiled_data(head + content, "m")
    assert (data.kind, data.version, data.spec_version) == ("glmRegressor", (1, 0, 0), 1)
    assert data.description.metadata.author == "somebody"
    assert (data.spec, data.rest) == ((content, b"") if layout == b"spec" else (None, b"rest"))


class TestOtherTypes:
    def test_are_described(self, tmp_path: Path) -> None:
        (tmp_path / COREMLDATA).write_bytes(_generic(300, b"unknown"))
        (tmp_path / "_B0000.DAT").write_bytes(bytes(100))
        model = container.read(tmp_path)
        assert model.content == compiled_model("glmRegressor", 115)
        assert [f.name for f in model.description.main.outputs] == ["y"]
        assert model.metadata.author == "somebody"
        summary = describe_model(model)
        assert (summary.facts, summary.absent) == (
            (("data", "115 B"),),
            "its parameters are in a format of Apple's compiler that is not published",
        )
        with pytest.raises(
            UnsupportedModelError, match="a generalized linear regressor cannot be run here: its parameters"
        ):
            open_predictor(model)

    def test_labels_are_in_the_metadata(self, tmp_path: Path) -> None:
        (tmp_path / COREMLDATA).write_bytes(_generic(402, b"unknown"))
        about = {
            "modelType": {"name": "MLModelType_treeEnsembleClassifier"},
            "specificationVersion": 1,
            "classLabels": ["cat", "dog"],
        }
        (tmp_path / METADATA).write_text(json.dumps([about]))
        model = container.read(tmp_path)
        assert model.spec_version == 7  # of coremldata.bin
        assert model.content == compiled_model("treeEnsembleClassifier", 15, ("cat", "dog"))

    @pytest.mark.parametrize(
        ("kind", "missing"), [(500, "model.espresso.net"), (502, "model.mil"), (202, "model0")]
    )
    def test_without_content(self, kind: int, missing: str, tmp_path: Path) -> None:
        (tmp_path / COREMLDATA).write_bytes(_generic(kind, b""))
        with pytest.raises(CorruptModelError, match=f"but {missing} is missing"):
            container.read(tmp_path)

    def test_an_empty_folder(self, tmp_path: Path) -> None:
        folder = tmp_path / "m.mlmodelc"
        folder.mkdir()
        with pytest.raises(NotAModelError, match="is not a compiled model: it has no"):
            container.read(folder)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "ends 4 bytes after byte 0 too early"),
        (struct.pack("<I3Q", 77, 5, 0, 0), "the model type 77 is unknown"),
        (_head(_PROGRAM, b"other"), "its layout is unknown"),
        (_head(_PROGRAM, b"generic") + struct.pack("<Q", 2**63), "too early"),
        (_head(_PROGRAM, b"generic") + _text(b"\xff\xff"), "cannot be parsed"),
    ],
    ids=["empty", "type", "layout", "length", "message"],
)
def test_damage(data: bytes, message: str) -> None:
    with pytest.raises(CorruptModelError, match=message):
        parse_compiled_data(data, "m")


def test_git_lfs_pointer() -> None:
    with pytest.raises(NotAModelError, match="Git LFS pointer"):
        parse_compiled_data(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 497\n", "m")


_WHOLE = _generic(_CLASSIFIER, struct.pack("<QQ", 100, 1) + _text(b"cat") + struct.pack("<Q", 0))


def test_truncations() -> None:
    end_of_description = len(_head(_CLASSIFIER, b"generic") + _text(_description()))
    for length in range(end_of_description):
        with pytest.raises(CorruptModelError):
            parse_compiled_data(_WHOLE[:length], "m")
    for length in range(end_of_description, len(_WHOLE)):
        assert parse_compiled_data(_WHOLE[:length], "m").description.input[0].name == "x"


@settings(max_examples=300)
@given(
    flips=st.lists(st.tuples(st.integers(0, len(_WHOLE) - 1), st.integers(1, 255)), min_size=1, max_size=4)
)
def test_bit_flips(flips: list[tuple[int, int]]) -> None:
    data = bytearray(_WHOLE)
    for position, mask in flips:
        data[position] ^= mask
    with contextlib.suppress(CorruptModelError):
        read_description(parse_compiled_data(bytes(data), "m").description)


@pytest.mark.corpus
def test_files_of_the_corpus(corpus: Path) -> None:
    files = sorted(corpus.rglob(f"*.mlmodelc/{COREMLDATA}"))
    assert len(files) >= 24
    for file in files:
        data = read_compiled_data(file)
        assert data.rest == b""
        outputs = {feature.name for feature in data.description.output}
        assert set(data.output_names) == (outputs if data.kind == "neuralNetwork" else set()), file
    read = map(read_compiled_data, files)
    assert {(data.kind, data.version) for data in read} == {
        ("mlProgram", (5, 0, 0)),
        ("neuralNetwork", (1, 3, 0)),
        ("neuralNetwork", (1, 2, 1)),
        ("textClassifier", (1, 0, 0)),
    }


@pytest.mark.corpus
def test_interfaces_in_both_files_are_the_same(corpus: Path, tmp_path: Path) -> None:
    folders = [f.parent for f in corpus.rglob(f"*.mlmodelc/{METADATA}") if (f.parent / COREMLDATA).exists()]
    assert len(folders) >= 18
    for folder in folders:
        (tmp_path / METADATA).write_bytes((folder / METADATA).read_bytes())
        both, text = find_interface(folder), find_interface(tmp_path)
        assert both is not None
        assert text is not None
        assert both.description == text.description, folder
        assert (both.kind, both.spec_version, both.metadata) == (text.kind, text.spec_version, text.metadata)
