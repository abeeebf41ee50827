"""The outputs of one prediction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from coremlscope.base.escaping import json_text
from coremlscope.base.units import format_share
from coremlscope.model.features import describe_shape
from coremlscope.model.ir import Array
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.reports.words import plural, shorten

__all__ = ["render_prediction", "render_prediction_json"]

#: Classes and elements that are printed; the rest is counted.
_TOP, _ELEMENTS, _BAR = 5, 6, 20


def render_prediction(
    results: Mapping[str, Any], *, width: int = 100, color: bool = False, hint: bool = False
) -> str:
    """The outputs as text: the most probable classes, and summaries of arrays.

    Args:
        results: By name of the output.
        width: Columns.
        color: Whether to use ANSI colours.
        hint: Whether to say how to get outputs in full.
    """
    screen = Screen(width, color)
    for name, value in results.items():
        title = shorten(name, width // 2)
        if isinstance(value, np.ndarray):
            _show_array(screen, title, value)
        elif isinstance(value, Mapping):
            _show_classes(screen, title, value)
        elif hasattr(value, "mode"):
            screen.title(title, f"  image {value.mode} {value.width}×{value.height}")
        else:
            screen.title(title, f"  {value}")
    if hint and any(isinstance(v, np.ndarray) or hasattr(v, "mode") for v in results.values()):
        screen.line()
        screen.line("-o FOLDER writes arrays and images in full; --json - prints all numbers", "dim")
    return screen.text


def _show_classes(screen: Screen, title: str, scores: Mapping[Any, float]) -> None:
    best = sorted(scores.items(), key=lambda item: -item[1])[:_TOP]
    rest = len(scores) - len(best)
    screen.title(title, f"  the best {len(best)} of {plural(len(scores), 'class')}" if rest else "")
    are_shares = all(-1e-6 <= score <= 1 + 1e-6 for score in scores.values())
    rows = []
    for label, score in best:
        bar = "█" * round(score * _BAR) if are_shares else ""
        rows.append((str(label), format_share(score) if are_shares else f"{score:.4g}", bar))
    columns = (
        Column("", most=max(16, screen.width // 2)),
        Column("", is_number=True),
        Column("", style="cyan"),
    )
    screen.table(columns, rows)


def _show_array(screen: Screen, title: str, array: Array) -> None:
    screen.title(title, f"  {array.dtype} {describe_shape(array.shape)}")
    if not array.size:
        return
    flat = array.reshape(-1)
    first = ", ".join(f"{value:.4g}" for value in flat[:_ELEMENTS].tolist())
    screen.line(f"{first}{', …' if flat.size > _ELEMENTS else ''}", indent=2)
    if flat.size > _ELEMENTS:
        screen.line(_spread(flat), "dim", indent=2)


def _spread(flat: Array) -> str:
    numbers = flat.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    odd = flat.size - finite.size
    text = f"min {finite.min():.4g}, mean {finite.mean():.4g}, max {finite.max():.4g}" if finite.size else ""
    return ", ".join(part for part in (text, f"{odd} not finite" if odd else "") if part)


def render_prediction_json(results: Mapping[str, Any]) -> str:
    """Renders the outputs as JSON: arrays with type, shape and all elements, images by mode and size only."""
    values = {name: _plain(value) for name, value in results.items()}
    return json_text(json.dumps(values, ensure_ascii=False)) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        # JSON cannot represent NaN and infinity.
        elements = [None if isinstance(v, float) and v - v != 0 else v for v in value.reshape(-1).tolist()]
        return {"dtype": str(value.dtype), "shape": list(value.shape), "elements": elements}
    if isinstance(value, Mapping):
        return {str(key): float(item) for key, item in value.items()}
    if hasattr(value, "mode"):
        return {"image": value.mode, "width": value.width, "height": value.height}
    return value
