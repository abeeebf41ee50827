"""Runs the command's verbs on damaged files, and counts how often one ends in anything but a clear answer.

`python -m tests.long.attack.verbs --runs 10000` calls `cli.main` in a fork for every run; a share of the runs
starts a whole process instead. Faults are tracebacks, warnings of Python, signals, hangs, exit codes that are
not documented, failures without a sentence, files that are left behind, and memory above the bar of
`tests.long.attack`. `--only NUMBER` repeats one run and prints what it prints.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from coremlscope.cli.main import main as run_command
from tests.long.attack.__main__ import Tally
from tests.long.attack.child import memory_of
from tests.long.attack.seeds import Seeds, Source, all_sources
from tests.support.damage import damage
from tests.support.model_files import write_files

__all__ = ["attack_verbs", "main"]

_MEMORY_BYTES = 6 << 30
#: Time after which a run counts as a hang: a machine that is busy with other work slows it down.
_HANG_S = 120.0
#: Every so many runs are whole processes.
_WHOLE = 50
#: The documented exit codes of failures.
_FAILURES = range(1, 11)
#: Verbs that print or write a result that says what failed, and exit with that failure's code.
_CONTINUING = ("profile", "compare", "doctor")
_WARNING = re.compile(r"^\S+\.py:\d+: \w*Warning: ", re.M)
#: An exception that a process of the engine did not expect.
_HIDDEN = re.compile(r"^error: .*the engine failed: \w*(Error|Exception|Infer|Lower)\b", re.M)
_LONGEST_MESSAGE = 2000


@dataclass(frozen=True, slots=True)
class _Run:
    """A call of the command in a folder, and the damaged bytes there."""

    seed: str
    arguments: list[str]
    size: int


class _Maker:
    """Makes the files and arguments of one run."""

    def __init__(self, generator: random.Random, folder: Path, seeds: Seeds) -> None:
        self._generator, self._folder, self._seeds = generator, folder, seeds
        self.names: list[str] = []
        self.size = 0

    def file(self, source: Source) -> str:
        """Writes a damaged file of a source; a quarter of them undamaged. Returns its path."""
        generator = self._generator
        name = generator.choice(list(self._seeds[source]))
        files = self._seeds[source][name]
        if generator.random() > 0.25:
            files = damage(files, generator)
        place = self._folder / str(len(self.names))
        place.mkdir()
        path = write_files(files, place)
        self.names.append(name)
        self.size += sum(map(len, files.values()))
        return str(path.relative_to(self._folder))

    def some(self, *options: str | tuple[str, ...]) -> list[str]:
        """A few of the options, each with one of its values."""
        chosen = []
        for option in options:
            if self._generator.random() < 0.25:
                name, *values = (option,) if isinstance(option, str) else option
                chosen += [name, self._generator.choice(values)] if values else [name]
        return chosen

    def report(self, *suffixes: str) -> list[str]:
        """An option that writes a report, or JSON, or neither."""
        kinds = [[], ["--json", "-"], ["--json", "x.json"], *(["-o", f"x{suffix}"] for suffix in suffixes)]
        return self._generator.choice(kinds)


_SHAPE = ("--shape", "x=1x4x8x8", "x=1x64", "x=1x99999999x99999999x4", "y=2")
_DEVICE = ("--device", "m1", "a14,m4", "iphone-15-pro", "nothing", "every")
_UNITS = ("--compute-units", "every", "cpu_only", "cpu_and_ne", "ane")
_FUNCTION = ("--function", "main", "other", "\x1b[2J")
_OS = ("--os", "18", "14.5", "macOS 14.5", "x")
_REPORTS = (".html", ".json", ".md", ".csv", ".txt", ".trace.json")
_FEW = ["--iterations", "2", "--compile-iterations", "1", "--load-iterations", "1", "--warmups", "0"]


def _inspect(make: _Maker) -> list[str]:
    options = make.some("--ops", _SHAPE, _FUNCTION, "--quiet")
    return [make.file("model"), *options, *make.report(".html", ".json", ".md", ".csv", ".txt")]


def _plan(make: _Maker) -> list[str]:
    explained = ("--explain", "conv", "main/1", "x", "")
    options = make.some(_OS, _UNITS, "--ops", _SHAPE, "--against-rules", explained)
    return [make.file("model"), "--device", "m1", *make.some(_DEVICE), *options, *make.report(*_REPORTS)]


def _estimate(make: _Maker) -> list[str]:
    options = make.some(_OS, _UNITS, _FUNCTION, _SHAPE, "--explain", "--no-calibration")
    models = [make.file("model") for _ in [*make.some("another"), "one"]]
    return [*models, "--device", "m1", *make.some(_DEVICE), *options, *make.report(*_REPORTS)]


def _predict(make: _Maker) -> list[str]:
    inputs = ["--input", f"x={make.file('value')}"]
    options = make.some(_FUNCTION, _SHAPE, ("--precision", "fp16"), ("--resize", "scale-fill"), ("-o", "out"))
    return [make.file("model"), *inputs, *options]


def _export(make: _Maker) -> list[str]:
    return [make.file("model"), "x.onnx", *make.some(_FUNCTION, _SHAPE)]


def _compare(make: _Maker) -> list[str]:
    sources = [make.file("profile"), make.file("profile")]
    if make.some("models"):
        sources = [make.file("model"), make.file("model"), *_FEW]
    elif make.some("imported"):
        sources[1] = make.file("import")
    options = make.some(_DEVICE, _UNITS, ("--fail-above", "5%", "nan"))
    return [*sources, *options, *make.report(*_REPORTS[:5])]


def _doctor(make: _Maker) -> list[str]:
    source = make.file("log") if make.some("log", "log") else make.file("model")
    return [source, *make.some(("--os", "iOS 16,macOS 13", "x"), ("--json", "-"))]


def _profile(make: _Maker) -> list[str]:
    options = make.some(("--device", "m1"), _FUNCTION, _SHAPE, "--random-weights", ("--precision", "fp16"))
    return [make.file("model"), *_FEW, *options, *make.report(*_REPORTS)]


def _compile(make: _Maker) -> list[str]:
    return [make.file("model"), *make.some("x.mlmodelc", "--overwrite")]


def _import(make: _Maker) -> list[str]:
    files = [make.file("import") for _ in [*make.some("another"), "one"]]
    if make.some("profile"):
        files = [make.file("profile")]
    model = ["--model", make.file("model")] if make.some("model") else []
    return [
        *files,
        *model,
        *make.some(("--device", "m1"), _OS, ("--share", "x.json")),
        *make.report(*_REPORTS),
    ]


def _measurements(make: _Maker) -> list[str]:
    source = make.file("table") if make.some("table", "table") else make.file("profile")
    model = ["--model", make.file("model")] if make.some("model") else []
    return [
        "add",
        source,
        *model,
        *make.some(("--device", "m1"), _OS, ("--share", "x.json"), ("--json", "-")),
    ]


def _trace(make: _Maker) -> list[str]:
    return [make.file("import"), *make.report(".html", ".trace.json")]


#: How each verb is called, and how often compared with the others: engines start processes.
_VERBS: dict[str, tuple[Callable[[_Maker], list[str]], int]] = {
    "inspect": (_inspect, 10),
    "plan": (_plan, 10),
    "estimate": (_estimate, 10),
    "predict": (_predict, 5),
    "export": (_export, 10),
    "compare": (_compare, 11),
    "doctor": (_doctor, 10),
    "profile": (_profile, 4),
    "compile": (_compile, 8),
    "import": (_import, 14),
    "measurements": (_measurements, 6),
    "trace": (_trace, 2),
}


def _make(generator: random.Random, folder: Path, seeds: Seeds) -> _Run:
    verb = generator.choices(list(_VERBS), [weight for _, weight in _VERBS.values()])[0]
    maker = _Maker(generator, folder, seeds)
    arguments = [verb, *_VERBS[verb][0](maker)]
    return _Run(f"{verb}: {', '.join(maker.names)}", arguments, maker.size)


def _environment(folder: Path) -> dict[str, str]:
    """The variables of a run: its own folders, and texts that do not depend on the terminal."""
    places = {"TMPDIR": "tmp", "COREMLSCOPE_CACHE": "cache", "COREMLSCOPE_DATA": "data", "HOME": "home"}
    for name in places.values():
        (folder / name).mkdir()
    return {**os.environ, **{name: str(folder / place) for name, place in places.items()}}


def _call(arguments: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
    """Runs the command in this process, a fork, which ends with its exit code."""
    code = 1
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.environ.update(environment)
        tempfile.tempdir = None
        work = folder / "work"
        os.chdir(work)
        code = run_command(arguments)
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _start(arguments: Sequence[str], folder: Path, is_whole: bool) -> int:
    """Starts a run; returns the process."""
    environment = _environment(folder)
    if not is_whole:
        process = os.fork()
        if process == 0:
            _call(arguments, folder, environment)
        return process
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as errors:
        command = [sys.executable, "-P", "-m", "coremlscope", *arguments]
        places = {"cwd": folder / "work", "env": environment, "start_new_session": True}
        started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, **places)
    started.returncode = 0  # It is waited for here.
    return started.pid


def _wait(process: int) -> tuple[int | None, int]:
    """Waits for a process, and kills it if it hangs; returns its exit code, or None, and its memory."""
    deadline = time.monotonic() + _HANG_S
    pause_s = 0.001
    while True:
        ended, status, usage = os.wait4(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024
        if time.monotonic() > deadline:
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return None, 0
        time.sleep(pause_s)
        pause_s = min(0.02, pause_s * 1.5)


def _judge(verb: str, code: int | None, folder: Path) -> str:
    """Returns `used`, `refused`, or what is wrong."""
    said, printed = ((folder / name).read_text(errors="replace") for name in ("stderr", "stdout"))
    if code is None:
        return "hang"
    if code < 0:
        return f"ended with {code}"
    if "Traceback (most recent call last)" in said + printed or "Exception ignored" in said:
        return "traceback"
    if _WARNING.search(said):
        return "warning"
    if _HIDDEN.search(said):
        return "an exception in the engine's process"
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    if any(len(line) > _LONGEST_MESSAGE for line in errors) or len(errors) > 1:
        return "an unclear message"
    left = [*folder.rglob(".coremlscope-*"), *(folder / "tmp").iterdir()]
    if left:
        return f"left {left[0].name}"
    if code == 0:
        return "used" if not errors else "an error with exit code 0"
    is_told = errors or (verb in _CONTINUING and (printed or said))
    return "refused" if is_told and code in _FAILURES else f"exit code {code} without an error"


@cache
def _sources() -> Seeds:
    return all_sources()


def _perform(number: int, seed: int, show: bool = False) -> tuple[str, int, dict[str, Any]]:
    """Performs one run; returns what it damaged, its number and what happened, for `Tally.add`."""
    seeds, generator = _sources(), random.Random(f"verbs {seed} {number}")
    folder = Path(tempfile.mkdtemp(prefix="attack-"))
    try:
        (folder / "work").mkdir()
        run = _make(generator, folder / "work", seeds)
        is_whole = number % _WHOLE == 0
        before = 0 if is_whole else memory_of("VmRSS")
        code, memory = _wait(_start(run.arguments, folder, is_whole))
        outcome = _judge(run.arguments[0], code, folder)
        said = (folder / "stderr").read_text(errors="replace")
        if show:
            print(
                run.arguments, code, outcome, (folder / "stdout").read_text(errors="replace"), said, sep="\n"
            )
        answer = {
            "outcome": outcome,
            "bytes": run.size,
            "memory": max(0, memory - before),
            "trace": f"{run.arguments}\n{said[-3000:]}",
        }
        return run.seed, number, answer
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def attack_verbs(runs: int, *, seed: int = 0, processes: int = 1) -> Tally:
    """Runs verbs on damaged files.

    Args:
        runs: Their number.
        seed: Selects verbs, options and damage.
        processes: The number of runs at the same time.
    """
    tally = Tally()
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        performed = pool.imap_unordered(partial(_perform, seed=seed), range(1, runs + 1), chunksize=8)
        for name, number, answer in performed:
            found = len(tally.faults)
            tally.add(name, number, answer)
            for fault in tally.faults[found:]:
                print(fault, flush=True)
            if sum(tally.outcomes.values()) % 1000 == 0:
                print(dict(tally.outcomes), flush=True)
    return tally


def main() -> int:
    """Runs the attack that the arguments describe."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000, help="the number of runs")
    parser.add_argument("--seed", type=int, default=0, help="selects verbs, options and damage")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="repeat one run")
    parser.add_argument("--kills", type=int, metavar="N", help="kill each verb and server so often instead")
    given = parser.parse_args()
    if given.kills is not None:
        from tests.long.attack.kills import attack_by_kills

        return 1 if attack_by_kills(given.kills, seed=given.seed).faults else 0
    if given.only is not None:
        return 0 if _perform(given.only, given.seed, show=True)[2]["outcome"] in ("used", "refused") else 1
    tally = attack_verbs(given.runs, seed=given.seed, processes=given.processes)
    verbs = sorted({name.partition(":")[0] for name in tally.files})
    outcomes = ", ".join(f"{count} {name}" for name, count in tally.outcomes.most_common())
    print(f"{sum(tally.files.values())} runs of {', '.join(verbs)}: {outcomes}")
    print(f"memory beyond 3 × the files: at most {max(0, tally.largest) / 1e6:.0f} MB")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
