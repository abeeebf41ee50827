"""Writes the runner: an Xcode project and a Swift package over the same sources, and what they measure."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path

from coremlscope.errors import OutputError, UsageError
from coremlscope.ir import Model
from coremlscope.measure.coreml.devicectl import check_team
from coremlscope.runner.pbxproj import PROJECT, project_file, scheme_file
from coremlscope.runner.request import RunnerSettings, write_payload

__all__ = ["default_bundle_id", "write_runner"]

_SOURCES = "Sources"
_BUNDLE_ID = re.compile(r"[A-Za-z][A-Za-z0-9-]*(\.[A-Za-z0-9-]+)+")


def write_runner(
    folder: Path, models: Sequence[Model], settings: RunnerSettings, *, team: str = "", bundle_id: str = ""
) -> str:
    """Writes a project that builds the runner for iPhone and iPad, and as a command for the Mac.

    Args:
        folder: The folder of the project; it is created. A runner that is already there is replaced.
        models: The models, each from a file.
        settings: What is measured.
        team: The development team that signs the app; empty to choose it in Xcode.
        bundle_id: The identifier of the app; empty for one that follows from the team.

    Returns:
        The id of the request, which the results repeat.

    Raises:
        UsageError: The folder holds something else, or a name is malformed.
        EngineError: A model is only in memory.
        InputError: A shape is not allowed.
        OutputError: The folder cannot be written.
    """
    if team:
        check_team(team)
    bundle_id = bundle_id or default_bundle_id(team)
    if not _BUNDLE_ID.fullmatch(bundle_id):
        raise UsageError(f"{bundle_id!r} is not the identifier of an app", "write it like com.example.runner")
    _check_folder(folder)
    id_ = write_payload(folder / "Payload", models, settings)
    try:
        names = _write_sources(folder)
        project = folder / f"{PROJECT}.xcodeproj"
        schemes = project / "xcshareddata" / "xcschemes"
        schemes.mkdir(parents=True, exist_ok=True)
        (project / "project.pbxproj").write_text(project_file(names, bundle_id, team), encoding="utf-8")
        (schemes / f"{PROJECT}.xcscheme").write_text(scheme_file(), encoding="utf-8")
        (folder / "Package.swift").write_text(_PACKAGE, encoding="utf-8")
    except OSError as error:
        raise OutputError(
            f"{folder} cannot be written: {error.strerror or error}", "choose another folder"
        ) from error
    return id_


def default_bundle_id(team: str) -> str:
    """Returns the identifier of the app. An identifier belongs to the team that uses it first."""
    return f"coremlscope.runner.{team.lower()}" if team else "coremlscope.runner"


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file", "give a folder for the project")
    is_ours = (folder / f"{PROJECT}.xcodeproj").is_dir()
    if not is_ours and folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"the folder {folder} is not empty", "give a new folder for the project")


def _write_sources(folder: Path) -> list[str]:
    """Writes the Swift files and returns their names."""
    target = folder / _SOURCES
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    names = []
    for name, content in _sources():
        (target / name).write_bytes(content)
        names.append(name)
    return names


def _sources() -> Iterator[tuple[str, bytes]]:
    found = resources.files("coremlscope.runner") / "sources"
    for file in sorted(found.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".swift"):
            yield file.name, file.read_bytes()


_PACKAGE = f"""\
// swift-tools-version: 5.9
import PackageDescription

// The command for a Mac: swift run -c release {PROJECT} Payload Results
let package = Package(
    name: "{PROJECT}",
    platforms: [.macOS(.v14)],
    targets: [.executableTarget(name: "{PROJECT}", path: "{_SOURCES}")]
)
"""
