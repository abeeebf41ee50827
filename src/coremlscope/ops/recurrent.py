"""Recurrent layers: rnn, gru, lstm.

MIL orders the gates of a layer differently from ONNX, and concatenates the directions of a bidirectional
layer along the last axis instead of giving them an axis of their own. A reverse layer returns its sequence in
the order of computation, last time step first; the backward half of a bidirectional one keeps the order of
the input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from coremlscope.base.arrays import np
from coremlscope.model.ir import Array, TensorType, ValueType
from coremlscope.ops.emit import F32, I64, Lowering, Tensor
from coremlscope.ops.infer import first_known
from coremlscope.ops.spec import OpSpec, Work, moved
from coremlscope.ops.traits import Trait
from coremlscope.ops.view import CannotInfer, CannotLower, OpView


class _Activation(msgspec.Struct, frozen=True):
    """ONNX's name of an activation, with the parameters that it takes."""

    onnx_op: str
    alpha: float | None = None
    beta: float | None = None


#: By MIL's names. The scaled tanh of a recurrent layer has both scales 1.
_ACTIVATIONS = {
    "tanh": _Activation("Tanh"),
    "scaled_tanh": _Activation("Tanh"),
    "sigmoid": _Activation("Sigmoid"),
    "hard_sigmoid": _Activation("HardSigmoid", 0.2, 0.5),
    "sigmoid_hard": _Activation("HardSigmoid", 0.2, 0.5),
    "relu": _Activation("Relu"),
    "linear": _Activation("Affine", 1.0, 0.0),
}


class _Layer(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between the three recurrent layers.

    Attributes:
        onnx_op: ONNX's name.
        order: Index in MIL of each gate of ONNX's.
        activations: Parameters that name the activations, in ONNX's order, with their defaults.
        states: Parameters of the initial states.
        pointwise: Operations per element of a step's result besides matrix products and biases.
    """

    onnx_op: str
    order: tuple[int, ...]
    activations: tuple[tuple[str, str], ...]
    states: tuple[str, ...]
    pointwise: int

    @property
    def gates(self) -> int:
        return len(self.order)


_RNN = _Layer(
    onnx_op="RNN", order=(0,), activations=(("activation", "tanh"),), states=("initial_h",), pointwise=1
)
_GRU = _Layer(
    onnx_op="GRU",
    order=(2, 0, 1),  # MIL: reset, output, update; ONNX: update, reset, hidden
    activations=(("recurrent_activation", "sigmoid"), ("activation", "tanh")),
    states=("initial_h",),
    pointwise=3 + 5,  # three activations; r·h, 1 - z, two products and their sum
)
_LSTM = _Layer(
    onnx_op="LSTM",
    order=(0, 2, 1, 3),  # MIL: input, forget, output, cell; ONNX: input, output, forget, cell
    activations=(("recurrent_activation", "sigmoid"), ("cell_activation", "tanh"), ("activation", "tanh")),
    states=("initial_h", "initial_c"),
    pointwise=5 + 4,  # five activations; three products and a sum
)
#: ONNX's order of the peepholes: input, output, forget.
_PEEPHOLES = (0, 2, 1)


# Parameters


def _suffixes(view: OpView) -> tuple[str, ...]:
    """Suffixes of the weights' names, one per direction."""
    return ("", "_back") if _direction(view) == "bidirectional" else ("",)


def _direction(view: OpView) -> str:
    direction = view.text("direction", "forward")
    allowed = ("forward", "reverse", "bidirectional") if view.op.type == "lstm" else ("forward", "reverse")
    if direction not in allowed:
        raise CannotInfer(f"direction `{direction}` is not one of {', '.join(allowed)}")
    return direction


def _hidden(view: OpView) -> int:
    """The hidden size, from the shape of the weights."""
    shape = view.shape("weight_hh")
    if len(shape) != 2 or shape[1] is None:
        raise CannotInfer("parameter `weight_hh` is not a matrix of known size")
    return shape[1]


def _activations(view: OpView, layer: _Layer) -> list[_Activation]:
    names = [view.text(parameter, default).lower() for parameter, default in layer.activations]
    for name in names:
        if name not in _ACTIVATIONS:
            raise CannotLower(f"activation `{name}`")
    return [_ACTIVATIONS[name] for name in names]


def _infer(layer: _Layer) -> Callable[[OpView], Sequence[ValueType]]:
    def infer(view: OpView) -> Sequence[ValueType]:
        x, hidden = view.type("x"), _hidden(view)
        sequence, batch, _ = _three(view)
        for suffix in _suffixes(view):
            _check_weights(view, layer, suffix, hidden)
        start = view.type("initial_h").shape
        batch = first_known(batch, start[0] if start else None)
        width = hidden * len(_suffixes(view))
        steps = sequence if view.flag("output_sequence", False) else 1
        last = TensorType(x.dtype, (batch, width))
        return [TensorType(x.dtype, (steps, batch, width)), *(last for _ in layer.states)]

    return infer


def _three(view: OpView) -> tuple[int | None, int | None, int | None]:
    shape = view.shape("x")
    if len(shape) != 3:
        raise CannotInfer(f"parameter `x` has rank {len(shape)}, not 3")
    return shape[0], shape[1], shape[2]


def _check_weights(view: OpView, layer: _Layer, suffix: str, hidden: int) -> None:
    rows = layer.gates * hidden
    features = _three(view)[2]
    for name, columns in ((f"weight_ih{suffix}", features), (f"weight_hh{suffix}", hidden)):
        shape = view.shape(name)
        if len(shape) != 2 or shape[0] != rows or (columns is not None and shape[1] != columns):
            raise CannotInfer(f"`{name}` has shape {list(shape)}, not {[rows, columns]}")


def _work(layer: _Layer) -> Callable[[OpView], Work]:
    """The matrix products and gates of every step, in every direction."""

    def work(view: OpView) -> Work:
        sequence, batch, features = _three(view)
        hidden, flops = _hidden(view), 0
        for suffix in _suffixes(view):
            step = 2 * layer.gates * hidden * ((features or 0) + hidden)  # both products
            sums = 1 + sum(view.has(f"{name}{suffix}") for name in ("bias", "input_bias"))
            step += (sums * layer.gates + layer.pointwise) * hidden
            step += 6 * hidden * view.has(f"peephole{suffix}") + hidden * view.has("clip")
            flops += step * (sequence or 0) * (batch or 0)
        return moved(view, flops)

    return work


# Weights


def _gates(array: Array, order: Sequence[int]) -> Array:
    """The rows of `array`, its equal blocks (one per gate) reordered."""
    blocks = np.split(array, len(order))
    return np.concatenate([blocks[index] for index in order])


def _stacked(op: Lowering, name: str, order: Sequence[int]) -> Tensor | None:
    """A weight of every direction, gates reordered, stacked along a new first axis.

    None where no direction has it; zeros for a direction without it.
    """
    names = [f"{name}{suffix}" for suffix in _suffixes(op.view)]
    given = [n for n in names if op.view.has(n)]
    if not given:
        return None
    shape = op.view.static_shape(given[0])

    def stack(*arrays: Array) -> Array:
        content = dict(zip(given, arrays, strict=True))
        zeros = np.zeros(shape, np.float32)
        return np.stack([_gates(content.get(n, zeros), order) for n in names])

    key = ("gates", tuple(order), tuple(n in given for n in names))
    return op.derived(given, stack, (len(names), *shape), key)


def _bias(op: Lowering, layer: _Layer) -> Tensor | None:
    """ONNX's bias: that of the input's product followed by that of the state's."""
    pairs = [(f"input_bias{s}", f"bias{s}") for s in _suffixes(op.view)]
    given = [name for pair in pairs for name in pair if op.view.has(name)]
    if not given:
        return None
    length = layer.gates * _hidden(op.view)

    def stack(*arrays: Array) -> Array:
        content = dict(zip(given, arrays, strict=True))
        zeros = np.zeros(length, np.float32)
        rows = [[_gates(content.get(name, zeros), layer.order) for name in pair] for pair in pairs]
        return np.stack([np.concatenate(row) for row in rows])

    key = ("biases", tuple(layer.order), tuple(n in given for pair in pairs for n in pair))
    return op.derived(given, stack, (len(pairs), 2 * length), key)


# Lowering


def _lower(layer: _Layer) -> Callable[[Lowering], Sequence[Tensor]]:
    def lower(op: Lowering) -> Sequence[Tensor]:
        if layer is _LSTM and op.view.has("clip"):
            return _lower_clipped(op)
        weights = [_stacked(op, name, layer.order) for name in ("weight_ih", "weight_hh")]
        states: list[Tensor | None] = [_initial(op, name) for name in layer.states]
        if layer is _LSTM:
            states.append(_stacked(op, "peephole", _PEEPHOLES))
        sequence, *last = op.emit_many(
            layer.onnx_op,
            op["x"],
            *weights,
            _bias(op, layer),
            None,
            *states,
            dtypes=[F32] * (1 + len(layer.states)),
            **_attributes(op.view, layer),
        )
        merged = [_merge_directions(op, tensor, axis=0) for tensor in last]
        return [_sequence(op, sequence, merged[0]), *merged]

    return lower


def _attributes(view: OpView, layer: _Layer) -> dict[str, object]:
    direction = _direction(view)
    attributes: dict[str, object] = {"hidden_size": _hidden(view), "direction": direction}
    if layer is _GRU:
        attributes["linear_before_reset"] = int(view.flag("reset_after", False))
    activations = _activations(view, layer) * len(_suffixes(view))
    if [a.onnx_op for a in activations[: len(layer.activations)]] != _onnx_defaults(layer):
        attributes["activations"] = [a.onnx_op for a in activations]
        # ONNX Runtime assigns these in order to the activations that take parameters, so there are no gaps.
        attributes["activation_alpha"] = [a.alpha for a in activations if a.alpha is not None] or None
        attributes["activation_beta"] = [a.beta for a in activations if a.beta is not None] or None
    return attributes


def _onnx_defaults(layer: _Layer) -> list[str]:
    return [_ACTIVATIONS[default].onnx_op for _, default in layer.activations]


def _initial(op: Lowering, name: str) -> Tensor:
    """An initial state, as [directions, batch, hidden].

    Core ML uses as many of its rows as the input has sequences. Converters rely on that: for a layer behind
    PyTorch's `pack_padded_sequence`, coremltools writes a row for every step of the longest sequence.
    """
    state, batch = op[name], op.view.shape("x")[1]
    if batch is None or op.view.shape(name)[0] != batch:
        count = op.emit("Shape", op["x"], dtype=I64, start=1, end=2)
        state = op.emit("Slice", state, op.const([0], I64), count, op.const([0], I64))
    return _split_directions(op, state)


def _split_directions(op: Lowering, state: Tensor) -> Tensor:
    """From [batch, directions · hidden] to [directions, batch, hidden]."""
    directions = len(_suffixes(op.view))
    if directions == 1:
        return op.unsqueeze(state, [0])
    return op.transpose(op.reshape(state, [0, directions, _hidden(op.view)]), [1, 0, 2])


def _merge_directions(op: Lowering, tensor: Tensor, axis: int) -> Tensor:
    """From [..., directions, batch, hidden], directions at `axis`, to [..., batch, directions · hidden]."""
    directions = len(_suffixes(op.view))
    if directions == 1:
        return op.squeeze(tensor, [axis])
    turned = op.transpose(tensor, [*range(axis), axis + 1, axis, axis + 2])
    return op.reshape(turned, [0] * (axis + 1) + [directions * _hidden(op.view)])


def _sequence(op: Lowering, sequence: Tensor, last: Tensor) -> Tensor:
    """The first result: every step in the order of computation, or only the last one."""
    if not op.view.flag("output_sequence", False):
        return op.unsqueeze(last, [0])
    if _direction(op.view) == "reverse":
        whole = [op.const([bound], I64) for bound in (-1, np.iinfo(np.int64).min, 0, -1)]
        sequence = op.emit("Slice", sequence, *whole)
    return _merge_directions(op, sequence, axis=1)


# An LSTM whose cell is clipped. ONNX clips the inputs of the gates, MIL the cell itself before the output
# gate, so the step is written explicitly.


def _lower_clipped(op: Lowering) -> Sequence[Tensor]:
    direction = _direction(op.view)
    starts = [_initial(op, name) for name in _LSTM.states]
    made = []
    for index, suffix in enumerate(_suffixes(op.view)):
        states = [op.emit("Gather", start, op.const(index, I64), axis=0) for start in starts]
        backwards = direction == "reverse" or index == 1
        made.append(_scan(op, suffix, states, backwards=backwards, realign=direction == "bidirectional"))
    last_h, last_c, sequence = (
        parts[0] if len(parts) == 1 else op.emit("Concat", *parts, axis=-1)
        for parts in zip(*made, strict=True)
    )
    if not op.view.flag("output_sequence", False):
        sequence = op.unsqueeze(last_h, [0])
    return [sequence, last_h, last_c]


def _scan(
    op: Lowering, suffix: str, states: Sequence[Tensor], *, backwards: bool, realign: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """One direction of an LSTM, step by step; its last h, last c, and h of every step."""
    hidden = _hidden(op.view)
    inputs = op.emit("MatMul", op["x"], _transposed(op, f"weight_ih{suffix}"))
    if op.view.has(f"bias{suffix}"):
        inputs = op.emit("Add", inputs, op[f"bias{suffix}"])
    recurrent = _transposed(op, f"weight_hh{suffix}")
    peephole = op.get(f"peephole{suffix}")
    peepholes = _parts(op, peephole, 3, hidden) if peephole is not None else None
    gate, cell, output = _activations(op.view, _LSTM)
    clip = op.view.real("clip")
    low, high = op.const(-clip, F32), op.const(clip, F32)

    def step(arguments: list[Tensor]) -> Sequence[Tensor]:
        h, c, x = arguments
        i, f, o, z = _parts(op, op.emit("Add", x, op.emit("MatMul", h, recurrent)), 4, hidden)
        if peepholes:
            i = op.emit("Add", i, op.emit("Mul", c, peepholes[0]))
            f = op.emit("Add", f, op.emit("Mul", c, peepholes[1]))
        kept = op.emit("Mul", _activate(op, gate, f), c)
        new = op.emit("Mul", _activate(op, gate, i), _activate(op, cell, z))
        c = op.emit("Clip", op.emit("Add", kept, new), low, high)
        if peepholes:
            o = op.emit("Add", o, op.emit("Mul", c, peepholes[2]))
        h = op.emit("Mul", _activate(op, gate, o), _activate(op, output, c))
        return [h, c, h]

    kinds = [(F32, None)] * 3
    graph, dtypes = op.graph(f"{op.view.op.id}/step{suffix}", kinds, step)
    last_h, last_c, sequence = op.emit_many(
        "Scan",
        *states,
        inputs,
        dtypes=dtypes,
        body=graph,
        num_scan_inputs=1,
        scan_input_directions=[int(backwards)],
        scan_output_directions=[int(backwards and realign)],
    )
    return last_h, last_c, sequence


def _transposed(op: Lowering, name: str) -> Tensor:
    return op.derived(name, np.transpose, op.view.static_shape(name)[::-1], "transposed")


def _parts(op: Lowering, tensor: Tensor, count: int, size: int) -> list[Tensor]:
    """`tensor` split along its last axis."""
    sizes = op.const([size] * count, I64)
    return op.emit_many("Split", tensor, sizes, dtypes=[tensor.dtype] * count, axis=-1)


def _activate(op: Lowering, activation: _Activation, x: Tensor) -> Tensor:
    if activation.onnx_op == "Affine":  # of MIL's names only `linear`, which changes nothing
        return x
    return op.emit(activation.onnx_op, x, alpha=activation.alpha, beta=activation.beta)


def _row(name: str, layer: _Layer, doc: str) -> OpSpec:
    return OpSpec(
        name=name,
        doc=doc,
        traits=Trait.RECURRENCE,
        infer=_infer(layer),
        lower=_lower(layer),
        work=_work(layer),
    )


OPS: tuple[OpSpec, ...] = (
    _row("rnn", _RNN, "A plain recurrent layer."),
    _row("gru", _GRU, "A layer of gated recurrent units."),
    _row("lstm", _LSTM, "A layer of long short-term memory cells, in one or both directions."),
)
