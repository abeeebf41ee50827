"""Small neural networks built with coremltools, and functions that read and run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from coremltools.models import datatypes
from coremltools.models.neural_network import NeuralNetworkBuilder

import coremlscope
from coremlscope.formats import container
from coremlscope.model import ir

__all__ = ["hard_sigmoid_clip", "layers_of", "network", "predict", "random", "read", "relu6_layers"]

Floats = npt.NDArray[np.float32]


def random(*shape: int, seed: int = 0) -> Floats:
    """Reproducible random numbers."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def network(
    inputs: Mapping[str, Sequence[int]], *, exact: bool = False, outputs: Sequence[str] = ("y",)
) -> NeuralNetworkBuilder:
    """A builder of a network with array inputs, of rank 5 or, if `exact`, of their own rank."""
    given = [(name, datatypes.Array(*shape)) for name, shape in inputs.items()]
    return NeuralNetworkBuilder(given, [(name, None) for name in outputs], disable_rank5_shape_mapping=exact)


def read(builder: NeuralNetworkBuilder) -> ir.Model:
    """The built network, read from its specification."""
    return container.read(builder.spec.SerializeToString())


def predict(builder: NeuralNetworkBuilder, **values: Any) -> Any:
    """The prediction of the built network: the output `y`, or all outputs if there are several."""
    results = coremlscope.predict(read(builder), values)
    return results["y"] if set(results) == {"y"} else results


def layers_of(model: ir.Model) -> list[ir.Op]:
    """The operations of a network."""
    assert isinstance(model.content, ir.Program)
    (function,) = model.content.functions.values()
    return list(function.graph.ops)


def relu6_layers(
    *, size: int = 6, channels: int = 4, blob: str = "a", is_read_twice: bool = False
) -> NeuralNetworkBuilder:
    """A convolution and a ReLU6 as coremltools 4 wrote it, each layer with a blob of its own or with one."""
    b = network({"x": (channels, size, size)})
    weight = random(3, 3, channels, channels)
    b.add_convolution(
        "c", channels, channels, 3, 3, 1, 1, "same", 1, weight, None, False, input_name="x", output_name=blob
    )
    names = [f"{blob}{place}" if blob == "a" else blob for place in range(3)]
    b.add_activation("relu", "RELU", blob, names[0])
    b.add_activation("minus", "LINEAR", names[0], names[1], [-1.0, 0.0])
    b.add_unary("least", names[1], names[2], "threshold", alpha=-1.5)
    b.add_activation("plus", "LINEAR", names[2], "r", [-1.0, 0.0])
    b.add_elementwise("last", ["r", names[0] if is_read_twice else "r"], "y", "ADD")
    return b


def hard_sigmoid_clip() -> NeuralNetworkBuilder:
    """A bound of 0 … 6 as converters of ONNX wrote it: a hard sigmoid and a factor."""
    b = network({"x": (4, 6, 6)})
    b.add_activation("squeezed", "SIGMOID_HARD", "x", "a", [1 / 6, 0.0])
    b.add_activation("wide", "LINEAR", "a", "y", [6.0, 0.0])
    return b
