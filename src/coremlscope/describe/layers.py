"""Layers of neural networks that cannot be run here, and what was assumed when the model was read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from coremlscope.model.ir import Model
from coremlscope.results.model import READ_BY

#: The number of reasons that are listed.
_MOST = 5


def describe_assumptions(model: Model) -> Iterator[tuple[str, str]]:
    """Yields label and text of what read a model, what was assumed, and why layers of it cannot be run."""
    if model.reader:
        yield READ_BY, model.reader
    yield from (("assumed", remark) for remark in model.remarks)
    layers = [layer for function in model.content.functions.values() for layer in function.layers]
    reasons = Counter(
        (layer.type, layer.problem or layer.doubt) for layer in layers if layer.problem or layer.doubt
    )
    for (type_, reason), count in reasons.most_common(_MOST):
        yield "cannot run", f"{type_} ×{count}: {reason}"
    rest = sum(count for _, count in reasons.most_common()[_MOST:])
    if rest:
        yield "cannot run", f"others ×{rest}"
