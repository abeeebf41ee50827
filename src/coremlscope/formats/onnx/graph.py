"""ONNX models as plain data: nodes, values and constants, independent of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

import msgspec

from coremlscope.model.ir import Constant, TensorType

#: A dimension: its size, the name of a free one, or None.
Dim = int | str | None
#: The value of an attribute.
AttributeValue = (
    "int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | Constant | Graph | None"
)
#: The names of ONNX's own domain.
OWN_DOMAINS = frozenset({"", "ai.onnx"})


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """An operator.

    Attributes:
        op: Its type: `Conv`.
        domain: The domain of the type; empty for ONNX's own.
        name: The author's name; may be empty.
        inputs: The names of its inputs; an empty name is an input that is not given.
        outputs: The names of its results.
        attributes: Its attributes by name.
    """

    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, object]

    @property
    def is_own(self) -> bool:
        """True for operators of ONNX's own domain."""
        return self.domain in OWN_DOMAINS

    @property
    def bodies(self) -> tuple[Graph, ...]:
        """The graphs in its attributes."""
        return tuple(value for value in self.attributes.values() if isinstance(value, Graph))

    @property
    def label(self) -> str:
        """The author's name, or else the name of its first result."""
        return self.name or next(filter(None, self.outputs), self.op)

    def reads(self) -> Iterator[str]:
        """Yields the names that it reads, those that its bodies read from outside included."""
        yield from filter(None, self.inputs)
        for body in self.bodies:
            yield from body.outer_names()


class Signature(msgspec.Struct, frozen=True):
    """An input or output of a graph. `type` is None if it is no tensor, and has None for free dimensions.

    Attributes:
        name: Its name.
        type: Its type.
        dims: Its dimensions, with the names of free ones; empty if the rank is unknown.
    """

    name: str
    type: TensorType | None
    dims: tuple[Dim, ...] = ()


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """A graph: that of the model, or the body of an operator.

    Attributes:
        name: Its name.
        inputs: Its inputs; up to version 3 of the format, constants are among them.
        outputs: Its outputs.
        nodes: Its operators, each after those whose results it reads.
        constants: The constants by name: initializers and the values of `Constant` operators.
        types: The known types of values by name.
        external: The names of constants whose elements are in another file.
        raw: The names of constants whose elements are stored as bytes, not as numbers.
    """

    name: str
    inputs: Sequence[Signature]
    outputs: Sequence[Signature]
    nodes: Sequence[Node]
    constants: Mapping[str, Constant]
    types: Mapping[str, TensorType]
    external: frozenset[str] = frozenset()
    raw: frozenset[str] = frozenset()

    def outer_names(self) -> set[str]:
        """Returns the names that its operators and outputs read and that it does not define."""
        own = {one.name for one in self.inputs} | self.constants.keys()
        outer: set[str] = set()
        for node in self.nodes:
            outer.update(name for name in node.reads() if name not in own)
            own.update(node.outputs)
        outer.update(one.name for one in self.outputs if one.name not in own)
        return outer

    def walk(self) -> Iterator[tuple[Graph, Node]]:
        """Iterates over all operators with their graphs, each before those of its bodies."""
        for node in self.nodes:
            yield self, node
            for body in node.bodies:
                yield from body.walk()


class OnnxModel(msgspec.Struct, frozen=True, kw_only=True):
    """An ONNX model.

    Attributes:
        path: The file.
        graph: Its graph.
        ir_version: The version of the format.
        opsets: The version of each domain's operators; ONNX's own domain is `""`.
        functions: The names of the functions in the file that operators call, with their domains.
        producer: The program that wrote it, with its version; may be empty.
        metadata: The author's information.
        size_bytes: The size of the file and of its external data.
        absent: Files of external data that are missing.
    """

    path: Path
    graph: Graph
    ir_version: int
    opsets: Mapping[str, int]
    functions: frozenset[tuple[str, str]] = frozenset()
    producer: str = ""
    metadata: Mapping[str, str] = msgspec.field(default_factory=dict)
    size_bytes: int = 0
    absent: tuple[str, ...] = ()

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators."""
        return self.opsets.get("", 1)

    @property
    def free_inputs(self) -> Sequence[Signature]:
        """The inputs that a session is given: those that are not constants."""
        return [one for one in self.graph.inputs if one.name not in self.graph.constants]

    @property
    def is_half(self) -> bool:
        """True if constants or inputs are of 16-bit floats."""
        return any(
            isinstance(type_, TensorType) and type_.dtype.value == "fp16"
            for type_ in self.graph.types.values()
        )


def bypass(graph: Graph, ops: Set[str]) -> Graph:
    """Returns a graph without operators of some types, whose first input takes the place of their result.

    Operators whose result a body reads stay.
    """
    kept = {name for node in graph.nodes for body in node.bodies for name in body.outer_names()}
    names: dict[str, str] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.is_own and node.op in ops and node.outputs[0] not in kept:
            names[node.outputs[0]] = names.get(node.inputs[0], node.inputs[0])
        else:
            inputs = tuple(names.get(one, one) for one in node.inputs)
            nodes.append(msgspec.structs.replace(node, inputs=inputs))
    outputs = [msgspec.structs.replace(one, name=names.get(one.name, one.name)) for one in graph.outputs]
    return msgspec.structs.replace(graph, nodes=nodes, outputs=outputs)


def sort_nodes(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Returns operators so that each is after those whose results it reads, else in the given order.

    Raises:
        ValueError: Two operators define one name, or some read each other's results.
    """
    makers: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.outputs):
            if makers.setdefault(name, index) != index:
                raise ValueError(f"two operators define {name!r}")
    sources = [{makers[name] for name in node.reads() if name in makers} for node in nodes]
    if all(not given or max(given) < index for index, given in enumerate(sources)):
        return tuple(nodes)
    order = _order(sources)
    if len(order) < len(nodes):
        stuck = nodes[min(set(range(len(nodes))).difference(order))]
        raise ValueError(f"there is a cycle through {stuck.op} {stuck.label!r}")
    return tuple(nodes[index] for index in order)


def _order(sources: Sequence[Set[int]]) -> list[int]:
    """Returns indices so that each is after its sources; those in cycles are left out."""
    consumers: dict[int, list[int]] = {}
    for index, given in enumerate(sources):
        for maker in given:
            consumers.setdefault(maker, []).append(index)
    left = [len(given) for given in sources]
    order = [index for index, count in enumerate(left) if not count]
    for index in order:
        for consumer in consumers.get(index, ()):
            left[consumer] -= 1
            if not left[consumer]:
                order.append(consumer)
    return order
