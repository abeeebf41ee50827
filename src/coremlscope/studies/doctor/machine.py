"""Checks what works on this machine: Python, packages, the engine, Xcode's tools, memory and disk."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Literal

import msgspec

from coremlscope.base.errors import UsageError, wheels_hint
from coremlscope.base.libraries import silence
from coremlscope.base.units import escape_controls, format_bytes
from coremlscope.base.version import __version__
from coremlscope.devices import find_device
from coremlscope.runtime.engines.host import processor_name

Status = Literal["ok", "missing", "warning", "broken"]

_OLDEST_PYTHON = (3, 11)
#: Name of the distribution, and a program that imports it and prints nothing.
_REQUIRED = {
    "numpy": "import numpy; numpy.zeros(1) + 1",
    "onnx": "import onnx.helper",
    "protobuf": "import google.protobuf.descriptor_pool",
    "pillow": "import PIL.Image",
    "rich": "import rich.console",
    "msgspec": "import msgspec.json",
}
_ENGINE = """
import numpy, onnxruntime
from onnx import TensorProto, helper
value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1])
graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "g", [value("x")], [value("y")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
assert session.run(None, {"x": numpy.ones(1, numpy.float32)})[0][0] == 2
"""
_COREMLTOOLS = "import coremltools"
_NATIVE = "from coremltools.libcoremlpython import _MLModelProxy"
_TIMEOUT_S = 60.0
#: Below these, large models fail to compile or to load, in bytes.
_LITTLE_DISK, _LITTLE_MEMORY = 5e9, 2e9
_TOOLS = {
    "xctrace": "records with Instruments",
    "devicectl": "reaches iPhones and iPads (Xcode 16 and later)",
    "coremlcompiler": "compiles models to .mlmodelc",
}


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the report.

    Attributes:
        name: What was checked.
        status: `broken` only for something that coremlscope cannot work without.
        text: What was found.
        fix: What to do; empty where nothing needs to be done.
    """

    name: str
    status: Status
    text: str
    fix: str = ""


class Host:
    """Facts about the machine that checks need; tests script them."""

    def __init__(self) -> None:
        self.platform: str = sys.platform
        self.machine: str = platform.machine()
        self.python: tuple[int, ...] = tuple(sys.version_info[:3])

    def run(self, *command: str) -> tuple[int, str]:
        """Runs a program without input. Returns its exit code and output, or -1 and why it did not run."""
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return -1, f"no answer within {_TIMEOUT_S:.0f} s"
        except OSError as error:
            return -1, error.strerror or str(error)
        return done.returncode, done.stdout.decode("utf-8", "replace").strip()

    def try_python(self, script: str) -> str:
        """Runs a script in a new process of this Python. Returns why it failed; empty if it worked."""
        code, output = self.run(sys.executable, "-P", "-c", script)
        last = output.splitlines()[-1] if output else f"ended with code {code}"
        return "" if code == 0 else escape_controls(last[:200])

    def version(self, distribution: str) -> str:
        """The installed version of a distribution; empty if it is not installed."""
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            return ""

    def processor(self) -> str:
        """The processor's name."""
        return processor_name()

    def macos_of_python(self) -> str:
        """The version of macOS that Python reports."""
        return platform.mac_ver()[0]

    def free_disk(self, folder: Path) -> int:
        """Free bytes on the disk of a folder.

        Raises:
            OSError: The folder cannot be read.
        """
        return shutil.disk_usage(folder).free

    def memory(self) -> tuple[int, int] | None:
        """Total and available memory in bytes; None if unknown."""
        try:
            total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, OSError, ValueError):
            return None
        try:
            text = Path("/proc/meminfo").read_text(encoding="ascii", errors="replace")
        except OSError:
            return total, total
        found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.M)
        return total, int(found[1]) * 1024 if found else total


def check_machine(host: Host | None = None) -> list[Check]:
    """Checks this machine. Nothing is downloaded and nothing is changed.

    Programs that are not installed are `missing`, which is no failure.
    """
    host = host or Host()
    parts: tuple[Callable[[Host], Iterator[Check]], ...] = (
        _check_python,
        _check_packages,
        _check_engine,
        _check_coremltools,
        _check_optional,
        _check_chip,
        _check_system,
        _check_tools,
        _check_folders,
        _check_memory,
    )
    with ThreadPoolExecutor(max_workers=4) as pool:
        found = pool.map(lambda part: list(part(host)), parts)
        return [check for checks in found for check in checks]


def _check_python(host: Host) -> Iterator[Check]:
    name = ".".join(map(str, host.python))
    text = f"Python {name} ({host.machine})"
    if host.python[:2] < _OLDEST_PYTHON:
        yield Check(name="Python", status="broken", text=text, fix="use Python 3.11 or newer")
    elif host.platform == "darwin" and host.run("/usr/sbin/sysctl", "-n", "sysctl.proc_translated")[1] == "1":
        fix = "install a Python for arm64: times of this one are not those of native code"
        yield Check(name="Python", status="warning", text=f"{text} runs under Rosetta 2", fix=fix)
    elif host.platform == "darwin" and host.machine == "x86_64":
        fix = "ONNX Runtime's newest versions have no wheels for it: `pip install .` takes an older one"
        yield Check(name="Python", status="warning", text=f"{text} on an Intel Mac", fix=fix)
    else:
        yield Check(name="Python", status="ok", text=text)
    yield Check(name="coremlscope", status="ok", text=f"coremlscope {__version__}")


def _check_packages(host: Host) -> Iterator[Check]:
    least = _least_versions()
    for name, script in _REQUIRED.items():
        version = host.version(name)
        problem = host.try_python(script)
        if problem:
            text = f"{version or 'not installed'}: {problem}"
            fix = f"install it again: pip install --force-reinstall {name}"
            yield Check(name=name, status="broken", text=text, fix=fix)
        elif version and _numbers(version) < _numbers(least.get(name, "")):
            text, fix = f"{version} is older than {least[name]}", f'pip install "{name}>={least[name]}"'
            yield Check(name=name, status="warning", text=text, fix=fix)
        else:
            yield Check(name=name, status="ok", text=version or "present")


def _least_versions() -> dict[str, str]:
    """The least version of each distribution that coremlscope requires."""
    try:
        required = metadata.requires("coremlscope") or []
    except metadata.PackageNotFoundError:
        return {}
    pairs = (re.match(r"([\w.-]+)>=([\d.]+)", text) for text in required)
    return {pair[1].lower(): pair[2] for pair in pairs if pair}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def _check_engine(host: Host) -> Iterator[Check]:
    silence("onnxruntime")
    version, problem = host.version("onnxruntime"), host.try_python(_ENGINE)
    if problem:
        text = f"{version or 'not installed'}: {problem}"
        fix = "install it again: pip install --force-reinstall onnxruntime"
        yield Check(name="ONNX Runtime", status="broken", text=text, fix=fix)
    else:
        yield Check(name="ONNX Runtime", status="ok", text=f"{version}, ran a model")


def _check_coremltools(host: Host) -> Iterator[Check]:
    version = host.version("coremltools")
    if not version:
        yield Check(
            name="coremltools",
            status="missing",
            text="needed by `coremlscope run`, by coremlscope.install() and to measure Core ML on a Mac",
            fix=_how_to_get_coremltools(host),
        )
        return
    problem = host.try_python(_COREMLTOOLS)
    if not problem and host.platform == "darwin":
        problem = host.try_python(_NATIVE)
    if problem:
        fix = "install a version for this Python: pip install --force-reinstall coremltools"
        yield Check(name="coremltools", status="warning", text=f"{version}: {problem}", fix=fix)
        return
    runtime = "with Core ML" if host.platform == "darwin" else "`coremlscope run` supplies its runtime"
    numpy = host.version("numpy")
    if _numbers(version) < (9,):
        text, fix = f"{version}; version 9 is supported", 'pip install "coremltools>=9,<10"'
        yield Check(name="coremltools", status="warning", text=text, fix=fix)
    elif _numbers(numpy) >= (2, 4):
        text, fix = f"{version} does not work with numpy {numpy}", 'pip install "numpy<2.4"'
        yield Check(name="coremltools", status="warning", text=text, fix=fix)
    else:
        yield Check(name="coremltools", status="ok", text=f"{version}, {runtime}")


def _how_to_get_coremltools(host: Host) -> str:
    return wheels_hint(host.python, host.platform, host.machine) or "pip install coremltools"


def _check_optional(host: Host) -> Iterator[Check]:
    for name, use in (
        ("pandas", "for results as data frames"),
        ("openvino", "for --engine openvino, a second engine"),
    ):
        version = host.version(name)
        if version:
            yield Check(name=name, status="ok", text=version)
        else:
            yield Check(name=name, status="missing", text=f"optional, {use}", fix=f"pip install {name}")


def _check_chip(host: Host) -> Iterator[Check]:
    processor = escape_controls(host.processor())
    if "Virtual" in processor:
        text = f"{processor}: times of a virtual machine cannot be compared"
        fix = "measure on a real device; use CPU_ONLY here, because the Neural Engine is not available"
        yield Check(name="chip", status="warning", text=text, fix=fix)
    elif host.platform != "darwin" or not processor.startswith("Apple"):
        text = f"{processor}; plans and estimates are for the device that --device names"
        yield Check(name="chip", status="ok", text=text)
    else:
        try:
            chip = find_device(processor).chip
        except UsageError:
            fix = "plans and estimates need a known chip: see `coremlscope devices`"
            yield Check(name="chip", status="warning", text=f"{processor} is not known", fix=fix)
        else:
            yield Check(name="chip", status="ok", text=f"{processor}, known as {chip.id}")


def _check_system(host: Host) -> Iterator[Check]:
    if host.platform != "darwin":
        yield Check(
            name="Core ML",
            status="missing",
            text="this is not a Mac; models run with ONNX Runtime instead",
        )
        return
    seen = host.macos_of_python()
    code, actual = host.run("/usr/bin/sw_vers", "-productVersion")
    if code != 0:
        yield Check(name="macOS", status="warning", text=f"{seen}; sw_vers does not work: {actual}")
    elif _numbers(seen)[:1] != _numbers(actual)[:1]:
        text = f"{escape_controls(actual)}, but Python reports {seen}"
        fix = "use a newer Python: this one was built for an older macOS, which misleads packages"
        yield Check(name="macOS", status="warning", text=text, fix=fix)
    else:
        yield Check(name="macOS", status="ok", text=escape_controls(actual))


def _check_tools(host: Host) -> Iterator[Check]:
    if host.platform != "darwin":
        return
    code, developer = host.run("/usr/bin/xcode-select", "-p")
    if code != 0:
        fix = "install Xcode from the App Store, then: sudo xcode-select -s /Applications/Xcode.app"
        yield Check(name="Xcode", status="missing", text="needed to record and to use devices", fix=fix)
        return
    yield Check(name="Xcode", status="ok", text=escape_controls(developer))
    for tool, use in _TOOLS.items():
        code, path = host.run("/usr/bin/xcrun", "--find", tool)
        if code == 0:
            yield Check(name=tool, status="ok", text=escape_controls(path))
        else:
            fix = "the command line tools alone lack it: install Xcode and select it with xcode-select"
            yield Check(name=tool, status="missing", text=use, fix=fix)


def _check_folders(host: Host) -> Iterator[Check]:
    folder = Path(tempfile.gettempdir())
    left = len(list(folder.glob("coremlscope-*")))
    if not os.access(folder, os.W_OK):
        fix = "set TMPDIR to a folder that is writable"
        yield Check(name="temporary files", status="broken", text=f"{folder} is not writable", fix=fix)
    else:
        yield Check(name="temporary files", status="ok", text=f"{folder}: {left} left by coremlscope")
    try:
        free = host.free_disk(folder)
    except OSError as error:
        yield Check(name="free disk", status="warning", text=f"unknown: {error.strerror or error}")
        return
    is_little = free < _LITTLE_DISK
    fix = "free disk space: compiling needs several times a model's size" if is_little else ""
    yield Check(name="free disk", status="warning" if is_little else "ok", text=format_bytes(free), fix=fix)


def _check_memory(host: Host) -> Iterator[Check]:
    memory = host.memory()
    if memory is None:
        yield Check(name="memory", status="ok", text="unknown on this system")
        return
    total, available = memory
    is_little = available < _LITTLE_MEMORY
    text = f"{format_bytes(available)} available of {format_bytes(total)}"
    if available == total:
        text = format_bytes(total)
    fix = "close other programs before models of more than a few hundred MB are run" if is_little else ""
    yield Check(name="memory", status="warning" if is_little else "ok", text=text, fix=fix)
