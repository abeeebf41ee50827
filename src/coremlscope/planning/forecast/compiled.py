"""A neural network in the form that Core ML's compiler gives it, whichever of its files is at hand.

A batch normalization behind a convolution is folded into the convolution's weights and bias, and padding by
zeros before a convolution becomes its own: pairs of a `.mlmodel` and the `.mlmodelc` compiled from it show
both. Some compilers leave the padding; it is folded for all files, so that both files of a network are
planned alike. Contents of weights stay as they are in the file: plans and estimates depend on shapes alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from msgspec.structs import replace

from coremlscope.model.ir import Value, constant
from coremlscope.ops import traits_of
from coremlscope.ops.bind import BoundFunction
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CONTRADICTIONS, BoundGraph, BoundValue, CannotInfer, CannotLower, OpView


def as_compiled(bound: BoundFunction) -> BoundFunction:
    """Returns a function of a neural network as Core ML compiles it."""
    return replace(bound, graph=_compiled(bound.graph, Counter(_read(bound.graph))))


def _read(graph: BoundGraph) -> Iterator[str]:
    """Yields the name of each value, once for each time that it is read."""
    for view in graph.ops:
        yield from (one.name for given in view.op.inputs.values() for one in given if isinstance(one, Value))
        for block in view.blocks:
            yield from _read(block)
    yield from (value.name for value in graph.graph.outputs)


def _compiled(graph: BoundGraph, readers: Counter[str]) -> BoundGraph:
    kept: dict[str, OpView] = {}
    makers: dict[str, str] = {}
    for original in graph.ops:
        view = original
        if view.blocks:
            blocks = tuple(_compiled(block, readers) for block in view.blocks)
            view = OpView(
                op=view.op, inputs=view.inputs, opset=view.opset, blocks=blocks, outputs=view.outputs
            )
        given = view.op.inputs.get("x", ())
        name = given[0].name if given and isinstance(given[0], Value) else ""
        before = kept.get(makers.get(name, ""))
        if before is not None and readers[name] == 1:
            # Where arguments contradict each other, the operations stay.
            with suppress(CannotInfer, CannotLower, *CONTRADICTIONS):
                if _is_folded(before, view):
                    view = _with_norm(before, view)
                elif (padding := _padding(before, view)) is not None:
                    view = _with_padding(before, view, padding)
                    del kept[before.op.id]
        kept[view.op.id] = view
        makers.update((value.name, view.op.id) for value in view.op.outputs)
    return replace(graph, ops=tuple(kept.values()))


def _is_folded(before: OpView, view: OpView) -> bool:
    """Returns whether an operation is a normalization that folds into the one before it."""
    traits = traits_of(before.op.type)
    return (
        Trait.CHANNEL_SCALE in traits_of(view.op.type)
        and Trait.CONVOLUTION in traits
        and before.bound("weight").constant is not None
        and all(one.constant is not None for name, (one,) in view.inputs.items() if name != "x")
    )


def _with_norm(before: OpView, norm: OpView) -> OpView:
    """Returns a convolution with a bias and the result of the normalization behind it."""
    shift = "beta" if norm.has("beta") else "mean"
    op = replace(
        before.op,
        inputs={"bias": norm.op.inputs[shift], **before.op.inputs},
        outputs=norm.op.outputs,
    )
    inputs = {"bias": norm.inputs[shift], **before.inputs}
    return OpView(op=op, inputs=inputs, opset=before.opset, outputs=norm.outputs)


def _padding(before: OpView, view: OpView) -> list[int] | None:
    """Returns the padding of a convolution with the zeros added before it; None where none are."""
    is_zeros = before.op.type == "pad" and before.is_known("pad") and view.op.type == "conv"
    if not is_zeros or before.text("mode", "constant") != "constant" or before.real("constant_val", 0.0):
        return None
    own, spatial = view.text("pad_type", "valid"), 2 * (len(view.shape("x")) - 2)
    added = before.integers("pad")
    added = [0] * (spatial - len(added)) + added
    if own not in ("valid", "custom") or any(added[:-spatial]):
        return None
    padded = view.integers("pad", [0] * spatial) if own == "custom" else [0] * spatial
    return [one + more for one, more in zip(padded, added[-spatial:], strict=True)]


def _with_padding(before: OpView, view: OpView, padding: list[int]) -> OpView:
    """Returns a convolution that pads the argument of the padding before it."""
    known = {"pad_type": constant("custom"), "pad": constant(padding)}
    op = replace(
        view.op,
        inputs={
            **view.op.inputs,
            "x": before.op.inputs["x"],
            **{name: (one,) for name, one in known.items()},
        },
    )
    bound = {name: (BoundValue(one.type, one),) for name, one in known.items()}
    inputs = {**view.inputs, "x": before.inputs["x"], **bound}
    return OpView(op=op, inputs=inputs, opset=view.opset, outputs=view.outputs)
