from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from coremlscope.base.errors import InputError
from coremlscope.model.features import dummy_value, dummy_values, to_tensors
from coremlscope.model.features.limits import index_limits
from coremlscope.model.ir import (
    Argument,
    ArrayFeature,
    DictionaryFeature,
    DoubleFeature,
    DType,
    Feature,
    FeatureType,
    Function,
    FunctionDescription,
    Graph,
    ImageFeature,
    Int64Feature,
    Op,
    RangeShapes,
    SequenceFeature,
    StateFeature,
    StringFeature,
    TensorType,
    Value,
    constant,
)

EVERY_TYPE: dict[str, FeatureType] = {
    **{
        dtype.value: ArrayFeature(dtype=dtype, shape=(2, 3))
        for dtype in (DType.FP16, DType.FP32, DType.FP64, DType.INT32, DType.INT8)
    },
    **{space: ImageFeature(space, 5, 4) for space in ("RGB", "BGR", "GRAYSCALE", "GRAYSCALE_FLOAT16")},
    "int64": Int64Feature(),
    "double": DoubleFeature(),
    "string": StringFeature(),
    "words": DictionaryFeature("string"),
    "counts": DictionaryFeature("int64"),
    "texts": SequenceFeature("string", (3, 9)),
    "ids": SequenceFeature("int64"),
}
DESCRIPTION = FunctionDescription(
    inputs=tuple(Feature(name, type_) for name, type_ in EVERY_TYPE.items()), outputs=()
)


def test_every_type_gets_a_valid_value() -> None:
    values = dummy_values(DESCRIPTION)
    assert list(values) == list(EVERY_TYPE)
    tensors = to_tensors(DESCRIPTION.inputs, values)
    assert tensors["fp16"].any()
    assert {name: values[name].dtype for name in ("fp16", "fp64", "int8")} == {
        "fp16": np.float16,
        "fp64": np.float64,
        "int8": np.int8,
    }
    modes = {"RGB": "RGB", "BGR": "RGB", "GRAYSCALE": "L", "GRAYSCALE_FLOAT16": "F"}
    assert {space: values[space].mode for space in modes} == modes
    assert values["RGB"].size == (5, 4)
    assert tensors["RGB"].shape == (1, 3, 4, 5)
    assert tensors["RGB"].max() > 200
    assert len(values["texts"]) == 3


def test_values_depend_on_the_seed() -> None:
    one, again, other = (dummy_values(DESCRIPTION, seed=seed)["fp32"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()


def test_states_are_zero_and_defaults_are_used() -> None:
    generator = np.random.default_rng(0)
    state = dummy_value(StateFeature(ArrayFeature(dtype=DType.FP16, shape=(2, 2))), generator)
    assert (state.dtype, state.tolist()) == (np.float16, [[0, 0], [0, 0]])
    default = ArrayFeature(dtype=DType.FP32, shape=(2,), default=1.5)
    assert dummy_value(default, generator, (2,)).tolist() == [1.5, 1.5]


def test_flexible_shapes() -> None:
    flexible = Feature(
        "x", ArrayFeature(dtype=DType.FP32, shape=(1, 4), flexibility=RangeShapes(((1, 1), (1, 9))))
    )
    description = FunctionDescription(inputs=(flexible,), outputs=())
    assert dummy_values(description)["x"].shape == (1, 4)
    assert dummy_values(description, shapes={"x": (1, 9)})["x"].shape == (1, 9)
    with pytest.raises(InputError, match="does not allow the shape 1×10"):
        dummy_values(description, shapes={"x": (1, 10)})


def value(name: str, *shape: int | None, dtype: DType = DType.INT32) -> Value:
    return Value(name, TensorType(dtype, shape))


def op(type_: str, output: Value, blocks: tuple[Graph, ...] = (), **inputs: Argument | list[Argument]) -> Op:
    arguments: Mapping[str, tuple[Argument, ...]] = {
        name: tuple(given) if isinstance(given, list) else (given,) for name, given in inputs.items()
    }
    return Op(id=f"main/{output.name}", type=type_, inputs=arguments, outputs=(output,), blocks=blocks)


def function(inputs: tuple[Value, ...], *ops: Op) -> Function:
    return Function(
        name="main",
        opset="CoreML7",
        graph=Graph(name="main", inputs=inputs, ops=ops, outputs=ops[-1].outputs),
    )


TABLE = value("table", 30, 8, dtype=DType.FP16)
IDS = value("ids", 1, 4)


def gather(indices: Value, table: Value = TABLE, **more: Any) -> Op:
    return op("gather", value("rows", 1, 4, 8, dtype=DType.FP16), x=table, indices=indices, **more)


def test_limit_of_a_table() -> None:
    assert index_limits(function((IDS,), gather(IDS))) == {"ids": 30}
    assert index_limits(function((IDS,), gather(IDS, axis=constant(1)))) == {"ids": 8}
    assert index_limits(function((IDS,), gather(IDS, axis=constant(-1)))) == {"ids": 8}


def test_limit_along_an_axis_from_a_const_operation() -> None:
    axis = Value("axis", TensorType(DType.INT32, ()))
    const = Op(
        id="main/axis",
        type="const",
        inputs={},
        outputs=(axis,),
        blocks=(),
        attributes={"val": constant(np.int32(1))},
    )
    assert index_limits(function((IDS,), const, gather(IDS, axis=axis))) == {"ids": 8}


def test_limit_through_other_operations() -> None:
    cast, wide, joined = (
        value("cast", 1, 4, dtype=DType.UINT16),
        value("wide", 1, 1, 4),
        value("joined", 2, 1, 4),
    )
    ops = (
        op("cast", cast, x=IDS, dtype=constant("uint16")),
        op("expand_dims", wide, x=cast, axes=constant([0])),
        op("concat", joined, values=[wide, wide], axis=constant(0)),
        gather(joined),
    )
    assert index_limits(function((IDS,), *ops)) == {"ids": 30}


def test_limit_of_wrapped_negative_indices() -> None:
    # coremltools' conversion of an embedding: select(ids >= 0, ids, ids + 30).
    positive, added, chosen = (
        value("positive", 1, 4, dtype=DType.BOOL),
        value("added", 1, 4),
        value("chosen", 1, 4),
    )
    ops = (
        op("greater_equal", positive, x=IDS, y=constant(0)),
        op("add", added, x=IDS, y=constant(30)),
        op("select", chosen, cond=positive, a=IDS, b=added),
        gather(chosen),
    )
    assert index_limits(function((IDS,), *ops)) == {"ids": 30}


def test_arithmetic_is_not_followed() -> None:
    added = value("added", 1, 4)
    assert index_limits(function((IDS,), op("add", added, x=IDS, y=constant(29)), gather(added))) == {}


def test_limit_is_that_of_the_smallest_table() -> None:
    small = value("small", 7, 8)
    second = op("gather", value("more", 1, 4, 8), x=small, indices=IDS)
    assert index_limits(function((IDS,), gather(IDS), second)) == {"ids": 7}


def test_limits_of_other_index_operations() -> None:
    hot = op("one_hot", value("hot", 1, 4, 12), indices=IDS, one_hot_vector_size=constant(12))
    assert index_limits(function((IDS,), hot)) == {"ids": 12}
    places = value("places", 5, 2)
    nd = op("gather_nd", value("nd", 5, 3), x=value("cube", 9, 6, 3), indices=places)
    assert index_limits(function((places,), nd)) == {"places": 6}


def test_limit_inside_a_loop() -> None:
    inner, result = value("inner", 1, 4), value("result", 1, 4)
    body = Graph(name="body", inputs=(inner,), ops=(gather(inner),), outputs=(inner,))
    condition = Graph(name="cond", inputs=(inner,), ops=(), outputs=(value("go", dtype=DType.BOOL),))
    loop = op("while_loop", result, (condition, body), loop_vars=[IDS])
    assert index_limits(function((IDS,), loop)) == {"ids": 30}


@pytest.mark.parametrize("dtype", [DType.INT32, DType.FP32])
def test_indices_are_within_the_table(dtype: DType) -> None:
    ids = value("ids", 1, 400, dtype=dtype)
    cast = value("cast", 1, 400)
    description = FunctionDescription(
        inputs=(Feature("ids", ArrayFeature(dtype=dtype, shape=(1, 400))),), outputs=()
    )
    body = function((ids,), op("cast", cast, x=ids, dtype=constant("int32")), gather(cast))
    drawn = dummy_values(description, body)["ids"]
    assert (drawn.min(), drawn.max()) == (0, 29)
    np.testing.assert_array_equal(drawn, np.trunc(drawn))


def test_integers_without_a_known_table_are_0_or_1() -> None:
    description = FunctionDescription(
        inputs=(Feature("mask", ArrayFeature(dtype=DType.INT32, shape=(1, 100))),), outputs=()
    )
    assert set(dummy_values(description)["mask"].ravel().tolist()) == {0, 1}


def test_inputs_that_do_not_fit_in_memory() -> None:
    huge = Feature("x", ArrayFeature(dtype=DType.FP32, shape=(1 << 40, 1 << 40)))
    with pytest.raises(InputError, match="too large"):
        dummy_values(FunctionDescription(inputs=(huge,), outputs=()))
