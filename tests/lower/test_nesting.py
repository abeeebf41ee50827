"""Nested graphs, names and scopes of lowered programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from coremlscope.base.errors import UnsupportedOpError
from coremlscope.model import ir
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind
from coremlscope.ops.lower import lower
from coremlscope.ops.program import WEIGHTS_FILE, OnnxProgram
from tests.support.graphs import const, function, graph, op, tensor, value
from tests.support.programs import run_onnx

VECTOR = tensor(3)
FLAG = tensor(dtype=ir.DType.BOOL)
X, PRED = value("x", VECTOR), value("pred", FLAG)
INPUT = np.array([1, 2, 3], np.float32)


def _lower(main: ir.Function) -> OnnxProgram:
    bound = bind(main, OPS)
    assert not bound.problems
    return lower(bound)


def _check(program: OnnxProgram, folder: Path) -> None:
    """Validates the graph with ONNX's checker."""
    program.write_weights(folder / WEIGHTS_FILE)
    onnx.save(program.model, str(folder / "graph.onnx"))
    onnx.checker.check_model(str(folder / "graph.onnx"), full_check=True)


def _walk(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _walk(attribute.g)


def _run(main: ir.Function, tmp_path: Path, **inputs: object) -> list[np.ndarray]:
    program = _lower(main)
    _check(program, tmp_path)
    return list(run_onnx(program, {name: np.asarray(given) for name, given in inputs.items()}).values())


def _cond(name: str, true: ir.Graph, false: ir.Graph, type_: ir.ValueType = VECTOR) -> ir.Op:
    return op("cond", value(name, type_), pred=PRED, blocks=(true, false))


# Results


def test_results_may_be_inputs_constants_and_aliases(tmp_path: Path) -> None:
    y, z, k, same = (value(name, VECTOR) for name in ("y", "z", "k", "same"))
    sums = (op("add", y, x=X, y=X), op("identity", z, x=y))
    ops = (*sums, const("k", [7.0, 8.0, 9.0]), op("identity", same, x=X))
    results = _run(function((X,), ops, (X, y, z, k, same)), tmp_path, x=INPUT)
    expected = (INPUT, 2 * INPUT, 2 * INPUT, [7, 8, 9], INPUT)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_a_large_constant_is_a_result(tmp_path: Path) -> None:
    content = np.arange(5000, dtype=np.float32)
    k = value("k", tensor(5000))
    (result,) = _run(function((X,), (const("k", content),), (k,)), tmp_path, x=INPUT)
    np.testing.assert_array_equal(result, content)


def test_an_unused_input_stays(tmp_path: Path) -> None:
    y, unused = value("y", VECTOR), value("unused", tensor(2))
    main = function((unused, X), (op("add", y, x=X, y=1.0),), (y,))
    assert [port.name for port in _lower(main).inputs] == ["unused", "x"]
    (result,) = _run(main, tmp_path, x=INPUT, unused=[0, 0])
    np.testing.assert_array_equal(result, INPUT + 1)


def test_unused_operations_are_removed() -> None:
    y, dead, pred = value("y", VECTOR), value("dead", VECTOR), value("inner", VECTOR)
    lost = value("lost", VECTOR)
    branch = graph("true", (), (op("mul", lost, x=X, y=X), op("add", pred, x=X, y=1.0)), (pred,))
    ops = (op("sub", dead, x=X, y=1.0), _cond("y", branch, branch))
    program = _lower(function((X, PRED), ops, (y,)))
    assert {node.op_type for node in _walk(program.model.graph)} == {"If", "Add"}


# Scopes


def test_blocks_read_constants_and_values_of_the_outer_graph(tmp_path: Path) -> None:
    k, large, sums = value("k", VECTOR), value("large", tensor(2000, 3)), value("sums", VECTOR)
    a, b, c = value("a", VECTOR), value("b", VECTOR), value("c", tensor(2000, 3))
    out = value("out", tensor(2000, 3))
    inner = graph("true", (), (op("add", c, x=large, y=sums),), (c,))
    outer = graph(
        "true",
        (),
        (op("add", a, x=sums, y=k), op("mul", b, x=a, y=2.0), op("add", out, x=large, y=b)),
        (out,),
    )
    ops = (
        const("k", [10.0, 20.0, 30.0]),
        const("large", np.ones((2000, 3), np.float32)),
        op("add", sums, x=X, y=k),
        _cond("y", outer, inner, tensor(2000, 3)),
    )
    main = function((X, PRED), ops, (value("y", tensor(2000, 3)),))
    tens = np.array([10, 20, 30], np.float32)
    (result,) = _run(main, tmp_path, x=INPUT, pred=True)
    np.testing.assert_array_equal(result[0], (INPUT + 2 * tens) * 2 + 1)
    (result,) = _run(main, tmp_path, x=INPUT, pred=False)
    np.testing.assert_array_equal(result[-1], INPUT + tens + 1)


@pytest.mark.parametrize("pred", [True, False])
def test_sibling_blocks_with_the_same_names(pred: bool, tmp_path: Path) -> None:
    a = value("a", VECTOR)
    first = graph("true", (), (op("add", a, x=X, y=1.0),), (a,))
    second = graph("false", (), (op("mul", a, x=X, y=5.0),), (a,))
    ops = (_cond("y", first, second), _cond("z", second, first))
    y, z = _run(
        function((X, PRED), ops, (value("y", VECTOR), value("z", VECTOR))), tmp_path, x=INPUT, pred=pred
    )
    np.testing.assert_array_equal(y, INPUT + 1 if pred else INPUT * 5)
    np.testing.assert_array_equal(z, INPUT * 5 if pred else INPUT + 1)


def test_a_block_shadows_a_name_locally(tmp_path: Path) -> None:
    a, y, z = value("a", VECTOR), value("y", VECTOR), value("z", VECTOR)
    shadows = graph("true", (), (op("mul", a, x=a, y=100.0),), (a,))
    ops = (op("add", a, x=X, y=1.0), _cond("y", shadows, shadows), op("add", z, x=a, y=y))
    (result,) = _run(function((X, PRED), ops, (z,)), tmp_path, x=INPUT, pred=True)
    np.testing.assert_array_equal(result, (INPUT + 1) * 101)


def test_branches_return_outer_values_constants_and_duplicates(tmp_path: Path) -> None:
    k, a = value("k", VECTOR), value("a", VECTOR)
    results = tuple(value(name, VECTOR) for name in ("p", "q", "r"))
    first = graph("true", (), (const("k", [7.0, 8.0, 9.0]),), (X, k, X))
    second = graph("false", (), (op("add", a, x=X, y=1.0),), (a, a, a))
    main = function((X, PRED), (op("cond", results, pred=PRED, blocks=(first, second)),), results)
    for got, wanted in zip(_run(main, tmp_path, x=INPUT, pred=True), (INPUT, [7, 8, 9], INPUT), strict=True):
        np.testing.assert_array_equal(got, wanted)
    for got in _run(main, tmp_path, x=INPUT, pred=False):
        np.testing.assert_array_equal(got, INPUT + 1)


def test_folded_operations_inside_blocks(tmp_path: Path) -> None:
    n, m, a = value("n"), value("m"), value("a", VECTOR)
    scaled = value("scaled", VECTOR)
    block = graph(
        "true",
        (),
        (const("n", 3), op("mul", m, x=n, y=4), op("mul", a, x=X, y=m), op("add", scaled, x=a, y=m)),
        (scaled,),
    )
    program = _lower(function((X, PRED), (_cond("y", block, block),), (value("y", VECTOR),)))
    assert {"n", "m"} <= program.folded
    (result,) = run_onnx(program, {"x": INPUT, "pred": np.array(True)}).values()
    np.testing.assert_array_equal(result, INPUT * 12 + 12)


def test_a_loop_swaps_its_variables(tmp_path: Path) -> None:
    i, j, a, b = value("i"), value("j"), value("a", VECTOR), value("b", VECTOR)
    going = value("going", FLAG)
    condition = graph("cond", (i, a, b), (op("less", going, x=i, y=3),), (going,))
    body = graph("body", (i, a, b), (op("add", j, x=i, y=1),), (j, b, a))
    results = (value("i_out"), value("a_out", VECTOR), value("b_out", VECTOR))
    double = value("double", VECTOR)
    loop = op("while_loop", results, blocks=(condition, body), loop_vars=(ir.constant(0), X, double))
    main = function((X,), (op("add", double, x=X, y=X), loop), results)
    count, first, second = _run(main, tmp_path, x=INPUT)
    assert count == 3
    np.testing.assert_array_equal(first, INPUT * 2)
    np.testing.assert_array_equal(second, INPUT)


# Names and owners


def test_feature_names_are_kept_if_an_operation_has_the_same() -> None:
    y, unary = value("y", VECTOR), value("z", VECTOR)
    program = _lower(function((X,), (op("add", y, x=X, y=1.0), op("mul", unary, x=y, y=2.0)), (unary,)))
    assert [port.value for port in program.inputs] == ["x"]
    assert [port.value for port in program.outputs] == ["z"]


def test_every_node_has_an_owner(tmp_path: Path) -> None:
    a, b = value("a", VECTOR), value("b", VECTOR)
    first = graph("true", (), (op("add", a, x=X, y=1.0),), (a,))
    second = graph("false", (), (op("mul", b, x=X, y=5.0),), (b,))
    program = _lower(function((X, PRED), (_cond("y", first, second),), (value("y", VECTOR),)))
    owners = {node.op_type: program.owners[node.output[0]] for node in _walk(program.model.graph)}
    assert owners == {"If": "y", "Add": "a", "Mul": "b"}


# Unsupported operations


def test_all_unsupported_operations_are_listed_once() -> None:
    i, j, a, going = value("i"), value("j"), value("a", VECTOR), value("going", FLAG)
    condition = graph("cond", (i,), (op("ponder", going, x=i),), (going,))
    body = graph("body", (i,), (op("add", j, x=i, y=1),), (j,))
    loop = op("while_loop", value("i_out"), blocks=(condition, body), loop_vars=ir.constant(0))
    bound = bind(function((X,), (op("warp", a, x=X), loop), (a, value("i_out"))), OPS)
    with pytest.raises(UnsupportedOpError) as caught:
        lower(bound)
    assert [(kind, place) for kind, place, _ in caught.value.ops] == [("warp", "a"), ("ponder", "going")]


def test_a_result_that_is_not_a_tensor_is_an_error() -> None:
    table = ir.DictType(tensor(dtype=ir.DType.STRING), tensor())
    with pytest.raises(UnsupportedOpError, match="output"):
        lower(bind(function((value("d", table),), (), (value("d", table),)), OPS))


def test_arguments_of_the_wrong_type_are_errors() -> None:
    y = value("y", VECTOR)
    main = function((X,), (op("concat", y, values=(X, X), axis=ir.constant("first")),), (y,))
    with pytest.raises(UnsupportedOpError, match="concat"):
        lower(bind(main, OPS))
