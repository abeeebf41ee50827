"""What the graphs of a program are read through: how its attributes and types are encoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from coremlscope.formats.aimodel.bytecode import Bytecode, Operation
from coremlscope.formats.aimodel.dialect import Attribute, Type

__all__ = ["Encoding", "Origin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where an operation comes from, as far as the file tells.

    Attributes:
        nodes: Names of the nodes of the PyTorch program: `convolution_2`.
        modules: The path of modules, outermost first: `TinyConv$1`, `Sequential$1`, `Linear$1`.
        id: The number that coreai-core gave to the operation; None if there is none.
    """

    nodes: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    id: int | None = None


class Encoding(Protocol):
    """Decodes the types, attributes and locations of a program.

    Attributes:
        bytecode: The content of the file.
        program: The name of the only operation at the top level.
        prefix: Begins the names of attributes of inputs and outputs.
        unknown: How often each encoding that is not known is used.
    """

    bytecode: Bytecode
    program: str
    prefix: str
    unknown: dict[str, int]

    def type(self, index: int) -> Type:
        """Returns a type by its index.

        Raises:
            CorruptModelError: It is damaged.
        """

    def attributes(self, name: str, op: Operation) -> Mapping[str, Attribute]:
        """Returns the attributes of an operation by name.

        Args:
            name: The name of the operation in coreai-core, without dialect and version.
            op: The operation in the file.

        Raises:
            CorruptModelError: They are damaged.
        """

    def origin(self, op: Operation) -> Origin:
        """Returns where an operation comes from."""
