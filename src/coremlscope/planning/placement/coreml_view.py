"""A program as Core ML plans it: not the operations of the file, but what its compiler turns them into.

Constants become arguments, and everything known before run time is folded. Inputs pass through
`tensor_buffer_to_tensor`, outputs through `tensor_to_tensor_buffer` (here one operation for all inputs:
published plans price the first and leave the others empty). Where the program's type differs from that of
the model's interface, a `cast` is inserted.

Operations of the file keep their ids; inserted ones get the id of the value that they convert:
`main/input`, `main/input/cast/image`, `main/output`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import force_setattr

from coremlscope.devices.release import OSRelease
from coremlscope.model.ir import (
    ArrayFeature,
    DType,
    EnumeratedShapes,
    FunctionDescription,
    Model,
    Op,
    RangeShapes,
    StateType,
    TensorType,
    Value,
    constant,
    default_shape,
)
from coremlscope.ops import has_traits
from coremlscope.ops.bind import BoundFunction
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import BoundGraph, BoundValue, OpView
from coremlscope.planning.patterns.rule import ProgramFacts
from coremlscope.planning.placement.alike import Kinds

#: Exporters' names of the keys and values that a decoder keeps.
_CACHE = re.compile(r"past|present|(^|_)kv|(key|value)s?_?(cache|states?)|cache_?(k|v|key|value)")
#: Core ML 9 (iOS 26, macOS 26) and later list the conversion of outputs in their plans; 14.5 does not.
_LISTS_OUTPUTS = (26, 0)


class Node(msgspec.Struct, frozen=True):
    """An operation that is planned.

    Attributes:
        view: The operation with its types.
        inserted: True where it is not in the file.
        follows: True where it has no cost and no choice of its own: it runs where its input is computed.
        blocks: Its nested graphs; each is planned separately.
        kind: The number of its kind (see `Kinds`); None for the only one.
        id: The operation's id, which follows from the view: it is asked for often.
    """

    view: OpView
    inserted: bool = False
    follows: bool = False
    blocks: tuple[CoreMLGraph, ...] = ()
    kind: int | None = None
    id: str = ""

    def __post_init__(self) -> None:
        force_setattr(self, "id", self.view.op.id)


class CoreMLGraph(msgspec.Struct, frozen=True):
    """A list of operations in planning order.

    Attributes:
        name: The function's or the block's.
        nodes: The operations.
        packed: The operations that unpack compressed weights. They are not part of the plan; rules examine
            how a weight was compressed.
        kinds: Of a function, what numbered the kinds of its operations and of those of others.
    """

    name: str
    nodes: tuple[Node, ...]
    packed: tuple[OpView, ...] = ()
    kinds: Kinds = msgspec.field(default_factory=Kinds)

    def walk(self) -> Iterator[Node]:
        """Every operation, nested ones after their owner."""
        for node in self.nodes:
            yield node
            for block in node.blocks:
                yield from block.walk()

    def walk_packed(self) -> Iterator[OpView]:
        """Every operation that unpacks a weight, nested ones included."""
        yield from self.packed
        for node in self.nodes:
            for block in node.blocks:
                yield from block.walk_packed()


def lists_outputs(os: OSRelease) -> bool:
    """Returns whether plans of a system list the conversion of outputs; they do not differ otherwise."""
    return os.core_ml >= _LISTS_OUTPUTS


def view_function(
    bound: BoundFunction,
    os: OSRelease,
    description: FunctionDescription | None = None,
    kinds: Kinds | None = None,
) -> CoreMLGraph:
    """A bound function as Core ML plans it.

    Args:
        bound: The function with its shapes.
        os: The system; which conversions plans list depends on it.
        description: The function's interface, for the casts at its edges; None for no casts.
        kinds: What numbers the kinds of operations of several functions; None for those of this one alone.
    """
    name = bound.function.name
    arrays = _interface(description)
    kinds = Kinds() if kinds is None else kinds
    entry = [*_entrance(bound, name, kinds), *_edge_casts(bound, name, arrays, kinds)]
    exit_ = _exit(bound, name, kinds) if lists_outputs(os) else []
    return CoreMLGraph(name, (*entry, *_nodes(bound.graph, kinds), *exit_), _packed(bound.graph), kinds)


def view_operations(bound: BoundFunction) -> CoreMLGraph:
    """A bound function without conversions at its edges, as Core AI plans it."""
    kinds = Kinds(with_declared=True)
    return CoreMLGraph(bound.function.name, tuple(_nodes(bound.graph, kinds)), _packed(bound.graph), kinds)


def _nodes(graph: BoundGraph, kinds: Kinds) -> list[Node]:
    nodes = []
    for view in graph.ops:
        if view.op.type == "const" or (view.outputs and _is_folded(view)) or _unpacks(view):
            continue
        blocks = tuple(
            CoreMLGraph(block.graph.name, tuple(_nodes(block, kinds)), _packed(block))
            for block in view.blocks
        )
        nodes.append(Node(view, blocks=blocks, kind=kinds.number(view)))
    return nodes


def _is_folded(view: OpView) -> bool:
    """Returns True if the results are known before run time.

    Core ML's compiler does not fold `fill_like` from the shape of its reference alone: it is in plans of an
    M4 Max.
    """
    if view.op.type == "fill_like" and not view.is_known("ref_tensor"):
        return False
    return all(value.constant is not None for value in view.outputs)


def _packed(graph: BoundGraph) -> tuple[OpView, ...]:
    return tuple(view for view in graph.ops if _unpacks(view))


def _unpacks(view: OpView) -> bool:
    return has_traits(view.op.type, Trait.WEIGHT_DECOMPRESSION)


def _interface(description: FunctionDescription | None) -> dict[str, DType]:
    features = (*description.inputs, *description.outputs) if description else ()
    return {
        feature.name: feature.type.dtype for feature in features if isinstance(feature.type, ArrayFeature)
    }


def _entrance(bound: BoundFunction, name: str, kinds: Kinds) -> list[Node]:
    """The conversion of all inputs; states are not converted."""
    given = zip(bound.function.graph.inputs, bound.graph.inputs, strict=True)
    values = [(value, known) for value, known in given if not isinstance(known.type, StateType)]
    if not values:
        return []
    op = Op(
        id=f"{name}/input",
        type="tensor_buffer_to_tensor",
        inputs={"input": tuple(value for value, _ in values)},
        outputs=tuple(value for value, _ in values),
    )
    known = tuple(known for _, known in values)
    view = OpView(op=op, inputs={"input": known}, opset=_opset(bound), blocks=(), outputs=known)
    return [Node(view, inserted=True, kind=kinds.number(view))]


def _edge_casts(bound: BoundFunction, name: str, arrays: Mapping[str, DType], kinds: Kinds) -> list[Node]:
    """Casts of inputs whose type in the interface is not the program's."""
    nodes = []
    for value, known in zip(bound.function.graph.inputs, bound.graph.inputs, strict=True):
        type_ = known.type
        declared = arrays.get(value.name)
        if declared is None or not isinstance(type_, TensorType) or declared == type_.dtype:
            continue
        outside = TensorType(declared, type_.shape)
        target = constant(type_.dtype.value)
        op = Op(
            id=f"{name}/input/cast/{value.name}",
            type="cast",
            inputs={"x": (Value(value.name, outside),), "dtype": (target,)},
            outputs=(Value(value.name, type_),),
        )
        inputs = {"x": (BoundValue(outside),), "dtype": (BoundValue(target.type, target),)}
        view = OpView(op=op, inputs=inputs, opset=_opset(bound), blocks=(), outputs=(BoundValue(type_),))
        nodes.append(Node(view, inserted=True, kind=kinds.number(view)))
    return nodes


def _exit(bound: BoundFunction, name: str, kinds: Kinds) -> list[Node]:
    values = bound.function.graph.outputs
    if not values:
        return []
    op = Op(
        id=f"{name}/output",
        type="tensor_to_tensor_buffer",
        inputs={"input": tuple(values)},
        outputs=tuple(values),
    )
    view = OpView(
        op=op,
        inputs={"input": bound.graph.outputs},
        opset=_opset(bound),
        blocks=(),
        outputs=bound.graph.outputs,
    )
    return [Node(view, inserted=True, follows=True, kind=kinds.number(view))]


def _opset(bound: BoundFunction) -> int:
    digits = "".join(c for c in bound.function.opset if c.isdigit())
    return int(digits) if digits else 5


def program_facts(model: Model, bound: BoundFunction, description: FunctionDescription) -> ProgramFacts:
    """Facts about the program around an operation."""
    flexible = {}
    for feature in description.inputs:
        match getattr(feature.type, "flexibility", None):
            case EnumeratedShapes():
                flexible[feature.name] = "enumerated"
            case RangeShapes(bounds):
                open_ended = any(upper < 0 for _, upper in bounds)
                flexible[feature.name] = "unbounded" if open_ended else "range"
    states = sum(isinstance(value.type, StateType) for value in bound.graph.inputs)
    return ProgramFacts(
        opset=_opset(bound),
        spec_version=model.spec_version,
        flexible_inputs=flexible,
        resized_inputs=_resized(bound, description),
        weights_bytes=sum(file.size or 0 for file in model.weight_files),
        states=states,
        decodes=states > 0 or _has_cache(description),
        runtime="Core AI" if model.content.is_core_ai else "Core ML",
        inputs={feature.name: feature.type for feature in description.inputs},
        outputs={feature.name: feature.type for feature in description.outputs},
    )


def _resized(bound: BoundFunction, description: FunctionDescription) -> dict[str, tuple[int, ...]]:
    """The shapes of flexible inputs that differ from their defaults, whatever axes of 1 precede them."""
    given = {
        value.name: tuple(size or 0 for size in known.type.shape or ())
        for value, known in zip(bound.function.graph.inputs, bound.graph.inputs, strict=True)
        if isinstance(known.type, TensorType)
    }
    flexible = (one for one in description.inputs if getattr(one.type, "flexibility", None) is not None)
    defaults = {feature.name: default_shape(feature.type) for feature in flexible}
    return {
        name: given[name]
        for name, shape in defaults.items()
        if shape and name in given and _without_ones(given[name]) != _without_ones(shape)
    }


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _has_cache(description: FunctionDescription) -> bool:
    """True where inputs and outputs are named as the caches of a decoder are."""
    sides = (description.inputs, description.outputs)
    return all(any(_CACHE.search(feature.name.lower()) for feature in side) for side in sides)
