"""Writes ONNX for a row's `lower`: tensors, nodes, weights, nested graphs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec.structs import replace

from coremlscope.base.arrays import np
from coremlscope.base.budget import Budget
from coremlscope.base.errors import CorruptModelError, UnsupportedModelError
from coremlscope.base.units import format_bytes, shown
from coremlscope.model.ir import (
    Array,
    Constant,
    Derived,
    DType,
    Immediate,
    ListType,
    Shape,
    StateType,
    TensorType,
    Value,
    ValueType,
)
from coremlscope.ops import kernels
from coremlscope.ops.view import CONTRADICTIONS, BoundGraph, CannotLower, OpView

if TYPE_CHECKING:
    import numpy.typing as npt
    import onnx

#: The version of ONNX's default operator set that lowered graphs use.
ONNX_OPSET = 21
#: Constants of at least this many bytes are kept outside the graph, in the weight file.
_EXTERNAL_BYTES = 4096

#: Element types by name: NumPy is imported when an operation is lowered.
F32, I32, I64, BOOL, STRING = "float32", "int32", "int64", "bool", "object"
NumpyType: TypeAlias = "np.dtype[Any]"


@functools.cache
def carry(dtype: DType) -> NumpyType:
    """The NumPy dtype that stands for a MIL element type in a lowered graph.

    Floats of every width are carried as float32 and integers of every width as int32: ONNX Runtime's CPU
    kernels for other widths have gaps, and convert to these internally anyway.
    """
    others = {DType.BOOL: BOOL, DType.STRING: STRING}
    return np.dtype(others.get(dtype, F32 if dtype.is_float else I32))


def range_state(op_id: str) -> str:
    """The name of the recorded range of an operation's results, which is passed along like a state."""
    return f"{op_id}:range"


class Tensor(msgspec.Struct, frozen=True):
    """A value of the ONNX graph.

    Attributes:
        name: Its name in the graph.
        dtype: Its element type in the graph.
        labels: For a classifier's results: the class labels that the elements stand for.
    """

    name: str
    dtype: NumpyType
    labels: tuple[str | int, ...] | None = None


class WeightSlot(msgspec.Struct, frozen=True, kw_only=True):
    """A constant kept in the weight file.

    Attributes:
        name: The initializer's name in the graph.
        shape: Its shape.
        dtype: The element type to write.
        constant: The content, read when the file is written.
        offset: Where it starts in the weight file, in bytes; set once it is known which slots are used.
    """

    name: str
    shape: tuple[int, ...]
    dtype: NumpyType
    constant: Constant
    offset: int = 0

    @property
    def nbytes(self) -> int:
        """Its length in the weight file."""
        return math.prod(self.shape) * self.dtype.itemsize

    def content(self) -> Array:
        """Reads or computes the elements, as `dtype`.

        Raises:
            MissingWeightsError: The constant lies in a file that is absent.
            CorruptModelError: It cannot be computed from its data.
            UnsupportedModelError: It does not fit in memory.
        """
        try:
            array = np.ascontiguousarray(self.constant.numpy(), dtype=self.dtype)
            return array.reshape(self.shape)
        except CONTRADICTIONS as error:
            # Damaged files hold data of any kind, which the operations that unpack it do not check entirely.
            raise CorruptModelError(
                f"the weight {shown(self.name)} cannot be computed from its data: {shown(str(error))}",
                "the file is damaged; export or download the model again",
            ) from None
        except MemoryError:
            raise UnsupportedModelError(
                f"the weight {shown(self.name)} of {format_bytes(self.nbytes)} does not fit in memory",
                "free memory, or use a larger machine",
            ) from None


class Emitter:
    """Collects the nodes, initializers and owners of one ONNX graph.

    Nested graphs (`subgraph`) share names, weights and owners with their root.

    Args:
        budget: What may be spent on constants; None for that of a model without weights.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget or Budget.of_model()
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.weights: list[WeightSlot] = []
        #: The initializers that are defaults of inputs.
        self.defaults: set[str] = set()
        self.owners: dict[str, str] = {}
        self.owner = ""
        self.shared: dict[Hashable, Constant] = {}
        #: What tensors repeat along axes of length 1 only, and its shape, by their names.
        self.broadcasts: dict[str, tuple[Tensor, Shape]] = {}
        self._names: dict[str, int] = {}
        self._constants: dict[tuple[int, str], Tensor] = {}
        self._small: dict[tuple[str, tuple[int, ...], bytes], Tensor] = {}
        self._alive: list[Constant] = []

    def unique(self, stem: str) -> str:
        """A name not used before in this graph, `stem` itself where that is free."""
        count = self._names.get(stem)
        self._names[stem] = (count or 0) + 1
        if count is None:
            return stem
        return self.unique(f"{stem}_{count}")

    def node(
        self,
        op_type: str,
        inputs: Sequence[Tensor | None],
        dtypes: Sequence[NumpyType],
        attributes: Mapping[str, Any],
    ) -> list[Tensor]:
        """Adds one node with `len(dtypes)` results, through another element type where a kernel is missing.

        Raises:
            CannotLower: The engine has no kernel for the element type, nor for a suitable other one.
        """
        given = [None if tensor is None else tensor.dtype for tensor in inputs]
        try:
            detour = kernels.detour(op_type, given, attributes)
        except LookupError as error:
            raise CannotLower(str(error)) from error
        if detour is None:
            return self._append(op_type, inputs, dtypes, attributes)
        inputs = [
            tensor if tensor is None or index not in detour.inputs else self._cast(tensor, detour.through)
            for index, tensor in enumerate(inputs)
        ]
        between = [detour.through if dtype == detour.around else dtype for dtype in dtypes]
        results = self._append(op_type, inputs, between, attributes)
        return [self._cast(tensor, dtype) for tensor, dtype in zip(results, dtypes, strict=True)]

    def _cast(self, tensor: Tensor, dtype: NumpyType) -> Tensor:
        if tensor.dtype == dtype:
            return tensor
        return self._append("Cast", [tensor], [dtype], {"to": element_type(dtype)})[0]

    def _append(
        self,
        op_type: str,
        inputs: Sequence[Tensor | None],
        dtypes: Sequence[NumpyType],
        attributes: Mapping[str, Any],
    ) -> list[Tensor]:
        from onnx import helper

        stem = f"{self.owner}/{op_type}" if self.owner else op_type
        outputs = [Tensor(self.unique(f"{stem}:{index}"), dtype) for index, dtype in enumerate(dtypes)]
        names = ["" if tensor is None else tensor.name for tensor in inputs]
        while names and not names[-1]:
            names.pop()
        given = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(
            helper.make_node(op_type, names, [t.name for t in outputs], outputs[0].name, **given)
        )
        for tensor in outputs:
            self.owners[tensor.name] = self.owner
        return outputs

    def array(self, array: Array) -> Tensor:
        """An initializer from an array (equal small ones are shared)."""
        if array.dtype != STRING and array.nbytes >= _EXTERNAL_BYTES:
            dtype = DType.of(array.dtype)
            return self.weight(Constant(TensorType(dtype, array.shape), Immediate(array)), array.dtype)
        content = repr(array.tolist()).encode() if array.dtype == STRING else array.tobytes()
        key = (array.dtype.str, array.shape, content)
        if key not in self._small:
            from onnx import numpy_helper

            name = self.unique(f"const_{len(self._small)}")
            self.initializers.append(
                numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
            )
            self._small[key] = Tensor(name, array.dtype)
        return self._small[key]

    def weight(self, constant: Constant, kind: npt.DTypeLike, stem: str = "weight") -> Tensor:
        """An initializer from a constant, as a type; a large one is read when the weight file is written.

        Raises:
            CannotLower: The constant's shape is not fully known.
        """
        dtype = np.dtype(kind)
        key = (id(constant), dtype.str)
        if key in self._constants:
            return self._constants[key]
        type_ = constant.type
        if not isinstance(type_, TensorType) or type_.elements is None:
            raise CannotLower("a constant that is not a tensor of known shape")
        nbytes = type_.elements * dtype.itemsize
        if dtype == STRING or nbytes < _EXTERNAL_BYTES:
            array = constant.numpy()
            tensor = self.array(array if array.dtype == dtype else array.astype(dtype))
        else:
            tensor = Tensor(self.unique(stem), dtype)
            shape = tuple(d or 0 for d in type_.shape or ())
            self.weights.append(WeightSlot(name=tensor.name, shape=shape, dtype=dtype, constant=constant))
        self._constants[key] = tensor
        self._alive.append(constant)  # keeps id(constant) from being used again
        return tensor

    def check_array(self, *lengths: int) -> None:
        """Checks the size of an array that is to be created from lengths, as float64 or int64.

        Raises:
            CannotLower: It is too large for this model and this machine.
        """
        nbytes = math.prod(lengths) * np.dtype(np.float64).itemsize
        if nbytes > self.budget.array_bytes:
            raise CannotLower(
                f"it needs a constant of {format_bytes(nbytes)}; the limit for this model is "
                f"{format_bytes(self.budget.array_bytes)}"
            )

    def default(self, array: Array) -> Tensor:
        """An initializer that is also an optional input, so that engines do not fold what depends on it."""
        tensor = Tensor(self.unique("default"), array.dtype)
        constant = Constant(TensorType(DType.of(array.dtype), array.shape), Immediate(array))
        self.weights.append(
            WeightSlot(name=tensor.name, shape=array.shape, dtype=array.dtype, constant=constant)
        )
        self.defaults.add(tensor.name)
        return tensor

    def maker(self, tensor: Tensor) -> str:
        """The operator that makes a tensor in the open graph; empty where none does."""
        found = (node.op_type for node in reversed(self.nodes) if tensor.name in node.output)
        return next(found, "")

    @contextmanager
    def subgraph(self) -> Iterator[list[onnx.NodeProto]]:
        """While open, nodes go to the yielded list instead of the current graph."""
        outer, self.nodes = self.nodes, []
        try:
            yield self.nodes
        finally:
            self.nodes = outer


#: Lowers a nested block into the graph that is open: from the block's inputs, and states at its start, to its
#: results, and the same states then.
LowerBlock = Callable[
    [BoundGraph, Sequence[Tensor], Mapping[str, Tensor]], tuple[list[Tensor], dict[str, Tensor]]
]


class Lowering:
    """One operation while it is lowered: its view, and ways to write ONNX.

    `op["x"]` is the tensor of parameter `x`; `op.emit("Relu", op["x"])` adds a node.
    """

    def __init__(
        self,
        view: OpView,
        emitter: Emitter,
        scope: Mapping[str, Tensor],
        states: MutableMapping[str, Tensor],
        lower_block: LowerBlock,
    ) -> None:
        self.view = view
        self.emitter = emitter
        self._scope = scope
        self._states = states
        self._lower_block = lower_block

    # Arguments

    def argument(self, name: str, index: int = 0) -> Tensor:
        """The tensor of one argument, in its carried dtype.

        Raises:
            CannotLower: The parameter is not given.
        """
        arguments = self.view.inputs.get(name, ())
        if index >= len(arguments):
            raise CannotLower(f"parameter `{name}` is missing")
        bound = arguments[index]
        if bound.constant is not None:
            return self.emitter.weight(
                bound.constant, carry(_element(bound.type)), f"{self.view.op.name}.{name}"
            )
        argument = self.view.op.inputs[name][index]
        assert not isinstance(argument, Constant)  # constants are bound with their content
        return self._in_scope(
            argument.name, self._states if isinstance(bound.type, StateType) else self._scope
        )

    @staticmethod
    def _in_scope(name: str, scope: Mapping[str, Tensor]) -> Tensor:
        if name not in scope:
            raise CannotLower(f"the value `{name}` is not defined where it is used")
        return scope[name]

    def __getitem__(self, name: str) -> Tensor:
        return self.argument(name)

    def get(self, name: str) -> Tensor | None:
        """The tensor of a parameter, or None where it is not given."""
        return self.argument(name) if self.view.has(name) else None

    def all(self, name: str) -> list[Tensor]:
        """The tensors of a variadic parameter."""
        return [self.argument(name, index) for index in range(len(self.view.inputs.get(name, ())))]

    def int64(self, name: str) -> Tensor:
        """An integer parameter as int64, which ONNX requires for shapes, axes and indices; may be dynamic."""
        if self.view.is_known(name):
            return self.const(self.view.value(name), I64)
        return self.cast(self.argument(name), I64)

    # States

    def state(self, name: str) -> Tensor:
        """The current content of the state called `name`."""
        return self._in_scope(name, self._states)

    def has_state(self, name: str) -> bool:
        """True where there is a state called `name`."""
        return name in self._states

    def set_state(self, name: str, tensor: Tensor) -> None:
        """Makes `tensor` the content of the state that parameter `name` is bound to, from here on."""
        state = self.view.op.inputs[name][0]
        if isinstance(state, Constant):
            raise TypeError(f"{name} is bound to a constant, not to a state")
        self.put_state(state.name, tensor)

    def put_state(self, state: str, tensor: Tensor) -> None:
        """Makes `tensor` the content of the state called `state`, from here on."""
        self._states[state] = tensor

    # Nodes

    def emit(
        self, op_type: str, *inputs: Tensor | None, dtype: npt.DTypeLike | None = None, **attributes: Any
    ) -> Tensor:
        """Adds a node with one result.

        Args:
            op_type: ONNX's name of the operator.
            inputs: Its inputs; None for an optional one that is left out.
            dtype: Element type of the result; where not given, what ONNX defines, or that of the first input.
            attributes: ONNX attributes; those that are None are left out.
        """
        if dtype is None:
            dtype = kernels.result_type(op_type, [None if t is None else t.dtype for t in inputs])
        return self.emit_many(op_type, *inputs, dtypes=[dtype], **attributes)[0]

    def emit_many(
        self, op_type: str, *inputs: Tensor | None, dtypes: Sequence[npt.DTypeLike], **attributes: Any
    ) -> list[Tensor]:
        """Adds a node with one result per element of `dtypes`."""
        return self.emitter.node(op_type, inputs, [np.dtype(d) for d in dtypes], attributes)

    def const(self, value: npt.ArrayLike, dtype: npt.DTypeLike) -> Tensor:
        """An initializer from a Python value or an array."""
        return self.emitter.array(np.asarray(value).astype(np.dtype(dtype)))

    def counting(self, count: int, dtype: npt.DTypeLike) -> Tensor:
        """An initializer with the numbers from 0 to `count` − 1.

        Raises:
            CannotLower: There are too many of them.
        """
        self.emitter.check_array(count)
        return self.const(np.arange(count), dtype)

    def like(self, value: npt.ArrayLike, tensor: Tensor) -> Tensor:
        """An initializer in the element type of `tensor`."""
        return self.const(value, tensor.dtype)

    def derived(
        self,
        names: str | Sequence[str],
        compute: Callable[..., Array],
        shape: Sequence[int],
        key: Hashable,
    ) -> Tensor:
        """An initializer computed from known parameters when the weight file is written.

        Args:
            names: The parameter, or several; the elements of each reach `compute` in the carried dtype.
            compute: From the parameters' arrays, in the order of `names`, to the initializer's.
            shape: The shape of what `compute` returns.
            key: Says what `compute` does: the same constants under the same key make one initializer, which
                operations that share weights then share.

        Raises:
            CannotLower: A parameter is not known before run time.
        """
        names = [names] if isinstance(names, str) else names
        sources = []
        for name in names:
            constant = self.view.bound(name).constant
            if constant is None:
                raise CannotLower(f"`{name}` is not known before run time")
            sources.append(constant)
        dtype = carry(_element(sources[0].type))

        def content() -> Array:
            return compute(*(s.numpy().astype(carry(_element(s.type)), copy=False) for s in sources))

        target = Constant(TensorType(DType.of(dtype), tuple(shape)), Derived(content, tuple(sources)))
        # The target keeps its sources alive, so that their ids are not used again.
        target = self.emitter.shared.setdefault((key, tuple(map(id, sources))), target)
        return self.emitter.weight(target, dtype, f"{self.view.op.name}.{names[0]}")

    def cast(self, tensor: Tensor, dtype: npt.DTypeLike) -> Tensor:
        """`tensor` as another element type; itself where it has that type."""
        kind = np.dtype(dtype)
        if tensor.dtype == kind:
            return tensor
        return self.emit("Cast", tensor, dtype=kind, to=element_type(kind))

    def reshape(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """`tensor` in another shape; -1 and 0 mean what they mean in ONNX (inferred, kept)."""
        return self.emit("Reshape", tensor, self.const(list(shape), I64))

    def transpose(self, tensor: Tensor, perm: Sequence[int]) -> Tensor:
        """`tensor` with its axes permuted; itself where `perm` changes nothing."""
        if list(perm) == list(range(len(perm))):
            return tensor
        return self.emit("Transpose", tensor, perm=list(perm))

    def unsqueeze(self, tensor: Tensor, axes: Sequence[int]) -> Tensor:
        """`tensor` with dimensions of one inserted at `axes` of the result."""
        return self.emit("Unsqueeze", tensor, self.const(list(axes), I64)) if axes else tensor

    def squeeze(self, tensor: Tensor, axes: Sequence[int]) -> Tensor:
        """`tensor` without its dimensions of one at `axes`."""
        return self.emit("Squeeze", tensor, self.const(list(axes), I64)) if axes else tensor

    def shape_of(self, tensor: Tensor) -> Tensor:
        """The shape at run time, int64."""
        return self.emit("Shape", tensor, dtype=I64)

    # Nested graphs

    def block(
        self, index: int, inputs: Sequence[Tensor] = (), states: Mapping[str, Tensor] | None = None
    ) -> tuple[list[Tensor], dict[str, Tensor]]:
        """Lowers a nested block into the graph that is open.

        Args:
            index: Which block.
            inputs: What its inputs stand for.
            states: The content, at its start, of the states that it writes.

        Returns:
            Its results, and the content of `states` at its end.
        """
        return self._lower_block(self.view.blocks[index], inputs, states or {})

    def written_states(self) -> list[str]:
        """The names of the states that the operation's nested blocks write."""
        written: dict[str, None] = {}
        for block in self.view.op.blocks:
            for op in block.walk():
                if op.type == "write_state":
                    written.update((v.name, None) for v in op.inputs["input"] if isinstance(v, Value))
                if range_state(op.id) in self._states:
                    written[range_state(op.id)] = None
        return list(written)

    def graph(
        self,
        name: str,
        inputs: Sequence[tuple[npt.DTypeLike, Sequence[int | None] | None]],
        body: Callable[[list[Tensor]], Sequence[Tensor]],
    ) -> tuple[onnx.GraphProto, list[NumpyType]]:
        """A nested ONNX graph for If, Loop or Scan.

        Args:
            name: Its name.
            inputs: Element type and shape of each input.
            body: From the inputs' tensors to the outputs', emitting nodes on the way.

        Returns:
            The graph and the element types of its outputs.
        """
        names = [self.emitter.unique(f"{name}.in{i}") for i in range(len(inputs))]
        arguments = [Tensor(one, np.dtype(kind)) for one, (kind, _) in zip(names, inputs, strict=True)]
        with self.emitter.subgraph() as nodes:
            results = list(body(arguments))
            # ONNX requires every output to come from a node of this graph, and to be a value of its own.
            free = {value for node in nodes for value in node.output}
            for index, tensor in enumerate(results):
                if tensor.name not in free:
                    results[index] = self.emit("Identity", tensor)
                free.discard(tensor.name)
        taken = [_info(tensor, shape) for tensor, (_, shape) in zip(arguments, inputs, strict=True)]
        made = [_info(tensor, None) for tensor in results]
        from onnx import helper

        return helper.make_graph(nodes, name, taken, made), [t.dtype for t in results]

    def with_labels(self, tensor: Tensor, labels: Sequence[str | int]) -> Tensor:
        """`tensor` with the class labels that its elements stand for."""
        return replace(tensor, labels=tuple(labels))


def _info(tensor: Tensor, shape: Sequence[int | None] | None) -> onnx.ValueInfoProto:
    from onnx import helper

    return helper.make_tensor_value_info(tensor.name, element_type(tensor.dtype), shape)


def element_type(dtype: NumpyType) -> int:
    """Returns ONNX's number of an element type."""
    from onnx import helper

    return helper.np_dtype_to_tensor_dtype(dtype)


def _element(type_: ValueType) -> DType:
    """The element type of a tensor, or of the tensors in a list or state."""
    match type_:
        case TensorType(dtype, _):
            return dtype
        case StateType(wrapped):
            return _element(wrapped)
        case ListType(element, _):
            return _element(element)
        case _:
            raise CannotLower("a tuple or dictionary as a tensor")
