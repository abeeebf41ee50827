"""The arguments of operations: results and weights that they read, and constants as text."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping, Sequence
from typing import TypeAlias

import msgspec
import numpy as np

from coremlscope.base.errors import CoremlscopeError
from coremlscope.describe.weights import identify, storage_of, stored_bytes
from coremlscope.formats.weights import BlobData
from coremlscope.model.ir import (
    Argument,
    Constant,
    Graph,
    Immediate,
    Nested,
    Op,
    TensorType,
    Value,
    describe_type,
)
from coremlscope.results.operations import OpDetails, Signature, WeightKind, WeightTable

# The ranges and histograms of weights.

#: The most values that are read of one weight, and of all weights of a model.
_MOST, _MOST_OF_ALL = 1 << 18, 1 << 24
#: The most elements of a weight that has to be decoded as a whole.
_MOST_DECODED = 1 << 22
#: The intervals of a histogram, and the fewest values of a weight that has one.
_INTERVALS, _FEWEST = 16, 1024


class Values(msgspec.Struct, frozen=True):
    """The values of a weight; see `WeightTable`."""

    looked_at: int = 0
    least: float | None = None
    greatest: float | None = None
    histogram: tuple[int, ...] = ()


class ValueReader:
    """Reads values of weights, within a limit for all of them.

    Args:
        weights: The weights that share the limit; values of others are not read.
    """

    def __init__(self, weights: Sequence[Constant]) -> None:
        self._share = min(_MOST, _MOST_OF_ALL // max(len(weights), 1))
        self._keys = {id(constant) for constant in weights}

    def summarise(self, constant: Constant) -> Values:
        """Returns the range and the histogram of a weight; nothing where it cannot be read."""
        type_ = constant.type
        if id(constant) not in self._keys or not isinstance(type_, TensorType) or not type_.elements:
            return Values()
        is_mapped = isinstance(constant.data, BlobData) and type_.dtype.bits >= 8
        if not constant.is_available or not (is_mapped or type_.elements <= _MOST_DECODED):
            return Values()
        try:
            found = constant.numpy().reshape(-1)
        except (CoremlscopeError, ValueError, MemoryError):
            return Values()  # What is damaged is reported by what has to read it.
        if found.dtype.kind not in "fiub":
            return Values()
        step = -(-found.size // max(self._share, 1))
        return _summarise(found[::step].astype(np.float32))


def _summarise(values: np.ndarray[tuple[int], np.dtype[np.float32]]) -> Values:
    finite = values if np.isfinite(values).all() else values[np.isfinite(values)]
    if finite.size == 0:
        return Values(looked_at=values.size)
    least, greatest = float(finite.min()), float(finite.max())
    shares: tuple[int, ...] = ()
    if least < greatest and finite.size >= _FEWEST:
        counts, _ = np.histogram(finite, _INTERVALS, (least, greatest))
        shares = tuple(max(int(count > 0), round(1000 * count / finite.size)) for count in counts.tolist())
    return Values(values.size, float(f"{least:.4g}"), float(f"{greatest:.4g}"), shares)


#: Meaning of a name in a graph: a constant, the number of a result, or the name of an input.
Scope: TypeAlias = MutableMapping[str, "Constant | int | str"]

#: Constants in the program with up to this many elements are attributes; others are weights.
_MOST_ELEMENTS = 16
#: The longest text of an attribute.
_LONGEST = 160


class ArgumentLister:
    """Collects the arguments of operations, in the order of the rows of an op table."""

    def __init__(self) -> None:
        self._results = 0
        self._signatures: dict[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], int] = {}
        self._signature: list[int] = []
        self._arguments: list[tuple[int | str, ...]] = []
        self._places: dict[object, int] = {}
        self._weights: list[tuple[str, Constant]] = []

    def enter(self, graph: Graph, around: Scope | None) -> Scope:
        """Returns the names of a graph's inputs, inside those of the graph around it."""
        inputs: dict[str, Constant | int | str] = {value.name: value.name for value in graph.inputs}
        return ChainMap(inputs) if not isinstance(around, ChainMap) else around.new_child(inputs)

    def add(self, op: Op, scope: Scope) -> None:
        """Adds an operation; a constant only becomes known by its name."""
        content = op.constant
        if content is not None:
            for value in op.outputs:
                scope[value.name] = content
            return
        # Files keep parameters in no order; older operation sets store constants of some as attributes.
        sources: dict[str, tuple[Argument, ...]] = {**op.inputs}
        sources.update((name, (one,)) for name, one in op.attributes.items() if name != "name")
        given = [
            (name, self._resolve(argument, scope))
            for name, arguments in sorted(sources.items())
            for argument in arguments
        ]
        read = [(name, one) for name, one in given if not isinstance(one, Constant)]
        attributes = tuple((name, _text(one)) for name, one in given if isinstance(one, Constant))
        key = tuple(name for name, _ in read), attributes
        self._signature.append(self._signatures.setdefault(key, len(self._signatures)))
        self._arguments.append(tuple(one for _, one in read))
        for value in op.outputs:
            scope[value.name] = self._results
            self._results += 1

    def add_unknown(self, results: int) -> None:
        """Adds a row whose arguments are not known."""
        self._signature.append(-1)
        self._arguments.append(())
        self._results += results

    def details(self, *, reads_weights: bool) -> OpDetails:
        """Returns what was collected; the values of weights are read on request."""
        constants = [constant for _, constant in self._weights]
        reader = ValueReader(constants if reads_weights else ())
        values = [reader.summarise(constant) for constant in constants]
        kinds = [(describe_type(constant.type), storage_of(constant)) for constant in constants]
        distinct = {kind: place for place, kind in enumerate(dict.fromkeys(kinds))}
        return OpDetails(
            signatures=tuple(
                Signature(parameters=parameters, attributes=attributes)
                for parameters, attributes in self._signatures
            ),
            signature=tuple(self._signature),
            arguments=tuple(self._arguments),
            weights=WeightTable(
                kinds=tuple(WeightKind(type=type_, storage=storage) for type_, storage in distinct),
                name=tuple(name for name, _ in self._weights),
                kind=tuple(distinct[kind] for kind in kinds),
                stored_bytes=tuple(map(stored_bytes, constants)),
                looked_at=tuple(one.looked_at for one in values),
                least=tuple(one.least for one in values),
                greatest=tuple(one.greatest for one in values),
                histogram=tuple(one.histogram for one in values),
            ),
        )

    def _resolve(self, argument: Argument, scope: Scope) -> Constant | int | str:
        """Returns an attribute, or what an argument refers to."""
        name = argument.name if isinstance(argument, Value) else ""
        found = scope.get(name, name) if isinstance(argument, Value) else argument
        if not isinstance(found, Constant) or _is_attribute(found):
            return found
        key = identify(found)
        if key not in self._places:
            self._places[key] = len(self._weights)
            self._weights.append((name, found))
        return -1 - self._places[key]


def _is_attribute(constant: Constant) -> bool:
    """Returns whether a constant is short and in the program itself."""
    if isinstance(constant.data, Nested):
        return True
    type_ = constant.type
    is_short = not isinstance(type_, TensorType) or (type_.elements or 0) <= _MOST_ELEMENTS
    return isinstance(constant.data, Immediate) and is_short


def _text(constant: Constant) -> str:
    """Returns a constant as in MIL text: `[1, 1]`, `0.001`, `"valid"`."""
    if isinstance(constant.data, Nested):
        text = f"[{', '.join(_text(item) for item in constant.data.items[:_MOST_ELEMENTS])}]"
    elif constant.is_available:
        text = _literal(constant.numpy().tolist())
    else:
        text = describe_type(constant.type)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _literal(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value[:_MOST_ELEMENTS]))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f'"{value}"' if isinstance(value, str) else str(value)
