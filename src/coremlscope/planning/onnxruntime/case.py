"""An operator of an ONNX graph as the provider's rules see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from coremlscope.base.arrays import np
from coremlscope.formats.onnx.graph import Graph, Node
from coremlscope.model.ir import Constant, DType, TensorType

#: The format of Core ML models that the provider makes.
Format = Literal["neuralnetwork", "mlprogram"]
FORMATS: tuple[Format, ...] = ("neuralnetwork", "mlprogram")
#: A release of ONNX Runtime.
Release = tuple[int, int]


class ProviderSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a session uses the provider.

    Attributes:
        format: The format of Core ML models; `neuralnetwork` is the provider's own default.
        release: The release of ONNX Runtime.
        core_ml: The version of Core ML: 5 for macOS 12 and iOS 15, 6 and 7 for the next two, then 8.
        is_static: Whether the option RequireStaticInputShapes is 1.
        on_subgraphs: Whether the option EnableOnSubgraphs is 1.
    """

    format: Format = "neuralnetwork"
    release: Release = (1, 32)
    core_ml: int = 8
    is_static: bool = False
    on_subgraphs: bool = False


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """An operator in its graph.

    Attributes:
        node: The operator.
        since: The version of the operator set in which its definition is from.
        settings: How a session uses the provider.
        graph: Its graph.
        outer: The graphs around it.
        consumers: The operators that read a value.
        makers: The operator that makes a value.
        is_taken: Whether the provider takes an operator that makes one of the inputs.
        given: The names that a session may override.
    """

    node: Node
    since: int
    settings: ProviderSettings
    graph: Graph
    outer: tuple[Graph, ...] = ()
    consumers: Mapping[str, tuple[Node, ...]]
    makers: Mapping[str, Node]
    is_taken: Callable[[Node], bool]
    given: frozenset[str] = frozenset()

    @property
    def is_program(self) -> bool:
        """True for ML Programs."""
        return self.settings.format == "mlprogram"

    def attribute(self, name: str, default: object = None) -> object:
        """Returns an attribute."""
        return self.node.attributes.get(name, default)

    def number(self, name: str, default: int) -> int:
        """Returns an attribute that is an integer."""
        value = self.node.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def numbers(self, name: str) -> tuple[int, ...]:
        """Returns an attribute that is a list of integers; empty if it is absent."""
        value = self.node.attributes.get(name, ())
        return tuple(int(one) for one in value) if isinstance(value, tuple) else ()

    def text(self, name: str, default: str) -> str:
        """Returns an attribute that is a text."""
        value = self.node.attributes.get(name, default)
        return value if isinstance(value, str) else default

    def name(self, index: int) -> str:
        """Returns the name of an input; empty if it is not given."""
        return self.node.inputs[index] if index < len(self.node.inputs) else ""

    def is_listed(self, index: int) -> bool:
        """True if the list of inputs is that long, also with an empty name."""
        return index < len(self.node.inputs)

    def type_of(self, name: str) -> TensorType | None:
        """Returns the type of a value."""
        for graph in (self.graph, *self.outer):
            if name in graph.types:
                return graph.types[name]
        return None

    def dtype(self, index: int) -> DType | None:
        """Returns the element type of an input."""
        type_ = self.type_of(self.name(index))
        return None if type_ is None else type_.dtype

    def shape(self, index: int) -> tuple[int, ...] | None:
        """Returns the shape of an input, with -1 for unknown dimensions; None if the rank is unknown."""
        return self.shape_of(self.name(index))

    def dims(self, index: int) -> tuple[int, ...]:
        """Returns the shape of an input whose rank is known, because it was checked before."""
        return self.shape(index) or ()

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """Returns the shape of a value, with -1 for unknown dimensions; None if the rank is unknown."""
        type_ = self.type_of(name)
        if type_ is None or type_.shape is None:
            return None
        return tuple(-1 if size is None else size for size in type_.shape)

    def initializer(self, index: int) -> Constant | None:
        """Returns an input that is an initializer of the same graph, also if a session may override it."""
        return self.graph.constants.get(self.name(index))

    def constant(self, index: int) -> Constant | None:
        """Returns an input that is a constant, of this graph or one around it, that no session overrides."""
        name = self.name(index)
        for graph in (self.graph, *self.outer):
            if name in graph.constants:
                return None if name in self.given else graph.constants[name]
        return None

    def integers(self, index: int) -> tuple[int, ...] | None:
        """Returns the elements of a constant input of int32 or int64; None for other inputs."""
        known = self.constant(index)
        if known is None or not known.is_available or self.dtype(index) not in (DType.INT32, DType.INT64):
            return None
        return tuple(int(one) for one in np.asarray(known.numpy()).reshape(-1))

    def floats(self, index: int) -> tuple[float, ...] | None:
        """Returns the elements of a constant input of floats; None for other inputs."""
        known = self.constant(index)
        if known is None or not known.is_available:
            return None
        return tuple(float(one) for one in np.asarray(known.numpy()).reshape(-1))

    @property
    def rank(self) -> int:
        """The rank of the first input, which was checked before."""
        return len(self.dims(0))
