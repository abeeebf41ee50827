"""Tells `make` whether this Python suits the project; if not, it prints why and exits with 1.

It is run by every `python3` that a machine may have, so that it uses nothing that an old one lacks.
"""

import platform
import subprocess
import sys

FIRST, LAST = (3, 11), (3, 13)
#: The oldest macOS for which ONNX Runtime and ONNX, as pinned, have wheels.
MACOS = 14


def sysctl(name):
    """Returns a value of macOS's `sysctl`; empty where it has none."""
    try:
        said = subprocess.check_output(["/usr/sbin/sysctl", "-n", name], stderr=subprocess.PIPE)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return said.decode().strip()


def objection():
    """Returns why this Python does not suit; empty if it does."""
    if not FIRST <= sys.version_info[:2] <= LAST:
        return "it is Python " + ".".join(map(str, sys.version_info[:2]))
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError as error:
        return "it has no venv: " + str(error)
    return mac_objection() if sys.platform == "darwin" else ""


def mac_objection():
    """Returns why this Python of a Mac does not suit; empty if it does."""
    if platform.machine() != "arm64":
        if sysctl("sysctl.proc_translated") == "1" or sysctl("hw.optional.arm64") == "1":
            return (
                "it is a program for Intel Macs, which Rosetta translates: use a Python for Apple silicon,"
                " and a terminal that is not opened under Rosetta"
            )
        return (
            "this is an Intel Mac, for which ONNX Runtime as pinned has no wheels: an older one has, with"
            " `python3 -m venv .venv && .venv/bin/pip install '.[coreml]'`"
        )
    version = platform.mac_ver()[0]
    major = int(version.split(".")[0]) if version.split(".")[0].isdigit() else MACOS
    # Programs built with an old SDK are told that every newer system is 10.16.
    if major < MACOS and version != "10.16":
        return "ONNX Runtime as pinned has wheels for macOS " + str(MACOS) + " and newer: this is " + version
    return ""


if __name__ == "__main__":
    reason = objection()
    print(reason)
    sys.exit(1 if reason else 0)
