"""Profiles a model, adds devices to its profile, or imports a file, in a process of its own.

After each repetition it sends `{"phase": "predict", "done": 3, "total": 50}`, and if it fails
`{"error": "…", "hint": "…"}`; the profile of a model that could not be run has no measurement. It holds
itself to the limits of the request, and ends with the server.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec.structs

from coremlscope import api
from coremlscope.api.assemble import with_devices
from coremlscope.api.imported import read_any
from coremlscope.api.own_measurements.using import use_own
from coremlscope.base.errors import known_error
from coremlscope.base.findings import Finding
from coremlscope.base.processes.channel import open_channel, send
from coremlscope.base.processes.limits import end_with_parent, hold_to_limits
from coremlscope.devices import find_device
from coremlscope.interop.archive import unpack_report
from coremlscope.model.subject import Subject
from coremlscope.results.profile import Profile, write_profiles
from coremlscope.runtime.execution.sequence_lengths import choose_lengths

#: Names of models; a `.zip` is a package, unless it contains a report of Xcode. Other files are imported.
_ARCHIVE, _PACKAGES = ".zip", (".mlpackage", ".mlmodelc", ".aimodel")
MODEL_SUFFIXES = (".mlmodel", ".mlpackage", _ARCHIVE)


def main(arguments: list[str]) -> int:
    """Profiles a model, or imports a file.

    Args:
        arguments: The model or the file, the file to write, and the request as JSON: `iterations`, `devices`,
            `compute_units`, `random_weights`, `limits`; for an imported file the first device is the one that
            it is from, with the system `os`. With `profile`, the name of a saved profile of the model, plans
            and estimates for `devices` are added to it, and nothing is measured.

    Returns:
        The exit code.
    """
    model, target, request = Path(arguments[0]), Path(arguments[1]), json.loads(arguments[2])
    if "limits" in request:
        hold_to_limits(**request["limits"])
    try:
        if "profile" in request:
            made: Sequence[Profile] = [_planned(model, request)]
        else:
            made = _imported(model, request) or [_profiled(model, request)]
        write_profiles(target, made)
        for failure in (_failure(profile) for profile in made):
            if failure is not None:
                send(error=failure.text, hint=failure.hint)
    except Exception as error:
        known = known_error(error, model.name)
        send(error=known.message, hint=known.hint)
        return known.exit_code
    return 0


def _imported(path: Path, request: Mapping[str, Any]) -> Sequence[Profile]:
    """Returns the profiles of a file that is imported, or that coremlscope saved; none for a model."""
    file = unpack_report(path, path.parent) if zipfile.is_zipfile(path) else path
    if file is None or file.suffix.lower() in MODEL_SUFFIXES:
        return ()
    device = next(iter(request.get("devices", ())), None)
    system = request.get("os") or None
    return read_any(file, device=device, system=system, progress=_report_progress)


def _planned(model: Path, request: Mapping[str, Any]) -> Profile:
    """Returns a saved profile with plans and estimates for other devices."""
    (profile,) = read_any(request["profile"])
    read, devices = api.read(model), [find_device(name) for name in request["devices"]]
    shapes = choose_lengths(read, read.description.default, {})
    own, _ = use_own()
    return with_devices(profile, read, devices, shapes=shapes, own=own)


def _profiled(model: Path, request: Mapping[str, Any]) -> Profile:
    """Returns the profile of a model; that of a package in an archive has the name of the package."""
    profile = api.profile(
        Subject(model, random_weights=bool(request.get("random_weights", False))),
        iterations=int(request.get("iterations", 50)),
        devices=tuple(request.get("devices", ())),
        compute_units=request.get("compute_units", "all"),
        engine="onnxruntime",
        progress=_report_progress,
        keeps_failed=True,
    )
    path = profile.model.path
    name = path[: -len(_ARCHIVE)] if path.lower().endswith(_ARCHIVE) else path
    if not name.lower().endswith(_PACKAGES):
        return profile
    return msgspec.structs.replace(profile, model=msgspec.structs.replace(profile.model, path=name))


def _failure(profile: Profile) -> Finding | None:
    """Returns why the model of a profile was not measured at all; None if it was, or was not to be."""
    if profile.measurements:
        return None
    return next((one for one in profile.findings if one.id == "not-measured"), None)


def _report_progress(phase: str, done: int, total: int) -> None:
    send(phase=phase, done=done, total=total)


if __name__ == "__main__":
    open_channel()
    end_with_parent()
    sys.exit(main(sys.argv[1:]))
