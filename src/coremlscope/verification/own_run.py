"""Runs a program by the embedded engine and records the value of every operation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import msgspec.structs
import numpy as np
from msgspec.structs import replace

from coremlscope.base.budget import Budget
from coremlscope.base.errors import UnsupportedModelError
from coremlscope.base.scratch import scratch_folder
from coremlscope.base.units import format_bytes
from coremlscope.model.ir import Array, Constant, DType, Function, Model, Op, TensorType, Value
from coremlscope.model.ir.rewriting import constants_of
from coremlscope.ops import OPS
from coremlscope.ops.bind import BoundFunction, bind
from coremlscope.ops.lower import lower
from coremlscope.ops.program import Precision
from coremlscope.runtime.engines import engine
from coremlscope.runtime.engines.base import EngineOptions
from coremlscope.runtime.execution.binding import bind_model
from coremlscope.runtime.execution.codec import FeatureCodec
from coremlscope.runtime.execution.state import State
from coremlscope.verification.intermediates import Intermediate, Parameter, Run

#: The part of the machine's memory that all intermediate values of one run may take: three runs are compared.
_MEMORY_PART = 8
#: The end of the name of a value that replaces another one.
_GIVEN = "@given"


class FunctionCall(msgspec.Struct, frozen=True):
    """A function with bound shapes and the values of its inputs.

    Attributes:
        model: The model.
        function: The function, specialised for the shapes.
        inputs: Tensors by input name, as `to_tensors` returns them.
        states: What states hold before the call, by name, for each precision: results of earlier calls are
            rounded or not. Others hold zeros.
        loaded: The function with the value of every operation as an output, by precision, for calls with
            other inputs; whoever gives it closes what it holds. None to load it for each run.
    """

    model: Model
    function: Function
    inputs: Mapping[str, Array]
    states: Mapping[Precision, Mapping[str, Array]] = {}
    loaded: dict[Precision, Loaded] | None = None

    @classmethod
    def of(
        cls,
        model: Model,
        function: str | None,
        inputs: Mapping[str, Array],
        loaded: dict[Precision, Loaded] | None = None,
    ) -> FunctionCall:
        """Returns the function of a model for inputs of some shapes; see the attributes.

        Raises:
            ModelError: The function cannot be bound to these shapes, or the model has no program.
        """
        shapes = {name: array.shape for name, array in inputs.items() if array.dtype != object}
        return cls(model, bind_model(model, function, shapes).function, inputs, loaded=loaded)

    def with_function(self, function: Function) -> FunctionCall:
        """Returns the same call of an edited copy of the function."""
        return msgspec.structs.replace(self, function=function, loaded=None)

    def bind(self, function: Function | None = None) -> BoundFunction:
        """Binds the function, or an edited copy of it, to the shapes of the inputs."""
        body = function or self.function
        shapes = {
            value.name: self.inputs[value.name].shape
            for value in body.graph.inputs
            if value.name in self.inputs and isinstance(value.type, TensorType) and not value.type.is_static
        }
        return bind(body, OPS, shapes, Budget.of_model(self.model.size_bytes))


def record(
    call: FunctionCall,
    precision: Precision = "fp32",
    function: Function | None = None,
    names: Collection[str] | None = None,
) -> Run:
    """Runs a program and records the value of every operation of its body.

    Args:
        call: The function and its inputs.
        precision: `fp16` rounds each result that is declared as fp16, as a device does.
        function: An edited copy of the function to run instead.
        names: The values to record; None for all.

    Raises:
        UnsupportedModelError: The values of all operations together do not fit in memory.
        UnsupportedOpError: Operations cannot be run.
        EngineError: The engine failed.
    """
    body = function or call.function
    is_kept = call.loaded is not None and function is None and names is None
    loaded = call.loaded.get(precision) if call.loaded is not None and is_kept else None
    if loaded is None:
        bound = call.bind(body)
        recorded = [(value, op) for value, op in _recorded(bound) if names is None or value.name in names]
        loaded = Loaded(call, body, recorded, precision, {**constants_of(body), **_decompressed(bound)})
    try:
        arrays = loaded.run(call, {})[0]
    finally:
        if call.loaded is not None and is_kept:
            call.loaded[precision] = loaded
        else:
            loaded.close()
    given = _given(call, body, precision)
    inputs = {
        value.name: Intermediate(name=value.name, array=given[value.name])
        for value in body.graph.inputs
        if value.name in given
    }
    values, contents = dict(inputs), dict(_contents(body))
    for value, op in loaded.recorded:
        values[value.name] = Intermediate(
            name=value.name,
            array=arrays[value.name],
            op=op.id,
            type=op.type,
            inputs=tuple(_read(op, values, contents)),
            parameters=tuple(_parameters(op, loaded.constants)),
        )
    outputs = {value.name: value.name for value in body.graph.outputs if value.name in values}
    outputs.update(_scores(body, values))
    states = {state: name for state, name in _last_contents(body) if name in values and state not in outputs}
    return Run(
        label=f"coremlscope, {precision}",
        values=values,
        outputs={**outputs, **states},
        states=frozenset(states),
    )


def next_states(
    call: FunctionCall, precision: Precision, function: Function | None = None
) -> dict[str, Array]:
    """Returns what the states of a function hold after a call, by name, in float32 for fp16 states.

    Args:
        call: The function, its inputs, and what the states hold before.
        precision: See `record`.
        function: An edited copy of the function to run instead.

    Raises:
        EngineError: The engine failed.
    """
    _, state = _run(call, function or call.function, [], precision, {})
    return {name: state.read(name) for name in state.names}


def _state_of(op: Op) -> str:
    """Returns the name of the state that an operation reads or writes; empty for other operations."""
    if op.type not in ("read_state", "write_state"):
        return ""
    return next((a.name for a in op.inputs.get("input", ()) if isinstance(a, Value)), "")


def _written(op: Op) -> str:
    """Returns the name of the value that an operation writes to a state; empty if it is a constant."""
    return next((a.name for a in op.inputs.get("data", ()) if isinstance(a, Value)), "")


def _contents(body: Function) -> Iterator[tuple[str, str]]:
    """Yields the values that hold the content of a state after it was written, and what was written."""
    written: dict[str, str] = {}
    for op in body.graph.ops:
        state = _state_of(op)
        if op.type == "write_state":
            written[state] = _written(op)
        elif written.get(state):
            yield op.outputs[0].name, written[state]


def _last_contents(body: Function) -> Iterator[tuple[str, str]]:
    """Yields the states, and the values that they hold at the end. States written in a block are left out."""
    last: dict[str, str] = {}
    inner = {_state_of(op) for outer in body.graph.ops for block in outer.blocks for op in block.walk()}
    for op in body.graph.ops:
        state = _state_of(op)
        if op.type == "write_state":
            last[state] = _written(op)
        elif state:
            last.setdefault(state, op.outputs[0].name)
    yield from ((state, name) for state, name in last.items() if state not in inner)


def _scores(body: Function, values: Mapping[str, Intermediate]) -> Iterator[tuple[str, str]]:
    """Yields the outputs of classifiers, which are dictionaries, and the values that hold their numbers."""
    returned = {value.name for value in body.graph.outputs}
    for op in body.graph.ops:
        for argument in op.inputs.get("probabilities", ()) if op.type == "classify" else ():
            if isinstance(argument, Value) and argument.name in values and op.outputs[-1].name in returned:
                yield op.outputs[-1].name, argument.name


def run_from(
    call: FunctionCall, given: Mapping[str, Array], names: list[str], precision: Precision = "fp32"
) -> dict[str, Array]:
    """Runs every operation on given values instead of those that the operations before it compute.

    Args:
        call: The function and its inputs.
        given: Values by name, in the shapes of the program.
        names: The values to return.
        precision: See `record`.

    Returns:
        What each operation computes from the given values, by the name of the value.
    """
    graph = call.function.graph
    declared = {v.name: v.type for v in (*graph.inputs, *(v for op in graph.ops for v in op.outputs))}
    extra = {
        name: Value(f"{name}{_GIVEN}", TensorType(type_.dtype, array.shape))
        for name, array in given.items()
        if isinstance(type_ := declared.get(name), TensorType)
    }

    ops, read = _needed(graph.ops, names, extra)
    fed = {name: value for name, value in extra.items() if value.name in read}
    # Without its own outputs, only what the wanted values need is run.
    smaller = replace(graph, inputs=(*graph.inputs, *fed.values()), ops=ops, outputs=())
    body = replace(call.function, graph=smaller)
    returned = set(names)
    wanted = [
        (Value(value.name, known.type), view.op)
        for view in call.bind(body).graph.ops
        for value, known in zip(view.op.outputs, view.outputs, strict=False)
        if value.name in returned and isinstance(known.type, TensorType)
    ]
    feeds = {value.name: given[name] for name, value in fed.items()}
    return _run(call, body, wanted, precision, feeds)[0]


def near(function: Function, name: str, bounds: Collection[str]) -> Function:
    """Returns a function with those operations only that lie between some values and one that is computed of
    them, for `run_from`: experiments with it copy less. The ids of operations stay.

    Args:
        function: The function.
        name: The value.
        bounds: The names of the values above it that are given.
    """
    wanted, kept = {name}, list[Op]()
    for op in reversed(function.graph.ops):
        if not any(value.name in wanted for value in op.outputs):
            continue
        if op.blocks or _state_of(op):
            return function
        kept.append(op)
        if not any(value.name in bounds for value in op.outputs):
            wanted.update(a.name for given in op.inputs.values() for a in given if isinstance(a, Value))
    return replace(function, graph=replace(function.graph, ops=tuple(reversed(kept)), outputs=()))


def _needed(
    ops: Sequence[Op], names: Collection[str], instead: Mapping[str, Value]
) -> tuple[tuple[Op, ...], set[str]]:
    """Returns the operations that some values need, and the names of all values that they read.

    Args:
        ops: All operations.
        names: The values.
        instead: What operations read instead, by the name of a value.
    """
    wanted, read, kept = set(names), set[str](), []
    states: set[str] = set()
    for op in reversed(ops):
        is_content = op.type == "write_state" and _state_of(op) in states
        if not is_content and not any(value.name in wanted for value in op.outputs):
            continue
        if state := _state_of(op):
            (states.discard if is_content else states.add)(state)
        inputs = {
            name: tuple(instead.get(a.name, a) if isinstance(a, Value) else a for a in arguments)
            for name, arguments in op.inputs.items()
        }
        kept.append(replace(op, inputs=inputs))
        found = {a.name for given in inputs.values() for a in given if isinstance(a, Value)}
        for block in op.blocks:
            inner = (a for one in block.walk() for given in one.inputs.values() for a in given)
            found |= {a.name for a in (*inner, *block.outputs) if isinstance(a, Value)}
        read |= found
        wanted |= found
    return tuple(reversed(kept)), read


def _recorded(bound: BoundFunction) -> Iterator[tuple[Value, Op]]:
    """Yields the tensors that the operations of a body compute at run time.

    Raises:
        UnsupportedModelError: They do not fit in memory.
    """
    total = 0
    for view in bound.graph.ops:
        for value, known in zip(view.op.outputs, view.outputs, strict=False):
            if (
                isinstance(known.type, TensorType)
                and known.constant is None
                and known.type.dtype is not DType.STRING
            ):
                total += (known.type.elements or 0) * 4
                yield value, view.op
    if total > bound.budget.memory_bytes // _MEMORY_PART:
        raise UnsupportedModelError(
            f"the intermediate values of the model take {format_bytes(total)}, more than fits in memory",
            "set smaller shapes with --shape, or verify a part of the model",
        )


def _decompressed(bound: BoundFunction) -> dict[str, Constant]:
    """Returns the weights that operations compute from compressed ones when a model is loaded, by name."""
    return {
        value.name: known.constant
        for view in bound.graph.ops
        if view.op.type.startswith("constexpr_")
        for value, known in zip(view.op.outputs, view.outputs, strict=False)
        if known.constant is not None
    }


def _given(call: FunctionCall, body: Function, precision: Precision) -> dict[str, Array]:
    """Returns the inputs of a call; with rounded results, those that are declared as fp16 are rounded too."""
    half = {
        value.name
        for value in body.graph.inputs
        if isinstance(value.type, TensorType) and value.type.dtype is DType.FP16
    }
    with np.errstate(over="ignore"):
        return {
            name: array.astype(np.float16).astype(np.float32)
            if precision == "fp16" and name in half and array.dtype.kind == "f"
            else array
            for name, array in call.inputs.items()
        }


class Loaded:
    """A function that the engine has loaded, with further outputs.

    Args:
        call: The function is specialised for the shapes of its inputs.
        body: The function, or an edited copy of it.
        recorded: The values that become outputs, and the operations that compute them.
        precision: See `record`.
        constants: What operations read, by name.
    """

    def __init__(
        self,
        call: FunctionCall,
        body: Function,
        recorded: Sequence[tuple[Value, Op]],
        precision: Precision,
        constants: Mapping[str, Constant],
    ) -> None:
        self.recorded, self.constants = recorded, constants
        self._body, self._precision = body, precision
        names = {value.name for value in body.graph.outputs}
        outputs = (*body.graph.outputs, *(value for value, _ in recorded if value.name not in names))
        wider = replace(body, graph=replace(body.graph, outputs=outputs))
        self._program = lower(call.bind(wider), precision, has_ranges=False)
        self._folder = scratch_folder()
        try:
            self._session = engine().build(self._program, Path(self._folder.name), EngineOptions(fuses=False))
        except BaseException:
            self._folder.cleanup()
            raise

    def run(self, call: FunctionCall, feeds: Mapping[str, Array]) -> tuple[dict[str, Array], State]:
        """Runs a call, and returns all outputs by name, and the states after it.

        Args:
            call: The call: its inputs and states.
            feeds: Inputs that the edited copy has as well.
        """
        codec = FeatureCodec(self._program.inputs, self._program.outputs)
        tensors = codec.encode({**_given(call, self._body, self._precision), **feeds})
        state = State(self._program.states)
        for name, content in call.states.get(self._precision, {}).items():
            if name in state.names:
                state.write(name, content)
        return codec.decode(state.run(self._session, tensors)), state

    def close(self) -> None:
        """Releases what the engine holds."""
        self._session.close()
        self._folder.cleanup()


def _run(
    call: FunctionCall,
    body: Function,
    values: Sequence[tuple[Value, Op]],
    precision: Precision,
    feeds: Mapping[str, Array],
) -> tuple[dict[str, Array], State]:
    """Runs a function once; see `Loaded`."""
    loaded = Loaded(call, body, values, precision, {})
    try:
        return loaded.run(call, feeds)
    finally:
        loaded.close()


def _read(op: Op, values: Mapping[str, Intermediate], contents: Mapping[str, str]) -> Iterator[str]:
    """Yields the names of the recorded values that an operation reads, those inside its blocks included.

    Args:
        op: The operation.
        values: The values recorded so far.
        contents: What was written to a state, by the values that read it afterwards.
    """
    seen: set[str] = set()
    content = contents.get(op.outputs[0].name) if op.outputs else None
    if content is not None and content in values:
        yield content
    for reader in (op, *(inner for block in op.blocks for inner in block.walk())):
        for arguments in reader.inputs.values():
            for argument in arguments:
                if isinstance(argument, Value) and argument.name in values and argument.name not in seen:
                    seen.add(argument.name)
                    yield argument.name


def _parameters(op: Op, constants: Mapping[str, Constant]) -> Iterator[Parameter]:
    for name, arguments in op.inputs.items():
        for argument in arguments:
            constant = argument if isinstance(argument, Constant) else constants.get(argument.name)
            if constant is None or not isinstance(constant.type, TensorType) or not constant.is_available:
                continue
            if constant.type.dtype.numpy == np.dtype(object):
                continue
            label = name if isinstance(argument, Constant) else f"{name} {argument.name}"
            yield Parameter(label, constant.type.elements or 0, constant.numpy)
