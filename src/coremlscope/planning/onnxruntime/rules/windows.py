"""Convolutions, products of matrices, normalisations, reductions and windows."""

from __future__ import annotations

from coremlscope.planning.onnxruntime.case import Case
from coremlscope.planning.onnxruntime.rules.general import (
    DEFAULT,
    FLOATS,
    LARGEST,
    is_constant,
    one_output,
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

_CONV, _DECONV = f"{BUILDERS}/conv_op_builder.cc", f"{BUILDERS}/convtranspose_op_builder.cc"
_GEMM, _NORM = f"{BUILDERS}/gemm_op_builder.cc", f"{BUILDERS}/normalization_op_builder.cc"
_BATCH, _POOL = f"{BUILDERS}/batch_norm_op_builder.cc", f"{BUILDERS}/pool_op_builder.cc"
_REDUCE, _GRID = f"{BUILDERS}/reduction_op_builder.cc", f"{BUILDERS}/gridsample_op_builder.cc"
#: The activations of FusedConv, with the number of their parameters.
_FUSED = {"Relu": 0, "Sigmoid": 0, "Tanh": 0, "LeakyRelu": 1, "Clip": 2, "HardSigmoid": 2}


def _weight_rank(case: Case) -> bool:
    return len(case.dims(1)) not in (3, 4)


def _kernel_shape(case: Case) -> bool:
    given = case.numbers("kernel_shape")
    return bool(given) and given != case.dims(1)[2:]


def _conv_dimensions(case: Case) -> bool:
    result = case.shape_of(case.node.outputs[0])
    return result is None or _is_large(case, result)


def _is_large(case: Case, *others: tuple[int, ...]) -> bool:
    return any(size > LARGEST for shape in (case.dims(0), case.dims(1), *others) for size in shape)


def _same_lower(case: Case) -> bool:
    return case.settings.core_ml < 6 and case.text("auto_pad", "NOTSET") == "SAME_LOWER"


def _deconv_padding(case: Case) -> bool:
    kind = case.text("auto_pad", "NOTSET")
    return kind.startswith("SAME") or (kind == "NOTSET" and len(set(case.numbers("pads"))) > 1)


def _deconv_output(case: Case) -> bool:
    return bool(case.numbers("output_shape")) or any(case.numbers("output_padding"))


def _fused_activation(case: Case) -> bool:
    parameters = case.attribute("activation_params", ())
    count = len(parameters) if isinstance(parameters, tuple) else 0
    return _FUSED.get(case.text("activation", "")) != count


_CONDITIONS_OF_CONV: tuple[Condition, ...] = (
    is_constant(1, "weight", _CONV, network_only=True),
    Condition(
        "conv-rank",
        _weight_rank,
        "it is not a convolution over one or two axes",
        "write it as convolutions over two axes",
    ),
    is_constant(2, "bias", _CONV),
    Condition(
        "conv-kernel",
        _kernel_shape,
        "kernel_shape differs from the weight's shape",
        "remove kernel_shape",
    ),
    Condition(
        "conv-dimensions",
        _conv_dimensions,
        f"a dimension is larger than {LARGEST:,}, or the shape of its result is not known",
        "divide the large dimension",
        since=(1, 23),
    ),
    Condition(
        "conv-same-lower",
        _same_lower,
        "auto_pad is SAME_LOWER, which needs Core ML 6",
        "give pads as numbers",
        formats=PROGRAM,
    ),
)


def _bias_shape(case: Case) -> bool:
    if not case.is_listed(2):
        return False
    columns = case.dims(1)[0 if case.number("transB", 0) else 1] if len(case.dims(1)) == 2 else -1
    return case.constant(2) is None or case.dims(2) not in ((), (1,), (columns,), (1, columns))


def _gemm_form(case: Case) -> bool:
    alpha, beta = case.attribute("alpha", 1.0), case.attribute("beta", 1.0)
    return case.number("transA", 0) != 0 or alpha != 1.0 or beta != 1.0


def _matmul_network(case: Case) -> bool:
    return case.constant(1) is None or case.rank != 2 or len(case.dims(1)) != 2


def _matmul_vector(case: Case) -> bool:
    return (case.rank == 1) != (len(case.dims(1)) == 1)


def _norm_types(case: Case) -> bool:
    given = {case.dtype(index) for index in range(len(case.node.inputs)) if case.name(index)}
    return len(given) != 1 or not given <= FLOATS


def _stash(case: Case) -> bool:
    return case.number("stash_type", 1) != 1


def _pool_form(case: Case) -> bool:
    dilations = case.numbers("dilations")
    return (
        case.number("storage_order", 0) == 1
        or len(case.numbers("kernel_shape")) != 2
        or any(size != 1 for size in dilations)
    )


def _axes_input(case: Case) -> bool:
    return bool(case.name(1)) and case.constant(1) is None


def _no_axes(case: Case) -> bool:
    """Emptiness is read from the tensor's list of numbers: one that is stored as bytes counts as empty."""
    if case.number("noop_with_empty_axes", 0) == 0:
        return False
    if case.name(1):
        return case.name(1) in case.graph.raw or not case.integers(1)
    return not case.numbers("axes")


def _grid_form(case: Case) -> bool:
    return case.rank != 4 or case.text("mode", "linear") not in ("linear", "bilinear")


def _grid_reflection(case: Case) -> bool:
    return case.text("padding_mode", "zeros") == "reflection" and case.number("align_corners", 0) == 0


def _batch_parameters(case: Case) -> bool:
    return any(case.initializer(index) is None for index in range(1, 5))


def _normalization(op: str, *extra: Condition) -> Operator:
    return Operator(
        op,
        since(None, (1, 21)),
        source=_NORM,
        conditions=(
            Condition(
                "norm-types",
                _norm_types,
                "its inputs are not all float32 or all float16",
                "give all inputs one type",
            ),
            one_output(_NORM),
            *extra,
            is_constant(1, "scale", _NORM),
            is_constant(2, "bias", _NORM),
        ),
    )


_STASH = Condition(
    "norm-stash",
    _stash,
    "stash_type is not 1",
    "remove stash_type",
)


def _pool(op: str) -> Operator:
    return Operator(
        op,
        since(),
        types=DEFAULT,
        source=_POOL,
        conditions=(
            rank_is(4),
            Condition(
                "pool-form",
                _pool_form,
                "it has a kernel of another rank than 2, dilations, or storage_order 1",
                "write it as a pool over two axes without dilations",
            ),
            one_output(_POOL),
            Condition(
                "pool-ceil",
                lambda case: case.number("ceil_mode", 0) != 0,
                "ceil_mode is set",
                "pad instead, or use the format MLProgram",
                formats=NETWORK,
            ),
        ),
    )


def _reduction(op: str, *, network: bool) -> Operator:
    return Operator(
        op,
        since((1, 20) if network else None, (1, 21)),
        types=DEFAULT,
        source=_REDUCE,
        conditions=(
            Condition(
                "reduce-axes",
                _axes_input,
                "its axes are not constants",
                "make them an initializer",
            ),
            Condition(
                "reduce-no-axes",
                _no_axes,
                "noop_with_empty_axes is set, and the axes count as empty",
                "remove noop_with_empty_axes",
                formats=NETWORK,
            ),
        ),
    )


OPERATORS: tuple[Operator, ...] = (
    Operator("Conv", since(), types=DEFAULT, source=_CONV, conditions=_CONDITIONS_OF_CONV),
    Operator(
        "FusedConv",
        since(None, (1, 27)),
        types=types(frozenset(), FLOATS),
        source=_CONV,
        conditions=(
            Condition(
                "fused-conv-sum",
                lambda case: bool(case.name(3)),
                "it adds a fourth input",
                "save the model at the level BASIC",
            ),
            Condition(
                "fused-conv-activation",
                _fused_activation,
                "its activation is not one that the provider takes",
                "save the model at the level BASIC",
            ),
            *_CONDITIONS_OF_CONV,
        ),
    ),
    Operator(
        "ConvTranspose",
        since(None),
        types=DEFAULT,
        source=_DECONV,
        conditions=(
            is_constant(1, "weight", _DECONV),
            is_constant(2, "bias", _DECONV),
            Condition(
                "deconv-dimensions",
                _is_large,
                f"a dimension is larger than {LARGEST:,}",
                "divide the large dimension",
                since=(1, 23),
            ),
            Condition(
                "deconv-padding",
                _deconv_padding,
                "its pads are not all equal, or auto_pad is SAME_UPPER or SAME_LOWER",
                "use equal pads, and crop by Slice",
            ),
            Condition(
                "deconv-output",
                _deconv_output,
                "output_shape or output_padding is given",
                "export it without output_padding: use a kernel of which the stride is a divisor",
            ),
            Condition(
                "deconv-kernel",
                _kernel_shape,
                "kernel_shape differs from the weight's shape",
                "remove kernel_shape",
            ),
        ),
    ),
    Operator(
        "Gemm",
        since(),
        types=DEFAULT,
        source=_GEMM,
        conditions=(
            is_constant(1, "matrix", _GEMM),
            Condition(
                "gemm-form",
                _gemm_form,
                "transA is set, or alpha or beta is not 1",
                "multiply the weights beforehand",
            ),
            Condition(
                "gemm-bias",
                _bias_shape,
                "its bias is not a constant with one element, or one for each column",
                "make the bias an initializer of that shape",
            ),
        ),
    ),
    Operator(
        "MatMul",
        since(),
        types=DEFAULT,
        source=_GEMM,
        conditions=(
            Condition(
                "matmul-network",
                _matmul_network,
                "its second input is not constant, or the inputs are not both of rank 2",
                "use the format MLProgram",
                formats=NETWORK,
            ),
            Condition(
                "matmul-vector",
                _matmul_vector,
                "one of the inputs has rank 1",
                "unsqueeze the vector",
                formats=PROGRAM,
            ),
        ),
    ),
    Operator(
        "BatchNormalization",
        since(),
        least_opset=7,
        types=DEFAULT,
        source=_BATCH,
        conditions=(
            one_output(_BATCH),
            rank_is(4),
            Condition(
                "batch-norm-spatial",
                lambda case: case.number("spatial", 1) != 1,
                "spatial is not 1",
                "export with a newer opset",
            ),
            Condition(
                "batch-norm-parameters",
                _batch_parameters,
                "its parameters are not initializers of the graph",
                "make them initializers",
            ),
        ),
    ),
    _normalization("LayerNormalization", _STASH),
    _normalization("GroupNormalization", _STASH),
    _normalization("InstanceNormalization"),
    _pool("AveragePool"),
    _pool("MaxPool"),
    Operator("GlobalAveragePool", since(), types=DEFAULT, source=_POOL, conditions=(rank_is(4),)),
    Operator("GlobalMaxPool", since(), types=DEFAULT, source=_POOL, conditions=(rank_is(4),)),
    _reduction("ReduceMean", network=True),
    _reduction("ReduceSum", network=True),
    _reduction("ReduceMax", network=False),
    _reduction("ReduceMin", network=False),
    _reduction("ReduceProd", network=False),
    Operator(
        "GridSample",
        since(None),
        types=DEFAULT,
        source=_GRID,
        conditions=(
            Condition(
                "grid-form",
                _grid_form,
                "its input is not of rank 4, or it interpolates by nearest or cubic",
                "interpolate linearly",
            ),
            Condition(
                "grid-reflection",
                _grid_reflection,
                "it reflects at borders without align_corners",
                "pad with zeros or the border",
            ),
        ),
    ),
)
