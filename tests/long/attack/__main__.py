"""Damages files of every form, and counts how often reading them ends in anything but a clear error.

`python -m tests.long.attack --files 100000` starts children that read damaged files, and measures their
time and memory. Faults are tracebacks, signals, hangs, and memory above three times the file and 200 MB.
"""

from __future__ import annotations

import argparse
import json
import random
import selectors
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tests.long.attack.child import _CORPUS
from tests.support.model_files import all_seeds, corpus_seeds

__all__ = ["Tally", "attack", "main"]

#: The bar: memory beyond that of the process before it reads the file.
_FREE_BYTES, _TIMES = 200_000_000, 3
_START_S = 120.0
#: Each process tells its counts after so many files.
_TOLD = 1000


@dataclass(slots=True)
class Tally:
    """Counts of outcomes.

    Attributes:
        files: The number of damaged files by the form of the undamaged one.
        outcomes: The number of files by outcome.
        faults: A line on each fault.
        largest: The most memory that a file took beyond three times its size, in bytes.
    """

    files: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    largest: int = 0

    def add(self, name: str, number: int, answer: dict[str, Any]) -> None:
        """Counts an answer of a child."""
        self.files[name] += 1
        outcome = answer["outcome"]
        if outcome in ("used", "refused"):
            extra = answer["memory"] - _TIMES * answer["bytes"]
            self.largest = max(self.largest, extra)
            if extra > _FREE_BYTES:
                outcome = "memory"
                answer["trace"] = f"{answer['memory']} bytes of memory for a file of {answer['bytes']}"
        self.outcomes[outcome] += 1
        if outcome not in ("used", "refused"):
            self.faults.append(f"{name}\t{number}: {outcome}\n{answer.get('trace', '')}")

    def join(self, other: Tally) -> None:
        """Adds the counts of another."""
        self.files += other.files
        self.outcomes += other.outcomes
        self.faults += other.faults
        self.largest = max(self.largest, other.largest)


class _Child:
    """A process that reads files, started anew after it ended or hung."""

    def __init__(self, with_corpus: bool, timeout_s: float) -> None:
        self._arguments = [sys.executable, "-m", "tests.long.attack.child", *["corpus"] * with_corpus]
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[str] | None = None
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with this object

    def ask(self, name: str, number: int) -> dict[str, Any]:
        """Lets the process read a file."""
        wait = self._timeout_s
        if self._process is None:
            wait += _START_S
            self._process = subprocess.Popen(
                self._arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        print(f"{name}\t{number}", file=process.stdin, flush=True)
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            is_ready = selector.select(wait)
        line = process.stdout.readline() if is_ready else ""
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        self.close()
        code = process.returncode
        return {"bytes": 0, "memory": 0, "outcome": "hang" if not is_ready else f"ended with {code}"}

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def attack(
    files: int, *, seed: int = 0, processes: int = 1, with_corpus: bool = False, timeout_s: float = 30.0
) -> Tally:
    """Reads damaged files in children.

    Args:
        files: Their number.
        seed: Selects them.
        processes: The number of children.
        with_corpus: Also damages the models of the corpus.
        timeout_s: The time after which a file counts as a hang.
    """
    names = [*all_seeds(), *(name for name, _ in corpus_seeds(_CORPUS) if with_corpus)]

    def part(index: int) -> Tally:
        tally, child = Tally(), _Child(with_corpus, timeout_s)
        generator = random.Random(f"{seed} {index}")
        for _ in range(index, files, processes):
            name, number = generator.choice(names), generator.randrange(2**32)
            found = len(tally.faults)
            tally.add(name, number, child.ask(name, number))
            for fault in tally.faults[found:]:
                print(fault, flush=True)
            if sum(tally.files.values()) % _TOLD == 0:
                print(f"process {index}: {dict(tally.outcomes)}", flush=True)
        child.close()
        return tally

    total = Tally()
    with ThreadPoolExecutor(processes) as pool:
        for tally in pool.map(part, range(processes)):
            total.join(tally)
    return total


def main() -> int:
    """Runs the attack that the arguments describe."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--files", type=int, default=10_000, help="the number of damaged files")
    parser.add_argument("--seed", type=int, default=0, help="selects the damage")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--corpus", action="store_true", help="also damage the models of the corpus")
    given = parser.parse_args()
    tally = attack(given.files, seed=given.seed, processes=given.processes, with_corpus=given.corpus)
    outcomes = ", ".join(f"{count} {name}" for name, count in tally.outcomes.most_common())
    print(f"{sum(tally.files.values())} damaged files of {len(tally.files)} seeds: {outcomes}")
    print(f"memory beyond 3 × the file: at most {max(0, tally.largest) / 1e6:.0f} MB")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
