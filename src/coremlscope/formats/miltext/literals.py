"""Reading of types and constants of MIL text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from coremlscope.base.errors import CorruptModelError, UnsupportedModelError
from coremlscope.formats.miltext.lexer import Tokens
from coremlscope.formats.values import BlobOpener
from coremlscope.model import ir

#: Limit of nesting of types, constants and blocks.
MAX_DEPTH = 64
_MAX_DIMENSION = 2**63 - 1
_MAX_RANK = 32  # the limit of NumPy 1; Core ML allows 5
_MAX_DIGITS = 20
#: Constants of up to this number of characters are read once and shared.
_SHARED_LENGTH = 64

_TENSOR = re.compile(r"tensor\s*<\s*(\w+)\s*,\s*\[([^]]*)\]\s*>")
_ESCAPE = re.compile(
    r"((?:\\x[0-9A-Fa-f]{2}|\\[0-7]{1,3})+)|\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL
)
_BYTE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|([0-7]{1,3}))")
_SIMPLE_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
#: First characters of tokens that are no names and no elements; the empty string is the end of the text.
_NO_WORD = frozenset(["", *"()[]{}<>,;="])
_BOOLEANS = {"true": True, "false": False}
_DTYPES = {dtype.value: dtype for dtype in ir.DType}


class LiteralReader:
    """Reads types and constants, from the token at `_at` on.

    Args:
        tokens: The tokens of a text.
        open_blob: Creates the data of a constant in a weight file.
    """

    def __init__(self, tokens: Tokens, open_blob: BlobOpener) -> None:
        self._tokens = tokens
        self._at = 0
        self._open_blob = open_blob
        self._types: dict[str, ir.ValueType] = {
            name: ir.TensorType(dtype, ()) for name, dtype in _DTYPES.items()
        }
        self._constants: dict[str, ir.Constant] = {}

    def _expect(self, token: str) -> None:
        if self._tokens[self._at] != token:
            raise self._tokens.unexpected(self._at, f"'{token}'")
        self._at += 1

    def _accept(self, token: str) -> bool:
        """Skips a token if it is the next one."""
        is_next = self._tokens[self._at] == token
        self._at += is_next
        return is_next

    def _separated(self, end: str) -> Iterator[None]:
        """Yields before each item of a list between commas, up to and including the closing token."""
        if self._accept(end):
            return
        while True:
            yield
            if not self._accept(","):
                break
        if self._tokens[self._at] != end:
            raise self._tokens.unexpected(self._at, f"',' or '{end}'")
        self._at += 1

    def _word(self, what: str) -> str:
        """Reads a name, a number or a keyword; names with other characters are strings."""
        token = self._tokens[self._at]
        if token[:1] in _NO_WORD or token[-1] in ">)" or token == '"':
            raise self._tokens.unexpected(self._at, what)
        self._at += 1
        return unescape(token[1:-1]) if token[0] == '"' else token

    def _integer(self, what: str) -> int:
        text = self._word(what)
        if not (text.isdecimal() and text.isascii() and len(text) <= _MAX_DIGITS):
            raise self._tokens.unexpected(self._at - 1, what)
        return int(text)

    def _is_type(self) -> bool:
        """True if a type starts here."""
        token = self._tokens[self._at]
        return (
            token in self._types
            or (token.startswith("tensor") and token[-1] == ">")
            or (token in _NESTED_TYPES and self._tokens[self._at + 1] == "<")
        )

    def _type(self, depth: int = 0) -> ir.ValueType:
        """Reads a type."""
        token = self._tokens[self._at]
        known = self._types.get(token)
        if known is not None:
            self._at += 1
            return known
        if token[-1:] == ">" and token.startswith("tensor"):
            type_ = self._types[token] = self._tensor_type(token)
            self._at += 1
            return type_
        read = _NESTED_TYPES.get(token)
        if read is None:
            raise self._tokens.unexpected(self._at, "a type")
        if depth > MAX_DEPTH:
            raise self._too_deep()
        self._at += 1
        self._expect("<")
        return read(self, depth + 1)

    def _too_deep(self) -> CorruptModelError:
        return self._tokens.error(self._at, f"more than {MAX_DEPTH} levels are nested")

    def _tensor_type(self, text: str) -> ir.TensorType:
        """Reads a tensor type from its token."""
        match = _TENSOR.fullmatch(text)
        if match is None or match[1] not in _DTYPES:
            raise self._tokens.unexpected(self._at, "a tensor type")
        return ir.TensorType(_DTYPES[match[1]], self._shape(match[2]))

    def _shape(self, text: str) -> ir.Shape | None:
        sizes = _split(text)
        if "..." in sizes:
            return None
        if len(sizes) > _MAX_RANK:
            raise self._tokens.error(self._at, f"a tensor has {len(sizes)} dimensions")
        return tuple(map(self._size, sizes))

    def _size(self, text: str) -> int | None:
        if text == "?":
            return None
        is_size = text.isdecimal() and text.isascii() and len(text) <= _MAX_DIGITS
        size = int(text) if is_size else -1
        if not 0 <= size <= _MAX_DIMENSION:
            raise self._tokens.error(self._at, f"'{text[:40]}' is not a size of a dimension")
        return size

    def _list_type(self, depth: int) -> ir.ListType:
        element = self._type(depth)
        self._expect(",")
        length = None if self._accept("?") else self._integer("the length of a list")
        self._expect(">")
        return ir.ListType(element, length)

    def _tuple_type(self, depth: int) -> ir.TupleType:
        return ir.TupleType(tuple(self._type(depth) for _ in self._separated(">")))

    def _dict_type(self, depth: int) -> ir.DictType:
        key = self._type(depth)
        self._expect(",")
        value = self._type(depth)
        self._expect(">")
        return ir.DictType(key, value)

    def _state_type(self, depth: int) -> ir.StateType:
        wrapped = self._type(depth)
        self._expect(">")
        return ir.StateType(wrapped)

    def _buffer_type(self, depth: int) -> ir.TensorType:
        """Reads the type of a buffer as that of the tensor in it; `depth` is not used."""
        dtype = _DTYPES.get(self._word("an element type"))
        if dtype is None:
            raise self._tokens.unexpected(self._at - 1, "an element type")
        shape: ir.Shape | None = None
        self._expect(",")
        for _ in self._separated(">"):
            name = self._word("a property of a buffer")
            self._expect("=")
            token = self._tokens[self._at]
            if token[:1] != "[" or token[-1:] != "]":
                raise self._tokens.unexpected(self._at, "a list of numbers")
            if name == "shape":
                shape = self._shape(token[1:-1])
            self._at += 1
        return ir.TensorType(dtype, shape)

    def _constant(self) -> ir.Constant:
        """Reads a constant: its type, and its content in parentheses."""
        token = self._tokens[self._at]
        known = self._constants.get(token)
        if known is not None:
            self._at += 1
            return known
        if token[-1:] == ")" and len(token) > 1:
            constant = self._simple_constant(token)
            if len(token) <= _SHARED_LENGTH:
                self._constants[token] = constant
            self._at += 1
            return constant
        type_ = self._type()
        self._expect("(")
        constant = self._content(type_, 0)
        self._expect(")")
        return constant

    def _simple_constant(self, token: str) -> ir.Constant:
        """Reads a constant from a single token: `int32(1)`, `tensor<int32, [2]>([1, 1])`."""
        start = token.index(">(") + 1 if token.startswith("tensor") else token.index("(")
        type_text, content = token[:start], token[start + 1 : -1]
        type_ = self._types.get(type_text)
        if type_ is None:
            type_ = self._types[type_text] = self._tensor_type(type_text)
        assert isinstance(type_, ir.TensorType)
        if content[0] == "[":
            elements = _split(content[1:-1])
            if type_.rank != 1:
                if elements:
                    raise self._wrong_shape(type_)
                return self._tensor(type_, elements, self._complete_shape(type_, [0]))
            return self._tensor(type_, elements, self._complete_shape(type_, [len(elements)]))
        if type_.shape != ():
            raise self._wrong_shape(type_)
        return self._tensor(type_, [content], ())

    def _content(self, type_: ir.ValueType, depth: int) -> ir.Constant:
        """Reads the content of a constant, without its type."""
        if self._accept("BLOBFILE"):
            return self._blob(type_)
        if depth > MAX_DEPTH:
            raise self._too_deep()
        depth += 1
        items: list[ir.Constant] = []
        match type_:
            case ir.TensorType():
                return self._tensor_content(type_)
            case ir.ListType(element, length):
                items = self._list_items(element, depth)
                if length not in (None, len(items)):
                    raise self._tokens.error(
                        self._at - 1, f"a list of {length} elements has {len(items)} elements"
                    )
            case ir.TupleType(elements):
                self._expect("(")
                for index, element in enumerate(elements):
                    if index:
                        self._expect(",")
                    items.append(self._content(element, depth))
                self._expect(")")
            case ir.DictType(key, value):
                self._expect("{")
                for _ in self._separated("}"):
                    self._expect("{")
                    items.append(self._content(key, depth))
                    self._expect(",")
                    items.append(self._content(value, depth))
                    self._expect("}")
            case ir.StateType():
                raise self._tokens.error(self._at, "a state has no constant value")
        return ir.Constant(type_, ir.Nested(tuple(items)))

    def _list_items(self, element: ir.ValueType, depth: int) -> list[ir.Constant]:
        token = self._tokens[self._at]
        if token[:1] == "[" and len(token) > 1:
            texts = _split(token[1:-1])
            if texts and not (isinstance(element, ir.TensorType) and element.shape == ()):
                raise self._wrong_shape(element)
            items = [self._tensor(element, [text], ()) for text in texts]  # type: ignore[arg-type]
            self._at += 1
            return items
        self._expect("[")
        return [self._content(element, depth) for _ in self._separated("]")]

    def _tensor_content(self, type_: ir.TensorType) -> ir.Constant:
        if type_.shape == ():
            token = self._tokens[self._at]
            if token[:1] in _NO_WORD or token in ("->", '"'):
                raise self._tokens.unexpected(self._at, "an element")
            constant = self._tensor(type_, [token], ())
            self._at += 1
            return constant
        start = self._at
        if type_.shape is None:
            raise self._tokens.error(start, f"a constant {ir.describe_type(type_)} has no fixed shape")
        elements: list[str] = []
        sizes: list[int] = []
        self._nested_list(type_, 0, elements, sizes)
        end, self._at = self._at, start
        constant = self._tensor(type_, elements, self._complete_shape(type_, sizes))
        self._at = end
        return constant

    def _nested_list(self, type_: ir.TensorType, axis: int, elements: list[str], sizes: list[int]) -> None:
        """Collects the elements of nested lists, and the size of each axis from the last one on."""
        is_last = axis + 1 == type_.rank
        token = self._tokens[self._at]
        if token[:1] == "[" and len(token) > 1:
            found = _split(token[1:-1])
            if found and not is_last:
                raise self._wrong_shape(type_)
            elements.extend(found)
            count = len(found)
            self._at += 1
        else:
            self._expect("[")
            count = 0
            for _ in self._separated("]"):
                count += 1
                if not is_last:
                    self._nested_list(type_, axis + 1, elements, sizes)
                elif self._tokens[self._at][:1] == '"' and len(self._tokens[self._at]) > 1:
                    elements.append(self._tokens[self._at])
                    self._at += 1
                else:
                    raise self._tokens.unexpected(self._at, "an element")
        # Lists of a deeper axis end first.
        place = (type_.rank or 0) - 1 - axis
        while len(sizes) <= place:
            sizes.append(count if len(sizes) == place else 0)
        if sizes[place] != count:
            raise self._wrong_shape(type_)

    def _complete_shape(self, type_: ir.TensorType, sizes: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of nested lists, whose sizes are given from the last axis to the first.

        Axes inside an empty list have their declared size.
        """
        declared = type_.shape or ()
        found = list(reversed(sizes)) if len(sizes) == len(declared) else [0] * len(declared)
        shape = []
        is_inside_empty = False
        for size, count in zip(declared, found, strict=True):
            if not is_inside_empty and size not in (None, count):
                raise self._wrong_shape(type_)
            shape.append((size or 0) if is_inside_empty else count)
            is_inside_empty = is_inside_empty or count == 0
        return tuple(shape)

    def _wrong_shape(self, type_: ir.ValueType) -> CorruptModelError:
        return self._tokens.error(
            self._at, f"the elements do not have the shape of {ir.describe_type(type_)}"
        )

    def _tensor(self, type_: ir.TensorType, texts: list[str], shape: tuple[int, ...]) -> ir.Constant:
        """Creates a tensor from the texts of its elements."""
        try:
            array = _elements(texts, type_.dtype).reshape(shape)
        except (ValueError, OverflowError, KeyError):
            wrong = next((text for text in texts if not _is_element(text, type_.dtype)), "")
            raise self._tokens.error(
                self._at, f"'{wrong[:40]}' is not a valid {type_.dtype.value}".replace("\n", " ")
            ) from None
        array.setflags(write=False)
        if shape != type_.shape:
            type_ = ir.TensorType(type_.dtype, shape)
        return ir.Constant(type_, ir.Immediate(array))

    def _blob(self, type_: ir.ValueType) -> ir.Constant:
        """Reads a reference to a weight file, from its opening parenthesis on."""
        start = self._at - 1
        arguments: dict[str, ir.Constant] = {}
        self._expect("(")
        for _ in self._separated(")"):
            name = self._word("the name of an argument")
            self._expect("=")
            arguments[name] = self._constant()
        path, offset = arguments.get("path"), arguments.get("offset")
        if path is None or offset is None or len(arguments) > 2:
            raise self._tokens.error(start, "a BLOBFILE has a path and an offset")
        if path.type != _STRING or not (
            isinstance(offset.type, ir.TensorType) and offset.type.dtype.is_int and offset.type.shape == ()
        ):
            raise self._tokens.error(start, "the path of a BLOBFILE is a string, and its offset an integer")
        if not isinstance(type_, ir.TensorType) or type_.dtype is ir.DType.STRING or not type_.is_static:
            raise self._tokens.error(start, f"a {ir.describe_type(type_)} cannot be in a weight file")
        position = int(offset.item())
        if position < 0:
            raise self._tokens.error(start, "the offset of a BLOBFILE is negative")
        try:
            return ir.Constant(type_, self._open_blob(str(path.item()), position, type_))
        except (CorruptModelError, UnsupportedModelError) as error:
            raise self._tokens.error(start, error.message, error.hint) from None


_STRING = ir.TensorType(ir.DType.STRING, ())

_NESTED_TYPES: dict[str, Callable[[LiteralReader, int], ir.ValueType]] = {
    "list": LiteralReader._list_type,
    "tuple": LiteralReader._tuple_type,
    "dict": LiteralReader._dict_type,
    "state": LiteralReader._state_type,
    "tensor_buffer": LiteralReader._buffer_type,
}


def _split(text: str) -> list[str]:
    """Splits the inside of a flat list."""
    return [part.strip() for part in text.split(",")] if text and not text.isspace() else []


def _elements(texts: list[str], dtype: ir.DType) -> ir.Array:
    """Converts texts to a flat array.

    Raises:
        ValueError, OverflowError, KeyError: A text is not an element of the type.
    """
    if dtype is ir.DType.STRING:
        array = np.empty(len(texts), object)
        array[:] = list(map(_string, texts))
        return array
    if dtype is ir.DType.BOOL:
        return np.array([_BOOLEANS[text] for text in texts], np.bool_)
    if any("_" in text for text in texts):
        raise ValueError("underscore")
    if dtype.is_int:
        integers = list(map(_int, texts))
        low, high = _bounds(dtype)
        if integers and (min(integers) < low or max(integers) > high):
            raise OverflowError
        return np.array(integers, dtype.numpy)
    floats = np.array([_float(text) for text in texts], np.float64)
    with np.errstate(all="ignore"):
        converted = floats.astype(dtype.numpy)
    if np.any(np.isinf(converted) & ~np.isinf(floats)):
        raise OverflowError
    return converted


def _int(text: str) -> int:
    return int(text, 16) if _is_hexadecimal(text) else int(text)


def _float(text: str) -> float:
    return float.fromhex(text) if _is_hexadecimal(text) else float(text)


def _is_hexadecimal(text: str) -> bool:
    return "x" in text or "X" in text


def _bounds(dtype: ir.DType) -> tuple[int, int]:
    """Returns the smallest and the largest value of an integer type."""
    if dtype.value.startswith("u"):
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


def _is_element(text: str, dtype: ir.DType) -> bool:
    try:
        _elements([text], dtype)
    except (ValueError, OverflowError, KeyError):
        return False
    return True


def _string(text: str) -> str:
    if text[0] != '"':
        raise ValueError("no string")
    return unescape(text[1:-1])


def unescape(inside: str) -> str:
    """Returns a string from its text between quotes. Escapes are those of C; bytes are UTF-8 if possible."""
    return _ESCAPE.sub(_unescaped, inside) if "\\" in inside else inside


def _unescaped(match: re.Match[str]) -> str:
    if match[1]:
        data = bytes(
            int(hexadecimal, 16) if hexadecimal else int(octal, 8) & 255
            for hexadecimal, octal in _BYTE.findall(match[1])
        )
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data.decode("latin-1")
    text = match[2]
    if len(text) > 1:
        point = int(text[1:], 16)
        return chr(point) if point < 0x110000 and not 0xD800 <= point < 0xE000 else "\ufffd"
    return _SIMPLE_ESCAPES.get(text, text)
