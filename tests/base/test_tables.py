from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

import coremlscope
from coremlscope.base.tables import read_tables

FILES = sorted(Path(coremlscope.__file__).parent.rglob("*.toml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_data_files_are_read_as_toml(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert json.dumps(read_tables(text)) == json.dumps(tomllib.loads(text))


@pytest.mark.parametrize(
    "line", ["value = {a = 1}", "value", "value = 1_000", "value=1", "value = 1\nvalue = 2"]
)
def test_other_lines_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match="value"):
        read_tables(f"# A comment.\n\n[part]\n{line}\n")
