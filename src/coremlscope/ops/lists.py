"""Lists of tensors of one shape, which grow when written.

A list is one tensor with the elements stacked along a new first axis; elements not written yet are zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from coremlscope.model.ir import Constant, DType, ListType, Shape, TensorType, ValueType, constant
from coremlscope.ops.emit import BOOL, I32, I64, Lowering, Tensor, carry
from coremlscope.ops.infer import first_known
from coremlscope.ops.spec import OpSpec, Work, bytes_of, free, moved_output
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotInfer, OpView


def _list(view: OpView, name: str = "ls") -> tuple[TensorType, int | None]:
    """The element type and the length of a list."""
    type_ = view.bound(name).type
    if not isinstance(type_, ListType) or not isinstance(type_.element, TensorType):
        raise CannotInfer(f"parameter `{name}` is not a list of tensors")
    return type_.element, type_.length


def _element_shape(view: OpView) -> Shape:
    """The dimensions of a new list's elements; symbolic ones are known once an element is written."""
    dims: list[int | None] = []
    for bound in view.inputs.get("elem_shape", ()):
        given = None if bound.constant is None else bound.constant.numpy().reshape(-1).tolist()
        if given is None:
            dims.append(None)
        else:
            dims += [None if isinstance(d, str) else int(d) for d in given]
    return tuple(dims)


def _infer_make(view: OpView) -> Sequence[ValueType]:
    element = TensorType(DType(view.text("dtype", "fp32")), _element_shape(view))
    fixed = not view.flag("dynamic_length", True)
    length = view.integer("init_length", 1) if fixed and _knows(view, "init_length") else None
    return [ListType(element, length)]


def _knows(view: OpView, name: str) -> bool:
    return view.is_known(name) or not view.has(name)


def _lower_make(op: Lowering) -> Tensor:
    element, _ = _list_result(op.view)
    # An element's dimension that is not known yet starts at zero and grows with the first write.
    shape = [d or 0 for d in element.shape or ()]
    zero = op.const(0, carry(element.dtype))
    if _knows(op.view, "init_length"):
        return op.emit("Expand", zero, op.const([op.view.integer("init_length", 1), *shape], I64))
    length = op.emit("Reshape", op.int64("init_length"), op.const([1], I64))
    return op.emit("Expand", zero, op.emit("Concat", length, op.const(shape, I64), axis=0))


def _list_result(view: OpView) -> tuple[TensorType, int | None]:
    type_ = view.outputs[0].type
    assert isinstance(type_, ListType)
    assert isinstance(type_.element, TensorType)
    return type_.element, type_.length


def _infer_length(view: OpView) -> Sequence[ValueType]:
    _list(view)
    return [TensorType(DType.INT32, ())]


def _fold_length(view: OpView) -> Sequence[Constant] | None:
    _, length = _list(view)
    return None if length is None else [constant(length, DType.INT32)]


def _lower_length(op: Lowering) -> Tensor:
    sizes = op.emit("Shape", op["ls"], dtype=I64, start=0, end=1)
    return op.cast(op.squeeze(sizes, [0]), I32)


def _infer_read(view: OpView) -> Sequence[ValueType]:
    return [_list(view)[0]]


def _infer_gather(view: OpView) -> Sequence[ValueType]:
    element, _ = _list(view)
    indices = view.shape("indices")
    return [TensorType(element.dtype, None if element.shape is None else (*indices, *element.shape))]


def _lower_take(name: str) -> Callable[[Lowering], Tensor]:
    return lambda op: op.emit("Gather", op["ls"], op[name], axis=0)


def _infer_put(stacked: bool) -> Callable[[OpView], Sequence[ValueType]]:
    """The type of the list after `value` is written; `stacked` where that holds several elements."""

    def infer(view: OpView) -> Sequence[ValueType]:
        element, length = _list(view)
        value = view.type("value")
        shape = value.shape[1:] if stacked and value.shape is not None else value.shape
        if element.shape is not None and shape is not None:
            if len(element.shape) != len(shape):
                raise CannotInfer("the written value does not have the rank of the list's elements")
            element = replace(element, shape=tuple(map(first_known, element.shape, shape)))
        return [ListType(element, length)]

    return infer


def _lower_write(op: Lowering) -> Tensor:
    index = op.emit("Reshape", op.int64("index"), op.const([1], I64))
    return _put(op, index, op.unsqueeze(op["value"], [0]))


def _lower_scatter(op: Lowering) -> Tensor:
    return _put(op, op.int64("indices"), op["value"])


def _put(op: Lowering, indices: Tensor, values: Tensor) -> Tensor:
    """The list with `values`, stacked along the first axis, at `indices`; it grows where it is too short."""
    items = op["ls"]
    element, length = _list(op.view)
    if length is None or element.shape is None or None in element.shape:
        items = _grown(op, items, indices, values)
    values = op.cast(values, items.dtype)
    return op.emit("ScatterND", items, op.unsqueeze(indices, [1]), values)


def _grown(op: Lowering, items: Tensor, indices: Tensor, values: Tensor) -> Tensor:
    """The list, padded with zeros so that `indices`, and elements as large as `values`, fit in."""
    shape = op.shape_of(items)
    highest = op.emit("ReduceMax", indices, keepdims=1)
    least = op.emit("Add", highest, op.const([1], I64))
    needed = op.emit("Concat", least, op.emit("Shape", values, dtype=I64, start=1), axis=0)
    more = op.emit("Sub", op.emit("Max", shape, needed), shape)
    before = op.emit("Sub", shape, shape)
    pads = op.emit("Concat", before, more, axis=0)
    # The engine cannot pad booleans.
    numbers = op.cast(items, I32) if items.dtype == BOOL else items
    return op.cast(op.emit("Pad", numbers, pads), items.dtype)


def _work_put(view: OpView) -> Work:
    """The written elements are read and written once."""
    size, known = bytes_of(view.type("value"))
    return Work(flops=0, read_bytes=size, weight_bytes=0, written_bytes=size, is_complete=known)


def _work_make(view: OpView) -> Work:
    """The list is written once."""
    size, known = bytes_of(view.outputs[0].type)
    return Work(flops=0, read_bytes=0, weight_bytes=0, written_bytes=size, is_complete=known)


OPS: tuple[OpSpec, ...] = (
    OpSpec(
        name="make_list",
        doc="A new list of zero tensors of one shape.",
        traits=Trait.LIST,
        infer=_infer_make,
        lower=_lower_make,
        work=_work_make,
    ),
    OpSpec(
        name="list_length",
        doc="The number of elements of a list.",
        traits=Trait.LIST,
        infer=_infer_length,
        lower=_lower_length,
        work=free,
        fold=_fold_length,
    ),
    OpSpec(
        name="list_read",
        doc="One element of a list.",
        traits=Trait.LIST,
        infer=_infer_read,
        lower=_lower_take("index"),
        work=moved_output,
    ),
    OpSpec(
        name="list_gather",
        doc="Elements of a list, stacked.",
        traits=Trait.LIST,
        infer=_infer_gather,
        lower=_lower_take("indices"),
        work=moved_output,
    ),
    OpSpec(
        name="list_write",
        doc="The list with one element replaced; it grows where it is too short.",
        traits=Trait.LIST,
        infer=_infer_put(stacked=False),
        lower=_lower_write,
        work=_work_put,
    ),
    OpSpec(
        name="list_scatter",
        doc="The list with several elements replaced; it grows where it is too short.",
        traits=Trait.LIST,
        infer=_infer_put(stacked=True),
        lower=_lower_scatter,
        work=_work_put,
    ),
)
