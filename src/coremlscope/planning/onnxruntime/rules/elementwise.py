"""Operators that work element by element, and casts."""

from __future__ import annotations

from coremlscope.model.ir import DType
from coremlscope.planning.onnxruntime.case import Case
from coremlscope.planning.onnxruntime.rules.general import DEFAULT, FLOATS, HALF_6
from coremlscope.planning.onnxruntime.rules.rule import (
    BUILDERS,
    NETWORK,
    PROGRAM,
    Condition,
    Operator,
    since,
    types,
)

_ACTIVATION, _UNARY = f"{BUILDERS}/activation_op_builder.cc", f"{BUILDERS}/unary_op_builder.cc"
_BINARY, _CAST = f"{BUILDERS}/binary_op_builder.cc", f"{BUILDERS}/cast_op_builder.cc"
_CLIP, _ARGMAX = f"{BUILDERS}/clip_op_builder.cc", f"{BUILDERS}/argmax_op_builder.cc"
_WHERE = f"{BUILDERS}/where_op_builder.cc"
_INT32 = 6
#: The element types of casts, by ONNX's numbers.
_CAST_NUMBERS = {1: DType.FP32, 6: DType.INT32, 7: DType.INT64, 9: DType.BOOL, 10: DType.FP16}
_CAST_TYPES = frozenset({DType.FP32, DType.FP16, DType.INT32, DType.INT64})


def _slope_rank(case: Case) -> bool:
    return case.rank not in (3, 4) or case.dims(0)[-3] < 0


def _slope_shape(case: Case) -> bool:
    slope, channels = case.constant(1), case.dims(0)[-3]
    shape = case.dims(1)
    if slope is None:
        return True
    is_single = all(size == 1 for size in shape)
    is_per_channel = shape == (channels, 1, 1)
    return not (is_single or is_per_channel) or (is_single and channels == 1)


def _types_differ(case: Case) -> bool:
    return case.dtype(0) != case.dtype(1)


def _cast_types(case: Case) -> bool:
    return not _is_cast(case, _CAST_TYPES)


def _cast_types_and_bool(case: Case) -> bool:
    return not _is_cast(case, _CAST_TYPES | {DType.BOOL})


def _is_cast(case: Case, taken: frozenset[DType]) -> bool:
    return case.dtype(0) in taken and _CAST_NUMBERS.get(case.number("to", 0)) in taken


def _cast_of_input(case: Case) -> bool:
    return case.name(0) not in case.makers


def _cast_of_network(case: Case) -> bool:
    maker = case.makers.get(case.name(0))
    is_narrowing = case.dtype(0) is DType.INT64 and case.number("to", 0) == _INT32
    return not (is_narrowing and maker is not None and maker.op == "ArgMax" and case.is_taken(maker))


def _argmax_casts(case: Case) -> bool:
    consumers = case.consumers.get(case.node.outputs[0], ())
    return len(consumers) > 1 and any(
        one.op == "Cast" and one.attributes.get("to") == _INT32 for one in consumers
    )


def _clip_limits(case: Case) -> bool:
    return case.since >= 11 and any(case.name(index) and case.constant(index) is None for index in (1, 2))


def _clip_types(case: Case) -> bool:
    return case.since >= 11 and bool(case.name(1) or case.name(2)) and case.dtype(0) not in FLOATS


def _clip_equal(case: Case) -> bool:
    if case.since < 11:
        low, high = case.attribute("min"), case.attribute("max")
        return low is not None and low == high
    low_, high_ = (case.floats(index) if case.name(index) else None for index in (1, 2))
    return bool(low_ and high_ and low_ == high_)


def _condition_type(case: Case) -> bool:
    return case.dtype(0) is not DType.BOOL


def _branch_types(case: Case) -> bool:
    return case.dtype(1) not in FLOATS or case.dtype(1) != case.dtype(2)


def _not_bool(case: Case) -> bool:
    return case.dtype(0) is not DType.BOOL or case.dtype(1) is not DType.BOOL


_ANYWHERE = since()
_ONLY_PROGRAM_21 = since(None, (1, 21))


def _plain(op: str, source: str, formats: object, least: int = 1, *conditions: Condition) -> Operator:
    return Operator(
        op,
        formats,  # type: ignore[arg-type]
        least_opset=least,
        types=DEFAULT,
        conditions=conditions,
        is_trivial=op == "Ceil",
        source=source,
    )


OPERATORS: tuple[Operator, ...] = (
    _plain("Sigmoid", _ACTIVATION, _ANYWHERE, 6),
    _plain("Tanh", _ACTIVATION, _ANYWHERE, 6),
    _plain("Relu", _ACTIVATION, _ANYWHERE, 6),
    _plain("LeakyRelu", _ACTIVATION, _ANYWHERE, 6),
    _plain("HardSigmoid", _ACTIVATION, since((1, 26), (1, 26)), 6),
    _plain("Gelu", _ACTIVATION, _ONLY_PROGRAM_21, 6),
    _plain("Elu", _ACTIVATION, since(None, (1, 24)), 6),
    _plain("Softplus", _ACTIVATION, since(None, (1, 24))),
    _plain(
        "PRelu",
        _ACTIVATION,
        since((1, 20), (1, 21)),
        6,
        Condition(
            "prelu-rank",
            _slope_rank,
            "its input is not of rank 3 or 4 with a known number of channels",
            "fix the channels",
        ),
        Condition(
            "prelu-slope",
            _slope_shape,
            "its slope is not a constant of one element, or of one for each of several channels",
            "make the slope an initializer of the shape [channels, 1, 1]",
        ),
    ),
    _plain("QuickGelu", f"{BUILDERS}/quick_gelu_op_builder.cc", since(None, (1, 26))),
    _plain("Sqrt", _UNARY, _ANYWHERE),
    _plain("Reciprocal", _UNARY, _ANYWHERE),
    _plain("Erf", _UNARY, _ONLY_PROGRAM_21),
    _plain("Round", _UNARY, _ONLY_PROGRAM_21),
    _plain("Exp", _UNARY, since(None, (1, 24))),
    _plain("Sin", _UNARY, since(None, (1, 27))),
    _plain("Cos", _UNARY, since(None, (1, 27))),
    _plain("Ceil", _UNARY, since(None, (1, 27))),
    _plain("Add", _BINARY, _ANYWHERE, 7),
    _plain("Sub", _BINARY, _ANYWHERE, 7),
    _plain("Mul", _BINARY, _ANYWHERE, 7),
    _plain("Div", _BINARY, _ANYWHERE, 7),
    _plain(
        "Pow",
        _BINARY,
        _ANYWHERE,
        7,
        Condition(
            "pow-types",
            _types_differ,
            "base and exponent have different types",
            "give both one type",
        ),
    ),
    _plain("Max", _BINARY, _ONLY_PROGRAM_21, 7),
    Operator(
        "Cast",
        since((1, 20), (1, 21)),
        source=_CAST,
        is_trivial=True,
        conditions=(
            Condition(
                "cast-of-input",
                _cast_of_input,
                "it casts an input or a constant of the graph",
                "use ONNX Runtime 1.27 or later",
                formats=PROGRAM,
                until=(1, 27),
            ),
            Condition(
                "cast-types-early",
                _cast_types,
                "it casts from or to another type than int32, int64, float16 and float32",
                "use ONNX Runtime 1.27 or later for booleans",
                formats=PROGRAM,
                until=(1, 27),
            ),
            Condition(
                "cast-types",
                _cast_types_and_bool,
                "it casts from or to another type than bool, int32, int64, float16 and float32",
                "cast to one of these types",
                formats=PROGRAM,
                since=(1, 27),
            ),
            Condition(
                "cast-network",
                _cast_of_network,
                "it is not the cast of an ArgMax to int32",
                "use the format MLProgram",
                formats=NETWORK,
            ),
        ),
    ),
    Operator(
        "ArgMax",
        since((1, 20), (1, 21)),
        types=DEFAULT,
        source=_ARGMAX,
        conditions=(
            Condition(
                "argmax-last",
                lambda case: case.number("select_last_index", 0) != 0,
                "select_last_index is set",
                "export it without select_last_index",
            ),
            Condition(
                "argmax-casts",
                _argmax_casts,
                "several operators read its result, one of them a cast to int32",
                "cast once, and let all read the cast",
                formats=NETWORK,
            ),
        ),
    ),
    Operator(
        "Clip",
        _ANYWHERE,
        types=DEFAULT,
        source=_CLIP,
        conditions=(
            Condition(
                "clip-limits",
                _clip_limits,
                "a limit is not a constant",
                "make both limits initializers",
            ),
            Condition(
                "clip-types",
                _clip_types,
                "it clips integers",
                "clip floats",
                source="onnxruntime/core/providers/shared/utils/utils.cc",
            ),
            Condition(
                "clip-equal",
                _clip_equal,
                "both limits are the same",
                "replace it by a constant",
            ),
        ),
    ),
    Operator(
        "Where",
        since(None, (1, 28)),
        source=_WHERE,
        conditions=(
            Condition(
                "where-condition",
                _condition_type,
                "its condition is not of booleans",
                "cast the condition to bool",
            ),
            Condition(
                "where-types",
                _branch_types,
                "its values are not both float32 or both float16",
                "use floats of one type",
            ),
        ),
    ),
    Operator(
        "And",
        since(None, (1, 28)),
        source=f"{BUILDERS}/logical_op_builder.cc",
        conditions=(
            Condition(
                "and-types",
                _not_bool,
                "its inputs are not both of booleans",
                "cast them to bool",
            ),
        ),
    ),
    Operator(
        "Identity",
        since((1, 27), (1, 27)),
        types=DEFAULT,
        is_trivial=True,
        source=f"{BUILDERS}/identity_op_builder.cc",
    ),
    Operator(
        "Softmax",
        since((1, 20), (1, 21)),
        types=DEFAULT,
        source=f"{BUILDERS}/softmax_op_builder.cc",
        conditions=(
            Condition(
                "softmax-early-static",
                lambda case: -1 in case.dims(0),
                "a dimension of its input is free",
                "make it static, or use ONNX Runtime 1.23 or later",
                until=(1, 23),
            ),
            Condition(
                "softmax-static",
                lambda case: case.since < 13 and -1 in case.dims(0),
                "a dimension of its input is free, and its definition is older than opset 13",
                "export with opset 13 or later, or make the dimensions static",
                since=(1, 23),
            ),
        ),
    ),
    Operator(
        "Tile",
        since((1, 27), (1, 27)),
        least_opset=6,
        types=types(
            frozenset({DType.FP32, DType.INT32, DType.INT64, DType.BOOL}),
            frozenset({DType.FP32, DType.INT32, DType.INT64, DType.BOOL, DType.FP16}),
        ),
        is_trivial=True,
        source=f"{BUILDERS}/tile_op_builder.cc",
        conditions=(
            HALF_6,
            Condition(
                "tile-network-repeats",
                lambda case: case.integers(1) is None,
                "its repeats are not constant",
                "make them an initializer, or use the format MLProgram",
                formats=NETWORK,
            ),
            Condition(
                "tile-repeats",
                lambda case: (
                    (repeats := case.integers(1)) is not None
                    and (len(repeats) != case.rank or min(repeats, default=1) < 1)
                ),
                "its repeats are not one positive number for each dimension",
                "give one positive number for each dimension",
            ),
        ),
    ),
)
