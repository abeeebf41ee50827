"""The addresses of the documentation, which stay: terminals, reports and SARIF link to them."""

from __future__ import annotations

import re

SITE = "https://coremlscope.github.io/coremlscope/"


def page(path: str) -> str:
    """Returns the address of a page: `guides/mac-files`."""
    return f"{SITE}{path}/"


def rule_page(rule: str) -> str:
    """Returns the address of a placement rule."""
    return page(f"rules/{rule}")


def finding_page(finding: str) -> str:
    """Returns the address of a finding; one about a placement rule has the rule's id.

    It is empty for what cannot be an id: saved profiles come from anywhere.
    """
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", finding):
        return ""
    is_rule = finding.startswith(("ne-", "gpu-", "cpu-"))
    return rule_page(finding) if is_rule else page(f"findings/{finding}")
