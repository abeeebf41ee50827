"""Programs that are sent to other processes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from coremlscope.formats.expressions.building import LayerBuilder
from coremlscope.model.ir import DType, Immediate, Op, Program, TensorType, Value, constant
from coremlscope.studies.sweep.jobs import PickledModel


@pytest.mark.parametrize(
    "value",
    [3, 2.5, True, "same", [1, 2], ["a", "b"], np.zeros((2, 0), np.int32), np.ones((2, 3), np.float16)],
    ids=repr,
)
def test_constants_keep_type_and_content(value: object) -> None:
    known = constant(value)
    found = pickle.loads(pickle.dumps(known))
    assert found == known
    assert found.numpy().shape == known.numpy().shape
    assert found.numpy().dtype == known.numpy().dtype


def test_elements_that_are_no_numbers_are_kept() -> None:
    text = np.array(["a", "bcd"])
    found = pickle.loads(pickle.dumps(Immediate(text)))
    assert found.numpy().tolist() == ["a", "bcd"]
    assert found.numpy().dtype == text.dtype


def test_operations_are_equal_and_share_what_they_shared() -> None:
    x = Value("x", TensorType(DType.FP16, (1, None)))
    ops = [
        Op(id=f"main/{i}", type="relu", inputs={"x": (x,)}, outputs=(Value(f"y{i}", x.type),))
        for i in range(2)
    ]
    found = pickle.loads(pickle.dumps(ops))
    assert found == ops
    assert found[0].inputs["x"][0] is found[1].inputs["x"][0]
    assert found[0].outputs[0].type is found[0].inputs["x"][0].type
    assert isinstance(found[0], Op)


def test_whole_models_are_equal() -> None:
    net = LayerBuilder(DType.FP16)
    x = net.input("x", (1, 3, 8, 8))
    (y,) = net.op("conv", x=x, weight=net.weight(4, 3, 3, 3), strides=[2, 2], pad_type="same")
    model = net.model(net.op("relu", x=y), "a network")
    found = PickledModel.of(model).read()
    assert found == model
    assert isinstance(found.content, Program)
    assert isinstance(model.content, Program)
    # Constants are equal where their content is.
    assert found.content.functions == model.content.functions
