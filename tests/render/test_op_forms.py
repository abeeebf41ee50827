"""The form of convolutions, poolings and linear layers, from small programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope import api
from coremlscope.reports.op_forms import op_forms
from coremlscope.reports.renderers import document_of
from coremlscope.reports.terminal.writer import write_terminal
from tests.support import programs

_X = (1, 8, 16, 16)


def _weight(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    ("make", "form"),
    [
        (lambda x: mb.conv(x=x, weight=_weight(12, 8, 3, 3), pad_type="same"), "3×3 same 8→12"),
        (
            lambda x: mb.conv(
                x=x, weight=_weight(8, 1, 5, 5), groups=8, strides=[2, 2], pad_type="custom", pad=[2] * 4
            ),
            "5×5 s2 p2 g8 8→8",
        ),
        (
            lambda x: mb.conv(
                x=x,
                weight=_weight(4, 4, 1, 3),
                groups=2,
                strides=[1, 2],
                dilations=[1, 2],
                pad_type="custom",
                pad=[0, 0, 1, 2],
            ),
            "1×3 s1×2 d1×2 p0,0,1,2 g2 8→4",
        ),
        (lambda x: mb.conv(x=x, weight=_weight(12, 8, 1, 1)), "1×1 8→12"),
        (
            lambda x: mb.conv_transpose(x=x, weight=_weight(8, 3, 2, 2), groups=2, strides=[2, 2]),
            "2×2 s2 g2 8→6",
        ),
        (lambda x: mb.max_pool(x=x, kernel_sizes=[3, 3], strides=[2, 2], pad_type="valid"), "3×3 s2"),
        (lambda x: mb.linear(x=x, weight=_weight(5, 16)), "16→5"),
        (lambda x: mb.relu(x=x), ""),
    ],
    ids=["same", "groups", "uneven", "pointwise", "transposed", "pool", "linear", "other"],
)
def test_the_form_of_an_operation_is_short(make: Any, form: str) -> None:
    model = programs.build(make, {"x": np.zeros((1, 16) if "16→" in form else _X, np.float32)})
    assert list(op_forms(api.inspect(model, list_ops=True).ops)) == [form]


@pytest.mark.parametrize("width", [60, 80, 140])
def test_forms_are_listed_at_every_width(width: int) -> None:
    model = programs.build(
        lambda x: mb.conv(x=x, weight=_weight(8, 1, 5, 5), groups=8, strides=[2, 2], name="a_long_name" * 3),
        {"x": np.zeros(_X, np.float32)},
    )
    assert "5×5 s2 g8 8→8" in write_terminal(document_of(api.inspect(model, list_ops=True)), width=width)
