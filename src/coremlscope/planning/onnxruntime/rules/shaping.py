"""Operators that move, join, cut and select elements."""

from __future__ import annotations

from coremlscope.model.ir import DType
from coremlscope.planning.onnxruntime.case import Case
from coremlscope.planning.onnxruntime.rules.general import (
    DEFAULT,
    FLOAT,
    FLOATS,
    HALF_6,
    HALF_7,
    rank_is,
)
from coremlscope.planning.onnxruntime.rules.rule import (
    BUILDERS,
    NETWORK,
    PROGRAM,
    Condition,
    Operator,
    since,
    types,
)

_INTEGERS = frozenset({DType.INT32, DType.INT64})
_MOST_RANK = 5


def _source(name: str) -> str:
    return f"{BUILDERS}/{name}_op_builder.cc"


def _concat_axis(case: Case) -> bool:
    axis = case.number("axis", 1)
    return case.rank != 4 or (axis + case.rank if axis < 0 else axis) != 1


def _gather_scalar(case: Case) -> bool:
    return case.dims(1) == ()


def _gather_scalar_form(case: Case) -> bool:
    return _gather_scalar(case) and (-1 in case.dims(0) or case.rank > 4)


def _gather_nd_form(case: Case) -> bool:
    indices = case.dims(1)
    if case.number("batch_dims", 0) != 0 or case.integers(1) is None or not indices:
        return True
    depth = indices[-1]
    return depth > case.rank or -1 in case.dims(0)[:depth]


def _reshape_target(case: Case) -> bool:
    shape = case.integers(1)
    return not shape or len(shape) > _MOST_RANK


def _reshape_input(case: Case) -> bool:
    return -1 in case.dims(0) or not case.rank


def _reshape_zero(case: Case) -> bool:
    return case.number("allowzero", 0) == 1 and 0 in (case.integers(1) or ())


def _shape_part(case: Case) -> bool:
    return "end" in case.node.attributes or case.number("start", 0) != 0


def _shape_empty(case: Case) -> bool:
    rank = case.rank

    def clamp(value: int) -> int:
        return min(max(value + rank if value < 0 else value, 0), rank)

    return clamp(case.number("end", rank)) <= clamp(case.number("start", 0))


def _slice_constants(case: Case) -> bool:
    return any(case.integers(index) is None for index in range(1, 5) if index < 3 or case.name(index))


def _slice_empty(case: Case) -> bool:
    shape, starts, ends = case.dims(0), case.integers(1) or (), case.integers(2) or ()
    axes = case.integers(3) if case.name(3) else tuple(range(len(starts)))
    steps = case.integers(4) if case.name(4) else (1,) * len(starts)
    for axis, start, end, step in zip(axes or (), starts, ends, steps or (), strict=False):
        if not -len(shape) <= axis < len(shape) or step == 0:
            return True
        # With negative steps, an end before the first element is none in Python.
        last = None if step < 0 and end < -shape[axis] else end
        if not len(range(*slice(start, last, step).indices(shape[axis]))):
            return True
    return False


def _split_early(case: Case) -> bool:
    return case.since < 13


def _split_axis(case: Case) -> int:
    axis, shape = case.number("axis", 0), case.dims(0)
    axis = axis + len(shape) if axis < 0 else axis
    return shape[axis] if axis < len(shape) else -1


def _split_sizes(case: Case) -> bool:
    given = case.numbers("split") or None
    is_input = case.since >= 13 and bool(case.name(1))
    if not is_input and given is None:
        return False
    sizes = case.integers(1) if is_input else given
    size = _split_axis(case)
    return sizes is None or len(sizes) < 2 or size < 0 or sum(sizes) != size or min(sizes) < 1


def _split_even(case: Case) -> bool:
    if (case.since >= 13 and case.name(1)) or case.numbers("split"):
        return False
    size, count = _split_axis(case), len(case.node.outputs)
    if case.since >= 18:
        wanted = case.number("num_outputs", 0)
        return wanted < 2 or wanted != count or size < wanted
    return count < 2 or size < 0 or (case.settings.release >= (1, 27) and size % count != 0)


def _axes(case: Case) -> tuple[int, ...] | None:
    return case.integers(1) if case.since >= 13 else case.numbers("axes")


def _unsqueeze_rank(case: Case) -> bool:
    return case.rank + len(_axes(case) or ()) > _MOST_RANK


def _pad_mode(case: Case) -> str:
    return case.text("mode", "constant")


def _pads(case: Case) -> list[tuple[int, int, int]] | None:
    """Returns the axis and the amounts of each padded dimension; None if they are not constant."""
    known = case.initializer(1)
    if known is None or not known.is_available:
        return None
    amounts = [int(one) for one in known.numpy().reshape(-1)]
    axes: list[int] = list(range(len(amounts) // 2))
    if case.name(3):
        given = case.initializer(3)
        if given is None:
            return None
        axes = [int(one) for one in given.numpy().reshape(-1)]
    half = len(amounts) // 2
    return [
        (axis + case.rank if axis < 0 else axis, amounts[index], amounts[index + half])
        for index, axis in enumerate(axes[:half])
    ]


def _pad_amounts(case: Case) -> bool:
    pads = _pads(case)
    return pads is None or any(before < 0 or after < 0 for _, before, after in pads)


def _pad_value_network(case: Case) -> bool:
    value = case.initializer(2)
    return value is None or case.dtype(2) is not DType.FP32


def _pad_value(case: Case) -> bool:
    return bool(case.name(2)) and case.initializer(2) is None


def _pad_leading(case: Case) -> bool:
    if case.is_program and _pad_mode(case) != "reflect":
        return False
    return any((before or after) and axis < case.rank - 2 for axis, before, after in _pads(case) or ())


def _pad_reflected(case: Case) -> bool:
    if _pad_mode(case) != "reflect":
        return False
    return any(max(before, after) >= case.dims(0)[axis] for axis, before, after in _pads(case) or ())


OPERATORS: tuple[Operator, ...] = (
    Operator(
        op="Concat",
        formats=since(),
        types=DEFAULT,
        source=_source("concat"),
        conditions=(
            Condition(
                id="concat-single",
                fails=lambda case: len(case.node.inputs) < 2,
                reason="it has one input",
                fix="remove it",
            ),
            Condition(
                id="concat-axis",
                fails=_concat_axis,
                reason="it does not join channels of tensors of rank 4",
                fix="use the format MLProgram",
                formats=NETWORK,
            ),
        ),
    ),
    Operator(
        op="Flatten",
        formats=since(mlprogram=None),
        types=DEFAULT,
        is_trivial=True,
        source=_source("flatten"),
        conditions=(
            Condition(
                id="flatten-scalar",
                fails=lambda case: case.rank < 1,
                reason="its input has no dimensions",
                fix="reshape it",
            ),
        ),
    ),
    Operator(
        op="Gather",
        formats=since((1, 20), (1, 22)),
        types=types(FLOAT | {DType.INT64}, FLOATS | {DType.INT64}),
        source=_source("gather"),
        conditions=(
            HALF_6,
            Condition(
                id="gather-indices",
                fails=lambda case: case.dtype(1) not in _INTEGERS,
                reason="its indices are not int32 or int64",
                fix="cast the indices",
                since=(1, 27),
            ),
            Condition(
                id="gather-rank",
                fails=lambda case: case.rank + len(case.dims(1)) - 1 > _MOST_RANK,
                reason="its result has more than 5 dimensions",
                fix="gather from fewer dimensions",
            ),
            Condition(
                id="gather-scalar-early",
                fails=_gather_scalar,
                reason="its index is a single number without dimensions",
                fix="use ONNX Runtime 1.27 or later, or an index of the shape [1] and a Squeeze",
                until=(1, 27),
            ),
            Condition(
                id="gather-scalar",
                fails=_gather_scalar_form,
                reason="its index is a single number, and the data are dynamic or of rank 5",
                fix="make the dimensions static, or use an index of the shape [1] and a Squeeze",
                since=(1, 27),
            ),
        ),
    ),
    Operator(
        op="GatherND",
        formats=since(None, (1, 27)),
        types=types(frozenset(), FLOATS | _INTEGERS | {DType.BOOL}),
        source=_source("gather_nd"),
        conditions=(
            Condition(
                id="gather-nd-form",
                fails=_gather_nd_form,
                reason="batch_dims is not 0, its indices are not constant, or indexed dimensions are free",
                fix="use constant indices, batch_dims 0 and static dimensions",
            ),
        ),
    ),
    Operator(
        op="DepthToSpace",
        formats=since(),
        types=DEFAULT,
        source=_source("depthtospace"),
        conditions=(
            Condition(
                id="depth-to-space-network",
                fails=lambda case: case.text("mode", "DCR") != "DCR",
                reason="its mode is not DCR",
                fix="use the format MLProgram",
                formats=NETWORK,
            ),
            Condition(
                id="depth-to-space-dynamic",
                fails=lambda case: case.text("mode", "DCR") != "DCR" and -1 in case.dims(0),
                reason="its mode is not DCR and a dimension of its input is free",
                fix="make the dimensions static",
                formats=PROGRAM,
            ),
            HALF_7,
        ),
    ),
    Operator(
        op="Pad",
        formats=since((1, 20), (1, 26)),
        least_opset=11,
        types=types(FLOAT, FLOATS),
        source=_source("pad"),
        conditions=(
            Condition(
                id="pad-rank",
                fails=lambda case: case.rank < (1 if case.is_program else 2),
                reason="its input has too few dimensions",
                fix="reshape it",
            ),
            Condition(
                id="pad-mode",
                fails=lambda case: (
                    _pad_mode(case) != "constant" and not (case.is_program and _pad_mode(case) == "reflect")
                ),
                reason="its mode is not constant, nor reflect with MLProgram",
                fix="pad with a constant",
            ),
            Condition(
                id="pad-value-network",
                fails=_pad_value_network,
                reason="its value is not given as a float initializer",
                fix="give constant_value as an initializer",
                formats=NETWORK,
            ),
            Condition(
                id="pad-value",
                fails=_pad_value,
                reason="its value is not an initializer",
                fix="give constant_value as an initializer",
                formats=PROGRAM,
            ),
            Condition(
                id="pad-amounts",
                fails=_pad_amounts,
                reason="its amounts are not initializers without negative numbers",
                fix="make pads and axes initializers, and crop by Slice",
            ),
            Condition(
                id="pad-leading",
                fails=_pad_leading,
                reason="it pads other dimensions than the last two",
                fix="pad the last two dimensions alone",
            ),
            Condition(
                id="pad-reflect",
                fails=_pad_reflected,
                reason="it reflects more than a dimension has, or a free dimension",
                fix="make the dimensions static",
            ),
        ),
    ),
    Operator(
        op="Reshape",
        formats=since(),
        least_opset=5,
        types=DEFAULT,
        is_trivial=True,
        source=_source("reshape"),
        conditions=(
            Condition(
                id="reshape-target",
                fails=_reshape_target,
                reason="its shape is not a constant of 1 to 5 numbers",
                fix="make the dimensions static, so that the shape becomes a constant",
            ),
            Condition(
                id="reshape-dynamic",
                fails=_reshape_input,
                reason="a dimension of its input is free",
                fix="make the dimensions static",
            ),
            Condition(
                id="reshape-zero",
                fails=_reshape_zero,
                reason="its shape has a 0 and allowzero is 1",
                fix="export it without allowzero",
            ),
        ),
    ),
    Operator(
        op="Shape",
        formats=since((1, 20), (1, 21)),
        types=types(FLOAT, FLOATS | _INTEGERS),
        source=_source("shape"),
        conditions=(
            Condition(
                id="shape-part",
                fails=_shape_part,
                reason="it takes a part of the shape",
                fix="use the format MLProgram, or Slice after Shape",
                formats=NETWORK,
            ),
            Condition(
                id="shape-empty",
                fails=_shape_empty,
                reason="its result is empty",
                fix="take a part that is not empty",
                formats=PROGRAM,
            ),
        ),
    ),
    Operator(
        op="Slice",
        formats=since(),
        least_opset=10,
        types=types(FLOAT | {DType.INT64}, FLOATS | {DType.INT64}),
        source=_source("slice"),
        conditions=(
            HALF_6,
            Condition(
                id="slice-dynamic",
                fails=lambda case: -1 in case.dims(0),
                reason="a dimension of its input is free",
                fix="make the dimensions static",
            ),
            Condition(
                id="slice-constants",
                fails=_slice_constants,
                reason="its starts, ends, axes or steps are not constants",
                fix="make them initializers",
            ),
            Condition(
                id="slice-empty",
                fails=_slice_empty,
                reason="its result is empty",
                fix="remove it",
            ),
        ),
    ),
    Operator(
        op="Split",
        formats=since(),
        types=DEFAULT,
        source=_source("split"),
        conditions=(
            Condition(
                id="split-early",
                fails=_split_early,
                reason="its definition is older than opset 13",
                fix="export with opset 13 or later, or use ONNX Runtime 1.27 or later",
                until=(1, 27),
            ),
            Condition(
                id="split-sizes",
                fails=_split_sizes,
                reason="its sizes are not at least two positive constants that add up to a known dimension",
                fix="make the sizes constants and the dimension static",
            ),
            Condition(
                id="split-even",
                fails=_split_even,
                reason="a known dimension is not divided into at least two parts",
                fix="give the sizes as a constant",
            ),
        ),
    ),
    Operator(
        op="Squeeze",
        formats=since((1, 20), (1, 21)),
        types=DEFAULT,
        is_trivial=True,
        source=_source("squeeze"),
        conditions=(
            Condition(
                id="squeeze-axes",
                fails=lambda case: case.since >= 13 and bool(case.name(1)) and case.integers(1) is None,
                reason="its axes are not constants",
                fix="make them an initializer",
            ),
        ),
    ),
    Operator(
        op="Unsqueeze",
        formats=since(None, (1, 21)),
        types=DEFAULT,
        is_trivial=True,
        source=_source("squeeze"),
        conditions=(
            Condition(
                id="unsqueeze-axes",
                fails=lambda case: case.since >= 13 and case.integers(1) is None,
                reason="its axes are not constants",
                fix="make them an initializer",
            ),
            Condition(
                id="unsqueeze-rank",
                fails=_unsqueeze_rank,
                reason="its result has more than 5 dimensions",
                fix="merge dimensions before it",
            ),
        ),
    ),
    Operator(op="Transpose", formats=since(), types=DEFAULT, is_trivial=True, source=_source("transpose")),
    Operator(
        op="LRN",
        formats=since(mlprogram=None),
        types=DEFAULT,
        source=f"{BUILDERS}/LRN_op_builder.cc",
        conditions=(rank_is(3, 4),),
    ),
)
