"""One self-contained page: the front end's script and style sheet with the result's JSON between them.

The page is made from `frontend/` (TypeScript) by `make frontend`; what that built lies in `bundle/`. The page
loads nothing: a Content-Security-Policy allows just the one script and the one style sheet.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import json
from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

from coremlscope.render.json import plain
from coremlscope.render.words import model_name
from coremlscope.units import escape_controls
from coremlscope.version import __version__

if TYPE_CHECKING:
    from coremlscope.comparison.profiles import Comparison
    from coremlscope.describe.model import ModelSummary
    from coremlscope.results.profile import Profile

__all__ = ["build_page", "render_html", "render_html_comparison"]

#: What would end the script element or start a comment in it, and what JSON allows but old scripts do not.
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
<noscript>This report needs JavaScript, which the page brings along.</noscript>
<div id="app"></div>
<script type="application/json" id="payload">{payload}</script>
<script>{script}</script>
</body>
</html>
"""


def render_html(subject: Profile | ModelSummary) -> str:
    """A report as a page."""
    data = subject.to_json()
    path = data["model"]["path"] if "model" in data else data["path"]
    return build_page(data, model_name(path))


def render_html_comparison(comparison: Comparison) -> str:
    """A comparison as a page."""
    return build_page(comparison.to_json(), " · ".join(s.label for s in comparison.subjects))


def build_page(result: Mapping[str, Any], title: str, *, connects: bool = False) -> str:
    """The page that shows a result.

    Args:
        result: Plain values with a `schema` that the front end knows (`frontend/src/main.tsx`).
        title: What the window is called.
        connects: Whether it may ask the server that it comes from for more.
    """
    style, script = _bundle()
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "img-src data:",
            "connect-src 'self'" if connects else "connect-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    payload = json.dumps(
        {"version": __version__, "result": plain(result)},
        ensure_ascii=False,
        separators=(",", ":"),
        allow_nan=False,
    ).translate(_ESCAPES)
    return _PAGE.format(
        policy=policy,
        title=html.escape(escape_controls(f"{title} – coremlscope")),
        style=style,
        payload=payload,
        script=script,
    )


@functools.cache
def _bundle() -> tuple[str, str]:
    """The style sheet and the script."""
    folder = resources.files("coremlscope.render") / "bundle"
    return (
        (folder / "report.css").read_text(encoding="utf-8").strip(),
        (folder / "report.js").read_text(encoding="utf-8").strip(),
    )


def _hash(text: str) -> str:
    """A source expression of a Content-Security-Policy that allows just this text."""
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"
