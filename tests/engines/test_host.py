"""Properties of the host's processor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from coremlscope.results.measurement import Conditions
from coremlscope.runtime.engines import host


def _linux(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, logical: int) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(host, "_CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(logical)), raising=False)


def _block(processor: int, core: int, package: int = 0) -> str:
    return (
        f"processor\t: {processor}\nmodel name\t: Some  CPU   9000\n"
        f"physical id\t: {package}\ncore id\t\t: {core}\n\n"
    )


def test_hardware_threads_of_a_core_count_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = "".join(
        _block(p, core, package) for p, (core, package) in enumerate([(0, 0), (0, 0), (0, 1), (1, 1)])
    )
    _linux(monkeypatch, tmp_path, text, 4)
    assert host.physical_cores() == 3
    assert host.processor_name() == "Some CPU 9000"


def test_only_allowed_cores_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _linux(monkeypatch, tmp_path, "".join(_block(p, p) for p in range(8)), 2)
    assert host.physical_cores() == 2


def test_processors_without_core_ids(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _linux(monkeypatch, tmp_path, "processor\t: 0\nBogoMIPS\t: 50\n\nprocessor\t: 1\n\n", 2)
    monkeypatch.setattr("platform.processor", lambda: "")
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert host.physical_cores() == 2
    assert host.processor_name() == "aarch64"


_PMSET = """\
System-wide power settings:
Currently in use:
 standby              1
 Sleep On Power Button 1
 {} {}
"""


@pytest.mark.parametrize(
    ("name", "value", "mode"),
    [
        ("lowpowermode", "1", "low power"),
        ("lowpowermode", "0", "normal"),
        ("powermode", "2", "high power"),
        ("hibernatemode", "3", ""),
    ],
)
def test_power_modes_of_a_mac(monkeypatch: pytest.MonkeyPatch, name: str, value: str, mode: str) -> None:
    def pmset(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 0, _PMSET.format(name, value), "")

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(subprocess, "run", pmset)
    assert host.power_mode() == mode


def test_power_mode_is_empty_on_other_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert host.power_mode() == ""


_BATTERY = "Now drawing from 'Battery Power'\n -InternalBattery-0 (id=1)\t87%; discharging"


@pytest.mark.parametrize(
    ("notified", "limits", "state"),
    [
        ("com.apple.system.thermalpressurelevel 0\n", "", "nominal"),
        ("com.apple.system.thermalpressurelevel 2\n", "", "heavy"),
        ("com.apple.system.thermalpressurelevel 9\n", "\tCPU_Speed_Limit \t= 100\n", "nominal"),
        (
            "",
            "CPU Power notify\n\tCPU_Scheduler_Limit \t= 100\n\tCPU_Speed_Limit \t= 70\n",
            "CPU limited to 70 %",
        ),
        ("", "Note: No thermal warning level has been recorded\n", ""),
    ],
)
def test_conditions_of_a_mac(monkeypatch: pytest.MonkeyPatch, notified: str, limits: str, state: str) -> None:
    def run(command: tuple[str, ...], **_: object) -> subprocess.CompletedProcess[str]:
        printed = {"-g": _PMSET.format("powermode", "1"), "ps": _BATTERY, "therm": limits}
        text = notified if command[0].endswith("notifyutil") else printed[command[-1]]
        return subprocess.CompletedProcess(command, 0, text, "")

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(subprocess, "run", run)
    assert host.conditions() == Conditions("low power", "Battery Power", state)


def test_conditions_are_unknown_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert host.conditions() is None


@pytest.mark.parametrize(
    ("answer", "python", "version"),
    [("26.1\n", "16.0", "26.1"), ("", "16.0", "26.0"), ("", "15.1", "15.1"), (None, "14.4", "14.4")],
)
def test_the_version_of_macos(
    answer: str | None, python: str, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python built with an older SDK calls macOS 26 16.0."""

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        if answer is None:
            raise OSError
        assert command[0].endswith("sw_vers")
        return subprocess.CompletedProcess(command, 0, answer, "")

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr("platform.mac_ver", lambda: (python, ("", "", ""), ""))
    assert host.macos_version() == version


@pytest.mark.parametrize(
    ("sysctls", "native", "name", "is_virtual", "is_translated"),
    [
        ({"machdep.cpu.brand_string": "Apple M2"}, "", "Apple M2", False, False),
        ({"machdep.cpu.brand_string": "Apple M1 (Virtual)"}, "", "Apple M1 (Virtual)", True, False),
        (
            {"machdep.cpu.brand_string": "Apple M4", "kern.hv_vmm_present": "1"},
            "",
            "Apple M4 (Virtual)",
            True,
            False,
        ),
        (
            {"machdep.cpu.brand_string": "VirtualApple @ 2.50GHz", "sysctl.proc_translated": "1"},
            "Apple M2 Pro",
            "Apple M2 Pro",
            False,
            True,
        ),
        ({"machdep.cpu.brand_string": "VirtualApple @ 2.50GHz"}, "", "Apple silicon", False, True),
    ],
)
def test_rosetta_is_no_virtual_machine(
    monkeypatch: pytest.MonkeyPatch,
    sysctls: dict[str, str],
    native: str,
    name: str,
    is_virtual: bool,
    is_translated: bool,
) -> None:
    def output_of(*command: str) -> str:
        return native if command[0] == "/usr/bin/arch" else sysctls.get(command[-1], "")

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr(host, "_output_of", output_of)
    monkeypatch.setattr(host, "macos_version", lambda: "15.1")
    machine = host.this_machine()
    assert machine.processor == name
    assert (machine.is_virtual, machine.is_translated) == (is_virtual, is_translated)
    assert host.is_virtual_machine() == is_virtual
