"""From a bound function to an ONNX program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper

from coremlscope.errors import UnsupportedOpError
from coremlscope.ir import DType, Op, StateType, TensorType, Value, describe_type
from coremlscope.lower.passes import PASSES, used_names
from coremlscope.lower.rounding import Rounding
from coremlscope.ops import OPS
from coremlscope.ops.bind import BoundFunction
from coremlscope.ops.emit import F32, ONNX_OPSET, Emitter, Lowering, NumpyType, Tensor, WeightSlot, carry
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
from coremlscope.ops.view import BoundGraph, BoundValue, CannotInfer, CannotLower, OpView

__all__ = ["finish", "lower"]

#: The first version of ONNX-ML with trees in float64.
_ML_OPSET = 5
#: The oldest ONNX file version that knows `ONNX_OPSET`.
_IR_VERSION = 10
#: Alignment of each weight in the weight file, so that it can be mapped and used in place.
_ALIGNMENT = 64


def lower(bound: BoundFunction, precision: Precision = "fp32") -> OnnxProgram:
    """Lowers a bound function.

    Args:
        bound: The function.
        precision: `fp16` rounds every result that is declared as fp16, and tells the ranges of these.

    Raises:
        UnsupportedOpError: Names every operation, or form of one, that has no lowering.
    """
    lowerer = _Lowerer()
    graph = bound.graph
    inputs, given_states = lowerer.inputs(graph)
    if precision == "fp16":
        lowerer.rounding = Rounding(lowerer.emitter, graph, lowerer.states)
    results = lowerer.graph(graph, lowerer.scope)
    outputs = [] if lowerer.unsupported else lowerer.outputs(graph, results)
    if lowerer.unsupported:
        raise UnsupportedOpError(lowerer.unsupported)
    states = [lowerer.updated(state) for state in given_states]
    ranges = lowerer.rounding.port(lowerer.states) if lowerer.rounding is not None else None

    return finish(lowerer.emitter, inputs, outputs, states, ranges, lowerer.folded)


def finish(
    emitter: Emitter,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    states: Sequence[StatePort] = (),
    ranges: RangePort | None = None,
    folded: Iterable[str] = (),
) -> OnnxProgram:
    """Runs the passes over the nodes and puts the program together; what is not used is left out."""
    names = [p.value for p in outputs] + [s.updated for s in states if s.updated is not None]
    names += [ranges.value] if ranges is not None else []
    nodes = emitter.nodes
    for pass_ in PASSES:
        nodes = pass_.run(nodes, names, emitter)
    used = used_names(nodes)
    slots, weights_bytes = _place([slot for slot in emitter.weights if slot.name in used])
    initializers = [tensor for tensor in emitter.initializers if tensor.name in used]
    model = _model(nodes, initializers, slots, inputs, outputs, states, ranges)
    return OnnxProgram(
        model, slots, weights_bytes, emitter.owners, frozenset(folded),
        tuple(inputs), tuple(outputs), tuple(states), ranges,
    )  # fmt: skip


def _place(slots: Sequence[WeightSlot]) -> tuple[tuple[WeightSlot, ...], int]:
    """Gives each weight its place in the weight file; returns the file's length too."""
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


def _model(
    nodes: Sequence[onnx.NodeProto],
    initializers: Sequence[onnx.TensorProto],
    slots: Sequence[WeightSlot],
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    states: Sequence[StatePort],
    ranges: RangePort | None,
) -> onnx.ModelProto:
    taken = [_info(p.value, p.dtype, p.type) for p in inputs] + [
        _info(s.value, s.dtype, s.type) for s in states
    ]
    made = [_info(p.value, p.dtype, p.type) for p in outputs]
    made += [_info(s.updated, s.dtype, s.type) for s in states if s.updated is not None]
    if ranges is not None:
        numbers = TensorType(DType.FP64, (4, len(ranges.ops)))
        made.append(_info(ranges.value, np.dtype(np.float64), numbers))
    graph = helper.make_graph(nodes, "main", taken, made, initializers)
    for slot in slots:
        tensor = graph.initializer.add(
            name=slot.name, data_type=helper.np_dtype_to_tensor_dtype(slot.dtype), dims=slot.shape
        )
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", WEIGHTS_FILE), ("offset", slot.offset), ("length", slot.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
    opsets = [helper.make_opsetid("", ONNX_OPSET)]
    if any(node.domain == ML_DOMAIN for node in nodes):
        opsets.append(helper.make_opsetid(ML_DOMAIN, _ML_OPSET))
    model = helper.make_model(graph, opset_imports=opsets, producer_name="coremlscope")
    model.ir_version = _IR_VERSION
    return model


class _Lowerer:
    """Walks a bound graph and lowers one operation after the other, going on after failures."""

    def __init__(self) -> None:
        self.emitter = Emitter()
        self.scope: dict[str, Tensor] = {}
        #: The content of every state at the point that the walk has reached, by the state's name.
        self.states: dict[str, Tensor] = {}
        self.unsupported: list[tuple[str, str, str]] = []
        self.folded: set[str] = set()
        self.rounding: Rounding | None = None

    def inputs(self, graph: BoundGraph) -> tuple[list[Port], list[StatePort]]:
        ports, states = [], []
        for value, given in zip(graph.graph.inputs, graph.inputs, strict=True):
            type_ = given.type.wrapped if isinstance(given.type, StateType) else given.type
            if not isinstance(type_, TensorType):
                self.unsupported.append(("input", value.name, "neither a tensor nor a state"))
                continue
            tensor = Tensor(self.emitter.unique(value.name), carry(type_.dtype))
            if isinstance(given.type, StateType):
                self.states[value.name] = tensor
                states.append(StatePort(value.name, tensor.name, type_, tensor.dtype, None))
            else:
                self.scope[value.name] = tensor
                ports.append(Port(value.name, tensor.name, type_, tensor.dtype))
        return ports, states

    def outputs(self, graph: BoundGraph, results: Sequence[Tensor]) -> list[Port]:
        ports = []
        for value, bound, tensor in zip(graph.graph.outputs, graph.outputs, results, strict=True):
            type_, is_flat = bound.type, False
            if tensor.labels is not None:
                # A string and a dictionary in MIL; here the index and the probabilities that they come from.
                shape = (len(tensor.labels) if tensor.dtype == F32 else 1,)
                type_, is_flat = TensorType(DType.of(tensor.dtype), shape), True
            if not isinstance(type_, TensorType):
                self.unsupported.append(("output", value.name, "not a tensor"))
                continue
            name = copy_out(self.emitter, tensor, value.name, is_flat=is_flat)
            ports.append(Port(value.name, name, type_, tensor.dtype, tensor.labels))
        return ports

    def updated(self, state: StatePort) -> StatePort:
        tensor = self.states[state.name]
        if tensor.name == state.value:
            return state
        return replace(state, updated=copy_out(self.emitter, tensor, f"{state.name}_updated"))

    def graph(self, graph: BoundGraph, scope: dict[str, Tensor]) -> list[Tensor]:
        for view in graph.ops:
            if view.outputs and all(bound.constant is not None for bound in view.outputs):
                self.folded.add(view.op.id)
                continue
            tensors = self.op(view, scope)
            scope.update(zip((v.name for v in view.op.outputs), tensors, strict=False))
        pairs = zip(graph.graph.outputs, graph.outputs, strict=True)
        return [self.result(value, bound, scope) for value, bound in pairs]

    def result(self, value: Value, bound: BoundValue, scope: Mapping[str, Tensor]) -> Tensor:
        """A value that goes out of a graph."""
        if bound.constant is not None and isinstance(bound.type, TensorType):
            return self.emitter.weight(bound.constant, carry(bound.type.dtype), value.name)
        if value.name in scope:
            return scope[value.name]
        self.unsupported.append(("output", value.name, f"a {describe_type(bound.type)}"))
        return Tensor(value.name, F32)

    def op(self, view: OpView, scope: dict[str, Tensor]) -> Sequence[Tensor]:
        op = view.op
        spec = OPS.get(op.type)
        problem = "" if op.layer is None else op.layer.problem
        if spec is None or problem:
            return self.refuse(op, problem)
        outer, self.emitter.owner = self.emitter.owner, op.id

        def lower_block(
            block: BoundGraph, inputs: Sequence[Tensor], states: Mapping[str, Tensor]
        ) -> tuple[list[Tensor], dict[str, Tensor]]:
            names = (value.name for value in block.graph.inputs)
            before, self.states = self.states, {**self.states, **states}
            try:
                results = self.graph(block, {**scope, **dict(zip(names, inputs, strict=True))})
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
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            # A damaged file may hold arguments of any kind; a row need not foresee them all.
            text = f"its arguments are not what its definition asks for ({type(error).__name__}: {error})"
            return self.refuse(op, text)
        finally:
            self.emitter.owner = outer

    def refuse(self, op: Op, reason: str) -> list[Tensor]:
        """Notes an operation that cannot be lowered; stand-ins let the walk go on and find the others."""
        problem = (op.type, op.id, reason)
        if problem not in self.unsupported:  # a loop's condition is lowered twice
            self.unsupported.append(problem)
        return [
            Tensor(
                self.emitter.unique(v.name), carry(v.type.dtype) if isinstance(v.type, TensorType) else F32
            )
            for v in op.outputs
        ]
