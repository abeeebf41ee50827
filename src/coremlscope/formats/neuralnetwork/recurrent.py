"""Recurrent layers on sequences of vectors, `[sequence, batch, vector, 1, 1]`, with optional initial states.

The equations of a step, and the meaning of a limit of zero, are from Apple's `NeuralNetwork.proto`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from coremlscope.formats.neuralnetwork.builder import Blob, Builder, CannotTranslate, Given
from coremlscope.formats.neuralnetwork.translation import LayerSpec, Translation
from coremlscope.formats.neuralnetwork.weights import read_weights
from coremlscope.model.ir import Array, Constant, DType, EncodedSource, TensorType
from coremlscope.model.schema import Message

#: MIL's names of the activations of recurrent layers, and the only supported values of their parameters.
_ACTIVATIONS: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "linear": ("linear", (1.0, 0.0)),
    "ReLU": ("relu", ()),
    "tanh": ("tanh", ()),
    "scaledTanh": ("scaled_tanh", (1.0, 1.0)),
    "sigmoid": ("sigmoid", ()),
    "sigmoidHard": ("hard_sigmoid", (0.2, 0.5)),
}
#: Activations with results in [-1, 1].
_BOUNDED = ("tanh", "scaled_tanh", "sigmoid", "hard_sigmoid")
#: The limit of a cell's state if the file specifies 0.
_DEFAULT_CLIP = 50.0
#: The value that coremltools' converter writes for no limit, and calls ineffective.
_INEFFECTIVE_CLIP = 500.0


class _Joined(EncodedSource, msgspec.Struct, frozen=True, eq=False):
    """The concatenated weights of the gates.

    Attributes:
        gates: The weights.
        signs: A factor for each gate.
        offsets: A summand for each gate.
    """

    gates: tuple[Constant, ...]
    signs: tuple[float, ...]
    offsets: tuple[float, ...]

    @property
    def storage(self) -> str:
        """A description of the encoding; of the gates' encodings where they differ."""
        found = (gate.data.storage for gate in self.gates if isinstance(gate.data, EncodedSource))
        return ", ".join(dict.fromkeys(found))

    @property
    def stored_bytes(self) -> int:
        """Total size of the weights in the file, in bytes."""
        distinct = {id(gate): gate for gate in self.gates}
        return sum(gate.data.stored_bytes for gate in distinct.values())

    @property
    def is_available(self) -> bool:
        """Always true, because the weights of neural networks are in the model file."""
        return True

    def numpy(self) -> Array:
        """Returns the decoded weights."""
        rows = zip(self.gates, self.signs, self.offsets, strict=True)
        parts = [self._changed(gate.numpy(), sign, offset) for gate, sign, offset in rows]
        return np.concatenate(parts)

    @staticmethod
    def _changed(array: Array, sign: float, offset: float) -> Array:
        if (sign, offset) == (1.0, 0.0):
            return array
        return np.asarray(array * array.dtype.type(sign) + array.dtype.type(offset))  # type: ignore[operator]


def _join(
    gates: Sequence[Constant], signs: Sequence[float] | None = None, offsets: Sequence[float] | None = None
) -> Constant:
    types = [gate.type for gate in gates]
    first = types[0]
    assert isinstance(first, TensorType)
    assert first.shape is not None
    assert first.shape[0] is not None
    is_half = all(isinstance(t, TensorType) and t.dtype is DType.FP16 for t in types)
    shape = (len(gates) * first.shape[0], *first.shape[1:])
    ones, zeros = [1.0] * len(gates), [0.0] * len(gates)
    data = _Joined(tuple(gates), tuple(signs or ones), tuple(offsets or zeros))
    return Constant(TensorType(DType.FP16 if is_half else DType.FP32, shape), data)


class SequenceOfVectors(msgspec.Struct, frozen=True):
    """Conversion of a recurrent layer's input to `[sequence, batch, vector]`, and of its results back."""

    builder: Builder
    source: Blob
    x: Blob
    width: int

    @classmethod
    def of(cls, b: Builder, source: Blob, taken: int, width: int) -> SequenceOfVectors:
        """Converts the input of a layer.

        Args:
            b: The builder.
            source: The input.
            taken: The length of the input's vectors.
            width: The length of the results' vectors.

        Raises:
            CannotTranslate: The input does not have rank 5, or its vectors have another length.
        """
        if source.sequence is None and source.rank != 5:
            raise CannotTranslate(
                f"its input must be a sequence of rank 5, not a tensor of rank {source.rank}"
            )
        if source.sequence is None and source.dims[2:] == (taken, 1, 1):
            x = b.op("squeeze", x=source, axes=[3, 4])
        else:
            merged, *rest = source.shape
            steps = merged if source.sequence is None else source.sequence
            batch = rest.pop(0) if source.sequence is None else merged // max(steps, 1)
            if math.prod(rest) != taken:
                raise CannotTranslate(f"its vectors have {math.prod(rest)} elements instead of {taken}")
            x = b.op("reshape", x=source, shape=(steps, batch, taken))
        return cls(b, source, x, width)

    @classmethod
    def of_layer(cls, t: Translation) -> SequenceOfVectors:
        """Converts the first input of a layer; see `of`."""
        return cls.of(t.builder, t.x, int(t.params.inputVectorSize), int(t.params.outputVectorSize))

    @property
    def steps(self) -> int | None:
        return self.x.dims[0]

    @property
    def batch(self) -> int:
        return self.x.shape[1]

    def state(self, given: Blob | None) -> Given:
        """Converts an initial state to `[batch, vector]`; zeros if there is none.

        Rows beyond the batch size are ignored; see `ops.recurrent`.

        Raises:
            CannotTranslate: The number of elements is wrong.
        """
        if given is None:
            return np.zeros((self.batch, self.width), np.float32)
        if None in given.dims or None in self.x.dims:
            return self.builder.op("reshape", x=given, shape=(-1, self.width))
        rows, rest = divmod(math.prod(given.shape), self.width)
        if rest or 1 != rows < self.batch:
            raise CannotTranslate(
                f"its state of shape {list(given.shape)} does not match {self.batch} vectors of {self.width}"
            )
        state = self.builder.op("reshape", x=given, shape=(rows, self.width))
        return state if rows >= self.batch else self.builder.op("tile", x=state, reps=(self.batch, 1))

    def back(self, result: Blob) -> Blob:
        """Converts a result `[sequence, batch, vector]`, or a state `[batch, vector]`, to rank 5."""
        if self.source.sequence is None:
            axes = [3, 4] if result.rank == 3 else [0, 3, 4]
            return self.builder.op("expand_dims", x=result, axes=axes)
        *leading, width = result.shape
        steps = leading[0] if len(leading) == 2 else 1
        folded = self.builder.op("reshape", x=result, shape=(math.prod(leading), width, 1, 1))
        return Blob(folded.value, folded.bound, steps)


def _activations(messages: Sequence[Message], count: int) -> list[str]:
    """Returns MIL's names of the activations of a layer."""
    if len(messages) != count:
        raise CannotTranslate(f"it has {len(messages)} activations instead of {count}")
    return [_activation(message) for message in messages]


def _activation(message: Message) -> str:
    kind = message.WhichOneof("NonlinearityType") or "none"
    if kind not in _ACTIVATIONS:
        raise CannotTranslate(f"the activation {kind} is not supported in recurrent layers")
    name, parameters = _ACTIVATIONS[kind]
    chosen = getattr(message, kind)
    given = tuple(getattr(chosen, field) for field in ("alpha", "beta")[: len(parameters)])
    if any(given) and not np.allclose(given, parameters):
        raise CannotTranslate(f"its activation {kind} has the parameters {given} instead of {parameters}")
    return name


def _direction(params: Message) -> str:
    return "reverse" if params.reverseInput else "forward"


def _inputs(t: Translation, count: int) -> Iterator[Blob | None]:
    """Yields the initial states, with None for missing ones."""
    yield from t.inputs[1:]
    yield from [None] * (count - len(t.inputs) + 1)


# Simple recurrent layers and GRUs


def _simple(t: Translation) -> Sequence[Blob]:
    p, sequence = t.params, SequenceOfVectors.of_layer(t)
    (start,) = _inputs(t, 1)
    width, taken = sequence.width, int(p.inputVectorSize)
    results = t.builder.ops(
        "rnn",
        2,
        x=sequence.x,
        initial_h=sequence.state(start),
        weight_ih=read_weights(p.weightMatrix, (width, taken)),
        weight_hh=read_weights(p.recursionMatrix, (width, width)),
        bias=read_weights(p.biasVector, (width,)) if p.hasBiasVector else None,
        direction=_direction(p),
        output_sequence=bool(p.sequenceOutput),
        activation=_activation(p.activation),
    )
    return [sequence.back(result) for result in results]


def _gru(t: Translation) -> Sequence[Blob]:
    p, sequence = t.params, SequenceOfVectors.of_layer(t)
    (start,) = _inputs(t, 1)
    width, taken = sequence.width, int(p.inputVectorSize)
    gates = ("reset", "output", "update")

    def joined(suffix: str, *shape: int) -> Constant:
        return _join([read_weights(getattr(p, f"{gate}Gate{suffix}"), shape) for gate in gates])

    recurrent, output = _activations(p.activations, 2)
    results = t.builder.ops(
        "gru",
        2,
        x=sequence.x,
        initial_h=sequence.state(start),
        weight_ih=joined("WeightMatrix", width, taken),
        weight_hh=joined("RecursionMatrix", width, width),
        bias=joined("BiasVector", width) if p.hasBiasVectors else None,
        direction=_direction(p),
        output_sequence=bool(p.sequenceOutput),
        recurrent_activation=recurrent,
        activation=output,
    )
    return [sequence.back(result) for result in results]


# LSTMs


class _Cell(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of one direction of an LSTM."""

    params: Message
    weights: Message
    activations: tuple[str, ...]
    taken: int
    width: int

    def constants(self, suffix: str = "") -> dict[str, Constant | Array]:
        """Returns the arguments of MIL's operation for this direction."""
        p, width = self.params, self.width
        given: dict[str, Constant | Array] = {
            f"weight_ih{suffix}": self._joined("WeightMatrix", width, self.taken),
            f"weight_hh{suffix}": self._joined("RecursionMatrix", width, width),
        }
        if p.hasBiasVectors:
            given[f"bias{suffix}"] = self._joined("BiasVector", width, forget=self._forget_bias)
        elif self._forget_bias:
            ones = np.zeros(4 * width, np.float32)
            ones[width : 2 * width] = self._forget_bias
            given[f"bias{suffix}"] = ones
        if p.hasPeepholeVectors:
            gates = ("inputGate", "inputGate" if p.coupledInputAndForgetGate else "forgetGate", "outputGate")
            vectors = [read_weights(getattr(self.weights, f"{g}PeepholeVector"), (width,)) for g in gates]
            given[f"peephole{suffix}"] = _join(vectors, [1.0, self._forget_sign, 1.0])
        return given

    @property
    def _forget_sign(self) -> float:
        """-1 if the forget gate is 1 - f(a) for the input gate f(a), which is f(-a) for both sigmoids."""
        if not self.params.coupledInputAndForgetGate:
            return 1.0
        if self.activations[0] not in ("sigmoid", "hard_sigmoid"):
            raise CannotTranslate(f"its gates are coupled, but have the activation {self.activations[0]}")
        return -1.0

    @property
    def _forget_bias(self) -> float:
        return 1.0 if self.params.forgetBias and not self.params.coupledInputAndForgetGate else 0.0

    def _joined(self, suffix: str, *shape: int, forget: float = 0.0) -> Constant:
        second = "inputGate" if self.params.coupledInputAndForgetGate else "forgetGate"
        names = ("inputGate", second, "outputGate", "blockInput")
        read = {name: read_weights(getattr(self.weights, f"{name}{suffix}"), shape) for name in set(names)}
        return _join([read[n] for n in names], [1.0, self._forget_sign, 1.0, 1.0], [0.0, forget, 0.0, 0.0])


def _clip(params: Message, cell: _Cell, steps: int | None, starts: Sequence[Given]) -> float | None:
    """Returns the limit of the cells' states, or None if they cannot reach it.

    With bounded activations, a step adds at most 1 to a state. An initial state may have any value, but a
    trained model does not reach the high limits that converters write for no limit.
    """
    limit = float(params.cellClipThreshold) or _DEFAULT_CLIP
    gate, block, _ = cell.activations
    if gate not in ("sigmoid", "hard_sigmoid") or block not in _BOUNDED:
        return limit
    if limit >= _INEFFECTIVE_CLIP:
        return None
    highest = 0.0
    for start in starts:
        known = start.array if isinstance(start, Blob) else np.asarray(start)
        if known is None:
            return limit
        highest = max(highest, float(np.abs(known).max(initial=0.0)))
    return limit if steps is None or highest + steps > limit else None


def _lstm(
    t: Translation,
    sequence: SequenceOfVectors,
    cells: Sequence[_Cell],
    states: tuple[Given, Given],
    direction: str,
) -> tuple[Blob, ...]:
    """Emits the operation for one direction or both."""
    gate, block, output = cells[0].activations
    constants: dict[str, Any] = {}
    for cell, suffix in zip(cells, ("", "_back"), strict=False):
        constants |= cell.constants(suffix)
    return t.builder.ops(
        "lstm",
        3,
        x=sequence.x,
        initial_h=states[0],
        initial_c=states[1],
        **constants,
        direction=direction,
        output_sequence=bool(t.params.params.sequenceOutput),
        recurrent_activation=gate,
        cell_activation=block,
        activation=output,
        clip=_clip(t.params.params, cells[0], sequence.steps, [states[1]]),
    )


def _one_way(t: Translation) -> Sequence[Blob]:
    p, sequence = t.params, SequenceOfVectors.of_layer(t)
    h, c = (sequence.state(start) for start in _inputs(t, 2))
    activations = tuple(_activations(p.activations, 3))
    cell = _Cell(
        params=p.params,
        weights=p.weightParams,
        activations=activations,
        taken=int(p.inputVectorSize),
        width=sequence.width,
    )
    results = _lstm(t, sequence, [cell], (h, c), _direction(p))
    return [sequence.back(result) for result in results]


def _both_ways(t: Translation) -> Sequence[Blob]:
    b, p, sequence = t.builder, t.params, SequenceOfVectors.of_layer(t)
    if len(p.weightParams) != 2:
        raise CannotTranslate(f"it has weights for {len(p.weightParams)} directions instead of 2")
    starts = [sequence.state(start) for start in _inputs(t, 4)]
    cells = [
        _Cell(
            params=p.params,
            weights=weights,
            activations=tuple(_activations(a, 3)),
            taken=int(p.inputVectorSize),
            width=sequence.width,
        )
        for weights, a in zip(
            p.weightParams, (p.activationsForwardLSTM, p.activationsBackwardLSTM), strict=True
        )
    ]
    if cells[0].activations == cells[1].activations:
        states = (_concatenated(b, starts[0], starts[2]), _concatenated(b, starts[1], starts[3]))
        y, h, c = _lstm(t, sequence, cells, states, "bidirectional")
        ends = [part for state in (h, c) for part in b.ops("split", 2, x=state, num_splits=2, axis=-1)]
        h_forward, h_back, c_forward, c_back = ends
    else:
        y_forward, h_forward, c_forward = _lstm(t, sequence, cells[:1], (starts[0], starts[1]), "forward")
        y_back, h_back, c_back = _lstm(t, sequence, cells[1:], (starts[2], starts[3]), "reverse")
        aligned = b.op("reverse", x=y_back, axes=[0])
        y = b.op("concat", values=[y_forward, aligned], axis=-1)
    return [sequence.back(result) for result in (y, h_forward, c_forward, h_back, c_back)]


def _concatenated(b: Builder, forward: Given, back: Given) -> Given:
    """Concatenates the states of both directions."""
    if isinstance(forward, np.ndarray) and isinstance(back, np.ndarray):
        return np.concatenate([forward, back], axis=1)
    blobs = [g if isinstance(g, Blob) else b.op("identity", x=g) for g in (forward, back)]
    return b.op("concat", values=blobs, axis=-1)


LAYERS: tuple[LayerSpec, ...] = (
    LayerSpec("simpleRecurrent", _simple, (1, 2)),
    LayerSpec("gru", _gru, (1, 2)),
    LayerSpec("uniDirectionalLSTM", _one_way, (1, 3)),
    LayerSpec("biDirectionalLSTM", _both_ways, (1, 5)),
)
