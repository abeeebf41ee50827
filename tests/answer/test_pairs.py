"""Two models next to each other: one verdict, from the rows that are printed with it, in every format."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from coremlscope import api
from coremlscope.cli import main
from coremlscope.formats.packaging import write_mlpackage
from coremlscope.planning.answer.comparison import compare_answers
from coremlscope.reports.figures import milliseconds
from coremlscope.results.answer import Answer
from coremlscope.results.hazard import Hazard
from tests.support.advised_models import ANSWERED_MODELS

_BASE, _OTHER = list(ANSWERED_MODELS)[:2]


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two models in the current folder."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.chdir(tmp_path)
    for name in (_BASE, _OTHER):
        write_mlpackage(ANSWERED_MODELS[name](), tmp_path / f"{name}.mlpackage")
    return [f"{name}.mlpackage" for name in (_BASE, _OTHER)]


def _flat(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("\\", ""))


@pytest.mark.parametrize("verb", [[], ["compare"]])
def test_all_formats_have_one_verdict(
    verb: list[str], pair: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = [item for suffix in ("md", "json", "html") for item in ("-o", f"report.{suffix}")]
    limits = ["--iterations", "2", "--warmups", "0"] if verb else []
    assert main([*verb, *pair, "--device", "m4,m1", *limits, *outputs]) == 0
    terminal = _flat(capsys.readouterr().out)
    (difference,) = json.loads(Path("report.json").read_text("utf-8"))["differences"]
    page = re.search(r'id="payload">(.*?)</script>', Path("report.html").read_text("utf-8"), re.DOTALL)
    assert page is not None
    shown = json.loads(page[1])["result"]
    assert difference["answer"] in [one["text"] for one in shown["conclusions"]]
    assert shown["differences"][0]["estimated"] == difference["estimated"]
    for text in (terminal, _flat(Path("report.md").read_text("utf-8"))):
        assert difference["answer"] in text
        for one in difference["estimated"]:
            if one["is_best"]:
                assert milliseconds(one["before"]["latency"]["value"]) in text
                assert milliseconds(one["after"]["latency"]["value"]) in text
    # The change of each plan is that of the pair under its setting.
    under = {
        (one["device"], one["before"]["compute_units"]): one["ratio"]
        for one in difference["estimated"]
        if not one["is_best"]
    }
    assert difference["plans"]
    for plan in difference["plans"]:
        change = plan["latency"]
        device, setting = plan["before"].split(", ")
        assert [change[name] for name in ("ratio", "low", "high")] == [
            under[device, setting][name] for name in ("value", "low", "high")
        ]


def test_the_screen_needs_no_changes_of_a_model(pair: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*pair, "--device", "m4,m1"]) == 0
    alone = capsys.readouterr().out
    assert main([*pair, "--device", "m4,m1", "-o", "report.json"]) == 0
    assert capsys.readouterr().out == alone
    profiles = json.loads(Path("report.json").read_text("utf-8"))["profiles"]
    assert any(answer["changes"] for profile in profiles for answer in profile["answers"])
    short = api.answer(pair[0], "m4", advises=False)
    whole = api.answer(pair[0], "m4")
    assert [replace(one, changes=(), headline="") for one in whole.answers] == [
        replace(one, changes=(), headline="") for one in short.answers
    ]


def test_answers_as_json_have_the_pairs(pair: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*pair, "--device", "m4", "--json", "-"]) == 0
    values = json.loads(capsys.readouterr().out)
    (difference,) = values["differences"]
    best = difference["estimated"][0]
    latencies = {(one["model"], one["compute_units"]): one["latency"] for one in values["answers"]}
    for path, side in zip(pair, (best["before"], best["after"]), strict=True):
        assert side["latency"] == latencies[path, side["compute_units"]]
    assert best["ratio"]["value"] == best["after"]["latency"]["value"] / best["before"]["latency"]["value"]


@pytest.fixture(scope="module")
def answers() -> tuple[Answer, ...]:
    """The answers of a model on a chip that many measured, without doubts."""
    found = api.answer(ANSWERED_MODELS[_BASE](), "m4").answers
    return tuple(replace(one, trust=replace(one.trust, certainty="likely", doubts=())) for one in found)


def _slower(answers: tuple[Answer, ...], factor: float) -> list[Answer]:
    def slowed(one: Answer) -> Answer:
        assert one.latency is not None
        latency = replace(
            one.latency,
            value=one.latency.value * factor,
            low=one.latency.low * factor,
            high=one.latency.high * factor,
        )
        return replace(one, latency=latency)

    return [slowed(one) for one in answers]


def test_a_model_next_to_itself_has_not_changed(answers: tuple[Answer, ...]) -> None:
    assert {one.verdict for one in compare_answers(answers, answers)} == {"no change"}
    doubted = [replace(one, trust=replace(one.trust, certainty="unclear", doubts=("a",))) for one in answers]
    assert {one.verdict for one in compare_answers(doubted, doubted)} == {"no change"}


def test_a_verdict_is_as_sure_as_its_worst_premise(answers: tuple[Answer, ...]) -> None:
    slower = _slower(answers, 3)
    assert {one.verdict for one in compare_answers(answers, slower)} == {"slower"}
    assert {one.verdict for one in compare_answers(slower, answers)} == {"faster"}
    doubted = [replace(one, trust=replace(one.trust, certainty="unclear", doubts=("a",))) for one in slower]
    unclear = list(compare_answers(answers, doubted, ("x", "y")))
    assert {one.verdict for one in unclear} == {"unclear"}
    assert {one.doubts for one in unclear} == {("y: a",)}
    partial = [replace(one, is_at_least=True, best=None) for one in doubted]
    for one in compare_answers(answers, partial):
        assert (one.verdict, one.ratio) == ("unknown", None)
        assert one.after is not None
    absent = [replace(one, latency=None, best=None) for one in doubted]
    assert {(one.verdict, one.after) for one in compare_answers(answers, absent)} == {("unknown", None)}


def test_hazards_of_either_side_come_first(answers: tuple[Answer, ...]) -> None:
    hazard = Hazard(
        id="x", kind="refused", phase="load", text="it is refused", fix="", source="", confidence="measured"
    )
    refused = [replace(one, hazards=(hazard,), is_hazardous=True) for one in answers]
    (best, *_) = compare_answers(answers, refused, ("x", "y"))
    assert best.hazards == ("y: it is refused",)
    assert best.text.startswith("y: it is refused. ")


def test_settings_that_were_asked_for_restrict_the_best(answers: tuple[Answer, ...]) -> None:
    (best, *_) = compare_answers(answers, answers, settings=("cpu_only",))
    assert best.before is not None
    assert best.before.compute_units == "cpu_only"
