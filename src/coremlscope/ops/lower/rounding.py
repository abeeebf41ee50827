"""Rounds results to fp16 as a device does, and records their ranges.

Each result that the program declares as fp16 is rounded after its operation. Arithmetic inside an operation
stays in float32, as in the wide accumulators of a device. Operations that only move elements are not rounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence

import numpy as np
import onnx

from coremlscope.model.ir import DType, TensorType
from coremlscope.ops.emit import BOOL, F32, I32, I64, Emitter, Lowering, Tensor, element_type, range_state
from coremlscope.ops.program import RangePort
from coremlscope.ops.view import BoundGraph, BoundValue, OpView

_F16, _F32, _F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
#: Operations whose fp16 results are elements of their arguments, which are rounded already.
_MOVING = frozenset(
    {
        "batch_to_space",
        "concat",
        "depth_to_space",
        "expand_dims",
        "flatten2d",
        "gather",
        "gather_along_axis",
        "gather_nd",
        "identity",
        "list_gather",
        "list_read",
        "pixel_shuffle",
        "pixel_unshuffle",
        "read_state",
        "reshape",
        "reshape_like",
        "reverse",
        "reverse_sequence",
        "slice_by_index",
        "slice_by_size",
        "sliding_windows",
        "space_to_batch",
        "space_to_depth",
        "split",
        "squeeze",
        "stack",
        "tile",
        "transpose",
    }
)
#: The range of no elements; see `RangePort`.
_NOTHING = np.array([[-1.0], [0.0], [0.0], [0.0]])
_IS_MAXIMUM = np.array([[True], [False], [False], [False]])


class Rounding:
    """Rounds results and records their ranges. Ranges of nested operations are passed like states.

    Args:
        emitter: The emitter of the nodes.
        graph: The function's body.
        states: The content of the states by name. An entry for each nested operation is added.
        has_ranges: False to record no ranges, which take four times as many nodes as rounding itself.
    """

    def __init__(
        self,
        emitter: Emitter,
        graph: BoundGraph,
        states: MutableMapping[str, Tensor],
        *,
        has_ranges: bool = True,
    ) -> None:
        self._emitter = emitter
        self._has_ranges = has_ranges
        self._ops: dict[str, None] = {}
        blocks = (block for view in graph.ops for block in view.blocks) if has_ranges else ()
        for view in (view for block in blocks for view in block.walk() if _rounds(view)):
            states[range_state(view.op.id)] = emitter.array(_NOTHING)

    def results(self, op: Lowering, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Rounds an operation's fp16 results and records their range."""
        if not _rounds(op.view):
            return tensors
        results = []
        for bound, tensor in zip(op.view.outputs, tensors, strict=False):
            if not _is_half(bound) or tensor.dtype != F32:
                results.append(tensor)
                continue
            rounded = op.cast(op.cast(tensor, np.float16), F32)
            results.append(rounded)
            if self._has_ranges:
                self._record(op, _range(op, bound, tensor, rounded))
        return results

    def _record(self, op: Lowering, range_: Tensor) -> None:
        name = range_state(op.view.op.id)
        if op.has_state(name):
            before = op.state(name)
            larger, sum_ = op.emit("Max", before, range_), op.emit("Add", before, range_)
            range_ = op.emit("Where", op.const(_IS_MAXIMUM, BOOL), larger, sum_, dtype=_F64)
        op.put_state(name, range_)
        self._ops[op.view.op.id] = None

    def port(self, states: MutableMapping[str, Tensor]) -> RangePort | None:
        """Concatenates all ranges in one value, after all operations are lowered; None without ranges."""
        if not self._has_ranges:
            return None
        ranges = [states[range_state(op_id)] for op_id in self._ops] or [self._emitter.array(_NOTHING[:, :0])]
        (concatenated,) = self._emitter.node("Concat", ranges, [_F64], {"axis": 1})
        return RangePort(concatenated.name, tuple(self._ops))


def _is_half(bound: BoundValue) -> bool:
    type_ = bound.type
    return isinstance(type_, TensorType) and type_.dtype is DType.FP16 and bound.constant is None


def _rounds(view: OpView) -> bool:
    """True if an operation's results are rounded. Results of blocks are rounded inside the blocks."""
    return not view.op.blocks and view.op.type not in _MOVING and any(map(_is_half, view.outputs))


def _range(op: Lowering, bound: BoundValue, exact: Tensor, rounded: Tensor) -> Tensor:
    """The four numbers of a `RangePort`, as a column."""
    assert isinstance(bound.type, TensorType)
    exact, rounded = (op.reshape(tensor, [1, -1]) for tensor in (exact, rounded))
    nan, infinite = (op.emit(test, exact, dtype=BOOL) for test in ("IsNaN", "IsInf"))
    lost, none = op.emit("Or", nan, infinite), op.const([[-1]], F32)
    magnitude = op.emit("Where", lost, none, op.emit("Abs", exact), dtype=F32)
    if not bound.type.elements:
        # The maximum of no elements is undefined.
        magnitude = op.emit("Concat", magnitude, none, axis=1)
    largest = op.emit("ReduceMax", magnitude, op.const([1], I64), keepdims=1)
    masks = op.emit("Concat", op.emit("IsInf", rounded, dtype=BOOL), infinite, nan, axis=0)
    counts = op.emit("ReduceSum", op.cast(masks, I32), op.const([1], I64), keepdims=1)
    # float64 represents both the magnitude and the counts.
    return op.emit("Concat", op.cast(largest, _F64), op.cast(counts, _F64), axis=0)


#: Operators of ONNX that move elements, with the indices of the inputs that hold them; none for all inputs.
_SOURCES: Mapping[str, tuple[int, ...]] = {
    "Concat": (),
    "Expand": (0,),
    "Identity": (0,),
    "Reshape": (0,),
    "ScatterElements": (0, 2),
    "Slice": (0,),
    "Squeeze": (0,),
    "Tile": (0,),
    "Transpose": (0,),
    "Unsqueeze": (0,),
    "Where": (1, 2),
}


def rounded_to_half(emitter: Emitter, tensor: Tensor) -> Tensor:
    """Returns a float32 tensor rounded to float16, by what computed it."""
    emitter.owner = emitter.owners.get(tensor.name, "")
    (half,) = emitter.node("Cast", [tensor], [_F16], {"to": element_type(_F16)})
    (found,) = emitter.node("Cast", [half], [_F32], {"to": element_type(_F32)})
    emitter.owner = ""
    return found


def round_states(emitter: Emitter, states: Iterable[str], changed: Sequence[Tensor]) -> list[Tensor]:
    """Rounds what becomes of fp16 states, as a device stores it.

    Elements that a prediction computes are rounded before they are moved into the state. Those that stay are
    rounded already: a decoder changes one row of a cache of thousands.

    Args:
        emitter: The emitter of the nodes.
        states: The names of the values that take the content of the states.
        changed: What becomes of states.

    Returns:
        What becomes of them, rounded.
    """
    rounded, wanted = set(states), {tensor.name for tensor in changed}
    for node in reversed(emitter.nodes):
        if node.op_type != "Slice" and wanted.intersection(node.output):  # a slice has fewer elements
            wanted.update(_sources(node))
    copies: dict[str, Tensor] = {}

    def round_(tensor: Tensor) -> Tensor:
        if tensor.name in rounded:
            return tensor
        if tensor.name not in copies:
            copies[tensor.name] = rounded_to_half(emitter, tensor)
        return copies[tensor.name]

    nodes, emitter.nodes = emitter.nodes, []
    for node in nodes:
        sources = _sources(node)
        if sources and node.op_type != "Slice" and wanted.intersection(node.output):
            names = {source: round_(Tensor(source, _F32)).name for source in sources}
            places = _SOURCES[node.op_type] or range(len(node.input))
            for place in places:
                node.input[place] = names[node.input[place]]
            rounded.update(node.output)
        elif sources and rounded.issuperset(sources):
            rounded.update(node.output)
        emitter.nodes.append(node)
    return [round_(tensor) for tensor in changed]


def _sources(node: onnx.NodeProto) -> list[str]:
    """The values whose elements a node moves; none where it computes."""
    places = _SOURCES.get(node.op_type)
    return list(node.input) if places == () else [node.input[place] for place in places or ()]
