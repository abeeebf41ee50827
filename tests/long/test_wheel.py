"""The wheel, built and installed in an empty environment."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]


def _run(*command: str | Path) -> str:
    finished = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, cwd="/"
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of a fresh environment in which the built wheel is installed."""
    folder = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "build", "--wheel", "--outdir", folder / "dist", _ROOT)
    venv.create(folder / "venv", with_pip=True)
    binaries = folder / "venv" / "bin"
    [wheel] = (folder / "dist").glob("coremlscope-*.whl")
    _run(binaries / "python", "-m", "pip", "install", "--quiet", wheel)
    return binaries


def test_the_wheel_brings_no_coremltools(environment: Path) -> None:
    installed = _run(environment / "python", "-m", "pip", "list", "--format=freeze").lower()
    assert "coremlscope==" in installed
    assert "coremltools" not in installed
    assert "torch" not in installed


def test_the_wheel_carries_types_schema_and_licences(environment: Path) -> None:
    names = {path.name for path in (environment.parent / "lib").rglob("coremlscope*/**/*")}
    assert {"py.typed", "coreml.binpb", "LICENSE", "NOTICE"} <= names


def test_the_wheel_s_command_inspects_a_model(environment: Path, tmp_path: Path) -> None:
    assert "profile" in _run(environment / "coremlscope", "--help")
    package = tmp_path / "sample.mlpackage"
    script = "import sys; from coremlscope.formats.sample import write_sample; write_sample(sys.argv[1])"
    _run(environment / "python", "-W", "error", "-c", script, package)
    assert "classLabel" in _run(environment / "coremlscope", "inspect", package)


def test_the_wheel_s_import_is_silent(environment: Path) -> None:
    assert _run(environment / "python", "-W", "error", "-c", "import coremlscope") == ""
