"""Integrations: the pytest plugin, the GitHub action and the pre-commit hook."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from coremlscope import pytest_plugin
from coremlscope.cli import VERBS
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model

_ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plugin") / "sample.mlpackage"
    write_mlpackage(sample_model(size=32, width=0.25, classes=4), path)
    return path


def test_the_fixture_fails_a_test_with_what_is_not_kept(model: Path) -> None:
    report = pytest_plugin._check(model, max_size="1GB")
    assert report.models[0].checks[0].verdict == "pass"
    with pytest.raises(pytest.fail.Exception, match="fail: size is"):
        pytest_plugin._check(model, max_size="1 kB")
    with pytest.raises(pytest.fail.Exception, match="does not exist"):
        pytest_plugin._check("absent.mlpackage", max_size="1 kB")
    with pytest.raises(pytest.fail.Exception, match="unknown device 'iphone-99'"):
        pytest_plugin._check(model, max_latency={"iphone-99": "1s"})


def test_the_plugin_is_registered_and_loads_nothing() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"coremlscope": "coremlscope.pytest_plugin"}
    code = (
        "import sys, pytest; before = set(sys.modules); import coremlscope.pytest_plugin;"
        "print(sorted(name for name in set(sys.modules) - before if not name.startswith('coremlscope')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_hook_names_our_command() -> None:
    (hook,) = yaml.safe_load((_ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    program, verb = hook["entry"].split()
    assert verb in VERBS
    scripts = importlib.metadata.entry_points(group="console_scripts")
    assert program in {script.name for script in scripts}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_action_passes_its_inputs_as_they_are(tmp_path: Path) -> None:
    action = yaml.safe_load((_ROOT / "action.yml").read_text(encoding="utf-8"))
    assert action["runs"]["using"] == "composite"
    scripts = [step for step in action["runs"]["steps"] if "run" in step]
    assert not [step for step in scripts if "${{" in step["run"]], "an input would be run as a script"
    known = set(action["inputs"])
    used = {v.split("inputs.")[1].split(" ")[0] for s in scripts for v in s["env"].values() if "inputs." in v}
    assert used | {"python-version"} == known
    fake = tmp_path / "coremlscope"
    fake.write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')
    fake.chmod(0o755)
    given = {
        "MODELS": "a b.mlpackage \n$(touch hacked)\n",
        "LIMITS": "--max-size=20MB\n  --max-latency iphone-13=33ms\n\n--baseline a b.json \n",
        "STRICT": "true",
        "SARIF": "out.sarif",
        "JUNIT": "",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", scripts[-1]["run"]],
        env={**os.environ, **given, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        *("check", "--step-summary", "--max-size=20MB", "--max-latency", "iphone-13=33ms"),
        *("--baseline", "a b.json", "--strict"),
        *("-o", "out.sarif", "--", "a b.mlpackage", "$(touch hacked)"),
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["coremlscope"]
