"""The outputs of one prediction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from coremlscope.base.escaping import json_text
from coremlscope.base.units import format_share
from coremlscope.model.features import describe_shape
from coremlscope.model.ir import Array
from coremlscope.reports.document import Block, Cell, Column, Hint, Table, Text, Title, labels, numbers
from coremlscope.reports.words import plural

#: Classes and elements that are printed; the rest is counted.
_TOP, _ELEMENTS = 5, 6


def prediction_document(results: Mapping[str, Any], *, hint: bool = False) -> Iterator[Block]:
    """Yields the outputs: the most probable classes, and summaries of arrays.

    Args:
        results: By name of the output.
        hint: Whether to say how to get outputs in full.
    """
    for name, value in results.items():
        if isinstance(value, np.ndarray):
            yield from _array(name, value)
        elif isinstance(value, Mapping):
            yield from _classes(name, value)
        elif hasattr(value, "mode"):
            yield Title(name, f"image {value.mode} {value.width}×{value.height}")
        else:
            yield Title(name, str(value))
    if hint and any(isinstance(v, np.ndarray) or hasattr(v, "mode") for v in results.values()):
        yield Hint("-o FOLDER writes arrays and images in full; --json - prints all numbers")


def _classes(name: str, scores: Mapping[Any, float]) -> Iterator[Block]:
    best = sorted(scores.items(), key=lambda item: -item[1])[:_TOP]
    rest = len(scores) - len(best)
    yield Title(name, f"the best {len(best)} of {plural(len(scores), 'class')}" if rest else "")
    are_shares = all(-1e-6 <= score <= 1 + 1e-6 for score in scores.values())
    rows: list[tuple[Cell, ...]] = [
        (str(label), format_share(score) if are_shares else f"{score:.4g}", score if are_shares else "")
        for label, score in best
    ]
    yield Table((labels(least=16), *numbers(""), Column("", style="cyan", rank=1)), rows)


def _array(name: str, array: Array) -> Iterator[Block]:
    yield Title(name, f"{array.dtype} {describe_shape(array.shape)}")
    if not array.size:
        return
    flat = array.reshape(-1)
    first = ", ".join(f"{value:.4g}" for value in flat[:_ELEMENTS].tolist())
    yield Text(f"{first}{', …' if flat.size > _ELEMENTS else ''}", "")
    if flat.size > _ELEMENTS:
        yield Text(_spread(flat))


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
