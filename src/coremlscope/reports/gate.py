"""A gate's result: a document, JUnit XML for test reports, SARIF for code scanning."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from coremlscope.base.site import SITE, page
from coremlscope.base.units import escape_controls, format_bytes
from coremlscope.reports.document import Block, Bullet, Conclusion, Facts, Item, Style, Title
from coremlscope.reports.json import render_values
from coremlscope.reports.words import model_name, plural
from coremlscope.results.gate import CheckedModel, CheckResult, GateReport, Verdict

#: Marks and styles of verdicts in lists.
_MARKS: Mapping[Verdict, tuple[str, Style]] = {
    "pass": ("✓", "good"),
    "uncertain": ("~", "warning"),
    "fail": ("✗", "error"),
    "unknown": ("?", "error"),
}

#: Descriptions of limits, for tools that show rules.
RULES: Mapping[str, str] = {
    "max-latency": "The estimated latency of a prediction is at most the limit.",
    "min-neural-engine": "At least this share of the operations is planned on the Neural Engine.",
    "no-known-crash": "No operation runs where it is known to end the app or to return wrong values.",
    "max-size": "The package or file has at most this size.",
    "max-memory": "The estimated peak memory of a prediction is at most the limit.",
    "min-psnr": "The outputs are at least this close to the reference.",
    "baseline": "No figure is worse than that of the baseline, within the tolerance.",
    "loads": "The system of each device loads the model.",
    "not-checked": "The model can be read and checked.",
}

_SARIF = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
#: The file in a package that stands for it: tools show files, not folders.
_SPECIFICATION = "Data/com.apple.CoreML/model.mlmodel"


def gate_document(report: GateReport) -> Iterator[Block]:
    """Yields whether all limits are kept, then the limits of each model."""
    yield _conclude(report)
    for model in report.models:
        size = "" if model.size_bytes is None else format_bytes(model.size_bytes)
        yield Title(model_name(model.path), size) if len(report.models) > 1 else Facts([("size", size)])
        if model.failure:
            yield Item(model.failure, model.hint, "✗", "error")
        for check in model.checks:
            fails = ", fails" if check.verdict == "uncertain" and report.strict else ""
            text = f"{check.verdict}{fails}: {check.text}"
            yield Item(text, check.hint, *_MARKS[check.verdict], bullet=_bullet(check))


def _bullet(check: CheckResult) -> Bullet | None:
    """Returns the figure of a limit; None where it counts, or is not known."""
    if check.value is None or check.quantity in ("version", "operations"):
        return None
    return Bullet(check.value, check.limit, check.kind in ("min-neural-engine", "min-psnr"))


def _conclude(report: GateReport) -> Conclusion:
    """Returns whether all limits are kept, and their numbers: `5 limits, 1 not kept, 2 uncertain`."""
    checks = [check for model in report.models for check in model.checks]
    unread = sum(bool(model.failure) for model in report.models)
    parts = [f"{plural(unread, 'model')} not checked"] if unread else []
    if checks or not unread:
        parts.append(plural(len(checks), "limit"))
        parts.append(f"{len(report.failed)} not kept" if report.failed else "all kept")
    uncertain = sum(check.verdict == "uncertain" for check in checks)
    if uncertain:
        why = (
            "counted as not kept (--strict)" if report.strict else "kept by the estimate, not by its interval"
        )
        parts.append(f"{uncertain} uncertain: {why}")
    names = [model_name(model.path) for model in report.models]
    title = names[0] if len(names) == 1 else plural(len(names), "model")
    text = ", ".join(parts)
    if report.exit_code:
        return Conclusion("wrong", "not kept" if report.failed else "not checked", text, title)
    return Conclusion("doubt" if uncertain else "kept", "uncertain" if uncertain else "kept", text, title)


def render_junit(report: GateReport) -> str:
    """Renders a gate's result as JUnit XML: a suite for each model, a case for each limit."""
    suites = [_suite(model, report.strict) for model in report.models]
    tests = sum(max(len(model.checks), 1) for model in report.models)
    errors = sum(bool(model.failure) for model in report.models)
    head = f'<testsuites name="coremlscope check" tests="{tests}" failures="{len(report.failed)}"'
    return "\n".join(
        ['<?xml version="1.0" encoding="UTF-8"?>', f'{head} errors="{errors}">', *suites, "</testsuites>", ""]
    )


def _suite(model: CheckedModel, strict: bool) -> str:
    failures = sum(not check.holds(strict) for check in model.checks)
    name = _attribute(model.path)
    lines = [
        f'  <testsuite name={name} tests="{max(len(model.checks), 1)}" failures="{failures}"'
        f' errors="{int(bool(model.failure))}">'
    ]
    if model.failure:
        lines += [
            f'    <testcase classname={name} name="read">',
            f"      <error message={_attribute(model.failure)}>{_text(model.hint)}</error>",
            "    </testcase>",
        ]
    for check in model.checks:
        title = _attribute(" ".join(filter(None, (check.kind, check.subject))))
        lines.append(f"    <testcase classname={name} name={title}>")
        if not check.holds(strict):
            kind = f'type="{check.verdict}"'
            lines.append(
                f"      <failure {kind} message={_attribute(check.text)}>{_text(check.hint)}</failure>"
            )
        lines += [f"      <system-out>{_text(check.text)}</system-out>", "    </testcase>"]
    return "\n".join([*lines, "  </testsuite>"])


def _attribute(text: str) -> str:
    escaped = html.escape(_allowed(text))
    return '"' + escaped.replace("\n", "&#10;").replace("\r", "&#13;").replace("\t", "&#9;") + '"'


def _text(text: str) -> str:
    return html.escape(_allowed(text), quote=False)


def _allowed(text: str) -> str:
    """Returns text without characters that XML does not allow."""
    shown = escape_controls(text)
    return "".join(
        c if c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c >= "\U00010000" else "\ufffd" for c in shown
    )


def render_sarif(report: GateReport) -> str:
    """Renders a gate's result as SARIF 2.1.0, with a result for each limit that is not surely kept."""
    rules = [
        {"id": name, "shortDescription": {"text": text}, "helpUri": page("guides/gate")}
        for name, text in RULES.items()
    ]
    driver = {
        "name": "coremlscope",
        "informationUri": SITE,
        "version": report.made.version,
        "rules": rules,
    }
    results = [result for model in report.models for result in _results(model, report.strict)]
    run = {"tool": {"driver": driver}, "columnKind": "utf16CodeUnits", "results": results}
    return render_values({"$schema": _SARIF, "version": "2.1.0", "runs": [run]})


def _results(model: CheckedModel, strict: bool) -> Iterator[dict[str, Any]]:
    if model.failure:
        yield _result("not-checked", "error", model.failure, model.hint, model.path, "")
    for check in model.checks:
        if check.verdict != "pass":
            level = "warning" if check.holds(strict) else "error"
            yield _result(check.kind, level, check.text, check.hint, model.path, check.subject)


def _result(rule: str, level: str, text: str, hint: str, path: str, subject: str) -> dict[str, Any]:
    message = escape_controls(f"{text}. {hint}" if hint else text)
    return {
        "ruleId": rule,
        "ruleIndex": list(RULES).index(rule),
        "level": level,
        "message": {"text": message},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(path)},
                    "region": {"startLine": 1},
                }
            }
        ],
        "partialFingerprints": {"coremlscopeCheck/v1": f"{rule} {PurePath(path).as_posix()} {subject}"},
    }


def _uri(path: str) -> str:
    """Returns the URI of the model's file, which is relative inside the current folder."""
    file = Path(path)
    if (file / _SPECIFICATION).is_file():
        file = file / _SPECIFICATION
    here = Path.cwd()
    whole = here / file
    if ".." in whole.parts:
        whole = whole.resolve()
    return quote(whole.relative_to(here).as_posix()) if whole.is_relative_to(here) else whole.as_uri()
