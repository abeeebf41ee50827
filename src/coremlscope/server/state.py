"""What the page of saved profiles shows."""

from __future__ import annotations

from dataclasses import dataclass

from coremlscope.server.jobs import Job
from coremlscope.server.store import Entry

__all__ = ["SCHEMA", "State"]

#: Name and version of the schema of `State`.
SCHEMA = "coremlscope.server/2"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The content of the page.

    Attributes:
        folder: The folder of the profiles.
        max_upload_bytes: The largest file that can be uploaded.
        suffixes: What the names of files that can be uploaded end with.
        profiles: The saved profiles, newest first.
        jobs: The waiting, running and completed jobs, newest first.
    """

    folder: str
    max_upload_bytes: int
    suffixes: tuple[str, ...]
    profiles: tuple[Entry, ...]
    jobs: tuple[Job, ...]
