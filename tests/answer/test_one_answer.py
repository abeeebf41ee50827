"""Terminal, Markdown, JSON and page give the same figures of one answer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from coremlscope.cli import main
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.reports.figures import milliseconds
from tests.support.advised_models import ANSWERED_MODELS

#: A number with its unit, as all reports write it.
_FIGURE = re.compile(r"\d[\d.,]*(?: → [\d.,]+)? (?:µs|ms|s|%)(?= |$|[,;.:)|*\\])")


def _figures(text: str) -> list[str]:
    return _FIGURE.findall(text)


@pytest.mark.parametrize("name", list(ANSWERED_MODELS))
def test_all_reports_of_an_answer_have_its_figures(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.chdir(tmp_path)
    write_mlpackage(ANSWERED_MODELS[name](), tmp_path / f"{name}.mlpackage")
    outputs = [item for suffix in ("md", "json", "html") for item in ("-o", f"report.{suffix}")]
    assert main([f"{name}.mlpackage", *outputs]) == 0
    terminal = capsys.readouterr().out
    assert main([f"{name}.mlpackage", "--json", "-"]) == 0
    answers = json.loads(capsys.readouterr().out)["answers"]
    page = re.search(r'id="payload">(.*?)</script>', Path("report.html").read_text("utf-8"), re.DOTALL)
    assert page is not None
    assert json.loads(Path("report.json").read_text("utf-8"))["answers"] == answers
    shown = json.loads(page[1])["result"]
    assert shown["answers"] == answers
    # The estimates of the page, which its charts draw, are those of the answer.
    latencies = {(one["device"], one["compute_units"]): one["latency"] for one in shown["estimates"]}
    for one in answers:
        assert one["latency"] == latencies[one["device"], one["compute_units"]]
        assert milliseconds(one["latency"]["value"]) in terminal
    markdown = Path("report.md").read_text("utf-8")
    figures = _figures(terminal)
    assert len(figures) > len(answers) / 4
    for figure in figures:
        assert figure in _figures(markdown), figure


@pytest.mark.parametrize("verb", ["plan", "estimate", "profile"])
def test_verbs_give_the_answers_of_the_bare_command_in_markdown_too(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.chdir(tmp_path)
    write_mlpackage(ANSWERED_MODELS["half"](), tmp_path / "half.mlpackage")
    assert main(["half.mlpackage", "--device", "m4,iphone-15-pro", "--json", "-"]) == 0
    answers = json.loads(capsys.readouterr().out)["answers"]
    quick = ["--iterations", "1", "--compile-iterations", "1", "--load-iterations", "1", "--warmups", "0"]
    outputs = ["-o", "report.md", "-o", "report.json"]
    options = ["--device", "m4,iphone-15-pro", *outputs, *(quick if verb == "profile" else [])]
    assert main([verb, "half.mlpackage", *options]) == 0
    made = json.loads(Path("report.json").read_text("utf-8"))["answers"]
    shown = ("device", "compute_units", "latency", "units", "headline", "best", "trust", "hazards", "tokens")
    assert [[one[name] for name in shown] for one in made] == [
        [one[name] for name in shown] for one in answers
    ]
    markdown = re.sub(r"[\\*`]", "", Path("report.md").read_text("utf-8"))
    assert answers[0]["headline"].replace("`", "") in markdown
    for one in answers:
        assert milliseconds(one["latency"]["value"]) in markdown
