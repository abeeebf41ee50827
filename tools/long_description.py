"""Makes the README the long description on the package index, where links into the repository are dead."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

SITE = "https://coremlscope.github.io/coremlscope/"
RAW = "https://raw.githubusercontent.com/coremlscope/coremlscope/main/"
FILES = "https://github.com/coremlscope/coremlscope/blob/main/"


def absolute_links(text: str) -> str:
    """Returns the text with links to pages of the site, to images and to other files as addresses."""
    text = re.sub(r"\]\((docs/images/[^)\s]+)\)", rf"]({RAW}\1)", text)
    text = re.sub(r"\]\(docs/([^)\s]+)\.md(#[^)\s]*)?\)", rf"]({SITE}\1/\2)", text)
    return re.sub(r"\]\((?!https://|#)([^)\s]+)\)", rf"]({FILES}\1)", text)


class LongDescription(MetadataHookInterface):
    """Sets `readme`, which `pyproject.toml` lists as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Sets it in a project's metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute_links(text)}
