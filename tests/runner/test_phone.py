"""The runner on a connected phone from end to end, over stand-ins for Xcode's tools."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coremlscope.base.errors import CoremlscopeError, EngineError, MissingDependencyError, UsageError
from coremlscope.cli import main
from coremlscope.formats import container
from coremlscope.measure.runner.devicectl import ask, explain_failure, list_phones
from coremlscope.measure.runner.phone import PhoneResults, PhoneTimeouts, measure_on_phone
from coremlscope.measure.runner.request import RunnerSettings
from coremlscope.measure.runner.xcode import build_app
from coremlscope.results.profile import Profile, read_profiles
from tests.support import converted_models, fake_xcode
from tests.support.left_behind import assert_no_scratch

TEAM = "A1B2C3D4E5"
Scene = Callable[..., Path]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "mlp.mlpackage"
    converted_models.mlp().save(str(path))
    return path


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Puts a Mac with Xcode and a phone in place."""

    def put(*, silence_s: float = 60.0, **scenario: Any) -> Path:
        folder = tmp_path / "xcode"
        commands = fake_xcode.install(folder, **scenario)
        monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setattr("coremlscope.measure.runner.phone.sys.platform", "darwin")
        timeouts = PhoneTimeouts(silence_s=silence_s, copy_pause_s=0.0)
        monkeypatch.setattr("coremlscope.measure.runner.phone.PhoneTimeouts", lambda: timeouts)
        return folder

    return put


def measure(package: Path, **options: Any) -> PhoneResults:
    settings = RunnerSettings(compute_units=("all", "cpu_and_gpu", "cpu_only"), iterations=3)
    return measure_on_phone([container.read(package)], settings, **{"name": "any", "team": TEAM, **options})


def states(found: PhoneResults) -> list[tuple[str, str]]:
    return [(result.compute_units, result.status) for result in found.record.results]


def test_a_whole_run(package: Path, scene: Scene) -> None:
    folder = scene()
    progress: list[tuple[str, int, int]] = []
    found = measure(package, name="ann's iphone", progress=lambda *message: progress.append(message))
    assert states(found) == [("all", "done"), ("cpu_and_gpu", "done"), ("cpu_only", "done")]
    assert found.record.complete
    assert found.phone.model == "iPhone 15 Pro"
    assert found.names == ("mlp",)
    assert progress[:2] == [("building the app", 0, 1), ("installing the app", 0, 1)]
    assert progress[-1][1:] == (3, 3)
    version, listed, build, install, launch, copy = fake_xcode.calls(folder)
    assert (version, listed.split(" --")[0]) == ("xcodebuild -version", "xcrun devicectl list devices")
    assert "-scheme CoreMLScopeRunner -configuration Release -destination platform=iOS,id=00008130-1" in build
    assert "-allowProvisioningUpdates -allowProvisioningDeviceRegistration build" in build
    assert f"device install app --device {fake_xcode.PHONE}" in install
    assert launch == (
        "xcrun devicectl device process launch --console --terminate-existing"
        f" --device {fake_xcode.PHONE} coremlscope.runner.a1b2c3d4e5 -- --exit"
    )
    assert "--domain-type appDataContainer --domain-identifier coremlscope.runner.a1b2c3d4e5" in copy
    assert "--source Documents/results.json" in copy


def test_the_app_goes_on_after_crashes(package: Path, scene: Scene) -> None:
    folder = scene(crashes=["all", "cpu_only"])
    found = measure(package)
    assert states(found) == [("all", "crashed"), ("cpu_and_gpu", "done"), ("cpu_only", "crashed")]
    assert (found.record.complete, found.record.launches) == (True, 3)
    assert sum("launch" in call for call in fake_xcode.calls(folder)) == 3


def test_an_app_that_says_nothing_more_is_started_again(package: Path, scene: Scene) -> None:
    scene(silence_s=5.0, hangs=["cpu_and_gpu"])
    found = measure(package)
    assert states(found) == [("all", "done"), ("cpu_and_gpu", "crashed"), ("cpu_only", "done")]
    assert found.record.results[1].step == "load"


def test_results_are_fetched_where_no_message_was_heard(package: Path, scene: Scene) -> None:
    scene(is_silent=True, crashes=["all"])
    found = measure(package)
    assert states(found) == [("all", "crashed"), ("cpu_and_gpu", "done"), ("cpu_only", "done")]
    assert found.record.complete


def test_results_that_were_cut_short_are_copied_again(package: Path, scene: Scene) -> None:
    folder = scene(truncated=2)
    assert measure(package).record.complete
    assert sum("copy from" in call for call in fake_xcode.calls(folder)) == 3


def test_a_resting_phone_is_woken(package: Path, scene: Scene) -> None:
    folder = scene(state="disconnected")
    assert measure(package).record.complete
    kinds = [call.split(" --")[0] for call in fake_xcode.calls(folder)[1:4]]
    assert kinds == [
        "xcrun devicectl list devices",
        "xcrun devicectl device info details",
        "xcrun devicectl list devices",
    ]


_NO_TEAM = 'Signing for "CoreMLScopeRunner" requires a development team. Select one in the editor.'
_LOCKED = "Unable to launch it because the device was not, or could not be, unlocked."


@pytest.mark.parametrize(
    ("scenario", "error", "message"),
    [
        (
            {"version": "xcode-select: error: tool 'xcodebuild' requires Xcode, but the active developer"},
            MissingDependencyError,
            "only the command line tools are installed",
        ),
        (
            {"version": "You have not agreed to the Xcode license agreements."},
            MissingDependencyError,
            "the license of Xcode is not accepted",
        ),
        ({"xcode": "15.4"}, MissingDependencyError, "Xcode 15.4 is too old"),
        ({"version": "odd"}, MissingDependencyError, "Xcode cannot be used: odd"),
        ({"state": "unavailable"}, UsageError, "there is no connected iPhone or iPad"),
        ({"state": "disconnected", "wakes": False}, UsageError, "could not be woken"),
        ({"build": _NO_TEAM}, EngineError, "the app cannot be built: no development team signs the app"),
        ({"build": "No profiles for 'coremlscope.runner' were found"}, EngineError, "No profiles for"),
        ({"build": "cannot find 'x' in scope"}, EngineError, "cannot be built: cannot find 'x' in scope"),
        ({"launch": _LOCKED}, EngineError, "the device cannot be used: the device is locked"),
        ({"launch": "The application failed to launch."}, EngineError, "The application failed to launch"),
        ({"truncated": 9}, EngineError, "the results were not copied whole"),
        ({"copy": "The file does not exist."}, EngineError, "The file does not exist"),
    ],
)
def test_what_goes_wrong(
    scenario: dict[str, Any], error: type[CoremlscopeError], message: str, package: Path, scene: Scene
) -> None:
    scene(**scenario)
    with pytest.raises(error, match=message) as caught:
        measure(package)
    assert caught.value.hint
    assert "\n" not in caught.value.message


def test_without_xcode(package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("coremlscope.measure.runner.phone.sys.platform", "darwin")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependencyError, match="Xcode is not installed"):
        measure(package)
    with pytest.raises(MissingDependencyError, match="xcrun is not installed"):
        list_phones()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"team": ""}, "no development team"), ({"team": "x"}, "'x' is not"), ({"name": ""}, "no device")],
)
def test_what_must_be_given(options: dict[str, str], message: str, package: Path, scene: Scene) -> None:
    scene()
    with pytest.raises(UsageError, match=message):
        measure(package, **options)


def test_only_from_a_mac(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if sys.platform == "darwin":
        pytest.skip("this is a Mac")
    for verb in ("profile", "compare"):
        assert main([verb, str(package), "--on-device", "any", "--team", TEAM]) == UsageError.exit_code
        assert "only from a Mac" in capsys.readouterr().err


def test_nothing_is_left_behind(package: Path, scene: Scene, tmp_path: Path, monkeypatch: Any) -> None:
    scene(build=_NO_TEAM)
    private = tmp_path / "private"
    private.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(private))
    with pytest.raises(EngineError):
        measure(package)
    assert_no_scratch(private)


def test_a_profile_of_a_phone(
    package: Path, scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene(crashes=["cpu_and_gpu"])
    target = tmp_path / "profile.json"
    options = ["--on-device", "any", "--team", TEAM, "--compute-units", "every", "--iterations", "4"]
    code = main(["profile", str(package), *options, "--device", "m1", "-o", str(target)])
    printed = " ".join(capsys.readouterr().out.split())
    assert code == EngineError.exit_code
    assert "Core ML on iPhone 15 Pro, iOS 18.2" in printed
    profile = Profile.load(target)
    labels = {measured.label for measured in profile.measurements}
    assert labels == {"Core ML on iPhone 15 Pro, iOS 18.2"}
    assert [m.compute_units for m in profile.measurements] == ["all", "cpu_and_ne", "cpu_only"]
    assert [f.text for f in profile.findings if f.severity == "error"] == [
        "cpu_and_gpu, normal was not measured: predict: the app ended during this step."
    ]
    assert profile.estimates
    assert not [f for m in profile.measurements for f in m.findings if f.id == "imported"]


def test_several_models_on_a_phone(
    package: Path, scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene()
    other = tmp_path / "copies" / "mlp.mlpackage"
    shutil.copytree(package, other)
    target = tmp_path / "models.json"
    models = [str(package), str(tmp_path / "absent.mlpackage"), str(other)]
    options = ["--on-device", "any", "--team", TEAM, "--compute-units", "all", "--power-mode", "both"]
    assert main(["compare", *models, *options, "-o", str(target)]) == 3
    assert "iPhone 15 Pro" in capsys.readouterr().out
    profiles = read_profiles(target)
    modes = [[m.machine.power_mode for m in profile.measurements] for profile in profiles]
    assert modes == [["normal", "low power"], [], ["normal", "low power"]]
    medians = [m.predict.statistics.median for m in profiles[0].measurements if m.predict]
    assert medians == [0.002, 0.004]


def test_phones_of_unknown_models_are_named(package: Path, scene: Scene, tmp_path: Path) -> None:
    scene(identifier="iPhone99,9")
    target = tmp_path / "profile.json"
    assert main(["profile", str(package), "--on-device", "any", "--team", TEAM, "-o", str(target)]) == 0
    assert Profile.load(target).measurement.label == "Core ML on iPhone 15 Pro, iOS 18.2"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--threads", "2"], "--threads has no effect on a connected device"),
        (["--precision", "fp16"], "--precision fp16 has no effect"),
        (["--engine", "onnxruntime"], "--engine has no effect"),
        (["--input", "x=1"], "--input has no effect"),
    ],
)
def test_options_that_do_not_fit(
    option: list[str], message: str, package: Path, scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene()
    assert main(["profile", str(package), "--on-device", "any", "--team", TEAM, *option]) == 2
    assert message in capsys.readouterr().err


def test_commands_that_take_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("xcrun", "xcodebuild"):
        (tmp_path / name).write_text("#!/bin/sh\nexec sleep 30\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(EngineError, match=r"devicectl list devices took more than 0 s"):
        ask("list", "devices", timeout_s=0.2)
    with pytest.raises(EngineError, match=r"the build of the app took more than 0 s"):
        build_app(tmp_path, "1", timeout_s=0.2)


def test_a_build_without_an_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "xcodebuild").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "xcodebuild").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(EngineError, match="xcodebuild made no app"):
        build_app(tmp_path, "1")


def test_both_forms_of_the_list_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """From version 5 on, `properties` replaces three dictionaries (dotnet/macios #26482)."""
    old = {
        "identifier": "1",
        "hardwareProperties": {"deviceType": "iPhone", "udid": "u", "platform": "iOS"},
        "deviceProperties": {"name": "A", "osVersionNumber": "18.2"},
        "connectionProperties": {"tunnelState": "connected"},
    }
    new = {
        "identifier": "2",
        "properties": {
            "hardware": {"deviceType": "iPad", "udid": "v", "marketingName": "iPad mini"},
            "device": {"name": "B", "developerModeStatus": "enabled"},
            "connection": {"tunnelState": "disconnected"},
        },
    }
    simulator = {"identifier": "3", "hardwareProperties": {"deviceType": "iPhone", "reality": "simulated"}}
    watch = {"identifier": "4", "hardwareProperties": {"deviceType": "appleWatch"}}
    answers = {"devices": [new, old, simulator, watch, {"hardwareProperties": {}}, "odd"]}
    monkeypatch.setattr("coremlscope.measure.runner.devicectl.ask", lambda *_: answers)
    first, second = list_phones()
    assert (first.name, first.system, first.state) == ("A", "iOS 18.2", "connected")
    assert (second.name, second.model, second.state) == ("B", "iPad mini", "disconnected")


def test_errors_of_devicectl_with_their_causes() -> None:
    cause = {"userInfo": {"NSLocalizedDescription": {"string": "The device is locked."}}}
    user = {"NSLocalizedDescription": {"string": "Failed."}, "NSUnderlyingError": {"error": cause}}
    assert explain_failure({"error": {"userInfo": user}}, "", "x").message == (
        "the device cannot be used: the device is locked"
    )
    assert explain_failure({}, "", "it ended").message == "the device cannot be used: it ended"
