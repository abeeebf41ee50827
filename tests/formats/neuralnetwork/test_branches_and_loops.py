"""Copies, branches and loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from coremltools.models.neural_network import NeuralNetworkBuilder

from coremlscope.base.errors import CorruptModelError
from coremlscope.formats.neuralnetwork import control
from coremlscope.model import ir
from coremlscope.model.ir import Array
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind
from coremlscope.ops.control import trip_count, trip_limit
from coremlscope.ops.view import OpView
from tests.support.single_layers import builder_of, predict, read


def _inside(network: object) -> NeuralNetworkBuilder:
    """Returns a builder that writes to a nested network."""
    return NeuralNetworkBuilder(nn_spec=network, disable_rank5_shape_mapping=True)


def _result(write: Callable[[NeuralNetworkBuilder], None], **inputs: Array) -> Array:
    builder = builder_of(inputs, ["y"])
    write(builder)
    return np.asarray(predict(builder, inputs)["y"])


def _set(builder: NeuralNetworkBuilder, name: str, value: float) -> None:
    builder.add_load_constant_nd(f"set {name}", name, np.full(1, value), (1,))


def _add(builder: NeuralNetworkBuilder, name: str, value: float) -> None:
    """Adds a number to a blob."""
    builder.add_activation(f"{name} and {value}", "LINEAR", name, f"{name} more", [1.0, value])
    builder.add_copy(f"{name} by {value}", f"{name} more", name)


def _sum(builder: NeuralNetworkBuilder, name: str, other: str) -> None:
    builder.add_add_broadcastable(f"sum {name}", [name, other], f"{name} sum")
    builder.add_copy(f"copy sum {name}", f"{name} sum", name)


@pytest.mark.parametrize(("condition", "factor"), [(1.0, 2), (-0.5, 2), (0.0, 3), (1e-8, 3)])
def test_branch_writes_blobs_of_both_networks(condition: float, factor: int) -> None:
    def write(b: NeuralNetworkBuilder) -> None:
        branch = b.add_branch("branch", "p").branch
        _inside(branch.ifBranch).add_activation("twice", "LINEAR", "x", "z", [2.0, 0.0])
        _inside(branch.elseBranch).add_activation("thrice", "LINEAR", "x", "z", [3.0, 0.0])
        b.add_copy("out", "z", "y")

    x = np.arange(4.0)
    np.testing.assert_array_equal(_result(write, x=x, p=np.array([condition])), factor * x)


@pytest.mark.parametrize("condition", [0.0, 1.0])
def test_branch_without_an_else_network_keeps_blobs(condition: float) -> None:
    def write(b: NeuralNetworkBuilder) -> None:
        b.add_copy("in", "x", "y")
        branch = b.add_branch("branch", "p").branch
        _add(_inside(branch.ifBranch), "y", 10.0)

    np.testing.assert_array_equal(
        _result(write, x=np.arange(2.0), p=np.array([condition])), np.arange(2.0) + 10 * condition
    )


def test_branches_with_results_of_different_shapes() -> None:
    def write(b: NeuralNetworkBuilder) -> None:
        branch = b.add_branch("branch", "p").branch
        _inside(branch.ifBranch).add_copy("as it is", "x", "z")
        _inside(branch.elseBranch).add_concat_nd("double", ["x", "x"], "z", axis=0)
        b.add_activation("out", "LINEAR", "z", "y", [2.0, 0.0])

    x = np.arange(3.0)
    np.testing.assert_array_equal(_result(write, x=x, p=np.ones(1)), 2 * x)
    np.testing.assert_array_equal(_result(write, x=x, p=np.zeros(1)), 2 * np.concatenate([x, x]))


def _counting(b: NeuralNetworkBuilder, *, most: int = 0, condition: bool = True) -> NeuralNetworkBuilder:
    """Adds a loop that increments `i` while it is less than `x`, and returns the builder of its body."""
    _set(b, "i", 0.0)
    loop = b.add_loop("loop", condition="below" if condition else None, max_iterations=most).loop
    if condition:
        _inside(loop.conditionNetwork).add_less_than("below", ["i", "x"], "below")
    body = _inside(loop.bodyNetwork)
    _add(body, "i", 1.0)
    return body


@pytest.mark.parametrize(("most", "x", "passes"), [(0, 5, 5), (3, 5, 3), (9, 5, 5), (0, -1, 0)])
def test_loop_ends_by_its_condition_or_its_count(most: int, x: float, passes: int) -> None:
    def write(b: NeuralNetworkBuilder) -> None:
        _counting(b, most=most)
        b.add_copy("out", "i", "y")

    assert _result(write, x=np.array([x])) == [passes]


def test_number_of_iterations_as_an_input() -> None:
    def write(b: NeuralNetworkBuilder) -> None:
        _set(b, "y", 1.0)
        loop = b.add_loop("loop", input_name="x", max_iterations=2).loop
        _sum(_inside(loop.bodyNetwork), "y", "y")

    assert _result(write, x=np.array([5.0])) == [32]


def test_loop_without_condition_or_count_does_nothing() -> None:
    def write(b: NeuralNetworkBuilder) -> None:
        b.add_copy("in", "x", "y")
        _add(_inside(b.add_loop("loop").loop.bodyNetwork), "y", 1.0)

    assert _result(write, x=np.array([5.0])) == [5]


def _loop_of(builder: NeuralNetworkBuilder) -> OpView:
    content = read(builder).content
    assert isinstance(content, ir.Program)
    bound = bind(content.functions["main"], OPS).graph
    (loop,) = [view for view in bound.ops if view.op.type == "while_loop"]
    return loop


def test_iterations_of_a_counted_loop_are_known() -> None:
    builder = builder_of({"x": np.zeros(1)}, ["y"])
    _counting(builder, most=7, condition=False)
    builder.add_copy("out", "i", "y")
    assert trip_count(_loop_of(builder)) == 7
    assert np.asarray(predict(builder, {"x": np.zeros(1)})["y"]) == [7]


def test_iterations_are_known_if_the_condition_depends_on_constants() -> None:
    builder = builder_of({"x": np.zeros(1)}, ["y"])
    _set(builder, "i", 0.0)
    builder.add_copy("in", "x", "y")
    loop = builder.add_loop("loop", condition="below").loop
    _inside(loop.conditionNetwork).add_less_than("compare", ["i"], "below", alpha=2.9)
    body = _inside(loop.bodyNetwork)
    body.add_elementwise("more", ["i"], "next", "ADD", alpha=0.5)
    body.add_copy("again", "next", "i")
    _add(body, "y", 1.0)
    assert trip_count(_loop_of(builder)) == 6
    assert np.asarray(predict(builder, {"x": np.zeros(1)})["y"]) == [6]


def test_iterations_are_limited_if_the_condition_depends_on_an_input() -> None:
    builder = builder_of({"x": np.zeros(1)}, ["y"])
    _counting(builder, most=9)
    builder.add_copy("out", "i", "y")
    loop = _loop_of(builder)
    assert (trip_count(loop), trip_limit(loop)) == (None, 9)


def test_a_loop_belongs_to_its_layer() -> None:
    builder = builder_of({"x": np.zeros(1)}, ["y"])
    _counting(builder, most=7)
    builder.add_copy("out", "i", "y")
    layer = _loop_of(builder).op.layer
    assert layer is not None
    assert layer.type == "loop"


def _even_sum(x: int) -> int:
    i = total = 0
    while i < x:
        i += 1
        if i % 2:
            continue
        if i > 11:
            break
        total += i
    return total


@pytest.mark.parametrize("x", [0, 5, 11, 12, 30])
def test_breaks_and_continues_inside_a_body(x: int) -> None:
    def write(b: NeuralNetworkBuilder) -> None:
        _set(b, "total", 0.0)
        body = _counting(b)
        _set(body, "two", 2.0)
        body.add_mod_broadcastable("odd", ["i", "two"], "odd")
        _inside(body.add_branch("if odd", "odd").branch.ifBranch).add_loop_continue("continue")
        body.add_greater_than("large", ["i"], "large", alpha=11.0)
        _inside(body.add_branch("if large", "large").branch.ifBranch).add_loop_break("break")
        _sum(body, "total", "i")
        b.add_copy("out", "total", "y")

    assert _result(write, x=np.array([float(x)])) == [_even_sum(x)]


def test_break_without_a_branch() -> None:
    def write(b: NeuralNetworkBuilder) -> None:
        body = _counting(b)
        body.add_loop_break("break")
        _add(body, "i", 100.0)
        b.add_copy("out", "i", "y")

    assert _result(write, x=np.array([9.0])) == [1]


@pytest.mark.parametrize("x", [0.0, 3.0])
def test_branch_that_breaks_before_it_writes_a_result(x: float) -> None:
    def write(b: NeuralNetworkBuilder) -> None:
        _set(b, "total", 0.0)
        loop = b.add_loop("loop", max_iterations=4).loop
        body = _inside(loop.bodyNetwork)
        _add(body, "total", 1.0)
        body.add_less_than("full", ["x", "total"], "full")
        branch = body.add_branch("if full", "full").branch
        _inside(branch.ifBranch).add_loop_break("break")
        _inside(branch.ifBranch).add_copy("never", "x", "step")
        _inside(branch.elseBranch).add_load_constant_nd("ten", "step", np.full((1, 2), 10.0), (1, 2))
        body.add_reduce_sum("both", "step", "more", axes=[1], keepdims=False)
        _sum(body, "total", "more")
        b.add_copy("out", "total", "y")

    # The first iteration adds 1 and, unless the sum exceeds x, twice 10; then it breaks.
    assert _result(write, x=np.array([x])) == [1 if x == 0 else 22]


def test_nested_loops_with_breaks() -> None:
    def write(b: NeuralNetworkBuilder) -> None:
        _set(b, "y", 0.0)
        body = _inside(b.add_loop("outer", input_name="x").loop.bodyNetwork)
        _set(body, "k", 0.0)
        inner = _inside(body.add_loop("inner", max_iterations=5).loop.bodyNetwork)
        _add(inner, "k", 1.0)
        inner.add_greater_than("late", ["k"], "late", alpha=3.0)
        _inside(inner.add_branch("if late", "late").branch.ifBranch).add_loop_break("break")
        _sum(inner, "y", "k")
        _add(body, "y", 10.0)

    # Each iteration of the outer loop adds 1 + 2 + 3, then 10.
    assert _result(write, x=np.array([4.0])) == [4 * 16]


def test_variable_with_a_growing_shape() -> None:
    def write(b: NeuralNetworkBuilder) -> None:
        b.add_copy("in", "x", "v")
        body = _inside(b.add_loop("loop", max_iterations=3).loop.bodyNetwork)
        body.add_concat_nd("longer", ["v", "x"], "w", axis=0)
        body.add_reduce_sum("total", "w", "t", axes=[0], keepdims=True)
        body.add_concat_nd("with total", ["w", "t"], "v2", axis=0)
        body.add_copy("back", "v2", "v")
        b.add_copy("out", "v", "y")

    np.testing.assert_array_equal(_result(write, x=np.arange(2.0)), [0, 1, 0, 1, 2, 0, 1, 5, 0, 1, 11])


def test_body_reads_blobs_of_the_condition() -> None:
    def write(b: NeuralNetworkBuilder) -> None:
        _set(b, "y", 0.0)
        _set(b, "i", 0.0)
        loop = b.add_loop("loop", condition="below").loop
        condition = _inside(loop.conditionNetwork)
        _add(condition, "i", 1.0)  # the condition has a side effect
        condition.add_activation("tenfold", "LINEAR", "i", "ten i", [10.0, 0.0])
        condition.add_less_than("below", ["i", "x"], "below")
        _sum(_inside(loop.bodyNetwork), "y", "ten i")

    assert _result(write, x=np.array([4.0])) == [10 + 20 + 30]


def test_break_outside_a_loop_prevents_only_running() -> None:
    builder = builder_of({"x": np.zeros(1)}, ["y"])
    builder.add_copy("in", "x", "y")
    builder.add_loop_break("break")
    content = read(builder).content
    assert isinstance(content, ir.Program)
    layer = content.functions["main"].graph.ops[-1].layer
    assert layer is not None
    assert "outside a loop" in layer.problem


def test_blobs_of_a_body_are_undefined_after_the_loop() -> None:
    builder = builder_of({"x": np.zeros(1)}, ["y"])
    body = _inside(builder.add_loop("loop", max_iterations=2).loop.bodyNetwork)
    body.add_copy("inner", "x", "z")
    builder.add_copy("out", "z", "y")
    with pytest.raises(CorruptModelError, match=r"input 'z' of .* is undefined"):
        read(builder)


def test_every_layer_has_a_case() -> None:
    types = {"branch", "copy", "loop", "loopBreak", "loopContinue"}
    assert {spec.type for spec in control.LAYERS} == types


def test_layers_in_a_loop_are_listed_once_in_file_order() -> None:
    builder = builder_of({"x": np.zeros(2)}, ["y"])
    builder.add_copy("in", "x", "y")
    body = _inside(builder.add_loop("loop", max_iterations=2).loop.bodyNetwork)
    body.add_concat_nd("longer", ["y", "x"], "z", axis=0)
    body.add_copy("back", "z", "y")
    content = read(builder).content
    assert isinstance(content, ir.Program)
    function = content.functions["main"]
    assert [layer.name for layer in function.layers] == ["in", "loop", "longer", "back"]
    ops = {id(op.layer) for op in function.graph.walk() if op.layer is not None}
    assert ops <= {id(layer) for layer in function.layers}


def test_blobs_of_a_damaged_branch_can_be_read() -> None:
    builder = builder_of({"x": np.zeros(2), "p": np.zeros(1)}, ["y"])
    branch = builder.add_branch("branch", "p").branch
    _inside(branch.ifBranch).add_copy("one", "x", "z")
    _inside(branch.elseBranch).add_copy("other", "x", "z")
    builder.add_copy("out", "z", "y")
    del builder.nn_spec.layers[0].input[:]
    content = read(builder).content
    assert isinstance(content, ir.Program)
    assert "inputs" in content.functions["main"].layers[0].problem


def test_first_element_of_a_condition_is_used() -> None:
    def write(b: NeuralNetworkBuilder) -> None:
        b.add_copy("in", "x", "y")
        _add(_inside(b.add_branch("branch", "p").branch.ifBranch), "y", 10.0)

    np.testing.assert_array_equal(_result(write, x=np.zeros(1), p=np.array([0.0, 1.0])), [0])
    np.testing.assert_array_equal(_result(write, x=np.zeros(1), p=np.array([1.0, 0.0])), [10])


def test_branches_inside_each_other_that_end_early_are_read_in_bounded_time() -> None:
    builder = builder_of({"x": np.zeros(1), "p": np.zeros(1)}, ["y"])
    inside = _inside(builder.add_loop("loop", max_iterations=3).loop.bodyNetwork)
    opened = []
    for level in range(20):
        branch = inside.add_branch(f"branch {level}", "p").branch
        ended = _inside(branch.ifBranch)
        ended.add_loop_break(f"break {level}")
        ended.add_copy(f"never {level}", "x", "z")
        inside = _inside(branch.elseBranch)
        opened.append(inside)
    for level, network in enumerate(opened):
        network.add_copy(f"z {level}", "x", "z")
    builder.add_copy("out", "x", "y")
    content = read(builder).content
    assert isinstance(content, ir.Program)
    problems = {layer.problem for layer in content.functions["main"].layers}
    assert "branches and loops inside each other take too long to translate" in problems
