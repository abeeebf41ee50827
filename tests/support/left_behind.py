"""What a run may leave in the folder for temporary files while its process lives."""

from __future__ import annotations

from pathlib import Path

__all__ = ["assert_no_scratch"]


def assert_no_scratch(folder: Path) -> None:
    """Asserts that nothing is left there but the folder of this process with its lock."""
    assert [path.name for path in folder.rglob("*") if path.parent != folder] in ([], [".lock"])
    assert len(list(folder.iterdir())) <= 1
