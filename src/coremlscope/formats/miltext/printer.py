"""Printing of programs as MIL text.

There are two known dialects. `program(1.3)`, from operation set `ios18` on, writes a scalar as `int32(1)`.
The earlier `program(1.0)` writes it as `tensor<int32, []>(1)`. (Apple's compilers from version 3520 on write
1.3 for all operation sets.) Inputs, parameters, attributes and dictionaries are in alphabetical order. Nested
blocks follow their operation, each with its name. The format of nested blocks and of attributes of blocks has
not been compared with the output of Apple's compiler. Names that are not single words are printed as strings.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping

from coremlscope.formats.platforms import EARLY_OPSETS, PRINTED_OPSETS
from coremlscope.formats.weights import BlobData
from coremlscope.model import ir

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_WORD = re.compile(r'[^\s()\[\]{}<>,;="]+')
_UINT64 = ir.TensorType(ir.DType.UINT64, ())
_STRING = ir.TensorType(ir.DType.STRING, ())


def print_program(program: ir.Program) -> str:
    """Prints a program as MIL text. Constants in weight files are printed as references and not read."""
    is_early = all(function.opset in EARLY_OPSETS for function in program.functions.values())
    printer = _Printer(has_scalar_types=not is_early)
    return "\n".join(printer.program(program)) + "\n"


class _Printer:
    """Prints one dialect.

    Args:
        has_scalar_types: True if a scalar's type is its element type (1.3), not a tensor of rank 0 (1.0).
    """

    def __init__(self, *, has_scalar_types: bool) -> None:
        self._has_scalar_types = has_scalar_types

    def program(self, program: ir.Program) -> Iterator[str]:
        """Yields the lines of the text."""
        yield f"program(1.{3 if self._has_scalar_types else 0})"
        if program.attributes:
            yield self._attributes(program.attributes)
        yield "{"
        for function in program.functions.values():
            inputs = self._declare(sorted(function.graph.inputs, key=lambda value: value.name))
            opset = PRINTED_OPSETS.get(function.opset, function.opset.lower())
            attributes = f" {self._attributes(function.attributes)}" if function.attributes else ""
            if function.graph.attributes:
                attributes = f"{attributes or ' []'} {self._attributes(function.graph.attributes)}"
            yield f"    func {_word(function.name)}<{_word(opset)}>({inputs}){attributes} {{"
            yield from self._body(function.graph, " " * 12)
            yield f"        }} -> ({_names(function.graph.outputs)});"
        yield "}"

    def _body(self, graph: ir.Graph, indent: str) -> Iterator[str]:
        for op in graph.ops:
            parameters = sorted(op.inputs.items())
            inputs = ", ".join(f"{_word(name)} = {self._arguments(group)}" for name, group in parameters)
            outputs = f"{self._declare(op.outputs)} = " if op.outputs else ""
            line = f"{indent}{outputs}{_word(op.type)}({inputs}){self._attributes(op.attributes)}"
            if not op.blocks:
                yield f"{line};"
                continue
            yield line
            for index, block in enumerate(op.blocks, 1):
                attributes = self._attributes(block.attributes)
                yield f"{indent}    {block.name}({self._declare(block.inputs)}){attributes} {{"
                yield from self._body(block, indent + " " * 8)
                end = ";" if index == len(op.blocks) else ","
                yield f"{indent}    }} -> ({_names(block.outputs)}){end}"

    def _attributes(self, attributes: Mapping[str, ir.Constant]) -> str:
        if not attributes:
            return ""
        items = (f"{_word(name)} = {self._constant(value)}" for name, value in sorted(attributes.items()))
        return f"[{', '.join(items)}]"

    def _declare(self, values: Iterable[ir.Value]) -> str:
        return ", ".join(f"{self._type(value.type)} {_word(value.name)}" for value in values)

    def _arguments(self, arguments: tuple[ir.Argument, ...]) -> str:
        texts = [_word(arg.name) if isinstance(arg, ir.Value) else self._constant(arg) for arg in arguments]
        return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"

    def _type(self, type_: ir.ValueType) -> str:
        match type_:
            case ir.TensorType(dtype, ()) if self._has_scalar_types:
                return dtype.value
            case ir.TensorType():
                return ir.describe_type(type_)
            case ir.ListType(element, length):
                return f"list<{self._type(element)}, {'?' if length is None else length}>"
            case ir.TupleType(elements):
                return f"tuple<{', '.join(map(self._type, elements))}>"
            case ir.DictType(key, value):
                return f"dict<{self._type(key)}, {self._type(value)}>"
            case ir.StateType(wrapped):
                return f"state<{self._type(wrapped)}>"

    def _constant(self, constant: ir.Constant) -> str:
        """Formats a constant with its type."""
        return f"{self._type(constant.type)}({self._content(constant)})"

    def _content(self, constant: ir.Constant) -> str:
        """Formats the content of a constant, which follows its type in parentheses."""
        data = constant.data
        if isinstance(data, BlobData):
            path = f'{self._type(_STRING)}("{data.storage.name}")'
            return f"BLOBFILE(path = {path}, offset = {self._type(_UINT64)}({data.offset}))"
        if not isinstance(data, ir.Nested):
            return _elements(constant.numpy().tolist())
        members = [self._content(item) for item in data.items]
        match constant.type:
            case ir.DictType():
                pairs = sorted(zip(members[::2], members[1::2], strict=True))
                return f"{{{', '.join(f'{{{key}, {value}}}' for key, value in pairs)}}}"
            case ir.TupleType():
                return f"({', '.join(members)})"
            case _:
                return f"[{', '.join(members)}]"


def _names(values: Iterable[ir.Value]) -> str:
    return ", ".join(_word(value.name) for value in values)


def _word(name: str) -> str:
    return name if _WORD.fullmatch(name) else _quote(name)


def _quote(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _elements(value: object) -> str:
    """Formats nested lists of elements. Floats are in hexadecimal, so that they are exact."""
    match value:
        case list():
            return f"[{', '.join(map(_elements, value))}]"
        case bool():
            return "true" if value else "false"
        case float():
            return _hex(value)
        case str():
            return _quote(value)
        case _:
            return str(value)


def _hex(value: float) -> str:
    """Formats a float like C's `%a`, without unnecessary digits."""
    if math.isnan(value):
        return "-nan" if math.copysign(1, value) < 0 else "nan"
    text = value.hex()
    if "p" not in text:
        return text  # infinity
    digits, exponent = text.split("p")
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits}p{exponent}"
