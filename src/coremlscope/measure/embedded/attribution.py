"""Attributes the nodes of an engine to operations.

Engines rewrite the graph: they fuse nodes, rename values, fold constants and add nodes. Attribution follows
the dataflow. Values that still have their lowered name pin an engine's node to the lowered
graph; from there, all nodes up to its inputs belong to it. Operations that share a node of the
engine, and nodes of the engine that share an operation, form one group, whose time is never split.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from coremlscope.measure.embedded.lowered_graph import LoweredGraph, LoweredNode
from coremlscope.model.ir import Graph, Op
from coremlscope.ops.program import OnnxProgram
from coremlscope.results.measurement import Status
from coremlscope.runtime.engines.base import EngineNode

#: Operators that engines add, which change the layout or the type of a value but not its content.
_MOVERS = frozenset(
    [
        "Cast",
        "Identity",
        "MemcpyFromHost",
        "MemcpyToHost",
        "ReorderInput",
        "ReorderOutput",
        "Reshape",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    ]
)
#: Operators that engines fuse into the consumer of their result, not into the producer of their input.
_FUSED_FORWARD = frozenset({"Pad"})
#: A suffix that engines append to names.
_ENDING = re.compile(r"(?:^|[_/])[^_/]*$")


class NodeGroup(msgspec.Struct, frozen=True):
    """Operations and nodes of the engine that are timed together.

    Attributes:
        ops: Ids of the operations, in program order; empty where the engine added the nodes.
        nodes: Indices of the engine's nodes, in the order of execution.
    """

    ops: tuple[str, ...]
    nodes: tuple[int, ...]


class Attribution(msgspec.Struct, frozen=True):
    """The status and group of every operation of a function.

    Attributes:
        groups: The groups in the order of execution. Every top-level node of the engine is in exactly one.
        status: The status of every operation, by id.
        group: The group of every operation that has one, by id: an index into `groups`.
    """

    groups: tuple[NodeGroup, ...]
    status: dict[str, Status]
    group: dict[str, int]

    def without(self, ops: frozenset[str]) -> Attribution:
        """Returns the attribution for a function in which substitutes replaced some operations."""
        if not ops:
            return self
        replaced = {op for op in self.status if op.partition(".")[0] in ops}
        groups = tuple(
            NodeGroup(tuple(op for op in group.ops if op not in replaced), group.nodes)
            for group in self.groups
        )
        status: dict[str, Status] = {**self.status, **dict.fromkeys(ops, "not run")}
        return Attribution(groups, status, {op: n for op, n in self.group.items() if op not in replaced})

    def joined(self, indices: Sequence[int]) -> Attribution:
        """Returns the attribution with some groups joined into one, at the place of the first of them."""
        if len(indices) < 2:
            return self
        first, *others = sorted(indices)
        members = [self.groups[index] for index in (first, *others)]
        whole = NodeGroup(
            tuple(op for member in members for op in member.ops),
            tuple(node for member in members for node in member.nodes),
        )
        groups = [whole if index == first else group for index, group in enumerate(self.groups)]
        kept = [index for index in range(len(groups)) if index not in others]
        places = {old: new for new, old in enumerate(kept)} | dict.fromkeys(others, kept.index(first))
        fused: dict[str, Status] = dict.fromkeys(whole.ops, "fused") if len(whole.ops) > 1 else {}
        return Attribution(
            tuple(groups[index] for index in kept),
            {**self.status, **fused},
            {op: places[index] for op, index in self.group.items()},
        )


def attribute(graph: Graph, program: OnnxProgram, nodes: Sequence[EngineNode]) -> Attribution:
    """Finds the group and status of every operation.

    Args:
        graph: The body of the function.
        program: The lowered function.
        nodes: The engine's nodes, in the order of execution.
    """
    lowered = LoweredGraph(program)
    claims = _Claims(lowered, nodes)
    claims.settle()
    order = {op.id: index for index, op in enumerate(graph.walk())}
    groups, by_op = _group(lowered, claims, nodes, order)
    verdicts = _Verdicts(graph, program, lowered, claims, groups, by_op)
    status = {op.id: verdicts.status(op) for op in graph.walk()}
    return Attribution(groups, status, by_op)


def group_nodes(program: OnnxProgram, nodes: Sequence[EngineNode]) -> tuple[NodeGroup, ...]:
    """Finds the operations of each of the engine's nodes, without the status of operations; see `attribute`.

    Args:
        program: The lowered function.
        nodes: The engine's nodes, in the order of execution.
    """
    lowered = LoweredGraph(program)
    claims = _Claims(lowered, nodes)
    claims.settle()
    return _group(lowered, claims, nodes, {})[0]


class _Claims:
    """Maps each lowered node to the engine's node that computes it."""

    def __init__(self, lowered: LoweredGraph, nodes: Sequence[EngineNode]) -> None:
        self.lowered = lowered
        self.nodes = nodes
        self.top = [index for index, node in enumerate(nodes) if node.outer is None]
        self.claimed: dict[int, int] = {}
        self.made_by_engine = {name for index in self.top for name in nodes[index].outputs}
        self.pins = {index: self._pins(nodes[index]) for index in self.top}
        self.pinned = {name: index for index, names in self.pins.items() for name in names}
        self.folded = lowered.folded(set(self.pinned))
        #: Lowered nodes equal to a pinned one: the engine computes them once.
        self.twins = {lowered.nodes[lowered.maker[name]].number: index for name, index in self.pinned.items()}

    def _pins(self, node: EngineNode) -> tuple[str, ...]:
        """Returns the lowered values that the engine's node produces, according to names."""
        exact = tuple(name for name in node.outputs if self._makes(node, name))
        if exact:
            return exact
        # A node whose result was renamed keeps its name, or that of a value that it makes on the way, with an
        # ending.
        name = node.name
        while name and name not in self.lowered.result:
            name = _ENDING.sub("", name)
        pin = self.lowered.result.get(name)
        if pin is None or (node.op_type in _MOVERS and self._maker_type(pin) != node.op_type):
            return ()
        return (pin,)

    def _maker_type(self, name: str) -> str:
        return self.lowered.nodes[self.lowered.maker[name]].op_type

    def _makes(self, node: EngineNode, name: str) -> bool:
        if name not in self.lowered.maker:
            return False
        return node.op_type not in _MOVERS or self._maker_type(name) in _MOVERS

    def settle(self) -> None:
        """Claims every lowered node that can be attributed."""
        for index in self.top:
            for name in self.pins[index]:
                self._claim_upwards(index, name)
        self._claim_rest(lambda node: node.op_type not in _FUSED_FORWARD)
        for number in reversed(range(len(self.lowered.nodes))):
            if number not in self.claimed and number not in self.folded:
                self._claim_from_readers(number)
        self._claim_rest(lambda node: True)

    def _claim_rest(self, admits: Callable[[LoweredNode], bool]) -> None:
        for number, node in enumerate(self.lowered.nodes):
            if number not in self.claimed and number not in self.folded and admits(node):
                self._claim_downwards(number, node)

    def _claim_upwards(self, index: int, pin: str) -> None:
        """Claims the nodes between a pinned value and the inputs of the engine's node."""
        node = self.nodes[index]
        region = self._region(pin, set(node.inputs), None)
        if any(name in self.made_by_engine and name not in self.lowered.maker for name in node.inputs):
            # An input has a name of the engine's own, so that it does not bound the region. The operator that
            # the engine's node is named after does: what engines fuse with it comes behind it.
            kind = node.op_type.removeprefix("Fused")
            bounded = self._region(pin, set(node.inputs), kind)
            has_kind = any(self.lowered.nodes[number].op_type == kind for number in bounded)
            region = bounded if has_kind else [self.lowered.maker[pin]]
        for number in region:
            self.claimed.setdefault(number, index)

    def _region(self, pin: str, bounds: set[str], kind: str | None) -> list[int]:
        """Collects lowered nodes above a value, up to bounds, other pins, constants and nodes of a type."""
        region, stack = [], [pin]
        seen = set()
        while stack:
            name = stack.pop()
            number = self.lowered.maker.get(name)
            if number is None or number in seen or number in self.folded:
                continue
            node = self.lowered.nodes[number]
            stops = name in bounds or any(output in self.pinned for output in node.outputs)
            if name != pin and (stops or node.number in self.twins):
                continue
            seen.add(number)
            region.append(number)
            if node.op_type != kind:
                stack.extend(node.inputs)
        return region

    def _claim_downwards(self, number: int, node: LoweredNode) -> None:
        """Assigns nodes that were fused, or are computed elsewhere, to the node that computes them.

        It must run after all of its inputs, so it is the last of the nodes that produce them.
        """
        if node.number in self.twins:
            self.claimed[number] = self.twins[node.number]
            return
        makers = (self.claimed.get(self.lowered.maker.get(name, -1)) for name in node.inputs)
        known = [maker for maker in makers if maker is not None]
        if known:
            self.claimed[number] = max(known)

    def _claim_from_readers(self, number: int) -> None:
        """Assigns nodes that the engine removed to the node that reads their inputs directly."""
        outputs = set(self.lowered.nodes[number].outputs)
        for later in range(number + 1, len(self.lowered.nodes)):
            if later in self.claimed and outputs.intersection(self.lowered.nodes[later].inputs):
                self.claimed[number] = self.claimed[later]
                return


class _Sets:
    """Disjoint sets of the engine's nodes."""

    def __init__(self) -> None:
        self._parent: dict[int, int] = {}

    def root(self, item: int) -> int:
        while (parent := self._parent.get(item, item)) != item:
            self._parent[item] = self._parent.get(parent, parent)
            item = parent
        return item

    def join(self, items: Iterable[int]) -> None:
        roots = sorted({self.root(item) for item in items})
        for other in roots[1:]:
            self._parent[other] = roots[0]


def _group(
    lowered: LoweredGraph, claims: _Claims, nodes: Sequence[EngineNode], order: dict[str, int]
) -> tuple[tuple[NodeGroup, ...], dict[str, int]]:
    """Joins engine nodes that share an operation; returns the groups and the group of each operation."""
    by_op: dict[str, set[int]] = {}
    inner: dict[str, set[int]] = {}
    for number, index in claims.claimed.items():
        for op in lowered.nodes[number].ops:
            by_op.setdefault(op, set()).add(index)
        for op in lowered.nodes[number].inner:
            inner.setdefault(op, set()).add(index)
    sets = _Sets()
    for indices in by_op.values():
        sets.join(indices)
    used = set(claims.claimed.values())
    readers = _readers(claims.top, nodes)
    for index in reversed(claims.top):
        if index not in used and nodes[index].op_type not in _MOVERS and readers[index]:
            # An intermediate node of the engine, such as part of a branch that it inlined.
            sets.join([index, *readers[index]])
    members: dict[int, list[int]] = {}
    for index in claims.top:
        members.setdefault(sets.root(index), []).append(index)
    numbers = {root: number for number, root in enumerate(members)}
    ops: dict[int, list[str]] = {root: [] for root in members}
    for op, indices in by_op.items():
        ops[sets.root(min(indices))].append(op)
    groups = tuple(
        NodeGroup(tuple(sorted(ops[root], key=lambda op: order.get(op, len(order)))), tuple(indices))
        for root, indices in members.items()
    )
    found = {op: numbers[sets.root(min(indices))] for op, indices in inner.items()}
    found.update((op, numbers[sets.root(min(indices))]) for op, indices in by_op.items())
    return groups, found


def _readers(top: Sequence[int], nodes: Sequence[EngineNode]) -> dict[int, list[int]]:
    """Returns the engine nodes that read the outputs of each node."""
    maker = {name: index for index in top for name in nodes[index].outputs}
    readers: dict[int, list[int]] = {index: [] for index in top}
    for index in top:
        for name in nodes[index].inputs:
            if name in maker:
                readers[maker[name]].append(index)
    return readers


class _Verdicts:
    """Determines the status of each operation."""

    def __init__(
        self,
        graph: Graph,
        program: OnnxProgram,
        lowered: LoweredGraph,
        claims: _Claims,
        groups: Sequence[NodeGroup],
        by_op: Mapping[str, int],
    ) -> None:
        #: Operations at the top level.
        self.top = frozenset(op.id for op in graph.ops)
        returned = {value.name for value in graph.outputs}
        #: Operations whose results are returned: without nodes, these are constants.
        self.returning = {op.id for op in graph.ops if any(value.name in returned for value in op.outputs)}
        self.groups = groups
        self.by_op = by_op
        self.needless = program.folded
        self.owners = set(program.owners.values())
        #: Blocks with at least one lowered node.
        self.blocks = {part for owner in self.owners for part in _parts(owner)}
        #: Operations with lowered nodes, and those of them with a node left at run time.
        self.lowered: set[str] = set()
        self.left: set[str] = set()
        for number, node in enumerate(lowered.nodes):
            self.lowered |= node.ops | node.inner
            if number not in claims.folded:
                self.left |= node.ops | node.inner

    def status(self, op: Op) -> Status:
        number = self.by_op.get(op.id)
        if number is not None:
            members = self.groups[number].ops
            if op.id not in members:
                return "inside"
            return "timed" if len(members) == 1 else "fused"
        if op.id in self.needless or op.type == "const":
            return "folded"
        if op.id in self.lowered:
            return "unattributed" if op.id in self.left else "folded"
        # No node in the graph belongs to it: its nodes were pruned, its block was never
        # lowered, or it only renames a value.
        block = op.id.rpartition("/")[0]
        is_reached = op.id in self.top or block in self.blocks
        is_constant = op.id in self.returning or op.id not in self.owners
        return "folded" if is_reached and is_constant else "not run"


def _parts(op_id: str) -> Iterator[str]:
    """Returns the enclosing graphs, innermost first: `main/7/body` … `main` for `main/7/body/3`."""
    while "/" in op_id:
        op_id = op_id.rpartition("/")[0]
        yield op_id
