"""Builds the runner with Xcode, and explains why it cannot be built."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from coremlscope.base.errors import EngineError, MissingDependencyError
from coremlscope.base.processes.endings import KnownFailure, find_failure
from coremlscope.base.writing import open_draft
from coremlscope.measure.runner.project import PROJECT

_BUILD_S = 1800.0
_VERSION_S = 120.0
_LOG = "build.log"
#: The oldest Xcode whose devicectl attaches an app to the console.
_OLDEST = 16
_INSTALL = f"install Xcode {_OLDEST} or newer"
#: Messages of Xcode 15 to 26, as public reports quote them.
_FAILURES: tuple[KnownFailure, ...] = (
    KnownFailure(
        r"requires a development team",
        "no development team signs the app",
        "use --team ID with a team that is in Xcode: Xcode > Settings > Accounts",
    ),
    KnownFailure(
        r"No [Aa]ccounts?\b.*|not logged in|Unable to log in",
        "Xcode has no account for this development team",
        "sign in under Xcode > Settings > Accounts",
    ),
    KnownFailure(
        r"Failed [Rr]egistering [Bb]undle [Ii]dentifier|not available\. Please enter a different string",
        "",
        "another team uses this identifier; write the project with `coremlscope runner --bundle-id`",
    ),
    KnownFailure(
        r"No profiles for|provisioning profile",
        "",
        "check that the team and the device are known under Xcode > Settings > Accounts, and that the Mac is"
        " online",
    ),
    KnownFailure(
        r"Unable to find a (device|destination) matching|destination specifier|is not available because",
        "Xcode does not find the device",
        "connect it by cable, unlock it, and wait until Xcode has prepared it for development",
    ),
    KnownFailure(
        r"(iOS|platform).* is not installed|download and install the platform",
        "",
        "install the platform under Xcode > Settings > Components",
    ),
    KnownFailure(
        r"Developer Mode disabled", "developer mode is off on the device", "switch it on in Settings"
    ),
    KnownFailure(
        r"errSecInternalComponent|User interaction is not allowed", "", "unlock the keychain: log in"
    ),
    KnownFailure(r"No space left on device", "the disk is full", "free disk space"),
)
_ERROR = re.compile(r"(?:^|\s)(?:fatal )?error: (.+)")


def require_xcode() -> str:
    """Returns the version of Xcode.

    Raises:
        MissingDependencyError: It is not installed or too old, or only its command line tools are.
    """
    try:
        done = subprocess.run(
            ["xcodebuild", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_VERSION_S,
            check=False,
        )
    except FileNotFoundError:
        raise MissingDependencyError("Xcode is not installed", _INSTALL) from None
    except subprocess.TimeoutExpired:
        raise MissingDependencyError("xcodebuild does not answer", "open Xcode once") from None
    if done.returncode == 0:
        version = done.stdout.partition("\n")[0].strip()
        number = re.search(r"\d+", version)
        if number is not None and int(number[0]) < _OLDEST:
            raise MissingDependencyError(f"{version} is too old to show what an app prints", _INSTALL)
        return version
    said = " ".join(done.stderr.split())
    if "license" in said:
        raise MissingDependencyError(
            "the license of Xcode is not accepted", "run `sudo xcodebuild -license accept`"
        )
    if "requires Xcode" in said:
        raise MissingDependencyError(
            "only the command line tools are installed, and an app needs Xcode",
            "install Xcode, and run `sudo xcode-select -s /Applications/Xcode.app`",
        )
    raise MissingDependencyError(
        f"Xcode cannot be used: {said[:300] or 'xcodebuild failed'}", "open Xcode once"
    )


def build_app(folder: Path, udid: str, *, timeout_s: float = _BUILD_S) -> Path:
    """Builds the project in a folder for one device, which is registered with the team where that is needed.

    Args:
        folder: The folder that `write_runner` wrote. The products and the log are put into it.
        udid: The hardware identifier of the device.
        timeout_s: Seconds until the build is given up.

    Returns:
        The app.

    Raises:
        EngineError: It cannot be built.
    """
    products, log = folder / "Build", folder / _LOG
    command = [
        *("xcodebuild", "-project", str(folder / f"{PROJECT}.xcodeproj"), "-scheme", PROJECT),
        *("-configuration", "Release", "-destination", f"platform=iOS,id={udid}"),
        *("-destination-timeout", "60", "-derivedDataPath", str(products)),
        *("-allowProvisioningUpdates", "-allowProvisioningDeviceRegistration", "build"),
    ]
    try:
        with open_draft(log) as output:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=False,
            )
    except subprocess.TimeoutExpired:
        raise EngineError(
            f"the build of the app took more than {timeout_s:.0f} s", "open Xcode once"
        ) from None
    if done.returncode:
        raise _explain(log.read_text(encoding="utf-8", errors="replace"), done.returncode)
    app = products / "Build" / "Products" / "Release-iphoneos" / f"{PROJECT}.app"
    if not app.is_dir():
        raise EngineError("xcodebuild made no app", "build the project of `coremlscope runner` in Xcode")
    return app


def _explain(said: str, code: int) -> EngineError:
    """The error for a build that failed: a known reason, or else the first error that the log has."""
    lines = [" ".join(line.split()) for line in said.splitlines() if line.strip()]
    errors = [found.group(1) for line in lines if (found := _ERROR.search(line))]
    text, hint = find_failure(_FAILURES, errors or lines[-50:])
    cited = errors[0][:300] if errors else f"xcodebuild ended with code {code}"
    return EngineError(
        f"the app cannot be built: {text or cited}",
        hint or "open the project of `coremlscope runner` in Xcode, which shows the error in full",
    )
