"""Findings for the console."""

from __future__ import annotations

from collections.abc import Iterable

from coremlscope.base.findings import Finding, Severity
from coremlscope.base.site import finding_page
from coremlscope.reports.terminal.screen import Screen
from coremlscope.reports.words import FINDING_MARKS, by_severity, describe_finding, finding_hint

__all__ = ["show_findings"]

_STYLES: dict[Severity, str] = {"error": "red", "warning": "yellow", "info": ""}


def show_findings(screen: Screen, findings: Iterable[Finding]) -> None:
    """Prints findings, the most severe first."""
    listed = by_severity(findings)
    if listed:
        screen.heading("Findings")
    for finding in listed:
        severity = finding.severity
        text, hint = describe_finding(finding), finding_hint(finding)
        address = finding_page(finding.id)
        style = f"{_STYLES[severity]} link {address}".strip() if address else _STYLES[severity]
        screen.bullet(FINDING_MARKS[severity], text, hint, style)
