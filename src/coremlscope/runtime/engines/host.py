"""Properties of the host's processor."""

from __future__ import annotations

import functools
import os
import platform
import sys
from contextlib import suppress
from pathlib import Path

from coremlscope.results.measurement import Conditions, Machine

#: macOS's names for the values of `powermode` in `pmset -g`. Older systems report only `lowpowermode`.
_POWER_MODES = {"0": "normal", "1": "low power", "2": "high power"}

#: macOS's levels of thermal pressure (libkern/OSThermalNotification.h), as `powermetrics` names them.
_THERMAL_KEY = "com.apple.system.thermalpressurelevel"
_THERMAL_LEVELS = {"0": "nominal", "1": "moderate", "2": "heavy", "3": "trapping", "4": "sleeping"}

#: How Rosetta's brand string of a processor begins: `VirtualApple @ 2.50GHz`.
_ROSETTA_BRAND = "VirtualApple"
_BRAND = "machdep.cpu.brand_string"

_CPUINFO = Path("/proc/cpuinfo")


def _cpuinfo() -> list[dict[str, str]]:
    """Returns the blocks of Linux's `/proc/cpuinfo`, one per logical processor; empty on other systems."""
    try:
        text = _CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    blocks = []
    for part in text.split("\n\n"):
        pairs = (line.partition(":") for line in part.splitlines())
        block = {key.strip(): value.strip() for key, _, value in pairs if key.strip()}
        if block:
            blocks.append(block)
    return blocks


def _output_of(*command: str) -> str:
    """Returns what a command prints, or an empty string if it is not available."""
    import subprocess  # takes a while, and is for Macs

    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _sysctl(name: str) -> str:
    """Returns a value of macOS's `sysctl`, or an empty string if it is not available."""
    return _output_of("/usr/sbin/sysctl", "-n", name)


def _registry_name() -> str:
    """Returns the processor's name from the Windows registry, or an empty string on other systems."""
    if sys.platform != "win32":
        return ""
    import winreg

    try:
        path = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, path) as key:
            return str(winreg.QueryValueEx(key, "ProcessorNameString")[0]).strip()
    except OSError:
        return ""


@functools.cache
def is_translated() -> bool:
    """Returns whether Rosetta translates this process, a program for Intel Macs on Apple silicon."""
    if sys.platform != "darwin":
        return False
    return _sysctl("sysctl.proc_translated") == "1" or _sysctl(_BRAND).startswith(_ROSETTA_BRAND)


@functools.cache
def is_virtual_machine() -> bool:
    """Returns whether this Mac is a virtual machine; False on other systems."""
    if sys.platform != "darwin":
        return False
    return _sysctl("kern.hv_vmm_present") == "1" or "(Virtual)" in _sysctl(_BRAND)


def _mac_processor() -> str:
    """Returns the chip of a Mac: of a virtual one with `(Virtual)`, and under Rosetta the true one."""
    name = _sysctl(_BRAND)
    if is_translated():
        native = _output_of("/usr/bin/arch", "-arm64", "/usr/sbin/sysctl", "-n", _BRAND)
        name = native if native and not native.startswith(_ROSETTA_BRAND) else "Apple silicon"
    return f"{name} (Virtual)" if name and is_virtual_machine() and "(Virtual)" not in name else name


@functools.cache
def processor_name() -> str:
    """Returns the processor's name, such as `AMD EPYC 9654` or `Apple M2`; if unknown, the architecture."""
    name = ""
    if sys.platform == "darwin":
        name = _mac_processor()
    elif sys.platform == "win32":
        name = _registry_name()
    else:
        for key in ("model name", "Model", "cpu model", "Hardware"):
            name = name or next((block[key] for block in _cpuinfo() if block.get(key)), "")
    return " ".join(name.split()) or platform.processor() or platform.machine() or "unknown processor"


@functools.cache
def macos_version() -> str:
    """Returns the version of macOS, such as `15.1`; empty on other systems.

    Python's own answer depends on the SDK that it was built with: macOS 26 calls itself 16.0, and every
    version from 11 on 10.16, to programs built before it. `sw_vers` gives the true one.
    """
    if sys.platform != "darwin":
        return ""
    import subprocess

    variables = {name: value for name, value in os.environ.items() if name != "SYSTEM_VERSION_COMPAT"}
    with suppress(OSError, subprocess.SubprocessError):
        command = ["/usr/bin/sw_vers", "-productVersion"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, env=variables)
        if done.stdout.strip():
            return done.stdout.strip()
    reported = platform.mac_ver()[0]
    major, _, rest = reported.partition(".")
    return f"26.{rest}" if major == "16" else reported


def power_mode() -> str:
    """Returns a Mac's current power mode: `low power`, `normal` or `high power`; empty on other systems."""
    if sys.platform != "darwin":
        return ""
    rows = (line.split() for line in _output_of("/usr/bin/pmset", "-g").splitlines())
    settings = {row[0]: row[1] for row in rows if len(row) > 1}
    return _POWER_MODES.get(settings.get("powermode", settings.get("lowpowermode", "")), "")


def power_source() -> str:
    """Returns a Mac's power source, `AC Power` or `Battery Power`; empty on other systems."""
    if sys.platform != "darwin":
        return ""
    first = _output_of("/usr/bin/pmset", "-g", "ps").partition("\n")[0]  # Now drawing from 'AC Power'
    return first.partition("'")[2].partition("'")[0]


def thermal_state() -> str:
    """Returns a Mac's level of thermal pressure, such as `nominal` or `moderate`; empty if it is unknown.

    Where the system does not report the level, as on older Intel Macs, a limited CPU speed is reported.
    """
    if sys.platform != "darwin":
        return ""
    reported = _output_of("/usr/bin/notifyutil", "-g", _THERMAL_KEY).split()
    if len(reported) > 1 and reported[-1] in _THERMAL_LEVELS:
        return _THERMAL_LEVELS[reported[-1]]
    rows = (line.partition("=") for line in _output_of("/usr/bin/pmset", "-g", "therm").splitlines())
    limits = {name.strip(): value.strip() for name, _, value in rows}
    limit = limits.get("CPU_Speed_Limit", "")
    return "" if not limit.isdigit() else "nominal" if int(limit) >= 100 else f"CPU limited to {limit} %"


def conditions() -> Conditions | None:
    """Returns the conditions of this Mac now; None if it reports none, as other systems."""
    found = Conditions(power_mode(), power_source(), thermal_state())
    return None if found == Conditions() else found


def logical_processors() -> int:
    """Returns the number of logical processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def physical_cores() -> int:
    """Returns the number of physical cores that this process may use; hardware threads do not count."""
    available = logical_processors()
    cores = 0
    if sys.platform == "darwin":
        count = _sysctl("hw.physicalcpu")
        cores = int(count) if count.isdigit() else 0
    elif hasattr(os, "sched_getaffinity"):
        allowed = os.sched_getaffinity(0)
        blocks = [
            b for b in _cpuinfo() if b.get("processor", "").isdigit() and int(b["processor"]) in allowed
        ]
        if blocks and all("core id" in b for b in blocks):
            cores = len({(b.get("physical id", ""), b["core id"]) for b in blocks})
    elif sys.platform == "win32":  # there is no API without a dependency; two threads per core are usual
        cores = (available + 1) // 2
    return max(1, min(cores or available, available))


def this_machine() -> Machine:
    """The machine that this process runs on."""
    return Machine(
        processor=processor_name(),
        cores=physical_cores(),
        os=_os_name(),
        python=platform.python_version(),
        power_mode=power_mode(),
    )


def _os_name() -> str:
    """`Ubuntu 24.04 LTS (x86_64)`, `macOS 15.1 (arm64)`, `macOS 15.1 (x86_64 under Rosetta)`."""
    system = platform.system()
    name = f"{system} {platform.release()}"
    if system == "Darwin":
        name = f"macOS {macos_version()}"
    elif system == "Linux":
        with suppress(OSError):
            name = platform.freedesktop_os_release().get("PRETTY_NAME", name)
    rosetta = " under Rosetta" if is_translated() else ""
    return f"{name} ({platform.machine()}{rosetta})"
