"""The arguments of operations: where results go, constants as text, ranges of weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.describe.arguments import ValueReader
from coremlscope.describe.model import list_operations
from coremlscope.model import ir
from coremlscope.results.operations import OpTable
from tests.support import programs

RAMP = np.linspace(-1, 3, 4 * 3 * 16 * 16, dtype=np.float32).astype(np.float16).reshape(4, 3, 16, 16)


def layers(x: Any) -> Any:
    y = mb.conv(x=x, weight=RAMP, strides=[2, 2], pad_type="valid", name="stem")
    first, second = mb.split(x=y, num_splits=2, axis=1, name="halves")
    counted = mb.while_loop(
        _cond=lambda i, y: mb.less(x=i, y=np.float16(3)),
        _body=lambda i, y: (mb.add(x=i, y=np.float16(1)), mb.relu(x=y, name="inner")),
        loop_vars=(np.float16(0), second),
        name="loop",
    )
    return mb.mul(x=counted[1], y=mb.reduce_max(x=first, axes=[0, 1, 2, 3]), name="scaled")


@pytest.fixture(scope="module")
def model() -> ir.Model:
    return programs.build(layers, {"x": np.zeros((1, 3, 32, 32), np.float16)})


@pytest.fixture(scope="module")
def table(model: ir.Model) -> OpTable:
    return list_operations(model, reads_weights=True)


def given(table: OpTable, name: str) -> dict[str, Any]:
    """The arguments of an operation: names of results, inputs and weights."""
    results = [name for names in table.output_names for name in names]
    row = next(row for row, one in enumerate(table.name) if one == name)
    signature = table.details.signatures[table.details.signature[row]]
    named = [
        one if isinstance(one, str) else results[one] if one >= 0 else f"weight {-1 - one}"
        for one in table.details.arguments[row]
    ]
    return {**dict(signature.attributes), **dict(zip(signature.parameters, named, strict=True))}


def test_constants_are_text_and_weights_are_numbered(table: OpTable) -> None:
    stem = given(table, "stem")
    assert stem == {
        "dilations": "[1, 1]",
        "groups": "1",
        "pad_type": '"valid"',
        "strides": "[2, 2]",
        "weight": "weight 0",
        "x": "x",
    } | {name: stem[name] for name in stem.keys() - {"weight", "x"} if name == "pad"}
    weights = table.details.weights
    assert (weights.kinds[0].type, weights.kinds[0].storage) == ("tensor<fp16, [4, 3, 16, 16]>", "fp16")
    assert weights.stored_bytes[0] == RAMP.nbytes


def test_each_result_of_an_operation_is_told_apart(table: OpTable) -> None:
    halves = table.output_names[table.name.index("halves")]
    loop = table.name[table.type.index("while_loop")]
    assert halves[1] in given(table, loop).values()
    largest = table.name[table.type.index("reduce_max")]
    assert given(table, largest)["x"] == halves[0]


def test_names_inside_blocks_are_those_of_the_block(table: OpTable) -> None:
    inner = given(table, "inner")["x"]
    assert inner not in {name for names in table.output_names for name in names}
    assert given(table, "scaled")["x"] in table.output_names[table.type.index("while_loop")]


def test_arguments_agree_with_the_dataflow(table: OpTable) -> None:
    makers = [row for row, names in enumerate(table.output_names) for _ in names]
    for inputs, arguments in zip(table.inputs, table.details.arguments, strict=True):
        read = {makers[one] for one in arguments if isinstance(one, int) and one >= 0}
        assert read == set(inputs or ())


def test_ranges_and_histograms_of_weights(table: OpTable, model: ir.Model) -> None:
    weights = table.details.weights
    assert (weights.least[0], weights.greatest[0], weights.looked_at[0]) == (-1, 3, RAMP.size)
    counts, _ = np.histogram(RAMP.astype(np.float32), 16)
    assert weights.histogram[0] == tuple(round(1000 * count / RAMP.size) for count in counts)
    unread = list_operations(model).details.weights
    assert (unread.least[0], unread.looked_at[0], unread.histogram[0]) == (None, 0, ())


def constant(values: Any) -> ir.Constant:
    return ir.constant(np.asarray(values))


def test_values_that_are_not_finite_and_long_weights() -> None:
    odd = constant(np.array([np.inf, 2, -np.inf, np.nan, 1], np.float16))
    void, zeros = constant(np.array([np.nan] * 3, np.float32)), constant(np.zeros(2000, np.int8))
    long = constant(np.arange(1 << 20, dtype=np.int32))
    reader = ValueReader([odd, void, zeros, long])
    found = reader.summarise(odd)
    assert (found.least, found.greatest, found.looked_at) == (1, 2, 5)
    assert (reader.summarise(void).least, reader.summarise(void).looked_at) == (None, 3)
    assert (reader.summarise(zeros).least, reader.summarise(zeros).histogram) == (0, ())
    assert 0 < reader.summarise(long).looked_at < 1 << 20
    assert reader.summarise(constant([1.0])).looked_at == 0
