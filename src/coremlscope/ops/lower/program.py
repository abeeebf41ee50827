"""Lowers a bound function to an ONNX program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx
from msgspec.structs import replace
from onnx import helper

from coremlscope.base.budget import Budget
from coremlscope.base.errors import UnsupportedOpError
from coremlscope.base.units import shown
from coremlscope.model.ir import DType, Op, StateType, TensorType, Value, describe_type
from coremlscope.ops import OPS
from coremlscope.ops.bind import BoundFunction
from coremlscope.ops.emit import F32, ONNX_OPSET, Emitter, Lowering, NumpyType, Tensor, WeightSlot, carry
from coremlscope.ops.lower.passes import PASSES, used_names
from coremlscope.ops.lower.rounding import Rounding, round_states, rounded_to_half
from coremlscope.ops.program import (
    ML_DOMAIN,
    WEIGHTS_FILE,
    OnnxProgram,
    Port,
    Precision,
    RangePort,
    StatePort,
    copy_out,
)
from coremlscope.ops.scope import nested
from coremlscope.ops.view import CONTRADICTIONS, BoundGraph, BoundValue, CannotInfer, CannotLower, OpView

#: The first version of ONNX-ML with trees in float64.
_ML_OPSET = 5
#: The oldest ONNX file version that supports `ONNX_OPSET`.
_IR_VERSION = 10
#: The alignment of weights in the weight file, in bytes, so that they can be mapped and used in place.
_ALIGNMENT = 64


def lower(
    bound: BoundFunction,
    precision: Precision = "fp32",
    *,
    has_ranges: bool = True,
    halves: frozenset[str] = frozenset(),
) -> OnnxProgram:
    """Lowers a bound function.

    Args:
        bound: The function.
        precision: `fp16` rounds every result that is declared as fp16, and records its range.
        has_ranges: False to round without recording ranges.
        halves: Names of inputs and outputs that are fp16 outside, such as images of half precision.

    Raises:
        UnsupportedOpError: Operations cannot be lowered. The error lists all of them.
        UnsupportedModelError: The unpacked weights exceed the model's budget.
    """
    lowerer = _Lowerer(bound.budget, halves)
    graph = bound.graph
    inputs, given_states = lowerer.inputs(graph)
    if precision == "fp16":
        lowerer.rounding = Rounding(lowerer.emitter, graph, lowerer.states, has_ranges=has_ranges)
    results = lowerer.graph(graph, lowerer.scope)
    outputs = [] if lowerer.unsupported else lowerer.outputs(graph, results)
    if lowerer.unsupported:
        raise UnsupportedOpError(lowerer.unsupported)
    states = lowerer.updated(given_states)
    ranges = lowerer.rounding.port(lowerer.states) if lowerer.rounding is not None else None
    return finish(lowerer.emitter, inputs, outputs, states=states, ranges=ranges, folded=lowerer.folded)


def finish(
    emitter: Emitter,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    *,
    states: Sequence[StatePort] = (),
    ranges: RangePort | None = None,
    folded: Iterable[str] = (),
) -> OnnxProgram:
    """Runs the passes over the emitted nodes and assembles the program, without unused constants.

    Args:
        emitter: The nodes, constants and owners.
        inputs: The inputs, states excluded.
        outputs: The outputs, states excluded.
        states: The states.
        ranges: The output of the ranges; None if fp16 results are not rounded.
        folded: The ids of operations that need no node.

    Raises:
        UnsupportedModelError: The unpacked weights exceed the model's budget.
    """
    fed = [_info(port.value, port.dtype, port.type) for port in inputs]
    fed += [_info(state.value, state.dtype, state.type) for state in states]
    returned = [_info(port.value, port.dtype, port.type) for port in outputs]
    returned += [_info(s.updated, s.dtype, s.type) for s in states if s.updated is not None]
    if ranges is not None:
        columns = TensorType(DType.FP64, (4, len(ranges.ops)))
        returned.append(_info(ranges.value, np.dtype(np.float64), columns))
    nodes = emitter.nodes
    for pass_ in PASSES:
        nodes = pass_.run(nodes, [info.name for info in returned], emitter)
    used = used_names(nodes)
    slots, weights_bytes = _place([slot for slot in emitter.weights if slot.name in used])
    emitter.budget.check_weights(weights_bytes)
    fed += [
        _info(slot.name, slot.dtype, TensorType(DType.of(slot.dtype), slot.shape))
        for slot in slots
        if slot.name in emitter.defaults
    ]
    initializers = [tensor for tensor in emitter.initializers if tensor.name in used]
    graph = helper.make_graph(nodes, "main", fed, returned, initializers)
    return OnnxProgram(
        model=_model(graph, slots),
        weights=slots,
        weights_bytes=weights_bytes,
        owners=emitter.owners,
        folded=frozenset(folded),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        states=tuple(states),
        ranges=ranges,
    )


def _place(slots: Sequence[WeightSlot]) -> tuple[tuple[WeightSlot, ...], int]:
    """Assigns an offset in the weight file to each weight; also returns the file's length in bytes."""
    placed, offset = [], 0
    for slot in slots:
        placed.append(replace(slot, offset=offset))
        offset += -(-slot.nbytes // _ALIGNMENT) * _ALIGNMENT
    return tuple(placed), offset


def _info(name: str, dtype: NumpyType, type_: TensorType | None) -> onnx.ValueInfoProto:
    shape = None
    if type_ is not None and type_.shape is not None:
        shape = [f"{name}_{axis}" if d is None else d for axis, d in enumerate(type_.shape)]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)


def _model(graph: onnx.GraphProto, slots: Sequence[WeightSlot]) -> onnx.ModelProto:
    """The ONNX model of a graph, with the weights as external data."""
    for slot in slots:
        tensor = graph.initializer.add(
            name=slot.name, data_type=helper.np_dtype_to_tensor_dtype(slot.dtype), dims=slot.shape
        )
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", WEIGHTS_FILE), ("offset", slot.offset), ("length", slot.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
    opsets = [helper.make_opsetid("", ONNX_OPSET)]
    if any(node.domain == ML_DOMAIN for node in graph.node):
        opsets.append(helper.make_opsetid(ML_DOMAIN, _ML_OPSET))
    model = helper.make_model(graph, opset_imports=opsets, producer_name="coremlscope")
    model.ir_version = _IR_VERSION
    return model


class _Lowerer:
    """Lowers the operations of a bound graph in order, and continues after failures."""

    def __init__(self, budget: Budget, halves: frozenset[str]) -> None:
        self.emitter = Emitter(budget)
        self.halves = halves
        self.scope: dict[str, Tensor] = {}
        #: The current content of every state by name.
        self.states: dict[str, Tensor] = {}
        self.unsupported: list[tuple[str, str, str]] = []
        self.folded: set[str] = set()
        self.rounding: Rounding | None = None

    def inputs(self, graph: BoundGraph) -> tuple[list[Port], list[StatePort]]:
        ports, states = [], []
        for value, given in zip(graph.graph.inputs, graph.inputs, strict=True):
            type_ = given.type.wrapped if isinstance(given.type, StateType) else given.type
            if not isinstance(type_, TensorType):
                self.unsupported.append(("input", shown(value.name), "neither a tensor nor a state"))
                continue
            tensor = Tensor(self.emitter.unique(value.name), carry(type_.dtype))
            if isinstance(given.type, StateType):
                self.states[value.name] = tensor
                states.append(
                    StatePort(
                        name=value.name, value=tensor.name, type=type_, dtype=tensor.dtype, updated=None
                    )
                )
            else:
                self.scope[value.name] = self.as_outside(value, tensor)
                ports.append(Port(name=value.name, value=tensor.name, type=type_, dtype=tensor.dtype))
        return ports, states

    def as_outside(self, value: Value, tensor: Tensor) -> Tensor:
        """Returns an input or output as it is outside of the program."""
        is_half = value.name in self.halves and tensor.dtype == F32
        return rounded_to_half(self.emitter, tensor) if is_half else tensor

    def outputs(self, graph: BoundGraph, results: Sequence[Tensor]) -> list[Port]:
        ports = []
        for value, bound, tensor in zip(graph.graph.outputs, graph.outputs, results, strict=True):
            type_, is_flat = bound.type, False
            if tensor.labels is not None:
                # MIL returns a string and a dictionary; ONNX returns the label's index and the probabilities.
                shape = (len(tensor.labels) if tensor.dtype == F32 else 1,)
                type_, is_flat = TensorType(DType.of(tensor.dtype), shape), True
            if not isinstance(type_, TensorType):
                self.unsupported.append(("output", shown(value.name), "not a tensor"))
                continue
            name = copy_out(self.emitter, self.as_outside(value, tensor), value.name, is_flat=is_flat)
            ports.append(
                Port(name=value.name, value=name, type=type_, dtype=tensor.dtype, labels=tensor.labels)
            )
        return ports

    def updated(self, states: Sequence[StatePort]) -> list[StatePort]:
        changed = {s.value: self.states[s.name] for s in states if self.states[s.name].name != s.value}
        if self.rounding is None:
            halves = [s.value for s in states if s.type.dtype is DType.FP16]
            names = [name for name in halves if name in changed]
            rounded = round_states(self.emitter, halves, [changed[name] for name in names])
            changed |= zip(names, rounded, strict=True)
        return [
            replace(s, updated=copy_out(self.emitter, changed[s.value], f"{s.name}_updated"))
            if s.value in changed
            else s
            for s in states
        ]

    def graph(
        self, graph: BoundGraph, scope: dict[str, Tensor], inputs: Sequence[Tensor] = ()
    ) -> list[Tensor]:
        with nested(scope) as define:
            define(graph.graph.inputs, inputs)
            for view in graph.ops:
                if view.outputs and all(bound.constant is not None for bound in view.outputs):
                    self.folded.add(view.op.id)
                    continue
                define(view.op.outputs, self.op(view, scope))
            pairs = zip(graph.graph.outputs, graph.outputs, strict=True)
            return [self.result(value, bound, scope) for value, bound in pairs]

    def result(self, value: Value, bound: BoundValue, scope: Mapping[str, Tensor]) -> Tensor:
        """An output of a graph."""
        if bound.constant is not None and isinstance(bound.type, TensorType):
            return self.emitter.weight(bound.constant, carry(bound.type.dtype), value.name)
        if value.name in scope:
            return scope[value.name]
        self.unsupported.append(("output", shown(value.name), f"a {describe_type(bound.type)}"))
        return Tensor(value.name, np.dtype(F32))

    def op(self, view: OpView, scope: dict[str, Tensor]) -> Sequence[Tensor]:
        op = view.op
        spec = OPS.get(op.type)
        problem = "" if op.layer is None else op.layer.problem or op.layer.doubt
        if spec is None or problem:
            return self.refuse(op, problem)
        outer, self.emitter.owner = self.emitter.owner, op.id

        def lower_block(
            block: BoundGraph, inputs: Sequence[Tensor], states: Mapping[str, Tensor]
        ) -> tuple[list[Tensor], dict[str, Tensor]]:
            before, self.states = self.states, {**self.states, **states}
            try:
                results = self.graph(block, scope, inputs)
                return results, {name: self.states[name] for name in states}
            finally:
                self.states = before

        try:
            lowering = Lowering(view, self.emitter, scope, self.states, lower_block)
            result = spec.lower(lowering)
            tensors = [result] if isinstance(result, Tensor) else result
            return tensors if self.rounding is None else self.rounding.results(lowering, tensors)
        except (CannotLower, CannotInfer) as error:
            return self.refuse(op, str(error))
        except CONTRADICTIONS as error:
            # Damaged files hold arguments of any type, which lowerings do not check.
            text = f"its arguments contradict its definition ({type(error).__name__}: {error})"
            return self.refuse(op, text)
        finally:
            self.emitter.owner = outer

    def refuse(self, op: Op, reason: str) -> list[Tensor]:
        """Records an operation that cannot be lowered; placeholders let the lowering find further ones."""
        problem = (shown(op.type), op.id, shown(reason))
        if problem not in self.unsupported:  # The condition of a loop is lowered twice.
            self.unsupported.append(problem)
        types = [v.type.dtype if isinstance(v.type, TensorType) else DType.FP32 for v in op.outputs]
        names = [self.emitter.unique(v.name) for v in op.outputs]
        return [Tensor(name, carry(dtype)) for name, dtype in zip(names, types, strict=True)]
