"""How the work of operations is counted.

A multiply-add is two operations. A comparison, a division and each elementary function (`exp`, `sqrt`, …)
is one, as in the operation's formula. Work once per window, row or channel, not per element, is left out.
"""

from __future__ import annotations

from collections.abc import Callable

from coremlscope.ops.spec import Work, moved
from coremlscope.ops.view import OpView


def per_element(flops: int) -> Callable[[OpView], Work]:
    """`flops` operations per element of the result."""
    return lambda view: moved(view, flops * (view.output_type().elements or 0))


def per_input_element(flops: int, name: str = "x") -> Callable[[OpView], Work]:
    """`flops` operations per element of a parameter."""
    return lambda view: moved(view, flops * (view.type(name).elements or 0))
