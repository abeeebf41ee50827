"""Compiling of models into folders."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from coremlscope.base.errors import CorruptModelError, NotAModelError, OutputError, UsageError
from coremlscope.formats import container
from coremlscope.formats.compiled.coremldata import read_compiled_data
from coremlscope.formats.compiled.marker import COREMLDATA, is_own_compiled
from coremlscope.formats.compiled.metadata import METADATA, read_metadata_file
from coremlscope.formats.compiled.writing import compile_into, link_or_copy, write_compiled
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.model import ir
from coremlscope.model.features.dummy import dummy_values
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.runtime.execution.pipeline import open_predictor
from tests.support.classical_specs import regressor
from tests.support.compiled_models import assert_same_model
from tests.support.constant_programs import constants_of, linear_model, model_of
from tests.support.ir_models import accumulator, adder, perceptron

_MODELS = {
    "control flow": linear_model,
    "functions": adder,
    "states": accumulator,
    "weights": perceptron,
    "flexible": lambda: adder(ir.EnumeratedShapes(((2,), (3,)))),
}


def _package(folder: Path, model: ir.Model) -> Path:
    write_mlpackage(model, folder / "m.mlpackage")
    return folder / "m.mlpackage"


def _names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", _MODELS)
def test_programs_read_back(name: str, tmp_path: Path) -> None:
    package = _package(tmp_path, _MODELS[name]())
    write_compiled(package, tmp_path / "m.mlmodelc")
    assert_same_model(container.read(tmp_path / "m.mlmodelc"), container.read(package))


def test_layout_of_programs(tmp_path: Path) -> None:
    package = _package(tmp_path, perceptron())
    target = tmp_path / "my model.mlmodelc"
    write_compiled(package, target)
    assert _names(target) == {
        "model.mil",
        "weights/weight.bin",
        METADATA,
        COREMLDATA,
        f"analytics/{COREMLDATA}",
    }
    assert not is_own_compiled(target)
    metadata = read_metadata_file(target / METADATA)
    assert metadata.description == container.read(package).description
    assert metadata.histogram == {"Ios18.linear": 1, "Ios18.relu": 1, "Ios18.sqrt": 1}
    (written,) = json.loads((target / METADATA).read_text())
    assert (written["computePrecision"], written["storagePrecision"]) == ("Float32", "Float32")
    assert written["generatedClassName"] == "my_model"
    data = read_compiled_data(target / COREMLDATA)
    assert (data.kind, data.version, data.rest) == ("mlProgram", (5, 0, 0), b"")
    analytics = (target / "analytics" / COREMLDATA).read_bytes()
    assert b"my model" in analytics
    assert base64.b64encode(hashlib.sha256((target / "model.mil").read_bytes()).digest()) in analytics


def test_weights_are_copied_or_linked(tmp_path: Path) -> None:
    package = _package(tmp_path, perceptron())
    (source,) = package.rglob("weight.bin")
    write_compiled(package, tmp_path / "copied.mlmodelc")
    assert (tmp_path / "copied.mlmodelc/weights/weight.bin").read_bytes() == source.read_bytes()
    assert not source.samefile(tmp_path / "copied.mlmodelc/weights/weight.bin")
    linked = tmp_path / "linked.mlmodelc"
    linked.mkdir()
    compile_into(container.read(package), package, linked, "linked", link_or_copy)
    assert source.samefile(linked / "weights/weight.bin")


def test_weights_without_a_reference_are_left_out(tmp_path: Path) -> None:
    weights = {name: ir.constant(np.full((64, 64), index, np.float32)) for index, name in enumerate("abc")}
    package = _package(tmp_path, model_of(weights))
    whole = container.read(package)
    assert isinstance(whole.content, ir.Program)
    main = whole.content.functions["main"]
    graph = replace(main.graph, ops=main.graph.ops[:2])
    part = replace(whole, content=replace(whole.content, functions={"main": replace(main, graph=graph)}))
    folder = tmp_path / "part.mlmodelc"
    folder.mkdir()
    compile_into(part, package, folder, "part", shutil.copyfile)
    (before,) = package.rglob("weight.bin")
    assert before.stat().st_size - (folder / "weights/weight.bin").stat().st_size == 64 * 64 * 4 + 64
    assert_same_model(container.read(folder), part)


def test_archives(tmp_path: Path) -> None:
    package = _package(tmp_path, perceptron())
    archive = tmp_path / "m.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in _names(package):
            file.write(package / name, f"m.mlpackage/{name}")
    write_compiled(archive, tmp_path / "m.mlmodelc")
    assert_same_model(container.read(tmp_path / "m.mlmodelc"), container.read(package))


def test_missing_weights_can_be_added_later(tmp_path: Path) -> None:
    package = _package(tmp_path, perceptron())
    (weights,) = package.rglob("weight.bin")
    content = weights.read_bytes()
    weights.unlink()
    write_compiled(package, tmp_path / "m.mlmodelc")
    assert {c.is_available for c in constants_of(container.read(tmp_path / "m.mlmodelc"))} == {True, False}
    for folder in (tmp_path / "m.mlmodelc/weights", weights.parent):
        folder.mkdir(exist_ok=True)
        (folder / "weight.bin").write_bytes(content)
    assert_same_model(container.read(tmp_path / "m.mlmodelc"), container.read(package))


def test_other_models_contain_their_source(tmp_path: Path) -> None:
    source = tmp_path / "line.mlmodel"
    source.write_bytes(regressor([[2.0, 3.0]], [1.0]).SerializeToString())
    write_compiled(source, tmp_path / "m.mlmodelc")
    assert _names(tmp_path / "m.mlmodelc") == {"source/line.mlmodel", "coremlscope.json", METADATA}
    source.unlink()
    model = container.read(tmp_path / "m.mlmodelc")
    assert (model.kind, model.container) == ("glmRegressor", "mlmodelc")
    assert read_metadata_file(tmp_path / "m.mlmodelc" / METADATA).kind == "glmRegressor"


class TestRefusals:
    def test_an_existing_folder(self, tmp_path: Path) -> None:
        package = _package(tmp_path, adder())
        target = tmp_path / "m.mlmodelc"
        write_compiled(package, target)
        (target / "extra").write_text("")
        with pytest.raises(OutputError, match="already exists"):
            write_compiled(package, target)
        assert (target / "extra").exists()
        write_compiled(package, target, overwrite=True)
        assert not (target / "extra").exists()

    def test_folders_of_others_are_never_replaced(self, tmp_path: Path) -> None:
        package = _package(tmp_path, adder())
        target = tmp_path / "m.mlmodelc"
        target.mkdir()
        (target / "thesis.txt").write_text("important")
        with pytest.raises(OutputError, match="is not a compiled model"):
            write_compiled(package, target, overwrite=True)
        link = tmp_path / "link.mlmodelc"
        write_compiled(package, tmp_path / "real.mlmodelc")
        link.symlink_to(tmp_path / "real.mlmodelc", target_is_directory=True)
        with pytest.raises(OutputError, match="is not a compiled model"):
            write_compiled(package, link, overwrite=True)

    def test_a_compiled_model(self, tmp_path: Path) -> None:
        write_compiled(_package(tmp_path, adder()), tmp_path / "m.mlmodelc")
        with pytest.raises(UsageError, match="compiled model already"):
            write_compiled(tmp_path / "m.mlmodelc", tmp_path / "n.mlmodelc")

    def test_another_suffix(self, tmp_path: Path) -> None:
        with pytest.raises(OutputError, match=r"does not end in \.mlmodelc"):
            write_compiled(_package(tmp_path, adder()), tmp_path / "m")

    def test_no_model(self, tmp_path: Path) -> None:
        with pytest.raises(NotAModelError, match="does not exist"):
            write_compiled(tmp_path / "m.mlpackage", tmp_path / "m.mlmodelc")

    def test_a_failure_leaves_nothing(self, tmp_path: Path) -> None:
        package = _package(tmp_path, perceptron())
        (weights,) = package.rglob("weight.bin")
        damaged = bytearray(weights.read_bytes())
        damaged[64:68] = b"none"
        weights.write_bytes(damaged)
        with pytest.raises(CorruptModelError, match="no blob starts"):
            write_compiled(package, tmp_path / "m.mlmodelc")
        assert [path.name for path in tmp_path.iterdir()] == ["m.mlpackage"]


@pytest.mark.corpus
def test_programs_of_the_corpus(corpus: Path, tmp_path: Path) -> None:
    """Every ML Program reads back as the same graph, and gives the same predictions if its weights exist."""
    packages = sorted(corpus.glob("models/*/*.mlpackage"))
    assert len(packages) >= 27
    predicted = 0
    for package in packages:
        source = container.read(package)
        target = tmp_path / f"{package.stem}.mlmodelc"
        write_compiled(package, target, overwrite=True)
        compiled = container.read(target)
        assert_same_model(compiled, source)
        if all(file.size is not None for file in source.weight_files):
            _assert_same_predictions(compiled, source)
            predicted += 1
    assert predicted >= 17


def _assert_same_predictions(compiled: ir.Model, source: ir.Model) -> None:
    for name, interface in source.description.functions.items():
        values = dummy_values(interface, choose_function(source, name).function)
        with open_predictor(source, name) as one, open_predictor(compiled, name) as other:
            expected, found = one.predict(values), other.predict(values)
        assert expected.keys() == found.keys()
        for output, value in expected.items():
            np.testing.assert_array_equal(found[output], value, err_msg=output)
