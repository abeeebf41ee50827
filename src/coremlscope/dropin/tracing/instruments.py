"""Shows what Instruments recorded in the same lanes: exports of `xctrace export` become a trace.

Exports of one recording share its clock: times are nanoseconds from its start. Labels of the Core ML table
follow published exports and Apple's description of its lanes (Activity, Data, Compute); those of loads and
data conversions are not yet confirmed on a device.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from coremlscope.base.errors import UsageError
from coremlscope.base.folders import check_regular
from coremlscope.base.site import page
from coremlscope.base.version import __version__
from coremlscope.devices.unit import ComputeUnit
from coremlscope.dropin.tracing.collect import merge_events
from coremlscope.formats.recordings.activity import samples_of
from coremlscope.formats.recordings.export import CORE_ML, Contents, Export, Table, read_export
from coremlscope.results.events import KIND_CODES
from coremlscope.results.trace import Events, Trace, TracedModel, TracedProcess

_CHUNK = 1 << 20
#: Kinds of the intervals of the hardware. Requests of Core ML cover the same time under names of their own.
_BUSY: Mapping[ComputeUnit, str] = {
    "neural_engine": "Neural Engine busy",
    "gpu": "GPU busy",
}
#: Kinds of the rows of the Core ML table, by a word of their label; rows of other labels are runs.
_KINDS = tuple(
    (re.compile(word), kind)
    for word, kind in (
        ("prepar", "prepare engine"),
        ("gpu", "GPU request"),
        (r"neural|\bane\b", "Neural Engine request"),
        ("cpu", "CPU request"),
        ("unload", "unload"),
        ("load", "load"),
        ("compil", "compile"),
        ("predict", "predict"),
        ("check", "check inputs"),
        ("output", "convert output"),
        ("input|data|conver|transform|copy", "convert input"),
    )
)
#: What a load or a prediction within another one of the same model is.
_INNER = {"load": "prepare engine", "predict": "run"}
#: Names of models have the number of their instance at the end: `Encoder-1`.
_NUMBERED = re.compile(r"(.+)-\d+")


def read_instruments(paths: Sequence[Path]) -> Trace:
    """Reads exports of one recording. Lines of the program are not in them.

    Args:
        paths: Its tables and its table of contents, in any order.

    Raises:
        UsageError: A file cannot be read or is damaged, they are of several recordings, or there are no
            intervals and samples in them.
    """
    exports = [_read(path) for path in paths]
    _check_tables(exports)
    contents = next((export.contents for export in exports if export.contents is not None), Contents())
    target = contents.target or "the recorded device"
    rows = _Rows(target)
    for export in exports:
        for name, table in export.tables.items():
            rows.add(name, table, export.texts.all())
    samples = samples_of(exports)
    if not rows.listed and not samples:
        raise UsageError(
            f"{', '.join(path.name for path in paths)} holds no intervals of Core ML or of compute units",
            f"export the tables that {page('guides/mac-files')} lists",
        )
    events = rows.events()
    end_ns = int(events.end_ns.max()) if len(events) else 0
    return Trace(
        events=events,
        version=__version__,
        host=" ".join(filter(None, [contents.device, contents.system])),
        command=(target,),
        duration_ns=max(int((contents.duration_s or 0) * 1e9), end_ns),
        processes=tuple(map(_process, rows.processes)),
        models=tuple(rows.models),
        threads=tuple(rows.threads),
        details=tuple(rows.details),
        samples=samples,
    )


def _check_tables(exports: Sequence[Export]) -> None:
    """Checks that no table occurs twice.

    Raises:
        UsageError: One does, so that the files are of several recordings, whose clocks differ.
    """
    counts = Counter(name for export in exports for name in export.tables)
    counts["table of contents"] = sum(export.contents is not None for export in exports)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise UsageError(
            f"several files hold the table {twice[0]}, so they are of several recordings",
            "name the exports of one recording; `coremlscope compare` shows two next to each other",
        )


def _process(text: str) -> TracedProcess:
    """A process by its text in an export: `python3 (4711)`."""
    name, _, number = text.rpartition(" (")
    pid = number.removesuffix(")")
    return TracedProcess(pid=int(pid) if name and pid.isdecimal() else 0, command=(text,), ended=True)


class _Row(msgspec.Struct):
    """An interval: positions in the tables of `_Rows`, and the name of its kind."""

    start_ns: int
    duration_ns: int
    kind: str
    process: int
    thread: int
    detail: int
    model: int = -1

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.duration_ns


class _Rows:
    """The intervals of all tables."""

    def __init__(self, target: str) -> None:
        self.listed: list[_Row] = []
        self.models: list[TracedModel] = []
        self.processes = {target: 0}
        self.threads: dict[str, int] = {}
        self.details: dict[str, int] = {}

    def add(self, name: str, table: Table, texts: Sequence[str]) -> None:
        """Adds the rows of a table, if it is one of intervals. Each table is a track of its own."""
        kind = table.kind
        if kind is None or not (kind.unit or kind is CORE_ML) or not len(table.starts):
            return
        track = _BUSY[kind.unit].removesuffix(" busy") if kind.unit else "Core ML"
        track = f"{track} ({name})" if track in self.threads else track
        thread = self.threads.setdefault(track, len(self.threads))
        rows = []
        columns = (table.starts, table.durations, table.labels, table.processes)
        for start, duration, label, process in zip(*columns, strict=True):
            text = texts[label] if label >= 0 else ""
            owner = texts[process] if process >= 0 else next(iter(self.processes))
            row = _Row(
                start,
                max(duration, 0),
                _BUSY[kind.unit] if kind.unit else _kind_of(text),
                self.processes.setdefault(owner, len(self.processes)),
                thread,
                self.details.setdefault(text, len(self.details)) if text else -1,
            )
            rows.append(row)
        if not kind.unit:
            self._add_models(rows, [texts[model] if model >= 0 else "" for model in table.models])
        self.listed += rows

    def _add_models(self, rows: Sequence[_Row], names: Sequence[str]) -> None:
        """Finds the models of the rows of the Core ML table: each load makes another one."""
        known = set(names) - {""}
        stems = {name: match[1] for name in known if (match := _NUMBERED.fullmatch(name))}
        are_numbered = len(stems) == len(known)
        latest: dict[tuple[int, str], int] = {}
        open_: dict[tuple[int, str, str], int] = {}
        for row, name in sorted(
            zip(rows, names, strict=True), key=lambda one: (one[0].start_ns, -one[0].duration_ns)
        ):
            if not name:
                continue
            owner = (row.process, name)
            if row.kind in _INNER:
                # Pipelines list the loads and predictions of their models within their own.
                if row.end_ns <= open_.get((*owner, row.kind), -1):
                    row.kind = _INNER[row.kind]
                else:
                    open_[*owner, row.kind] = row.end_ns
            if row.kind == "load" or owner not in latest:
                latest[owner] = len(self.models)
                key = stems[name] if are_numbered else name
                ended = row.end_ns if row.kind == "load" else 0
                self.models.append(
                    TracedModel(
                        name=name, key=key, runtime="Core ML", process=row.process, loaded_at_ns=ended
                    )
                )
            row.model = latest[owner]
            if row.kind == "unload":
                model = self.models[row.model]
                self.models[row.model] = msgspec.structs.replace(model, unloaded_at_ns=row.start_ns)

    def events(self) -> Events:
        """Returns the events in the order of their start."""
        rows = self.listed

        def column(name: str, type_: type[np.generic]) -> np.ndarray:
            return np.array([getattr(row, name) for row in rows], type_)

        zeros = np.zeros(len(rows), np.int64)
        columns = {
            **{name: column(name, np.int64) for name in ("start_ns", "duration_ns")},
            **{name: column(name, np.int32) for name in ("model", "process", "thread", "detail")},
            "kind": np.array([KIND_CODES[row.kind] for row in rows], np.uint8),
            "task": zeros.astype(np.int32) - 1,
            "site": zeros.astype(np.int32) - 1,
            "bytes": zeros,
            "address": zeros,
            "flags": zeros.astype(np.uint8),
        }
        return merge_events([columns])


def _read(path: Path) -> Export:
    def chunks() -> Iterator[bytes]:
        check_regular(path)
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                yield chunk

    try:
        return read_export(chunks())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}", "check the path") from error
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", error.hint) from error


@functools.cache
def _kind_of(label: str) -> str:
    """The kind of a row of the Core ML table."""
    lower = label.lower()
    return next((kind for word, kind in _KINDS if word.search(lower)), "run")
