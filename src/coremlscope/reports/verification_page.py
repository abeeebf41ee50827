"""A verification as one page: a sentence, the graph around the first operation that differs, both values, the
cause with its evidence, and the fix. It has no script and loads nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from coremlscope.base.escaping import html_text as text
from coremlscope.reports.verification import (
    OUTPUT_TITLES,
    VALUE_TITLES,
    fault_lines,
    fix_lines,
    headline,
    output_rows,
    pairing_line,
    parted_pairs,
    value_rows,
)
from coremlscope.reports.words import model_name
from coremlscope.results.verification import PairedValue, Verification

__all__ = ["render_html_verification"]

#: Values around the fault that the graph shows, and the size of a box in pixels.
_SHOWN, _WIDTH, _HEIGHT, _GAP = 11, 560, 34, 16
#: Relative errors from which on a box is yellow, and red.
_LEVELS = (1e-3, 2e-2)
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1d2129}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse}
td,th{padding:.25rem .75rem;border-bottom:1px solid #ddd;text-align:left}
pre{background:#f4f5f7;padding:.75rem;
white-space:pre-wrap}rect{stroke:#8a919e}.ok{fill:#e5f4e8}.off{fill:#fdf3d1}.far{fill:#fbdcdc}
.first{stroke:#b3261e;stroke-width:3}svg text{font-size:13px}
"""


def render_html_verification(found: Verification) -> str:
    """Renders a verification as a page.

    Args:
        found: The verification.
    """
    parts = [
        f"<h1>{text(headline(found))}</h1>",
        _table(
            ("", ""),
            [
                ("model", model_name(found.model)),
                ("reference", found.reference),
                ("inputs", "; ".join(found.inputs)),
            ],
        ),
        "<h2>Outputs</h2>",
        _table(OUTPUT_TITLES, output_rows(found)),
    ]
    for fault in found.faults:
        title, lines = fault_lines(fault)
        parts += ["<h2>The first operation that differs</h2>", f"<p><b>{text(title)}</b></p>"]
        parts += [f"<p>{text(line)}</p>" for line in lines.splitlines()]
        if fault.values:
            parts += [_table(VALUE_TITLES, value_rows(fault))]
    for fix in found.fixes:
        title, lines = fix_lines(fix)
        parts += ["<h2>A change that was tried</h2>", f"<p><b>{text(title)}</b></p>"]
        parts += [f"<p>{text(lines.splitlines()[0])}</p>"]
        parts += [f"<pre>{text(fix.code)}</pre>"] if fix.code else []
    if found.faults and found.pairs:
        parts += ["<h2>The graph around it</h2>", _graph(found), f"<p>{text(pairing_line(found))}</p>"]
    parts += [f"<p>{text(finding.text)} {text(finding.hint or '')}</p>" for finding in found.findings]
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{text(headline(found))}</title><style>{_STYLE}</style><body>{''.join(parts)}</body></html>\n"
    )


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{text(title)}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _graph(found: Verification) -> str:
    """Returns the paired values around the first fault as a chain of boxes, coloured by their errors."""
    pairs = parted_pairs(found, _SHOWN)
    wrong = {fault.op for fault in found.faults} | {fault.seen_at for fault in found.faults}
    height = len(pairs) * (_HEIGHT + _GAP)
    boxes = []
    for place, pair in enumerate(pairs):
        y = place * (_HEIGHT + _GAP)
        first = " first" if pair.op and pair.op in wrong else ""
        label = f"{pair.type or 'input'} {pair.name} | {pair.reference} | {_error(pair)}"
        boxes.append(
            f'<rect x="2" y="{y + 2}" width="{_WIDTH - 4}" height="{_HEIGHT}" rx="6"'
            f' class="{_level(pair)}{first}"/><text x="14" y="{y + 24}">{text(label)}</text>'
        )
        if place:
            boxes.append(f'<path d="M30 {y - _GAP + 2}V{y + 2}" stroke="#8a919e"/>')
    return f'<svg width="{_WIDTH}" height="{height}" role="img">{"".join(boxes)}</svg>'


def _worst(pair: PairedValue) -> float | None:
    errors = [pair.fp32] + ([] if pair.fp16 is None else [pair.fp16])
    return None if pair.fp32 is None else max(error or 0.0 for error in errors)


def _error(pair: PairedValue) -> str:
    worst = _worst(pair)
    return "infinite or NaN" if worst is None else f"off by {worst:.2g}"


def _level(pair: PairedValue) -> str:
    worst = _worst(pair)
    return "far" if worst is None or worst > _LEVELS[1] else "off" if worst > _LEVELS[0] else "ok"
