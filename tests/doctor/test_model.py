from __future__ import annotations

from pathlib import Path

import msgspec.structs
import pytest
from coremltools.models import datatypes
from coremltools.models.neural_network import NeuralNetworkBuilder

from coremlscope.base.errors import UsageError
from coremlscope.devices.release import ios, macos
from coremlscope.formats import container
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.platforms import first_release
from coremlscope.model import ir
from coremlscope.planning.hazards.summary import describe_model
from coremlscope.reports.model import model_document
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.studies.doctor.model import examine_model, find_problems, parse_systems
from tests.support.classical_specs import regressor
from tests.support.graphs import op, tensor, value
from tests.support.ir_models import array_feature, model, perceptron
from tests.support.pipelines import arithmetic, described, image_feature, pipeline, scene_print


def test_a_sound_model(tmp_path: Path) -> None:
    path = tmp_path / "a.mlpackage"
    write_mlpackage(perceptron(), path)
    report = examine_model(path, [ios(26), macos(26)])
    assert (report.path, report.kind, report.problems) == (str(path), "mlProgram", ())
    assert report.needs.startswith("iOS ")


def test_what_a_plan_can_place(tmp_path: Path) -> None:
    network, trees = tmp_path / "a.mlpackage", tmp_path / "b.mlmodel"
    write_mlpackage(perceptron(), network)
    trees.write_bytes(regressor([[1.0, 2.0]], [0.0]).SerializeToString())
    for path, has_operations in ((network, True), (trees, False)):
        report = examine_model(path)
        assert report.has_operations is has_operations
        assert report.problems == ()


def test_inspect_names_a_weight_file_that_is_too_short(tmp_path: Path) -> None:
    path = tmp_path / "a.mlpackage"
    write_mlpackage(perceptron(), path)
    file = next(path.rglob("weight.bin"))
    assert describe_model(container.read(path)).short_weights == ()
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    summary = describe_model(container.read(path))
    assert (summary.missing_weights, summary.short_weights) == ((), ("weights/weight.bin",))
    assert "weights truncated: weights/weight.bin" in write_terminal(model_document(summary))
    file.unlink()
    assert describe_model(container.read(path)).short_weights == ()


def test_missing_weights_hide_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.mlpackage"
    write_mlpackage(perceptron(), path)
    next(path.rglob("weight.bin")).unlink()
    (problem,) = examine_model(path).problems
    assert (problem.id, problem.effect) == ("missing-weights", "nothing works")
    assert "weight.bin" in problem.text
    assert "git lfs pull" in problem.fix


@pytest.mark.parametrize(("inputs", "found"), [(1, False), (2, True)])
def test_several_inputs_with_enumerated_shapes(inputs: int, found: bool) -> None:
    both = ir.EnumeratedShapes(((1, 4), (2, 4)))
    features = tuple(array_feature(f"x{k}", (1, 4), flexibility=both) for k in range(inputs))
    one = perceptron()
    interface = msgspec.structs.replace(one.description.main, inputs=features)
    description = msgspec.structs.replace(
        one.description, functions=dict.fromkeys(one.description.functions, interface)
    )
    problems = find_problems(msgspec.structs.replace(one, description=description))
    assert ("enumerated-inputs" in [problem.id for problem in problems]) is found


def test_a_specification_without_its_package(tmp_path: Path) -> None:
    path = tmp_path / "a.mlpackage"
    write_mlpackage(perceptron(), path)
    bare = tmp_path / "a.mlmodel"
    bare.write_bytes(next(path.rglob("*.mlmodel")).read_bytes())
    (problem,) = examine_model(bare).problems
    assert (problem.id, problem.effect) == ("missing-weights", "nothing works")
    assert "package" in problem.text


def test_a_manifest_that_was_not_fetched(tmp_path: Path) -> None:
    path = tmp_path / "a.mlpackage"
    write_mlpackage(perceptron(), path)
    (path / "Manifest.json").write_bytes(
        b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n"
    )
    (problem,) = examine_model(path).problems
    assert problem.id == "not-readable"
    assert "git lfs pull" in problem.fix


@pytest.mark.parametrize(
    ("content", "id_"),
    [(b"version https://git-lfs.github.com/spec/v1\n", "missing-weights"), (None, "damaged-weights")],
    ids=["pointer", "half"],
)
def test_weights_that_are_not_complete(content: bytes | None, id_: str, tmp_path: Path) -> None:
    path = tmp_path / "a.mlpackage"
    write_mlpackage(perceptron(), path)
    file = next(path.rglob("weight.bin"))
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if content is None else content)
    problem = examine_model(path).problems[0]
    assert (problem.id, problem.effect) == (id_, "nothing works")
    assert "weight.bin" in problem.text


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.mlmodel").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    (tmp_path / "empty").mkdir()
    for name in ("a.mlmodel", "empty", "absent.mlpackage"):
        report = examine_model(tmp_path / name)
        assert (report.kind, report.needs) == ("", "")
        assert [problem.id for problem in report.problems] == ["not-readable"]
        assert report.problems[0].fix


def test_a_specification_that_is_too_new() -> None:
    given = msgspec.structs.replace(perceptron(), spec_version=9)
    found = find_problems(given, parse_systems("iOS 17,macOS 14.5, iOS 18,macos 15"))
    assert [(problem.id, problem.effect) for problem in found] == [
        ("newer-than-system", "not in Core ML")
    ] * 2
    assert found[0].text == "Specification version 9 needs iOS 18; iOS 17 is older."
    assert found[1].text == "Specification version 9 needs macOS 15; macOS 14.5 is older."
    assert find_problems(given) == []
    (unknown,) = find_problems(msgspec.structs.replace(given, spec_version=99), [ios(26), macos(26)])
    assert unknown.id == "unknown-version"


@pytest.mark.parametrize("text", ["", "17", "windows 11", "iOS", "iOS 99", "iOS 17,"])
def test_systems_that_are_not_known(text: str) -> None:
    with pytest.raises(UsageError):
        parse_systems(text)


def test_first_releases() -> None:
    assert first_release(2, "macOS") == (10, 13)
    assert first_release(2, "iOS") == (11, 2)
    assert first_release(10, "macOS") == (26, 0)
    assert first_release(8, "visionOS") == (1, 0)
    assert first_release(9, "visionOS") == (2, 0)
    assert first_release(0, "visionOS") is None
    assert first_release(99, "iOS") is None


def test_unsupported_operations() -> None:
    x, y, z = (value(name, tensor(3)) for name in "xyz")
    rows = [op("frobnicate", (y,), x=x), op("twiddle", (z,), x=y)]
    ops = tuple(msgspec.structs.replace(row, id=f"main/{index}") for index, row in enumerate(rows))
    graph = ir.Graph(name="main", inputs=(x,), ops=ops, outputs=(z,))
    given = model([array_feature("x", (3,))], [array_feature("z", (3,))], {"main": graph})
    (problem,) = find_problems(given)
    assert (problem.id, problem.effect) == ("unsupported-operations", "not here")
    assert problem.ops == ("frobnicate (main/0)", "twiddle (main/1)")
    assert "frobnicate" in problem.text


def test_stages_of_the_system() -> None:
    given = pipeline(
        [image_feature("image")],
        [array_feature("print", (2048,), ir.DType.FP64)],
        scene_print(),
        names=["features"],
    )
    (problem,) = find_problems(given)
    assert (problem.id, problem.effect) == ("outside-the-file", "not here")
    assert "The stage features (Vision feature print)" in problem.text


def test_models_of_an_app() -> None:
    content = ir.External(kind="customModel", absent="it is implemented by a class of an app")
    given = described(content, [array_feature("x", (3,))], [array_feature("y", (3,))])
    (problem,) = find_problems(given)
    assert (problem.id, problem.effect) == ("outside-the-file", "needs care")
    assert problem.text.startswith("A custom model cannot be run here")


def test_custom_layers() -> None:
    shape = datatypes.Array(1, 4, 6)
    builder = NeuralNetworkBuilder([("x", shape)], [("y", shape)], disable_rank5_shape_mapping=True)
    builder.add_activation("mine", "RELU", "x", "y")
    builder.spec.neuralNetwork.layers[-1].custom.className = "Sharpener\x1b"
    (problem,) = find_problems(container.read(builder.spec.SerializeToString()))
    assert (problem.id, problem.effect) == ("custom-layers", "not here")
    assert "Sharpener\\x1b" in problem.text


def test_pipelines_of_operations() -> None:
    given = pipeline(
        [array_feature("a", (3,))],
        [array_feature("c", (3,))],
        arithmetic("add", "b", "a"),
        arithmetic("mul", "c", "b"),
    )
    assert find_problems(given) == []


def test_a_damaged_pipeline() -> None:
    given = pipeline([array_feature("a", (3,))], [array_feature("c", (3,))], arithmetic("add", "b", "x"))
    (problem,) = find_problems(given)
    assert (problem.id, problem.effect) == ("damaged", "nothing works")
