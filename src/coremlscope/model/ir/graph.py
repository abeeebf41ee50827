"""Programs: functions, graphs, operations and values, frozen and independent of file formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from coremlscope.model.ir.data import Constant
from coremlscope.model.ir.types import Shape, ValueType

if TYPE_CHECKING:
    from coremlscope.model.ir.model import Model


class Value(msgspec.Struct, frozen=True):
    """A named result of an operation or input of a graph, with the type declared in the file."""

    name: str
    type: ValueType


#: The kind of programs of Core AI.
CORE_AI = "coreAIProgram"
#: An argument of an operation's parameter.
Argument = Value | Constant


class Layer(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A layer of a neural network, from which operations were translated.

    Attributes:
        name: The author's name for it.
        type: Apple's name of its type: `innerProduct`.
        problem: The reason why the layer could not be translated into operations; empty if it was.
        doubt: What is not known of the layer, so that its operations can be planned but not run; empty if
            everything is known.
        is_timeable: True if only the weights are in doubt, so that it can be run with random ones.
        inputs: Names of its inputs in the file.
        outputs: Names of its outputs in the file.
    """

    name: str
    type: str
    problem: str = ""
    doubt: str = ""
    is_timeable: bool = False
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layer) and self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash(self._compared())

    def _compared(self) -> tuple[str, ...]:
        return self.name, self.type, self.problem, self.doubt


class Op(msgspec.Struct, frozen=True, kw_only=True):
    """One operation.

    Attributes:
        id: Stable path within the model: function, index in its graph, block, index in the block:
            `main/12`, `main/7/body/3`. Indices count every operation in the file, including `const`.
        type: Apple's name of the operation without an opset: `conv`.
        inputs: The arguments of each parameter, in the file's order. A variadic parameter has several.
        outputs: The results.
        blocks: Nested graphs of control flow, in Apple's order.
        attributes: Other attributes in the file: `name`, and `val` for `const`.
        layer: In a neural network, the layer from which the operation was translated.
    """

    id: str
    type: str
    inputs: Mapping[str, tuple[Argument, ...]]
    outputs: tuple[Value, ...]
    blocks: tuple[Graph, ...] = ()
    attributes: Mapping[str, Constant] = msgspec.field(default_factory=dict)
    layer: Layer | None = None

    @property
    def name(self) -> str:
        """The author's name for the operation, or else the name of its first output, or else its id."""
        given = self.attributes.get("name")
        if given is not None:
            return str(given.item())
        return self.outputs[0].name if self.outputs else self.id

    @property
    def constant(self) -> Constant | None:
        """The value of a `const` operation; None for all other operations."""
        return self.attributes.get("val") if self.type == "const" else None


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """A list of operations in execution order.

    Attributes:
        name: The name of the function, or the role of a block: `body`, `cond`, `true`, `false`.
        inputs: The input values.
        ops: The operations.
        outputs: The output values: results of `ops` or of an enclosing graph, or inputs.
        attributes: Attributes in the file.
    """

    name: str
    inputs: Sequence[Value]
    ops: Sequence[Op]
    outputs: tuple[Value, ...]
    attributes: Mapping[str, Constant] = msgspec.field(default_factory=dict)

    def walk(self) -> Iterator[Op]:
        """Iterates over all operations, each before the operations of its nested blocks."""
        for op in self.ops:
            yield op
            for block in op.blocks:
                yield from block.walk()


class Function(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """An entry point of a program.

    Attributes:
        name: Its name, usually `main` for the default function.
        opset: Apple's name of the operation set: `CoreML7`.
        graph: The body. Its inputs are the function's inputs, including states.
        attributes: Attributes in the file.
        specialise: Creates the function for other input shapes; None if the body is valid for all shapes.
            The operations into which the layers of a neural network are translated depend on the shapes.
        layers: The layers of a neural network in the file's order, including nested ones. The `layer`
            attributes of operations are the same objects.
    """

    name: str
    opset: str
    graph: Graph
    attributes: Mapping[str, Constant] = msgspec.field(default_factory=dict)
    specialise: Callable[[Mapping[str, Shape]], Function] | None = None
    layers: tuple[Layer, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Function) and self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash((self.name, self.opset))

    def _compared(self) -> tuple[object, ...]:
        return self.name, self.opset, self.graph, self.attributes, self.layers


class Content:
    """What a model consists of. Each kind overrides what it has; the others have nothing of it.

    Who walks over functions or stages of any model needs no class of content.
    """

    __slots__ = ()

    @property
    def kind(self) -> str:
        """Apple's name of the model type: `mlProgram`, `treeEnsembleClassifier`, …"""
        raise NotImplementedError

    @property
    def functions(self) -> Mapping[str, Function]:
        """The functions of a program by name."""
        return {}

    @property
    def models(self) -> tuple[Model, ...]:
        """The models of a pipeline, in order."""
        return ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of these models; empty strings for models without a name."""
        return ()

    @property
    def labels(self) -> Sequence[str | int]:
        """The classes of a classifier without operations."""
        return ()

    @property
    def absent(self) -> str:
        """Why the computation is not in the file, as a clause; empty where it is."""
        return ""

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """The known shapes of outputs by name, where the computation is not in the file."""
        return {}

    @property
    def is_network(self) -> bool:
        """True for a neural network, whose layers do not specify a precision."""
        return False

    @property
    def is_typed(self) -> bool:
        """True for a program whose operations declare the types of their results: no neural network."""
        return False

    @property
    def is_core_ai(self) -> bool:
        """True for a program of Core AI, which Core ML does not run."""
        return False


class Program(msgspec.Struct, Content, frozen=True, kw_only=True):
    """An ML Program, or a neural network translated into the same operations.

    Attributes:
        functions: Functions by name, in the file's order.
        version: The program's version in the file.
        doc: The documentation string in the file.
        attributes: Attributes in the file.
        kind: Apple's name of the model type: `mlProgram`, `neuralNetwork`, `neuralNetworkClassifier` or
            `neuralNetworkRegressor`; `coreAIProgram` for a Core AI model.
    """

    functions: Mapping[str, Function]
    version: int = 1
    doc: str = ""
    attributes: Mapping[str, Constant] = msgspec.field(default_factory=dict)
    kind: str = "mlProgram"

    @property
    def is_network(self) -> bool:
        return self.kind not in ("mlProgram", CORE_AI)

    @property
    def is_typed(self) -> bool:
        return self.kind in ("mlProgram", CORE_AI)

    @property
    def is_core_ai(self) -> bool:
        return self.kind == CORE_AI
