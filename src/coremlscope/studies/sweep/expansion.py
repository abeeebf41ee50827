"""From sources to jobs: models in folders and patterns, their functions, shapes and variants."""

from __future__ import annotations

import glob
import hashlib
import itertools
import os
import pickle
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coremlscope import api
from coremlscope.base.errors import NotAModelError, UsageError
from coremlscope.base.escaping import path_text
from coremlscope.devices import ComputeUnits, Device, find_device
from coremlscope.formats import container
from coremlscope.model.ir import Model
from coremlscope.planning.cost.latency.own import NOTHING_OWN, Own
from coremlscope.runtime.engines.host import processor_name
from coremlscope.runtime.execution.cache import default_cache
from coremlscope.studies.sweep.jobs import (
    ESTIMATED,
    MEASURED,
    SESSION,
    PickledModel,
    SweepJob,
    SweptModel,
    WantedResult,
    address,
)
from coremlscope.studies.sweep.wanted import EVERY, Wanted, read_zoo

#: A model without a file: its specification, a model that was read, or one of coremltools.
Graph = bytes | Model | Any
_ENGINES = ("onnxruntime", "coremltools")


def find_sources(sources: Iterable[str | os.PathLike[str]], wanted: Wanted) -> Iterator[tuple[Path, Wanted]]:
    """Yields the models that sources name, and the results wanted of each; and saved profiles.

    Args:
        sources: Models, folders and archives with models, patterns, saved profiles, and lists (`.toml`).
        wanted: What is wanted where a list does not say.

    Raises:
        UsageError: A pattern matches nothing, or a list is wrong.
        ModelError: A path does not exist, or a folder cannot be searched.
    """
    for given in sources:
        source, path = os.fspath(given), Path(given)
        if path.suffix == ".toml":
            for inner, own in read_zoo(path, wanted):
                yield from ((found, own) for found in _found(inner))
        else:
            yield from ((found, wanted) for found in _found(source))


def _found(source: str) -> Iterator[Path]:
    """Yields the models of a path, a folder, an archive or a pattern."""
    path = Path(source)
    if not path.exists() and any(sign in source for sign in "*?["):
        matched = sorted(glob.glob(source, recursive=True))  # noqa: PTH207 - a pattern may be absolute
        if not matched:
            raise UsageError(f"no file matches {source!r}", "correct the pattern")
        for one in matched:
            yield from _found(one)
        return
    if not path.exists() and container.split_name(path) is None:
        raise NotAModelError(f"the path {path} does not exist", "check the path")
    bundle = container.open_with_models(path) if path.exists() else None
    if bundle is None:
        yield path
        return
    yield from bundle.unreadable  # each of which becomes a failure
    if not bundle.models and not bundle.unreadable:
        raise NotAModelError(f"{path} contains no Core ML model", "check the path")
    for model in bundle.models:
        yield path / model.inside if path.is_dir() else Path(bundle.source(model))


@dataclass(slots=True, kw_only=True)
class Expander:
    """Makes jobs of models.

    Attributes:
        known: The keys of the results that exist already, each with whether it is a failure.
        own: The user's own measurements.
        place: What measurements depend on besides the model and the options: the processor.
        cores: Logical processors that a measurement has to itself.
        wanted: Number of results that are wanted in all.
        found: Number of those that exist already.
        failed: Number of those that failed before.
        labelled: The labels and numbers that are wanted of results that exist already, by key.
    """

    known: Mapping[str, bool]
    own: Own = NOTHING_OWN
    place: str = field(default_factory=processor_name)
    cores: int = 1
    wanted: int = 0
    found: int = 0
    failed: int = 0
    labelled: dict[str, tuple[Mapping[str, str], Mapping[str, float]]] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _devices: dict[tuple[str, str | None], Device] = field(default_factory=dict)

    def jobs_of_path(self, path: Path, wanted: Wanted, name: str = "") -> Iterator[SweepJob]:
        """Yields the jobs of a model in a file.

        Args:
            path: The file.
            wanted: The results.
            name: Its name in results; empty for its path.

        Raises:
            ModelError: It cannot be read, where all of its functions are wanted.
            UsageError: A device is unknown.
        """
        yield from self._jobs(name or path_text(path), path, content_of_path(path), wanted)

    def jobs_of_graph(self, name: str, graph: Graph, wanted: Wanted) -> Iterator[SweepJob]:
        """Yields the jobs of a model without a file.

        Raises:
            UsageError: It is not a model.
        """
        source = _as_source(name, graph)
        content = source if isinstance(source, bytes) else source.content
        yield from self._jobs(name, source, hashlib.sha256(content).hexdigest()[:32], wanted)

    def _jobs(
        self, name: str, source: Path | bytes | PickledModel, content: str, wanted: Wanted
    ) -> Iterator[SweepJob]:
        functions = wanted.functions
        if EVERY in functions:
            known = source.read() if isinstance(source, PickledModel) else api.read(source)
            functions = tuple(known.description.functions)
        for function, shapes, variant in itertools.product(functions, wanted.shapes, wanted.variants):
            subject = SweptModel(
                name=name,
                source=source,
                content=content,
                function=function,
                shapes=dict(shapes),
                variant=variant,
                labels=wanted.labels,
                numbers=wanted.numbers,
            )
            if not variant.startswith(SESSION):
                yield from self._estimating(subject, wanted)
                yield from self._measuring(subject, wanted)
            elif isinstance(source, Path) and source.suffix.lower() == container.ONNX_SUFFIX:
                yield from self._estimating(subject, wanted)

    def _estimating(self, subject: SweptModel, wanted: Wanted) -> Iterator[SweepJob]:
        own = "" if self.own == NOTHING_OWN else hashlib.sha256(pickle.dumps(self.own)).hexdigest()
        cases = []
        for name, setting in itertools.product(wanted.devices, wanted.compute_units):
            device = self._device(name, wanted.os)
            key = address(subject, ESTIMATED, device.name, str(device.os), setting, own)
            cases.append(WantedResult(key=key, compute_units=setting, device=device.name, os=str(device.os)))
        missing = self._missing(subject, cases)
        if missing:
            yield SweepJob(subject=subject, cases=missing, own=self.own)

    def _measuring(self, subject: SweptModel, wanted: Wanted) -> Iterator[SweepJob]:
        if wanted.measuring is None:
            return
        # Off a Mac there is one measurement, which does not depend on the setting.
        settings: tuple[ComputeUnits, ...] = wanted.compute_units if sys.platform == "darwin" else ("all",)
        versions = [f"{name} {_version(name)}" for name in _ENGINES]
        cores = wanted.measuring.cores or self.cores
        cases = [
            WantedResult(
                key=address(subject, MEASURED, wanted.measuring, setting, versions, self.place, cores),
                compute_units=setting,
            )
            for setting in settings
        ]
        missing = self._missing(subject, cases)
        if missing:
            yield SweepJob(subject=subject, cases=missing, measuring=wanted.measuring)

    def _missing(self, subject: SweptModel, cases: list[WantedResult]) -> tuple[WantedResult, ...]:
        if subject.labels or subject.numbers:
            wanted = subject.labels, subject.numbers
            self.labelled |= {case.key: wanted for case in cases if case.key in self.known}
        failed = sum(self.known.get(case.key, False) for case in cases)
        # A second file with the same content gives the same results.
        missing = tuple(c for c in cases if c.key not in self.known and c.key not in self._taken)
        self._taken.update(case.key for case in missing)
        self.wanted += len(cases)
        self.failed += failed
        self.found += len(cases) - len(missing) - failed
        return missing

    def _device(self, name: str, os: str | None) -> Device:
        if (name, os) not in self._devices:
            self._devices[name, os] = find_device(name, os)
        return self._devices[name, os]


def content_of_path(path: Path) -> str:
    """Returns a hash of a model's content; of a model in an archive, of the archive and its name there.

    Raises:
        NotAModelError: The path does not exist or cannot be read.
    """
    named = None if path.exists() else container.split_name(path)
    place, inside = (path, "") if named is None else named
    try:
        if path.is_dir():
            next(path.iterdir(), None)  # The search below it leaves out what cannot be read.
        return default_cache().key(place, [inside])
    except OSError as error:
        raise NotAModelError(f"{path} cannot be read: {error.strerror or error}", "check the path") from None


def _as_source(name: str, graph: Graph) -> bytes | PickledModel:
    if isinstance(graph, Model):
        return PickledModel.of(graph)
    if isinstance(graph, bytes):
        return graph
    if hasattr(graph, "get_spec"):  # a model of coremltools
        specification: bytes = graph.get_spec().SerializeToString()
        return specification
    raise UsageError(
        f"{name} is not a model: {type(graph).__name__}",
        "give the bytes of a specification, a model that `read` returned, or one of coremltools",
    )


def _version(package: str) -> str:
    import importlib.metadata

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
