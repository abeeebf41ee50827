"""Fuses operations into kernels, which a compiler runs as one pass over the data.

A kernel is an operation that does most of the work (its head) and the operations fused with it at little or
no cost: the activation behind a convolution, a normalization folded into its weights, the sum with a
shortcut. The table `FUSIONS` defines which operations can be fused with which kernels.
"""

from __future__ import annotations

import copy
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from coremlscope.model.ir import TensorType, Value
from coremlscope.ops import has_traits
from coremlscope.ops.control import trip_count
from coremlscope.ops.traits import NO_TRAITS, Trait
from coremlscope.ops.view import BoundGraph, BoundValue, OpView
from coremlscope.planning.cost.latency.geometry import Geometry, geometry_of
from coremlscope.planning.cost.latency.kinds import KernelKind, kind_of, moves_channels, shape_of
from coremlscope.planning.cost.latency.norms import find_norms, over_maps, size_of, tensors_of


class Kernel(msgspec.Struct, kw_only=True):
    """One pass over the data.

    Attributes:
        kind: The kind of its head.
        ops: The ids of its operations, in order; the head may be any of them.
        name: The head's name.
        geometry: The dimensions of the head's work.
        inputs: Elements read, constants excluded.
        outputs: Elements written.
        element_bytes: Bytes of one element in the program.
        largest: Elements of the largest operand or result.
        vector: Elements processed by the operations behind the head.
        gated: Elements processed by a gate `x * gate(x)`.
        weight_bytes: Bytes of the constants in the file, compressed.
        weights: Elements of the constants.
        is_int8: True where both the weights and the input are quantized to 8 bits.
        steps: How often it runs in a prediction, without the loop below; 0 in the cheaper branch of a
            condition that is only known at run time.
        loop: The id of the innermost loop around it whose number of iterations is not known; empty for none.
    """

    kind: KernelKind
    ops: list[str]
    name: str
    geometry: Geometry
    inputs: int = 0
    outputs: int = 0
    element_bytes: int = 2
    largest: int = 0
    vector: int = 0
    gated: int = 0
    weight_bytes: float = 0.0
    weights: int = 0
    is_int8: bool = False
    steps: int = 1
    loop: str = ""


class Fusion(msgspec.Struct, frozen=True, kw_only=True):
    """A rule about which operations are fused with a kernel.

    Attributes:
        name: Its name.
        heads: The kinds of kernels that it applies to.
        joins: The traits of operations that can be fused.
        ops: Names of further operations.
        when: A further condition on the operation and the name of the kernel's result.
    """

    name: str
    heads: frozenset[KernelKind]
    joins: Trait = NO_TRAITS
    ops: frozenset[str] = frozenset()
    when: Callable[[OpView, str], bool] = lambda view, name: True


def _others(view: OpView, name: str) -> list[BoundValue]:
    """The arguments besides the value called `name`."""
    return [
        bound
        for parameter, given in view.op.inputs.items()
        for argument, bound in zip(given, view.inputs[parameter], strict=True)
        if getattr(argument, "name", None) != name
    ]


def _by_constant(view: OpView, name: str) -> bool:
    return all(bound.constant is not None for bound in _others(view, name))


def _same_shape(view: OpView, name: str) -> bool:
    shape = getattr(view.outputs[0].type, "shape", None)
    return all(getattr(b.type, "shape", None) == shape for b in _others(view, name) if b.constant is None)


def _broadcasts(view: OpView, name: str) -> bool:
    """True where the other arguments are at most as large as the value called `name`."""
    return all(size_of(b) <= size_of(view.outputs[0]) for b in _others(view, name)) and all(
        size_of(bound) == size_of(view.outputs[0])
        for parameter, given in view.op.inputs.items()
        for argument, bound in zip(given, view.inputs[parameter], strict=True)
        if getattr(argument, "name", None) == name
    )


_MATRIX: frozenset[KernelKind] = frozenset({"conv", "pointwise", "depthwise", "grouped", "linear", "matmul"})
_VECTOR: frozenset[KernelKind] = frozenset({"elementwise", "norm", "map_norm", "pool", "reduce", "resize"})
_MOVES: frozenset[KernelKind] = frozenset({"layout", "channels", "reshape"})

#: Rules of fusion with a kernel; the first that applies is used.
FUSIONS: tuple[Fusion, ...] = (
    Fusion(name="a normalization folds into weights", heads=_MATRIX, joins=Trait.CHANNEL_SCALE),
    Fusion(
        name="scale and shift by constants",
        heads=_MATRIX | _VECTOR,
        joins=Trait.ARITHMETIC,
        when=_by_constant,
    ),
    Fusion(
        name="activation",
        heads=_MATRIX | _VECTOR,
        joins=Trait.ACTIVATION | Trait.FUNCTION | Trait.CONVERSION,
    ),
    Fusion(name="sum with a shortcut", heads=_MATRIX, ops=frozenset({"add"}), when=_same_shape),
    Fusion(name="mask of scores", heads=frozenset({"matmul"}), ops=frozenset({"add"}), when=_broadcasts),
    Fusion(name="consecutive moves", heads=_MOVES, joins=Trait.TRANSPOSITION | Trait.RESHAPE),
    Fusion(
        name="chain of elementwise operations",
        heads=frozenset({"elementwise"}),
        joins=Trait.ARITHMETIC,
        when=_same_shape,
    ),
)


def takes_activations(kernel: Kernel) -> bool:
    """Returns whether a kernel can end with a function of each element."""
    return kernel.kind in _MATRIX | _VECTOR


_PARTS, _DENSE = Trait.UPDATE | Trait.SLICE, Trait.CONVOLUTION | Trait.LINEAR
_OF_STATES = _PARTS | Trait.STATE_READ | Trait.STATE_WRITE


class _Chain(msgspec.Struct):
    """A kernel under construction: its result, the gate of that result, and its inputs."""

    kernel: Kernel
    gives: str
    gate: str = ""
    read: dict[str, int] = msgspec.field(default_factory=dict)


class Flow(NamedTuple):
    """A tensor from the operation that makes it to one that reads it, by their ids, with its elements."""

    maker: str
    reader: str
    name: str
    elements: int


class Fused:
    """The kernels of a graph, which a plan may cut: operations are fused where they run on one unit in a row.

    Args:
        graph: The bound graph.

    Attributes:
        kernels: The kernels in order of execution, as if one unit ran them all; those of nested blocks once
            each, with their steps.
        flows: The tensors that operations make and read, nested ones included. Contents of states, which
            all units share, are not among them.
    """

    def __init__(self, graph: BoundGraph) -> None:
        self._homes: dict[str, _Fuser] = {}
        self.kernels = tuple(_Fuser(graph, self._homes).run())
        kept = {name for one in self._homes.values() for name in one.kept}
        views = [one.views[id_] for id_, one in self._homes.items()]
        makers = {value.name: view for view in views for value in view.op.outputs}
        self.flows = tuple(
            Flow(makers[name].op.id, view.op.id, name, elements)
            for view in views
            for name, elements in tensors_of(view)
            if name in makers and name not in kept
        )

    def cut(self, kernel: Kernel, groups: Sequence[Sequence[str]]) -> list[Kernel]:
        """Returns the kernels of which a kernel consists where its operations are not run in a row.

        Args:
            kernel: One of the kernels.
            groups: The ids of its operations: those that are run together, in order.
        """
        found = [one for ids in groups for one in self._homes[ids[0]].fuse_apart(ids)]
        for one in found:
            one.steps, one.loop = kernel.steps, kernel.loop
            if kernel.weights:
                # Its weights may be in another form than in the file.
                one.weight_bytes = min(one.weight_bytes, one.weights * kernel.weight_bytes / kernel.weights)
        return found


def fuse(graph: BoundGraph) -> tuple[Kernel, ...]:
    """The kernels of a graph in order of execution; see `Fused`."""
    return Fused(graph).kernels


class _Fuser:
    def __init__(self, graph: BoundGraph, homes: dict[str, _Fuser]) -> None:
        self.graph, self.homes = graph, homes
        self.users: dict[str, list[OpView | None]] = defaultdict(list)
        self.chains: dict[str, _Chain] = {}
        self.packed: dict[str, float] = {}
        self.quantized: set[str] = set()
        #: Contents of states, and what they become: values that are updated in place.
        self.kept: set[str] = set()
        norms = find_norms(graph.ops)
        computing = [view for view in graph.ops if view.op.type != "const"]
        self.views = {view.op.id: view for view in computing}
        homes.update(dict.fromkeys(self.views, self))
        #: Reductions of whole maps, by id.
        self.wide = {view.op.id for view in computing if _has(view, Trait.SUMMATION) and over_maps(view)}
        #: For each operation of a normalization, by id: all operations of it, in order.
        self.norms = {id_: members for members in norms.values() for id_ in members}
        for view in computing:
            for name, _ in tensors_of(view):
                self.users[name].append(view)
        for value in graph.graph.outputs:
            self.users[value.name].append(None)

    def run(self) -> list[Kernel]:
        """Returns the kernels of the graph."""
        chains: list[_Chain | Kernel] = []
        for view in self.graph.ops:
            if self.is_constant(view):
                continue
            nested = [_Fuser(block, self.homes).run() for block in view.blocks]
            blocks = [_repeated(view, index, kernels) for index, kernels in enumerate(nested)]
            if view.op.type == "cond":
                _skip_cheaper(blocks)
            for block in blocks:
                chains.extend(block)
            chain = self.place(view)
            if chain is not None:
                chains.append(chain)
        kernels = [chain.kernel if isinstance(chain, _Chain) else chain for chain in chains]
        return _attention(kernels, self.views)

    def fuse_apart(self, ids: Sequence[str]) -> list[Kernel]:
        """Returns the kernels of some operations of a kernel, apart from its others."""
        one, mine = copy.copy(self), set(ids)
        one.chains = {}
        one.norms = {id_: all_ for id_, all_ in self.norms.items() if mine.issuperset(all_)}
        chains = [one.place(self.views[id_]) for id_ in ids]
        return _attention([chain.kernel for chain in chains if chain is not None], self.views)

    def is_constant(self, view: OpView) -> bool:
        op = view.op
        if op.type == "const":
            return True
        is_constant = all(value.constant is not None for value in view.outputs)
        if _has(view, Trait.WEIGHT_DECOMPRESSION) or (is_constant and _has(view, Trait.DEQUANTIZATION)):
            for value in op.outputs:
                self.packed[value.name] = self.packed_bytes(view)
            return True
        return is_constant

    def packed_bytes(self, view: OpView) -> float:
        """Bytes from which a weight is unpacked, including weights that are unpacked first."""
        total = 0.0
        for name, bound in _constants(view):
            size = bound.type.nbytes if isinstance(bound.type, TensorType) else 0
            total += self.packed.get(name, size or 0)
        types = [constant.type for name, constant in view.op.attributes.items() if name != "name"]
        return total + sum((type_.nbytes or 0) for type_ in types if isinstance(type_, TensorType))

    def place(self, view: OpView) -> _Chain | None:
        """Adds an operation to the kernel that feeds it, or returns a new one."""
        if self.is_in_place(view):
            self.kept.update(value.name for value in view.op.outputs)
            return self.begin_update(view) if _has(view, Trait.UPDATE) else None
        if _has(view, Trait.DEQUANTIZATION):
            self.quantized.add(view.op.outputs[0].name)
        if view.op.id in self.norms:
            return self.place_norm(view, self.norms[view.op.id])
        if self.is_broadcast(view):
            return None
        names = [name for name, _ in tensors_of(view)]
        for name in names:
            chain = self.chains.get(name)
            if chain is None or chain.gives != name:
                continue
            if self.is_gate(view, name):
                chain.kernel.ops.append(view.op.id)
                chain.kernel.gated += size_of(view.outputs[0])
                chain.gate = view.op.outputs[0].name
                return None
            if chain.gate in names or (len(self.users[name]) == 1 and _joins(chain.kernel, view, name)):
                self.join(chain, view, name)
                return None
        return self.begin(view)

    def is_in_place(self, view: OpView) -> bool:
        """True where the content of a state is read, partly replaced or given back, or a part of it is taken.

        None of this copies it: what uses it reads it from the memory.
        """
        if not _has(view, _OF_STATES):
            return False
        if _has(view, Trait.STATE_READ):
            return True
        is_part = _has(view, _PARTS)
        given = "data" if _has(view, Trait.STATE_WRITE) else "x" if is_part else ""
        arguments = view.op.inputs.get(given, ())
        return any(isinstance(one, Value) and one.name in self.kept for one in arguments)

    def begin_update(self, view: OpView) -> _Chain | None:
        """Begins the replacement of a part of a state, which moves this part alone."""
        chain = self.begin(view)
        if chain is not None:
            size = size_of(view.bound("update"))
            chain.kernel.inputs = chain.kernel.outputs = chain.kernel.largest = size
            self.chains.pop(chain.gives, None)
        return chain

    def place_norm(self, view: OpView, members: tuple[str, ...]) -> _Chain | None:
        """Begins a normalization at its last operation, with all before it."""
        if view.op.id != members[-1]:
            return None
        size = sum(size_of(value) for value in view.outputs)
        kernel = Kernel(
            kind="map_norm" if self.wide.intersection(members) else "norm",
            ops=list(members),
            name=view.op.name,
            geometry=geometry_of(view),
            inputs=size,
            outputs=size,
            element_bytes=_element_bytes(view),
            largest=size,
        )
        chain = _Chain(kernel, view.op.outputs[0].name)
        self.chains[chain.gives] = chain
        return chain

    def is_gate(self, view: OpView, name: str) -> bool:
        """True where the operation is the gate of `x * gate(x)`, and nothing else uses either.

        Together they count as one activation.
        """
        if not _has(view, Trait.GATE):
            return False
        others = [user for user in self.users[name] if user is not view]
        mine = self.users[view.op.outputs[0].name] if view.op.outputs else []
        return (
            len(others) == 1 == len(mine)
            and others[0] is mine[0] is not None
            and mine[0].op.type == "mul"
            and self.chains[name].kernel.kind in _MATRIX | _VECTOR
        )

    def is_broadcast(self, view: OpView) -> bool:
        """True for copies that elementwise operations do not need, because they broadcast."""
        return view.op.type == "tile" and all(
            user is not None and _has(user, Trait.ARITHMETIC) for user in self.users[view.op.outputs[0].name]
        )

    def join(self, chain: _Chain, view: OpView, name: str) -> None:
        kernel = chain.kernel
        kernel.ops.append(view.op.id)
        for other, size in tensors_of(view):
            if other not in (name, chain.gate) and other not in chain.read:
                chain.read[other] = size
                kernel.inputs += size
                kernel.largest = max(kernel.largest, size)
        self.add_weights(kernel, view)
        kernel.outputs = sum(size_of(value) for value in view.outputs)
        if kernel.kind in _MOVES and _has(view, Trait.TRANSPOSITION):
            kernel.kind = "channels" if kernel.kind != "layout" and moves_channels(view) else "layout"
        if _has(view, Trait.GATED):
            kernel.gated += kernel.outputs
        if kernel.kind not in _MOVES and not _is_relabel(view) and not _has(view, Trait.CHANNEL_SCALE):
            kernel.vector += kernel.outputs
        chain.gives, chain.gate = view.op.outputs[0].name, ""
        self.chains[chain.gives] = chain

    def begin(self, view: OpView) -> _Chain | None:
        if _is_relabel(view) or view.blocks:
            return None
        read = dict(tensors_of(view))
        sizes = [size_of(value) for value in view.outputs]
        geometry = geometry_of(view)
        kernel = Kernel(
            kind=kind_of(view, geometry),
            ops=[view.op.id],
            name=view.op.name,
            geometry=geometry,
            inputs=sum(read.values()),
            outputs=sum(sizes),
            element_bytes=_element_bytes(view),
            largest=max((*read.values(), *sizes), default=0),
        )
        if kernel.kind == "attention":
            kernel.vector = geometry.groups * geometry.width * geometry.out_channels
        is_dense = _has(view, _DENSE) and not _has(view, Trait.TRANSPOSED)
        kernel.is_int8 = is_dense and any(name in self.quantized for name in read)
        self.add_weights(kernel, view)
        name = view.op.outputs[0].name if view.op.outputs else ""
        chain = _Chain(kernel, name, read=read)
        if len(view.op.outputs) == 1:
            self.chains[name] = chain
        return chain

    def add_weights(self, kernel: Kernel, view: OpView) -> None:
        """Adds the constants of an operation; of a table from which rows are gathered, only these rows."""
        gathered = sum(size_of(value) for value in view.outputs) if _has(view, Trait.GATHER) else None
        for name, bound in _constants(view):
            type_, packed = bound.type, self.packed.get(name)
            if not isinstance(type_, TensorType) or not (type_.dtype.is_float or packed is not None):
                continue
            elements = size_of(bound)
            if elements > 1:
                read = elements if gathered is None else min(elements, gathered)
                size = elements * type_.dtype.bits / 8 if packed is None else packed
                kernel.weights += read
                kernel.weight_bytes += size * read / elements
        kernel.is_int8 = kernel.is_int8 and kernel.weight_bytes < 1.5 * kernel.weights


def _repeated(view: OpView, block: int, kernels: Sequence[Kernel]) -> Sequence[Kernel]:
    """Multiplies the steps of the kernels of a block, if it belongs to a loop."""
    if view.op.type != "while_loop":
        return kernels
    passes = trip_count(view)
    for kernel in kernels:
        if passes is None:
            kernel.loop = kernel.loop or view.op.id
        else:
            # The condition is also computed after the last iteration.
            kernel.steps *= passes + 1 if block == 0 else passes
    return kernels


def _skip_cheaper(branches: Sequence[Sequence[Kernel]]) -> None:
    """Keeps the costlier branch of a condition that is only known at run time: one of them runs."""
    dearest = max(branches, key=_effort, default=())
    for branch in branches:
        if branch is not dearest:
            for kernel in branch:
                kernel.steps = 0


def _effort(kernels: Sequence[Kernel]) -> tuple[int, float]:
    """Multiply-adds and bytes of kernels, to compare two branches."""
    moved = sum(k.steps * ((k.inputs + k.outputs) * k.element_bytes + k.weight_bytes) for k in kernels)
    return sum(k.steps * k.geometry.macs for k in kernels), moved


def _joins(kernel: Kernel, view: OpView, name: str) -> bool:
    return _is_relabel(view) or any(
        kernel.kind in fusion.heads
        and (_has(view, fusion.joins) or view.op.type in fusion.ops)
        and fusion.when(view, name)
        for fusion in FUSIONS
    )


def _attention(kernels: Sequence[Kernel], views_of: Mapping[str, OpView]) -> list[Kernel]:
    """Fuses a product, its softmax and the product with that into one attention kernel."""
    result: list[Kernel] = []
    for kernel in kernels:
        if (
            kernel.kind == "matmul"
            and len(result) >= 2
            and _is_scores(result[-2], result[-1], kernel, views_of)
        ):
            softmax, scores = result.pop(), result.pop()
            result.append(_joined(scores, softmax, kernel))
        else:
            result.append(kernel)
    return result


def _is_scores(scores: Kernel, softmax: Kernel, product: Kernel, views_of: Mapping[str, OpView]) -> bool:
    if scores.kind != "matmul" or softmax.kind != "softmax":
        return False
    given = {name for name, _ in tensors_of(views_of[softmax.ops[0]])}
    taken = {name for name, _ in tensors_of(views_of[product.ops[0]])}
    made = {value.name for id_ in scores.ops for value in views_of[id_].op.outputs}
    passed = {value.name for id_ in softmax.ops for value in views_of[id_].op.outputs}
    return bool(made & given) and bool(passed & taken)


def _joined(scores: Kernel, softmax: Kernel, product: Kernel) -> Kernel:
    geometry = scores.geometry.with_second_product(product.geometry.macs)
    kernel = Kernel(
        kind="attention", ops=[*scores.ops, *softmax.ops, *product.ops], name=softmax.name, geometry=geometry
    )
    kernel.inputs = scores.inputs + product.inputs - softmax.outputs
    kernel.outputs = product.outputs
    kernel.element_bytes = scores.element_bytes
    kernel.largest = max(scores.largest, softmax.largest, product.largest)
    kernel.vector = softmax.outputs
    kernel.weights = scores.weights + softmax.weights + product.weights
    kernel.weight_bytes = scores.weight_bytes + softmax.weight_bytes + product.weight_bytes
    return kernel


def _has(view: OpView, traits: Trait) -> bool:
    """True where the operation has one of these traits."""
    return has_traits(view.op.type, traits)


def _is_relabel(view: OpView) -> bool:
    """True where the result differs from the argument only by dimensions of 1."""
    if not _has(view, Trait.RESHAPE):
        return False
    before = shape_of(view.bound("x")) if view.has("x") else None
    after = shape_of(view.outputs[0])
    if before is None or after is None:
        return True
    return [d for d in before if d != 1] == [d for d in after if d != 1]


def _element_bytes(view: OpView) -> int:
    for value in itertools.chain(view.outputs, *view.inputs.values()):
        type_ = value.type
        if isinstance(type_, TensorType) and type_.dtype.bits:
            return max(type_.dtype.bits // 8, 1)
    return 2


def _constants(view: OpView) -> Iterator[tuple[str, BoundValue]]:
    for parameter, given in view.op.inputs.items():
        for argument, bound in zip(given, view.inputs[parameter], strict=True):
            if bound.constant is not None:
                yield (argument.name if isinstance(argument, Value) else ""), bound
