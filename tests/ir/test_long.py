"""Long lists in columns equal the same lists of objects, and take less memory."""

from __future__ import annotations

import dataclasses
import random
import tracemalloc
from collections.abc import Iterator

import pytest

from coremlscope import ir
from coremlscope.describe.model import describe_model
from coremlscope.errors import CoremlscopeError
from coremlscope.formats import container
from coremlscope.formats.mlmodel import write_spec
from coremlscope.formats.values import write_immediate
from coremlscope.results.model import ModelSummary
from tests.support.damage import damage
from tests.support.graphs import function, op, tensor, value
from tests.support.large_models import converted_program, deep_network, plain_program, wide_program
from tests.support.model_files import model_of_function, network_of_many_kinds, program_of_many_kinds

_CHAIN = 600
#: Models with operations of many kinds, constants, nested graphs, many inputs, and layers.
_MODELS = {
    "operations": write_spec(program_of_many_kinds(), write_immediate),
    "converted": converted_program(40),
    "inputs": wide_program(40),
    "layers": network_of_many_kinds(),
    "chain of layers": deep_network(40),
}


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Takes lists of more than two elements for long."""
    for module in ("ir", "ir.long", "formats.wire", "formats.neuralnetwork.builder"):
        monkeypatch.setattr(f"coremlscope.{module}.MANY", 2)
    return monkeypatch


def _graph(model: ir.Model) -> ir.Graph:
    assert isinstance(model.content, ir.Program)
    return model.content.functions["main"].graph


def _described(model: ir.Model) -> ModelSummary:
    """The description of a model without the bytes that are alive, which are not traced in long programs."""
    found = describe_model(model, list_ops=True)
    works = [
        None if f.work is None else dataclasses.replace(f.work, live_bytes=None) for f in found.functions
    ]
    functions = tuple(map(lambda f, work: dataclasses.replace(f, work=work), found.functions, works))
    return dataclasses.replace(found, functions=functions)


@pytest.mark.parametrize("name", _MODELS)
def test_columns_equal_objects(name: str, many: pytest.MonkeyPatch) -> None:
    long = container.read(_MODELS[name])
    described = _described(long)
    many.undo()
    short = container.read(_MODELS[name])
    assert isinstance(_graph(long).ops, ir.LongOps) == (len(_graph(short).ops) > 2)
    assert isinstance(_graph(short).ops, tuple)
    assert short == long
    assert _described(short) == described


def test_nested_graphs(many: pytest.MonkeyPatch) -> None:
    """A graph in an operation reads values of the long graph around it, and hides one of them."""
    x, flag = value("x", tensor(4)), value("flag", ir.TensorType(ir.DType.BOOL, (1,)))
    names = ("a", "b", "c")
    a, b, c = (value(name, tensor(4)) for name in names)
    inner = value("a", tensor(4))
    body = ir.Graph(name="true", inputs=(), ops=(op("relu", inner, x=b),), outputs=(inner,))
    other = ir.Graph(name="false", inputs=(), ops=(), outputs=(a,))
    choice = dataclasses.replace(op("cond", c, pred=flag), blocks=(body, other))
    y = value("y", tensor(4))
    ops = (op("relu", a, x=x), op("abs", b, x=a), choice, op("add", y, x=c, y=a))
    data = write_spec(model_of_function(function((x, flag), ops, (y,))), write_immediate)
    long = container.read(data)
    described = _described(long)
    many.undo()
    assert isinstance(_graph(long).ops, ir.LongOps)
    short = container.read(data)
    assert short == long
    assert _described(short) == described


def test_sequence(many: pytest.MonkeyPatch) -> None:
    ops = _graph(container.read(plain_program(5))).ops
    assert [each.name for each in ops] == ["v1", "v2", "v3", "v4", "v5"]
    assert ops[-1].id == "main/4"
    assert ops[1:3] == (ops[1], ops[2])
    assert next(each.id for each in reversed(ops)) == "main/4"
    assert ops != ops[:4]
    with pytest.raises(IndexError):
        ops[5]


def test_objects_share_values(many: pytest.MonkeyPatch) -> None:
    model = container.read(converted_program(10))
    assert isinstance(model.content, ir.Program)
    columns = model.content.functions["main"]
    objects = ir.with_objects(columns).graph.ops
    assert objects == columns.graph.ops
    assert objects[1].inputs["y"][0] is objects[0].outputs[0]
    assert ir.with_objects(columns).graph.ops[0] is not objects[0]


def test_damaged_files_are_damaged_in_pieces_as_well(many: pytest.MonkeyPatch) -> None:
    data = converted_program(20)
    damaged = [damage({"m.mlmodel": data}, random.Random(seed))["m.mlmodel"] for seed in range(150)]
    in_pieces = [_outcome(one) for one in damaged]
    many.undo()
    assert in_pieces == [_outcome(one) for one in damaged]


def _outcome(data: bytes) -> object:
    """The description of a model, or nothing where it cannot be read."""
    try:
        return _described(container.read(data))
    except CoremlscopeError:
        return None


@pytest.mark.parametrize(
    ("data", "most"),
    [(plain_program(_CHAIN), 350), (converted_program(_CHAIN), 450)],
    ids=["operations", "converted"],
)
def test_memory(data: bytes, most: int, many: pytest.MonkeyPatch) -> None:
    """Reading and describing takes a few hundred bytes an operation; objects take 1,000 and 1,700."""
    describe_model(container.read(data))  # What is loaded once is not counted.
    tracemalloc.start()
    try:
        describe_model(container.read(data))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < most * _CHAIN
