"""Binding: shapes in, types out."""

from __future__ import annotations

import numpy as np
import pytest

from coremlscope.base.errors import UnsupportedOpError
from coremlscope.model import ir
from coremlscope.ops import OPS
from coremlscope.ops.bind import Binder, BoundFunction, bind, join
from coremlscope.ops.lower import lower
from coremlscope.ops.view import BoundValue, OpView
from tests.support.graphs import const, function, graph, op, tensor, value

X = value("x", tensor(None, 4))


def _view(bound: BoundFunction, name: str) -> OpView:
    return next(view for view in bound.graph.ops if view.op.id == name)


def _types(bound: BoundFunction) -> list[ir.ValueType]:
    return [output.type for output in bound.graph.outputs]


def test_given_shapes_reach_the_results() -> None:
    y = value("y", tensor(None, 4))
    main = function((X,), (op("add", y, x=X, y=1.0),), (y,))
    assert _types(bind(main, OPS)) == [tensor(None, 4)]
    assert _types(bind(main, OPS, {"x": (3, 4)})) == [tensor(3, 4)]


def test_results_of_unknown_operations_keep_their_declared_types() -> None:
    y = value("y", tensor(2, 2))
    bound = bind(function((X,), (op("warp", y, x=X),), (y,)), OPS)
    assert _types(bound) == [tensor(2, 2)]
    assert not bound.problems


def test_contradictions_are_noted_and_leave_the_declared_types() -> None:
    y = value("y", tensor(3, 4))
    main = function((X,), (op("add", y, x=X, y=value("x")),), (y,))
    wrong = function((X,), (op("add", y, x=X, y=ir.constant([1.0, 2.0, 3.0])),), (y,))
    assert bind(main, OPS).problems == ()
    bound = bind(wrong, OPS)
    assert _types(bound) == [tensor(3, 4)]
    ((place, text),) = bound.problems
    assert place == "y"
    assert "do not broadcast" in text


def test_arguments_of_the_wrong_kind_are_noted() -> None:
    y = value("y", tensor(4))
    bound = bind(function((X,), (op("reshape", y, x=X, shape=ir.constant(["a", "b"])),), (y,)), OPS)
    assert [place for place, _ in bound.problems] == ["y"]
    assert _types(bound) == [tensor(4)]


def test_small_integers_are_computed() -> None:
    n, m = value("n"), value("m")
    bound = bind(function((X,), (const("n", 3), op("mul", m, x=n, y=4)), (m,)), OPS)
    (output,) = bound.graph.outputs
    assert output.constant is not None
    assert output.constant.item() == 12


def _loop(body: ir.Graph, *start: ir.Argument) -> ir.Function:
    """A loop over `body` while its first variable is below 3; its results are the function's."""
    going = value("going", tensor(dtype=ir.DType.BOOL))
    condition = graph("cond", body.inputs, (op("less", going, x=body.inputs[0], y=3),), (going,))
    results = tuple(value(f"{v.name}_out", v.type) for v in body.inputs)
    loop = op("while_loop", results, blocks=(condition, body), loop_vars=start)
    return function((X,), (loop,), results)


def test_a_loop_loses_the_dimensions_that_its_body_changes() -> None:
    i, a, j, b = value("i"), value("a", tensor(None, 4)), value("j"), value("b", tensor(None, 4))
    grow = op("concat", b, values=(a, a), axis=0, interleave=False)
    body = graph("body", (i, a), (op("add", j, x=i, y=1), grow), (j, b))
    bound = bind(_loop(body, ir.constant(0), X), OPS, {"x": (2, 4)})
    assert not bound.problems
    assert _types(bound) == [tensor(dtype=ir.DType.INT32), tensor(None, 4)]
    assert bound.graph.ops[0].blocks[1].inputs[1].type == tensor(None, 4)


def test_a_long_chain_of_changing_dimensions_comes_to_an_end() -> None:
    i, j, grown = value("i"), value("j"), value("grown", tensor(None, 4))
    chain = tuple(value(f"a{k}", tensor(None, 4)) for k in range(12))
    # Each pass hands every variable to the next one, so a change takes twelve passes to get through.
    ops = (
        op("add", j, x=i, y=1),
        op("concat", grown, values=(chain[0], chain[0]), axis=0, interleave=False),
    )
    body = graph("body", (i, *chain), ops, (j, grown, *chain[:-1]))
    bound = bind(_loop(body, ir.constant(0), *[X] * 12), OPS, {"x": (2, 4)})
    last = bound.graph.outputs[-1].type
    assert isinstance(last, ir.TensorType)
    assert last.shape in ((None, 4), (None, None))
    assert not bound.problems


def test_a_loop_keeps_what_its_body_hands_on() -> None:
    i, j, n = value("i"), value("j"), value("n")
    body = graph("body", (i, n), (op("add", j, x=i, y=1),), (j, n))
    bound = bind(_loop(body, ir.constant(0), ir.constant(7)), OPS)
    first, second = bound.graph.ops[0].blocks[1].inputs
    assert first.constant is None
    assert second.constant is not None
    assert second.constant.item() == 7


def test_a_loop_with_too_few_variables_is_noted() -> None:
    i, j, n = value("i"), value("j"), value("n")
    body = graph("body", (i, n), (op("add", j, x=i, y=1),), (j, n))
    bound = bind(_loop(body, ir.constant(0)), OPS)
    assert [place for place, _ in bound.problems] == ["i_out"]


def test_a_branch_that_is_never_taken_makes_no_problem() -> None:
    good, bad, y = value("good", tensor(None, 4)), value("bad", tensor(9)), value("y", tensor(None, 4))
    branches = (
        graph("true", (), (op("add", good, x=X, y=1.0),), (good,)),
        graph("false", (), (op("add", bad, x=X, y=ir.constant([1.0, 2.0])),), (bad,)),
    )
    main = function((X,), (op("cond", y, blocks=branches, pred=True),), (y,))
    bound = bind(main, OPS, {"x": (3, 4)})
    assert not bound.problems
    assert _types(bound) == [tensor(3, 4)]


def test_a_block_may_shadow_a_name() -> None:
    shadow = value("x", tensor(5))
    pred, y = value("pred", tensor(dtype=ir.DType.BOOL)), value("y", tensor(5))
    branch = graph("true", (), (const("x", [1.0] * 5),), (shadow,))
    main = function((X, pred), (op("cond", y, blocks=(branch, branch), pred=pred),), (y, X))
    bound = bind(main, OPS, {"x": (3, 4)})
    assert _types(bound) == [tensor(5), tensor(3, 4)]


def test_join() -> None:
    assert join(tensor(2, 3), tensor(2, 4)) == tensor(2, None)
    assert join(tensor(2, 3), tensor(2)) == ir.TensorType(ir.DType.FP32, None)
    first, second = ir.ListType(tensor(2), 1), ir.ListType(tensor(3), 2)
    assert join(first, second) == ir.ListType(tensor(None), None)


def _nested_loops(levels: int, *, in_condition: bool = False) -> list[ir.Op]:
    """Loops inside each other, whose variables hand a growing shape on, so that each converges slowly."""
    condition = tuple(value(f"c{levels}_{k}", tensor(1)) for k in range(8))
    body = tuple(value(f"b{levels}_{k}", tensor(1)) for k in range(8))
    results = tuple(value(f"r{levels}_{k}", tensor(None)) for k in range(8))
    start = const(f"start{levels}", np.ones(1, np.float32))
    low, going = value(f"low{levels}", tensor()), value(f"going{levels}", tensor(dtype=ir.DType.BOOL))
    grown = value(f"grown{levels}", tensor(None))
    inner = _nested_loops(levels - 1, in_condition=in_condition) if levels > 1 else []
    test = [
        op("reduce_max", low, x=condition[0], axes=[0], keep_dims=False),
        op("less", going, x=low, y=3.0),
    ]
    step = [op("concat", grown, values=(body[0], body[0]), axis=0, interleave=False)]
    blocks = (
        graph("cond", condition, (*(inner if in_condition else ()), *test), (going,)),
        graph("body", body, (*(() if in_condition else inner), *step), (grown, *body[:-1])),
    )
    return [start, op("while_loop", results, blocks=blocks, loop_vars=start.outputs * 8)]


@pytest.mark.parametrize("in_condition", [False, True])
def test_loops_inside_each_other_are_bound_in_bounded_time(in_condition: bool) -> None:
    ops = tuple(_nested_loops(25, in_condition=in_condition))
    binder = Binder(OPS, 7)
    bound = binder.graph(graph("main", (X,), ops, ops[-1].outputs), (BoundValue(X.type),), {})
    assert binder.bound < 20_000  # without a bound, 9 ** 25
    assert [output.type for output in bound.outputs] == [tensor(None)] * 8
    assert not binder.problems


def test_loops_in_conditions_of_loops_are_not_lowered_again_and_again() -> None:
    few, many = (tuple(_nested_loops(levels, in_condition=True)) for levels in (2, 25))
    lower(bind(function((X,), few, few[-1].outputs), OPS))
    with pytest.raises(UnsupportedOpError, match="loops in conditions of loops, many levels deep"):
        lower(bind(function((X,), many, many[-1].outputs), OPS))


def test_names_of_a_nested_graph_do_not_leave_it() -> None:
    i, j, y = value("i"), value("j"), value("y", tensor(2, 4))
    twice = op("concat", X, values=(X, X), axis=0, interleave=False)  # a value with an outer one's name
    body = graph("body", (i,), (twice, op("add", j, x=i, y=1)), (j,))
    loop = _loop(body, ir.constant(0)).graph.ops[0]
    main = function((X,), (loop, op("relu", y, x=X)), (y,))
    bound = bind(main, OPS, {"x": (2, 4)})
    assert bound.graph.ops[0].blocks[1].ops[0].outputs[0].type == tensor(4, 4)
    assert _types(bound) == [tensor(2, 4)]
    relu = next(node for node in lower(bound).model.graph.node if node.op_type == "Relu")
    assert list(relu.input) == ["x"]
