"""Recurrent layers, compared with their definitions in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import coremltools
import numpy as np
import numpy.typing as npt
import pytest
from coremltools import models
from coremltools.models import datatypes
from coremltools.models.neural_network import NeuralNetworkBuilder
from coremltools.models.neural_network.quantization_utils import _quantize_nn_spec, quantize_weights

import coremlscope
from coremlscope.base.errors import InputError, UnsupportedOpError
from coremlscope.formats import container
from coremlscope.model import ir

Floats = npt.NDArray[np.float64]
STEPS, BATCH, TAKEN, WIDTH = 4, 2, 3, 5
LINEAR, TABLE = models._QUANTIZATION_MODE_LINEAR_QUANTIZATION, models._QUANTIZATION_MODE_LOOKUP_TABLE_LINEAR

FUNCTIONS: Mapping[str, Callable[[Floats], Floats]] = {
    "SIGMOID": lambda x: 1 / (1 + np.exp(-x)),
    "TANH": np.tanh,
    "SCALED_TANH": np.tanh,
    "SIGMOID_HARD": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "LINEAR": lambda x: x,
    "RELU": lambda x: np.maximum(x, 0),
}


def _random(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def _builder(names: list[str], outputs: list[str], *, exact: bool) -> NeuralNetworkBuilder:
    shapes: dict[str, tuple[int, ...]] = {"x": (TAKEN,)} | dict.fromkeys(names, (WIDTH,))
    if exact:
        shapes = {"x": (STEPS, BATCH, TAKEN, 1, 1)} | dict.fromkeys(names, (1, BATCH, WIDTH, 1, 1))
    given = [(name, datatypes.Array(*shape)) for name, shape in shapes.items()]
    return NeuralNetworkBuilder(given, [(n, None) for n in outputs], disable_rank5_shape_mapping=exact)


def _read(builder: NeuralNetworkBuilder) -> ir.Model:
    return container.read(builder.spec.SerializeToString())


def _predict(model: ir.Model, values: Mapping[str, Floats]) -> dict[str, Any]:
    five = {name: value[..., None, None].astype(np.float32) for name, value in values.items()}
    return {name: value[..., 0, 0] for name, value in coremlscope.predict(model, five).items()}


def _rnn(x: Floats, h: Floats, w: Floats, r: Floats, b: Floats, act: str) -> tuple[Floats, Floats]:
    ys = []
    for step in x:
        h = FUNCTIONS[act](step @ w.T + h @ r.T + b)
        ys.append(h)
    return np.stack(ys), h


@pytest.mark.parametrize("exact", [False, True], ids=["sequences", "exact"])
@pytest.mark.parametrize("activation", sorted(FUNCTIONS))
def test_simple(activation: str, exact: bool) -> None:
    w, r, b = _random(WIDTH, TAKEN), _random(WIDTH, WIDTH) / 4, _random(WIDTH)
    x, h = _random(STEPS, BATCH, TAKEN), _random(1, BATCH, WIDTH)
    builder = _builder(["h"], ["y", "h_out"], exact=exact)
    builder.add_simple_rnn("rnn", r, w, b, WIDTH, TAKEN, activation, ["x", "h"], ["y", "h_out"], True)
    found = _predict(_read(builder), {"x": x, "h": h})
    y, last = _rnn(x, h[0], w, r, b, activation)
    np.testing.assert_allclose(found["y"], y, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found["h_out"], last[None], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_simple_without_states(whole: bool, reverse: bool) -> None:
    w, r = _random(WIDTH, TAKEN), _random(WIDTH, WIDTH)
    builder = _builder([], ["y"], exact=False)
    builder.add_simple_rnn(
        "rnn", r, w, None, WIDTH, TAKEN, "TANH", ["x"], ["y"], whole, reverse_input=reverse
    )
    x = _random(STEPS, BATCH, TAKEN)
    taken = x[::-1] if reverse else x
    y, last = _rnn(taken, np.zeros((BATCH, WIDTH)), w, r, np.zeros(WIDTH), "TANH")
    found = _predict(_read(builder), {"x": x})
    np.testing.assert_allclose(found["y"], y if whole else last[None], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("inner", "output"), [("SIGMOID", "TANH"), ("SIGMOID_HARD", "RELU")])
def test_gru(inner: str, output: str, reverse: bool) -> None:
    w = [_random(WIDTH, TAKEN, seed=s) for s in range(3)]  # update, reset, output
    r = [_random(WIDTH, WIDTH, seed=s) / 4 for s in range(3)]
    b = [_random(WIDTH, seed=s) for s in range(3)]
    builder = _builder(["h"], ["y", "h_out"], exact=False)
    builder.add_gru("gru", r, w, b, WIDTH, TAKEN, ["x", "h"], ["y", "h_out"], output, inner, True, reverse)
    x, h = _random(STEPS, BATCH, TAKEN), _random(1, BATCH, WIDTH)
    found, state, ys = _predict(_read(builder), {"x": x, "h": h}), h[0], []
    f, g = FUNCTIONS[inner], FUNCTIONS[output]
    for step in x[::-1] if reverse else x:
        z, reset = (f(step @ w[k].T + state @ r[k].T + b[k]) for k in (0, 1))
        o = g(step @ w[2].T + (reset * state) @ r[2].T + b[2])
        state = (1 - z) * o + z * state
        ys.append(state)
    np.testing.assert_allclose(found["y"], np.stack(ys), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found["h_out"], state[None], rtol=1e-4, atol=1e-4)


class _Cell:
    """One direction of an LSTM in NumPy, with weights in the order input, forget, output, block."""

    def __init__(self, seed: int, scale: float = 1.0) -> None:
        self.w = [scale * _random(WIDTH, TAKEN, seed=seed + k) for k in range(4)]
        self.r = [_random(WIDTH, WIDTH, seed=seed + k) / 4 for k in range(4)]
        self.b = [_random(WIDTH, seed=seed + k) for k in range(4)]
        self.p = [_random(WIDTH, seed=seed + 10 + k) for k in range(3)]

    def run(
        self,
        x: Floats,
        h: Floats,
        c: Floats,
        *,
        names: tuple[str, str, str] = ("SIGMOID", "TANH", "TANH"),
        peepholes: bool = False,
        coupled: bool = False,
        forget: float = 0.0,
        clip: float = np.inf,
    ) -> tuple[Floats, Floats, Floats]:
        f, g, out = (FUNCTIONS[name] for name in names)
        p, ys = self.p if peepholes else [np.zeros(WIDTH)] * 3, []
        for step in x:
            ai, af, ao, az = (step @ self.w[k].T + h @ self.r[k].T + self.b[k] for k in range(4))
            i = f(ai + p[0] * c)
            kept = 1 - i if coupled else f(af + p[1] * c + forget)
            c = np.clip(kept * c + i * g(az), -clip, clip)
            h = f(ao + p[2] * c) * out(c)
            ys.append(h)
        return np.stack(ys), h, c


def _add_lstm(
    builder: NeuralNetworkBuilder,
    cell: _Cell,
    inputs: Sequence[str] = ("x", "h", "c"),
    outputs: Sequence[str] = ("y", "h_out", "c_out"),
    **options: Any,
) -> None:
    builder.add_unilstm(
        "lstm",
        W_h=cell.r,
        W_x=cell.w,
        b=cell.b,
        hidden_size=WIDTH,
        input_size=TAKEN,
        input_names=list(inputs),
        output_names=list(outputs),
        **options,
    )


@pytest.mark.parametrize("exact", [False, True], ids=["sequences", "exact"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"names": ("SIGMOID_HARD", "RELU", "LINEAR")},
        {"peepholes": True},
        {"coupled": True, "peepholes": True},
        {"coupled": True, "names": ("SIGMOID_HARD", "TANH", "TANH")},
        {"forget": 1.0},
        {"clip": 0.3},
        {"clip": 0.3, "peepholes": True, "coupled": True},
    ],
    ids=str,
)
def test_lstm(options: dict[str, Any], exact: bool) -> None:
    cell = _Cell(0)
    builder = _builder(["h", "c"], ["y", "h_out", "c_out"], exact=exact)
    inner, update, output = options.get("names", ("SIGMOID", "TANH", "TANH"))
    _add_lstm(
        builder,
        cell,
        inner_activation=inner,
        cell_state_update_activation=update,
        output_activation=output,
        peep=cell.p if options.get("peepholes") else None,
        output_all=True,
        forget_bias=bool(options.get("forget")),
        coupled_input_forget_gate=options.get("coupled", False),
        cell_clip_threshold=options.get("clip", 50000.0),
    )
    x, h, c = _random(STEPS, BATCH, TAKEN), _random(1, BATCH, WIDTH), _random(1, BATCH, WIDTH, seed=9)
    found = _predict(_read(builder), {"x": x, "h": h, "c": c})
    y, last, state = cell.run(x, h[0], c[0], **options)
    np.testing.assert_allclose(found["y"], y, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found["h_out"], last[None], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found["c_out"], state[None], rtol=1e-4, atol=1e-4)


def test_default_limit_of_a_cell_is_50() -> None:
    cell = _Cell(0)
    builder = _builder(["h", "c"], ["y", "h_out", "c_out"], exact=True)
    _add_lstm(builder, cell, output_all=True, cell_clip_threshold=0.0)
    x, h, c = _random(STEPS, BATCH, TAKEN), _random(1, BATCH, WIDTH), np.full((1, BATCH, WIDTH), 300.0)
    found = _predict(_read(builder), {"x": x, "h": h, "c": c})
    np.testing.assert_allclose(found["c_out"][0], cell.run(x, h[0], c[0], clip=50.0)[2], rtol=1e-4)


def test_unreachable_limit_is_omitted() -> None:
    cell = _Cell(0)
    builder = _builder([], ["y"], exact=True)
    _add_lstm(builder, cell, ["x"], ["y"], cell_clip_threshold=50.0)
    model = _read(builder)
    assert isinstance(model.content, ir.Program)
    (lstm,) = (op for op in model.content.functions["main"].graph.ops if op.type == "lstm")
    assert "clip" not in lstm.inputs
    x = _random(STEPS, BATCH, TAKEN)
    zeros = np.zeros((BATCH, WIDTH))
    np.testing.assert_allclose(
        _predict(model, {"x": x})["y"][0], cell.run(x, zeros, zeros)[1], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("is_alike", [True, False], ids=["alike", "unlike"])
def test_bidirectional_lstm(is_alike: bool, whole: bool) -> None:
    forward, back = _Cell(0), _Cell(100)
    names = ["h", "c", "h_back", "c_back"]
    ends = [f"{name}_out" for name in names]
    builder = _builder(names, ["y", *ends], exact=False)
    builder.add_bidirlstm(
        "lstm",
        W_h=forward.r,
        W_x=forward.w,
        b=forward.b,
        W_h_back=back.r,
        W_x_back=back.w,
        b_back=back.b,
        hidden_size=WIDTH,
        input_size=TAKEN,
        input_names=["x", *names],
        output_names=["y", *ends],
        peep=forward.p,
        peep_back=back.p,
        output_all=whole,
    )
    function = "TANH"
    if not is_alike:
        layer = builder.spec.neuralNetwork.layers[0].biDirectionalLSTM
        layer.activationsBackwardLSTM[2].ReLU.MergeFromString(b"")
        function = "RELU"
    x = _random(STEPS, BATCH, TAKEN)
    states = {name: _random(1, BATCH, WIDTH, seed=k) for k, name in enumerate(names)}
    found = _predict(_read(builder), {"x": x, **states})
    y, h, c = forward.run(x, states["h"][0], states["c"][0], peepholes=True)
    y_back, h_back, c_back = back.run(
        x[::-1], states["h_back"][0], states["c_back"][0], peepholes=True, names=("SIGMOID", "TANH", function)
    )
    wanted = np.concatenate([y, y_back[::-1]], -1) if whole else np.concatenate([h, h_back], -1)[None]
    np.testing.assert_allclose(found["y"], wanted, rtol=1e-4, atol=1e-4)
    for name, state in zip(ends, (h, c, h_back, c_back), strict=True):
        np.testing.assert_allclose(found[name][0], state, rtol=1e-4, atol=1e-4)


def test_optional_states_are_zeros() -> None:
    cell = _Cell(0)
    builder = _builder(["h", "c"], ["y", "h_out", "c_out"], exact=False)
    _add_lstm(builder, cell)
    for feature in builder.spec.description.input[1:]:
        feature.type.isOptional = True
    model = _read(builder)
    x = _random(1, 1, TAKEN)
    zeros = np.zeros((1, WIDTH))
    found = coremlscope.predict(model, {"x": x[0, 0].astype(np.float32)})
    y, _, c = cell.run(x, zeros, zeros)
    assert found["y"].shape == (WIDTH,)
    np.testing.assert_allclose(found["y"], y[0, 0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["c_out"], c[0], rtol=1e-4, atol=1e-5)


def test_half_precision_weights() -> None:
    cell = _Cell(0)
    builder = _builder([], ["y"], exact=True)
    _add_lstm(builder, cell, ["x"], ["y"])
    half = quantize_weights(coremltools.models.MLModel(builder.spec, skip_model_load=True), 16)
    spec = half if hasattr(half, "SerializeToString") else half.get_spec()
    x, zeros = _random(STEPS, BATCH, TAKEN), np.zeros((BATCH, WIDTH))
    np.testing.assert_allclose(
        _predict(container.read(spec.SerializeToString()), {"x": x})["y"][0],
        cell.run(x, zeros, zeros)[1],
        rtol=1e-2,
        atol=1e-3,
    )


@pytest.mark.parametrize(("mode", "storage"), [(LINEAR, "affine uint8"), (TABLE, "LUT 8-bit")])
def test_quantised_weights_keep_their_storage(mode: str, storage: str) -> None:
    builder = _builder([], ["y"], exact=True)
    _add_lstm(builder, _Cell(0), ["x"], ["y"])
    _quantize_nn_spec(builder.spec.neuralNetwork, 8, mode)
    summary = coremlscope.inspect(_read(builder))
    parameters = {group.storage: group.parameters for group in summary.weights}
    assert parameters[storage] == 4 * WIDTH * (TAKEN + WIDTH + 1)
    assert summary.weights_bytes <= builder.spec.ByteSize()


def test_inconsistent_weights() -> None:
    builder = _builder([], ["y"], exact=True)
    recursion, wrong = _random(WIDTH, WIDTH), _random(WIDTH, TAKEN + 1)
    builder.add_simple_rnn("rnn", recursion, wrong, None, WIDTH, TAKEN, "TANH", ["x"], ["y"])
    with pytest.raises(UnsupportedOpError, match="it has 20 weights"):
        _predict(_read(builder), {"x": _random(STEPS, BATCH, TAKEN)})


@pytest.mark.parametrize(
    ("shape", "fits"),
    [
        ((TAKEN,), True),
        ((7, 3, TAKEN, 1, 1), True),
        ((7, TAKEN), False),
        ((7, 3, TAKEN + 1, 1, 1), False),
        ((7, 3, TAKEN, 1, 2), False),
        ((0, 3, TAKEN, 1, 1), False),
    ],
)
def test_shapes_of_sequences(shape: tuple[int, ...], fits: bool) -> None:
    builder = _builder([], ["y"], exact=False)
    recursion, weight = _random(WIDTH, WIDTH), _random(WIDTH, TAKEN)
    builder.add_simple_rnn("rnn", recursion, weight, None, WIDTH, TAKEN, "TANH", ["x"], ["y"])
    model, x = _read(builder), np.zeros(shape, np.float32)
    if fits:
        found = coremlscope.predict(model, {"x": x})["y"].shape
        assert found == ((1, 3, WIDTH, 1, 1) if len(shape) == 5 else (WIDTH,))
        return
    with pytest.raises(InputError, match="does not allow the shape") as caught:
        coremlscope.predict(model, {"x": x})
    assert caught.value.hint == "allowed: 3, or sequence×batch×channels×height×width that contains it"
