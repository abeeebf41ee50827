"""Times short commands, and their ratios to an older version: `make bench-start`.

Each round runs every command of both versions once, so that a slowdown of the machine affects both. The
figure of a command is the processor time of its process, and its ratio is the median over the rounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

__all__ = ["main", "older_source", "processor_seconds"]

#: Commands, each with the highest good ratio to the older version. `MODEL` is the sample.
_COMMANDS = {
    "devices": 0.5,
    "rules": 0.5,
    "ops": 0.5,
    "inspect MODEL": 0.65,
    "plan MODEL --device m1": 0.65,
    "estimate MODEL --device m1": 0.65,
}
#: The version that ratios refer to.
_OLDER = "f8c6fbe0"


def processor_seconds(source: Path, words: Sequence[str], codes: Collection[int] = (0,)) -> float:
    """The processor seconds of a command, and of its children.

    Args:
        source: The folder of the package.
        words: The arguments of the command.
        codes: The exit codes that it may have.
    """
    environment = {**os.environ, "PYTHONPATH": str(source)}
    before = os.times()
    found = subprocess.run(
        [sys.executable, "-m", "coremlscope", *words],
        env=environment,
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    if found.returncode not in codes:
        raise SystemExit(f"{' '.join(words)} ended with the exit code {found.returncode}")
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def _compile(source: Path) -> None:
    """Compiles the modules, as an installation does."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(source)], check=True)


def older_source(commit: str, folder: Path) -> Path:
    """Writes the package of an older commit into a folder, and returns where it lies."""
    root = Path(__file__).resolve().parents[1]
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=root, check=True, stdout=subprocess.PIPE)
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    _compile(folder / "src")
    return folder / "src"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the seconds and ratios of each command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--older", default=_OLDER, metavar="COMMIT")
    options = parser.parse_args(arguments)
    root = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "sample.mlpackage"
        sources = (older_source(options.older, Path(folder) / "older"), root / "src")
        _compile(root / "src")
        from coremlscope.formats.sample import write_sample

        write_sample(model, overwrite=True)
        taken: dict[str, list[tuple[float, float]]] = {command: [] for command in _COMMANDS}
        for _ in range(options.rounds + 1):
            for command, pairs in taken.items():
                words = command.replace("MODEL", str(model)).split()
                first, second = (processor_seconds(source, words) for source in sources)
                pairs.append((first, second))
        print(f"processor seconds, medians of {options.rounds} rounds")
        print(f"{'command':27} {'older':>7} {'now':>6} {'ratio':>6}")
        for command, pairs in taken.items():
            kept = pairs[1:]  # the first round fills the caches of the system
            before, now = (statistics.median(times) for times in zip(*kept, strict=True))
            ratio = statistics.median(own / old for old, own in kept)
            mark = "" if ratio <= _COMMANDS[command] else f"  above {_COMMANDS[command]}"
            print(f"{command:27} {before:7.3f} {now:6.3f} {ratio:6.2f}{mark}")


if __name__ == "__main__":
    main()
