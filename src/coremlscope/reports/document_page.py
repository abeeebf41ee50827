"""Documents as pages, in the frame of the report page: for results that have no page of their own.

A page has no script and loads nothing. Its first block, the verdict, is the head; each heading begins a
section.
"""

from __future__ import annotations

import functools
import hashlib
import re
from base64 import b64encode
from collections.abc import Iterator
from importlib import resources
from typing import assert_never

from coremlscope.base.escaping import html_text
from coremlscope.reports.document import (
    TONE_MARKS,
    Block,
    Bullet,
    Cell,
    Conclusion,
    Document,
    Drawing,
    Facts,
    Folded,
    Heading,
    Hint,
    Item,
    Strong,
    Table,
    Text,
    Title,
)

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src {policy}; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{title} – coremlscope</title>
<style>{style}</style>
</head>
<body>
<header class="topbar"><a class="skip" href="#top">Skip to the content</a>
<a class="brand" href="#top">{title}</a>{parts}
<select class="theme-switch quiet" aria-label="Theme"><option>System</option>
<option value="light">Light</option><option value="dark">Dark</option></select></header>
<main>
{content}
</main>
</body>
</html>
"""
#: The columns of drawings.
_WIDTH = 120
#: A region that scrolls sideways has a name and is reached by the keyboard.
_SCROLLED = '<div class="scroll-x" role="group" tabindex="0" aria-label="{}">'


class _Writer:
    """Writes blocks; a heading closes the section before it."""

    def __init__(self) -> None:
        self.title = ""
        self.parts: list[str] = []
        self.lines: list[str] = []
        self._is_open = self._lists_items = False

    def write(self, document: Document) -> None:
        for block in document:
            self._write(block)
        self._close()

    def _write(self, block: Block) -> None:
        if self._lists_items and not isinstance(block, Item):
            self.lines.append("</ul>")
            self._lists_items = False
        if isinstance(block, Title):
            self._begin(block)
        elif isinstance(block, Conclusion):
            self._conclude(block)
        elif isinstance(block, Heading):
            self._section(block.text, block.remark)
        elif isinstance(block, Item):
            if not self._lists_items:
                self._ensure_section()
                self.lines.append('<ul class="findings">')
                self._lists_items = True
            self.lines += _item(block)
        elif isinstance(block, Folded):
            self._ensure_section()
            summary = html_text(f"{block.title}: {block.remark}" if block.remark else block.title)
            self.lines.append(f"<details><summary>{summary}</summary>")
            inner = _Writer()
            inner._is_open = True
            for one in block.blocks:
                inner._write(one)
            self.lines += [*inner.lines, "</ul>" * inner._lists_items, "</details>"]
        elif isinstance(block, (Facts, Table, Text, Drawing)):
            if not (isinstance(block, Facts) and not self._is_open):
                self._ensure_section()
            self.lines += _content(block)
        elif not isinstance(block, Hint):
            assert_never(block)

    def _begin(self, title: Title) -> None:
        """Begins a subject; the first one names the page."""
        self._close()
        level, named = ("h2", "") if self.title else ("h1", ' id="top"')
        self.title = self.title or title.text
        remark = f'<p class="lead">{html_text(title.remark)}</p>' if title.remark else ""
        text = html_text(title.text)
        self.lines.append(f'<header class="report-head"{named}><{level}>{text}</{level}>{remark}</header>')

    def _conclude(self, found: Conclusion) -> None:
        if found.title:
            self._begin(Title(found.title))
        mark = f'<span aria-hidden="true">{TONE_MARKS[found.tone]}</span> {html_text(found.word)}'
        self.lines.append(
            f'<div class="strip strip-{found.tone}"><b class="strip-word">{mark}</b>'
            f'<p class="strip-text">{_prose(found.text.removeprefix(f"{found.word}: "))}</p></div>'
        )

    def _section(self, title: str, remark: str = "") -> None:
        self._close()
        self.parts.append(title)
        name = f"part-{len(self.parts)}"
        note = f'<div class="section-note">{html_text(remark)}</div>' if remark else ""
        self.lines.append(
            f'<section id="{name}" class="section" aria-labelledby="{name}-title">'
            f'<div class="section-head"><h2 id="{name}-title">{html_text(title)}</h2>{note}</div>'
        )
        self._is_open = True

    def _ensure_section(self) -> None:
        """Opens a section without a heading, for what stands right below the title."""
        if not self._is_open:
            self.lines.append('<section class="section">')
            self._is_open = True

    def _close(self) -> None:
        self.lines += ["</ul>"] * self._lists_items + ["</section>"] * self._is_open
        self._is_open = self._lists_items = False


def write_page(document: Document) -> str:
    """Returns a document as a self-contained page."""
    writer = _Writer()
    writer.write(document)
    links = "".join(f'<a href="#part-{n}">{html_text(part)}</a>' for n, part in enumerate(writer.parts, 1))
    style = _style()
    digest = b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    return _PAGE.format(
        policy=f"'sha256-{digest}'",
        title=html_text(writer.title or "Report"),
        style=style,
        parts=f'<nav aria-label="Parts of the page">{links}</nav>' if links else "",
        content="\n".join(filter(None, writer.lines)),
    )


_MORE_STYLE = (
    ".section > .scroll-x + *{margin-top:12px}"
    ".finding{grid-template-columns:24px 1fr}"
    ":root:has(option[value=light]:checked){color-scheme:light}"
    ":root:has(option[value=dark]:checked){color-scheme:dark}"
)


@functools.cache
def _style() -> str:
    """The style sheet of the report page."""
    file = resources.files("coremlscope.reports") / "bundle" / "report.css"
    return file.read_text(encoding="utf-8").strip() + _MORE_STYLE


def _content(block: Facts | Table | Text | Drawing) -> Iterator[str]:
    if isinstance(block, Facts):
        rows = [row for row in block.rows if row[1]]
        facts = (f'<div class="fact"><dt>{html_text(a)}</dt><dd>{html_text(b)}</dd></div>' for a, b in rows)
        yield f'<dl class="facts">{"".join(facts)}</dl>' if rows else ""
    elif isinstance(block, Table):
        yield from _table(block)
    elif isinstance(block, Text):
        text = _prose(block.text)
        yield f"<p><b>{text}</b></p>" if block.style in ("strong", "warning", "error") else f"<p>{text}</p>"
    else:
        lines = block.draw(_WIDTH)
        drawn = "\n".join(map(html_text, lines))
        yield f"{_SCROLLED.format('Drawing')}<pre>{drawn}</pre></div>" if lines else ""


def _prose(text: str) -> str:
    """A text in which commands stand between backquotes; what else does, such as in names, stays as it is."""
    return re.sub("`([\\w .,:=/-]+)`", r"<code>\1</code>", html_text(text))


def _item(item: Item) -> Iterator[str]:
    severity = item.style if item.style in ("warning", "error") else "info"
    details = "".join(f"<div>{_prose(detail)}</div>" for detail in item.details)
    hints = "".join(f'<div class="fix">→ {_prose(hint)}</div>' for hint in item.hints)
    yield (
        f'<li class="finding finding-{severity}"><span class="severity">{html_text(item.mark)}</span>'
        f"<div>{_prose(item.text)}{details}{_drawn(item.bullet)}{hints}</div></li>"
    )


def _drawn(bullet: Bullet | None) -> str:
    """Returns a figure and its interval on a line from 0; the side that the limit allows is filled."""
    if bullet is None:
        return ""
    value, low, high = bullet.figure.value, bullet.figure.low, bullet.figure.high
    end = max(value, high, bullet.limit) * 1.1 or 1.0
    point, left, right, limit = (f"{100 * one / end:.1f}%" for one in (value, low, high, bullet.limit))
    allowed = (
        f'x="{limit}" width="{100 - 100 * bullet.limit / end:.1f}%"'
        if bullet.is_least
        else f'width="{limit}"'
    )
    return (
        '<svg class="bullet" aria-hidden="true"><rect class="bullet-track" width="100%" height="100%"/>'
        f'<rect class="bullet-allowed" {allowed} height="100%"/>'
        f'<line class="bullet-range" x1="{left}" x2="{right}" y1="50%" y2="50%"/>'
        f'<circle cx="{point}" cy="50%" r="4"/>'
        f'<line class="bullet-limit" x1="{limit}" x2="{limit}" y2="100%"/></svg>'
    )


def _table(block: Table) -> Iterator[str]:
    """Yields a table, without empty columns."""
    kept = [i for i in range(len(block.columns)) if any(row[i] != "" for row in block.shown)]
    if not kept:
        return
    classes = [' class="number"' if block.columns[i].is_number else "" for i in kept]
    yield f'{_SCROLLED.format("Table")}<table class="plain"><thead><tr>'
    for i, side in zip(kept, classes, strict=True):
        title = html_text(block.columns[i].title)
        yield f'<th scope="col"{side}>{title}</th>' if title else "<td></td>"
    yield "</tr></thead><tbody>"
    for row in block.shown:
        cells = (f"<td{side}>{_cell(row[i])}</td>" for i, side in zip(kept, classes, strict=True))
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"
    rest = block.rest(len(block.shown))
    yield f"<p>{html_text(rest)}</p>" if rest else ""


def _cell(value: Cell) -> str:
    if isinstance(value, Strong):
        return f"<b>{html_text(value)}</b>"
    if isinstance(value, Bullet):
        return _drawn(value)
    return html_text(value) if isinstance(value, str) else f"{100 * value:.0f} %"
