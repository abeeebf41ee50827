"""Conversion of ML Programs: the `Program` message of `MIL.proto` from and to `ir.Program`."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from sys import intern

from coremlscope.base.budget import Budget
from coremlscope.base.errors import CorruptModelError
from coremlscope.base.units import shown
from coremlscope.formats.values import BlobOpener, read_type, read_value, write_type
from coremlscope.model import ir
from coremlscope.model.schema import Message

_DAMAGED = "the file is damaged or malicious; export or download the model again"

#: Roles of the blocks of control flow operations, in Apple's order.
BLOCK_NAMES = {"cond": ("true", "false"), "while_loop": ("cond", "body")}

_Scope = Mapping[str, ir.Value]


def read_program(message: Message, open_blob: BlobOpener) -> ir.Program:
    """Reads a `Program` message.

    For each function, the block of its operation set is read. protobuf limits nesting to 100 levels, so
    recursion is safe.

    Raises:
        CorruptModelError: The program uses an undefined value, or a value does not match its type.
        UnsupportedModelError: A graph has more operations than this machine's memory holds.
    """
    reader = _Reader(open_blob)
    functions = {entry.key: reader.read_function(entry.key, entry.value) for entry in message.functions}
    if not functions:
        raise CorruptModelError("the program has no functions", _DAMAGED)
    return ir.Program(
        functions=functions,
        version=message.version,
        doc=message.docString,
        attributes=reader.read_attributes(message.attributes),
    )


#: Shared by all operations without attributes.
_NO_ATTRIBUTES: Mapping[str, ir.Constant] = {}


class _Reader:
    """Reads functions. Equal names of parameters and attributes are one object."""

    def __init__(self, open_blob: BlobOpener) -> None:
        self._open_blob = open_blob
        self._budget = Budget.of_model()

    def read_function(self, name: str, message: Message) -> ir.Function:
        blocks = {entry.key: entry for entry in message.block_specializations}
        block = blocks.get(message.opset)
        if block is None:
            raise CorruptModelError(
                f"the function {shown(name)} has no block for its operation set '{shown(message.opset)}'",
                _DAMAGED,
            )
        inputs = self._read_values(message.inputs)
        scope = {value.name: value for value in inputs}
        graph = self._read_block(name, block.value, name, scope)
        graph = ir.Graph(
            name=name, inputs=inputs, ops=graph.ops, outputs=graph.outputs, attributes=graph.attributes
        )
        return ir.Function(
            name=name, opset=message.opset, graph=graph, attributes=self.read_attributes(message.attributes)
        )

    def read_attributes(self, entries: Iterable[Message]) -> Mapping[str, ir.Constant]:
        found = {intern(entry.key): read_value(entry.value, self._open_blob) for entry in entries}
        return found or _NO_ATTRIBUTES

    def _read_values(self, messages: Iterable[Message]) -> tuple[ir.Value, ...]:
        return tuple([ir.Value(message.name, read_type(message.type)) for message in messages])

    def _read_block(
        self, name: str, message: Message, path: str, scope: MutableMapping[str, ir.Value]
    ) -> ir.Graph:
        """Reads a block, and adds its inputs and results to the values by name."""
        self._budget.check_operations(len(message.operations))
        inputs = self._read_values(message.inputs)
        scope.update((value.name, value) for value in inputs)
        ops = []
        for index, operation in enumerate(message.operations):
            op = self._read_operation(operation, f"{path}/{index}", scope)
            scope.update((value.name, value) for value in op.outputs)
            ops.append(op)
        return ir.Graph(
            name=name,
            inputs=inputs,
            ops=tuple(ops),
            outputs=tuple(_lookup(output, scope, f"the result of {path}") for output in message.outputs),
            attributes=self.read_attributes(message.attributes),
        )

    def _read_operation(self, message: Message, op_id: str, scope: _Scope) -> ir.Op:
        inputs = {
            intern(entry.key): tuple(
                self._read_binding(binding, op_id, scope) for binding in entry.value.arguments
            )
            for entry in message.inputs
        }
        names = BLOCK_NAMES.get(message.type, ())
        blocks = []
        for index, block in enumerate(message.blocks):
            name = names[index] if index < len(names) else str(index)
            # Only the first of the maps is changed.
            inner: ChainMap[str, ir.Value] = ChainMap({}, scope)  # type: ignore[arg-type]
            blocks.append(self._read_block(name, block, f"{op_id}/{name}", inner))
        try:
            attributes = self.read_attributes(message.attributes)
            outputs = self._read_values(message.outputs)
        except CorruptModelError as error:
            where = f"{shown(message.type)} at {shown(op_id)}"
            raise CorruptModelError(f"{error.message} (in {where})", error.hint) from None
        return ir.Op(
            id=op_id,
            type=intern(message.type),
            inputs=inputs,
            outputs=outputs,
            blocks=tuple(blocks),
            attributes=attributes,
        )

    def _read_binding(self, message: Message, op_id: str, scope: _Scope) -> ir.Argument:
        match message.WhichOneof("binding"):
            case "name":
                return _lookup(message.name, scope, op_id)
            case "value":
                return read_value(message.value, self._open_blob)
            case _:
                raise CorruptModelError(f"an argument of {shown(op_id)} has no value", _DAMAGED)


def _lookup(name: str, scope: Mapping[str, ir.Value], user: str) -> ir.Value:
    value = scope.get(name)
    if value is None:
        raise CorruptModelError(
            f"{shown(user)} uses the value '{shown(name)}' before its definition", _DAMAGED
        )
    return value


#: Fills a constant's message, and writes its content inline or to a weight file.
ValueWriter = Callable[[ir.Constant, Message], None]


def write_program(program: ir.Program, message: Message, write_value: ValueWriter) -> None:
    """Fills a `Program` message; the inverse of `read_program`."""
    message.version = program.version
    message.docString = program.doc
    _write_attributes(program.attributes, message.attributes, write_value)
    for name, function in program.functions.items():
        entry = message.functions.add(key=name)
        target = entry.value
        target.opset = function.opset
        _write_values(function.graph.inputs, target.inputs)
        _write_attributes(function.attributes, target.attributes, write_value)
        specialization = target.block_specializations.add(key=function.opset)
        _write_block(function.graph, specialization.value, write_value)


def _write_block(graph: ir.Graph, message: Message, write_value: ValueWriter) -> None:
    """Fills a `Block`, except for its inputs, which functions store elsewhere."""
    message.SetInParent()
    _write_attributes(graph.attributes, message.attributes, write_value)
    message.outputs.extend(value.name for value in graph.outputs)
    for op in graph.ops:
        operation = message.operations.add(type=op.type)
        for parameter, arguments in op.inputs.items():
            entry = operation.inputs.add(key=parameter)
            entry.value.SetInParent()
            for argument in arguments:
                binding = entry.value.arguments.add()
                if isinstance(argument, ir.Value):
                    binding.name = argument.name
                else:
                    write_value(argument, binding.value)
        _write_values(op.outputs, operation.outputs)
        _write_attributes(op.attributes, operation.attributes, write_value)
        for block in op.blocks:
            target = operation.blocks.add()
            _write_values(block.inputs, target.inputs)
            _write_block(block, target, write_value)


def _write_values(values: Iterable[ir.Value], messages: Message) -> None:
    for value in values:
        named = messages.add(name=value.name)
        write_type(value.type, named.type)


def _write_attributes(
    attributes: Mapping[str, ir.Constant], entries: Message, write_value: ValueWriter
) -> None:
    for key, constant in attributes.items():
        write_value(constant, entries.add(key=key).value)
