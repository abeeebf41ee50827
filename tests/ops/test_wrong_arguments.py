"""Operations of every type with absent and wrong arguments, as damaged files hold them."""

from __future__ import annotations

from typing import Any

import pytest

import coremlscope
from coremlscope.base.errors import UnsupportedOpError
from coremlscope.model import ir
from coremlscope.ops import OPS
from coremlscope.runtime.execution.lowering import lower_function
from tests.support.graphs import function, op, tensor, value
from tests.support.model_files import model_of_function

X = value("x", tensor(1, 3, 8, 8))
_FORMS: tuple[dict[str, Any], ...] = (
    {},
    {"x": X},
    {"x": (X, X)},
    {"x": (), "values": ()},
    {"x": "a", "y": "b"},
    {"x": X, "y": X, "axis": 99, "axes": [99], "perm": [9], "shape": [-5], "weight": X, "bias": X},
)


@pytest.mark.parametrize("arguments", _FORMS, ids=lambda form: " ".join(form) or "none")
def test_wrong_arguments_are_told_without_an_exception(arguments: dict[str, Any]) -> None:
    ops = [op(kind, value(f"{kind}_y", X.type), **arguments) for kind in OPS]
    ops += [ir.Op(id=f"{kind}_none", type=kind, inputs={}, outputs=(), blocks=()) for kind in OPS]
    model = model_of_function(function((X,), tuple(ops), ops[0].outputs))
    coremlscope.inspect(model, list_ops=True)
    coremlscope.plan(model, devices="m1")
    coremlscope.estimate(model, devices="m1")
    with pytest.raises(UnsupportedOpError):
        lower_function(model)


@pytest.mark.parametrize("shape", [(2**31 - 1,) * 31, (2**62,) * 5])
def test_shapes_without_a_number_of_elements_are_no_exception(shape: tuple[int, ...]) -> None:
    x = value("x", tensor(*shape))
    arguments = {"x": x, "y": x, "values": (x, x), "weight": x, "data": x, "axis": 0}
    ops = tuple(op(kind, value(f"{kind}_y", x.type), **arguments) for kind in OPS)
    model = model_of_function(function((x,), ops, ops[0].outputs))
    coremlscope.inspect(model, list_ops=True)
    coremlscope.plan(model, devices="m1")
    coremlscope.estimate(model, devices="m1")
    with pytest.raises(UnsupportedOpError):
        lower_function(model)
