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
        "Concat",
        since(),
        types=DEFAULT,
        source=_source("concat"),
        conditions=(
            Condition(
                "concat-single",
                lambda case: len(case.node.inputs) < 2,
                "it has one input",
                "remove it",
            ),
            Condition(
                "concat-axis",
                _concat_axis,
                "it does not join channels of tensors of rank 4",
                "use the format MLProgram",
                formats=NETWORK,
            ),
        ),
    ),
    Operator(
        "Flatten",
        since(mlprogram=None),
        types=DEFAULT,
        is_trivial=True,
        source=_source("flatten"),
        conditions=(
            Condition(
                "flatten-scalar",
                lambda case: case.rank < 1,
                "its input has no dimensions",
                "reshape it",
            ),
        ),
    ),
    Operator(
        "Gather",
        since((1, 20), (1, 22)),
        types=types(FLOAT | {DType.INT64}, FLOATS | {DType.INT64}),
        source=_source("gather"),
        conditions=(
            HALF_6,
            Condition(
                "gather-indices",
                lambda case: case.dtype(1) not in _INTEGERS,
                "its indices are not int32 or int64",
                "cast the indices",
                since=(1, 27),
            ),
            Condition(
                "gather-rank",
                lambda case: case.rank + len(case.dims(1)) - 1 > _MOST_RANK,
                "its result has more than 5 dimensions",
                "gather from fewer dimensions",
            ),
            Condition(
                "gather-scalar-early",
                _gather_scalar,
                "its index is a single number without dimensions",
                "use ONNX Runtime 1.27 or later, or an index of the shape [1] and a Squeeze",
                until=(1, 27),
            ),
            Condition(
                "gather-scalar",
                _gather_scalar_form,
                "its index is a single number, and the data are dynamic or of rank 5",
                "make the dimensions static, or use an index of the shape [1] and a Squeeze",
                since=(1, 27),
            ),
        ),
    ),
    Operator(
        "GatherND",
        since(None, (1, 27)),
        types=types(frozenset(), FLOATS | _INTEGERS | {DType.BOOL}),
        source=_source("gather_nd"),
        conditions=(
            Condition(
                "gather-nd-form",
                _gather_nd_form,
                "batch_dims is not 0, its indices are not constant, or indexed dimensions are free",
                "use constant indices, batch_dims 0 and static dimensions",
            ),
        ),
    ),
    Operator(
        "DepthToSpace",
        since(),
        types=DEFAULT,
        source=_source("depthtospace"),
        conditions=(
            Condition(
                "depth-to-space-network",
                lambda case: case.text("mode", "DCR") != "DCR",
                "its mode is not DCR",
                "use the format MLProgram",
                formats=NETWORK,
            ),
            Condition(
                "depth-to-space-dynamic",
                lambda case: case.text("mode", "DCR") != "DCR" and -1 in case.dims(0),
                "its mode is not DCR and a dimension of its input is free",
                "make the dimensions static",
                formats=PROGRAM,
            ),
            HALF_7,
        ),
    ),
    Operator(
        "Pad",
        since((1, 20), (1, 26)),
        least_opset=11,
        types=types(FLOAT, FLOATS),
        source=_source("pad"),
        conditions=(
            Condition(
                "pad-rank",
                lambda case: case.rank < (1 if case.is_program else 2),
                "its input has too few dimensions",
                "reshape it",
            ),
            Condition(
                "pad-mode",
                lambda case: (
                    _pad_mode(case) != "constant" and not (case.is_program and _pad_mode(case) == "reflect")
                ),
                "its mode is not constant, nor reflect with MLProgram",
                "pad with a constant",
            ),
            Condition(
                "pad-value-network",
                _pad_value_network,
                "its value is not given as a float initializer",
                "give constant_value as an initializer",
                formats=NETWORK,
            ),
            Condition(
                "pad-value",
                _pad_value,
                "its value is not an initializer",
                "give constant_value as an initializer",
                formats=PROGRAM,
            ),
            Condition(
                "pad-amounts",
                _pad_amounts,
                "its amounts are not initializers without negative numbers",
                "make pads and axes initializers, and crop by Slice",
            ),
            Condition(
                "pad-leading",
                _pad_leading,
                "it pads other dimensions than the last two",
                "pad the last two dimensions alone",
            ),
            Condition(
                "pad-reflect",
                _pad_reflected,
                "it reflects more than a dimension has, or a free dimension",
                "make the dimensions static",
            ),
        ),
    ),
    Operator(
        "Reshape",
        since(),
        least_opset=5,
        types=DEFAULT,
        is_trivial=True,
        source=_source("reshape"),
        conditions=(
            Condition(
                "reshape-target",
                _reshape_target,
                "its shape is not a constant of 1 to 5 numbers",
                "make the dimensions static, so that the shape becomes a constant",
            ),
            Condition(
                "reshape-dynamic",
                _reshape_input,
                "a dimension of its input is free",
                "make the dimensions static",
            ),
            Condition(
                "reshape-zero",
                _reshape_zero,
                "its shape has a 0 and allowzero is 1",
                "export it without allowzero",
            ),
        ),
    ),
    Operator(
        "Shape",
        since((1, 20), (1, 21)),
        types=types(FLOAT, FLOATS | _INTEGERS),
        source=_source("shape"),
        conditions=(
            Condition(
                "shape-part",
                _shape_part,
                "it takes a part of the shape",
                "use the format MLProgram, or Slice after Shape",
                formats=NETWORK,
            ),
            Condition(
                "shape-empty",
                _shape_empty,
                "its result is empty",
                "take a part that is not empty",
                formats=PROGRAM,
            ),
        ),
    ),
    Operator(
        "Slice",
        since(),
        least_opset=10,
        types=types(FLOAT | {DType.INT64}, FLOATS | {DType.INT64}),
        source=_source("slice"),
        conditions=(
            HALF_6,
            Condition(
                "slice-dynamic",
                lambda case: -1 in case.dims(0),
                "a dimension of its input is free",
                "make the dimensions static",
            ),
            Condition(
                "slice-constants",
                _slice_constants,
                "its starts, ends, axes or steps are not constants",
                "make them initializers",
            ),
            Condition(
                "slice-empty",
                _slice_empty,
                "its result is empty",
                "remove it",
            ),
        ),
    ),
    Operator(
        "Split",
        since(),
        types=DEFAULT,
        source=_source("split"),
        conditions=(
            Condition(
                "split-early",
                _split_early,
                "its definition is older than opset 13",
                "export with opset 13 or later, or use ONNX Runtime 1.27 or later",
                until=(1, 27),
            ),
            Condition(
                "split-sizes",
                _split_sizes,
                "its sizes are not at least two positive constants that add up to a known dimension",
                "make the sizes constants and the dimension static",
            ),
            Condition(
                "split-even",
                _split_even,
                "a known dimension is not divided into at least two parts",
                "give the sizes as a constant",
            ),
        ),
    ),
    Operator(
        "Squeeze",
        since((1, 20), (1, 21)),
        types=DEFAULT,
        is_trivial=True,
        source=_source("squeeze"),
        conditions=(
            Condition(
                "squeeze-axes",
                lambda case: case.since >= 13 and bool(case.name(1)) and case.integers(1) is None,
                "its axes are not constants",
                "make them an initializer",
            ),
        ),
    ),
    Operator(
        "Unsqueeze",
        since(None, (1, 21)),
        types=DEFAULT,
        is_trivial=True,
        source=_source("squeeze"),
        conditions=(
            Condition(
                "unsqueeze-axes",
                lambda case: case.since >= 13 and case.integers(1) is None,
                "its axes are not constants",
                "make them an initializer",
            ),
            Condition(
                "unsqueeze-rank",
                _unsqueeze_rank,
                "its result has more than 5 dimensions",
                "merge dimensions before it",
            ),
        ),
    ),
    Operator("Transpose", since(), types=DEFAULT, is_trivial=True, source=_source("transpose")),
    Operator(
        "LRN",
        since(mlprogram=None),
        types=DEFAULT,
        source=f"{BUILDERS}/LRN_op_builder.cc",
        conditions=(rank_is(3, 4),),
    ),
)
