"""Conditions that every operator has to meet, in the provider's order."""

from __future__ import annotations

from coremlscope.model.ir import DType
from coremlscope.planning.onnxruntime.case import Case
from coremlscope.planning.onnxruntime.rules.rule import NETWORK, PROGRAM, PROVIDER, Condition, types

_HELPER = f"{PROVIDER}/builders/helper.cc"
_BASE = f"{PROVIDER}/builders/impl/base_op_builder.cc"
#: The largest dimension.
LARGEST = 16_384
_MOST_RANK = 5
#: The newest operator set of each release; from 1.27 on it was not published.
_OPSETS = (((1, 22), 21), ((1, 23), 23), ((1, 24), 24), ((1, 26), 25))
_NEWEST_OPSET = 27

FLOAT = frozenset({DType.FP32})
FLOATS = frozenset({DType.FP32, DType.FP16})
#: The default types of the first input.
DEFAULT = types(FLOAT, FLOATS | {DType.INT64})


def newest_opset(case: Case) -> int:
    """Returns the newest definition of operators that a release takes."""
    release = case.settings.release
    return next((opset for until, opset in _OPSETS if release <= until), _NEWEST_OPSET)


def _inputs(case: Case) -> list[str]:
    return [name for name in case.node.inputs if name]


def _shapes(case: Case) -> list[tuple[int, ...]]:
    return [shape for shape in map(case.shape_of, _inputs(case)) if shape is not None]


def _is_too_new(case: Case) -> bool:
    return case.since > newest_opset(case)


def _no_shape(case: Case) -> bool:
    return any(case.shape_of(name) is None for name in _inputs(case))


def _is_dynamic(case: Case) -> bool:
    return case.settings.is_static and any(-1 in shape for shape in _shapes(case))


def _is_empty(case: Case) -> bool:
    return case.node.op != "Resize" and any(0 in shape for shape in _shapes(case))


def _has_high_rank(case: Case) -> bool:
    return any(len(shape) > _MOST_RANK for shape in _shapes(case))


def _has_large_dimension(case: Case) -> bool:
    return any(size > LARGEST for shape in _shapes(case) for size in shape)


def _is_external(case: Case) -> bool:
    return any(name in graph.external for name in _inputs(case) for graph in (case.graph, *case.outer))


def _is_early_int64(case: Case) -> bool:
    return case.dtype(0) is DType.INT64 and case.is_program


#: What is asked of every operator, after its builder and format.
CONDITIONS: tuple[Condition, ...] = (
    Condition(
        "opset-too-new",
        _is_too_new,
        "its definition is newer than the operator sets of this release",
        "export with an older opset",
        source=f"{PROVIDER}/builders/impl/base_op_builder.h",
    ),
    Condition(
        "shape-unknown",
        _no_shape,
        "the shape of an input is not known",
        "run shape inference, or fix the free dimensions",
        source=_HELPER,
    ),
    Condition(
        "static-required",
        _is_dynamic,
        "a dimension of an input is free, and RequireStaticInputShapes is on",
        "make the dimensions static (python -m onnxruntime.tools.make_dynamic_shape_fixed)",
        source=_HELPER,
    ),
    Condition(
        "empty-input",
        _is_empty,
        "a dimension of an input is 0",
        "leave the empty input out",
        source=_HELPER,
    ),
    Condition(
        "rank-above-5",
        _has_high_rank,
        "an input has more than 5 dimensions",
        "merge dimensions before the operator and split them after it",
        source=f"{PROVIDER}/shape_utils.cc",
    ),
    Condition(
        "dimension-above-16384",
        _has_large_dimension,
        f"a dimension of an input is larger than {LARGEST:,}",
        "use ONNX Runtime 1.23 or later",
        until=(1, 23),
        source=_HELPER,
    ),
    Condition(
        "external-weights",
        _is_external,
        "its weights are in a file of external data",
        "save the weights in the model, or use ONNX Runtime 1.23 or later",
        until=(1, 23),
        source=_HELPER,
    ),
)
#: Asked of operators with the default types.
EARLY_INT64 = Condition(
    "int64-early",
    _is_early_int64,
    "its first input is of 64-bit integers",
    "use ONNX Runtime 1.23 or later",
    formats=PROGRAM,
    until=(1, 23),
    source=_BASE,
)


def _is_half_before(version: int) -> Condition:
    return Condition(
        f"half-core-ml-{version}",
        lambda case: case.dtype(0) is DType.FP16 and case.settings.core_ml < version,
        f"its first input is float16, which needs Core ML {version}",
        f"require iOS {version + 10} or macOS {version + 7}",
        formats=PROGRAM,
        source=_BASE,
    )


#: Operators that take float16 only from Core ML 6 or 7 on.
HALF_6, HALF_7 = _is_half_before(6), _is_half_before(7)


def rank_is(*ranks: int) -> Condition:
    """Returns the condition that the first input has one of some ranks."""
    words = " or ".join(map(str, ranks))
    return Condition(
        f"rank-{'-'.join(map(str, ranks))}",
        lambda case: case.rank not in ranks,
        f"its first input is not of rank {words}",
        f"reshape it to rank {words}",
        source=_BASE,
    )


def one_output(source: str) -> Condition:
    """Returns the condition that an operator has one result."""
    return Condition(
        "one-output",
        lambda case: len(case.node.outputs) != 1,
        "it has more than one result",
        "remove the other results",
        source=source,
    )


def is_constant(index: int, what: str, source: str, *, network_only: bool = False) -> Condition:
    """Returns the condition that an input, where it is listed, is a constant."""
    return Condition(
        f"constant-{what.replace(' ', '-')}",
        lambda case: case.is_listed(index) and case.constant(index) is None,
        f"its {what} is not a constant",
        f"make the {what} an initializer that is no input of the graph",
        formats=NETWORK if network_only else ("neuralnetwork", "mlprogram"),
        source=source,
    )
