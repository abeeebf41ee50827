"""The page of `coremlscope inspect` in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coremlscope import api
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.formats.sample import sample_model
from coremlscope.reports.renderers import write_report
from tests.support.browser import Drive


def test_what_a_file_says_and_what_to_ask_next(drive: Drive, tmp_path: Path) -> None:
    write_mlpackage(sample_model(size=32, width=0.5, classes=10), tmp_path / "small.mlpackage")
    write_report(api.inspect(tmp_path / "small.mlpackage", list_ops=True), tmp_path / "small.html")
    found: dict[str, Any] = drive("inspect", tmp_path / "small.html")
    assert {"layers", "graph", "memory", "weights", "next"} <= set(found["sections"])
    assert found["orders"] == ["Most work first", "Program order"]  # nothing is known of times
    assert [command.split()[1] for command in found["commands"]] == ["plan", "estimate", "profile"]
    assert all(" -o " in command for command in found["commands"])
    assert (found["complaints"], found["foreign"]) == ([], [])
