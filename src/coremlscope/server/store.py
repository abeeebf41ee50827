"""A folder of saved profiles, and of files that are imported."""

from __future__ import annotations

import re
import shutil
import stat
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePath

import msgspec
import msgspec.structs

from coremlscope.api.imported import SUFFIXES, is_saved, read_any
from coremlscope.base.errors import OutputError, UsageError, known_error
from coremlscope.base.escaping import path_text
from coremlscope.base.figures import Figure
from coremlscope.base.writing import create_file, place_folder, write_file
from coremlscope.results.measurement import Phase
from coremlscope.results.profile import Profile, to_json
from coremlscope.server.tags import read_tags, write_tags

#: Characters other than these are replaced by a hyphen in file names.
_UNSAFE = re.compile(r"[^\w.()+-]+")
_LONGEST_NAME = 80
#: Maximum number of profiles of one model made in the same second.
_MOST_ALIKE = 1000


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the folder. For several profiles, it describes the first one whose model could be read.

    Attributes:
        id: Its name without the suffix, which is used in addresses.
        made_at: When the profile was made, UTC, ISO 8601; empty if it was not recorded.
        profiles: Number of profiles in the file; 0 if it cannot be read.
        model: The file name of the model.
        kind: Apple's name of the model type.
        label: The source of `predict_s`: the label of the first measurement, or else the device, system and
            setting of the first estimate or plan.
        predict_s: The time of a prediction: the measured median with the 10th and 90th percentile, or the
            estimate with its interval; None if the profile has neither of them.
        iterations: Number of timed predictions.
        load_s: Measured median time of a load; None if it was not measured.
        operations: Number of operations of the model.
        problem: Why the file cannot be shown; empty if it can.
        remarks: What limits the time, in a few words each: `partial`, `model0 not run`.
        tags: What a person noted about it.
    """

    id: str
    made_at: str = ""
    profiles: int = 0
    model: str = ""
    kind: str = ""
    label: str = ""
    predict_s: Figure | None = None
    iterations: int = 0
    load_s: float | None = None
    operations: int = 0
    problem: str = ""
    remarks: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


class ProfileStore:
    """The profiles of a folder, `*.json`, and of files that importers read; safe to use from several threads.

    Args:
        folder: The folder; it is created if it does not exist.

    Raises:
        OutputError: It is a file, or cannot be created.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            hint = f"name its folder, {folder.parent}, or another one"
            raise OutputError(f"{folder} is a file, and profiles are in a folder", hint) from None
        except OSError as error:
            raise OutputError(
                f"the folder {folder} cannot be created: {error.strerror or error}", "choose another one"
            ) from None
        self._seen: dict[str, tuple[tuple[int, int], Entry]] = {}
        self._lock = threading.Lock()

    def entries(self) -> list[Entry]:
        """Returns the entries of all files, newest first, those without a date last.

        Only new or changed files are read.
        """
        with self._lock:
            found: dict[str, tuple[tuple[int, int], Entry]] = {}
            for path in self._paths():
                if path.suffix not in SUFFIXES or path.name.startswith("."):
                    continue
                # Other suffixes distinguish the files. An id can always be encoded, as in an address.
                id_ = path_text(Path(path.name)).removesuffix(".json")
                if (version := _version(path)) is None:
                    continue
                known = self._seen.get(id_)
                if known is not None and known[0] == version:
                    found[id_] = known
                else:
                    found[id_] = version, _describe(path, id_)
            self._seen = found
            tags = read_tags(self.folder)
        entries = (msgspec.structs.replace(one, tags=tags.get(one.id, ())) for _, one in found.values())
        by_id = sorted(entries, key=lambda entry: entry.id)
        return sorted(by_id, key=lambda entry: entry.made_at, reverse=True)

    def _paths(self) -> list[Path]:
        try:
            return list(self.folder.iterdir())
        except OSError:
            return []  # it was removed, or must not be read

    def read(self, id_: str) -> tuple[Profile, ...]:
        """Reads the profiles of an entry.

        Raises:
            UsageError: The id is unknown, or the file is damaged.
        """
        return read_any(self.path(id_))

    def content(self, id_: str) -> bytes:
        """Returns an entry as JSON: the file itself, or the profile of an imported file.

        Raises:
            UsageError: The id is unknown, or the file is damaged.
        """
        path = self.path(id_)
        if is_saved(path):
            return path.read_bytes()
        return msgspec.json.encode(to_json(read_any(path)[0]))

    def path(self, id_: str) -> Path:
        """Returns the file of an entry.

        Raises:
            UsageError: The id is unknown, or the file is damaged.
        """
        entry = next((entry for entry in self.entries() if entry.id == id_), None)
        if entry is None:
            raise UsageError(f"unknown profile {id_[:_LONGEST_NAME]!r}", "go back to the list of profiles")
        if entry.problem:
            raise UsageError(entry.problem, "go back to the list of profiles")
        return self._file(id_)

    def _file(self, id_: str) -> Path:
        by_name = {path_text(Path(path.name)): path for path in self._paths()}
        if PurePath(id_).suffix in SUFFIXES and id_ in by_name:
            return by_name[id_]
        return by_name.get(f"{id_}.json", self.folder / f"{id_}.json")

    def replace(self, id_: str, source: Path) -> str:
        """Replaces the file of an entry by a file of profiles.

        Returns:
            The id.

        Raises:
            UsageError: The id is unknown, or a file does not contain profiles.
            OutputError: The file cannot be written.
        """
        path = self.path(id_)
        read_any(source)
        write_file(path, source.read_bytes())
        return id_

    def revision(self) -> int:
        """Returns a number that changes with the files of the folder."""
        return hash(tuple(sorted((path.name, _version(path)) for path in self._paths())))

    def remove(self, id_: str) -> None:
        """Deletes the file of an entry.

        Raises:
            UsageError: The id is unknown, or the file is not a profile.
            OutputError: The file cannot be deleted.
        """
        path = self.path(id_)
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        except OSError as error:
            raise OutputError(f"{path} cannot be deleted: {error.strerror or error}") from None
        self._retag(id_)

    def rename(self, id_: str, name: str) -> str:
        """Renames the file of an entry.

        Args:
            id_: The entry.
            name: The new name, which is made safe; its suffix stays.

        Returns:
            The new id.

        Raises:
            UsageError: The id is unknown, the file is not a profile, or the name is taken.
            OutputError: The file cannot be renamed.
        """
        path = self.path(id_)
        suffix = "".join(PurePath(id_).suffixes) if path.name == id_ else ".json"
        new = safe_name(name).removesuffix(suffix) + suffix
        target = path.with_name(new)
        if target == path:
            return id_
        if not (place_folder(path, target) if path.is_dir() else _place_file(path, target)):
            raise UsageError(f"{new!r} already exists", "choose another name")
        renamed = new.removesuffix(".json")
        self._retag(id_, renamed, dict(read_tags(self.folder)).get(id_, ()))
        return renamed

    def tag(self, id_: str, tags: Sequence[str]) -> None:
        """Replaces the tags of an entry.

        Raises:
            UsageError: The id is unknown, the file is not a profile, or there are too many tags.
            OutputError: The tags cannot be saved.
        """
        self.path(id_)
        self._retag(id_, id_, tags)

    def _retag(self, old: str, new: str = "", tags: Sequence[str] = ()) -> None:
        with self._lock:
            known: dict[str, Sequence[str]] = {**read_tags(self.folder)}
            before = dict(known)
            known.pop(old, None)
            if new:
                known[new] = tuple(tags)
            if known != before:
                write_tags(self.folder, known)

    def add(self, source: Path, model: str) -> str:
        """Copies a file of profiles into the folder under the name of the model and the time of the profile.

        Args:
            source: The file.
            model: The file name of the model.

        Returns:
            The id.

        Raises:
            UsageError: The file does not contain profiles.
            OutputError: The folder cannot be written to.
        """
        made = re.sub(r"[-:Z]", "", _made_at(read_any(source))).replace("T", "-")
        stem = "-".join(filter(None, (safe_name(PurePath(model).stem), made)))
        try:
            content = source.read_bytes()
        except OSError as error:
            raise OutputError(
                f"the profile cannot be saved in {self.folder}: {error.strerror or error}", "free some space"
            ) from None
        for number in range(_MOST_ALIKE):
            target = self.folder / f"{stem}{f'-{number}' if number else ''}.json"
            if create_file(target, content):
                return target.stem
        raise OutputError(
            f"{self.folder} already contains {_MOST_ALIKE} profiles named {stem}", "delete some of them"
        )


def safe_name(name: str) -> str:
    """Returns a name that is a single path component on every system."""
    cleaned = _UNSAFE.sub("-", PurePath(name.replace("\\", "/")).name).strip(".-")
    return cleaned[-_LONGEST_NAME:] or "model"


def _place_file(path: Path, target: Path) -> bool:
    """Renames a file; returns False if the name is taken.

    Raises:
        OutputError: It cannot be renamed.
    """
    try:
        if not create_file(target, path.read_bytes()):
            return False
        path.unlink()
    except OSError as error:
        raise OutputError(f"{path} cannot be renamed: {error.strerror or error}") from None
    return True


def _version(path: Path) -> tuple[int, int] | None:
    """Returns the time and the size of a file or an Xcode report; None for links and all else.

    A link could show a file of another folder, and a pipe would be read forever.
    """
    try:
        state = path.lstat()
        if stat.S_ISDIR(state.st_mode):
            state = (path / "report.json").lstat()
    except OSError:
        return None  # deleted meanwhile, or not a report
    return (state.st_mtime_ns, state.st_size) if stat.S_ISREG(state.st_mode) else None


def _describe(path: Path, id_: str) -> Entry:
    try:
        profiles = read_any(path)
        if not profiles:
            return Entry(id=id_, problem=f"{path_text(path)} does not contain a profile")
        first = next((profile for profile in profiles if profile.model.container), profiles[0])
        label, predict = _headline(first)
        phases = first.measurement.phases if first.measurements else {}
        return Entry(
            id=id_,
            made_at=_made_at(profiles),
            profiles=len(profiles),
            model=PurePath(first.model.path).name,
            kind=first.model.kind,
            label=label,
            predict_s=predict,
            iterations=len(phases["predict"].samples_s) if "predict" in phases else 0,
            load_s=phases["load"].statistics.median if "load" in phases else None,
            operations=len(first.ops),
            remarks=_remarks(first),
        )
    except Exception as error:  # the other files still have to be listed
        return Entry(id=id_, problem=_encodable(known_error(error, path_text(path)).message))


def _encodable(text: str) -> str:
    """Returns text about a file; a byte of its name that is not UTF-8 becomes `\\xff`."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _remarks(profile: Profile) -> tuple[str, ...]:
    """Returns what limits the time of an entry."""
    if not profile.measurements:
        return ("not measured",) if any(one.id == "not-measured" for one in profile.findings) else ()
    measured = profile.measurement
    ids = [finding.id for finding in measured.findings]
    layers = ids.count("layer-not-run")
    return (
        *(["partial"] if measured.partial else []),
        *(["synthetic weights"] if "random-weights" in ids else []),
        *(f"{stage.name} not run" for stage in measured.stages if stage.absent),
        *([f"{layers} {'layer' if layers == 1 else 'layers'} not run"] if layers else []),
    )


def _made_at(profiles: Sequence[Profile]) -> str:
    """Returns when the last of the profiles was made, as ISO 8601 in UTC to the second; empty if unknown."""
    found = []
    for profile in profiles:
        try:
            made = datetime.fromisoformat(profile.made.at)
            in_utc = made.replace(tzinfo=UTC) if made.tzinfo is None else made.astimezone(UTC)
        except (ValueError, OverflowError):  # the latter for the first day of all, east of Greenwich
            continue
        found.append(in_utc.strftime("%Y-%m-%dT%H:%M:%SZ"))
    return max(found, default="")


def _headline(profile: Profile) -> tuple[str, Figure | None]:
    """Returns the label and the figure of an entry."""
    if profile.measurements:
        predict = profile.measurement.predict
        return profile.measurement.label, None if predict is None else _spread(predict)
    for estimate in profile.headline_estimates():
        return f"{estimate.device}, {estimate.os}, {estimate.compute_units}", estimate.latency
    if not profile.plans:
        return "", None
    plan = profile.plans[0]
    return f"{plan.device}, {plan.os}, {plan.settings[0].compute_units}", None


def _spread(phase: Phase) -> Figure:
    """Returns the median, with the 10th and 90th percentile by nearest rank."""
    ordered = sorted(phase.samples_s)
    low, high = (ordered[round(share * (len(ordered) - 1))] for share in (0.1, 0.9))
    return Figure(phase.statistics.median, low, high, phase.origin)
