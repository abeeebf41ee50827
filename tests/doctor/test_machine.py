from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from coremlscope.studies.doctor.machine import Check, Host, check_machine


class _Scripted(Host):
    """A machine with scripted answers."""

    def __init__(self, **facts: object) -> None:
        super().__init__()
        self.platform, self.machine, self.python = "linux", "x86_64", (3, 12, 4)
        self.versions = {
            "numpy": "2.3.5",
            "onnx": "1.18.0",
            "protobuf": "6.1",
            "pillow": "11.0",
            "rich": "14.0",
            "msgspec": "0.19.0",
            "onnxruntime": "1.23.0",
            "coremltools": "9.0",
        }
        self.broken: Mapping[str, str] = {}
        self.commands: Mapping[str, tuple[int, str]] = {}
        self.chip, self.macos, self.free = "AMD EPYC 9654", "", 50_000_000_000
        self.bytes: tuple[int, int] | None = (16_000_000_000, 8_000_000_000)
        for name, value in facts.items():
            assert hasattr(self, name)
            setattr(self, name, value)

    def run(self, *command: str) -> tuple[int, str]:
        return self.commands.get(" ".join(command[1:]), (-1, "No such file or directory"))

    def try_python(self, script: str) -> str:
        return next((problem for text, problem in self.broken.items() if text in script), "")

    def version(self, distribution: str) -> str:
        return self.versions.get(distribution, "")

    def processor(self) -> str:
        return self.chip

    def macos_of_python(self) -> str:
        return self.macos

    def free_disk(self, folder: Path) -> int:
        if self.free < 0:
            raise OSError(13, "Permission denied")
        return self.free

    def memory(self) -> tuple[int, int] | None:
        return self.bytes


def _checks(host: Host) -> dict[str, Check]:
    checks = check_machine(host)
    found = {check.name: check for check in checks}
    assert len(found) == len(checks)
    return found


_MAC: dict[str, object] = {
    "platform": "darwin",
    "machine": "arm64",
    "chip": "Apple M4 Pro",
    "macos": "26.1",
    "commands": {
        "-n sysctl.proc_translated": (0, "0"),
        "-productVersion": (0, "26.1"),
        "-p": (0, "/Applications/Xcode.app/Contents/Developer"),
        "--find xctrace": (0, "/Applications/Xcode.app/xctrace"),
        "--find devicectl": (0, "/Applications/Xcode.app/devicectl"),
        "--find coremlcompiler": (0, "/Applications/Xcode.app/coremlcompiler"),
    },
}


def test_linux() -> None:
    checks = _checks(_Scripted())
    assert {name for name, check in checks.items() if check.status != "ok"} == {
        "pandas",
        "openvino",
        "Core ML",
    }
    assert "xctrace" not in checks
    assert checks["coremltools"].text == "9.0, `coremlscope run` supplies its runtime"
    assert "8.00 GB available of 16.0 GB" in checks["memory"].text


def test_a_mac_with_everything() -> None:
    checks = _checks(_Scripted(**_MAC))
    assert {name for name, check in checks.items() if check.status != "ok"} == {"pandas", "openvino"}
    assert checks["chip"].text == "Apple M4 Pro, known as m4-pro"
    assert checks["macOS"].text == "26.1"


@pytest.mark.parametrize(
    ("facts", "name", "status", "text", "fix"),
    [
        ({"python": (3, 10, 1)}, "Python", "broken", "3.10.1", "3.11"),
        (
            {"broken": {"onnxruntime": "ImportError: DLL"}},
            "ONNX Runtime",
            "broken",
            "DLL",
            "install it again",
        ),
        ({"broken": {"numpy.zeros": "no"}}, "numpy", "broken", "2.3.5: no", "install it again"),
        ({"versions": {"numpy": "1.20.0"}}, "numpy", "warning", "older than 1.26", "numpy>=1.26"),
        (
            {"versions": {}, "python": (3, 14, 0)},
            "coremltools",
            "missing",
            "needed by",
            "Python 3.11 to 3.13",
        ),
        ({"versions": {}, "machine": "aarch64"}, "coremltools", "missing", "needed by", "x86-64 only"),
        ({"versions": {}}, "coremltools", "missing", "needed by", "pip install coremltools"),
        ({"broken": {"import coremltools": "boom"}}, "coremltools", "warning", "9.0: boom", "reinstall"),
        ({"versions": {"coremltools": "8.1"}}, "coremltools", "warning", "version 9", "coremltools>=9"),
        (
            {"versions": {"coremltools": "9.0", "numpy": "2.4.1"}},
            "coremltools",
            "warning",
            "does not work with numpy 2.4.1",
            "numpy<2.4",
        ),
        ({"free": 1_000_000}, "free disk", "warning", "1.00 MB", "free disk space"),
        ({"free": -1}, "free disk", "warning", "Permission denied", ""),
        ({"bytes": (4_000_000_000, 1_000_000_000)}, "memory", "warning", "1.00 GB available", "close"),
        ({"bytes": None}, "memory", "ok", "unknown", ""),
        (_MAC | {"macos": "16.0"}, "macOS", "warning", "26.1, but Python reports 16.0", "newer Python"),
        (_MAC | {"chip": "Apple M1 (Virtual)"}, "chip", "warning", "virtual machine", "CPU_ONLY"),
        (_MAC | {"chip": "Apple M99"}, "chip", "warning", "is not known", "coremlscope devices"),
        (_MAC | {"commands": {}}, "Xcode", "missing", "record", "install Xcode"),
        (_MAC | {"commands": {}}, "macOS", "warning", "sw_vers", ""),
        (_MAC | {"commands": {"-p": (0, "/Tools")}}, "xctrace", "missing", "Instruments", "install Xcode"),
        (
            _MAC | {"commands": {"-n sysctl.proc_translated": (0, "1")}},
            "Python",
            "warning",
            "Rosetta",
            "arm64",
        ),
        (_MAC | {"machine": "x86_64"}, "Python", "warning", "Intel Mac", "older one"),
        (_MAC | {"broken": {"_MLModelProxy": "None"}}, "coremltools", "warning", "9.0: None", "reinstall"),
    ],
)
def test_what_is_not_well(facts: dict[str, object], name: str, status: str, text: str, fix: str) -> None:
    check = _checks(_Scripted(**facts))[name]
    assert check.status == status
    assert text in check.text
    assert fix in check.fix


def test_this_machine_works() -> None:
    checks = _checks(Host())
    assert not [check for check in checks.values() if check.status == "broken"]
    assert "ran a model" in checks["ONNX Runtime"].text


def test_programs_that_fail() -> None:
    host = Host()
    assert host.run("/no/such/program")[0] == -1
    assert host.try_python("raise SystemExit(3)") == "ended with code 3"
    assert host.try_python("raise ValueError('\\x1b[2J')") == "ValueError: \\x1b[2J"
    assert host.try_python("") == ""
    assert host.version("no-such-distribution") == ""
