"""Long lists of operations, values and features, kept in columns instead of objects.

A program may have a million operations. As objects, each takes more than a kilobyte; here it takes some
fifty bytes, and is made again whenever it is read. Equality is that of the objects.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, overload

import numpy as np

from coremlscope.ir.data import Constant, Immediate
from coremlscope.ir.graph import Argument, Function, Graph, Layer, Op, Value
from coremlscope.ir.types import DType, TensorType, ValueType

__all__ = [
    "MANY",
    "LongOps",
    "LongSequence",
    "Named",
    "arguments_of",
    "as_list",
    "count_types",
    "ops_of_type",
    "result_types",
    "with_objects",
]

#: Longer lists are kept in columns. The longest graph of a published model that we know has 2,972 operations.
MANY = 1 << 14
#: Larger constants stay objects: their content takes more than what describes it.
_SMALL_BYTES = 512
#: In place of a constant: the name of an operation, which is that of its first result.
_NAME_OF_RESULT = -1

_Item = TypeVar("_Item")


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


_NamedItem = TypeVar("_NamedItem", bound=_HasName)


class LongSequence(Sequence[_Item], Generic[_Item]):
    """A sequence whose items are made when they are read."""

    @abstractmethod
    def _make(self, index: int) -> _Item:
        """Makes the item at an index that is in range."""

    @overload
    def __getitem__(self, index: int) -> _Item: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[_Item, ...]: ...
    def __getitem__(self, index: int | slice) -> _Item | tuple[_Item, ...]:
        if isinstance(index, slice):
            return tuple(map(self._make, range(*index.indices(len(self)))))
        return self._make(range(len(self))[index])

    def __iter__(self) -> Iterator[_Item]:
        return map(self._make, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (tuple, LongSequence)):
            return NotImplemented
        return len(self) == len(other) and all(map(lambda a, b: bool(a == b), self, other))

    def __hash__(self) -> int:
        return hash((type(self), len(self)))


class _Texts:
    """Texts, one after the other."""

    def __init__(self) -> None:
        self._content, self._ends = bytearray(), array("Q")

    def __len__(self) -> int:
        return len(self._ends)

    def append(self, text: str) -> None:
        self._content += text.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._content))

    def __getitem__(self, index: int) -> str:
        start = self._ends[index - 1] if index else 0
        return self._content[start : self._ends[index]].decode("utf-8", "surrogatepass")


class _Numbered(Generic[_Item]):
    """Distinct items, and their numbers."""

    def __init__(self) -> None:
        self.items: list[_Item] = []
        self._numbers: dict[_Item, int] = {}
        self._by_identity: dict[int, int] = {}

    def number(self, item: _Item) -> int:
        """Returns the number of an item. Readers share equal items, whose identity is compared first."""
        found = self._by_identity.get(id(item))
        if found is not None and self.items[found] is item:
            return found
        number = self._numbers.setdefault(item, len(self.items))
        if number == len(self.items):
            self.items.append(item)
            self._by_identity[id(item)] = number
        return number


class Named(LongSequence[_NamedItem]):
    """Items that differ in little more than their names: values, features.

    Args:
        items: Dataclass instances with a field `name`.
    """

    def __init__(self, items: Iterable[_NamedItem]) -> None:
        self._names, self._kinds = _Texts(), array("I")
        kinds: _Numbered[tuple[object, ...]] = _Numbered()
        self._class: Callable[..., _NamedItem] | None = None
        fields: list[str] = []
        for item in items:
            if self._class is None:
                self._class = type(item)
                fields = [one.name for one in dataclasses.fields(item)]  # type: ignore[arg-type]
            self._names.append(item.name)
            self._kinds.append(kinds.number(tuple(getattr(item, name) for name in fields if name != "name")))
        self._rest = [name for name in fields if name != "name"]
        self._others = [dict(zip(self._rest, kind, strict=True)) for kind in kinds.items]

    def __len__(self) -> int:
        return len(self._kinds)

    def _make(self, index: int) -> _NamedItem:
        assert self._class is not None
        return self._class(name=self._names[index], **self._others[self._kinds[index]])


def as_list(items: Iterable[_NamedItem], count: int) -> Sequence[_NamedItem]:
    """Returns items as a tuple, or in columns if there are many.

    Args:
        items: Values or features.
        count: Their number.
    """
    return Named(items) if count > MANY else tuple(items)


class _Constants:
    """Constants: small ones by type and content, others as they are."""

    def __init__(self) -> None:
        self._types: _Numbered[ValueType] = _Numbered()
        self._type = array("I")
        self._content, self._ends = bytearray(), array("Q")
        self._whole: dict[int, Constant] = {}

    def append(self, constant: Constant) -> int:
        """Returns the place of a constant."""
        content = _content_of(constant)
        if content is None:
            self._whole[len(self._ends)] = constant
        else:
            self._content += content
        self._type.append(self._types.number(constant.type))
        self._ends.append(len(self._content))
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> Constant:
        whole = self._whole.get(index)
        if whole is not None:
            return whole
        type_ = self._types.items[self._type[index]]
        assert isinstance(type_, TensorType)
        content = bytes(self._content[self._ends[index - 1] if index else 0 : self._ends[index]])
        if type_.dtype is DType.STRING:
            elements = np.array([content.decode("utf-8", "surrogatepass")], object)
        else:
            elements = np.frombuffer(content, type_.dtype.numpy)
        return Constant(type_, Immediate(elements.reshape(type_.shape)))  # type: ignore[arg-type]


def _content_of(constant: Constant) -> bytes | None:
    """Returns the content of a small constant; None for others."""
    type_, data = constant.type, constant.data
    if not isinstance(data, Immediate) or not isinstance(type_, TensorType) or not type_.is_static:
        return None
    elements = data.array
    if type_.dtype is DType.STRING:
        text = elements.reshape(-1)[0] if elements.size == 1 and elements.shape == type_.shape else None
        return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else None
    is_plain = elements.dtype == type_.dtype.numpy and elements.shape == type_.shape
    return elements.tobytes() if is_plain and elements.nbytes <= _SMALL_BYTES else None


@dataclass(frozen=True, slots=True)
class _Form:
    """The common form of many operations: type, parameters, attributes and number of results."""

    type: str
    parameters: tuple[tuple[str, int], ...]
    attributes: tuple[str, ...]
    results: int


class LongOps(LongSequence[Op]):
    """The operations of a long graph.

    Operations are added while the model is read, and never changed.

    Args:
        path: The path of the graph, with which the ids of its operations begin.

    Attributes:
        sources: The place of each argument's value among `values`, one operation after the other; of a
            constant, the negative of its place in the table of constants, minus 2.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._forms: _Numbered[_Form] = _Numbered()
        self._form = array("I")
        self.sources, self._contents = array("q"), array("q")
        self._first_source, self._first_content = array("Q"), array("Q")
        self._first_result = array("Q")
        self._names, self._type_numbers = _Texts(), array("I")
        self._types: _Numbered[ValueType] = _Numbered()
        self._constants = _Constants()
        self._blocks: dict[int, tuple[Graph, ...]] = {}
        self._layers: list[Layer] = []
        self._layer = array("q")
        #: The latest value of each name, while operations are added.
        self._latest: dict[str, int] = {}

    # Adding

    def append(self, op: Op) -> None:
        """Adds an operation. Its id is the path of the graph and its place in it."""
        assert op.id == f"{self._path}/{len(self)}"
        place = len(self)
        self._first_source.append(len(self.sources))
        for arguments in op.inputs.values():
            self.sources.extend(map(self._source, arguments))
        self._first_content.append(len(self._contents))
        for key, constant in op.attributes.items():
            is_name = key == "name" and op.outputs and _text(constant) == op.outputs[0].name
            self._contents.append(_NAME_OF_RESULT if is_name else self._constants.append(constant))
        parameters = tuple([(name, len(arguments)) for name, arguments in op.inputs.items()])
        form = _Form(op.type, parameters, tuple(op.attributes), len(op.outputs))
        self._form.append(self._forms.number(form))
        self._first_result.append(len(self._type_numbers))
        for value in op.outputs:
            self._latest[value.name] = self._add_value(value)
        if op.blocks:
            self._blocks[place] = op.blocks
        if op.layer is not None and (not self._layers or self._layers[-1] is not op.layer):
            self._layers.append(op.layer)
        self._layer.append(-1 if op.layer is None else len(self._layers) - 1)

    def _source(self, argument: Argument) -> int:
        if isinstance(argument, Constant):
            return -2 - self._constants.append(argument)
        found = self._latest.get(argument.name)
        if found is None or self._type_of(found) != argument.type:
            found = self._latest[argument.name] = self._add_value(argument)
        return found

    def _add_value(self, value: Value) -> int:
        self._names.append(value.name)
        self._type_numbers.append(self._types.number(value.type))
        return len(self._type_numbers) - 1

    def find(self, name: str) -> Value | None:
        """Returns the latest result of an operation or value that one reads, while operations are added."""
        found = self._latest.get(name)
        return None if found is None else self.value(found)

    def finish(self) -> LongOps:
        """Releases what only adding needs."""
        self._latest = {}
        return self

    # Reading

    def __len__(self) -> int:
        return len(self._form)

    @property
    def has_blocks(self) -> bool:
        """True if an operation contains graphs."""
        return bool(self._blocks)

    @property
    def values(self) -> int:
        """The number of values: results of operations, and values from outside that they read."""
        return len(self._type_numbers)

    def value(self, index: int) -> Value:
        """Returns a value."""
        return Value(self._names[index], self._type_of(index))

    def _type_of(self, index: int) -> ValueType:
        return self._types.items[self._type_numbers[index]]

    def first_source(self, index: int) -> int:
        """Returns the place of an operation's first argument in `sources`."""
        return self._first_source[index]

    def first_result(self, index: int) -> int:
        """Returns the place of an operation's first result among the values."""
        return self._first_result[index]

    def content(self, value: int) -> Constant | None:
        """Returns the value of the `const` operation with a result; None for results of others."""
        index = bisect_right(self._first_result, value) - 1
        form = self._forms.items[self._form[index]]
        if form.type != "const" or "val" not in form.attributes:
            return None
        return self._constants[self._contents[self._first_content[index] + form.attributes.index("val")]]

    def attribute(self, index: int, place: int) -> Constant:
        """Returns an attribute of an operation.

        Args:
            index: The operation.
            place: The place of the attribute among those of the operation.
        """
        content = self._contents[self._first_content[index] + place]
        if content == _NAME_OF_RESULT:
            return _named(self._names[self._first_result[index]])
        return self._constants[content]

    def arguments(self, is_left_out: Callable[[str], bool]) -> Iterator[Argument]:
        """Yields the arguments of all operations, without making the operations.

        Args:
            is_left_out: Returns true for types of operations whose arguments are left out.
        """
        counts = [
            0 if is_left_out(form.type) else sum(count for _, count in form.parameters)
            for form in self._forms.items
        ]
        for form, first in zip(self._form, self._first_source, strict=True):
            for place in range(first, first + counts[form]):
                yield self._argument(self.sources[place])

    def results(self) -> Iterator[tuple[str, ValueType]]:
        """Yields the type of the operation and that of the value of each result."""
        forms = self._forms.items
        for number, first in zip(self._form, self._first_result, strict=True):
            form = forms[number]
            for place in range(first, first + form.results):
                yield form.type, self._type_of(place)

    def count_types(self) -> Counter[str]:
        """Counts operations by type."""
        types: Counter[str] = Counter()
        for number, count in Counter(self._form).items():
            types[self._forms.items[number].type] += count
        return types

    @property
    def graphs(self) -> Iterator[Graph]:
        """The graphs in operations."""
        return (block for blocks in self._blocks.values() for block in blocks)

    def of_type(self, is_wanted: Callable[[str], bool]) -> Iterator[Op]:
        """Yields the operations of some types, without making the others, except those with graphs."""
        numbers = {number for number, form in enumerate(self._forms.items) if is_wanted(form.type)}
        return (
            self._make(place)
            for place, number in enumerate(self._form)
            if number in numbers or place in self._blocks
        )

    def objects(self) -> tuple[Op, ...]:
        """Returns all operations, which share the objects of values."""
        values = list(map(self.value, range(self.values)))
        return tuple([self._operation(index, values.__getitem__) for index in range(len(self))])

    def _make(self, index: int) -> Op:
        return self._operation(index, self.value)

    def _operation(self, index: int, value: Callable[[int], Value]) -> Op:
        form = self._forms.items[self._form[index]]
        place = self._first_source[index]
        inputs: dict[str, tuple[Argument, ...]] = {}
        for name, count in form.parameters:
            sources = self.sources[place : place + count]
            inputs[name] = tuple([value(s) if s >= 0 else self._constants[-2 - s] for s in sources])
            place += count
        first = self._first_result[index]
        outputs = tuple([value(result) for result in range(first, first + form.results)])
        layer = self._layer[index]
        return Op(
            id=f"{self._path}/{index}",
            type=form.type,
            inputs=inputs,
            outputs=outputs,
            blocks=self._blocks.get(index, ()),
            attributes=_Attributes(self, form.attributes, index) if form.attributes else _NONE,
            layer=None if layer < 0 else self._layers[layer],
        )

    def _argument(self, source: int) -> Argument:
        if source < 0:
            return self._constants[-2 - source]
        return self.value(source)


class _Attributes(Mapping[str, Constant]):
    """The attributes of an operation of a long graph, made when they are read."""

    __slots__ = ("_found", "_index", "_keys", "_ops")

    def __init__(self, ops: LongOps, keys: tuple[str, ...], index: int) -> None:
        self._ops, self._keys, self._index = ops, keys, index
        self._found: dict[str, Constant] | None = None

    def __getitem__(self, key: str) -> Constant:
        if self._found is None:
            self._found = {}
        if key not in self._found:
            if key not in self._keys:
                raise KeyError(key)
            self._found[key] = self._ops.attribute(self._index, self._keys.index(key))
        return self._found[key]

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def ops_of_type(graph: Graph, is_wanted: Callable[[str], bool]) -> Iterator[Op]:
    """Yields the operations of some types, nested ones included, each before those of its nested graphs.

    Args:
        graph: The graph.
        is_wanted: Returns true for the types.
    """
    ops = graph.ops.of_type(is_wanted) if isinstance(graph.ops, LongOps) else graph.ops
    for op in ops:
        if is_wanted(op.type):
            yield op
        for block in op.blocks:
            yield from ops_of_type(block, is_wanted)


def with_objects(function: Function) -> Function:
    """Returns a function whose operations are objects, which stay the same whenever they are read."""
    graph = function.graph
    if not isinstance(graph.ops, LongOps):
        return function
    return dataclasses.replace(function, graph=dataclasses.replace(graph, ops=graph.ops.objects()))


def count_types(graph: Graph) -> Counter[str]:
    """Counts the operations of each type, nested ones included."""
    if not isinstance(graph.ops, LongOps):
        return Counter(op.type for op in graph.walk())
    return sum(map(count_types, graph.ops.graphs), graph.ops.count_types())


def result_types(graph: Graph) -> Iterator[tuple[str, ValueType]]:
    """Yields the type of the operation and that of the value of each result, nested ones included."""
    if isinstance(graph.ops, LongOps):
        yield from graph.ops.results()
        for block in graph.ops.graphs:
            yield from result_types(block)
    else:
        for op in graph.walk():
            for value in op.outputs:
                yield op.type, value.type


def arguments_of(graph: Graph, is_left_out: Callable[[str], bool]) -> Iterator[Argument]:
    """Yields the arguments of operations, nested ones included.

    Args:
        graph: The graph.
        is_left_out: Returns true for types of operations whose arguments are left out.
    """
    if isinstance(graph.ops, LongOps):
        yield from graph.ops.arguments(is_left_out)
        for block in graph.ops.graphs:
            yield from arguments_of(block, is_left_out)
    else:
        for op in graph.walk():
            if not is_left_out(op.type):
                yield from (argument for arguments in op.inputs.values() for argument in arguments)


#: Shared by all operations without attributes.
_NONE: Mapping[str, Constant] = {}
_STRING = TensorType(DType.STRING, ())


def _named(name: str) -> Constant:
    elements = np.empty((), object)
    elements[()] = name
    return Constant(_STRING, Immediate(elements))


def _text(constant: Constant) -> object:
    """Returns the text of a constant string without dimensions; None for others."""
    data = constant.data
    is_text = constant.type == _STRING and isinstance(data, Immediate) and data.array.shape == ()
    return data.array.item() if is_text and isinstance(data, Immediate) else None
