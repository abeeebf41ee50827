"""Libraries of others leave no files behind and open no sockets."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import coremlscope
from coremlscope.base.libraries import LIBRARIES
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


def test_every_library_is_listed_and_those_that_send_are_imported_quietly() -> None:
    package = Path(coremlscope.__file__).parent
    noisy = {name for name, silenced in LIBRARIES.items() if any(silenced)}
    imported: set[str] = set()
    for path in package.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            tops = {name.partition(".")[0] for name in names}
            imported |= tops
            # A submodule is imported after its library.
            assert not noisy & set(names), f"{path}:{node.lineno} imports a library that sends something"
    assert imported - sys.stdlib_module_names - {"coremlscope"} <= LIBRARIES.keys()


@pytest.mark.parametrize("name", [name for name, silenced in LIBRARIES.items() if any(silenced)])
def test_an_import_writes_and_looks_up_nothing(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    home = private_home(tmp_path)
    script = (
        "import sys, time\n"
        "seen = []\n"
        "sys.addaudithook(lambda event, _: seen.append(event) if event.startswith('socket.') else None)\n"
        f"from coremlscope.base.libraries import import_quietly\nimport_quietly({name!r})\n"
        "time.sleep(0.5)\n"  # for what threads do
        "print(seen)\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, cwd=home.work, env=home.variables, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
    assert home.strangers() == []
