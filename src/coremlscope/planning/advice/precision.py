"""Findings on types: float32 where the Neural Engine and the GPU compute in float16, and integers."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.model.ir import DType, TensorType
from coremlscope.ops.half_precision import op_in_half_precision
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import OpView
from coremlscope.planning.advice.rule import (
    AdviceRule,
    Change,
    Found,
    FunctionView,
    arguments,
    dtype_of,
    has_trait,
    listed,
    plural,
)
from coremlscope.planning.patterns.publications import ANE_BOOK, M4_PLANS

#: Operations that coremltools' pass `add_fp16_cast` leaves in fp32: control flow and lists by its own list;
#: recurrent layers in all published models that were tried (Silero VAD, plain, quantized and palettized).
_KEPT_IN_FP32 = Trait.RECURRENCE | Trait.LIST | Trait.CONTROL_FLOW
#: The ends of the names of what coremltools' pass `insert_image_preprocessing_ops` computes: the scale and
#: the bias of an image input, which authors do not convert.
_OF_IMAGES = ("__scaled__", "__biased__")
_INTEGERS = frozenset({DType.INT32, DType.INT64, DType.UINT32, DType.UINT64})
#: Operations that compute or arrange indices, without lookups by indices and searches for places of values.
_INDEXING = (
    *(Trait.ARITHMETIC, Trait.RESHAPE, Trait.TRANSPOSITION, Trait.COPY),
    *(Trait.SLICE, Trait.GENERATION, Trait.CONVERSION),
)
_INDEX_TYPES = frozenset({"shape", "gather", "gather_along_axis", "range_1d", "floor_div", "mod", "cumsum"})


def _floats(function: FunctionView) -> tuple[list[OpView], list[OpView]]:
    """Returns the operations that compute in fp16, and those in fp32 that could compute in fp16."""
    half: list[OpView] = []
    single: list[OpView] = []
    for view in function.views:
        if view.op.type in ("cast", "identity") or has_trait(view, _KEPT_IN_FP32):
            continue
        if view.op.outputs and view.op.outputs[0].name.endswith(_OF_IMAGES):
            continue
        types = {value.type.dtype for value in view.outputs if isinstance(value.type, TensorType)}
        if DType.FP32 in types:
            single.append(view)
        elif DType.FP16 in types:
            half.append(view)
    return half, single


def _in_fp16(function: FunctionView, views: Sequence[OpView]) -> Change:
    """Returns the change of operations to fp16; casts between them and other fp16 operations vanish."""
    chosen = {view.op.id for view in views}
    gone = set()
    for view in function.views:
        if view.op.type != "cast":
            continue
        before, after = dtype_of(view, "x"), dtype_of(view)
        source = function.source(view)
        readers = [
            reader.op.id for value in view.op.outputs for reader in function.readers.get(value.name, ())
        ]
        is_returned = any(value.name in function.returned for value in view.op.outputs)
        if (before, after) == (DType.FP16, DType.FP32):
            is_gone = bool(readers) and chosen.issuperset(readers) and not is_returned
        else:
            is_gone = (before, after) == (DType.FP32, DType.FP16)
            is_gone = is_gone and source is not None and source.op.id in chosen
        if is_gone:
            gone.add(view.op.id)
    return Change(
        removed=frozenset(gone),
        replaced={view.op.id: op_in_half_precision(view) for view in views},
    )


def _islands(function: FunctionView) -> Found | None:
    half, single = _floats(function) if function.model.content.is_typed else ([], [])
    if not single or not half:
        return None
    what = "operation computes" if len(single) == 1 else "operations compute"
    return Found(
        text=f"{len(single)} {what} in float32 in a program of which {len(half)} operations compute in"
        f" float16: {listed(single)}.",
        ops=tuple(view.op.id for view in single),
        change=_in_fp16(function, single),
    )


def _single(function: FunctionView) -> Found | None:
    half, single = _floats(function) if function.model.content.is_typed else ([], [])
    if not single or half:
        return None
    return Found(
        text=f"The program computes in float32: {plural(len(single), 'operation')}.",
        ops=tuple(view.op.id for view in single),
        change=_in_fp16(function, single),
    )


def _indices(function: FunctionView) -> Found | None:
    if function.is_network:
        return None  # Its layers have no types.
    found: dict[str, OpView] = {}
    looped = _in_loops(function)
    for view in function.views:
        is_integer = bool(view.outputs) and all(
            isinstance(value.type, TensorType) and value.type.dtype in _INTEGERS for value in view.outputs
        )
        does_index = has_trait(view, _any(_INDEXING)) or view.op.type in _INDEX_TYPES
        if view.blocks or view.op.id in looped:
            continue
        if is_integer and does_index and _is_from_integers(function, view, found):
            found[view.op.id] = view
    computed = [view for view in found.values() if has_trait(view, Trait.ARITHMETIC)]
    if not computed:
        return None
    what = "computes" if len(computed) == 1 else "compute"
    return Found(
        text=f"{plural(len(computed), 'operation')} {what} indices in 32-bit integers at run time:"
        f" {listed(computed)}.",
        ops=tuple(found),
        change=Change(removed=frozenset(found)),
    )


def _in_loops(function: FunctionView) -> set[str]:
    """Returns the ids of operations in loops: no app can compute a loop's counter in advance."""
    loops = (view.op for view in function.views if view.op.type == "while_loop")
    return {op.id for loop in loops for block in loop.blocks for op in block.walk()}


def _is_from_integers(function: FunctionView, view: OpView, found: dict[str, OpView]) -> bool:
    """True where everything that an operation reads is an integer from outside, or made by those found."""
    makers = [function.makers.get(value.name) for value in arguments(view)]
    if view.op.type == "shape":
        return True
    if view.op.type == "cast" and dtype_of(view, "x") not in _INTEGERS:
        return False
    return all(maker is None or maker.op.id in found for maker in makers)


def _any(traits: Sequence[Trait]) -> Trait:
    joined = traits[0]
    for trait in traits[1:]:
        joined |= trait
    return joined


RULES: tuple[AdviceRule, ...] = (
    AdviceRule(
        id="fp32-islands",
        doc="Operations in float32 in a program that otherwise computes in float16. Before iOS 27 and macOS"
        " 27 the Neural Engine does not run them, and each border between the two is a cast. They are often"
        " kept on purpose, against overflow: compare the outputs before changing them. Recurrent layers and"
        " control flow do not count: coremltools' pass left those of published models in float32.",
        find=_islands,
        fix="convert all operations to float16, and compare the outputs",
        source=f"{M4_PLANS}; {ANE_BOOK}",
        confidence="measured",
        transform="fp16",
    ),
    AdviceRule(
        id="fp32-program",
        doc="A program that was converted with compute_precision=FLOAT32. Before iOS 27 and macOS 27 the"
        " Neural Engine runs nothing of it, and every unit moves twice the bytes.",
        find=_single,
        fix="convert with compute_precision=ct.precision.FLOAT16, and compare the outputs",
        source=f"{M4_PLANS}; apple/coremltools: guide to typed execution",
        confidence="measured",
        transform="fp16",
    ),
    AdviceRule(
        id="integer-indices",
        doc="Arithmetic on 32-bit integers that makes indices, positions or shapes at run time. The Neural"
        " Engine has no 32-bit integers, so these operations run on the CPU, and what needs their results"
        " waits for it.",
        find=_indices,
        fix="compute indices in the app and pass them in, or fix the shapes so that they become constants",
        source=M4_PLANS,
        confidence="measured",
    ),
)
