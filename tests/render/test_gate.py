from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import fastjsonschema
import junitparser
import pytest

from coremlscope.base.figures import Figure
from coremlscope.reports.gate import RULES, gate_document, render_junit, render_sarif
from coremlscope.reports.json import render_json
from coremlscope.reports.renderers import GATE_RENDERERS, Renderer, renderers_of
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.results.encoding import decode
from coremlscope.results.gate import CheckedModel, CheckResult, GateReport
from coremlscope.results.profile import Provenance
from coremlscope.results.schema import json_schema_of
from tests.support.json_schemas import violations


def _check(kind: str, verdict: str, text: str = 'a <b> & "c" \x1b[31m ]]>') -> CheckResult:
    return CheckResult(
        kind=kind,
        subject="M1, macOS 15, all",
        quantity="seconds",
        limit=1.0,
        value=Figure(2.0, 1.0, 3.0, "estimated"),
        verdict=verdict,
        text=text,
        hint="do this",
    )


def report(strict: bool = False) -> GateReport:
    checks = tuple(
        _check(kind, verdict)
        for kind, verdict in (
            ("max-latency", "fail"),
            ("max-size", "pass"),
            ("max-memory", "uncertain"),
            ("min-psnr", "unknown"),
        )
    )
    return GateReport(
        made=Provenance("2026-01-01T00:00:00Z", "0.1.0"),
        strict=strict,
        models=(
            CheckedModel(path="models/net & more.mlpackage", size_bytes=1000, checks=checks),
            CheckedModel(path="b.mlpackage", failure="it is damaged", hint="get it again", exit_code=3),
        ),
    )


@pytest.mark.parametrize("width", [60, 80, 140])
def test_console(width: int) -> None:
    text = write_terminal(gate_document(report()), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text
    for part in ("✗ fail:", "✓ pass:", "~ uncertain:", "? unknown:", "it is damaged", "2 not kept"):
        assert part in " ".join(text.split())
    assert "uncertain, fails:" in write_terminal(gate_document(report(strict=True)), width=width)


def test_junit() -> None:
    for strict, failures in ((False, 2), (True, 3)):
        root = ElementTree.fromstring(render_junit(report(strict)).encode())
        assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("5", str(failures), "1")
        assert len(root.findall(".//failure")) == failures
        (error,) = root.findall(".//error")
        assert error.get("message") == "it is damaged"
        assert root[0].get("name") == "models/net & more.mlpackage"
        assert "a <b>" in str(root.findall(".//failure")[0].get("message"))


def test_sarif() -> None:
    data = json.loads(render_sarif(report()))
    assert data["version"] == "2.1.0"
    (run,) = data["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == list(RULES)
    found = {result["ruleId"]: result["level"] for result in run["results"]}
    assert found == {
        "max-latency": "error",
        "max-memory": "warning",
        "min-psnr": "error",
        "not-checked": "error",
    }
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        (location,) = result["locations"]
        assert location["physicalLocation"]["region"] == {"startLine": 1}
        assert " " not in location["physicalLocation"]["artifactLocation"]["uri"]
    fingerprints = [result["partialFingerprints"]["coremlscopeCheck/v1"] for result in run["results"]]
    assert len(set(fingerprints)) == len(fingerprints)
    strict = json.loads(render_sarif(report(strict=True)))["runs"][0]["results"]
    assert {r["level"] for r in strict} == {"error"}


def test_uris_of_sarif(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outside = tmp_path.parent / "a b.mlmodel"
    uris = []
    for path in ("in.mlmodel", str(tmp_path / "in.mlmodel"), str(outside), "../a b.mlmodel"):
        model = CheckedModel(path=path, checks=(_check("max-size", "fail"),))
        made = GateReport(made=Provenance(at="", version=""), strict=False, models=(model,))
        (result,) = json.loads(render_sarif(made))["runs"][0]["results"]
        uris.append(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])
    assert uris == ["in.mlmodel", "in.mlmodel", outside.as_uri(), outside.as_uri()]


@functools.cache
def _sarif_schema() -> Callable[[Any], Any]:
    text = (Path(__file__).parents[1] / "data/sarif/sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8")
    check: Callable[[Any], Any] = fastjsonschema.compile(json.loads(text))
    return check


EMPTY = GateReport(made=Provenance(), strict=False, models=())


@pytest.mark.parametrize("given", [report(), report(strict=True), EMPTY], ids=["lenient", "strict", "empty"])
def test_sarif_follows_its_schema(given: GateReport) -> None:
    check = _sarif_schema()
    check(json.loads(render_sarif(given)))


@pytest.mark.parametrize("key", ["level", "message", "locations"])
def test_the_schema_of_sarif_rejects_other_values(key: str) -> None:
    data = json.loads(render_sarif(report()))
    data["runs"][0]["results"][0][key] = "unheard of"
    with pytest.raises(fastjsonschema.JsonSchemaValueException):
        _sarif_schema()(data)


@pytest.mark.parametrize("strict", [False, True])
def test_junit_is_read_by_its_readers(strict: bool) -> None:
    found = junitparser.JUnitXml.fromstring(render_junit(report(strict)).encode())
    declared = found.tests, found.failures, found.errors
    first, second = (list(suite) for suite in found)
    assert [case.name.split()[0] for case in first] == ["max-latency", "max-size", "max-memory", "min-psnr"]
    failed = [[type(one) for one in case.result] for case in first]
    failure = [junitparser.Failure]
    assert failed == [failure, [], failure if strict else [], failure]
    assert [type(one) for one in second[0].result] == [junitparser.Error]
    for suite in found:
        counted = suite.tests, suite.failures, suite.errors
        suite.update_statistics()
        assert (suite.tests, suite.failures, suite.errors) == counted
    found.update_statistics()
    assert (found.tests, found.failures, found.errors) == declared


def test_json_follows_the_schema_and_is_read_again() -> None:
    schema = json_schema_of(GateReport, "check")
    data = json.loads(render_json(report()))
    assert data.pop("schema") == "coremlscope.check/1"
    assert violations(data, schema, schema) == []
    assert decode(data, GateReport) == report()


@pytest.mark.parametrize("renderer", GATE_RENDERERS, ids=lambda renderer: renderer.suffix)
def test_every_format(renderer: Renderer) -> None:
    assert renderer in renderers_of(report())
    text = renderer.render(report())
    assert "damaged" in text
    assert "\x1b" not in text
