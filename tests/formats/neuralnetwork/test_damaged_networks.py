"""Damaged neural networks give a model or a clear error, without long run times or large allocations."""

from __future__ import annotations

import functools
import tracemalloc

import numpy as np
from coremltools.models import datatypes
from coremltools.models.neural_network import NeuralNetworkBuilder
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coremlscope.base.errors import CoremlscopeError
from coremlscope.formats import container
from coremlscope.model import ir
from coremlscope.runtime.execution.lowering import lower_function


@functools.cache
def _network() -> bytes:
    """Builds a small network with layers of many types."""
    random = np.random.default_rng(0)
    builder = NeuralNetworkBuilder([("image", datatypes.Array(3, 6, 6))], [("y", datatypes.Array(4))])
    weights = random.standard_normal((3, 3, 3, 4)).astype(np.float32)
    builder.add_convolution(
        "conv", 3, 4, 3, 3, 1, 1, "same", 1, weights, None, False, input_name="image", output_name="a"
    )
    builder.add_batchnorm("norm", 4, *(random.random(4) for _ in range(4)), input_name="a", output_name="b")
    builder.add_activation("relu", "RELU", "b", "c")
    builder.add_pooling("pool", 2, 2, 2, 2, "MAX", "VALID", "c", "d")
    builder.add_flatten("flat", 0, "d", "e")
    builder.add_inner_product("dense", random.random((4, 36)), None, 36, 4, False, "e", "f")
    builder.add_softmax("soft", "f", "y")
    builder.set_pre_processing_parameters(image_input_names=["image"], image_scale=0.5)
    data: bytes = builder.spec.SerializeToString()
    return data


def _read_and_lower(data: bytes) -> ir.Model | None:
    """Reads and lowers a model. Only this package's errors may be raised."""
    try:
        model = container.read(data)
        lower_function(model)
    except CoremlscopeError as error:
        if not error.message.isprintable() or not error.message:
            raise AssertionError(repr(error.message)) from error
        return None
    return model


def test_every_byte_of_a_network_flipped() -> None:
    whole = _network()
    assert _read_and_lower(whole) is not None
    weights = range(whole.index(b"conv") + 150, whole.index(b"norm") - 10)  # any four bytes are a float
    for position in (p for p in range(len(whole)) if p not in weights):
        data = bytearray(whole)
        data[position] ^= 1 << position % 8
        _read_and_lower(bytes(data))


def test_truncated_networks() -> None:
    whole = _network()
    for length in range(0, len(whole), 7):
        _read_and_lower(whole[:length])


@settings(max_examples=150)
@given(
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=5)
)
@example(flips=[(0.0, 1)])
def test_several_bytes_flipped(flips: list[tuple[float, int]]) -> None:
    data = bytearray(_network())
    for where, mask in flips:
        data[int(where * len(data))] ^= mask
    _read_and_lower(bytes(data))


def test_network_that_declares_large_tensors() -> None:
    builder = NeuralNetworkBuilder(
        [("x", datatypes.Array(4))], [("y", None)], disable_rank5_shape_mapping=True
    )
    builder.add_fill_static("fill", "y", [1 << 20, 1 << 20], 1.0)
    data = builder.spec.SerializeToString()
    tracemalloc.start()
    container.read(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6
