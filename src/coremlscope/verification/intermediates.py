"""Named intermediate values of one run, of any framework: what pairing and comparison work on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from coremlscope.model.ir import Array

__all__ = ["Intermediate", "Parameter", "Run"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A constant that an operation reads: a weight, an epsilon.

    Attributes:
        name: Its name: that of the operation's parameter, or of the weight.
        size: The number of elements.
        read: Returns the elements.
    """

    name: str
    size: int
    read: Callable[[], Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intermediate:
    """One value of a run.

    Attributes:
        name: Its name, unique in the run.
        array: The elements.
        op: The id of the operation that computes it, or its name; empty for inputs.
        type: The type of that operation in the words of the framework: `conv`, `Conv`, `aten.conv2d`.
        inputs: Names of the values that the operation reads, constants excluded.
        parameters: The constants that it reads.
        scope: The path of its module in the author's code: `encoder.layers.0.norm1`; empty if unknown.
    """

    name: str
    array: Array
    op: str = ""
    type: str = ""
    inputs: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    scope: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The values of one run.

    Attributes:
        label: What ran: `ONNX Runtime 1.31.1, model.onnx`.
        values: All values by name, each after those that it is computed from; inputs first.
        outputs: The name of the value of each output, in order.
        has_intermediates: False if only the outputs are known.
        states: The names of those outputs that are the content of states, or buffers, after the run.
        by_order: The inputs of a reference that were assigned by their order, though others would fit as
            well: the name of the model's input by that of the reference's.
    """

    label: str
    values: Mapping[str, Intermediate]
    outputs: Mapping[str, str]
    has_intermediates: bool = True
    states: frozenset[str] = frozenset()
    by_order: Mapping[str, str] = field(default_factory=dict)
    _readers: dict[str, list[str]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def readers(self) -> Mapping[str, list[str]]:
        """The names of the values that are computed from each value."""
        if not self._readers:
            for value in self.values.values():
                self._readers.setdefault(value.name, [])
                for name in value.inputs:
                    self._readers.setdefault(name, []).append(value.name)
        return self._readers

    def output(self, name: str) -> Array:
        """Returns the elements of an output."""
        return self.values[self.outputs[name]].array

    def arrays(self) -> dict[str, Array]:
        """Returns the elements of all values by name."""
        return {value.name: value.array for value in self.values.values()}

    def above(self, name: str, stop: Callable[[str], bool]) -> Iterator[str]:
        """Iterates over a value and those that it is computed from, up to and including those that stop it.

        Args:
            name: The value.
            stop: Whether the values above another one are left out.
        """
        waiting, seen = [name], {name}
        while waiting:
            current = waiting.pop()
            yield current
            value = self.values.get(current)
            if value is None or (current != name and stop(current)):
                continue
            for given in value.inputs:
                if given not in seen:
                    seen.add(given)
                    waiting.append(given)
