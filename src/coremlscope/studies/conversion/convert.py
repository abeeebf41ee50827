"""Converts one exported PyTorch program to Core ML and Core AI, in a child process."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from coremlscope.base.errors import (
    EngineError,
    MissingDependencyError,
    UsageError,
    how_to_install,
)
from coremlscope.base.processes.child import ChildLimits, Task, python_child, run_child
from coremlscope.base.processes.endings import Failures
from coremlscope.base.scratch import scratch_folder
from coremlscope.base.writing import check_new_folder, new_folder
from coremlscope.studies.conversion.worker import MISSING

#: A framework to convert to.
Target = Literal["core_ml", "core_ai"]
TARGETS: tuple[Target, ...] = ("core_ml", "core_ai")
SUFFIXES: Mapping[Target, str] = {"core_ml": ".mlpackage", "core_ai": ".aimodel"}
NAMES: Mapping[Target, str] = {"core_ml": "Core ML", "core_ai": "Core AI"}

_CHILD = python_child("coremlscope.studies.conversion.worker", "convert")
_TASK = Task("converting", "convert to each target alone", Failures("a converter"))
_INSTALL = f"PyTorch and both converters: {how_to_install('convert')}"


class Conversion(msgspec.Struct, frozen=True):
    """The conversion to one target.

    Attributes:
        target: The framework.
        path: The model; None if it was not converted.
        problem: Why not, in the converter's words; empty if it was.
    """

    target: Target
    path: Path | None
    problem: str = ""


def convert(
    program: Path,
    folder: Path,
    targets: Sequence[Target] = TARGETS,
    *,
    overwrite: bool = False,
    timeout_s: float = 1800.0,
    child: Sequence[str] = _CHILD,
) -> tuple[Conversion, ...]:
    """Converts an exported program by coremltools and coreai-torch.

    A target that fails does not stop the other. PyTorch loads the program, which may run code in it.

    Args:
        program: What `torch.export.save` wrote (`.pt2`).
        folder: The folder for the models, which are named after the program.
        targets: The frameworks.
        overwrite: Whether to replace existing models.
        timeout_s: Seconds that everything may take.
        child: The command of the child process; tests give another one.

    Raises:
        UsageError: The program does not exist.
        OutputError: A model exists already, or cannot be written.
        MissingDependencyError: A converter is not installed.
        EngineError: The child process failed, or no target could be converted.
        LimitError: It took too long.
    """
    if program.is_dir():
        raise UsageError(
            f"{program} is a model, and only programs of PyTorch are converted",
            "give the .pt2 file that torch.export.save wrote",
        )
    if not program.is_file():
        raise UsageError(f"{program}: no such file", "write it with torch.export.save(exported, path)")
    paths = {target: folder / f"{program.stem}{SUFFIXES[target]}" for target in targets}
    for path in paths.values():
        check_new_folder(path, path.suffix, overwrite=overwrite, what="a model", is_replaceable=_is_model)
    with scratch_folder() as drafts:
        problems = _run_child(program, Path(drafts), targets, timeout_s, child)
        found = []
        for target, path in paths.items():
            made = Path(drafts) / f"model{SUFFIXES[target]}"
            problem = problems.get(target, "")
            if not problem and not made.is_dir():
                problem = "the converter wrote no model"
            if problem.startswith(MISSING):
                package = problem.removeprefix(MISSING)
                raise MissingDependencyError(f"converting to {NAMES[target]} needs {package}", _INSTALL)
            if problem:
                found.append(Conversion(target, None, problem))
                continue
            with new_folder(path, overwrite=overwrite) as draft:
                shutil.copytree(made, draft, dirs_exist_ok=True, copy_function=shutil.copyfile)
            found.append(Conversion(target, path))
    if all(one.path is None for one in found):
        reported = "; ".join(f"{NAMES[one.target]}: {one.problem}" for one in found)
        raise EngineError(f"{program.name} was not converted: {reported}", "change what the converters name")
    return tuple(found)


def _is_model(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("Manifest.json", "main.mlirb"))


def _run_child(
    program: Path, folder: Path, targets: Sequence[Target], timeout_s: float, child: Sequence[str]
) -> Mapping[str, str]:
    problems: dict[str, str] = {}
    limits = ChildLimits(silence_s=math.inf, time_s=timeout_s)
    with run_child([*child, str(program.absolute()), str(folder), *targets], limits, _TASK) as messages:
        for message in messages:
            problems.update(message.get("problems", {}))
    return problems
