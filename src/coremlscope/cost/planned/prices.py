"""Core ML's own cost of an operation on each backend, which determines the placement.

These are figures of a *plan*: crude, far from real run times, and the same on every chip. They are derived
from published plans, which give them with all digits:

* M1, macOS 14.5: a MobilenetEdgeTPU, 119 operations on four backends (freedomtan/coreml_modelc_profling);
* M4, macOS 27.0.1: single operations, without the GPU (751K/Apple-Neural-Engine-Microarchitecture-Study-M6).

Most operations are priced by the bytes that they move. Convolutions, `linear`, `add` and `transpose` have a
decision tree whose leaves are rates in single precision. Every price is a count divided by such a rate, which
shows what is counted: a bias counts, constant arguments count.

Each cost states its basis; see `CostBasis`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from coremlscope.cost.planned.rates import (
    ACCELERATOR_BPS,
    BNNS_SPEEDUP,
    CLASSIC_GOPPS,
    CPU_BPS,
    RELU_BPS,
    Era,
    Leaf,
    Rates,
    cpu_rates,
    era,
)
from coremlscope.devices.release import OSRelease
from coremlscope.ir import DType, ListType, StateType, TensorType, ValueType
from coremlscope.ops import traits_of
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotInfer, CannotLower, OpView
from coremlscope.placement.backend import BACKENDS, Backend, CostBasis, PlannedCost
from coremlscope.placement.search import TransitionCosts

__all__ = ["TRANSITION_COSTS", "PlannedCosts", "price"]

#: The costs of launching, switching and ending in the plans of the M4. The GPU's launch is not published: the
#: plan of the M1, which never enters the GPU, implies more than 0.0212 ms; the Neural Engine's is used.
TRANSITION_COSTS = TransitionCosts(
    launch_ms={"ane": 0.125, "mps_graph": 0.125},
    switch_ms=0.125,
    finish_ms={"ane": 0.125},
)


PlannedCosts = dict[Backend, PlannedCost]
Formula = Callable[[OpView, Era], PlannedCosts]


def price(view: OpView, os: OSRelease) -> PlannedCosts:
    """Returns the cost of an operation on every backend, whether or not it runs there.

    Args:
        view: The operation, as Core ML plans it.
        os: The system.
    """
    formula = _formula(view.op.type)
    try:
        prices = formula(view, era(os))
    except (CannotInfer, CannotLower, ArithmeticError, LookupError, TypeError, ValueError):
        # What a formula counts is only known at run time, or has another form in a damaged file: the bytes
        # moved are the best estimate.
        prices = _assumed(view, era(os))
    if all(_size(value)[2] for value in _values(view)):
        return prices
    return {
        backend: PlannedCost(known.ms, known.basis, is_complete=False) for backend, known in prices.items()
    }


# Counts


def _values(view: OpView) -> list[ValueType]:
    given = [argument.type for arguments in view.inputs.values() for argument in arguments]
    return [*given, *(value.type for value in view.outputs)]


def _size(type_: ValueType) -> tuple[int, int, bool]:
    """Elements and bytes of a value, and whether all its dimensions are known. Strings count as zero."""
    match type_:
        case StateType(wrapped):
            return _size(wrapped)
        case ListType(element, length):
            elements, nbytes, known = _size(element)
            return elements * (length or 0), nbytes * (length or 0), known and length is not None
        case TensorType(DType.STRING, _):
            return 0, 0, True
        case TensorType(dtype, shape):
            elements = math.prod(d or 1 for d in shape) if shape is not None else 0
            return elements, (elements * dtype.bits + 7) // 8, type_.is_static
    return 0, 0, True


def _input_elements(view: OpView) -> int:
    """Elements of all arguments, parameters included."""
    return sum(_size(argument.type)[0] for arguments in view.inputs.values() for argument in arguments)


def _input_bytes(view: OpView) -> int:
    return sum(_size(argument.type)[1] for arguments in view.inputs.values() for argument in arguments)


def _output_bytes(view: OpView) -> int:
    return sum(_size(value.type)[1] for value in view.outputs)


def _moved_bytes(view: OpView) -> int:
    """Bytes of all arguments, parameters included (an axis: 4, a flag: 1), and of all results."""
    return _input_bytes(view) + _output_bytes(view)


def _tensor_bytes(view: OpView, name: str = "x") -> int:
    """Bytes of one argument and of the results, without parameters."""
    return _size(view.bound(name).type)[1] + _output_bytes(view)


def _output_elements(view: OpView) -> int:
    return sum(_size(value.type)[0] for value in view.outputs)


# From counts to costs


def _at(count: float, rates: Rates, basis: CostBasis, gpu: CostBasis | None = None) -> PlannedCosts:
    """A count divided by rates; `gpu` is the basis for the GPU where that differs.

    This order of operations reproduces every published figure to the last bit.
    """
    return {
        backend: PlannedCost(count * 1e-9 / rate * 1e3, gpu if gpu and backend == "mps_graph" else basis)
        for backend, rate in rates.items()
    }


def _bandwidth(count: int, basis: CostBasis = "recovered") -> PlannedCosts:
    """Bytes divided by the bandwidths."""
    accelerator = PlannedCost(count / ACCELERATOR_BPS * 1e3, basis)
    cpu = PlannedCost(count / CPU_BPS * 1e3, basis)
    return {"ane": accelerator, "mps_graph": accelerator, "bnns": cpu, "classic_cpu": cpu}


def _roofline(count: int, operations: int, basis: CostBasis = "recovered") -> PlannedCosts:
    """Bytes divided by the bandwidths; on the CPU at least the time of the operations."""
    prices = _bandwidth(count, basis)
    for backend, rate in cpu_rates(CLASSIC_GOPPS).items():
        computing = operations * 1e-9 / rate * 1e3
        prices[backend] = PlannedCost(max(prices[backend].ms, computing), basis)
    return prices


def _assumed(view: OpView, _: Era) -> PlannedCosts:
    return _bandwidth(_moved_bytes(view), "assumed")


def _moving(view: OpView, _: Era) -> PlannedCosts:
    return _bandwidth(_moved_bytes(view))


def _slicing(view: OpView, _: Era) -> PlannedCosts:
    """Masks that the file omits count: Core ML's compiler adds them, one byte per dimension."""
    masks = sum(not view.has(name) for name in ("begin_mask", "end_mask", "squeeze_mask"))
    return _bandwidth(_moved_bytes(view) + masks * (view.type("x").rank or 0))


def _moving_fitted(view: OpView, _: Era) -> PlannedCosts:
    """Published for the Neural Engine with three digits, which the bandwidth gives; for no other backend."""
    prices = _bandwidth(_moved_bytes(view), "assumed")
    return prices | {"ane": PlannedCost(prices["ane"].ms, "fitted")}


def _relu(view: OpView, _: Era) -> PlannedCosts:
    count = _tensor_bytes(view)
    return dict.fromkeys(BACKENDS, PlannedCost(count / RELU_BPS * 1e3, "recovered"))


def _entrance(view: OpView, era_: Era) -> PlannedCosts:
    return _bandwidth(_output_bytes(view) if era_.prices_inputs else 0)


def _free(view: OpView, _: Era) -> PlannedCosts:
    return _bandwidth(0, "assumed")


def _gpu_basis(era_: Era) -> CostBasis:
    """The GPU's rates are published for macOS 14.5, which prices inputs; for others they are assumed."""
    return "recovered" if era_.prices_inputs else "assumed"


def _leaf(leaves: Sequence[Leaf], operations: int, count: int) -> Leaf:
    """The leaf for a number of operations per byte."""
    density = operations / max(count, 1)
    return next(leaf for leaf in leaves if density <= leaf.up_to)


def _convolution(view: OpView, era_: Era) -> PlannedCosts:
    weight = view.static_shape("weight")
    outputs = math.prod(d or 1 for d in view.output_type().shape or ())
    operations = 2 * outputs * math.prod(weight[1:]) + (outputs if view.has("bias") else 0)
    gpu = _gpu_basis(era_)
    if max(view.integers("dilations", [1])) > 1:
        return _at(operations, era_.dilated, "fitted", "assumed")
    count = _tensor_bytes(view) + _size(view.bound("weight").type)[1]
    if view.has("bias"):
        count += _size(view.bound("bias").type)[1]
    leaf = _leaf(era_.convolution, operations, count)
    return _at(operations, leaf.rates, "recovered", gpu)


def _transposed_convolution(view: OpView, era_: Era) -> PlannedCosts:
    weight = view.static_shape("weight")
    operations = 2 * math.prod(view.static_shape("x")) * math.prod(weight[1:])
    return _at(operations, era_.transposed, "assumed") | {
        "ane": PlannedCost(operations * 1e-9 / era_.transposed["ane"] * 1e3, "fitted")
    }


def _linear(view: OpView, era_: Era) -> PlannedCosts:
    weight = view.static_shape("weight")
    rows = math.prod(view.static_shape("x")[:-1])
    operations = 2 * rows * math.prod(weight) + (2 * weight[0] if view.has("bias") else 0)
    leaf = _leaf(era_.linear, operations, _moved_bytes(view))
    is_published = leaf is era_.linear[-1] and not era_.prices_inputs
    return _at(operations, leaf.rates, "recovered" if is_published else "fitted", "assumed")


def _matmul(view: OpView, era_: Era) -> PlannedCosts:
    shape = view.static_shape("x")
    inner = shape[-2] if view.flag("transpose_x", False) and len(shape) > 1 else shape[-1]
    operations = 2 * inner * _output_elements(view)
    prices = _roofline(
        _size(view.bound("x").type)[1] + _size(view.bound("y").type)[1] + _output_bytes(view), operations
    )
    densest = era_.convolution[-1].rates
    for backend in ("ane", "mps_graph"):
        computing = operations * 1e-9 / densest[backend] * 1e3
        if computing > prices[backend].ms:
            prices[backend] = PlannedCost(computing, "assumed")
    return prices


def _addition(view: OpView, era_: Era) -> PlannedCosts:
    return _at(_input_elements(view), era_.addition, "recovered", _gpu_basis(era_))


def _subtraction(view: OpView, era_: Era) -> PlannedCosts:
    return _at(_input_elements(view), era_.addition, "assumed")


#: Elements of all arguments per nanosecond: exact for the CPU and the GPU; 6.10 µs for 131,072 elements were
#: published for the Neural Engine.
_MULTIPLICATION: Rates = {"ane": 21.487, "mps_graph": 10.0, **cpu_rates(5.0)}


def _multiplication(view: OpView, _: Era) -> PlannedCosts:
    prices = _at(_input_elements(view), _MULTIPLICATION, "recovered")
    return prices | {"ane": PlannedCost(prices["ane"].ms, "fitted")}


def _transposition(view: OpView, era_: Era) -> PlannedCosts:
    basis: CostBasis = "recovered" if era_.prices_inputs else "fitted"
    return _at(_input_elements(view), era_.transposition, basis, _gpu_basis(era_))


#: Elements of the concatenated tensors per nanosecond.
_CONCATENATION: Rates = {"ane": 50.0, "mps_graph": 50.0, **cpu_rates(5.0)}


def _concatenation(view: OpView, _: Era) -> PlannedCosts:
    return _at(_output_elements(view), _CONCATENATION, "recovered", "assumed")


#: Elements of the table and all other arguments per nanosecond.
_GATHERING = cpu_rates(10.0)


def _gathering(view: OpView, _: Era) -> PlannedCosts:
    return _bandwidth(_moved_bytes(view), "assumed") | _at(_input_elements(view), _GATHERING, "recovered")


#: Operations per element on the CPU for `gelu` in mode EXACT.
_GELU_OPERATIONS = 78


def _gelu(view: OpView, _: Era) -> PlannedCosts:
    exact = view.text("mode", "EXACT") == "EXACT"
    return _roofline(
        _moved_bytes(view), _GELU_OPERATIONS * _output_elements(view), "recovered" if exact else "assumed"
    )


def _pooling(view: OpView, _: Era) -> PlannedCosts:
    """Each window position counts as one operation per element, and as four bytes."""
    window = math.prod(view.integers("kernel_sizes"))
    return _roofline(_tensor_bytes(view) + 4 * window, window * _output_elements(view))


#: Elements of the result per nanosecond: 3.31 µs on the Neural Engine and 499.64 µs on BNNS for 262,144.
_BILINEAR: Rates = {
    "ane": 79.2,
    "mps_graph": 79.2,
    **cpu_rates(262144 / 499.64e3 / BNNS_SPEEDUP),
}


def _bilinear(view: OpView, _: Era) -> PlannedCosts:
    return _at(_output_elements(view), _BILINEAR, "fitted", "assumed")


#: Multiplications per nanosecond of the only published recurrent layer: 548 ms for an LSTM with 16 steps.
_RECURRENT = 16 * 256 * 128 / 0.54843507929840905 * 1e-9


def _recurrence(view: OpView, _: Era) -> PlannedCosts:
    steps = view.static_shape("x")[0]
    products = sum(math.prod(view.static_shape(name)) for name in view.inputs if name.startswith("weight_"))
    basis: CostBasis = "fitted" if view.op.type == "lstm" else "assumed"
    moved = _bandwidth(_moved_bytes(view), "assumed")
    return moved | _at(steps * products, cpu_rates(_RECURRENT), basis)


#: Operations priced by bytes moved: published with all digits for at least one backend.
_RECOVERED_AS_MOVING = """
    cast clip crop_resize cumsum equal expand_dims greater greater_equal layer_norm less less_equal
    not_equal random_normal reduce_argmax reduce_argmin reduce_mean reshape scaled_dot_product_attention
    scatter select slice_by_size softmax squeeze
"""
#: Operations whose cost on the Neural Engine, published with three digits, is that of the bytes moved.
_FITTED_AS_MOVING = """
    abs ceil cos dequantize elu erf exp exp2 floor floor_div inverse leaky_relu log maximum minimum pow
    quantize real_div round rsqrt sigmoid sign silu sin softplus softsign sqrt square tanh tile
    upsample_nearest_neighbor
"""

#: Formulas of operations with published costs; `sub` is taken to cost as much as `add`.
_FORMULAS: Mapping[str, Formula] = {
    **dict.fromkeys(_RECOVERED_AS_MOVING.split(), _moving),
    **dict.fromkeys(_FITTED_AS_MOVING.split(), _moving_fitted),
    "add": _addition,
    "avg_pool": _pooling,
    "concat": _concatenation,
    "conv": _convolution,
    "conv_transpose": _transposed_convolution,
    "gather": _gathering,
    "gelu": _gelu,
    "linear": _linear,
    "matmul": _matmul,
    "max_pool": _pooling,
    "mul": _multiplication,
    "relu": _relu,
    "resize_bilinear": _bilinear,
    "slice_by_index": _slicing,
    "sub": _subtraction,
    "tensor_buffer_to_tensor": _entrance,
    "tensor_to_tensor_buffer": _free,
    "transpose": _transposition,
    "upsample_bilinear": _bilinear,
}

#: Formulas by trait, for all other operations. Without one, an operation is priced by bytes moved.
_FORMULA_OF_TRAIT: Mapping[Trait, Formula] = {
    Trait.CONTROL_FLOW: _free,
    Trait.RECURRENCE: _recurrence,
}


def _formula(name: str) -> Formula:
    if name in _FORMULAS:
        return _FORMULAS[name]
    found = (_FORMULA_OF_TRAIT[trait] for trait in traits_of(name) if trait in _FORMULA_OF_TRAIT)
    return next(found, _assumed)
