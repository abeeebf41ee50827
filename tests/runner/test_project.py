"""The project of the runner: well-formed, complete, and about the models that were named."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coremltools as ct
import openstep_plist
import pytest

from coremlscope.base.errors import EngineError, MissingWeightsError, ModelError
from coremlscope.cli import main
from coremlscope.formats import container
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.measure.runner.project import write_runner
from coremlscope.measure.runner.request import RunnerSettings
from tests.support import converted_models
from tests.support.ir_models import perceptron

TEAM = "A1B2C3D4E5"
#: Keys whose values refer to other objects.
REFERENCES = {
    *("buildConfigurationList", "buildConfigurations", "buildPhases", "children", "fileRef", "files"),
    *("mainGroup", "productRefGroup", "productReference", "targets"),
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "mlp.mlpackage"
    converted_models.mlp().save(str(path))
    return path


@pytest.fixture(scope="module")
def folder(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runner") / "My Runner"
    write_runner(path, [container.read(package)], RunnerSettings(), team=TEAM)
    return path


@pytest.fixture(scope="module")
def project(folder: Path) -> dict[str, Any]:
    text = (folder / "CoreMLScopeRunner.xcodeproj" / "project.pbxproj").read_text(encoding="utf-8")
    assert text.startswith("// !$*UTF8*$!\n")
    parsed = openstep_plist.loads(text, use_numbers=False)
    assert isinstance(parsed, dict)
    return parsed


def request_of(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "Payload" / "request.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def references(value: dict[str, Any]) -> Iterator[str]:
    for key in REFERENCES & value.keys():
        yield from [value[key]] if isinstance(value[key], str) else value[key]


def test_every_reference_of_the_project_resolves(project: dict[str, Any]) -> None:
    objects = project["objects"]
    assert objects[project["rootObject"]]["isa"] == "PBXProject"
    reached, queue = set(), [project["rootObject"]]
    while queue:
        id_ = queue.pop()
        assert id_ in objects, id_
        if id_ not in reached:
            reached.add(id_)
            queue += references(objects[id_])
    assert reached == objects.keys()
    assert all(len(id_) == 24 and set(id_) <= set("0123456789ABCDEF") for id_ in objects)


def test_the_target_builds_what_lies_in_the_folder(project: dict[str, Any], folder: Path) -> None:
    objects = project["objects"]
    (target,) = [one for one in objects.values() if one["isa"] == "PBXNativeTarget"]
    assert target["productType"] == "com.apple.product-type.application"
    built = {}
    for phase in (objects[id_] for id_ in target["buildPhases"]):
        built[phase["isa"]] = [objects[objects[file]["fileRef"]]["path"] for file in phase["files"]]
    assert sorted(built["PBXSourcesBuildPhase"]) == sorted(p.name for p in (folder / "Sources").iterdir())
    assert built["PBXResourcesBuildPhase"] == ["Payload"]
    groups = [one for one in objects.values() if one["isa"] == "PBXGroup"]
    assert "Sources" in [group.get("path") for group in groups]
    assert (folder / "Payload").is_dir()


def test_the_settings_of_the_target(project: dict[str, Any]) -> None:
    configurations = [one for one in project["objects"].values() if one["isa"] == "XCBuildConfiguration"]
    settings = {key: value for one in configurations for key, value in one["buildSettings"].items()}
    assert settings["GENERATE_INFOPLIST_FILE"] == "YES"
    assert settings["DEVELOPMENT_TEAM"] == TEAM
    assert settings["PRODUCT_BUNDLE_IDENTIFIER"] == "coremlscope.runner.a1b2c3d4e5"
    assert settings["IPHONEOS_DEPLOYMENT_TARGET"] == "17.0"
    assert settings["PRODUCT_NAME"] == "$(TARGET_NAME)"


def test_the_scheme_names_the_target(project: dict[str, Any], folder: Path) -> None:
    schemes = folder / "CoreMLScopeRunner.xcodeproj" / "xcshareddata" / "xcschemes"
    scheme = ET.parse(schemes / "CoreMLScopeRunner.xcscheme").getroot()
    named = {one.get("BlueprintIdentifier") for one in scheme.iter("BuildableReference")}
    assert named == {id_ for id_, one in project["objects"].items() if one["isa"] == "PBXNativeTarget"}


def test_the_project_is_the_same_each_time(package: Path, folder: Path, tmp_path: Path) -> None:
    write_runner(tmp_path / "again", [container.read(package)], RunnerSettings(), team=TEAM)
    file = Path("CoreMLScopeRunner.xcodeproj") / "project.pbxproj"
    assert (tmp_path / "again" / file).read_bytes() == (folder / file).read_bytes()
    assert request_of(tmp_path / "again")["id"] != request_of(folder)["id"]


def test_the_payload_holds_the_model_and_what_is_known_of_its_inputs(folder: Path, package: Path) -> None:
    request = request_of(folder)
    (model,) = request["models"]
    copied = folder / "Payload" / model["path"]
    assert [p.relative_to(copied) for p in sorted(copied.rglob("*"))] == [
        p.relative_to(package) for p in sorted(package.rglob("*"))
    ]
    assert (model["name"], model["functions"]) == ("mlp", [""])
    assert model["inputs"]["x"]["shape"]
    assert request["compute_units"] == ["all", "cpu_and_ne", "cpu_and_gpu", "cpu_only"]


def test_token_ids_stay_within_their_table(tmp_path: Path) -> None:
    from coremltools.converters.mil import Builder as mb
    from coremltools.converters.mil.mil import types

    @mb.program(input_specs=[mb.TensorSpec((1, 4), types.int32)], opset_version=ct.target.iOS17)
    def program(ids: Any) -> Any:
        import numpy as np

        return mb.gather(x=np.zeros((7, 3), np.float32), indices=ids, axis=0)

    path = tmp_path / "embedding.mlpackage"
    ct.convert(program, minimum_deployment_target=ct.target.iOS17).save(str(path))
    write_runner(tmp_path / "runner", [container.read(path)], RunnerSettings())
    (model,) = request_of(tmp_path / "runner")["models"]
    assert model["inputs"] == {"ids": {"limit": 7, "shape": [1, 4]}}


def test_models_that_only_apple_can_run_are_measured(tmp_path: Path) -> None:
    path = tmp_path / "mood.mlmodel"
    path.write_bytes(converted_models.text_classifier().SerializeToString())
    write_runner(tmp_path / "runner", [container.read(path)], RunnerSettings(function="every"))
    (model,) = request_of(tmp_path / "runner")["models"]
    assert (model["path"], model["functions"]) == ("0/mood.mlmodel", [""])
    assert model["inputs"] == {"text": {"text": "The quick brown fox jumps over the lazy dog."}}


def test_archives_are_unpacked(package: Path, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "mlp"), "zip", package.parent, package.name)
    write_runner(tmp_path / "runner", [container.read(archive)], RunnerSettings())
    (model,) = request_of(tmp_path / "runner")["models"]
    assert (model["name"], model["path"]) == ("mlp", "0/mlp.mlpackage")
    assert (tmp_path / "runner" / "Payload" / model["path"] / "Manifest.json").is_file()


def test_models_of_one_name_are_told_apart(tmp_path: Path, package: Path) -> None:
    models = [container.read(package), container.read(package)]
    write_runner(tmp_path / "runner", models, RunnerSettings())
    request = request_of(tmp_path / "runner")
    assert [model["name"] for model in request["models"]] == ["mlp", "mlp-2"]
    assert len({model["path"] for model in request["models"]}) == 2


def test_the_verb(package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "runner"
    options = ["--compute-units", "all,cpu_only", "--power-mode", "both", "--iterations", "7"]
    options += ["--shape", "x=2x8"]
    assert main(["runner", str(folder), str(package), *options]) == 0
    request = request_of(folder)
    assert request["compute_units"] == ["all", "cpu_only"]
    assert request["power_modes"] == ["normal", "low power"]
    assert request["iterations"] == 7
    assert "CoreMLScopeRunner.xcodeproj" in capsys.readouterr().err
    assert main(["runner", str(folder), str(package), "--quiet"]) == 0
    assert request_of(folder)["iterations"] == 50


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--team", "short"], "'short' is not the identifier of a development team"),
        (["--bundle-id", "no dots"], "'no dots' is not the identifier of an app"),
        (["--function", "absent"], "absent"),
        (["--power-mode", "turbo"], "invalid power mode 'turbo'"),
        (["--shape", "x=1x999"], "x"),
    ],
)
def test_options_that_are_refused(
    options: list[str], message: str, package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runner", str(tmp_path / "runner"), str(package), *options]) in (2, 4)
    assert message in capsys.readouterr().err
    assert not (tmp_path / "runner").exists()


def test_a_folder_of_something_else_is_left_alone(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    assert main(["runner", str(tmp_path), str(package)]) == 2
    assert main(["runner", str(tmp_path / "thesis.txt"), str(package)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_models_without_weights_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.mlpackage"
    write_mlpackage(perceptron(), path)
    file = next(path.rglob("weight.bin"))
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with pytest.raises(ModelError):
        write_runner(tmp_path / "runner", [container.read(path)], RunnerSettings())
    file.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 3\n")
    with pytest.raises(MissingWeightsError, match=r"weight\.bin is missing"):
        write_runner(tmp_path / "runner", [container.read(path)], RunnerSettings())
    assert not (tmp_path / "runner").exists()


def test_models_in_memory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="in memory"):
        write_runner(tmp_path / "runner", [perceptron()], RunnerSettings())
