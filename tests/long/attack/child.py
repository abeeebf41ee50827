"""Reads damaged files in a process with limited memory, and tells how each went.

A line of standard input is a seed's name and a number; the answer is a line of JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import coremlscope
from coremlscope.api.imported import import_files
from coremlscope.base.errors import CoremlscopeError
from coremlscope.formats import container
from coremlscope.model import ir
from coremlscope.runtime.execution.lowering import lower_function
from tests.support.damage import damage
from tests.support.model_files import Files, all_seeds, corpus_seeds, write_files

_MEMORY_BYTES = 4 << 30
_CORPUS = Path(__file__).parents[4] / "shared" / "corpus"


def make_files(seeds: dict[str, Files], name: str, number: int) -> Files:
    """The damaged files of a seed and a number; always the same ones."""
    return damage(seeds[name], random.Random(f"{name} {number}"))


def use(path: Path, folder: Path, generator: random.Random) -> str:
    """Reads, describes and lowers a model, or imports a file, and exports and runs some.

    Returns:
        `used`, or `refused` with an error of this package.
    """
    try:
        if any(
            path.name.endswith(suffix) for suffix in (".json", ".jsonl", ".xml", ".plist", ".txt", ".mlperf")
        ):
            import_files([path])
            return "used"
        if path.name.endswith("analytics.mil"):
            import_files([path])
            return "used"
        model = container.read(path)
        coremlscope.inspect(model, list_ops=True)
        lowered = lower_function(model) if not isinstance(model.content, ir.Pipeline) else None
        chance = generator.random()
        if chance < 0.1 and lowered is not None:
            coremlscope.export(model, folder / "m.onnx")
        elif chance < 0.2:
            coremlscope.plan(model, devices="m1")
        elif chance < 0.3:
            coremlscope.profile(
                model,
                iterations=1,
                effort=coremlscope.Effort(compile_iterations=1, load_iterations=1, warmups=0),
                engine="onnxruntime",
            )
    except CoremlscopeError as error:
        if not error.message or "\n" in error.message or not error.message.isprintable():
            raise AssertionError(f"an unclear message: {error.message!r}") from error
        return "refused"
    return "used"


def _forget_peak() -> int:
    """Starts a new count of the largest memory; the memory now, in bytes."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return memory_of("VmRSS")


def memory_of(name: str) -> int:
    """Returns a line of `/proc/self/status` in bytes: `VmRSS` is the memory now, `VmHWM` its peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def _answer(seeds: dict[str, Files], name: str, number: int) -> dict[str, Any]:
    files = make_files(seeds, name, number)
    folder = Path(tempfile.mkdtemp())
    answer: dict[str, Any] = {"bytes": sum(map(len, files.values()))}
    try:
        path = write_files(files, folder)
        before = _forget_peak()
        try:
            answer["outcome"] = use(path, folder, random.Random(number))
        except Exception as error:
            answer["outcome"] = type(error).__name__
            answer["trace"] = traceback.format_exc(limit=-6)
        answer["memory"] = max(0, memory_of("VmHWM") - before)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return answer


def main() -> None:
    """Answers until standard input ends."""
    with contextlib.suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Nothing else that is printed becomes an answer.
    seeds = all_seeds()
    if len(sys.argv) > 1:
        seeds.update(corpus_seeds(_CORPUS))
    for text in sys.stdin:
        name, _, number = text.rstrip("\n").rpartition("\t")
        print(json.dumps(_answer(seeds, name, int(number))), file=answers, flush=True)


if __name__ == "__main__":
    main()
