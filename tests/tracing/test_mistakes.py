"""Programs with one planted mistake each, and programs without."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

import coremlscope
from coremlscope.dropin.tracing.session import RecordedProgram
from coremlscope.results.trace import Trace

PROGRAMS = Path(__file__).parent / "programs"
_MARK = re.compile(r"# mistake: (\S+)")


def run_recorded(program: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    """Runs a program and records it: in this process, or in a new one if it forks."""
    # A process with threads, such as this one, must not fork.
    if "fork" in program.read_text(encoding="utf-8"):
        started = RecordedProgram([str(program), str(models)])
        assert started.wait(60) == 0
        return started.trace
    monkeypatch.setattr(sys, "argv", [str(program), str(models)])
    coremlscope.install()
    with coremlscope.record(children=False) as recording:
        runpy.run_path(str(program), run_name="__main__")
    return recording.trace


@pytest.mark.parametrize("program", sorted(PROGRAMS.glob("*.py")), ids=lambda path: path.stem)
def test_a_planted_mistake_is_found_at_its_line_and_no_other(
    program: Path, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = program.read_text(encoding="utf-8").splitlines()
    planted = [(m[1], number) for number, line in enumerate(lines, 1) if (m := _MARK.search(line))]
    trace = run_recorded(program, models, monkeypatch)
    found = [
        (m.id, trace.sites[m.site].line if m.site >= 0 else 0)
        for m in trace.mistakes
        if m.severity == "warning"
    ]
    assert found == planted
    assert len(trace.events.of("predict")) >= 12
