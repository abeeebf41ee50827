"""A folder of saved profiles."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from coremlscope.errors import CoremlscopeError, OutputError, UsageError
from coremlscope.results.files import read_profile
from coremlscope.results.profile import Profile

__all__ = ["Entry", "ProfileStore", "safe_name"]

#: Characters that file names are made of here; all others become a hyphen.
_UNSAFE = re.compile(r"[^\w.()+-]+")
_LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of the folder.

    Attributes:
        id: Its name without the suffix: what addresses are made of.
        saved: When it was written, in seconds since 1970.
        model: What the model is called.
        kind: Apple's name of the model type.
        host: What the times are times of.
        iterations: How many predictions were timed.
        median_s: Median time of a prediction, measured on the host.
        low_s: The 10th percentile of these times.
        high_s: The 90th.
        load_s: Median time of a load, measured.
        operations: How many operations the model has.
        problem: Why the file cannot be shown; empty where it can.
    """

    id: str
    saved: float
    model: str = ""
    kind: str = ""
    host: str = ""
    iterations: int = 0
    median_s: float = 0.0
    low_s: float = 0.0
    high_s: float = 0.0
    load_s: float = 0.0
    operations: int = 0
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return dataclasses.asdict(self)


class ProfileStore:
    """The profiles of a folder, `*.json`; safe to use from several threads.

    Args:
        folder: The folder; it is made where it does not exist.

    Raises:
        OutputError: It cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"the folder {folder} cannot be made: {error.strerror or error}", "choose another one"
            ) from None
        self._seen: dict[str, tuple[tuple[int, int], Entry]] = {}
        self._lock = threading.Lock()

    def entries(self) -> list[Entry]:
        """Every profile, the newest first. Only files that are new or changed are read."""
        with self._lock:
            found: dict[str, tuple[tuple[int, int], Entry]] = {}
            for path in self.folder.glob("*.json"):
                try:
                    state = path.stat()
                except OSError:
                    continue  # gone since
                version = state.st_mtime_ns, state.st_size
                known = self._seen.get(path.stem)
                if known is not None and known[0] == version:
                    found[path.stem] = known
                else:
                    found[path.stem] = version, _describe(path, state.st_mtime)
            self._seen = found
        entries = [entry for _, entry in found.values()]
        return sorted(entries, key=lambda entry: (-entry.saved, entry.id))

    def read(self, id_: str) -> Profile:
        """The profile that an entry describes.

        Raises:
            UsageError: There is none with this id, or it is damaged.
        """
        return read_profile(self.path(id_))

    def path(self, id_: str) -> Path:
        """The file of an entry. What is no name of a file in the folder is refused.

        Raises:
            UsageError: There is none with this id.
        """
        if not any(entry.id == id_ for entry in self.entries()):
            raise UsageError(
                f"there is no profile {id_[:_LONGEST_NAME]!r}", "go back to the list of profiles"
            )
        return self.folder / f"{id_}.json"

    def add(self, source: Path, model: str) -> str:
        """Moves the JSON of a profile into the folder.

        Args:
            source: The file.
            model: What the model is called: a part of the new name.

        Returns:
            The id.

        Raises:
            OutputError: The folder cannot be written.
        """
        stem = f"{safe_name(PurePath(model).stem)}-{time.strftime('%Y%m%d-%H%M%S')}"
        try:
            for number in range(1000):
                id_ = stem if not number else f"{stem}-{number}"
                target = self.folder / f"{id_}.json"
                try:
                    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
                except FileExistsError:
                    continue
                temporary = target.with_suffix(".partial")
                shutil.move(source, temporary)
                temporary.replace(target)
                return id_
        except OSError as error:
            raise OutputError(
                f"the profile cannot be saved in {self.folder}: {error.strerror or error}", "free some space"
            ) from None
        raise OutputError(f"{self.folder} holds a thousand profiles of this second", "try again")


def safe_name(name: str) -> str:
    """A name that is one part of a path on every system, whatever it was before."""
    cleaned = _UNSAFE.sub("-", PurePath(name.replace("\\", "/")).name).strip(".-")
    return cleaned[-_LONGEST_NAME:] or "model"


def _describe(path: Path, saved: float) -> Entry:
    try:
        profile = read_profile(path)
        samples = sorted(profile.predict.samples_s)
        return Entry(
            path.stem, saved, PurePath(profile.model.path).name, profile.model.kind, profile.host.label,
            len(samples), profile.predict.statistics.median, _at(samples, 0.1), _at(samples, 0.9),
            profile.load.statistics.median, len(profile.ops),
        )  # fmt: skip
    except CoremlscopeError as error:
        return Entry(path.stem, saved, problem=error.message)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return Entry(path.stem, saved, problem=f"the profile is damaged ({type(error).__name__})")


def _at(ordered: list[float], share: float) -> float:
    """The nearest-rank percentile of ordered samples."""
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]
