"""A program: functions, graphs, operations, values. Frozen, and free of any file format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from coremlscope.ir.data import Constant
from coremlscope.ir.types import Shape, ValueType

__all__ = ["Argument", "Function", "Graph", "Layer", "Op", "Program", "Value"]


@dataclass(frozen=True, slots=True)
class Value:
    """A named result of an operation, or an input of a graph, with the type that the file declares."""

    name: str
    type: ValueType


#: What an operation's parameter is bound to.
Argument = Value | Constant


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The layer of a neural network that an operation was made from.

    Attributes:
        name: The author's name of it.
        type: Apple's name of its type: `innerProduct`.
        problem: Why the layer could not be made into operations of a program; empty where it could.
        inputs: What it takes, as the file calls it.
        outputs: What it gives, as the file calls it.
    """

    name: str
    type: str
    problem: str = ""
    inputs: tuple[str, ...] = field(default=(), compare=False)
    outputs: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One operation.

    Attributes:
        id: Stable within the model: function, index in its graph, and so on downwards: `main/12`,
            `main/7/body/3`. Every operation of the file counts, `const` included.
        type: Apple's name of the operation without an opset: `conv`.
        inputs: The arguments of each parameter, in the file's order. A variadic parameter has several.
        outputs: The results.
        blocks: Nested graphs of control flow, in the order in which Apple defines them.
        attributes: What else the file says: `name`, for `const` also `val`.
        layer: Where the model is a neural network, the layer that the operation is a part of.
    """

    id: str
    type: str
    inputs: Mapping[str, tuple[Argument, ...]]
    outputs: tuple[Value, ...]
    blocks: tuple[Graph, ...] = ()
    attributes: Mapping[str, Constant] = field(default_factory=dict)
    layer: Layer | None = None

    @property
    def name(self) -> str:
        """The author's name of the operation, else that of its first output, else its id."""
        given = self.attributes.get("name")
        if given is not None:
            return str(given.item())
        return self.outputs[0].name if self.outputs else self.id

    @property
    def constant(self) -> Constant | None:
        """The value of a `const` operation; None for all others."""
        return self.attributes.get("val") if self.type == "const" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A list of operations in execution order.

    Attributes:
        name: What the block is to its owner: the function's name, or `body`, `cond`, `true`, `false`.
        inputs: The values that come in.
        ops: The operations.
        outputs: The values that go out; results of `ops`, of an enclosing graph, or inputs.
    """

    name: str
    inputs: tuple[Value, ...]
    ops: tuple[Op, ...]
    outputs: tuple[Value, ...]
    attributes: Mapping[str, Constant] = field(default_factory=dict)

    def walk(self) -> Iterator[Op]:
        """Every operation, nested blocks included, each owner before its blocks."""
        for op in self.ops:
            yield op
            for block in op.blocks:
                yield from block.walk()


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """An entry point.

    Attributes:
        name: Its name; the default one is mostly `main`.
        opset: Apple's name of the operation set: `CoreML7`.
        graph: The body. Its inputs are the function's inputs, states included.
        specialise: Makes the function anew for other shapes of its inputs; None where the body holds for all
            shapes. What operations the layers of a neural network come to depends on their shapes.
        layers: The layers of a neural network, nested ones included, in the file's order; operations refer to
            these very objects.
    """

    name: str
    opset: str
    graph: Graph
    attributes: Mapping[str, Constant] = field(default_factory=dict)
    specialise: Callable[[Mapping[str, Shape]], Function] | None = field(default=None, compare=False)
    layers: tuple[Layer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """An ML Program, or a neural network in the same vocabulary.

    Attributes:
        functions: By name, in the file's order.
        version: The version that the file gives its program.
        kind: Apple's name of the model type: `mlProgram`, `neuralNetwork`, `neuralNetworkClassifier` or
            `neuralNetworkRegressor`.
    """

    functions: Mapping[str, Function]
    version: int = 1
    doc: str = ""
    attributes: Mapping[str, Constant] = field(default_factory=dict)
    kind: str = "mlProgram"

    @property
    def is_network(self) -> bool:
        """True for a neural network: its layers have no precision of their own."""
        return self.kind != "mlProgram"
