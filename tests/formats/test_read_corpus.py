"""Reading of every model in the corpus, compared with the corpus's index."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coremlscope.base import errors
from coremlscope.formats import container, packaging
from coremlscope.formats.weights import BlobData
from coremlscope.model import ir
from tests.support.constant_programs import constants_of

_ROWS = tomllib.loads((Path(__file__).parents[1] / "corpus.toml").read_text())["model"]
_READABLE = [row for row in _ROWS if "error" not in row]
_PROGRAMS = [row for row in _READABLE if row["kind"] == "mlProgram"]

pytestmark = pytest.mark.corpus


def _ids(rows: list[dict[str, Any]]) -> list[str]:
    return [Path(row["path"]).name for row in rows]


def test_rows_match_the_index(corpus: Path) -> None:
    with (corpus / "index.csv").open(newline="") as file:
        hashes = {row["path"]: row["sha256"] for row in csv.DictReader(file)}
    assert {row["path"]: row["sha256"] for row in _ROWS}.items() <= hashes.items()


@pytest.mark.parametrize("row", _READABLE, ids=_ids(_READABLE))
def test_read(corpus: Path, row: dict[str, Any]) -> None:
    path = corpus / row["path"]
    model = container.read(path)
    assert (model.kind, model.spec_version) == (row["kind"], row["spec_version"])
    assert container.sniff(path) == model.container == path.suffix[1:]
    assert model.description.main.outputs
    assert model.size_bytes == sum(f.stat().st_size for f in (path, *path.rglob("*")) if f.is_file())


@pytest.mark.parametrize("row", _PROGRAMS, ids=_ids(_PROGRAMS))
def test_read_program(corpus: Path, row: dict[str, Any]) -> None:
    model = container.read(corpus / row["path"])
    assert isinstance(model.content, ir.Program)
    ops = [op for function in model.content.functions.values() for op in function.graph.walk()]
    assert len(ops) == row["ops"]
    assert len({op.id for op in ops}) == len(ops)
    blobs = [constant for constant in constants_of(model) if isinstance(constant.data, BlobData)]
    assert bool(blobs) == (row["weights"] != "inline")
    assert {constant.is_available for constant in blobs} <= {row["weights"] == "complete"}
    assert [file.size is None for file in model.weight_files] == [row["weights"] == "absent"] * bool(blobs)
    for constant in constants_of(model):
        if constant.is_available and isinstance(constant.type, ir.TensorType):
            array = constant.numpy()
            assert (array.shape, array.dtype) == (constant.type.shape, constant.type.dtype.numpy)


@pytest.mark.parametrize(
    "row", [row for row in _ROWS if "error" in row], ids=lambda row: Path(row["path"]).name
)
def test_unreadable(corpus: Path, row: dict[str, Any]) -> None:
    with pytest.raises(getattr(errors, row["error"])):
        container.read(corpus / row["path"])


def test_compiled_text_classifiers(corpus: Path) -> None:
    languages = corpus / "models/Flight-School__Programming-Language-Classifier"
    compiled = container.read(languages / "ProgrammingLanguageClassifier.mlmodelc")
    source = container.read(languages / "ProgrammingLanguageClassifier.mlmodel")
    assert compiled.description == source.description
    assert compiled.kind == source.kind == "textClassifier"
    assert list(compiled.content.labels) == list(source.content.labels) != []
    messages = corpus / "models/VatanaChhorn__KhmerCoreMLSMSClassifier/kh-sms-classifier.mlmodelc"
    assert container.sniff(messages) == "mlmodelc"
    assert container.read(messages).kind == "textClassifier"


@pytest.mark.parametrize("row", _PROGRAMS, ids=_ids(_PROGRAMS))
def test_write_and_read_again(corpus: Path, tmp_path: Path, row: dict[str, Any]) -> None:
    model = container.read(corpus / row["path"])
    copy = tmp_path / "copy.mlpackage"
    packaging.write_mlpackage(model, copy)
    again = container.read(copy)
    assert again == model
    assert _references(again) == _references(model)


def _references(model: ir.Model) -> list[tuple[str, int]]:
    """Returns the references to missing weight files."""
    blobs = [constant.data for constant in constants_of(model) if isinstance(constant.data, BlobData)]
    return [(blob.storage.name, blob.offset) for blob in blobs if not blob.is_available]


def test_coremltools_loads_written_packages(corpus: Path, tmp_path: Path) -> None:
    import coremltools as ct
    from coremltools.converters.mil.frontend.milproto.load import load

    row = next(row for row in _PROGRAMS if row["path"].endswith("unified_palette_4bit.mlpackage"))
    model = container.read(corpus / row["path"])
    copy = tmp_path / "copy.mlpackage"
    packaging.write_mlpackage(model, copy)
    theirs = ct.models.MLModel(str(copy), skip_model_load=True)
    spec = theirs.get_spec()
    program = load(spec, spec.specificationVersion, file_weights_dir=theirs.weights_dir)
    ours = {
        constant.numpy().tobytes() for constant in constants_of(model) if isinstance(constant.data, BlobData)
    }
    operations = program.functions["main"].operations
    stored = {np.asarray(op.val.val).tobytes() for op in operations if op.op_type == "const"}
    assert len(ours & stored) == len(ours)
