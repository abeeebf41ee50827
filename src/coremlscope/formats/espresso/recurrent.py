"""Recurrent layers.

What they compute is known from their sizes, but the order of their gates in the file is not established.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coremlscope.formats.espresso.translation import LayerSpec, Translation
from coremlscope.formats.espresso.weights import read_floats
from coremlscope.formats.neuralnetwork.builder import Blob, CannotTranslate
from coremlscope.formats.neuralnetwork.recurrent import SequenceOfVectors
from coremlscope.model.ir import Constant

#: The operation by the number of gates: matrices that the recurrent weights consist of.
_TYPES = {1: "rnn", 3: "gru", 4: "lstm"}
_LSTM = 1
_FLOAT_BYTES = 4


def _gates(t: Translation, width: int) -> int:
    """Returns the number of gates, from the size of the recurrent weights or else from `arch`."""
    number = t.layer.weights.get("W_t_h")
    blob = t.blobs.find(number) if isinstance(number, int) else None
    if blob is not None and blob.size is not None:
        gates, rest = divmod(blob.size, _FLOAT_BYTES * width * width)
        if rest == 0 and gates in _TYPES:
            return gates
        raise CannotTranslate(f"its recurrent weights have {blob.size} bytes for vectors of {width}")
    if t.layer.integer("arch", 0) == _LSTM:
        return 4
    raise CannotTranslate("its architecture is unknown")


def _recurrent(t: Translation) -> Sequence[Blob]:
    layer, width, taken = t.layer, t.layer.size("hidden_size"), t.layer.size("input_size")
    gates = _gates(t, width)
    is_both = layer.flag("encoder_bidirectional_mode") and "W_t_h_reverse" in layer.weights
    if is_both and gates != 4:
        raise CannotTranslate("it runs in both directions, but is not an LSTM")
    t.doubt_weights("the order of its gates is not established")
    sequence = SequenceOfVectors.of(t.builder, t.x, taken, width)
    constants: dict[str, Any] = {}
    for suffix, role in (("", ""), ("_back", "_reverse"))[: 2 if is_both else 1]:
        constants |= _weights(t, gates, width, taken, suffix, role)
    start = np.zeros((sequence.batch, width * (2 if is_both else 1)), np.float32)
    states: dict[str, Any] = {"initial_h": start} | ({"initial_c": start} if gates == 4 else {})
    results = t.builder.ops(
        _TYPES[gates],
        3 if gates == 4 else 2,
        x=sequence.x,
        **states,
        **constants,
        direction="bidirectional" if is_both else "forward",
        output_sequence=layer.flag("encoder_output_sequence"),
    )
    return _as_listed(t, sequence, results, is_both=is_both)


def _as_listed(
    t: Translation, sequence: SequenceOfVectors, results: Sequence[Blob], *, is_both: bool
) -> Sequence[Blob]:
    """Returns the results in the order of the layer's outputs: the sequence, then states per direction."""
    if not is_both:
        return [sequence.back(result) for result in results]
    y, *states = results
    halves = [t.builder.ops("split", 2, x=state, num_splits=2, axis=-1) for state in states]
    forward, backward = ([pair[i] for pair in halves] for i in (0, 1))
    return [sequence.back(result) for result in (y, *forward, *backward)]


def _weights(
    t: Translation, gates: int, width: int, taken: int, suffix: str, role: str
) -> dict[str, Constant]:
    roles = t.layer.weights
    given = {
        f"weight_ih{suffix}": read_floats(t, roles.get(f"W_t_x{role}"), (gates * width, taken)),
        f"weight_hh{suffix}": read_floats(t, roles.get(f"W_t_h{role}"), (gates * width, width)),
    }
    if f"b{role}" in roles:
        given[f"bias{suffix}"] = read_floats(t, roles[f"b{role}"], (gates * width,))
    return given


LAYERS: tuple[LayerSpec, ...] = (LayerSpec("rnn_arch", _recurrent, inputs=(1, -1)),)
