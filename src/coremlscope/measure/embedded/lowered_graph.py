"""The lowered graph for attribution: the producer of each value and the operations of each node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from coremlscope.ops.program import MERGED, OnnxProgram

#: Operators whose results depend on static shapes only, so that engines compute them before run time.
_OF_SHAPES = frozenset({"Shape", "Size"})
#: Operators with random results: equal nodes are not common subexpressions.
_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


class LoweredNode(msgspec.Struct, frozen=True, kw_only=True):
    """A top-level node of the lowered graph, with everything nested in it.

    Attributes:
        op_type: ONNX's name of its operator.
        inputs: The values that it reads, those read inside its nested graphs included.
        outputs: The values that it produces.
        ops: Ids of the operations that it implements.
        inner: Ids of the operations that run inside its nested graphs.
        number: Equal for nodes that compute the same result from the same inputs.
    """

    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ops: frozenset[str]
    inner: frozenset[str]
    number: int


class LoweredGraph:
    """The nodes of a lowered program in order, and the producer of each value.

    Nodes are looked up by their own name and by the names of their results.
    """

    def __init__(self, program: OnnxProgram) -> None:
        self.nodes: list[LoweredNode] = []
        self.maker: dict[str, int] = {}
        #: The first result of each node, by the node's name and by the name of each result.
        self.result: dict[str, str] = {}
        self.constants: set[str] = {tensor.name for tensor in program.model.graph.initializer}
        self._numbers: dict[Any, int] = {}
        #: The operations that have a node: of their own, or the first one that does their work, too.
        self._alive = {
            program.owners.get(name, "") for node in program.model.graph.node for name in node.output
        }
        for node in program.model.graph.node:
            self._add(node, program)

    def _add(self, node: Any, program: OnnxProgram) -> None:
        outputs = tuple(name for name in node.output if name)
        ops = frozenset(program.owners.get(name, "") for name in outputs) - {""}
        merged = "\n".join(entry.value for entry in node.metadata_props if entry.key == MERGED)
        ops |= {program.owners.get(name, "") for name in merged.split("\n")} - self._alive - {""}
        self._alive |= ops
        inner = frozenset(program.owners.get(name, "") for name in _made_inside(node)) - {""} - ops
        read = [name for name in node.input if name]
        read += sorted(_read_inside(node) - set(read))
        index = len(self.nodes)
        number = self._number(node, index)
        self.nodes.append(
            LoweredNode(
                op_type=node.op_type, inputs=tuple(read), outputs=outputs, ops=ops, inner=inner, number=number
            )
        )
        self.maker.update((name, index) for name in outputs)
        if outputs:
            self.result.update(dict.fromkeys((node.name, *outputs), outputs[0]))

    def _number(self, node: Any, index: int) -> int:
        """Returns equal numbers for common subexpressions."""
        if node.op_type in _RANDOM or any(True for _ in _graphs(node)):
            return self._numbers.setdefault(index, len(self._numbers))
        inputs: list[tuple[str, int, int]] = []
        for name in node.input:
            maker = self.maker.get(name)
            if maker is None:
                inputs.append((name, -1, 0))
            else:
                inputs.append(("", self.nodes[maker].number, self.nodes[maker].outputs.index(name)))
        attributes = sorted(a.SerializeToString(deterministic=True) for a in node.attribute)
        key = (node.op_type, node.domain, tuple(inputs), tuple(attributes))
        return self._numbers.setdefault(key, len(self._numbers))

    def folded(self, made: set[str]) -> set[int]:
        """Returns the nodes that the engine computed before run time; their values become constants.

        Args:
            made: Values that engine nodes produce at run time.
        """
        found = set()
        for index, node in enumerate(self.nodes):
            known = node.op_type in _OF_SHAPES or all(name in self.constants for name in node.inputs)
            if known and node.op_type not in _RANDOM and not made.intersection(node.outputs):
                found.add(index)
                self.constants.update(node.outputs)
        return found


def _graphs(node: Any) -> Iterator[Any]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _made_inside(node: Any) -> Iterator[str]:
    for graph in _graphs(node):
        for inner in graph.node:
            yield from inner.output
            yield from _made_inside(inner)


def _read_inside(node: Any) -> set[str]:
    """Returns the values of the enclosing graph that a node's nested graphs read."""
    read: set[str] = set()
    for graph in _graphs(node):
        names = {value.name for value in graph.output}
        made = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
        for inner in graph.node:
            names.update(inner.input)
            names |= _read_inside(inner)
            made.update(inner.output)
        read |= names - made
    return read - {""}
