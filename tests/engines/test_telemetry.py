"""ONNX Runtime leaves no files behind and opens no sockets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.private_home import private_home

#: Compiles into the cache and predicts; prints what Python's audit hooks see of sockets.
_SCRIPT = """
import sys
seen = []
sys.addaudithook(lambda event, arguments: seen.append(event) if event.startswith("socket.") else None)
import numpy as np
import coremlscope
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
write_mlpackage(sample_model(size=32, width=0.25, classes=2), "m.mlpackage")
with coremlscope.open("m.mlpackage") as predictor:
    predictor.predict({"image": np.zeros((1, 3, 32, 32), np.uint8)})
print(seen)
"""


def test_nothing_but_the_cache_is_written(tmp_path: Path) -> None:
    home = private_home(tmp_path)
    command = [sys.executable, "-c", _SCRIPT]
    done = subprocess.run(
        command, cwd=home.work, env=home.variables, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "[]\n")
    assert home.strangers() == []
    assert {path.name for path in home.work.iterdir()} == {"m.mlpackage"}


def test_the_engine_is_imported_in_one_place() -> None:
    """An import elsewhere would write the files before telemetry is forbidden."""
    package = Path(__file__).parents[2] / "src" / "coremlscope"
    lines = [
        (path.relative_to(package).as_posix(), line.strip())
        for path in package.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.lstrip().startswith(("import onnxruntime", "from onnxruntime"))
    ]
    assert lines == [("runtime/engines/onnxruntime.py", "import onnxruntime")]
