"""Translation of the graphs of Core AI models to `ir.Program`, operation by operation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from coremlscope.base.errors import UnsupportedModelError
from coremlscope.base.units import shown
from coremlscope.formats.aimodel import compression, contraction, elementwise, resizing, shaping
from coremlscope.formats.aimodel.bytecode import EncodedValue
from coremlscope.formats.aimodel.composites import COMPOSITES, Arguments
from coremlscope.formats.aimodel.content import BlockContent, Content, GraphContent, StoredOp
from coremlscope.formats.aimodel.cursor import damaged
from coremlscope.formats.aimodel.dialect import OtherType
from coremlscope.formats.aimodel.formulas import Formulas
from coremlscope.formats.aimodel.interface import plain_type
from coremlscope.formats.aimodel.joining import Joined, join
from coremlscope.formats.aimodel.translation import Operand, Row, Token, Translation
from coremlscope.formats.neuralnetwork.builder import Blob, Builder, CannotTranslate
from coremlscope.model import ir
from coremlscope.model.ir import Constant, Derived, DType, Function, Layer, Program, StateType, TensorType

#: The operation set of the translation: that of iOS 18, which has states and scaled blocks.
_OPSET = "CoreML8"
#: The table of operations.
_ROWS: Mapping[str, Row] = {
    **elementwise.ROWS,
    **shaping.ROWS,
    **contraction.ROWS,
    **compression.ROWS,
}
#: How deeply graphs may call each other.
_MOST_CALLS = 16
#: How many operations a program may have once its graphs are in place of their calls: these, and some for
#: each operation of the file. Composites of attention have about 15 operations.
_FREE_OPERATIONS, _RATIO = 10_000, 32
#: The largest and smallest numbers of int32, to which wider constants are limited.
_INT32 = np.iinfo(np.int32)
#: Operations of which the file has the parts of a loop or a branch instead of a decomposition.
_CONTROL = ("if", "while", "scatter_nd", "reduce", "reduce_index", "isolated_group")


def translate(content: Content) -> Program:
    """Translates a program.

    An operation without a translation becomes one without a definition and with the reason. The model can
    then be inspected, but not run.

    Raises:
        CorruptModelError: An operation uses a value before it is defined, or calls a missing graph.
    """
    entries = [graph for graph in content.graphs.values() if not graph.is_private]
    if not entries:
        raise damaged("all of its graphs are private")
    return Program(
        functions={graph.name: _Network(content, graph).translate() for graph in entries}, kind=ir.CORE_AI
    )


def find_layers(content: Content, graph: GraphContent) -> dict[int, tuple[frozenset[Layer], ...]]:
    """Returns the layers that compute each operation, by the operation's number; see `OperationOrigin`.

    An operation that is joined with another one, such as a padding, is computed by the layer of that one.
    One of a graph that is called several times is computed by the layers of all calls. Different graphs use
    the same numbers, so there are several sets for some.

    Args:
        content: The program.
        graph: The graph that is run, with all that it calls.

    Raises:
        CorruptModelError: The graph is damaged.
    """
    network = _Network(content, graph)
    network.translate()
    computing: dict[StoredOp, set[Layer]] = {}
    for op, layer in network.placed():
        computing.setdefault(op, set()).add(layer)
    found: dict[int, list[frozenset[Layer]]] = {}
    for op, layers in computing.items():
        number = content.origin(op).id
        if number is not None:
            found.setdefault(number, []).append(frozenset(layers))
    return {number: tuple(sets) for number, sets in found.items()}


class _Network:
    """Translates a graph with all graphs that it calls."""

    def __init__(self, content: Content, graph: GraphContent) -> None:
        self.content = content
        self.graph = graph
        outputs = [feature.name for feature in _tensors(graph)]
        self.builder = Builder(graph.name, outputs)
        self.layers: list[Layer] = []
        #: Operations, with the index of the layer that was made for each; several times if called again.
        self._places: list[tuple[StoredOp, int]] = []
        #: The operations that others were joined with.
        self._hosts: dict[StoredOp, StoredOp] = {}
        stored = sum(len(graph.body.ops) for graph in content.graphs.values())
        self._left = _FREE_OPERATIONS + _RATIO * stored
        self._calls: list[str] = []
        #: The layer of the composite that is being translated.
        self._whole: Layer | None = None
        #: The operations of all blocks so far by their results.
        self._makers: dict[EncodedValue, StoredOp] = {}

    def translate(self) -> Function:
        b = self.builder
        inputs, given = [], {}
        for feature, value in zip(self.graph.inputs, self.graph.body.arguments, strict=True):
            operand, blob = self._input(feature.name, feature.type)
            given[value] = operand
            if blob is not None:
                inputs.append(blob)
        results = self._block(self.graph.body, given)
        b.layer = None
        names = [feature.name for feature in self.graph.outputs]
        outputs = [
            self._output(name, operand)
            for name, operand in zip(names, results, strict=True)
            if not isinstance(operand, Token)
        ]
        graph = b.graph(self.graph.name, inputs, outputs)
        return Function(name=self.graph.name, opset=_OPSET, graph=graph, layers=tuple(self.layers))

    def placed(self) -> Iterator[tuple[StoredOp, Layer]]:
        """Yields the translated operations, each with the layer that computes it."""
        own = dict(self._places)
        for op, place in self._places:
            yield op, self.layers[own.get(self._hosts[op], place) if op in self._hosts else place]

    def _input(self, name: str, type_: object) -> tuple[Operand, Blob | None]:
        if isinstance(type_, StateType) and isinstance(type_.wrapped, TensorType):
            blob = self.builder.state(name, plain_type(type_.wrapped))
            return Token(name), blob
        if not isinstance(type_, TensorType):
            return Token(), None
        wanted = plain_type(type_)
        self.builder.feature = name
        blob = self.builder.input(
            name, DType.INT32 if wanted.dtype is DType.BOOL else wanted.dtype, wanted.shape
        )
        if wanted.dtype is DType.BOOL:
            return self.builder.op("cast", x=blob, dtype=DType.BOOL.value), blob
        return blob, blob

    def _output(self, name: str, operand: Operand) -> Blob:
        """Gives a result its name, by an operation if it has another one."""
        b = self.builder
        b.feature = name
        assert not isinstance(operand, Token)
        if elementwise.is_boolean(operand):
            return b.op("cast", named=name, x=operand, dtype=DType.INT32.value)
        if isinstance(operand, Blob):
            renamed = b.rename(operand, name, 0, is_reserved=True)
            if renamed.value.name == name:
                return renamed
        return b.op("identity", named=name, x=operand)

    # Blocks and operations

    def _block(self, body: BlockContent, given: Mapping[EncodedValue, Operand]) -> list[Operand]:
        """Translates the operations of a block, and returns the operands of its last operation."""
        scope: dict[EncodedValue, Operand] = dict(given)
        self._makers.update((value, op) for op in body.ops for value in op.results)
        constants: dict[EncodedValue, Constant] = {}
        types: dict[EncodedValue, TensorType] = {}
        for value in (*body.arguments, *(value for op in body.ops for value in op.results)):
            type_ = self.content.type(value)
            if isinstance(type_, TensorType):
                types[value] = plain_type(type_)
        for op in body.ops:
            found = self._constant(op)
            if found is not None:
                constants[op.results[0]] = found
        constants.update((v, operand) for v, operand in given.items() if isinstance(operand, Constant))
        joined, absorbed = join(body, constants, types)
        followers = {found.follower: op for op, found in joined.items() if found.follower is not None}
        self._hosts.update({**_hosts(body, joined, absorbed), **followers})
        scope.update(constants)
        for op in body.ops:
            if op.name in ("output", "yield"):
                return [self._look_up(value, scope, op) for value in op.operands]
            if op.name == "constant" and op.results[0] in constants:
                continue
            if op in absorbed:
                self._note(op)
                continue
            scope.update(self._results(op, joined.get(op), scope))
        return []

    def _look_up(self, value: EncodedValue, scope: Mapping[EncodedValue, Operand], op: StoredOp) -> Operand:
        operand = scope.get(value)
        if operand is None:
            raise damaged(f"an argument of {shown(op.name)} is used before it is defined")
        return operand

    def _constant(self, op: StoredOp) -> Constant | None:
        """Returns a constant; wide and unsigned integers as int32.

        None for other operations, and if its type is not supported.
        """
        if op.name != "constant" or len(op.results) != 1:
            return None
        try:
            value = self.content.constant(op)
        except UnsupportedModelError:
            return None
        return _narrowed(value)

    def _note(self, op: StoredOp) -> Layer:
        """Adds a layer for an operation, and returns it."""
        if self._whole is None:
            self.layers.append(Layer(name=_layer_name(self.content, op), type=op.name))
        self._places.append((op, len(self.layers) - 1))
        return self._whole or self.layers[-1]

    def _results(
        self, op: StoredOp, joined: Joined | None, scope: Mapping[EncodedValue, Operand]
    ) -> list[tuple[EncodedValue, Operand]]:
        """Translates an operation, and returns its results, or those of what is joined with it."""
        self._left -= 1
        if self._left < 0:
            raise damaged("its graphs call each other too often")
        b = self.builder
        outer, mark = b.layer, b.mark
        b.layer = self._note(op)
        targets = op.results if joined is None or joined.follower is None else joined.follower.results
        try:
            operands = self._translated_op(op, joined, scope)
            problem = self._contradiction(operands, targets)
        except CannotTranslate as error:
            operands, problem = [], str(error)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            # A damaged file may contain arbitrary arguments, which translations do not check completely.
            problem = f"its arguments do not match its definition ({type(error).__name__}: {error})"
        if problem:
            b.undo_from(mark)
            self._blame(b.layer, problem)
            operands = self._placeholders(op, targets, scope)
        b.layer = outer
        return list(zip(targets, operands, strict=False))

    def _blame(self, layer: Layer, problem: str) -> None:
        failed = replace(layer, problem=problem)
        self.layers[:] = [failed if known is layer else known for known in self.layers]
        self.builder.layer = failed

    def _placeholders(
        self, op: StoredOp, targets: Sequence[EncodedValue], scope: Mapping[EncodedValue, Operand]
    ) -> list[Operand]:
        """Emits an operation without a definition."""
        types = [self.content.type(value) for value in targets]
        tensors = [plain_type(type_) for type_ in types if isinstance(type_, TensorType)]
        operands = [scope[value] for value in op.operands if value in scope]
        blobs = iter(
            self.builder.unknown(
                op.name, [operand for operand in operands if isinstance(operand, Blob)], tensors
            )
        )
        return [next(blobs) if isinstance(type_, TensorType) else Token() for type_ in types]

    def _contradiction(self, operands: Sequence[Operand], targets: Sequence[EncodedValue]) -> str:
        """Compares the results with their types in the file. Returns the difference, or an empty string."""
        if len(operands) != len(targets):
            return f"it has {len(targets)} results instead of {len(operands)}"
        for operand, value in zip(operands, targets, strict=True):
            declared = self.content.type(value)
            if isinstance(operand, Token):
                if not isinstance(declared, OtherType):
                    return "a result is not a tensor"
                continue
            found = operand.bound.type if isinstance(operand, Blob) else operand.type
            if isinstance(found, TensorType) and isinstance(declared, TensorType):
                wanted = plain_type(declared)
                if not _agree(found, wanted):
                    text = f"{ir.describe_type(found)} instead of {ir.describe_type(wanted)}"
                    return f"its result would be {text}"
        return ""

    def _translated_op(
        self, op: StoredOp, joined: Joined | None, scope: Mapping[EncodedValue, Operand]
    ) -> Sequence[Operand]:
        # Results of operations that are joined with this one are not in the scope.
        operands = [
            Token() if joined is not None and value not in scope else self._look_up(value, scope, op)
            for value in op.operands
        ]
        t = Translation(
            builder=self.builder,
            op=op,
            inputs=operands,
            types=[self.content.type(value) for value in op.results],
        )
        if joined is not None:
            found = _joined_op(t, joined, scope)
            if found is not None:
                return [found]
        if op.name in _HANDLERS:
            return _HANDLERS[op.name](self, t, scope)
        row = _ROWS.get(op.name)
        if row is not None:
            least, most = row.inputs
            if len(operands) < least or 0 <= most < len(operands):
                raise CannotTranslate(f"it has {len(operands)} arguments")
            result = row.translate(t)
            return [result] if isinstance(result, (Blob, Constant, Token)) else list(result)
        if len(op.blocks) == 1 and op.name not in _CONTROL:
            return self._decomposed(op.name, op.blocks[0], operands)
        raise CannotTranslate("this operation is not supported")

    def _decomposed(self, name: str, block: BlockContent, operands: Sequence[Operand]) -> Sequence[Operand]:
        """Translates an operation by the simpler ones that the file has for it."""
        if len(self._calls) >= _MOST_CALLS:
            raise damaged(f"its graphs call each other deeper than {_MOST_CALLS} levels")
        if len(block.arguments) != len(operands):
            raise CannotTranslate(f"it has {len(operands)} arguments instead of {len(block.arguments)}")
        outer, whole = self._whole, self.builder.layer
        self._calls.append(name)
        self._whole = outer or whole
        try:
            results = self._block(block, dict(zip(block.arguments, operands, strict=True)))
        finally:
            self._whole = outer
            self._calls.pop()
        return results

    # Calls, states and branches

    def invoke(self, t: Translation, scope: Mapping[EncodedValue, Operand]) -> Sequence[Operand]:
        """Translates a call: as one operation for a composite that Core ML has too, or else its body."""
        del scope
        callee = t.op.attributes.get("callee")
        graph = self.content.graphs.get(callee) if isinstance(callee, str) else None
        if graph is None:
            raise CannotTranslate("the graph that it calls is missing")
        layer = self.builder.layer
        if graph.composite and layer is not None and self._whole is None:
            named = replace(layer, type=graph.composite)
            self.layers[:] = [named if known is layer else known for known in self.layers]
            self.builder.layer = named
        emit = COMPOSITES.get(graph.composite)
        mark = self.builder.mark
        if emit is not None:
            try:
                result = emit(self.builder, Arguments(graph, list(t.inputs)))
                if not self._contradiction([result], t.op.results):
                    self._places.extend((op, len(self.layers) - 1) for op in graph.body.ops)
                    return [result]
            except CannotTranslate:
                pass  # Its body says the same with simpler operations.
            self.builder.undo_from(mark)
        return self._decomposed(graph.name, graph.body, t.inputs)

    def read_handle(self, t: Translation, scope: Mapping[EncodedValue, Operand]) -> Sequence[Operand]:
        del scope
        return [self.builder.op("read_state", input=self._state(t)), Token()]

    def write_handle(self, t: Translation, scope: Mapping[EncodedValue, Operand]) -> Sequence[Operand]:
        del scope
        self.builder.ops("write_state", 0, named=[], input=self._state(t), data=t.tensor(1))
        return [Token()]

    def _state(self, t: Translation) -> Blob:
        handle = t.inputs[0]
        if not isinstance(handle, Token) or not handle.state:
            raise CannotTranslate("its first argument is not a state")
        return self.builder.known_state(handle.state)

    def token(self, t: Translation, scope: Mapping[EncodedValue, Operand]) -> Sequence[Operand]:
        del scope
        return [Token() for _ in t.types]

    def branch(self, t: Translation, scope: Mapping[EncodedValue, Operand]) -> Sequence[Operand]:
        """Translates a condition with two blocks, which may read values from outside."""
        b = self.builder
        if len(t.op.blocks) != 2:
            raise CannotTranslate(f"it has {len(t.op.blocks)} branches instead of 2")

        def write(block: BlockContent) -> Sequence[Blob]:
            results = self._inner(block, scope)
            return [b.op("identity", x=result) for result in results if not isinstance(result, Token)]

        graphs = [
            b.block(name, [], lambda _, block=block: write(block))  # type: ignore[misc]
            for name, block in zip(("true", "false"), t.op.blocks, strict=True)
        ]
        return b.control("cond", len(t.types), graphs, pred=t.x)

    def scatter_nd(self, t: Translation, scope: Mapping[EncodedValue, Operand]) -> Sequence[Operand]:
        """Translates writes to places, whose block says what becomes of an element and its update."""
        del scope
        if len(t.op.blocks) != 1 or len(t.inputs) != 3:
            raise CannotTranslate(f"it has {len(t.inputs)} arguments and {len(t.op.blocks)} blocks")
        return [shaping.scatter_nd(t, t.op.blocks[0])]

    def interpolate(self, t: Translation, scope: Mapping[EncodedValue, Operand]) -> Sequence[Operand]:
        del scope
        return [resizing.resize(t, Formulas(self.content, self._makers))]

    def _inner(self, block: BlockContent, scope: Mapping[EncodedValue, Operand]) -> Sequence[Operand]:
        outer = self._whole
        self._whole = outer or self.builder.layer
        try:
            return self._block(block, scope)
        finally:
            self._whole = outer


_HANDLERS = {
    "invoke": _Network.invoke,
    "read_handle": _Network.read_handle,
    "write_handle": _Network.write_handle,
    "create_token": _Network.token,
    "join_token": _Network.token,
    "if": _Network.branch,
    "scatter_nd": _Network.scatter_nd,
    "interpolate": _Network.interpolate,
}


def _joined_op(t: Translation, joined: Joined, scope: Mapping[EncodedValue, Operand]) -> Operand | None:
    """Emits an operation with what is joined with it; returns None if nothing is."""
    x = t.x if joined.x is None else scope[joined.x]
    if t.op.name.startswith("conv"):
        return contraction.convolution(t, x, joined.padding, joined.bias)
    if joined.weight is not None:
        return contraction.linear(t, scope[joined.weight], joined.bias)
    if joined.y is not None:
        return contraction.matmul(t, scope[joined.y])
    if joined.limits is not None:
        low, high = (np.asarray(limit, t.dtype.numpy) for limit in joined.limits)
        if joined.limits == (0.0, 6.0):
            return t.builder.op("relu6", x=t.x)
        return t.builder.op("clip", x=t.x, alpha=low, beta=high)
    if joined.is_mean:
        return contraction.pool(t, "avg_pool", x, joined.padding, exclude_padding_from_average=False)
    if joined.padding is not None:
        return contraction.pool(t, "max_pool", x, joined.padding, ceil_mode=t.flag(4))
    return None


def _hosts(
    body: BlockContent, joined: Collection[StoredOp], absorbed: Collection[StoredOp]
) -> dict[StoredOp, StoredOp]:
    """Returns the operation with which each of the absorbed ones before it is joined."""
    makers = {value: op for op in body.ops for value in op.results}
    hosts: dict[StoredOp, StoredOp] = {}
    for op in joined:
        parts = (makers.get(value) for value in op.operands)
        hosts.update((part, op) for part in parts if part is not None and part in absorbed)
    return hosts


def _tensors(graph: GraphContent) -> list[ir.Value]:
    return [
        ir.Value(feature.name, feature.type)
        for feature in graph.outputs
        if isinstance(feature.type, TensorType)
    ]


def _narrowed(value: Constant) -> Constant:
    """Returns a constant with a type that Core ML computes with: wide and unsigned integers as int32."""
    assert isinstance(value.type, TensorType)
    wanted = plain_type(value.type)
    if wanted == value.type:
        return value

    def compute() -> ir.Array:
        return np.clip(value.numpy(), _INT32.min, _INT32.max).astype(np.int32)

    return Constant(wanted, Derived(compute, (value,)))


def _agree(found: TensorType, declared: TensorType) -> bool:
    if found.dtype is not declared.dtype or found.shape is None or declared.shape is None:
        return found.dtype is declared.dtype
    pairs = zip(found.shape, declared.shape, strict=False)
    return len(found.shape) == len(declared.shape) and all(a == b or None in (a, b) for a, b in pairs)


def _layer_name(content: Content, op: StoredOp) -> str:
    """Returns the path of modules and the node of the PyTorch program, or else the type and a number."""
    origin = content.origin(op)
    if not origin.nodes:
        return op.name if origin.id is None else f"{op.name}_{origin.id}"
    return "/".join((*origin.modules[1:], origin.nodes[0]))
