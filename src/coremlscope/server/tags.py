"""Tags of saved profiles, in a file of their folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from coremlscope.base.errors import UsageError
from coremlscope.base.writing import write_file

_FILE = ".tags.json"
#: Maximum number of tags of a profile, and of their characters.
_MOST_TAGS, _LONGEST_TAG = 20, 40


def read_tags(folder: Path) -> dict[str, tuple[str, ...]]:
    """Returns the tags of profiles by id; none if the file is damaged or a link."""
    path = folder / _FILE
    try:
        if path.is_symlink() or not path.is_file():
            return {}
        return msgspec.json.decode(path.read_bytes(), type=dict[str, tuple[str, ...]])
    except (OSError, RecursionError, msgspec.DecodeError, UnicodeDecodeError):
        return {}


def write_tags(folder: Path, tags: Mapping[str, Sequence[str]]) -> None:
    """Writes the tags of profiles by id; profiles without tags are left out.

    Raises:
        UsageError: There are too many, or one is too long.
        OutputError: The file cannot be written.
    """
    for each in tags.values():
        if len(each) > _MOST_TAGS or any(not 0 < len(tag) <= _LONGEST_TAG for tag in each):
            raise UsageError(
                "these tags cannot be saved",
                f"give at most {_MOST_TAGS} tags with at most {_LONGEST_TAG} characters",
            )
    kept = {id_: sorted(set(each)) for id_, each in tags.items() if each}
    write_file(folder / _FILE, msgspec.json.format(msgspec.json.encode(kept), indent=1))
