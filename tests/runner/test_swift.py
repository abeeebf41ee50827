"""The Swift sources of the runner, checked and run where a Swift compiler is installed.

On a Mac they are checked against Apple's own frameworks, for iPhones, too. Elsewhere `tests/support/swift`
stands in for Apple's frameworks, and the command runs over it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import coremlscope
from coremlscope.api.imported import read_any
from coremlscope.formats import container
from coremlscope.measure.runner.project import write_runner
from coremlscope.measure.runner.request import RunnerSettings
from coremlscope.results.runner_record import Record, read_record
from tests.support import converted_models

SWIFT = shutil.which("swiftc")
SOURCES = sorted((Path(coremlscope.__file__).parent / "measure" / "runner" / "sources").glob("*.swift"))
STAND_INS = Path(__file__).parents[1] / "support" / "swift"
#: Those that the command for a Mac imports, each after what it imports itself.
MODULES = ("CoreVideo", "Darwin", "os", "CoreML")
IS_MAC = sys.platform == "darwin"

pytestmark = pytest.mark.skipif(SWIFT is None, reason="no Swift compiler")


def swift(*arguments: str | Path, folder: Path) -> None:
    done = subprocess.run(
        [str(SWIFT), *map(str, arguments)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]


def test_the_sources_are_there() -> None:
    assert len(SOURCES) > 5


@pytest.mark.skipif(not IS_MAC, reason="Apple's frameworks are on Macs only")
def test_against_apples_frameworks(tmp_path: Path) -> None:
    swift("-typecheck", "-swift-version", "5", "-parse-as-library", *SOURCES, folder=tmp_path)
    sdk = subprocess.run(
        ["xcrun", "--sdk", "iphoneos", "--show-sdk-path"], capture_output=True, text=True, check=False
    )
    if sdk.returncode:
        pytest.skip("no SDK of iOS")
    target = ("-target", "arm64-apple-ios17.0", "-sdk", sdk.stdout.strip())
    swift("-typecheck", "-swift-version", "5", "-parse-as-library", *target, *SOURCES, folder=tmp_path)


@pytest.mark.skipif(shutil.which("swift") is None, reason="no Swift package manager")
def test_the_package(tmp_path: Path) -> None:
    """The manifest is compiled by Swift's own package manager."""
    model = tmp_path / "mlp.mlpackage"
    converted_models.mlp().save(str(model))
    write_runner(tmp_path / "runner", [container.read(model)], RunnerSettings())
    done = subprocess.run(
        ["swift", "package", "--package-path", str(tmp_path / "runner"), "dump-package"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    package = json.loads(done.stdout)
    (target,) = package["targets"]
    assert (target["name"], target["type"], target["path"]) == ("CoreMLScopeRunner", "executable", "Sources")


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the compiled stand-ins."""
    if IS_MAC:
        pytest.skip("Apple's frameworks are here")
    folder = tmp_path_factory.mktemp("modules")
    for name in (*MODULES, "UIKit", "SwiftUI"):
        made = ("-emit-module", "-emit-object", "-o", f"{name}.o", "-emit-module-path", f"{name}.swiftmodule")
        source = STAND_INS / f"{name}.swift"
        swift("-parse-as-library", "-module-name", name, "-I", folder, *made, source, folder=folder)
    return folder


def test_the_app_for_phones(modules: Path, tmp_path: Path) -> None:
    """The part for iOS is chosen by replacing the condition, since there is no SDK to compile it for."""
    for source in SOURCES:
        text = source.read_text(encoding="utf-8").replace("#if os(iOS)", "#if true")
        (tmp_path / source.name).write_text(text, encoding="utf-8")
    files = sorted(tmp_path.glob("*.swift"))
    swift("-typecheck", "-swift-version", "5", "-parse-as-library", "-I", modules, *files, folder=tmp_path)


@pytest.fixture(scope="module")
def command(modules: Path) -> Path:
    """The command for a Mac over the stand-ins."""
    objects = [modules / f"{name}.o" for name in MODULES]
    options = ("-parse-as-library", "-swift-version", "5", "-module-name", "CoreMLScopeRunner")
    swift(*options, "-I", modules, "-o", "command", *SOURCES, *objects, folder=modules)
    return modules / "command"


def write_request(folder: Path, *models: str, **changed: Any) -> Path:
    payload = folder / "Payload"
    for name in models:
        (payload / f"{name}.mlpackage").mkdir(parents=True)
    request = {
        "schema": "coremlscope.runner-request/1",
        "id": "1",
        "version": "0",
        "models": [
            {"name": name, "path": f"{name}.mlpackage", "functions": [""], "inputs": {}} for name in models
        ],
        "compute_units": ["all", "cpu_and_gpu", "cpu_only"],
        "power_modes": [],
        "power_wait_s": 1.0,
        "compiles": 2,
        "loads": 2,
        "warmups": 1,
        "iterations": 4,
        "in_flight": 2,
        "seed": 0,
        **changed,
    }
    (payload / "request.json").write_text(json.dumps(request), encoding="utf-8")
    return payload


def run(command: Path, folder: Path, **environment: str) -> tuple[int, list[dict[str, Any]]]:
    """Runs the command and returns its exit code and messages."""
    done = subprocess.run(
        [str(command), str(folder / "Payload"), str(folder / "Results")],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.removeprefix("coremlscope-runner ") for line in done.stdout.splitlines()]
    return done.returncode, [json.loads(line) for line in lines]


def results(folder: Path) -> Record:
    file = folder / "Results" / "results.json"
    return read_record(json.loads(file.read_text(encoding="utf-8")), file.name)


def test_a_whole_run(command: Path, tmp_path: Path) -> None:
    known = {"words": {"dictionary": {"a": 1.5}}, "x": {"shape": [1, 4], "limit": 9}}
    write_request(tmp_path, "plain", "stateful", "inputs")
    request = json.loads((tmp_path / "Payload" / "request.json").read_text())
    request["models"][2]["inputs"] = known
    (tmp_path / "Payload" / "request.json").write_text(json.dumps(request))
    code, messages = run(command, tmp_path)
    assert code == 0
    assert messages[-1]["kind"] == "finished"
    record = results(tmp_path)
    assert record.complete
    assert record.launches == 1
    assert [result.status for result in record.results] == ["done"] * 9
    assert [len(compilation.samples_s) for compilation in record.compilations] == [2, 2, 2]
    assert (record.device.identifier, record.device.neural_engine_cores) == ("Mac14,2", 16)
    plain, stateful, inputs = record.results[::3]
    for result in (plain, stateful, inputs):
        counts = [len(s) for s in (result.load_s, result.warmup_s, result.predict_s, result.async_s)]
        assert counts == [2, 1, 4, 4]
        assert result.first_load_s is not None
        assert result.largest_footprint_bytes == 3_000_000
        assert result.before is not None
        assert result.before.thermal_state == "fair"
        assert result.plan is not None
        assert [op.preferred for op in result.plan] == ["neural_engine", "cpu"]
    assert plain.backings is not None
    assert (plain.backings.used, plain.backings.ignored) == (("y",), ("picture",))
    assert plain.throughput is not None
    assert plain.throughput.predictions == 4
    assert stateful.is_stateful
    assert stateful.throughput is None
    kinds = {one.name: (one.kind, one.type, one.shape) for one in inputs.inputs}
    assert kinds["x"] == ("array", "float16", (1, 4))
    assert kinds["image"] == ("image", "BGRA", (2, 3))
    assert {kind for kind, *_ in kinds.values()} == {
        *("array", "image", "int64", "double", "string", "dictionary", "sequence")
    }


def test_the_run_goes_on_after_crashes_and_failures(command: Path, tmp_path: Path) -> None:
    write_request(tmp_path, "plain", "other")
    code, messages = run(command, tmp_path, CRASHES="cpu_and_gpu", FAILS="cpu_only")
    assert code != 0
    assert (messages[-1]["compute_units"], messages[-1]["step"]) == ("cpu_and_gpu", "predict")
    assert results(tmp_path).results[-1].status == "running"
    run(command, tmp_path, CRASHES="cpu_and_gpu", FAILS="cpu_only")
    code, messages = run(command, tmp_path)
    assert code == 0
    record = results(tmp_path)
    assert (record.complete, record.launches) == (True, 3)
    assert [(r.model, r.compute_units, r.status) for r in record.results] == [
        ("plain", "all", "done"),
        ("plain", "cpu_and_gpu", "crashed"),
        ("plain", "cpu_only", "failed"),
        ("other", "all", "done"),
        ("other", "cpu_and_gpu", "crashed"),
        ("other", "cpu_only", "done"),
    ]
    assert [failure.code for failure in record.results[2].failures] == [-14]
    assert record.results[1].failures[0].text == "the app ended during this step"
    plain, other = read_any(tmp_path / "Results" / "results.json")
    assert [measured.compute_units for measured in plain.measurements] == ["all"]
    assert [measured.compute_units for measured in other.measurements] == ["all", "cpu_only"]


def test_a_run_that_has_ended_begins_anew(command: Path, tmp_path: Path) -> None:
    write_request(tmp_path, "plain", compute_units=["all"])
    for _ in range(2):
        assert run(command, tmp_path)[0] == 0
        assert (results(tmp_path).launches, len(results(tmp_path).results)) == (1, 1)


def test_a_reader_that_goes_away(command: Path, tmp_path: Path) -> None:
    write_request(tmp_path, "plain")
    process = subprocess.Popen(
        [str(command), str(tmp_path / "Payload"), str(tmp_path / "Results")], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(60) == 0
    assert results(tmp_path).complete


def test_a_model_that_does_not_compile(command: Path, tmp_path: Path) -> None:
    write_request(tmp_path, "plain")
    code, _ = run(command, tmp_path, FAILS="compile")
    assert code == 0
    record = results(tmp_path)
    assert record.compilations[0].status == "failed"
    assert [(r.status, r.failures[0].step) for r in record.results] == [("failed", "compile")] * 3


def test_power_modes(command: Path, tmp_path: Path) -> None:
    """The mode in which the device is comes first; one that the user does not set is given up."""
    write_request(tmp_path, "plain", compute_units=["all"], power_modes=["normal", "low power"])
    (tmp_path / "on").touch()
    code, messages = run(command, tmp_path, IS_LOW_POWER=str(tmp_path / "on"))
    assert code == 0
    assert "switch Low Power Mode off in Settings, Battery" in [message["text"] for message in messages]
    first, second = results(tmp_path).results
    assert (first.power_mode, first.status) == ("low power", "done")
    assert (second.power_mode, second.status, second.step) == ("normal", "failed", "power mode")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"schema": "other"}', "data"),
        ("no JSON", "data"),
    ],
)
def test_requests_that_cannot_be_read(content: str, message: str, command: Path, tmp_path: Path) -> None:
    write_request(tmp_path, "plain")
    (tmp_path / "Payload" / "request.json").write_text(content)
    code, messages = run(command, tmp_path)
    assert code == 1
    assert messages[-1]["kind"] == "failed"
    assert message in messages[-1]["text"]
