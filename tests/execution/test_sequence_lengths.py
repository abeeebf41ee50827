"""Networks with legacy shape mapping: the length of sequences, which the file does not state."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from coremltools.models import datatypes
from coremltools.models.neural_network import NeuralNetworkBuilder

import coremlscope
from coremlscope.base.errors import InputError, UnsupportedOpError
from coremlscope.formats import container
from coremlscope.model import ir
from coremlscope.reports.estimates import estimates_document
from coremlscope.reports.plan import plan_document
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.runtime.execution.sequence_lengths import choose_lengths, length_findings
from tests.support.networks import network, random

_CHANNELS, _WINDOW = 12, 5
_WEIGHTS = random(1, _WINDOW, _CHANNELS, 4)


def _add_convolution(builder: NeuralNetworkBuilder, output: str) -> None:
    """Adds a convolution over the steps of the input `x`, which become the width of an image."""
    builder.add_permute("to_width", (3, 1, 2, 0), "x", "a")
    builder.add_convolution(
        "conv",
        kernel_channels=_CHANNELS,
        output_channels=4,
        height=1,
        width=_WINDOW,
        stride_height=1,
        stride_width=1,
        border_mode="valid",
        groups=1,
        W=_WEIGHTS,
        b=None,
        has_bias=False,
        input_name="a",
        output_name=output,
    )


def _add_dense(builder: NeuralNetworkBuilder, source: str, size: int, output: str) -> None:
    """Adds a dense layer that reads the steps of a sequence as one vector of `size` elements."""
    builder.add_flatten("flat", 0, source, "f")
    builder.add_inner_product("dense", np.ones((3, size), np.float32), None, size, 3, False, "f", output)


def _over_time(*, dense_from: int = 0) -> NeuralNetworkBuilder:
    """A convolution over time; with `dense_from`, a dense layer over all results of that many steps."""
    builder = NeuralNetworkBuilder([("x", datatypes.Array(_CHANNELS))], [("y", None)])
    _add_convolution(builder, "b")
    if dense_from:
        _add_dense(builder, "b", 4 * (dense_from - _WINDOW + 1), "y")
    else:
        builder.add_permute("back", (3, 1, 2, 0), "b", "y")
    return builder


def _read(builder: NeuralNetworkBuilder) -> ir.Model:
    return container.read(builder.spec.SerializeToString())


@pytest.mark.parametrize(("dense_from", "length"), [(0, _WINDOW), (126, 126), (512, 512)])
def test_the_shortest_length_that_fits(dense_from: int, length: int) -> None:
    model = _read(_over_time(dense_from=dense_from))
    shapes = choose_lengths(model, None, {})
    (finding,) = length_findings(model, [], shapes)
    assert shapes == {"x": (length, 1, _CHANNELS, 1, 1)}
    assert finding.text == (
        "'x' takes sequences of a length that is not in the file: one step is too short for this network, so "
        f"the shortest length that fits was used, {length}."
    )
    assert finding.hint == f"--shape x={length}x1x12x1x1 sets another length"


def test_no_length_is_chosen_without_need() -> None:
    builder = network({"x": (_CHANNELS,)})
    builder.add_activation("relu", "RELU", "x", "y")
    assert choose_lengths(_read(builder), None, {}) == {}
    asked = {"x": (7, 1, _CHANNELS, 1, 1)}
    assert choose_lengths(_read(_over_time()), None, asked) == asked
    assert length_findings(_read(_over_time()), asked, asked) == ()
    assert choose_lengths(_read(_over_time(dense_from=20_001)), None, {}) == {}


def test_a_state_keeps_one_step() -> None:
    """The dense layer of the second input fits one step only."""
    builder = NeuralNetworkBuilder(
        [("h", datatypes.Array(_CHANNELS)), ("x", datatypes.Array(_CHANNELS))], [("y", None), ("z", None)]
    )
    _add_convolution(builder, "y")
    builder.add_permute("state_to_width", (3, 1, 2, 0), "h", "s")
    _add_dense(builder, "s", _CHANNELS, "z")
    shapes = choose_lengths(_read(builder), None, {})
    assert shapes == {"x": (_WINDOW, 1, _CHANNELS, 1, 1)}


def test_results_say_the_length() -> None:
    model = _read(_over_time())
    profile = coremlscope.profile(
        model, iterations=2, effort=coremlscope.Effort(compile_iterations=1, load_iterations=1, warmups=1)
    )
    assert dict(profile.measurement.settings.shapes) == {"x": (_WINDOW, 1, _CHANNELS, 1, 1)}
    assert [finding.id for finding in profile.findings] == ["sequence-length"]
    assert "--shape x=5x1x12x1x1 sets another length" in write_terminal(
        plan_document(coremlscope.plan(model, "m1"))
    )
    estimate = coremlscope.estimate(model, "m1")
    assert "--shape x=5x1x12x1x1 sets another length" in write_terminal(estimates_document([estimate]))
    assert not estimate.estimates[0].left_out


def test_values_of_inputs_decide_the_length() -> None:
    values = {"x": random(9, 1, _CHANNELS)}
    profile = coremlscope.profile(
        coremlscope.Subject(_read(_over_time()), inputs=values),
        iterations=1,
        effort=coremlscope.Effort(compile_iterations=1, load_iterations=1, warmups=1),
    )
    assert dict(profile.measurement.settings.shapes) == {"x": (9, 1, _CHANNELS, 1, 1)}
    assert not profile.findings


def test_a_comparison_chooses_the_length_too(tmp_path: Path) -> None:
    path = tmp_path / "net.mlmodel"
    path.write_bytes(_over_time().spec.SerializeToString())
    (row,) = coremlscope.compare(path, devices=["m1"], iterations=2).profiles
    assert row.measurements
    assert row.estimates
    assert [finding.id for finding in row.findings] == ["sequence-length"]
    assert not row.estimates[0].left_out
    comparison = coremlscope.compare(
        path,
        path,
        iterations=2,
        effort=coremlscope.Effort(compile_iterations=1, load_iterations=1, warmups=1),
    )
    assert [subject.facts["shapes"] for subject in comparison.subjects] == ["x 5×1×12×1×1"] * 2


def test_an_estimate_counts_the_operations_that_it_does_not_know() -> None:
    model = _read(_over_time(dense_from=20_001))
    (estimate,) = coremlscope.estimate(model, "m1").estimates
    assert estimate.left_out == ("3 of 6 operations (convolution ×1, flatten ×1, innerProduct ×1)",)
    with pytest.raises(UnsupportedOpError, match="a window of 5 over 1 elements"):
        coremlscope.profile(model)


@pytest.mark.parametrize("shape", [(9, 1, _CHANNELS), (9, 2, _CHANNELS), (9, 1, _CHANNELS, 1, 1)])
def test_apps_pass_sequences_with_three_or_five_dimensions(shape: tuple[int, ...]) -> None:
    x = random(*shape)
    y = coremlscope.predict(_read(_over_time()), {"x": x})["y"]
    assert y.shape == (9 - _WINDOW + 1, shape[1], 4, 1, 1)
    steps = x.reshape(9, -1, _CHANNELS)
    expected = [
        np.einsum("kbc,kco->bo", steps[start : start + _WINDOW], _WEIGHTS[0])
        for start in range(9 - _WINDOW + 1)
    ]
    np.testing.assert_allclose(y[..., 0, 0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(9, 1, _CHANNELS + 1), (9, _CHANNELS), (9, 1, _CHANNELS, 2, 1)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="does not allow the shape"):
        coremlscope.predict(_read(_over_time()), {"x": random(*shape)})


@pytest.mark.corpus
def test_a_real_encoder_of_characters_takes_both_forms(corpus: Path) -> None:
    model = container.read(corpus / "models" / "raywenderlich__mlt-materials" / "Es2EnCharEncoder.mlmodel")
    feature = model.description.main.inputs[0]
    assert isinstance(feature.type, ir.ArrayFeature)
    (size,) = feature.type.shape
    letters = np.eye(size, dtype=np.float32)[[3, 1, 4, 1, 5]].reshape(5, 1, size)
    short = coremlscope.predict(model, {feature.name: letters})
    long = coremlscope.predict(model, {feature.name: letters.reshape(5, 1, size, 1, 1)})
    assert short.keys() == long.keys()
    for name, value in short.items():
        np.testing.assert_array_equal(value, long[name])
        assert np.abs(value).max() > 0
