"""Named intermediate values of one run, of any framework: what pairing and comparison work on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

import msgspec

from coremlscope.model.ir import Array


class Parameter(msgspec.Struct, frozen=True):
    """A constant that an operation reads: a weight, an epsilon.

    Attributes:
        name: Its name: that of the operation's parameter, or of the weight.
        size: The number of elements.
        read: Returns the elements.
    """

    name: str
    size: int
    read: Callable[[], Array]


class Intermediate(msgspec.Struct, frozen=True, kw_only=True):
    """One value of a run.

    Attributes:
        name: Its name, unique in the run.
        array: The elements.
        op: The id of the operation that computes it, or its name; empty for inputs.
        type: The type of that operation in the words of the framework: `conv`, `Conv`, `aten.conv2d`.
        inputs: Names of the values that the operation reads, constants excluded.
        parameters: The constants that it reads.
    """

    name: str
    array: Array
    op: str = ""
    type: str = ""
    inputs: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The values of one run.

    Attributes:
        label: What ran: `ONNX Runtime 1.31.1, model.onnx`.
        values: All values by name, each after those that it is computed from; inputs first.
        outputs: The name of the value of each output, in order.
        has_intermediates: False if only the outputs are known.
        states: The names of those outputs that are the content of states, or buffers, after the run.
        initial: What states held before the first call, by the name of the value that holds their content
            afterwards, as far as that is known.
        by_order: The inputs of a reference that were assigned by their order, though others would fit as
            well: the name of the model's input by that of the reference's.
    """

    label: str
    values: Mapping[str, Intermediate]
    outputs: Mapping[str, str]
    has_intermediates: bool = True
    states: frozenset[str] = frozenset()
    initial: Mapping[str, Array] = {}
    by_order: Mapping[str, str] = {}
    _readers: dict[str, list[str]] = {}

    @property
    def readers(self) -> Mapping[str, list[str]]:
        """The names of the values that are computed from each value."""
        if not self._readers:
            for value in self.values.values():
                self._readers.setdefault(value.name, [])
                for name in value.inputs:
                    self._readers.setdefault(name, []).append(value.name)
        return self._readers

    @classmethod
    def of_outputs(
        cls,
        label: str,
        inputs: Mapping[str, Array],
        outputs: Mapping[str, Array],
        states: Collection[str] = (),
        *,
        has_intermediates: bool = False,
    ) -> Run:
        """Returns a run of which the inputs and outputs are known, and nothing in between; see the
        attributes."""
        values = {name: Intermediate(name=name, array=array) for name, array in inputs.items()}
        made = {name: Intermediate(name=name, array=array, op=name) for name, array in outputs.items()}
        return cls(
            label=label,
            values={**values, **made},
            outputs={name: name for name in outputs},
            has_intermediates=has_intermediates,
            states=frozenset(states),
        )

    @property
    def results(self) -> dict[str, Array]:
        """The elements of the outputs by name."""
        return {name: self.values[value].array for name, value in self.outputs.items()}

    def output(self, name: str) -> Array:
        """Returns the elements of an output."""
        return self.values[self.outputs[name]].array

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
