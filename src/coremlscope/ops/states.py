"""States: values whose content persists between predictions."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.model.ir import StateType, ValueType
from coremlscope.ops.emit import Lowering, Tensor
from coremlscope.ops.spec import OpSpec, Work, bytes_of, moved_output
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotInfer, OpView


def _infer_read(view: OpView) -> Sequence[ValueType]:
    state = view.bound("input").type
    if not isinstance(state, StateType):
        raise CannotInfer("parameter `input` is not a state")
    return [state.wrapped]


def _infer_write(view: OpView) -> Sequence[ValueType]:
    kept, given = view.type("input"), view.type("data")
    fits = kept.shape is None or given.shape is None or len(kept.shape) == len(given.shape)
    if fits and kept.shape is not None and given.shape is not None:
        fits = all(k == g or None in (k, g) for k, g in zip(kept.shape, given.shape, strict=True))
    if not fits or kept.dtype is not given.dtype:
        raise CannotInfer("the written value does not have the type of the state")
    return []


def _lower_write(op: Lowering) -> Sequence[Tensor]:
    op.set_state("input", op["data"])
    return []


def _work_write(view: OpView) -> Work:
    """The content is read and written once."""
    size, known = bytes_of(view.type("data"))
    return Work(flops=0, read_bytes=size, weight_bytes=0, written_bytes=size, is_complete=known)


OPS: tuple[OpSpec, ...] = (
    OpSpec(
        name="read_state",
        doc="The content of a state.",
        traits=Trait.STATE_READ,
        infer=_infer_read,
        lower=lambda op: op["input"],
        work=moved_output,
    ),
    OpSpec(
        name="write_state",
        doc="Gives a state new content.",
        traits=Trait.STATE_WRITE,
        infer=_infer_write,
        lower=_lower_write,
        work=_work_write,
    ),
)
