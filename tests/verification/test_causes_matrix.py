"""Each cause is named in each storage form of the weights around it, next to each kind of layer.

Causes about weights themselves are in `test_weights_matrix`. States, integers, ties and rounding read no
weights: storage forms do not change what they predict.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb
from msgspec.structs import replace

from coremlscope import verify
from coremlscope.formats import container
from coremlscope.model.ir import Function, Model, Op, Program, Value, constant
from coremlscope.model.ir.rewriting import with_ops
from coremlscope.verification.edits import set_constant, with_op
from tests.verification.test_weights_matrix import _OPS, _SETTINGS, _SIZE, _WEIGHT, _converted

_Edit = Callable[[Function], Function]


@functools.cache
def _sound(op: str, storage: str, folder: Path) -> Model:
    @mb.program(input_specs=[mb.TensorSpec((16, _SIZE))], opset_version=ct.target.iOS18)  # type: ignore[untyped-decorator]
    def program(x: Any) -> Any:
        found = _OPS[op](mb.sin(x=x, name="wave"), _WEIGHT / 8)
        found = mb.gelu(x=found, mode="EXACT", name="bent")
        found = mb.add(x=mb.mul(x=found, y=np.float32(0.5), name="scaled"), y=np.float32(-0.3), name="moved")
        found = mb.leaky_relu(x=found, alpha=0.1, name="leaky")
        return mb.tanh(x=mb.cumsum(x=found, axis=1, name="sums"), name="y")

    path = folder / f"{op}-{storage}.mlpackage"
    _converted(program, storage, path, is_half=True)
    return container.read(path)


def _op(function: Function, type_: str) -> Op:
    return next(op for op in function.graph.ops if op.type == type_)


def _with(function: Function, type_: str, **settings: Any) -> Function:
    op = _op(function, type_)
    return with_op(
        function, replace(op, inputs={**op.inputs, **{k: (constant(v),) for k, v in settings.items()}})
    )


def _number(function: Function, type_: str, number: float) -> Function:
    return set_constant(function, {(_op(function, type_).id, "y"): np.array(number, np.float32)})


def _without(function: Function, type_: str) -> Function:
    op = _op(function, type_)
    (given,), (made,) = op.inputs["x"], op.outputs
    ops = [
        replace(
            one,
            inputs={
                key: tuple(given if isinstance(a, Value) and a.name == made.name else a for a in several)
                for key, several in one.inputs.items()
            },
        )
        for one in function.graph.ops
        if one is not op
    ]
    return with_ops(function, ops)


#: What is wrong in the model, and the causes that name it.
_FAULTS: dict[str, tuple[_Edit, set[str]]] = {
    "axis": (lambda body: _with(body, "cumsum", axis=np.int32(0)), {"setting"}),
    "slope": (lambda body: _with(body, "leaky_relu", alpha=np.float32(0.6)), {"setting"}),
    "scale": (lambda body: _number(body, "mul", 2.0), {"scale"}),
    "offset": (lambda body: _number(body, "add", 0.9), {"offset"}),
    "missing": (lambda body: _without(body, "gelu"), {"missing operation"}),
    "extra": (lambda body: _without(body, "gelu"), {"extra operation"}),
}
#: Faults of which the edited model is the reference.
_OF_THE_REFERENCE = {"extra"}


def _edited(model: Model, edit: _Edit) -> Model:
    assert isinstance(model.content, Program)
    ((name, body),) = model.content.functions.items()
    functions = {name: edit(replace(body, specialise=None))}
    return replace(model, content=replace(model.content, functions=functions))


@pytest.mark.parametrize("fault", _FAULTS)
@pytest.mark.parametrize("op", _OPS)
@pytest.mark.parametrize("storage", _SETTINGS)
def test_causes_are_named_next_to_each_storage_form(
    storage: str, op: str, fault: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    edit, causes = _FAULTS[fault]
    right = _sound(op, storage, tmp_path_factory.getbasetemp())
    pair = _edited(right, edit), right
    found = verify(*(reversed(pair) if fault in _OF_THE_REFERENCE else pair))
    assert not found.passed
    assert found.faults[0].cause in causes
    assert found.faults[0].repairs in (True, None)


@pytest.mark.parametrize("op", _OPS)
@pytest.mark.parametrize("storage", _SETTINGS)
def test_sound_models_pass(storage: str, op: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    right = _sound(op, storage, tmp_path_factory.getbasetemp())
    assert verify(right, right).passed
