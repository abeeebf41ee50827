"""Properties of operations that rules use: run-time tensors, kernels, extents."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from coremlscope.model.ir import DType, StateType, TensorType
from coremlscope.ops import traits_of
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import OpView

if TYPE_CHECKING:
    from coremlscope.planning.patterns.rule import RuleContext

#: Element types of floating-point computation; booleans are masks.
FLOATING = frozenset({DType.FP16, DType.FP32, DType.BOOL})

#: The conversions between buffers of the app and tensors, which Core ML inserts at the edges of a program.
BUFFERS = ("tensor_buffer_to_tensor", "tensor_to_tensor_buffer")

#: Parameters that hold positions, by trait. They have rules of their own.
_INDEX_PARAMETERS = {
    Trait.GATHER: ("indices",),
    Trait.SLICE: ("begin", "end", "size"),
    Trait.UPDATE: ("begin", "end"),
}


def always(view: OpView, context: RuleContext) -> bool:
    """For rules about every form of an operation."""
    return True


def run_time_inputs(view: OpView, *, indices: bool = True) -> Sequence[tuple[str, TensorType]]:
    """Parameter and type of every tensor only known at run time; for states, their content.

    Args:
        view: The operation, bound.
        indices: False omits parameters that hold positions, such as the indices of a gather.
    """
    return view.remember(
        ("run-time inputs", indices),
        lambda: _run_time_inputs(view, () if indices else _index_parameters(view.op.type)),
    )


def _run_time_inputs(view: OpView, skipped: Sequence[str]) -> tuple[tuple[str, TensorType], ...]:
    found = []
    for name, given in view.inputs.items():
        for bound in given:
            if bound.constant is not None or name in skipped:
                continue
            type_ = bound.type
            if isinstance(type_, StateType):
                type_ = type_.wrapped
            if isinstance(type_, TensorType):
                found.append((name, type_))
    return tuple(found)


def run_time_tensors(view: OpView, *, indices: bool = True) -> Sequence[tuple[str, TensorType]]:
    """As `run_time_inputs`, then the results under the name ``result``.

    Without `indices`, results that hold positions (of an arg-max, the second of top-k) are omitted too.
    """

    def tensors() -> tuple[tuple[str, TensorType], ...]:
        skipped = () if indices else _index_results(view)
        results = [
            ("result", bound.type)
            for position, bound in enumerate(view.outputs)
            if isinstance(bound.type, TensorType) and position not in skipped
        ]
        return (*run_time_inputs(view, indices=indices), *results)

    return view.remember(("run-time tensors", indices), tensors)


@functools.cache
def _index_parameters(type_: str) -> tuple[str, ...]:
    traits = traits_of(type_)
    return next((names for trait, names in _INDEX_PARAMETERS.items() if trait in traits), ())


def _index_results(view: OpView) -> tuple[int, ...]:
    """Which results hold positions: the unit never passes them on in this type."""
    if view.op.type == "topk":
        return (1,)
    return (0,) if Trait.ARG_REDUCTION in traits_of(view.op.type) else ()


def is_fixed(view: OpView, name: str) -> bool:
    """True where the parameter is absent or a constant, even if its file is missing."""
    return all(bound.constant is not None for bound in view.inputs.get(name, ()))


def computes(view: OpView, context: RuleContext) -> bool:
    """True where all run-time inputs and results are floats or masks."""
    return all(type_.dtype in FLOATING for _, type_ in run_time_tensors(view, indices=False))


def join_words(words: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def describe(tensors: Iterable[tuple[str, TensorType]], dtypes: frozenset[DType]) -> str:
    """Which tensors are of one of these types: ``x and result are int32``; empty where none is."""
    found: dict[str, list[str]] = {}
    for name, type_ in tensors:
        if type_.dtype in dtypes and name not in found.setdefault(type_.dtype.value, []):
            found[type_.dtype.value].append(name)
    parts = [
        f"{join_words(names)} {'is' if len(names) == 1 else 'are'} {dtype}"
        for dtype, names in found.items()
        if names
    ]
    return ", ".join(parts)


def kernel(view: OpView) -> tuple[int, ...]:
    """The kernel of a convolution or the window of a pooling along the spatial axes, width last.

    Raises:
        CannotLower: It is not known before run time.
        CannotInfer: The operation has none.
    """
    if view.has("kernel_sizes"):
        return tuple(view.integers("kernel_sizes"))
    return view.static_shape("weight")[2:]


def lanes(type_: TensorType) -> dict[str, int]:
    """Known extents along the Neural Engine's axes N, C, D, H and W. The last axis of a tensor is W."""
    shape = type_.shape or ()
    names = {1: "W", 2: "CW", 3: "NCW", 4: "NCHW", 5: "NCDHW"}.get(len(shape), "")
    return {name: size for name, size in zip(names, shape, strict=False) if size is not None}


def extents(type_: TensorType) -> str:
    """A shape as text: ``1x64x32x32``."""
    return "x".join("?" if size is None else str(size) for size in type_.shape or ()) or "scalar"
