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
from collections.abc import Sequence
from pathlib import Path

__all__ = ["main"]

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


def _seconds(source: Path, command: str, model: Path) -> float:
    """The processor seconds of a command, and of its children."""
    words = command.replace("MODEL", str(model)).split()
    environment = {**os.environ, "PYTHONPATH": str(source)}
    before = os.times()
    subprocess.run(
        [sys.executable, "-m", "coremlscope", *words],
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def _compile(source: Path) -> None:
    """Compiles the modules, as an installation does."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(source)], check=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the seconds and ratios of each command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--older", default=_OLDER, metavar="COMMIT")
    options = parser.parse_args(arguments)
    root = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        older, model = Path(folder) / "older", Path(folder) / "sample.mlpackage"
        older.mkdir()
        archive = subprocess.run(
            ["git", "archive", options.older, "src"], cwd=root, check=True, stdout=subprocess.PIPE
        )
        subprocess.run(["tar", "-x", "-C", str(older)], input=archive.stdout, check=True)
        sources = (older / "src", root / "src")
        for source in sources:
            _compile(source)
        from coremlscope.formats.sample import write_sample

        write_sample(model, overwrite=True)
        taken: dict[str, list[tuple[float, float]]] = {command: [] for command in _COMMANDS}
        for _ in range(options.rounds + 1):
            for command, pairs in taken.items():
                first, second = (_seconds(source, command, model) for source in sources)
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
