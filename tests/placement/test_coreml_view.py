from __future__ import annotations

from coremlscope.devices import ios, macos
from coremlscope.model import ir
from coremlscope.model.ir import constant
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind
from coremlscope.planning.placement.coreml_view import program_facts, view_function
from tests.support import graphs

HALF = graphs.tensor(1, 8, dtype=ir.DType.FP16)


def function(*ops: ir.Op, inputs=(), outputs=(), name: str = "main") -> ir.Function:
    return ir.Function(name=name, opset="CoreML8", graph=graphs.graph(name, inputs, ops, outputs))


NEW = macos(26)


def viewed(built: ir.Function, os=NEW, description=None):
    return view_function(bind(built, OPS, None), os, description)


def interface(dtype: ir.DType) -> ir.FunctionDescription:
    return ir.FunctionDescription(
        inputs=(ir.Feature("x", ir.ArrayFeature(dtype=dtype, shape=(1, 8))),),
        outputs=(ir.Feature("y", ir.ArrayFeature(dtype=dtype, shape=(1, 8))),),
    )


def small() -> ir.Function:
    x, y = graphs.value("x", HALF), graphs.value("y", HALF)
    alpha = graphs.const("alpha", 0.5)
    scaled = graphs.op("mul", graphs.value("scaled", HALF), x=x, y=alpha.outputs[0])
    return function(alpha, scaled, graphs.op("relu", y, x=scaled.outputs[0]), inputs=(x,), outputs=(y,))


def test_constants_are_arguments_and_edges_are_conversions() -> None:
    nodes = viewed(small()).nodes
    assert [(node.id, node.view.op.type) for node in nodes] == [
        ("main/input", "tensor_buffer_to_tensor"),
        ("scaled", "mul"),
        ("y", "relu"),
        ("main/output", "tensor_to_tensor_buffer"),
    ]
    assert [node.inserted for node in nodes] == [True, False, False, True]
    assert [node.follows for node in nodes] == [False, False, False, True]


def test_older_systems_do_not_list_the_conversion_of_outputs() -> None:
    assert [node.id for node in viewed(small(), macos(14, 5)).nodes] == ["main/input", "scaled", "y"]
    assert viewed(small(), ios(26)).nodes[-1].id == "main/output"


def test_a_tensor_filled_in_the_shape_of_another_is_planned() -> None:
    """`fill_like` is in plans of an M4 Max, although its result is known before run time."""
    x, y = graphs.value("x", HALF), graphs.value("y", HALF)
    filled = graphs.op("fill_like", graphs.value("filled", HALF), ref_tensor=x, value=constant(2.0))
    built = function(filled, graphs.op("add", y, x=x, y=filled.outputs[0]), inputs=(x,), outputs=(y,))
    planned = [node.view for node in viewed(built).nodes if not node.inserted]
    assert [view.op.type for view in planned] == ["fill_like", "add"]
    assert planned[1].is_known("y")


def test_folded_operations_are_not_planned() -> None:
    x, y = graphs.value("x", HALF), graphs.value("y", HALF)
    shape = graphs.op("shape", graphs.value("shape", graphs.tensor(2, dtype=ir.DType.INT32)), x=x)
    built = function(shape, graphs.op("relu", y, x=x), inputs=(x,), outputs=(y,))
    assert [node.view.op.type for node in viewed(built).nodes if not node.inserted] == ["relu"]


def test_a_cast_is_inserted_where_the_interface_has_another_type() -> None:
    nodes = viewed(small(), description=interface(ir.DType.FP32)).nodes
    assert [node.id for node in nodes[:2]] == ["main/input", "main/input/cast/x"]
    cast = nodes[1].view
    assert cast.type("x").dtype is ir.DType.FP32
    assert cast.output_type() == HALF
    assert cast.text("dtype") == "fp16"
    assert not any("cast" in node.id for node in viewed(small(), description=interface(ir.DType.FP16)).nodes)


def test_states_are_not_converted() -> None:
    state = graphs.value("memory", ir.StateType(HALF))
    y = graphs.value("y", HALF)
    built = function(graphs.op("read_state", y, input=state), inputs=(state,), outputs=(y,))
    assert [node.id for node in viewed(built).nodes] == ["y", "main/output"]


def test_nested_graphs_stay_with_their_owner() -> None:
    pred, x, y = (
        graphs.value("p", graphs.tensor(dtype=ir.DType.BOOL)),
        graphs.value("x", HALF),
        graphs.value("y", HALF),
    )
    blocks = tuple(
        graphs.graph(name, (), (graphs.op(kind, graphs.value(name, HALF), x=x),), (graphs.value(name, HALF),))
        for name, kind in (("true", "relu"), ("false", "abs"))
    )
    built = function(graphs.op("cond", y, pred=pred, blocks=blocks), inputs=(pred, x), outputs=(y,))
    walked = [node.id for node in viewed(built).walk()]
    assert walked == ["main/input", "y", "true", "false", "main/output"]
    (owner,) = [node for node in viewed(built).nodes if node.id == "y"]
    assert [block.name for block in owner.blocks] == ["true", "false"]


def test_facts_of_a_program() -> None:
    bound = bind(small(), OPS, None)
    kinds = {
        "a": ir.EnumeratedShapes(((1, 8), (2, 8))),
        "b": ir.RangeShapes(((1, 4), (8, 8))),
        "c": ir.RangeShapes(((1, -1), (8, 8))),
        "d": None,
    }
    features = tuple(
        ir.Feature(name, ir.ArrayFeature(dtype=ir.DType.FP16, shape=(1, 8), flexibility=flexibility))
        for name, flexibility in kinds.items()
    )
    description = ir.FunctionDescription(inputs=features, outputs=())
    weights = (ir.WeightFile("a.bin", 100), ir.WeightFile("b.bin", None))
    model = ir.Model(
        spec_version=9,
        description=ir.Description({"main": description}, "main"),
        content=ir.Program(functions={}),
        weight_files=weights,
    )
    facts = program_facts(model, bound, description)
    assert facts.flexible_inputs == {"a": "enumerated", "b": "range", "c": "unbounded"}
    assert (facts.opset, facts.spec_version, facts.weights_bytes, facts.states) == (8, 9, 100, 0)
