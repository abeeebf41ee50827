"""Long lists are shortened where people read them, and whole in JSON."""

from __future__ import annotations

import json

import pytest

from coremlscope.reports.markdown.writer import write_markdown
from coremlscope.reports.renderers import document_of
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.reports.words import elide
from coremlscope.results.model import FeatureSummary, FunctionSummary, ModelSummary
from coremlscope.results.operations import OpRow, OpTable


def _row(id_: str) -> OpRow:
    return OpRow(id=id_, type="relu", name=id_, function="main", outputs=("tensor<fp32, [4]>",))


_MODEL = ModelSummary(
    path="m.mlmodel",
    container="mlmodel",
    kind="mlProgram",
    spec_version=8,
    functions=(
        FunctionSummary(
            name="main",
            inputs=tuple(FeatureSummary(name=f"x{i}", type="fp32 [4]") for i in range(1000)),
            outputs=(FeatureSummary(name="y", type="fp32 [4]"),),
        ),
    ),
    user_defined={"table": "7" * 1000} | {f"key{i}": "" for i in range(300)},
    missing_weights=tuple(f"w{i}.bin" for i in range(20)),
    ops=OpTable.of(_row(f"main/{i}") for i in range(150)),
)


@pytest.mark.parametrize(
    ("render", "listed"),
    [
        (lambda model: write_terminal(document_of(model), width=80), 40),
        (lambda m: write_markdown(document_of(m)), 200),
    ],
)
def test_summaries(render, listed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coremlscope.reports.model._LISTED_OPS", 50)
    text = render(_MODEL)
    assert f"x{listed - 1}" in text
    assert f"x{listed}" not in text
    assert f"{1000 - listed} more features" in text
    assert "12 files more" in text
    assert "main/49" in text
    assert "main/50" not in text
    assert "100 more operations, which JSON lists" in text


def test_long_metadata() -> None:
    text = write_terminal(document_of(_MODEL), width=80)
    assert text.count("7") < 400
    assert "(760 characters more, which JSON lists)" in " ".join(text.split())


def test_json_is_whole() -> None:
    from coremlscope.reports.json import render_json

    content = json.loads(render_json(_MODEL))
    assert "x999" in json.dumps(content)
    assert content["user_defined"]["table"] == "7" * 1000


def test_short_lists_are_whole() -> None:
    assert elide(range(200), "feature") == (range(200), "")
    assert elide(range(201), "feature") == (range(200), "1 feature more, which JSON lists")
