"""The same numbers whatever runs beside a prediction: threads, forks, seeds, tiny numbers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from coremlscope.formats.sample import sample_model
from coremlscope.runtime.engines.base import EngineOptions
from coremlscope.runtime.execution.executable import CompileOptions, Executable, compile_model
from tests.support.ir_models import adder

_IMAGE = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
_TINY = np.float32(1e-40)
_FORKED_S = 20
#: Prints a digest of everything that follows from a seed: weights, inputs, and what is predicted from them.
_SEEDED = """
import hashlib
import tempfile
from pathlib import Path
import numpy as np
from coremlscope.runtime.execution.executable import CompileOptions, compile_model
from coremlscope.model.features import dummy_values
from coremlscope.formats.sample import sample_model
from tests.support.ir_models import absent_weights, perceptron
digest = hashlib.sha256()
for model in (sample_model(3, size=32, width=0.25, classes=2), absent_weights(perceptron())):
    values = dummy_values(model.description.main, seed=5)
    with tempfile.TemporaryDirectory() as folder:
        executable = compile_model(model, Path(folder), options=CompileOptions(random_weights=7))
        results = executable.predict(values)
        executable.close()
    for name, value in {**values, **results}.items():
        digest.update(f"{name} {np.asarray(value).tolist()}".encode())
print(digest.hexdigest())
"""


def _compiled(folder: Path, threads: int) -> Executable:
    model = sample_model(size=64, width=0.5, classes=20)
    return compile_model(model, folder, options=CompileOptions(engine_options=EngineOptions(threads)))


def _predict(executable: Executable) -> list[float]:
    _, probabilities = executable.predict({"image": _IMAGE}).values()
    return list(probabilities.values())


def test_numbers_do_not_depend_on_threads(tmp_path: Path) -> None:
    results = [_predict(_compiled(tmp_path / str(threads), threads)) for threads in (1, 2, 3, 8)]
    assert all(result == results[0] for result in results)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_fork_predicts_the_same(tmp_path: Path) -> None:
    executable = _compiled(tmp_path, 2)
    expected = _predict(executable)
    child = os.fork()
    if child == 0:
        signal.alarm(_FORKED_S)  # ends a child that waits for threads that it does not have
        os._exit(0 if _predict(executable) == expected else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert _predict(executable) == expected


@pytest.mark.parametrize("threads", [1, 3])
def test_tiny_numbers_are_not_flushed_to_zero(threads: int, tmp_path: Path) -> None:
    options = CompileOptions(engine_options=EngineOptions(threads))
    executable = compile_model(adder(), tmp_path, function="times", options=options)
    result = executable.predict({"x": np.full((2, 3), _TINY, np.float32)})["y"]
    np.testing.assert_array_equal(result, np.full((2, 3), _TINY * np.float32(3)))
    assert result.all()


def test_a_seed_decides_everything(capsys: pytest.CaptureFixture[str]) -> None:
    """Another process, with another order of sets, finds the same numbers."""
    exec(_SEEDED, {})
    other = subprocess.run(
        [sys.executable, "-c", _SEEDED],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert other.stderr == ""
    assert capsys.readouterr().out == other.stdout
