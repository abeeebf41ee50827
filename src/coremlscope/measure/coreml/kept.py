"""What Core ML compiled under each setting, kept for its plan and for a recording of the same model.

Compiling for the Neural Engine can take minutes. Core ML finds the result again by the path of the compiled
model and in the caches of its home folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from coremlscope.base.scratch import scratch_folder


class KeptFolders(ExitStack):
    """Private folders by setting of compute units, which are removed at the end of the context."""

    def __init__(self) -> None:
        super().__init__()
        self._folders: dict[str, Path] = {}

    @contextmanager
    def make(self, units: str, *, keeps: bool = True) -> Iterator[Path]:
        """Makes a folder: the first one of a setting is kept, others are removed after use.

        Args:
            units: The setting.
            keeps: False to remove it in any case.
        """
        folder = scratch_folder()
        if keeps and units not in self._folders:
            self._folders[units] = Path(self.enter_context(folder))
            yield self._folders[units]
        else:
            with folder as name:
                yield Path(name)

    def of(self, units: str) -> Path | None:
        """Returns the folder that was kept for a setting; None if there is none."""
        return self._folders.get(units)


def compiled_in(folder: Path | None) -> Path | None:
    """Returns the compiled model in a folder; None if there is none."""
    return None if folder is None else next(iter(sorted(folder.glob("*.mlmodelc"))), None)
