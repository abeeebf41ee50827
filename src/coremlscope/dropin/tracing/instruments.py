"""Shows what Instruments recorded in the same lanes: exports of `xctrace export` become a trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from coremlscope.base.errors import UsageError
from coremlscope.base.folders import check_regular
from coremlscope.base.version import __version__
from coremlscope.devices.unit import ComputeUnit
from coremlscope.formats.recordings.export import CORE_ML, Export, Table, read_export
from coremlscope.results.events import KIND_CODES
from coremlscope.results.trace import Events, Trace, TracedModel, TracedProcess

__all__ = ["read_instruments"]

_CHUNK = 1 << 20
_BUSY: dict[ComputeUnit, str] = {"neural_engine": "Neural Engine busy", "gpu": "GPU busy", "cpu": "CPU busy"}
#: Kinds of the rows of the Core ML table, by a word of their label (source: published exports).
_KINDS = (
    ("prediction", "predict"),
    ("load", "load"),
    ("compil", "compile"),
    ("gpu", "GPU busy"),
    ("neural", "Neural Engine busy"),
    ("ane", "Neural Engine busy"),
    ("cpu", "CPU busy"),
)


@dataclass(slots=True, kw_only=True)
class _Columns:
    start_ns: list[int] = field(default_factory=list)
    duration_ns: list[int] = field(default_factory=list)
    kind: list[int] = field(default_factory=list)
    model: list[int] = field(default_factory=list)
    detail: list[int] = field(default_factory=list)


def read_instruments(paths: Sequence[Path]) -> Trace:
    """Reads exports of one recording. Lines of the program are not in them.

    Raises:
        UsageError: A file cannot be read or is damaged, or there are no intervals in them.
    """
    exports = [_read(path) for path in paths]
    contents = next((export.contents for export in exports if export.contents is not None), None)
    columns, models, details = _Columns(), dict[str, int](), dict[str, int]()
    for export in exports:
        texts = export.texts.all()
        for table in export.tables.values():
            _add(columns, table, texts, models, details)
    if not columns.start_ns:
        raise UsageError(
            f"{', '.join(path.name for path in paths)} holds no intervals of Core ML or of compute units",
            "export the tables that docs/import.md lists",
        )
    events = _events(columns)
    target = (contents.target if contents else "") or "the recorded device"
    duration_s = contents.duration_s if contents else None
    return Trace(
        events=events,
        version=__version__,
        host=" ".join(filter(None, [contents.device, contents.system])) if contents else "",
        command=(target,),
        duration_ns=max(int((duration_s or 0) * 1e9), int(events.end_ns.max())),
        processes=(TracedProcess(pid=0, command=(target,), ended=True),),
        models=tuple(TracedModel(name=name, key=name, runtime="Core ML") for name in models),
        threads=("Instruments",),
        details=tuple(details),
    )


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


def _add(
    columns: _Columns, table: Table, texts: Sequence[str], models: dict[str, int], details: dict[str, int]
) -> None:
    if table.kind is None or (table.kind.unit is None and table.kind is not CORE_ML):
        return
    for start, duration, label, model in zip(
        table.starts, table.durations, table.labels, table.models, strict=True
    ):
        text = texts[label] if label >= 0 else ""
        kind = _BUSY[table.kind.unit] if table.kind.unit is not None else _kind_of(text)
        name = texts[model] if model >= 0 else ""
        columns.start_ns.append(start)
        columns.duration_ns.append(max(duration, 0))
        columns.kind.append(KIND_CODES[kind])
        columns.model.append(models.setdefault(name, len(models)) if name else -1)
        columns.detail.append(details.setdefault(text, len(details)) if text else -1)


def _kind_of(label: str) -> str:
    """The kind of a row of the Core ML table; rows of unknown labels are runs."""
    lower = label.lower()
    return next((kind for word, kind in _KINDS if word in lower), "run")


def _events(columns: _Columns) -> Events:
    start = np.array(columns.start_ns, np.int64)
    order = np.lexsort((-np.array(columns.duration_ns, np.int64), start))
    zeros = np.zeros(len(order), np.int32)
    return Events(
        start_ns=start[order],
        duration_ns=np.array(columns.duration_ns, np.int64)[order],
        kind=np.array(columns.kind, np.uint8)[order],
        model=np.array(columns.model, np.int32)[order],
        process=zeros,
        thread=zeros,
        task=zeros - 1,
        site=zeros - 1,
        detail=np.array(columns.detail, np.int32)[order],
        bytes=zeros.astype(np.int64),
        address=zeros.astype(np.int64),
        flags=zeros.astype(np.uint8),
        depth=zeros.astype(np.uint8),
    )
