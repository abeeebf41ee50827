"""Uploaded models, kept while the server runs, so that devices can be added to their profiles."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

from coremlscope.results.profile import read_profiles
from coremlscope.server.jobs import Job
from coremlscope.server.store import ProfileStore
from coremlscope.server.worker import MODEL_SUFFIXES


class KeptModels:
    """The latest uploaded models by the ids of their profiles; safe to use from several threads.

    Args:
        most_bytes: Maximum size of all of them; beyond it the oldest ones are removed.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._models: dict[str, Path] = {}
        self._changing = threading.Lock()

    def keep(self, id_: str, model: Path) -> None:
        """Keeps a model; its folder, in which it is alone with what was made of it, is renamed."""
        folder = model.parent.rename(model.parent.with_name(f"kept-{model.parent.name}"))
        with self._changing:
            self._models[id_] = folder / model.name
            while sum(each.stat().st_size for each in self._models.values()) > self._most_bytes:
                self._remove(next(iter(self._models)))

    def ids(self) -> frozenset[str]:
        """Returns the profiles whose models are kept."""
        with self._changing:
            return frozenset(self._models)

    def link(self, id_: str, folder: Path) -> Path | None:
        """Gives the model of a profile a second name in a folder; returns None if the model is not kept."""
        with self._changing:
            model = self._models.get(id_)
            if model is None:
                return None
            (folder / model.name).hardlink_to(model)
            return folder / model.name

    def rename(self, old: str, new: str) -> None:
        """Follows the new name of a profile."""
        with self._changing:
            if old in self._models:
                self._models[new] = self._models.pop(old)

    def remove(self, id_: str) -> None:
        """Removes the model of a profile that was deleted."""
        with self._changing:
            if id_ in self._models:
                self._remove(id_)

    def _remove(self, id_: str) -> None:
        shutil.rmtree(self._models.pop(id_).parent, ignore_errors=True)


def save_result(store: ProfileStore, models: KeptModels, result: Path, job: Job, model: Path) -> str:
    """Saves what a job made, and keeps the model that it is of.

    Args:
        store: The profiles.
        models: The models.
        result: The file of profiles.
        job: The job.
        model: The uploaded file.

    Returns:
        The id of the saved profile.

    Raises:
        UsageError: The file does not contain profiles.
        OutputError: The folder cannot be written to.
    """
    if "of" in job.request:
        return store.replace(job.request["of"], result)
    id_ = store.add(result, job.model)
    if model.suffix.lower() in MODEL_SUFFIXES and not read_profiles(result)[0].model.absent:
        models.keep(id_, model)
    return id_
