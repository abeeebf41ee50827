"""Compiled ML Programs: the text, the weights, and the interface from each of its sources."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
from PIL import Image

import coremlscope
from coremlscope.base.errors import (
    CoremlscopeError,
    CorruptModelError,
    MissingWeightsError,
    ModelError,
    UnsupportedModelError,
)
from coremlscope.formats import container
from coremlscope.formats.compiled.marker import COREMLDATA, PROGRAM_TEXT
from coremlscope.formats.compiled.metadata import METADATA
from coremlscope.formats.compiled.ml_program import read_signature
from coremlscope.formats.compiled.writing import write_compiled
from coremlscope.formats.miltext import parse_program
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.model import ir
from coremlscope.reports.difference import describe_operations
from tests.support import converted_models
from tests.support.constant_programs import constants_of
from tests.support.ir_models import accumulator, adder, perceptron
from tests.support.mil_programs import blob_opener
from tests.support.mutations import mutate

_FLEXIBLE = """program(1.3)
[buildInfo = dict<string, string>({{"coremlc-version", "3520.5.1"}})]
{
    func first<ios18>(tensor<fp16, [1, ?]> x, tensor<int32, [2]> n, state<tensor<fp16, [4]>> s)%s {
            tensor<fp16, [1, ?]> y = relu(x = x);
            tensor<bool, [2]> b = greater(x = n, y = int32(0));
        } -> (y, b);
}"""
_HEAD = (
    "[FlexibleShapeInformation = tuple<tuple<string, dict<string, tensor<int32, [?]>>>, "
    'tuple<string, dict<string, %s>>>((("DefaultShapes", {{"x", [1, 4]}}), (%s)))]'
)


@pytest.fixture
def compiled(tmp_path: Path) -> Callable[[ir.Model], Path]:
    """Compiles a model."""

    def compile_(model: ir.Model) -> Path:
        write_mlpackage(model, tmp_path / "m.mlpackage")
        write_compiled(tmp_path / "m.mlpackage", tmp_path / "m.mlmodelc")
        return tmp_path / "m.mlmodelc"

    return compile_


def _write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PROGRAM_TEXT).write_text(text, encoding="utf-8")
    return folder


def test_weights_are_read_lazily(compiled: Callable[[ir.Model], Path], tmp_path: Path) -> None:
    folder = compiled(perceptron())
    model = container.read(folder)
    assert (model.container, model.source, model.kind) == ("mlmodelc", folder, "mlProgram")
    (file,) = model.weight_files
    assert (file.name, file.size) == ("weights/weight.bin", (folder / file.name).stat().st_size)
    shutil.move(folder / "weights", tmp_path / "elsewhere")
    assert container.read(folder).weight_files == (ir.WeightFile("weights/weight.bin", None),)
    assert coremlscope.inspect(folder).missing_weights == ("weights/weight.bin",)
    assert coremlscope.plan(folder, "m1").ops
    with pytest.raises(MissingWeightsError):
        coremlscope.profile(folder, iterations=1)
    timed = coremlscope.profile(coremlscope.Subject(folder, random_weights=True), iterations=1)
    assert timed.measurement.settings.random_weights


@pytest.mark.parametrize("missing", [(), (METADATA,), (COREMLDATA,), (METADATA, COREMLDATA)], ids=str)
def test_sources_of_the_interface(missing: tuple[str, ...], compiled: Callable[[ir.Model], Path]) -> None:
    folder = compiled(perceptron())
    source = perceptron()
    for name in missing:
        (folder / name).unlink()
    model = container.read(folder)
    assert [feature.name for feature in model.description.main.inputs] == ["x"]
    assert model.description.main.inputs == source.description.main.inputs
    assert model.spec_version == source.spec_version
    x = np.ones(model.description.main.inputs[0].type.shape, np.float32)  # type: ignore[union-attr]
    expected = coremlscope.predict(folder.with_suffix(".mlpackage"), {"x": x})
    found = coremlscope.predict(folder, {"x": x})
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


def test_states_and_functions(compiled: Callable[[ir.Model], Path]) -> None:
    folder = compiled(accumulator())
    for name in (METADATA, COREMLDATA):
        (folder / name).unlink()
    states = container.read(folder).description.main.states
    assert [state.name for state in states] == [s.name for s in accumulator().description.main.states]
    shutil.rmtree(folder)
    shutil.rmtree(folder.with_suffix(".mlpackage"))
    folder = compiled(adder())
    found = coremlscope.predict(folder, {"x": np.ones((2, 3), np.float32)}, function="times")
    np.testing.assert_array_equal(found["y"], np.full((2, 3), 3, np.float32))


@pytest.mark.parametrize(
    ("attribute", "shape", "flexibility"),
    [
        ("", (1, 1), ir.RangeShapes(((1, 1), (1, -1)))),
        (
            _HEAD % ("list<tensor<int32, [2]>, ?>", '"RangeDims", {{"x", [[1, 1], [2, -1]]}}'),
            (1, 4),
            ir.RangeShapes(((1, 1), (2, -1))),
        ),
        (
            _HEAD
            % (
                "dict<string, tensor<int32, [?]>>",
                '"EnumeratedShapes", {{"543d0f94", {{"x", [1, 4]}}}, {"697b758f", {{"x", [1, 8]}}}}',
            ),
            (1, 4),
            ir.EnumeratedShapes(((1, 4), (1, 8))),
        ),
        (
            _HEAD % ("list<tensor<int32, [2]>, ?>", '"RangeDims", {{"x", [[1, 1]]}}'),
            (1, 4),
            ir.RangeShapes(((1, 1), (1, -1))),
        ),
    ],
    ids=["no attribute", "ranges", "enumerated", "wrong rank"],
)
def test_interface_from_the_signature(
    attribute: str, shape: tuple[int, ...], flexibility: ir.ShapeFlexibility, tmp_path: Path
) -> None:
    model = container.read(_write(tmp_path / "m.mlmodelc", _FLEXIBLE % attribute))
    assert model.spec_version == 9
    assert (model.description.default, model.description.main.outputs[1].type) == (
        "first",
        ir.ArrayFeature(dtype=ir.DType.FP32, shape=(2,)),
    )
    x, n = model.description.main.inputs
    assert x.type == ir.ArrayFeature(dtype=ir.DType.FP16, shape=shape, flexibility=flexibility)
    assert n.type == ir.ArrayFeature(dtype=ir.DType.INT32, shape=(2,))
    (state,) = model.description.main.states
    assert state.type == ir.StateFeature(ir.ArrayFeature(dtype=ir.DType.FP16, shape=(4,)))


def test_the_compiler_is_named(tmp_path: Path) -> None:
    summary = coremlscope.inspect(_write(tmp_path / "m.mlmodelc", _FLEXIBLE % ""))
    assert summary.facts == (("compiled by", "Apple's coremlc 3520.5.1"),)


def test_folders_without_the_suffix(tmp_path: Path) -> None:
    assert container.read(_write(tmp_path / "compiled", _FLEXIBLE % "")).container == "mlmodelc"


def test_texts_without_a_folder(compiled: Callable[[ir.Model], Path], tmp_path: Path) -> None:
    folder = compiled(perceptron())
    text = folder / PROGRAM_TEXT
    assert container.sniff(text) == "mil"
    model = container.read(text)
    assert (model.container, model.source) == ("mil", text)
    assert model.content == container.read(folder).content
    x = np.ones(model.description.main.inputs[0].type.shape, np.float32)  # type: ignore[union-attr]
    expected, found = (coremlscope.predict(path, {"x": x}) for path in (folder, text))
    np.testing.assert_array_equal(found["y"], expected["y"])
    alone = tmp_path / "other.mil"
    alone.write_bytes(text.read_bytes())
    assert coremlscope.inspect(alone).missing_weights == ("weights/weight.bin",)
    plan = tmp_path / "analytics.mil"
    plan.write_text(
        'program(1.3)\n{ func main() { y()[BackendSupport = list<string, 1>(["ane"])]; } -> (); }'
    )
    assert container.sniff(plan) is None


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("version https://git-lfs.github.com/spec/v1", CorruptModelError, "Git LFS pointer"),
        ("program(2.0)\n{\n}", UnsupportedModelError, "version 2.0"),
        (_FLEXIBLE.replace("[1, ?]", "[1, !]", 1) % "", CorruptModelError, "line 4, column 23"),
        (_FLEXIBLE.replace("x = x", "x = q") % "", CorruptModelError, "line 5, column 47"),
    ],
)
def test_damaged_texts(text: str, error: type[ModelError], message: str, tmp_path: Path) -> None:
    folder = _write(tmp_path / "m.mlmodelc", text)
    with pytest.raises(error, match=message) as caught:
        container.read(folder)
    assert caught.value.hint


def test_functions_of_the_interface_exist(compiled: Callable[[ir.Model], Path]) -> None:
    folder = compiled(adder())
    text = folder / PROGRAM_TEXT
    text.write_text(text.read_text().replace("func times", "func divide"))
    with pytest.raises(CorruptModelError, match="lacks the function 'times'"):
        container.read(folder)


@pytest.mark.parametrize(
    "name", ["../weight.bin", "@model_path/../weight.bin", "/etc/passwd", "a\\\\..\\\\b"]
)
def test_weights_outside_the_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "weight.bin").write_bytes(b"secret")
    blob = f'tensor<fp16, [9]>(BLOBFILE(path = string("{name}"), offset = uint64(64)))'
    text = (_FLEXIBLE % "").replace("relu(x = x)", f"add(x = x, y = {blob})")
    with pytest.raises(CorruptModelError, match=r"line 5, column \d+ .*outside the model"):
        container.read(_write(tmp_path / "m.mlmodelc", text))


def test_linked_folders_of_weights(compiled: Callable[[ir.Model], Path], tmp_path: Path) -> None:
    folder = compiled(perceptron())
    shutil.move(folder / "weights", tmp_path / "elsewhere")
    (folder / "weights").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CorruptModelError, match="link to outside"):
        container.read(folder)


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.long)])
def test_mutated_folders(count: int, compiled: Callable[[ir.Model], Path]) -> None:
    folder = compiled(perceptron())
    files = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    generator = random.Random(0)
    readable, unclear = 0, []
    for _ in range(count):
        changed = generator.choice(list(files))
        changed.write_bytes(mutate(files[changed], generator))
        try:
            readable += all(constant.numpy() is not None for constant in constants_of(container.read(folder)))
        except CoremlscopeError as error:
            unclear += [error.message] * (not error.hint or not error.message.isprintable())
        assert {path for path in folder.rglob("*") if path.is_file()} == files.keys()
        changed.write_bytes(files[changed])
    assert unclear == []
    assert 0 < readable < 0.9 * count


def _image(name: str) -> dict[str, object]:
    pixels = np.random.default_rng(0).integers(0, 255, (4, 6, 3), dtype=np.uint8)
    return {name: Image.fromarray(pixels)}


@pytest.mark.parametrize(
    ("convert", "values"),
    [
        (converted_models.classifier, _image("image")),
        (lambda: converted_models.inverter(ct.colorlayout.RGB), _image("image")),
        (converted_models.counting, {"x": np.array([3, 4, 5], np.int32)}),
        (converted_models.looping, {"x": np.array([1.0, 2.0], np.float32)}),
    ],
    ids=["classifier", "image", "integers", "loop"],
)
def test_converted_models(convert: Callable[[], Any], values: dict[str, object], tmp_path: Path) -> None:
    package, compiled = tmp_path / "m.mlpackage", tmp_path / "m.mlmodelc"
    convert().save(str(package))
    write_compiled(package, compiled)
    expected, found = (coremlscope.predict(path, values) for path in (package, compiled))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, str | dict):
            assert found[name] == value
        else:
            np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(value))
    assert coremlscope.inspect(compiled).labels == coremlscope.inspect(package).labels


_PACKED = """program(1.0)
[buildInfo = dict<tensor<string, []>, tensor<string, []>>(%s)]
{
    func main<ios16>(tensor<fp32, [2]> x) {
            tensor<fp32, [2]> a = relu(x = x);
            tensor<fp32, []> two = const()[val = tensor<fp32, []>(0x1p+1)];
            tensor<fp32, [2]> b = identity(x = a);
            tensor<fp32, [2]> y = mul(x = b, y = two);
        } -> (y);
}"""


def test_compare_says_what_the_compiler_did(tmp_path: Path) -> None:
    """Of a program of which a constant became an argument, one operation was replaced and one added."""
    program = parse_program(_PACKED % "{}", blob_opener())
    write_mlpackage(
        ir.Model(spec_version=7, description=read_signature(program), content=program),
        tmp_path / "m.mlpackage",
    )
    text = _PACKED.replace(
        "            tensor<fp32, []> two = const()[val = tensor<fp32, []>(0x1p+1)];\n", ""
    )
    text = text.replace("y = two", "y = tensor<fp32, []>(0x1p+1)")
    half = 'tensor<fp16, [2]> h = cast(dtype = string("fp16"), x = a);\n'
    half += 'tensor<fp32, [2]> b = cast(dtype = string("fp32"), x = h);'
    text = text.replace("tensor<fp32, [2]> b = identity(x = a);", half)
    folder = _write(tmp_path / "m.mlmodelc", text % '{{"coremlc-version", "3500.32.1"}}')
    comparison = coremlscope.compare(str(tmp_path / "m.mlpackage"), str(folder), iterations=1)
    (difference,) = comparison.differences
    assert difference.types == {"cast": (0, 2), "identity": (1, 0)}
    assert difference.compiled == (
        "1 identity replaced by cast",
        "1 cast added",
        "1 const folded or made arguments",
    )
    assert "Apple's compiler: 1 identity replaced by cast" in describe_operations(difference)
