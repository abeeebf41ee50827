"""What is run: a model, its function, and what it is given."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from coremlscope.model.ir import Model

#: The source of a model: a path, the bytes of a specification, or a model that was already read.
Source = str | os.PathLike[str] | bytes | Model


class Subject(msgspec.Struct, frozen=True):
    """A model with the function that is run, and its inputs. Functions take a model alone as well.

    Attributes:
        model: The model.
        function: The function; None for the default one.
        shapes: Shapes of flexible inputs, instead of the defaults.
        inputs: Values of inputs by name; absent ones are synthetic.
        seed: Seed of synthetic inputs and weights.
        random_weights: Replaces absent weights by synthetic ones.
    """

    model: Source
    function: str | None = None
    shapes: Mapping[str, Sequence[int]] = msgspec.field(default_factory=dict)
    inputs: Mapping[str, Any] = msgspec.field(default_factory=dict)
    seed: int = 0
    random_weights: bool = False

    @classmethod
    def of(cls, source: Source | Subject) -> Subject:
        """Returns a subject, or that of a model alone."""
        return source if isinstance(source, Subject) else cls(source)

    @property
    def bound_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes, as tuples."""
        return {name: tuple(shape) for name, shape in self.shapes.items()}
