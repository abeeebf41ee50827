"""Runs `xcrun devicectl`, which reaches iPhones and iPads from a Mac: its answers and its failures.

The form of the answers: published outputs of Xcode 15 to 27 (dotnet/macios #26482, expo/expo PR 48001). From
version 5 on, `properties` replaces the three dictionaries whose names end in `Properties`; both are read.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from coremlscope.base.errors import EngineError, MissingDependencyError, UsageError
from coremlscope.base.processes.endings import KnownFailure, find_failure
from coremlscope.base.scratch import scratch_folder

_TIMEOUT_S = 60.0
#: How long a phone may take to open the connection over which it is used.
_WAKE_S = 30.0
#: States of the connection in which a device cannot be used. `disconnected` is not among them: it is the
#: resting state, and the connection is opened on demand (Mentra-Community/MentraOS PR 3212).
_UNREACHABLE = ("unavailable",)
_READY = "connected"
_KINDS = ("iphone", "ipad")
#: Form of Apple's identifiers of teams.
_TEAM = re.compile(r"[A-Z0-9]{10}")
_HINT = "connect it by cable, unlock it, and trust this Mac on it"

_FAILURES: tuple[KnownFailure, ...] = (
    KnownFailure(
        r"not, or could not be, unlocked|device is locked|[Pp]asscode protected|\(?Locked\)?\.?$",
        "the device is locked",
        "unlock it, keep its screen on, and run it again",
    ),
    KnownFailure(
        r"[Dd]eveloper [Mm]ode",
        "developer mode is off on the device",
        "switch it on in Settings > Privacy & Security > Developer Mode",
    ),
    KnownFailure(
        r"not been explicitly trusted|invalid code signature|inadequate entitlements",
        "the device does not trust the developer of the app",
        "trust the developer in Settings > General > VPN & Device Management on the device",
    ),
    KnownFailure(
        r"ApplicationVerificationFailed|0xe8008\w+|[Pp]rovisioning profile",
        "",
        "the app is not signed for this device: use --team with a team to which the device belongs",
    ),
    KnownFailure(
        r"[Mm]aximum number of (installed )?apps|3 apps|MIFreeProfileValidatedAppTracker",
        "the device has as many apps of a free development team as are allowed",
        "remove one of them from the device",
    ),
    KnownFailure(
        r"device was not found|No such device|not connected|not paired|[Pp]airing",
        "",
        _HINT,
    ),
    KnownFailure(
        r"disk image|DDI",
        "",
        "open Xcode once with the device connected, so that it prepares the device for development",
    ),
    KnownFailure(
        r"No space left|[Ii]nsufficient.*(space|storage)", "the device's storage is full", "free some of it"
    ),
)


class Phone(msgspec.Struct, frozen=True, kw_only=True):
    """An iPhone or iPad known to this Mac.

    Attributes:
        name: The name that its owner gave it.
        identifier: The identifier of CoreDevice, which devicectl takes.
        udid: Its hardware identifier.
        model: `iPhone 15 Pro`; empty where unknown.
        system: `iOS 18.2`; empty where unknown.
        state: The state of its connection: `connected`, `disconnected`, `unavailable`, …
        developer_mode: `enabled`, `disabled`; empty where unknown.
    """

    name: str
    identifier: str
    udid: str
    model: str
    system: str
    state: str
    developer_mode: str


def check_team(team: str) -> None:
    """Checks the form of the identifier of a development team.

    Raises:
        UsageError: It is empty or malformed.
    """
    if not _TEAM.fullmatch(team):
        raise UsageError(
            f"{team!r} is not the identifier of a development team"
            if team
            else "no development team is given",
            "use --team ID with the ten letters and digits that the membership page of your Apple account"
            " shows: --team A1B2C3D4E5",
        )


def devicectl_command(*arguments: str) -> list[str]:
    """Returns the command line of devicectl with these arguments."""
    return ["xcrun", "devicectl", *arguments]


def ask(*arguments: str, timeout_s: float = _TIMEOUT_S) -> Mapping[str, Any]:
    """Runs devicectl and returns the result of its JSON answer.

    Args:
        *arguments: The subcommand with its options.
        timeout_s: Seconds until it is given up.

    Raises:
        MissingDependencyError: Xcode's tools are not installed.
        EngineError: It failed or took too long.
    """
    with scratch_folder() as folder:
        answer = Path(folder) / "answer.json"
        command = devicectl_command(*arguments, "--json-output", str(answer))
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
            )
        except FileNotFoundError:
            raise MissingDependencyError(
                "xcrun is not installed, and with it Xcode's devicectl", "install Xcode 16 or newer"
            ) from None
        except subprocess.TimeoutExpired:
            raise EngineError(
                f"devicectl {' '.join(arguments[:3])} took more than {timeout_s:.0f} s", _HINT
            ) from None
        reported = _read(answer)
    if done.returncode or reported.get("error"):
        said = done.stderr.decode("utf-8", "replace")
        raise explain_failure(reported, said, f"devicectl ended with code {done.returncode}")
    result = reported.get("result")
    return result if isinstance(result, Mapping) else {}


def _read(path: Path) -> Mapping[str, Any]:
    try:
        reported = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return reported if isinstance(reported, Mapping) else {}


def explain_failure(reported: Mapping[str, Any], said: str, otherwise: str) -> EngineError:
    """Returns the error for a failure of devicectl.

    Args:
        reported: Its JSON answer; empty where there is none.
        said: What it wrote to its standard error.
        otherwise: What to say where it explained nothing.
    """
    lines = list(dict.fromkeys(_sentences(reported.get("error"))))
    lines += [" ".join(line.split()) for line in said.splitlines() if line.strip()]
    text, hint = find_failure(_FAILURES, lines)
    cited = lines[0].removeprefix("ERROR: ") if lines else otherwise
    return EngineError(f"the device cannot be used: {text or cited}".rstrip("."), hint or _HINT)


def _sentences(error: object, depth: int = 0) -> Iterator[str]:
    """Yields the texts of an error and of those that caused it."""
    if not isinstance(error, Mapping) or depth > 8:
        return
    known = error.get("userInfo")
    known = known if isinstance(known, Mapping) else {}
    for key in ("NSLocalizedDescription", "NSLocalizedFailureReason", "NSLocalizedRecoverySuggestion"):
        value = known.get(key)
        text = value.get("string") if isinstance(value, Mapping) else value
        if isinstance(text, str):
            yield text
    cause = known.get("NSUnderlyingError")
    yield from _sentences(cause.get("error") if isinstance(cause, Mapping) else None, depth + 1)


def list_phones() -> list[Phone]:
    """Returns the iPhones and iPads known to this Mac, by identifier; simulators are left out.

    Raises:
        MissingDependencyError: Xcode's tools are not installed.
        EngineError: devicectl failed.
    """
    devices = ask("list", "devices").get("devices")
    found = [_phone(device) for device in devices or () if isinstance(device, Mapping)]
    return sorted((phone for phone in found if phone is not None), key=lambda phone: phone.identifier)


def _phone(device: Mapping[str, Any]) -> Phone | None:
    known: dict[str, str] = {}
    for key in ("properties", "hardwareProperties", "deviceProperties", "connectionProperties"):
        known = {**known, **dict(_texts(device.get(key)))}
    is_physical = known.get("reality", "physical") == "physical"
    if known.get("deviceType", "").casefold() not in _KINDS or not is_physical:
        return None
    system = " ".join(filter(None, (known.get("platform", ""), known.get("osVersionNumber", ""))))
    return Phone(
        name=known.get("name", ""),
        identifier=str(device.get("identifier", "")),
        udid=known.get("udid", ""),
        model=known.get("marketingName", ""),
        system=system if "osVersionNumber" in known else "",
        state=known.get("tunnelState", "unknown"),
        developer_mode=known.get("developerModeStatus", ""),
    )


def _texts(value: object, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yields the texts in nested dictionaries by their keys, inner ones first."""
    if not isinstance(value, Mapping) or depth > 4:
        return
    for inner in value.values():
        yield from _texts(inner, depth + 1)
    for key, text in value.items():
        if isinstance(text, str):
            yield key, text


def wake(identifier: str) -> None:
    """Wakes a reachable device; the list of devices then shows whether it is connected."""
    try:
        ask("device", "info", "details", "--device", identifier, timeout_s=_WAKE_S)
    except (EngineError, MissingDependencyError):
        # The list shows whether the device is there.
        return


def ready_phone(name: str) -> Phone:
    """Returns the iPhone or iPad that is meant, once its connection is open.

    Args:
        name: A name, identifier or UDID; or `any` for the first device that is connected or can be.

    Raises:
        UsageError: There is no such device, there are several, or it is not ready.
        EngineError: The devices cannot be listed.
    """
    phone = _choose(list_phones(), name)
    if phone.state != _READY:
        wake(phone.identifier)
        phone = _choose(list_phones(), phone.identifier)
    if phone.state != _READY:
        raise UsageError(f"{phone.name!r} is not connected but {phone.state}, and could not be woken", _HINT)
    if phone.developer_mode == "disabled":
        raise UsageError(
            f"developer mode is off on {phone.name!r}; see Settings > Privacy & Security > Developer Mode"
        )
    return phone


def _choose(phones: Sequence[Phone], name: str) -> Phone:
    reachable = [phone for phone in phones if phone.state not in _UNREACHABLE]
    if name == "any":
        meant = sorted(reachable, key=lambda phone: phone.state != _READY)[:1]
    else:
        meant = [p for p in phones if _plain(name) in map(_plain, (p.name, p.identifier, p.udid))]
    if len(meant) > 1:
        known = ", ".join(phone.identifier for phone in meant)
        raise UsageError(f"several devices are called {name!r}; use an identifier: {known}")
    if not meant:
        known = ", ".join(repr(phone.name) for phone in reachable) or "none"
        wanted = "iPhone or iPad" if name == "any" else f"iPhone or iPad {name!r}"
        raise UsageError(f"there is no connected {wanted}; connected: {known}", _HINT)
    if meant[0].state in _UNREACHABLE:
        raise UsageError(f"{meant[0].name!r} is not connected but {meant[0].state}", _HINT)
    return meant[0]


def _plain(name: str) -> str:
    """A name however it is typed: systems write the apostrophe of `Ann's iPhone` as a curly one."""
    return name.casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
