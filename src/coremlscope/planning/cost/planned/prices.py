"""Core ML's own cost of an operation on each backend, which determines the placement.

These are figures of a *plan*: crude and far from real run times. Most operations are priced by the bytes that
they move. Convolutions, `linear`, `add` and `transpose` have a decision tree whose leaves are rates. Every
price is a count divided by such a rate, which shows what is counted: a bias counts, constant arguments count.
This module holds what is counted and which leaf it has; the rates are those of a chip and a system (`rates`).

Each cost states its basis; see `CostBasis`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import get_args

from msgspec.structs import replace

from coremlscope.model.ir import DType, ListType, StateType, TensorType, ValueType
from coremlscope.ops import traits_of
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CONTRADICTIONS, CannotInfer, CannotLower, OpView
from coremlscope.planning.cost.planned.publications import Border
from coremlscope.planning.cost.planned.rates import RateTable
from coremlscope.planning.placement.backend import BACKENDS_OF, Backend, CostBasis, PlannedCost, Rate

PlannedCosts = dict[Backend, PlannedCost]
Formula = Callable[[OpView, RateTable], PlannedCosts]


def price(view: OpView, rates: RateTable) -> PlannedCosts:
    """Returns the cost of an operation on every backend, whether or not it runs there.

    Args:
        view: The operation, as Core ML plans it.
        rates: The rates of the chip and system.
    """
    formula = _formula(view.op.type)
    try:
        prices = formula(view, rates)
    except (CannotInfer, CannotLower, *CONTRADICTIONS):
        # What a formula counts is only known at run time, or has another form in a damaged file: the bytes
        # moved are the best estimate.
        prices = _assumed(view, rates)
    if all(_size(value)[2] for value in _values(view)):
        return prices
    return {backend: replace(known, is_complete=False) for backend, known in prices.items()}


# Counts


def _values(view: OpView) -> list[ValueType]:
    given = [argument.type for arguments in view.inputs.values() for argument in arguments]
    return [*given, *(value.type for value in view.outputs)]


def _size(type_: ValueType) -> tuple[int, int, bool]:
    """Elements and bytes of a value, and whether all its dimensions are known. Strings count as zero."""
    if isinstance(type_, TensorType) and type_.dtype is not DType.STRING:
        shape = type_.shape
        elements = 0 if shape is None else math.prod([d or 1 for d in shape])
        return elements, (elements * type_.dtype.bits + 7) // 8, type_.is_static
    if isinstance(type_, StateType):
        return _size(type_.wrapped)
    if isinstance(type_, ListType):
        elements, nbytes, known = _size(type_.element)
        length = type_.length or 0
        return elements * length, nbytes * length, known and type_.length is not None
    return 0, 0, True


def _input_elements(view: OpView) -> int:
    """Elements of all arguments, parameters included."""
    return sum(_size(argument.type)[0] for arguments in view.inputs.values() for argument in arguments)


def _input_bytes(view: OpView) -> int:
    """Bytes of all arguments, of several values for one parameter only those of the first.

    `stack` of four scalars counts one of them (M4 Max).
    """
    return sum(_size(arguments[0].type)[1] for arguments in view.inputs.values() if arguments)


def _output_bytes(view: OpView) -> int:
    """Bytes of the first result: `split` counts one (M1 Max, M4 Max), `topk` no indices (M4 Max)."""
    return _size(view.outputs[0].type)[1] if view.outputs else 0


def _moved_bytes(view: OpView) -> int:
    """Bytes of the arguments, parameters included (an axis: 4, a flag: 1), and of the first result."""
    return _input_bytes(view) + _output_bytes(view)


def _tensor_bytes(view: OpView, name: str = "x") -> int:
    """Bytes of one argument and of the results, without parameters."""
    return _size(view.bound(name).type)[1] + _output_bytes(view)


def _output_elements(view: OpView) -> int:
    return sum(_size(value.type)[0] for value in view.outputs)


# From counts to costs


#: Stands for larger counts, which shapes of damaged files multiply to.
_LARGEST = 1e300
#: Bases of costs, best first: a cost is known as well as the worse of its formula and its rate.
_BASES: tuple[CostBasis, ...] = get_args(CostBasis)


def _cost(count: float, rate: Rate, basis: CostBasis | None = None) -> PlannedCost:
    """A count divided by a rate, in the order that reproduces published figures of an M4 to the last bit.

    Bytes are divided by bytes per second (45 of 45 published figures), operations and elements, in billions,
    by their billions per second. The last bit decides between paths of equal cost; see `placement.ties`.

    Args:
        count: Operations, elements or bytes.
        rate: Their number per second.
        basis: How the formula is known, where that is less than the rate.
    """
    work = min(count, _LARGEST)
    known = rate.basis if basis is None else max(rate.basis, basis, key=_BASES.index)

    def ms(value: float) -> float:
        return work / (value * 1e9) * 1e3 if rate.counts == "bytes" else work * 1e-9 / value * 1e3

    if rate.is_common:
        return PlannedCost(ms(rate.value), known, rate=rate)
    return PlannedCost(ms(rate.value), known, bounds_ms=(ms(rate.high), ms(rate.low)), rate=rate)


def _at(count: float, rates: RateTable, name: str, basis: CostBasis | None = None) -> PlannedCosts:
    """A count divided by the rates of a class."""
    return {backend: _cost(count, rate, basis) for backend, rate in rates.rates[name].items()}


def _roofline(count: int, operations: int, rates: RateTable, basis: CostBasis | None = None) -> PlannedCosts:
    """Bytes divided by the bandwidths; on the CPU at least the time of the operations."""
    prices = _at(count, rates, "bytes", basis)
    for backend in BACKENDS_OF["cpu"]:
        computing = _cost(operations, rates.rates["matmul"][backend], basis)
        if computing.ms > prices[backend].ms:
            prices[backend] = computing
    return prices


def _assumed(view: OpView, rates: RateTable) -> PlannedCosts:
    return _at(_moved_bytes(view), rates, "bytes", "assumed")


def _moving(view: OpView, rates: RateTable) -> PlannedCosts:
    return _at(_moved_bytes(view), rates, "bytes")


def _moving_fitted(view: OpView, rates: RateTable) -> PlannedCosts:
    """Published for the Neural Engine with three digits, which the bandwidth gives; for no other backend."""
    count = _moved_bytes(view)
    return _at(count, rates, "bytes", "assumed") | {
        "ane": _cost(count, rates.rates["bytes"]["ane"], "fitted")
    }


def _relu(view: OpView, rates: RateTable) -> PlannedCosts:
    return _at(_tensor_bytes(view), rates, "relu")


def _entrance(view: OpView, rates: RateTable) -> PlannedCosts:
    return _at(_output_bytes(view) if rates.prices_inputs else 0, rates, "bytes")


def _free(view: OpView, rates: RateTable) -> PlannedCosts:
    return _at(0, rates, "bytes", "assumed")


#: Published sizes at borders are rounded to three digits and more.
_ROUNDED = 1e-3


def _between(
    count: float, rates: RateTable, names: tuple[str, str], size: float, border: Border, wider: float = 1.0
) -> PlannedCosts:
    """A count divided by the rate of one of two leaves, chosen by a size.

    Args:
        count: Operations or elements.
        rates: The rates.
        names: The classes below and above the border.
        size: What the leaves are chosen by.
        border: Between the nearest published sizes on either side of it both leaves are possible, and the
            interval of the cost spans both.
        wider: A factor by which the border may be elsewhere.
    """
    chosen, other = names if size <= border.likely else reversed(names)
    prices = _at(count, rates, chosen)
    if not border.low * (1 + _ROUNDED) / wider < size < border.high * (1 - _ROUNDED) * wider:
        return prices
    others = _at(count, rates, other)
    return {backend: _spanning(cost, others[backend]) for backend, cost in prices.items()}


def _spanning(chosen: PlannedCost, other: PlannedCost) -> PlannedCost:
    """A cost with an interval that includes that of another one; which of them counts is assumed."""
    rate = chosen.rate
    if rate is not None and other.rate is not None:
        why = f"near the border to: {other.rate.name}, whose rate the interval includes"
        rate = _noted(rate, why)
    bounds = min(chosen.low, other.low), max(chosen.high, other.high)
    return replace(chosen, basis="assumed", bounds_ms=bounds, rate=rate)


@functools.lru_cache(maxsize=256)
def _noted(rate: Rate, why: str) -> Rate:
    """A rate with the reason for the interval of a cost."""
    return replace(rate, note=f"{rate.note}; {why}" if rate.note else why)


#: The published dilations, and how much the formula differs from their costs.
_PUBLISHED_DILATIONS, _DILATED_DOUBT = [2, 2], 3e-3


def _convolution(view: OpView, rates: RateTable) -> PlannedCosts:
    """Counts two operations for each product and one for each result with a bias.

    Dilation by two leaves a quarter of them: to all digits for a depthwise one on an M1 Max (Neural Engine,
    GPU), to 0.2 % for one with 3×3 weights on an M4, where the quarter also selects the leaf. No other is
    published.
    """
    weight = view.static_shape("weight")
    outputs = math.prod(d or 1 for d in view.output_type().shape or ())
    products = math.prod(weight[1:])
    undilated = 2 * outputs * products + (outputs if view.has("bias") else 0)
    dilations = [max(dilation, 1) for dilation in view.integers("dilations", [1])]
    operations = undilated / math.prod(dilations)
    weights_bytes = _size(view.bound("weight").type)[1]
    count = _tensor_bytes(view) + weights_bytes
    if view.has("bias"):
        count += _size(view.bound("bias").type)[1]
    prices = _leaf(operations, operations / max(count, 1), products, weights_bytes, rates)
    if max(dilations) == 1:
        return prices
    plain = _leaf(undilated, undilated / max(count, 1), products, weights_bytes, rates)
    is_published = dilations == _PUBLISHED_DILATIONS
    return {backend: _dilated(cost, plain[backend], is_published) for backend, cost in prices.items()}


def _dilated(cost: PlannedCost, plain: PlannedCost, is_published: bool) -> PlannedCost:
    """A cost of a dilated convolution; where none is published, at most that of one without dilation."""
    bounds = cost.low * (1 - _DILATED_DOUBT), cost.high * (1 + _DILATED_DOUBT)
    if not is_published:
        bounds = min(cost.low, plain.low), max(cost.high, plain.high)
    basis: CostBasis = "fitted" if is_published else "assumed"
    return replace(cost, basis=max(cost.basis, basis, key=_BASES.index), bounds_ms=bounds)


def _leaf(
    operations: float, density: float, products: int, weights_bytes: int, rates: RateTable
) -> PlannedCosts:
    """The cost of a convolution by the leaf of its operations per byte, products per result and weights."""
    borders = next(one for one in rates.borders if weights_bytes >= one.weights_bytes)
    if density <= borders.sparse.high:
        classes = "convolution, sparse", "convolution, medium"
        return _between(operations, rates, classes, density, borders.sparse)
    border = borders.long if products >= borders.products else borders.dense
    return _between(operations, rates, ("convolution, medium", "convolution, dense"), density, border)


#: The rank of weights of a convolution in two dimensions.
_PLANE_RANK = 4


def _transposed_convolution(view: OpView, rates: RateTable) -> PlannedCosts:
    """Counts as if every element of the result were a sum over the whole kernel, whatever the strides are.

    In plans of an M1 Max one of 48 channels with 4×4 weights and strides of four, and one of 96 channels with
    2×2 and strides of two, have the same rate so counted, to all digits on the Neural Engine and the GPU. In
    one and in three dimensions the rate is another one.
    """
    weight = view.static_shape("weight")
    outputs = _output_elements(view)
    operations = 2 * outputs * weight[0] * math.prod(weight[2:]) // max(view.integer("groups", 1), 1)
    if view.has("bias"):
        operations += outputs
    suffix = "" if len(weight) == _PLANE_RANK else " in one or three dimensions"
    return _at(operations, rates, f"convolution, transposed{suffix}")


#: The borders between leaves of `linear`, in elements of the result: the nearest published results on either
#: side, 32×1024, 64×768 and 64×5248 (M4 Max) and 785×384 (M1 Max).
#: The first one is of an M4 Max alone; elsewhere it may be as far away as its two sides are from each other.
_LINEAR_MEDIUM, _LINEAR_LARGE = Border.between(32_768, 49_152), Border.between(301_440, 335_872)
_BORDER_OF, _ELSEWHERE = "M4 Max", 1.5

#: Rows of `linear` on the leaf of few rows, and the least number of published ones that are not.
_FEW_ROWS, _MORE_ROWS = 8, 16
#: The largest weights on the small leaf, and the smallest on that of few rows, in bytes: 128×128 and 256×772.
_FEW_WEIGHTS = Border.between(32_768, 395_264)


def _linear(view: OpView, rates: RateTable) -> PlannedCosts:
    """Counts a square matrix of the input's width, whatever the width of the result: 2 · rows · in².

    In plans of an M1 Max 384→384, 384→1152 and 384→1536 cost the same per operation so counted, and 1536→384
    costs 16 times 384→384; 1024→1024 and 1024→1 cost the same on an M4 Max. Single rows of 1028→256 and
    772→256 have a leaf of their own there, and one of 256→2 the small leaf. Other plans agree: single rows
    and chains of 64 such layers of width 576 stay on the CPU, 16 rows of 576→192, 576→576 and 1536→576 do not
    (thisisthepy/torchnative, chip not stated); 8 rows of width 1024 stay, 64 do not (EKS-A9, M1 with macOS
    26.6). Wider results are on the medium leaf: 16 rows of 576→1536 stay.
    """
    outer, width = view.static_shape("weight")[:2]
    elements, rows = _output_elements(view), math.prod(view.static_shape("x")[:-1])
    operations = 2 * rows * width**2 + (outer if view.has("bias") else 0)
    if rows <= _FEW_ROWS:
        weights = _size(view.bound("weight").type)[1]
        return _between(operations, rates, ("linear, small", "linear, few rows"), weights, _FEW_WEIGHTS)
    wider = 1.0 if rates.chip == _BORDER_OF else _ELSEWHERE
    is_wide = outer > width or elements >= _LINEAR_MEDIUM.high * wider
    if elements >= _LINEAR_MEDIUM.high and is_wide:
        return _between(operations, rates, ("linear, medium", "linear, large"), elements, _LINEAR_LARGE)
    of_leaf = _at(operations, rates, "linear, medium", "fitted")
    if outer <= width:
        leaves = "linear, small", "linear, medium"
        of_leaf = _between(operations, rates, leaves, elements, _LINEAR_MEDIUM, wider)
    if rows >= _MORE_ROWS:
        return of_leaf
    few = _at(operations, rates, "linear, few rows")
    is_few = rows <= math.sqrt(_FEW_ROWS * _MORE_ROWS)
    chosen, other = (few, of_leaf) if is_few else (of_leaf, few)
    return {backend: _spanning(cost, other[backend]) for backend, cost in chosen.items()}


def _matmul(view: OpView, rates: RateTable) -> PlannedCosts:
    shape = view.static_shape("x")
    inner = shape[-2] if view.flag("transpose_x", False) and len(shape) > 1 else shape[-1]
    operations = 2 * inner * _output_elements(view)
    count = _size(view.bound("x").type)[1] + _size(view.bound("y").type)[1] + _output_bytes(view)
    prices = _roofline(count, operations, rates)
    for backend in ("ane", "mps_graph"):
        computing = _cost(operations, rates.rates["matmul"][backend], "assumed")
        if computing.ms > prices[backend].ms:
            prices[backend] = computing
    return prices


def _contraction(view: OpView, rates: RateTable) -> PlannedCosts:
    """Counts all operands of `einsum`, as in plans of an M4 Max."""
    given = sum(_size(value.type)[1] for value in view.inputs["values"])
    return _at(given + _output_bytes(view), rates, "bytes")


#: Operations per second and byte moved up to which published attention costs the bytes on the CPU: 8 heads of
#: 128×64 on an M4.
_ATTENTION = 64.0


def _attention(view: OpView, rates: RateTable) -> PlannedCosts:
    """Bytes divided by the bandwidths; on the CPU the products as well, where they outweigh the bytes.

    The published attention (128 positions) costs the bytes, at 64 operations per byte. One of 2,048 positions
    is planned on the Neural Engine, so that it must cost the CPU more than its bytes.
    """
    query, key = view.static_shape("query"), view.static_shape("key")
    operations = 4 * math.prod(query) * key[-2]
    count = _moved_bytes(view)
    prices = _at(count, rates, "bytes")
    if operations > _ATTENTION * count:
        for backend in BACKENDS_OF["cpu"]:
            bytes_cost = prices[backend]
            factor = operations / (_ATTENTION * count)
            prices[backend] = PlannedCost(
                bytes_cost.ms * factor, "assumed", bounds_ms=(bytes_cost.ms, bytes_cost.ms * factor)
            )
    return prices


def _addition(view: OpView, rates: RateTable) -> PlannedCosts:
    return _at(_input_elements(view), rates, "add")


def _multiplication(view: OpView, rates: RateTable) -> PlannedCosts:
    return _at(_input_elements(view), rates, "mul")


#: The border between leaves of `transpose` in elements, with those of `perm`: 96×768 and 128×768 (M4 Max).
_TRANSPOSE_LARGE = Border.between(73_732, 98_308)


def _transposition(view: OpView, rates: RateTable) -> PlannedCosts:
    """Small transposes have two leaves, by whether they move an axis other than the last two.

    `[0, 2, 1, 3]` and `[0, 3, 2, 1]` cost the same per element on an M4 Max, from 32,768 to 73,728 elements.
    Published small ones of M1 and M4 exchange the last two axes, or move axes of one element.
    """
    elements = _input_elements(view)
    small = "transpose, outer" if _moves_outer(view) else "transpose, small"
    return _between(elements, rates, (small, "transpose, large"), elements, _TRANSPOSE_LARGE)


def _moves_outer(view: OpView) -> bool:
    """Returns True if an axis before the last two, of more than one element, changes its place among such."""
    shape = view.shape("x")
    order = [place for axis in view.integers("perm") if shape[place := axis % len(shape)] != 1]
    moved = {place for place, left in zip(order, sorted(order), strict=True) if place != left}
    return any(place < len(shape) - 2 for place in moved)


def _concatenation(view: OpView, rates: RateTable) -> PlannedCosts:
    """Counts the elements of the concatenated tensors."""
    return _at(_output_elements(view), rates, "concat")


def _gathering(view: OpView, rates: RateTable) -> PlannedCosts:
    """Counts the elements of all arguments, on the Neural Engine the bytes moved."""
    moved = _at(_moved_bytes(view), rates, "bytes")
    return _at(_input_elements(view), rates, "gather") | {"ane": moved["ane"]}


#: Operations per element on the CPU for `gelu` in mode EXACT.
_GELU_OPERATIONS = 78


def _gelu(view: OpView, rates: RateTable) -> PlannedCosts:
    exact = view.text("mode", "EXACT") == "EXACT"
    operations = _GELU_OPERATIONS * _output_elements(view)
    return _roofline(_moved_bytes(view), operations, rates, None if exact else "assumed")


def _pooling(view: OpView, rates: RateTable) -> PlannedCosts:
    """Each window position counts as one operation per element, and as four bytes."""
    window = math.prod(view.integers("kernel_sizes"))
    return _roofline(_tensor_bytes(view) + 4 * window, window * _output_elements(view), rates)


def _upsampling(view: OpView, rates: RateTable) -> PlannedCosts:
    """Counts the elements of the input and of the factors, whatever the factors are.

    In plans of an M1 Max 24×32→48×64 and 48×64→96×128 (64 channels) and 37×37→24×32 (384 channels) cost the
    same per element so counted, to seven digits, and 296×296→518×518 to four. `resize_bilinear` costs bytes.
    """
    return _at(_input_elements(view), rates, "bilinear upsampling")


def _normalization(view: OpView, rates: RateTable) -> PlannedCosts:
    """Counts the input and the result only: not the axes, the statistics, the scale and the offset.

    As in plans of an M1 Max and an M4 Max, to five digits; for `instance_norm` none is published.
    """
    basis: CostBasis | None = None if view.op.type in ("batch_norm", "layer_norm") else "assumed"
    return _at(_tensor_bytes(view), rates, "bytes", basis)


def _recurrence(view: OpView, rates: RateTable) -> PlannedCosts:
    """Counts the multiplications of the weights with each step.

    One `lstm` on the CPU of an M4 is published. Its rate is far from that of any other operation, so that
    nothing says whether it is that of `gru` and `rnn`, or of any recurrent layer on the GPU: these cost at
    least the bytes moved, at most what the rate gives on the CPU.
    """
    steps = view.static_shape("x")[0]
    products = sum(math.prod(view.static_shape(name)) for name in view.inputs if name.startswith("weight_"))
    moved = _at(_moved_bytes(view), rates, "bytes", "assumed")
    priced = _at(steps * products, rates, "recurrence", "fitted" if view.op.type == "lstm" else "assumed")
    found = moved | {backend: priced[backend] for backend in BACKENDS_OF["cpu"]}
    most = max(priced[backend].high for backend in BACKENDS_OF["cpu"])
    is_open = ("mps_graph",) if view.op.type == "lstm" else ("mps_graph", *BACKENDS_OF["cpu"])
    return found | {backend: _opened(found[backend], moved[backend].ms, most) for backend in is_open}


def _opened(cost: PlannedCost, least_ms: float, most_ms: float) -> PlannedCost:
    """A cost of which nothing is published but what it is at least and at most."""
    why = "none is published: at least the bytes moved, at most the rate of an lstm on the CPU"
    rate = None if cost.rate is None else _noted(cost.rate, why)
    return replace(cost, bounds_ms=(least_ms, max(most_ms, cost.ms)), is_open=True, rate=rate)


#: Operations priced by bytes moved: published with all digits for at least one backend.
_RECOVERED_AS_MOVING = """
    cast clip crop_resize cumsum equal exp expand_dims fill_like gather_along_axis greater greater_equal
    identity less less_equal log logical_and logical_not logical_or not_equal pad random_normal real_div
    reduce_argmax reduce_argmin reduce_mean reduce_sum reshape scatter select sigmoid slice_by_size softmax
    split squeeze stack tile topk upsample_nearest_neighbor
"""
#: Operations whose cost on the Neural Engine, published with three digits, is that of the bytes moved.
_FITTED_AS_MOVING = """
    abs ceil cos dequantize elu erf exp2 floor floor_div inverse leaky_relu maximum minimum pow quantize
    round rsqrt sign silu sin softplus softsign sqrt square tanh
"""

#: Formulas of operations with published costs.
_FORMULAS: Mapping[str, Formula] = {
    **dict.fromkeys(_RECOVERED_AS_MOVING.split(), _moving),
    **dict.fromkeys(_FITTED_AS_MOVING.split(), _moving_fitted),
    "add": _addition,
    "avg_pool": _pooling,
    "batch_norm": _normalization,
    "concat": _concatenation,
    "conv": _convolution,
    "conv_transpose": _transposed_convolution,
    "einsum": _contraction,
    "gather": _gathering,
    "gelu": _gelu,
    "instance_norm": _normalization,
    "layer_norm": _normalization,
    "linear": _linear,
    "matmul": _matmul,
    "max_pool": _pooling,
    "mul": _multiplication,
    "relu": _relu,
    "resize_bilinear": _moving,
    "scaled_dot_product_attention": _attention,
    "slice_by_index": _moving,
    "sub": _addition,
    "tensor_buffer_to_tensor": _entrance,
    "tensor_to_tensor_buffer": _free,
    "transpose": _transposition,
    "upsample_bilinear": _upsampling,
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
