"""How the work of classical models is counted, where model types share the rule."""

from __future__ import annotations

from collections.abc import Callable

from coremlscope.model.ir import TensorType
from coremlscope.ops.spec import Work, moved
from coremlscope.ops.view import OpView


def per_result(flops: int) -> Callable[[OpView], Work]:
    """`flops` operations per number of the results."""

    def work(view: OpView) -> Work:
        types = [result.type for result in view.outputs]
        return moved(view, sum(flops * (t.elements or 0) for t in types if isinstance(t, TensorType)))

    return work
