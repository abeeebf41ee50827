"""Small models in the intermediate representation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec.structs
import numpy as np

from coremlscope.base.errors import MissingWeightsError
from coremlscope.model import ir

__all__ = ["Absent", "absent_weights", "accumulator", "adder", "array_feature", "model", "perceptron"]


def array_feature(
    name: str,
    shape: tuple[int, ...],
    dtype: ir.DType = ir.DType.FP32,
    flexibility: ir.ShapeFlexibility | None = None,
) -> ir.Feature:
    """A multi-array feature."""
    return ir.Feature(name, ir.ArrayFeature(dtype=dtype, shape=shape, flexibility=flexibility))


def model(
    inputs: Sequence[ir.Feature],
    outputs: Sequence[ir.Feature],
    functions: Mapping[str, ir.Graph],
    states: Sequence[ir.Feature] = (),
) -> ir.Model:
    """An ML Program whose functions share one interface; the first one is the default."""
    interface = ir.FunctionDescription(inputs=tuple(inputs), outputs=tuple(outputs), states=tuple(states))
    described = ir.Description(dict.fromkeys(functions, interface), next(iter(functions)))
    program = ir.Program(
        functions={
            name: ir.Function(name=name, opset="CoreML8", graph=graph) for name, graph in functions.items()
        }
    )
    return ir.Model(spec_version=9, description=described, content=program)


def _op(op_id: str, kind: str, result: ir.Value, **inputs: ir.Argument) -> ir.Op:
    return ir.Op(
        id=op_id,
        type=kind,
        inputs={name: (argument,) for name, argument in inputs.items()},
        outputs=(result,),
    )


def adder(flexibility: ir.ShapeFlexibility | None = None) -> ir.Model:
    """Functions `plus` and `times` of `x` (2×3 by default) and one number: `y = x + 2`, `y = x · 3`."""
    shape: ir.Shape = (2, 3) if flexibility is None else (None, 3)
    x, y = (ir.Value(name, ir.TensorType(ir.DType.FP32, shape)) for name in "xy")
    plus = _op("plus/0", "add", y, x=x, y=ir.constant(2.0))
    times = _op("times/0", "mul", y, x=x, y=ir.constant(3.0))
    return model(
        [array_feature("x", (2, 3), flexibility=flexibility)],
        [array_feature("y", ())],
        {
            "plus": ir.Graph(name="plus", inputs=(x,), ops=(plus,), outputs=(y,)),
            "times": ir.Graph(name="times", inputs=(x,), ops=(times,), outputs=(y,)),
        },
    )


def accumulator() -> ir.Model:
    """Adds `x` to the fp16 state `total` and returns it times 10."""
    type_ = ir.TensorType(ir.DType.FP16, (2,))
    x, before, after = (ir.Value(name, type_) for name in ("x", "before", "after"))
    y = ir.Value("y", type_)
    total = ir.Value("total", ir.StateType(type_))
    ops = (
        _op("main/0", "read_state", before, input=total),
        _op("main/1", "add", after, x=before, y=x),
        ir.Op(id="main/2", type="write_state", inputs={"input": (total,), "data": (after,)}, outputs=()),
        _op("main/3", "mul", y, x=after, y=ir.constant(np.float16(10))),
    )
    state = ir.Feature("total", ir.StateFeature(ir.ArrayFeature(dtype=ir.DType.FP16, shape=(2,))))
    fp16 = ir.DType.FP16
    return model(
        [array_feature("x", (2,), fp16)],
        [array_feature("y", (2,), fp16)],
        {"main": ir.Graph(name="main", inputs=(x, total), ops=ops, outputs=(y,))},
        [state],
    )


def perceptron(seed: int = 0, *, units: int = 64) -> ir.Model:
    """`relu(linear(x))` and its square root, with weights large enough for the weight file."""
    weight = np.random.default_rng(seed).standard_normal((units, units)).astype(np.float32)
    row = ir.TensorType(ir.DType.FP32, (1, units))
    w = ir.Value("w", ir.TensorType(ir.DType.FP32, (units, units)))
    x, z, r, y = (ir.Value(name, row) for name in "xzry")
    content = ir.constant(weight)
    ops = (
        ir.Op(
            id="main/0",
            type="const",
            inputs={},
            outputs=(w,),
            blocks=(),
            attributes={"val": content, "name": ir.constant("w")},
        ),
        _op("main/1", "linear", z, x=x, weight=w),
        _op("main/2", "relu", r, x=z),
        _op("main/3", "sqrt", y, x=r),
    )
    features = [array_feature("x", (1, units))], [array_feature("y", (1, units))]
    return model(*features, {"main": ir.Graph(name="main", inputs=(x,), ops=ops, outputs=(y,))})


class Absent:
    """The data of a constant whose weight file is absent."""

    stored_bytes = 1
    is_available = False

    def numpy(self) -> ir.Array:
        raise MissingWeightsError("the weight file w.bin is absent")


def absent_weights(given: ir.Model) -> ir.Model:
    """The model with absent weights for its constants of rank 2."""
    assert isinstance(given.content, ir.Program)

    def gone(op: ir.Op) -> ir.Op:
        value = op.constant
        if value is None or not isinstance(value.type, ir.TensorType) or value.type.rank != 2:
            return op
        return msgspec.structs.replace(
            op, attributes={**op.attributes, "val": ir.Constant(value.type, Absent())}
        )

    functions = {
        name: msgspec.structs.replace(
            f, graph=msgspec.structs.replace(f.graph, ops=tuple(gone(op) for op in f.graph.ops))
        )
        for name, f in given.content.functions.items()
    }
    content = msgspec.structs.replace(given.content, functions=functions)
    files = (ir.WeightFile("weights/weight.bin", None),)
    return msgspec.structs.replace(given, content=content, weight_files=files)
