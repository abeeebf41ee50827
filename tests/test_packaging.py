"""Contents of an installed coremlscope."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import coremlscope

_ROOT = Path(__file__).resolve().parents[1]
_REQUIREMENTS = _ROOT / "requirements"


def _pins(purpose: str) -> dict[str, str]:
    """Version of each package pinned in a requirements file."""
    text = (_REQUIREMENTS / f"{purpose}.txt").read_text(encoding="utf-8")
    return {
        canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.M)
    }


def test_the_version_is_one() -> None:
    assert importlib.metadata.version("coremlscope") == coremlscope.__version__


def test_type_marker_and_schema_lie_beside_the_code() -> None:
    package = files("coremlscope")
    assert package.joinpath("py.typed").is_file()
    assert package.joinpath("schema", "coreml.binpb").is_file()
    assert package.joinpath("runner", "sources", "App.swift").is_file()


@pytest.mark.parametrize("purpose", ["build", "runtime", "dev"])
def test_every_pin_is_hashed(purpose: str) -> None:
    text = (_REQUIREMENTS / f"{purpose}.txt").read_text(encoding="utf-8")
    blocks = re.split(r"^(?=[A-Za-z])", text, flags=re.M)[1:]
    assert blocks
    assert not [block.splitlines()[0] for block in blocks if "--hash=sha256:" not in block]


def test_the_pins_agree_and_satisfy_the_project() -> None:
    runtime, dev, build = _pins("runtime"), _pins("dev"), _pins("build")
    assert runtime.items() <= dev.items()
    assert {name: dev[name] for name in dev.keys() & build.keys()}.items() <= build.items()
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {"runtime": project["dependencies"], "dev": project["optional-dependencies"]["coreml"]}
    for purpose, requirements in needed.items():
        pins = _pins(purpose)
        for requirement in map(Requirement, requirements):
            assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement


def test_the_command_needs_neither_coremltools_nor_torch() -> None:
    assert not _pins("runtime").keys() & {"coremltools", "torch"}
