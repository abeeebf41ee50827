"""One self-contained HTML page: the front end's script and style sheet, and the result as JSON.

`make frontend` builds the front end from `frontend/` (TypeScript) into `bundle/`. The page loads nothing: a
Content-Security-Policy allows only the one script, which the page also runs as a worker, and the one style
sheet.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import msgspec

from coremlscope.base.escaping import html_text
from coremlscope.base.version import __version__
from coremlscope.describe.comparison.profiles import Comparison
from coremlscope.devices import all_chips
from coremlscope.reports.difference import conclude_comparison
from coremlscope.reports.json import Result, displayed, to_values, without_folders
from coremlscope.reports.program.report import conclude_trace, recording_facts
from coremlscope.reports.variants import conclude_variants
from coremlscope.reports.words import model_name, plural
from coremlscope.results.encoding import plain
from coremlscope.results.events import EVENT_KINDS
from coremlscope.results.model import ModelSummary
from coremlscope.results.preview import PREVIEW, Preview
from coremlscope.results.profile import Profile
from coremlscope.results.sweep import ResultTable
from coremlscope.results.trace import Trace
from coremlscope.results.variants import VariantReport

#: Characters that could end the script element or start a comment, and two that old scripts do not allow.
_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>This report needs JavaScript; the script is part of the page.</noscript>
<div id="app"></div>
<script type="application/json" id="payload">{payload}</script>
<script>{script}</script>
</body>
</html>
"""


def render_html(subject: Profile | ModelSummary | Comparison | Sequence[Profile]) -> str:
    """A report as a page."""
    return build_page(to_page_values(subject), page_title(subject))


def page_title(subject: Profile | ModelSummary | Comparison | Sequence[Profile]) -> str:
    """The title of the page of a result."""
    if isinstance(subject, Profile):
        return model_name(subject.model.path)
    if isinstance(subject, ModelSummary):
        return model_name(subject.path)
    if isinstance(subject, Comparison):
        labels = " · ".join(one.label for one in subject.subjects)
        return labels or plural(len(subject.profiles), "model")
    return plural(len(subject), "model")


def render_html_trace(trace: Trace) -> str:
    """A recorded program as a page."""
    return build_page(trace_values(trace), " ".join(trace.command) or "Recorded program")


def trace_values(trace: Trace) -> dict[str, Any]:
    """A recorded program as plain values for a page, with its facts and the kinds of events."""
    added = {
        "facts": recording_facts(trace),
        "kinds": [msgspec.to_builtins(kind) for kind in EVENT_KINDS],
        "conclusions": [plain(conclude_trace(trace))],
    }
    return {**trace.to_json(), **added}


def render_html_variants(report: VariantReport) -> str:
    """Variants of a model as a page."""
    values = {**report.to_json(), "conclusions": [plain(conclude_variants(report))]}
    return build_page(values, f"Variants of {model_name(report.path)}")


def render_html_preview(preview: Preview, model: str) -> str:
    """One prediction as a page.

    Args:
        preview: The prediction.
        model: The name of the model.
    """
    return build_page({"schema": PREVIEW, "model": model, **plain(preview)}, f"{model}: a prediction")


def render_html_results(table: ResultTable) -> str:
    """Results of sweeps as a page."""
    return build_page(table.to_json(), "Results of sweeps")


def to_page_values(subject: Result) -> dict[str, Any]:
    """A result as plain values for a page: to keep it small, planned costs have six significant digits."""
    values = to_values(subject)
    if isinstance(subject, Comparison):
        values["conclusions"] = [*map(plain, conclude_comparison(subject))]
    for profile in values.get("profiles", [values]):
        for plan in profile.get("plans", ()):
            ops = plan["ops"]
            for column in (ops["cost_ms"], *(choices["detour_ms"] for choices in ops["choices"].values())):
                column.update({name: [*map(_rounded, costs)] for name, costs in column.items()})
    return values


def _rounded(cost: float | None) -> float | None:
    return None if cost is None else float(f"{cost:.6g}")


def build_page(result: Mapping[str, Any], title: str, *, connects: bool = False) -> str:
    """The page that shows a result.

    Args:
        result: Plain values with a `schema` that the front end knows (`frontend/src/main.tsx`).
        title: The title of the window.
        connects: Whether the page may send requests to the server that it comes from.
    """
    style, script = _bundle()
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "img-src data:",
            # The page lays out graphs in a worker that it makes from its own script.
            "worker-src blob:",
            "connect-src 'self'" if connects else "connect-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    payload = json.dumps(
        page_payload(result),
        ensure_ascii=False,
        separators=(",", ":"),
        allow_nan=False,
    ).translate(_ESCAPES)
    return _PAGE.format(
        policy=policy,
        title=html_text(f"{title} – coremlscope"),
        style=style,
        payload=payload,
        script=script,
    )


def page_payload(result: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a page as plain values; see `build_page`."""
    return {
        "version": __version__,
        "result": displayed(without_folders(result)),
        "chips": [[chip.id, chip.name] for chip in all_chips().values()],
    }


@functools.cache
def _bundle() -> tuple[str, str]:
    """The style sheet and the script."""
    folder = resources.files("coremlscope.reports") / "bundle"
    return (
        (folder / "report.css").read_text(encoding="utf-8").strip(),
        (folder / "report.js").read_text(encoding="utf-8").strip(),
    )


def _hash(text: str) -> str:
    """A source expression of a Content-Security-Policy that allows just this text."""
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"
