"""Reading of programs from MIL text."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping

from coremlscope.base.errors import UnsupportedModelError
from coremlscope.base.units import shown
from coremlscope.formats.miltext.lexer import Tokens, decode
from coremlscope.formats.miltext.literals import MAX_DEPTH, LiteralReader
from coremlscope.formats.platforms import READ_OPSETS
from coremlscope.formats.program import BLOCK_NAMES
from coremlscope.formats.values import BlobOpener
from coremlscope.model import ir

_Scope = MutableMapping[str, ir.Value]


def parse_program(text: str | bytes, open_blob: BlobOpener, name: str = "model.mil") -> ir.Program:
    """Reads a program from MIL text of version 1.

    Args:
        text: The text, or its bytes.
        open_blob: Creates the data of a constant in a weight file.
        name: The name of the file, for error messages.

    Raises:
        CorruptModelError: The text is damaged. The message has the line and the column.
        UnsupportedModelError: The text is in another version of the format, or too long.
    """
    tokens = Tokens(decode(text, name) if isinstance(text, bytes) else text, name)
    return _Parser(tokens, open_blob).program()


class _Parser(LiteralReader):
    def program(self) -> ir.Program:
        """Reads the whole text."""
        self._expect("program")
        self._expect("(")
        version = self._word("the version of the text")
        if version.split(".")[0] != "1":
            raise UnsupportedModelError(
                f"MIL text of version {shown(version)} cannot be read, only that of version 1",
                "use the .mlpackage from which the model was compiled, or a newer version of coremlscope",
            )
        self._expect(")")
        attributes = self._attributes()
        self._expect("{")
        functions: dict[str, ir.Function] = {}
        while not self._accept("}"):
            start = self._at
            function = self._function()
            if function.name in functions:
                raise self._tokens.error(start, f"there are two functions {shown(function.name)}")
            functions[function.name] = function
        if not functions:
            raise self._tokens.error(self._at - 1, "the program has no functions")
        if self._tokens[self._at]:
            raise self._tokens.unexpected(self._at, "the end of the text")
        return ir.Program(functions=functions, attributes=attributes)

    def _function(self) -> ir.Function:
        self._expect("func")
        name = self._word("the name of a function")
        opset = self._opset()
        self._expect("(")
        inputs = self._declared(")")
        attributes = self._attributes()
        block_attributes = self._attributes()
        scope: _Scope = {value.name: value for value in inputs}
        ops, outputs = self._body(name, scope, 0)
        self._accept(";")
        graph = ir.Graph(name=name, inputs=inputs, ops=ops, outputs=outputs, attributes=block_attributes)
        return ir.Function(name=name, opset=READ_OPSETS.get(opset, opset), graph=graph, attributes=attributes)

    def _opset(self) -> str:
        """Reads an operation set in angle brackets; an empty string if there is none."""
        if not self._accept("<"):
            return ""
        opset = self._word("an operation set")
        self._expect(">")
        return opset

    def _declared(self, end: str) -> tuple[ir.Value, ...]:
        """Reads types and names of values up to a closing token."""
        return tuple(self._value() for _ in self._separated(end))

    def _value(self) -> ir.Value:
        type_ = self._type()
        return ir.Value(self._word("the name of a value"), type_)

    def _attributes(self) -> dict[str, ir.Constant]:
        """Reads attributes in brackets; an empty dictionary if there are none."""
        tokens = self._tokens
        token = tokens[self._at]
        attributes: dict[str, ir.Constant] = {}
        if token[:1] != "[":
            return attributes
        self._at += 1
        if token != "[":
            if token[1:-1].strip():
                raise tokens.error(self._at - 1, "an attribute has no value")
            return attributes
        while tokens[self._at] != "]":
            name = self._name("the name of an attribute")
            attributes[name] = self._constant()
            self._separate("]")
        self._at += 1
        return attributes

    def _name(self, what: str) -> str:
        """Reads a name and the equals sign after it."""
        name = self._word(what)
        if self._tokens[self._at] != "=":
            raise self._tokens.unexpected(self._at, "'='")
        self._at += 1
        return name

    def _separate(self, end: str) -> None:
        """Skips a comma, unless the closing token is next."""
        token = self._tokens[self._at]
        if token == "," and self._tokens[self._at + 1] != end:
            self._at += 1
        elif token != end:
            raise self._tokens.unexpected(self._at, f"',' or '{end}'")

    def _body(self, path: str, scope: _Scope, depth: int) -> tuple[tuple[ir.Op, ...], tuple[ir.Value, ...]]:
        """Reads operations in braces and the results after them."""
        self._expect("{")
        ops: list[ir.Op] = []
        while not self._accept("}"):
            op = self._operation(f"{path}/{len(ops)}", scope, depth)
            for value in op.outputs:
                scope[value.name] = value
            ops.append(op)
        self._expect("->")
        self._expect("(")
        return tuple(ops), tuple(self._reference(scope) for _ in self._separated(")"))

    def _operation(self, op_id: str, scope: _Scope, depth: int) -> ir.Op:
        tokens = self._tokens
        outputs: tuple[ir.Value, ...] = ()
        if self._is_type() and tokens[self._at + 1] != "(":
            outputs = self._declared("=")
        kind = self._word("an operation")
        self._opset()
        self._expect("(")
        inputs: dict[str, tuple[ir.Argument, ...]] = {}
        while tokens[self._at] != ")":
            name = self._name("the name of a parameter")
            if tokens[self._at] == "(":
                self._at += 1
                inputs[name] = tuple(self._argument(scope) for _ in self._separated(")"))
            else:
                inputs[name] = (self._argument(scope),)
            self._separate(")")
        self._at += 1
        attributes = self._attributes()
        blocks = () if tokens[self._at] == ";" else self._blocks(kind, op_id, scope, depth + 1)
        if not attributes and blocks:
            attributes = self._attributes()
        self._expect(";")
        return ir.Op(
            id=op_id, type=kind, inputs=inputs, outputs=outputs, blocks=blocks, attributes=attributes
        )

    def _argument(self, scope: _Scope) -> ir.Argument:
        token = self._tokens[self._at]
        value = scope.get(token)
        if value is not None and self._tokens[self._at + 1] in (",", ")"):
            self._at += 1
            return value
        known = self._constants.get(token)
        if known is not None:
            self._at += 1
            return known
        if (token[-1:] == ")" and len(token) > 1) or self._is_type():
            return self._constant()
        return self._reference(scope)

    def _reference(self, scope: _Scope) -> ir.Value:
        name = self._word("the name of a value")
        value = scope.get(name)
        if value is None:
            raise self._tokens.error(self._at - 1, f"the value '{shown(name)}' is used before its definition")
        return value

    def _blocks(self, kind: str, op_id: str, scope: _Scope, depth: int) -> tuple[ir.Graph, ...]:
        """Reads the nested blocks of an operation, each with a name, inputs, operations and results."""
        if depth > MAX_DEPTH:
            raise self._too_deep()
        roles = BLOCK_NAMES.get(kind, ())
        blocks: list[ir.Graph] = []
        while self._tokens[self._at] not in (";", "["):
            index = len(blocks)
            name = roles[index] if index < len(roles) else str(index)
            while self._tokens[self._at] not in ("(", "{"):
                self._word("';' or a nested block")
            inputs = self._declared(")") if self._accept("(") else ()
            attributes = self._attributes()
            inner: _Scope = ChainMap({value.name: value for value in inputs}, scope)
            ops, outputs = self._body(f"{op_id}/{name}", inner, depth)
            blocks.append(ir.Graph(name=name, inputs=inputs, ops=ops, outputs=outputs, attributes=attributes))
            self._accept(",")
        return tuple(blocks)
