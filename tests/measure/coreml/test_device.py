"""Core ML timed on a connected device, which `tests.support.simulated_device_child` simulates."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import coremltools as ct
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.api.connected_devices import measure_on_device
from coremlscope.base.errors import (
    CoremlscopeError,
    EngineError,
    InputError,
    MissingDependencyError,
    UnsupportedModelError,
    UsageError,
)
from coremlscope.cli import main
from coremlscope.formats import container
from coremlscope.measure.contract import MeasuredModel, Progress, resolve_settings
from coremlscope.measure.coreml.device import child as device_child
from coremlscope.measure.coreml.device.child import prepared_device
from coremlscope.measure.coreml.device.measurer import DeviceMeasurer, device_measurer
from coremlscope.model.ir import Model
from coremlscope.results.measurement import Measurement, Settings
from tests.support import converted_models
from tests.support.ir_models import perceptron
from tests.support.preloaded import preloaded_child

CHILD = preloaded_child("pass", "tests.support.simulated_device_child")
TEAM = "A1B2C3D4E5"


def measure(
    model: Model, device: str, folder: Path, settings: Settings, progress: Progress | None = None
) -> Measurement:
    measurer = DeviceMeasurer(device=device, team=TEAM, folder=folder, command=CHILD)
    resolved = resolve_settings(model, settings)
    return measurer.measure(MeasuredModel.of(model, resolved), resolved, progress=progress)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "mlp.mlpackage"
    converted_models.mlp().save(str(path))
    return path


@pytest.fixture
def weightless(tmp_path: Path) -> Path:
    """A model without a file of weights."""

    @mb.program(input_specs=[mb.TensorSpec(shape=(2, 3))], opset_version=ct.target.iOS16)
    def program(x: Any) -> Any:
        return mb.relu(x=x)

    path = tmp_path / "relu.mlpackage"
    ct.convert(program, minimum_deployment_target=ct.target.iOS16).save(str(path))
    assert not list(path.rglob("weight.bin"))
    return path


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coremlscope.measure.coreml.device.measurer.sys.platform", "darwin")


def test_a_device_times(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXPECTED_UNITS", "CPU_AND_NE")
    phases: list[str] = []
    measured = measure(
        container.read(package),
        "ann's iphone",
        tmp_path,
        Settings(compute_units="cpu_and_ne", iterations=4),
        lambda phase, *_: phases.append(phase),
    )
    assert measured.label == "Core ML on Ann’s iPhone, iOS 26.1"
    assert (measured.machine.processor, measured.machine.os) == ("Ann’s iPhone", "iOS 26.1")
    assert (measured.machine.cores, measured.machine.python) == (None, "")
    assert (measured.compute_units, measured.machine.power_mode) == ("cpu_and_ne", "")
    assert measured.load is not None
    assert measured.predict is not None
    assert measured.first_load is not None
    assert (measured.first_load.samples_s, measured.load.samples_s) == ((9.0,), (2.0, 2.0))
    assert measured.predict.warmups_s == pytest.approx((0.003, 0.004, 0.005))
    assert measured.predict.samples_s == pytest.approx((0.006, 0.007, 0.008, 0.009))
    assert phases == ["load"] * 3 + ["warm-up"] * 3 + ["predict"] * 4


@pytest.mark.usefixtures("mac")
def test_models_on_a_device(
    weightless: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EXPECTED_UNITS", "CPU_ONLY")
    monkeypatch.setattr("coremlscope.api.sources.power_mode", lambda: "that of the Mac")
    monkeypatch.setattr(
        "coremlscope.api.connected_devices.device_measurer", partial(device_measurer, command=CHILD)
    )
    arguments = [str(weightless), "--compute-units", "cpu_only", "--iterations", "3", "--on-device", "any"]
    assert main(["compare", *arguments, "--team", TEAM, "--through", "coremltools"]) == 0
    printed = capsys.readouterr().out
    assert "by Core ML on Desk, iPadOS 26.1" in printed
    assert "7.00 ms" in printed
    assert "Mac" not in printed


def test_what_the_device_says(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXPECTED_UNITS", "ALL")
    monkeypatch.setenv("DEVICE_FAILS", "1")
    with pytest.raises(EngineError, match=r"(?m)^Core ML failed: DeviceCtlError: the app is gone$") as caught:
        measure(container.read(package), "any", tmp_path, Settings(iterations=1))
    assert "developer mode" in caught.value.hint


def test_the_child_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.txt").write_text("no model")
    arguments = [str(tmp_path / "x.txt"), "all", "1", "3", "0", "any", TEAM, str(tmp_path)]
    assert device_child.main(arguments) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "x.txt" in line
    assert "Error" not in line


@dataclass
class Known:
    """As coremltools tells of a device."""

    name: str
    identifier: str
    type: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(value="iphone"))
    state: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(value="connected"))
    developer_mode_state: str = "enabled"
    os_version: str = "26.1"

    @property
    def udid(self) -> str:
        return f"udid-{self.identifier}"


WATCH = Known("Watch", "0", type=SimpleNamespace(value="applewatch"))
FAR = Known("Far", "1", state=SimpleNamespace(value="unavailable"))
KNOWN = [
    Known("Twin", "4"),
    Known("Twin", "3"),
    FAR,
    WATCH,
    Known("Off", "5", developer_mode_state="disabled"),
]


@pytest.mark.parametrize(("name", "identifier"), [("any", "3"), ("4", "4"), ("UDID-4", "4")])
def test_which_device_is_meant(name: str, identifier: str) -> None:
    assert prepared_device(lambda: KNOWN, name).identifier == identifier


@pytest.mark.parametrize(
    ("name", "devices", "message"),
    [
        ("any", [FAR, WATCH], "no connected iPhone or iPad; connected: none"),
        ("Watch", KNOWN, "no connected iPhone or iPad 'Watch'"),
        ("far", KNOWN, "'Far' is not connected but unavailable"),
        ("twin", KNOWN, "several devices are called 'twin'; use an identifier: 3, 4"),
        ("off", KNOWN, "developer mode is off on 'Off'"),
    ],
)
def test_devices_that_cannot_be_meant(name: str, devices: list[Known], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        prepared_device(lambda: devices, name)


@pytest.fixture
def devicectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A devicectl that writes down how it is called; the device wakes where `wakes` exists."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "xcrun"
    script.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\ntest -e {tmp_path}/wakes && : > {tmp_path}/awake\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


@pytest.mark.parametrize("name", ["any", "Resting"])
def test_a_device_at_rest_is_woken(name: str, devicectl: Path) -> None:
    """`disconnected` is the resting state of a reachable device; devicectl opens the connection on demand."""
    (devicectl / "wakes").touch()

    def listed() -> list[Known]:
        state = "connected" if (devicectl / "awake").exists() else "disconnected"
        return [FAR, Known("Resting", "7", state=SimpleNamespace(value=state))]

    device = prepared_device(listed, name)
    assert (device.identifier, device.state.value) == ("7", "connected")
    assert "devicectl device info details --device 7" in (devicectl / "calls").read_text()


def test_a_device_that_does_not_wake(devicectl: Path) -> None:
    resting = Known("Resting", "7", state=SimpleNamespace(value="disconnected"))
    with pytest.raises(
        UsageError, match="'Resting' is not connected but disconnected, and could not be woken"
    ):
        prepared_device(lambda: [resting], "any")
    assert (devicectl / "calls").exists()


def test_a_connected_device_is_not_woken(devicectl: Path) -> None:
    resting = Known("Resting", "1", state=SimpleNamespace(value="disconnected"))
    assert prepared_device(lambda: [resting, Known("Ready", "9")], "any").identifier == "9"
    assert not (devicectl / "calls").exists()


def test_only_from_a_mac(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if sys.platform == "darwin":
        pytest.skip("this is a Mac")
    assert main(["compare", str(package), "--on-device", "any", "--team", TEAM]) == UsageError.exit_code
    printed = " ".join(capsys.readouterr().err.split())
    assert "only from a Mac" in printed
    assert "Xcode" in printed


@pytest.mark.usefixtures("mac")
@pytest.mark.parametrize(
    ("name", "team", "message"),
    [
        ("any", "", "no development team is given"),
        ("any", "A1B2C3D4E5; rm", "is not the identifier of a development team"),
        ("", TEAM, "no device is named"),
    ],
)
def test_what_must_be_given(package: Path, name: str, team: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        measure_on_device(package, on_device=name, team=team, through="coremltools")


@pytest.mark.usefixtures("mac")
def test_coremltools_is_needed(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coremlscope.measure.coreml.files.importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match="coremltools"):
        measure_on_device(package, on_device="any", team=TEAM, through="coremltools")


def test_models_that_cannot_be_sent(tmp_path: Path) -> None:
    path = tmp_path / "classifier.mlpackage"
    converted_models.classifier().save(str(path))
    expected = [
        (container.read(path), "only arrays to a device, and 'image' is none"),
        (perceptron(), "only ML P"),
    ]
    for model, message in expected:
        with pytest.raises(UnsupportedModelError, match=message) as caught:
            measure(model, "any", tmp_path, Settings(iterations=1))
        assert isinstance(caught.value, CoremlscopeError)


def test_given_values_are_refused(package: Path, tmp_path: Path) -> None:
    model = container.read(package)
    measurer = DeviceMeasurer(device="any", team=TEAM, folder=tmp_path, command=CHILD)
    with pytest.raises(InputError, match="synthetic inputs"):
        measurer.measure(MeasuredModel.of(model, Settings()), Settings(), inputs={"x": 0})
