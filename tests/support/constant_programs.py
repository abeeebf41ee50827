"""Small programs, mostly of constants, and access to their constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec.structs
import numpy as np

from coremlscope.model import ir

FLOAT = ir.TensorType(ir.DType.FP32, (1, 4))


def const(index: int, name: str, content: ir.Constant) -> ir.Op:
    """The `const` operation at `main/<index>`."""
    attributes = {"name": ir.constant(name), "val": content}
    return ir.Op(
        id=f"main/{index}",
        type="const",
        inputs={},
        outputs=(ir.Value(name, content.type),),
        attributes=attributes,
    )


def model_of(constants: Mapping[str, ir.Constant], spec_version: int = 9) -> ir.Model:
    """A program of constants that returns its input."""
    x = ir.Value("x", FLOAT)
    ops = tuple(const(index, *named) for index, named in enumerate(constants.items()))
    graph = ir.Graph(name="main", inputs=(x,), ops=ops, outputs=(x,))
    feature = ir.Feature("x", ir.ArrayFeature(dtype=ir.DType.FP32, shape=(1, 4)))
    return ir.Model(
        spec_version=spec_version,
        description=ir.Description(
            {"main": ir.FunctionDescription(inputs=(feature,), outputs=(feature,))}, "main"
        ),
        content=ir.Program(functions={"main": ir.Function(name="main", opset="CoreML7", graph=graph)}),
    )


def linear_model() -> ir.Model:
    """A linear model with stored and inline constants, a string, and control flow with two blocks."""
    weight = ir.Constant(
        ir.TensorType(ir.DType.FP16, (4, 4)), ir.Immediate(np.arange(16, dtype=np.float16).reshape(4, 4))
    )
    model = model_of({"weight": weight, "flag": ir.constant(True), "kind": ir.constant("fp16")})
    assert isinstance(model.content, ir.Program)
    main = model.content.functions["main"]
    x, flag = main.graph.inputs[0], main.graph.ops[1].outputs[0]
    y = ir.Value("y", FLOAT)
    inner = [ir.Value(name, FLOAT) for name in ("then", "otherwise")]
    blocks = tuple(
        ir.Graph(
            name=name,
            inputs=(),
            ops=(ir.Op(id=f"main/3/{name}/0", type=op, inputs={"x": (x,)}, outputs=(value,)),),
            outputs=(value,),
        )
        for name, op, value in zip(("true", "false"), ("relu", "tanh"), inner, strict=True)
    )
    cond = ir.Op(
        id="main/3",
        type="cond",
        inputs={"pred": (flag,)},
        outputs=(y,),
        blocks=blocks,
        attributes={"name": ir.constant("branch")},
    )
    graph = msgspec.structs.replace(main.graph, ops=(*main.graph.ops, cond), outputs=(y,))
    program = ir.Program(functions={"main": msgspec.structs.replace(main, graph=graph)})
    return msgspec.structs.replace(model, content=program)


def constants_of(model: ir.Model) -> Iterator[ir.Constant]:
    """All constants of a program."""
    assert isinstance(model.content, ir.Program)
    for function in model.content.functions.values():
        for op in function.graph.walk():
            yield from op.attributes.values()
            for arguments in op.inputs.values():
                yield from (argument for argument in arguments if isinstance(argument, ir.Constant))
