"""Verbs over the faulty Mac that may lie beside the checkout: each names setting and phase, and keeps others.

It answers as coremltools does on a Mac, in the command itself and in its children; see its README.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest

from coremlscope.base.errors import EngineError, LimitError
from coremlscope.measure.coreml.units import UNITS_VARIABLE
from tests.support import converted_models

_EVERY = ("--compute-units", "every", "--timeout", "40")
_FEW = ("--iterations", "8", "--compile-iterations", "1", "--load-iterations", "1")
_VERBS: Mapping[str, tuple[str, ...]] = {
    "plan": ("plan", "MODEL", *_EVERY),
    "answer": ("MODEL",),
    "profile": ("profile", "MODEL", *_FEW, *_EVERY),
    "verify": ("verify", "MODEL", "--reference", "MODEL", *_EVERY),
    "isolate": ("isolate", "MODEL", "--range", "..", "-o", "PART", "--iterations", "8", *_EVERY),
    "compare": ("compare", "MODEL", "MODEL", *_FEW, *_EVERY),
    "predict": ("predict", "MODEL", "--input", "x=VALUES", "--engine", "coreml", "--timeout", "40"),
}
#: The settings with a whole result, in the JSON of a verb.
_KEPT: Mapping[str, Callable[[Any], set[str]]] = {
    "profile": lambda found: {
        one["compute_units"] for one in found["measurements"] if not one.get("partial")
    },
    "verify": lambda found: {one["run"] for one in found["outputs"] if one["passed"]} - {"fp32", "fp16"},
    "isolate": lambda found: set(found["outputs"][0]["difference"]) - {"here"},
}
#: The phase of each fault, which is one of settings with the Neural Engine, in verbs that time.
_PHASES = {
    "hang-load": "first load",
    "kill-load": "first load",
    "abort-load": "first load",
    "ne-predict": "warm-up",
    "abort-predict": "warm-up",
}
_SOUND = {"cpu_and_gpu", "cpu_only"}
#: The exit codes of failures of Core ML, with that of outputs that were not compared.
_CODES = {EngineError.exit_code, LimitError.exit_code, 11}
_QUICK = {("predict", "abort-load"), ("verify", "ne-predict")}
#: More than a verb may take: a first answer measures for half a minute, the others for 40 s a setting.
_PATIENCE_S = 600


@pytest.fixture(scope="module")
def faulty_mac(pytestconfig: pytest.Config) -> Path:
    script = pytestconfig.rootpath.parent / "shared" / "mac" / "run.sh"
    if sys.platform != "linux" or not script.is_file():
        pytest.skip(f"no faulty Mac at {script}")
    return script


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "mlp.mlpackage"
    converted_models.mlp(precision=ct.precision.FLOAT16).save(str(path))
    return path


def _run(script: Path, fault: str, verb: str, package: Path, folder: Path) -> tuple[int, str, Any]:
    """Returns the exit code of a verb, all that it printed, and its JSON, if there is any."""
    values, answer = folder / "x.npy", folder / "answer.json"
    np.save(values, np.zeros((2, 8), np.float32))
    given = {"MODEL": str(package), "PART": str(folder / "part.mlpackage"), "x=VALUES": f"x={values}"}
    command = [str(script), *(given.get(word, word) for word in _VERBS[verb]), "--json", str(answer)]
    environment = {**os.environ, "FAULT": fault, "PYTHON": sys.executable}
    environment.pop(UNITS_VARIABLE, None)
    done = subprocess.run(
        command, env=environment, cwd=Path(__file__).parents[3], capture_output=True, timeout=_PATIENCE_S
    )
    said = (done.stdout + done.stderr).decode()
    text = answer.read_text(encoding="utf-8") if answer.exists() else "null"
    assert "Traceback" not in said
    return done.returncode, " ".join(f"{said} {text}".split()), json.loads(text)


@pytest.mark.parametrize(
    ("verb", "fault"),
    [
        pytest.param(verb, fault, marks=() if (verb, fault) in _QUICK else pytest.mark.long)
        for verb in _VERBS
        if verb != "plan"
        for fault in _PHASES
    ],
)
def test_a_fault_costs_its_settings(
    verb: str, fault: str, faulty_mac: Path, package: Path, tmp_path: Path
) -> None:
    code, said, found = _run(faulty_mac, fault, verb, package, tmp_path)
    is_timed = verb in ("answer", "profile", "compare")
    phase = _PHASES[fault] if is_timed else _PHASES[fault].replace("warm-up", "predict")
    for setting in ("all",) if verb in ("answer", "predict") else ("all", "cpu_and_ne"):
        assert f"Core ML under {setting} " in said
    assert f"(phase: {phase})" in said
    assert code in _CODES
    if verb in _KEPT:
        assert _KEPT[verb](found) == _SOUND
    if verb == "answer":
        assert found["answers"]


@pytest.mark.parametrize("fault", ["hang-plan", "kill-plan", "abort-plan", "plan-error"])
@pytest.mark.parametrize(
    "verb", [pytest.param("plan", marks=pytest.mark.long), pytest.param("profile", marks=pytest.mark.long)]
)
def test_a_plan_that_fails_costs_itself(
    verb: str, fault: str, faulty_mac: Path, package: Path, tmp_path: Path
) -> None:
    code, said, found = _run(faulty_mac, fault, verb, package, tmp_path)
    assert "loading the compute plan under all " in said
    assert "(phase: plan)" in said
    if verb == "plan":
        assert code in _CODES
    else:
        assert code == 0
        assert _KEPT[verb](found) == {"all", "cpu_and_ne", *_SOUND}


@pytest.mark.parametrize("fault", ["nan", "missing", "shape2"])
@pytest.mark.parametrize("verb", [pytest.param("verify", marks=pytest.mark.long)])
def test_wrong_outputs_are_no_agreement(
    verb: str, fault: str, faulty_mac: Path, package: Path, tmp_path: Path
) -> None:
    code, _, found = _run(faulty_mac, fault, verb, package, tmp_path)
    assert code == 11
    assert _KEPT[verb](found) == (_SOUND if fault == "nan" else set())
