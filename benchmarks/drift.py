"""Compares results between versions of ONNX Runtime and between numbers of threads: `make drift`.

Every run is a process of its own that compiles each model, predicts twice from the same synthetic inputs and
writes the outputs. The base is the installed version with one thread. Another version gets an environment
that contains only ONNX Runtime and sees everything else in this one, so that nothing else differs.

A difference is the largest one of an output's elements, relative to the largest magnitude of the base. Up to
the limit it is rounding: other kernels add in another order. Beyond it, and where labels or shapes differ, or
a model runs with one version only, the exit code is 1.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coremlscope.base.errors import CoremlscopeError
from coremlscope.formats.container import read
from coremlscope.formats.sample import write_sample
from coremlscope.model.features import dummy_values, to_tensors
from coremlscope.runtime.engines.base import EngineOptions
from coremlscope.runtime.execution.executable import CompileOptions
from coremlscope.runtime.execution.pipeline import compile_whole
from coremlscope.runtime.execution.wiring import input_functions

__all__ = ["Row", "compare_outputs", "main", "predict_twice"]

_ROOT = Path(__file__).resolve().parents[1]
_CORPUS = _ROOT.parent / "shared" / "corpus"
_OTHER_VERSION = "1.27.0"
_THREADS = (2, 4)
_MODELS = 10
#: The most bytes of a model that is taken from the corpus.
_LARGEST = 30 << 20
#: Rounding of float32 sums in another order, relative to the largest element; deep networks reach 1e-5.
_LIMIT = 1e-4
_SUFFIXES = (".mlmodel", ".mlpackage", ".mlmodelc")

Array = np.ndarray[Any, Any]
Outputs = Mapping[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Differences between two runs of a model.

    Attributes:
        model: The model's file name.
        run: The run that is compared with the base.
        difference: The largest difference of an output; infinite where shapes, labels or finiteness differ.
        same: How many outputs are equal, bit for bit.
        outputs: How many outputs there are.
        problem: Why the runs cannot be compared; empty if they can.
    """

    model: str
    run: str
    difference: float = 0.0
    same: int = 0
    outputs: int = 0
    problem: str = ""


def predict_twice(path: Path, threads: int) -> Outputs:
    """Predicts from synthetic inputs; an output that differs the second time gets a second entry."""
    model = read(path)
    options = CompileOptions(engine_options=EngineOptions(threads), random_weights=0)
    with tempfile.TemporaryDirectory() as folder:
        executable = compile_whole(model, Path(folder), options=options)
        try:
            values = dummy_values(executable.description, *input_functions(model), seed=0)
            tensors = to_tensors(executable.description.inputs, values, executable.shapes)
            first, second = (_arrays(executable.run(tensors)) for _ in range(2))
        finally:
            executable.close()
    unstable = {
        f"{name} (repeated)": value for name, value in second.items() if not _same(value, first[name])
    }
    return {**first, **unstable}


def _arrays(results: Mapping[str, Any]) -> Outputs:
    """Returns outputs as arrays: numbers of dictionaries in the order of their keys, strings as strings."""
    arrays = {}
    for name, value in results.items():
        held = [value[key] for key in sorted(value, key=str)] if isinstance(value, Mapping) else value
        arrays[name] = np.asarray(held)
    return {name: value.astype(str) if value.dtype.kind == "O" else value for name, value in arrays.items()}


def _same(one: Array, other: Array) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()


def compare_outputs(base: Outputs, other: Outputs) -> tuple[float, int]:
    """Returns the largest difference of the outputs, and how many of them are equal, bit for bit."""
    if base.keys() != other.keys():
        return float("inf"), 0
    same = sum(_same(base[name], other[name]) for name in base)
    return max((_difference(base[name], other[name]) for name in base), default=0.0), same


def _difference(base: Array, other: Array) -> float:
    if base.shape != other.shape or base.dtype.kind != other.dtype.kind:
        return float("inf")
    if base.dtype.kind not in "fiu":
        return 0.0 if np.array_equal(base, other) else float("inf")
    first, second = base.astype(np.float64), other.astype(np.float64)
    finite = np.isfinite(first)
    is_alike = np.array_equal(first[~finite], second[~finite], equal_nan=True)
    if not is_alike or not np.isfinite(second[finite]).all():
        return float("inf")
    scale = np.abs(first[finite]).max(initial=0.0)
    largest = np.abs(first[finite] - second[finite]).max(initial=0.0)
    if not largest:
        return 0.0
    return float(largest / scale) if scale else float("inf")


def _write_outputs(models: Sequence[Path], threads: int, folder: Path) -> None:
    """Writes the outputs of each model as `NUMBER.npz`, or what went wrong as `NUMBER.txt`."""
    for number, path in enumerate(models):
        try:
            np.savez(folder / f"{number}.npz", **predict_twice(path, threads))
        except CoremlscopeError as error:
            (folder / f"{number}.txt").write_text(f"{type(error).__name__}: {error}", encoding="utf-8")


def _rows(models: Sequence[Path], base: Path, runs: Mapping[str, Path]) -> Iterator[Row]:
    for number, path in enumerate(models):
        for run, folder in runs.items():
            notes = [place / f"{number}.txt" for place in (base, folder)]
            problem = next((note.read_text(encoding="utf-8") for note in notes if note.exists()), "")
            if problem:
                yield Row(model=path.name, run=run, problem=problem)
                continue
            with np.load(base / f"{number}.npz") as first, np.load(folder / f"{number}.npz") as second:
                difference, same = compare_outputs(dict(first), dict(second))
                count = len(first.files)
            yield Row(model=path.name, run=run, difference=difference, same=same, outputs=count)


def _environment(version: str, folder: Path) -> Path:
    """Returns the Python of an environment with another version of ONNX Runtime."""
    home = folder / f"onnxruntime-{version}"
    python = home / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if not (home / "ready").exists():
        venv.create(home, with_pip=False, clear=True)
        own = Path(sysconfig.get_path("purelib", "venv", {"base": str(home), "installed_base": str(home)}))
        wanted = ["--quiet", "--no-deps", "--target", str(own), f"onnxruntime=={version}"]
        subprocess.run([sys.executable, "-m", "pip", "install", *wanted], check=True)
        others = [sysconfig.get_path("purelib"), str(_ROOT / "src")]
        (own / "others.pth").write_text("\n".join(others), encoding="utf-8")
        (home / "ready").touch()
    return python


def _run(python: Path, models: Sequence[Path], threads: int, folder: Path) -> str:
    """Runs the models in a process of their own; returns the version of its engine."""
    folder.mkdir(parents=True)
    request = json.dumps([[str(path) for path in models], threads, str(folder)])
    command = [str(python), "-m", "benchmarks.drift", "--run", request]
    done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip().splitlines()[-1]


def _default_models(folder: Path, wanted: int) -> list[Path]:
    """Returns the sample, and from each folder of the corpus the first model that can be run."""
    sample = folder / "sample.mlpackage"
    write_sample(sample, overwrite=True)
    found = [sample]
    for place in sorted((_CORPUS / "models").glob("*")):
        if len(found) == wanted:
            break
        models = sorted(path for path in place.rglob("*") if path.suffix in _SUFFIXES)
        found += itertools.islice(filter(_can_run, models), 1)
    return found


def _can_run(path: Path) -> bool:
    files = [path] if path.is_file() else path.rglob("*")
    if sum(file.stat().st_size for file in files if file.is_file()) > _LARGEST:
        return False
    try:
        predict_twice(path, 1)
    except CoremlscopeError:
        return False
    return True


def _show(rows: Sequence[Row], limit: float) -> None:
    width = max(len(row.model) for row in rows)
    for row in rows:
        equal = "bit for bit" if row.same == row.outputs else f"{row.same} of {row.outputs} bit for bit"
        text = row.problem or f"{row.difference:8.1e}  {equal}"
        print(f"{row.model:{width}}  {row.run:20}  {text}{'  DIFFERS' if _has_drifted(row, limit) else ''}")


def _has_drifted(row: Row, limit: float) -> bool:
    return bool(row.problem) or row.difference > limit


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make drift", description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("models", nargs="*", type=Path, help="models (default: a sample and nine of the corpus)")
    add("--engine", action="append", help=f"another version (default: {_OTHER_VERSION}; repeatable)")
    add("--threads", type=int, action="append", help="a number of threads (default: 2 and 4; repeatable)")
    add("--limit", type=float, default=_LIMIT, help=f"the largest difference (default: {_LIMIT})")
    add("--environments", type=Path, default=_ROOT / "out" / "drift", help="the folder of environments")
    add("--run", type=json.loads, help=argparse.SUPPRESS)
    return parser.parse_args()


def _compare(models: Sequence[Path], arguments: argparse.Namespace, work: Path) -> list[Row]:
    """Runs the models in every way."""
    base = _run(Path(sys.executable), models, 1, work / "base")
    print(f"base: ONNX Runtime {base}, 1 thread; {len(models)} models", flush=True)
    runs = {}
    for version in arguments.engine or [_OTHER_VERSION]:
        python, folder = _environment(version, arguments.environments), work / version
        runs[f"ONNX Runtime {_run(python, models, 1, folder)}"] = folder
    for threads in arguments.threads or _THREADS:
        folder = work / f"{threads} threads"
        _run(Path(sys.executable), models, threads, folder)
        runs[folder.name] = folder
    return list(_rows(models, work / "base", runs))


def main() -> int:
    """Runs the command."""
    arguments = _arguments()
    if arguments.run:
        models, threads, folder = arguments.run
        _write_outputs([Path(path) for path in models], threads, Path(folder))
        print(CompileOptions().chosen_engine.version)
        return 0
    with tempfile.TemporaryDirectory() as name:
        chosen = [path.resolve() for path in arguments.models] or _default_models(Path(name), _MODELS)
        rows = _compare(chosen, arguments, Path(name))
    _show(rows, arguments.limit)
    drifted = sum(_has_drifted(row, arguments.limit) for row in rows)
    print(f"{drifted} of {len(rows)} comparisons differ by more than {arguments.limit:g}")
    return int(drifted > 0)


if __name__ == "__main__":
    sys.exit(main())
