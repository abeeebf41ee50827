"""Documents as pages: the verdict first, every block in it, and nothing that is loaded."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from coremlscope.cli import main
from coremlscope.reports.document import (
    Block,
    Column,
    Drawing,
    Facts,
    Folded,
    Heading,
    Hint,
    Item,
    Table,
    Text,
    Title,
)
from coremlscope.reports.document_page import write_page

_DOCUMENT: tuple[Block, ...] = (
    Title("net <b>", "the verdict"),
    Facts([("size", "3 MB"), ("empty", "")]),
    Item("first", "a fix", "!", "warning"),
    Item("second"),
    Heading("Times", "measured"),
    Table(
        (Column("name"), Column("time", is_number=True), Column("none")), [("a", "1 ms", ""), ("b", 0.5, "")]
    ),
    Drawing(lambda width: ["─" * 3]),
    Folded("More", "details", [Text("folded"), Item("last")]),
    Hint("typed only"),
    Heading("Rest"),
    Text("end", "strong"),
)


class _Balance(HTMLParser):
    """Checks that elements are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_block_is_in_the_page_and_closed() -> None:
    page = write_page(_DOCUMENT)
    parser = _Balance()
    parser.feed(page)
    assert parser.open == []
    body = page[page.index("<main>") :]
    places = [body.index(f">{text}<") for text in ("the verdict", "3 MB", "first", "Times", "folded", "Rest")]
    assert places == sorted(places)
    assert "net &lt;b&gt;" in body
    assert re.findall(r"<th [^>]*>([^<]*)", body) == ["name", "time"]
    assert "typed only" not in body
    assert "empty" not in body
    links = re.findall(r'<a href="#(part-\d)"', page)
    assert links == re.findall(r'<section id="(part-\d)"', body)


def test_a_page_loads_and_runs_nothing() -> None:
    page = write_page(_DOCUMENT)
    assert "default-src 'none'; style-src 'sha256-" in page
    assert "<script" not in page
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)


@pytest.mark.parametrize("suffix", [".html", ".md", ".json", ".txt"])
def test_doctor_writes_reports(suffix: str, tmp_path: Path) -> None:
    log, report = tmp_path / "app.log", tmp_path / f"report{suffix}"
    log.write_text("doUnloadModel:options:qos:error:: nil _ANEModel\n")
    assert main(["doctor", str(log), "--quiet", "-o", str(report)]) == 0
    assert "neural-engine-driver-chatter" in report.read_text(encoding="utf-8")
    if suffix == ".html":
        assert str(tmp_path) not in report.read_text(encoding="utf-8")


def test_doctor_says_first_whether_this_machine_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Programs that try what is installed take seconds, and have tests of their own.
    monkeypatch.setattr("coremlscope.studies.doctor.machine.Host.try_python", lambda host, script: "")
    assert main(["doctor", "--quiet", "-o", str(tmp_path / "machine.html")]) == 0
    body = (tmp_path / "machine.html").read_text(encoding="utf-8")
    head = body[body.index("<h1>") : body.index("</header>", body.index("<h1>"))]
    assert "everything that coremlscope needs works" in head
