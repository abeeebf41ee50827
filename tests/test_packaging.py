"""Contents of an installed coremlscope."""

from __future__ import annotations

import importlib.metadata
import re
import runpy
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import coremlscope
from coremlscope.base.site import SITE

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
    assert package.joinpath("model", "schema", "coreml.binpb").is_file()
    assert package.joinpath("measure", "runner", "sources", "App.swift").is_file()


@pytest.mark.parametrize("purpose", ["build", "runtime", "dev", "coreml", "docs", "mcp"])
def test_every_pin_is_hashed(purpose: str) -> None:
    text = (_REQUIREMENTS / f"{purpose}.txt").read_text(encoding="utf-8")
    blocks = re.split(r"^(?=[A-Za-z])", text, flags=re.M)[1:]
    assert blocks
    assert not [block.splitlines()[0] for block in blocks if "--hash=sha256:" not in block]


def test_the_pins_agree_and_satisfy_the_project() -> None:
    runtime, dev, build, coreml = _pins("runtime"), _pins("dev"), _pins("build"), _pins("coreml")
    assert runtime.items() <= dev.items()
    assert coreml.items() <= dev.items()
    assert {name: dev[name] for name in dev.keys() & build.keys()}.items() <= build.items()
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {"runtime": project["dependencies"], "coreml": project["optional-dependencies"]["coreml"]}
    for purpose, requirements in needed.items():
        pins = _pins(purpose)
        for requirement in map(Requirement, requirements):
            assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement


def test_the_package_index_gets_a_readme_without_links_into_the_repository() -> None:
    absolute_links = runpy.run_path(str(_ROOT / "tools" / "long_description.py"))["absolute_links"]
    written = (_ROOT / "README.md").read_text(encoding="utf-8")
    pages = re.findall(r"\]\(docs/([\w/-]+)\.md\)", written)
    links = re.findall(r"\]\(([^)\s]+)\)", absolute_links(written))
    assert pages
    assert len(links) == len(re.findall(r"\]\(", written))
    assert not [link for link in links if not link.startswith("https://")]
    assert {f"{SITE}{page}/" for page in pages} <= set(links)


def test_the_command_needs_neither_coremltools_nor_torch() -> None:
    assert not _pins("runtime").keys() & {"coremltools", "torch"}


@pytest.mark.parametrize(
    ("platform", "machine", "sysctls", "macos", "why"),
    [
        ("linux", "x86_64", {}, "", ""),
        ("darwin", "arm64", {}, "15.1", ""),
        ("darwin", "arm64", {}, "10.16", ""),
        ("darwin", "arm64", {}, "13.6", "macOS 14"),
        ("darwin", "x86_64", {}, "14.5", "Intel Mac"),
        ("darwin", "x86_64", {"sysctl.proc_translated": "1"}, "15.1", "Rosetta"),
    ],
)
def test_make_says_why_a_python_does_not_suit(
    monkeypatch: pytest.MonkeyPatch,
    platform: str,
    machine: str,
    sysctls: dict[str, str],
    macos: str,
    why: str,
) -> None:
    tool = runpy.run_path(str(_ROOT / "tools" / "suitable_python.py"))
    objection = tool["objection"]
    monkeypatch.setitem(objection.__globals__, "sysctl", lambda name: sysctls.get(name, ""))
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("platform.mac_ver", lambda: (macos, ("", "", ""), machine))
    assert why in objection()
    assert bool(objection()) == bool(why)
