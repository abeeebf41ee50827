"""A part that was cut out of a model of any kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from coremlscope.model.ir import Array, ArrayFeature, Model
from coremlscope.ops.program import Precision
from coremlscope.results.isolation import IsolatedUnit
from coremlscope.runtime.engines.base import EngineOptions

#: How values are computed that must not depend on where a part ends.
EXACT = EngineOptions(fuses=False)
#: Tensors by name.
Values = Mapping[str, Array]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a model as a model of its own.

    Attributes:
        model: The part.
        units: What it consists of.
        inputs: The values of its inputs in the whole model, in the types of its interface; empty if they
            were not computed.
        expected: Its outputs as the whole model computes them; empty if they were not computed.
        states: The content of its states where the part begins.
        precision: The precision in which values of the whole model are computed.
        spec: The serialised specification of a neural network; empty for ML Programs.
    """

    model: Model
    units: tuple[IsolatedUnit, ...]
    inputs: Values = msgspec.field(default_factory=dict)
    expected: Values = msgspec.field(default_factory=dict)
    states: Values = msgspec.field(default_factory=dict)
    precision: Precision = "fp32"
    spec: bytes = b""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of inputs that differ from the declared ones: sequences of a neural network."""
        declared = {f.name: f.type for f in self.model.description.main.inputs}
        return {
            name: array.shape
            for name, array in self.inputs.items()
            if isinstance(type_ := declared[name], ArrayFeature) and array.shape != type_.shape
        }


class Cutter(Protocol):
    """Cuts parts out of a model."""

    #: The suffix of the files that `write` writes.
    suffix: str
    #: Operations that can be chosen, in the order in which they run.
    units: tuple[IsolatedUnit, ...]

    def cut(self, chosen: Sequence[int]) -> Part:
        """Cuts out the units of these indices, with the values that they read and compute."""

    def write(self, part: Part, path: Path, *, overwrite: bool = False) -> None:
        """Writes a part as a model file."""
