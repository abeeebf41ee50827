"""Recurrent layers against plain NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder as mb

from coremlscope.model import ir
from coremlscope.ops import OPS
from coremlscope.ops.bind import bind
from coremlscope.ops.lower import lower
from tests.support.graphs import function, op, tensor, value
from tests.support.programs import bind_main, build, run, run_onnx

STEPS, BATCH, FEATURES, HIDDEN = 5, 2, 3, 4

Array = np.ndarray[Any, np.dtype[Any]]

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "scaled_tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "hard_sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "sigmoid_hard": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "relu": lambda x: np.maximum(x, 0),
    "linear": lambda x: x,
}


@pytest.fixture
def random() -> Callable[..., Array]:
    generator = np.random.default_rng(7)
    return lambda *shape: generator.normal(size=shape, scale=0.7).astype(np.float32)


def _walk(x: Array, step: Callable[..., tuple[Array, ...]], *states: Array) -> tuple[Array, ...]:
    """Every step's h, then the last states."""
    sequence = []
    for features in x:
        states = step(features, *states)
        sequence.append(states[0])
    return np.stack(sequence), *states


def lstm(x: Array, h: Array, c: Array, p: dict[str, Any]) -> tuple[Array, ...]:
    gate, cell, output = (
        ACTIVATIONS[p.get(name, default)]
        for name, default in (
            ("recurrent_activation", "sigmoid"),
            ("cell_activation", "tanh"),
            ("activation", "tanh"),
        )
    )
    peephole = np.split(p.get("peephole", np.zeros(3 * HIDDEN)), 3)
    clip = p.get("clip", np.inf)

    def step(features: Array, h: Array, c: Array) -> tuple[Array, ...]:
        sums = features @ p["weight_ih"].T + h @ p["weight_hh"].T + p.get("bias", 0)
        i, f, o, z = np.split(sums, 4, axis=-1)
        c = gate(f + c * peephole[1]) * c + gate(i + c * peephole[0]) * cell(z)
        c = np.clip(c, -clip, clip)
        return gate(o + c * peephole[2]) * output(c), c

    return _walk(x, step, h, c)


def gru(x: Array, h: Array, p: dict[str, Any]) -> tuple[Array, ...]:
    gate = ACTIVATIONS[p.get("recurrent_activation", "sigmoid")]
    activation = ACTIVATIONS[p.get("activation", "tanh")]
    zeros = np.zeros(3 * HIDDEN)
    b = np.split(p.get("bias", zeros), 3)
    b_in = np.split(p.get("input_bias", zeros), 3)
    w, r = np.split(p["weight_ih"], 3), np.split(p["weight_hh"], 3)

    def step(features: Array, h: Array) -> tuple[Array, ...]:
        reset = gate(features @ w[0].T + b_in[0] + h @ r[0].T + b[0])
        update = gate(features @ w[2].T + b_in[2] + h @ r[2].T + b[2])
        if p.get("reset_after"):
            new = features @ w[1].T + b_in[1] + reset * (h @ r[1].T + b[1])
        else:
            new = features @ w[1].T + b_in[1] + (reset * h) @ r[1].T + b[1]
        return ((1 - update) * activation(new) + update * h,)

    return _walk(x, step, h)


def rnn(x: Array, h: Array, p: dict[str, Any]) -> tuple[Array, ...]:
    activation = ACTIVATIONS[p.get("activation", "tanh")]
    return _walk(
        x, lambda f, h: (activation(f @ p["weight_ih"].T + h @ p["weight_hh"].T + p.get("bias", 0)),), h
    )


REFERENCES: dict[str, tuple[int, int, Callable[..., tuple[Array, ...]]]] = {
    "rnn": (1, 1, rnn),
    "gru": (3, 1, gru),
    "lstm": (4, 2, lstm),
}


def _check(layer: str, random: Callable[..., Array], parameters: dict[str, Any], rows: int = BATCH) -> None:
    """One direction, held against its reference; `rows` of the initial states are given."""
    gates, states, reference = REFERENCES[layer]
    weights = {"weight_ih": random(gates * HIDDEN, FEATURES), "weight_hh": random(gates * HIDDEN, HIDDEN)}
    names = ("x", "initial_h", "initial_c")[: 1 + states]
    inputs = dict(zip(names, (random(STEPS, BATCH, FEATURES), *_starts(random, states, rows)), strict=True))

    values = {name: value(name, tensor(*array.shape)) for name, array in inputs.items()}
    results = tuple(value(f"y{index}", ir.TensorType(ir.DType.FP32, None)) for index in range(1 + states))
    row = op(layer, results, **values, **weights, **parameters)
    bound = bind(function(tuple(values.values()), (row,), results), OPS)
    assert not bound.problems
    made = list(run_onnx(lower(bound), inputs).values())
    assert [output.type for output in bound.graph.outputs] == [tensor(*array.shape) for array in made]
    _compare(made, reference, inputs, weights | parameters)


def _starts(random: Callable[..., Array], states: int, rows: int) -> list[Array]:
    return [random(rows, HIDDEN) for _ in range(states)]


def _compare(
    made: Sequence[Array], reference: Callable[..., Any], inputs: dict[str, Array], given: dict[str, Any]
) -> None:
    x, *start = inputs.values()
    start = [state[:BATCH] for state in start]
    expected = list(reference(x[::-1] if given.get("direction") == "reverse" else x, *start, given))
    if not given.get("output_sequence"):
        expected[0] = expected[0][-1:]
    for got, wanted in zip(made, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer", REFERENCES)
def test_as_coremltools_writes_them(layer: str, random: Callable[..., Array]) -> None:
    gates, states, reference = REFERENCES[layer]
    weights = {
        "weight_ih": random(gates * HIDDEN, FEATURES),
        "weight_hh": random(gates * HIDDEN, HIDDEN),
        "bias": random(gates * HIDDEN),
    }
    inputs = {"x": random(STEPS, BATCH, FEATURES), "h": random(BATCH, HIDDEN), "c": random(BATCH, HIDDEN)}
    if states == 1:
        del inputs["c"]

    def body(x: Any, h: Any, c: Any = None) -> Any:
        start = {"initial_h": h} | ({"initial_c": c} if states == 2 else {})
        return getattr(mb, layer)(x=x, **start, **weights)

    _compare(run(body, inputs), reference, inputs, weights)


@pytest.mark.parametrize("layer", REFERENCES)
@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("output_sequence", [True, False])
def test_directions(layer: str, direction: str, output_sequence: bool, random: Callable[..., Array]) -> None:
    bias = random(REFERENCES[layer][0] * HIDDEN)
    _check(layer, random, {"direction": direction, "output_sequence": output_sequence, "bias": bias})


@pytest.mark.parametrize("layer", REFERENCES)
def test_rows_of_an_initial_state_beyond_the_batch_are_not_used(
    layer: str, random: Callable[..., Array]
) -> None:
    _check(layer, random, {}, rows=STEPS)


@pytest.mark.parametrize(
    ("gate", "cell", "output"),
    [
        ("hard_sigmoid", "linear", "hard_sigmoid"),
        ("linear", "hard_sigmoid", "scaled_tanh"),
        ("relu", "scaled_tanh", "linear"),
        ("tanh", "sigmoid", "relu"),
        ("sigmoid", "tanh", "linear"),
    ],
)
def test_activations_of_lstm(gate: str, cell: str, output: str, random: Callable[..., Array]) -> None:
    names = {"recurrent_activation": gate, "cell_activation": cell, "activation": output}
    _check("lstm", random, {**names, "output_sequence": True})
    _check("lstm", random, {**names, "output_sequence": True, "clip": np.float32(0.4)})


@pytest.mark.parametrize(
    ("gate", "activation"), [("hard_sigmoid", "linear"), ("linear", "relu"), ("tanh", "scaled_tanh")]
)
def test_activations_of_gru(gate: str, activation: str, random: Callable[..., Array]) -> None:
    _check("gru", random, {"recurrent_activation": gate, "activation": activation, "output_sequence": True})


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_of_rnn(activation: str, random: Callable[..., Array]) -> None:
    _check("rnn", random, {"activation": activation, "output_sequence": True})


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("clip", [None, 0.3])
def test_peepholes(direction: str, clip: float | None, random: Callable[..., Array]) -> None:
    parameters: dict[str, Any] = {"peephole": random(3 * HIDDEN), "bias": random(4 * HIDDEN)}
    if clip is not None:
        parameters["clip"] = np.float32(clip)
    _check("lstm", random, {**parameters, "direction": direction, "output_sequence": True})


@pytest.mark.parametrize("parameters", [(), ("bias",), ("input_bias",), ("bias", "input_bias")], ids="-".join)
@pytest.mark.parametrize("reset_after", [True, False])
def test_biases_of_gru(parameters: tuple[str, ...], reset_after: bool, random: Callable[..., Array]) -> None:
    biases = {name: random(3 * HIDDEN) for name in parameters}
    given = {**biases, "reset_after": reset_after, "output_sequence": True}
    _check("gru", random, given)


@pytest.mark.parametrize("output_sequence", [True, False])
@pytest.mark.parametrize(
    "extra", [(), ("bias",), ("peephole", "peephole_back"), ("bias", "clip")], ids="-".join
)
def test_bidirectional(output_sequence: bool, extra: tuple[str, ...], random: Callable[..., Array]) -> None:
    x, h, c = random(STEPS, BATCH, FEATURES), random(BATCH, 2 * HIDDEN), random(BATCH, 2 * HIDDEN)
    sizes = {
        "weight_ih": (4 * HIDDEN, FEATURES),
        "weight_hh": (4 * HIDDEN, HIDDEN),
        "bias": (4 * HIDDEN,),
        "peephole": (3 * HIDDEN,),
    }
    weights = {
        f"{name}{suffix}": random(*size)
        for suffix in ("", "_back")
        for name, size in sizes.items()
        if name.startswith("weight") or f"{name}{suffix}" in extra
    }
    clip = {"clip": np.float32(0.3)} if "clip" in extra else {}

    def body(x: Any, h: Any, c: Any) -> Any:
        return mb.lstm(
            x=x,
            initial_h=h,
            initial_c=c,
            direction="bidirectional",
            output_sequence=output_sequence,
            **weights,
            **clip,
        )

    results = run(body, {"x": x, "h": h, "c": c})
    front = {name: value for name, value in weights.items() if not name.endswith("_back")}
    back = {name.removesuffix("_back"): v for name, v in weights.items() if name.endswith("_back")}
    ahead = lstm(x, h[:, :HIDDEN], c[:, :HIDDEN], front | clip)
    behind = lstm(x[::-1], h[:, HIDDEN:], c[:, HIDDEN:], back | clip)
    # The backward half of a sequence is in the order of the input.
    sequences = (ahead[0], behind[0][::-1]) if output_sequence else (ahead[0][-1:], behind[0][-1:])
    pairs = (sequences, *zip(ahead[1:], behind[1:], strict=True))
    for got, pair in zip(results, pairs, strict=True):
        np.testing.assert_allclose(got, np.concatenate(pair, axis=-1), rtol=1e-4, atol=1e-5)


def test_work_of_lstm(random: Callable[..., Array]) -> None:
    weights = {"weight_ih": random(4 * HIDDEN, FEATURES), "weight_hh": random(4 * HIDDEN, HIDDEN)}
    inputs = {"x": random(STEPS, BATCH, FEATURES), "h": random(BATCH, HIDDEN)}
    bound = bind_main(
        build(lambda x, h: mb.lstm(x=x, initial_h=h, initial_c=h, bias=random(16), **weights)[0], inputs)
    )
    view = next(view for view in bound.graph.ops if view.op.type == "lstm")
    work = OPS["lstm"].work(view)
    # A step: products 2·16·(3 + 4), both sums 2·16, nine operations on each of four cells.
    assert work.flops == STEPS * BATCH * (224 + 32 + 36)
    assert work.weight_bytes >= 4 * (16 * 3 + 16 * 4 + 16)
    # The last step's h, as a sequence and alone, and the last c.
    assert work.written_bytes == 4 * 3 * BATCH * HIDDEN
    assert work.is_complete
