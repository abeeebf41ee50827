"""Writes the runner: an Xcode project and a Swift package over the same sources, and what they measure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from coremlscope.base.errors import UsageError
from coremlscope.base.writing import check_folder, new_content, write_draft
from coremlscope.measure.runner.devicectl import check_team
from coremlscope.measure.runner.request import RunnerSettings, write_payload
from coremlscope.model.ir import Model

#: The name of the project, its target, its scheme and its product.
PROJECT = "CoreMLScopeRunner"
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
        ModelError: Weights are missing, truncated or of another model.
        OutputError: The folder cannot be written.
    """
    if team:
        check_team(team)
    bundle_id = bundle_id or default_bundle_id(team)
    if not _BUNDLE_ID.fullmatch(bundle_id):
        raise UsageError(f"{bundle_id!r} is not the identifier of an app", "write it like com.example.runner")
    _check_folder(folder)
    project = f"{PROJECT}.xcodeproj"
    with new_content(folder, last=project, create=True) as draft:
        id_ = write_payload(draft / "Payload", models, settings)
        _write_sources(draft / _SOURCES)
        write_draft(draft / "Package.swift", _PACKAGE)
        schemes = draft / project / "xcshareddata" / "xcschemes"
        schemes.mkdir(parents=True)
        write_draft(schemes / f"{PROJECT}.xcscheme", _file("runner.xcscheme").read_bytes())
        text = _file("project.pbxproj").read_text(encoding="utf-8")
        text = text.replace("@BUNDLE_ID@", bundle_id).replace("@TEAM@", team)
        write_draft(draft / project / "project.pbxproj", text)
    return id_


def default_bundle_id(team: str) -> str:
    """Returns the identifier of the app. An identifier belongs to the team that uses it first."""
    return f"coremlscope.runner.{team.lower()}" if team else "coremlscope.runner"


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file", "give a folder for the project")
    check_folder(folder)
    is_ours = (folder / f"{PROJECT}.xcodeproj").is_dir()
    if not is_ours and folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"the folder {folder} is not empty", "give a new folder for the project")


def _write_sources(target: Path) -> None:
    """Writes the Swift files, which `project.pbxproj` lists."""
    target.mkdir()
    for file in _file("").iterdir():
        if file.name.endswith(".swift"):
            write_draft(target / file.name, file.read_bytes())


def _file(name: str) -> Traversable:
    return resources.files("coremlscope.measure.runner") / "sources" / name


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
