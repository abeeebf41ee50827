"""Contract of a type of classical model: one row of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from coremlscope.model.ir import Classical, Feature
from coremlscope.model.schema import Message
from coremlscope.ops.classical.interface import Interface
from coremlscope.ops.spec import Work
from coremlscope.ops.view import OpView

#: A property of a model and its value, in words.
Fact = tuple[str, str]
_Content = TypeVar("_Content", bound=Classical)


class ClassicalType(msgspec.Struct, Generic[_Content], frozen=True, kw_only=True):
    """One row of the table of classical models.

    Attributes:
        content: The dataclass of the parameters.
        read: Reads the parameters from the message of the specification. Raises CorruptModelError where they
            contradict each other.
        lower: Writes the ONNX nodes and gives every output. Raises CorruptModelError where the parameters do
            not fit the features, UnsupportedModelError where a form of the model cannot be run.
        work: FLOPs and bytes of the model, seen as one operation; see `as_function`.
        describe: What `inspect` shows of the parameters.
        absent_values: Values for optional inputs that are absent, by name; None where the type defines none.
            Takes the parameters, the absent inputs, and the values that are given.
    """

    content: type[_Content]
    read: Callable[[Message], _Content]
    lower: Callable[[_Content, Interface], None]
    work: Callable[[OpView], Work]
    describe: Callable[[_Content], Iterable[Fact]]
    absent_values: Callable[[_Content, Sequence[Feature], Mapping[str, Any]], Mapping[str, Any]] | None = None

    @property
    def kind(self) -> str:
        """Apple's name of the model type."""
        return self.content.kind
