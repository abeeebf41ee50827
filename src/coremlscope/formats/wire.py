"""Parses long lists in messages one element at a time.

protobuf parses a message as a whole, and takes five to ten times its size for small nested messages. Lists of
many operations, layers or inputs are therefore cut out of the bytes before the rest is parsed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

from coremlscope import schema
from coremlscope.ir import MANY
from coremlscope.schema import Message

__all__ = ["Elements", "LazyMessage", "parse_model"]

#: Wire types of protobuf's encoding.
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class _Field:
    """A field with messages that may contain long lists.

    Attributes:
        inside: The fields of its message, by number.
        is_list: True for a repeated field.
        may_be_long: True for a list that is cut out if it is long.
    """

    inside: Mapping[int, _Field] = field(default_factory=dict)
    is_list: bool = False
    may_be_long: bool = False


_LONG = _Field(is_list=True, may_be_long=True)
_FEATURES = {1: _LONG, 10: _LONG, 13: _LONG}
_DESCRIPTION = _Field({**_FEATURES, 50: _LONG, 20: _Field(_FEATURES, is_list=True)})
_BLOCK = _Field({3: _LONG})
_FUNCTION = _Field({1: _LONG, 3: _Field({2: _BLOCK}, is_list=True)})
_PROGRAM = _Field({2: _Field({2: _FUNCTION}, is_list=True)})
_NETWORK = _Field({1: _LONG})
#: The fields of `Model`, and of models in pipelines.
_MODEL: dict[int, _Field] = {2: _DESCRIPTION, 303: _NETWORK, 403: _NETWORK, 500: _NETWORK, 502: _PROGRAM}
_PIPELINE = _Field({1: _Field(_MODEL, is_list=True)})
_MODEL.update({200: _Field({1: _PIPELINE}), 201: _Field({1: _PIPELINE}), 202: _PIPELINE})


class _Irregular(Exception):  # noqa: N818
    """Bytes that are left to protobuf, which tells whether they are damaged."""


@dataclass(slots=True)
class _Lists:
    """The long lists of a message: places of elements in the bytes.

    Attributes:
        data: All bytes.
        long: Start and end of each element of a long list, one after the other, by field number.
        inside: The lists of the messages in it, by field number and place in the field.
    """

    data: bytes
    long: dict[int, array[int]] = field(default_factory=dict)
    inside: dict[tuple[int, int], _Lists] = field(default_factory=dict)


class Elements(Sequence[Message]):
    """The messages of a long list. Each is parsed when it is read, every time."""

    def __init__(self, data: bytes, places: array[int], kind: str) -> None:
        self._data, self._places = data, places
        self._class = schema.message_class(kind)

    def __len__(self) -> int:
        return len(self._places) // 2

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        return self._class.FromString(self._data[self._places[2 * place] : self._places[2 * place + 1]])

    def __iter__(self) -> Iterator[Message]:
        data, places, parse = self._data, iter(self._places), self._class.FromString
        return (parse(data[start:stop]) for start, stop in zip(places, places, strict=True))


class LazyMessage:
    """A message whose long lists are parsed one element at a time. Every other field is read as usual.

    Args:
        message: The message, without its long lists.
        lists: Its long lists, if it has any.
    """

    def __init__(self, message: Message, lists: _Lists | None = None) -> None:
        self.message = message
        self._lists = lists

    def list(self, name: str) -> Sequence[Message]:
        """Returns the elements of a field, which may be a long list."""
        if self._lists is not None:
            descriptor = self.message.DESCRIPTOR.fields_by_name[name]
            places = self._lists.long.get(descriptor.number)
            if places is not None:
                kind = descriptor.message_type.full_name.removeprefix(schema.PACKAGE)
                return Elements(self._lists.data, places, kind)
        elements: Sequence[Message] = getattr(self.message, name)
        return elements

    def part(self, name: str) -> LazyMessage:
        """Returns the message in a field."""
        return LazyMessage(getattr(self.message, name), self._inside(name, 0))

    def parts(self, name: str) -> Iterator[LazyMessage]:
        """Yields the messages in a repeated field."""
        for index, message in enumerate(getattr(self.message, name)):
            yield LazyMessage(message, self._inside(name, index))

    def _inside(self, name: str, index: int) -> _Lists | None:
        if self._lists is None:
            return None
        number = self.message.DESCRIPTOR.fields_by_name[name].number
        return self._lists.inside.get((number, index))


def parse_model(data: bytes) -> LazyMessage:
    """Parses a `Model`.

    Raises:
        DecodeError: The bytes are damaged. Elements of long lists raise it when they are read.
    """
    try:
        found = _cut(data, 0, len(data), _MODEL)
    except (_Irregular, RecursionError):
        found = None
    rest, lists = (data, None) if found is None else found
    return LazyMessage(schema.message_class("Model").FromString(rest), lists)


def _cut(data: bytes, start: int, stop: int, fields: Mapping[int, _Field]) -> tuple[bytes, _Lists] | None:
    """Cuts the long lists out of a message.

    Returns:
        The message without them, and the lists; None for a message without long lists.
    """
    if stop - start < 2 * MANY:  # An element takes at least two bytes.
        return None
    places = _find(data, start, stop, fields)
    lists = _Lists(data)
    #: Replacements of the bytes of fields.
    changed: dict[int, bytes] = {}
    for number, found in places.items():
        kind = fields[number]
        if kind.may_be_long:
            if len(found) > 3 * MANY:
                lists.long[number] = _without_every_third(found)
        elif not kind.is_list and len(found) > 3:
            raise _Irregular  # protobuf joins the parts of such a message.
        else:
            for index in range(len(found) // 3):
                first, content, end = found[3 * index : 3 * index + 3]
                inner = _cut(data, content, end, kind.inside)
                if inner is not None:
                    changed[first], lists.inside[number, index] = inner
    if not changed and not lists.long:
        return None
    return _join(data, start, stop, places, lists, changed), lists


def _without_every_third(found: array[int]) -> array[int]:
    """Leaves the start and the end of contents in a list of fields' starts, contents' starts and ends."""
    places = array("Q", bytes(16 * (len(found) // 3)))
    places[::2], places[1::2] = found[1::3], found[2::3]
    return places


def _join(
    data: bytes,
    start: int,
    stop: int,
    places: Mapping[int, array[int]],
    lists: _Lists,
    changed: Mapping[int, bytes],
) -> bytes:
    """Returns a message without its long lists, and with changed fields."""
    replaced = [
        (found[3 * i], found[3 * i + 2], number)
        for number, found in places.items()
        if number not in lists.long
        for i in range(len(found) // 3)
        if found[3 * i] in changed
    ]
    removed = [place for number in lists.long for place in _runs(places[number])]
    pieces, at = [], start
    for first, end, number in sorted([*replaced, *((a, b, 0) for a, b in removed)]):
        pieces.append(data[at:first])
        if number:
            content = changed[first]
            pieces += [_varint(number << 3 | _BYTES), _varint(len(content)), content]
        at = end
    return b"".join([*pieces, data[at:stop]])


def _runs(found: array[int]) -> Iterator[tuple[int, int]]:
    """Yields start and end of each run of fields without others in between."""
    start = end = found[0]
    for index in range(0, len(found), 3):
        if found[index] != end:
            yield start, end
            start = found[index]
        end = found[index + 2]
    yield start, end


def _find(data: bytes, start: int, stop: int, wanted: Mapping[int, _Field]) -> dict[int, array[int]]:
    """Finds fields: the start of each, the start of its content, and its end, by field number.

    Raises:
        _Irregular: The bytes are not those of a message.
    """
    found: dict[int, array[int]] = {number: array("Q") for number in wanted}
    at = start
    while at < stop:
        first = at
        tag, at = _read_varint(data, at, stop)
        number, kind = tag >> 3, tag & 7
        if kind == _BYTES:
            size, at = _read_varint(data, at, stop)
            content, at = at, at + size
            if number in wanted:
                found[number].extend((first, content, at))
            continue
        if number in wanted:
            raise _Irregular
        if kind == _VARINT:
            _, at = _read_varint(data, at, stop)
        elif kind in (_FIXED_32, _FIXED_64):
            at += 4 if kind == _FIXED_32 else 8
        else:
            raise _Irregular
    if at != stop:
        raise _Irregular
    return found


def _read_varint(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """Returns a number and the place after it."""
    if at >= stop:
        raise _Irregular
    number = data[at]
    at += 1
    if number < 0x80:
        return number, at
    number &= 0x7F
    for shift in range(7, 70, 7):
        if at >= stop:
            break
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise _Irregular


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])
