"""Writes the section of a release into CHANGELOG.md from the fragments in `changes/`, which it deletes.

python tools/make_changelog.py VERSION DATE
python tools/make_changelog.py            # print the section of what is not released yet
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("added", "changed", "fixed", "removed")


def section(title: str, folder: Path) -> str:
    """Returns the section of a release.

    Args:
        title: Its heading.
        folder: The fragments, `TOPIC.KIND.md`.

    Raises:
        ValueError: A fragment has another kind.
    """
    parts = [f"## {title}"]
    fragments = {file: file.name.split(".")[-2] for file in fragments_of(folder)}
    unknown = [file.name for file, kind in fragments.items() if kind not in KINDS]
    if unknown:
        raise ValueError(f"the kind of a fragment is one of {', '.join(KINDS)}: {', '.join(unknown)}")
    for kind in KINDS:
        texts = [file.read_text(encoding="utf-8") for file, own in fragments.items() if own == kind]
        if texts:
            items = ["- " + re.sub(r"\n(?=\S)", "\n  ", text.strip()) for text in texts]
            parts.append("\n".join([f"### {kind.capitalize()}\n", *items]))
    return "\n\n".join(parts) + "\n"


def fragments_of(folder: Path) -> list[Path]:
    """Returns the fragments in a folder."""
    return sorted(file for file in folder.glob("*.md") if file.name != "README.md")


def release(version: str, date: str, root: Path = ROOT) -> None:
    """Puts the section of a release above those of the releases before it, and deletes the fragments."""
    changelog = root / "CHANGELOG.md"
    head, mark, earlier = changelog.read_text(encoding="utf-8").partition("\n## ")
    new = section(f"{version} ({date})", root / "changes")
    changelog.write_text(f"{head.rstrip()}\n\n{new}{mark}{earlier}", encoding="utf-8")
    for file in fragments_of(root / "changes"):
        file.unlink()


if __name__ == "__main__":
    if len(sys.argv) == 3:
        release(*sys.argv[1:])
    else:
        print(section("Not released yet", ROOT / "changes"))
