"""Networks of a single layer and their predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from coremltools.models.neural_network import NeuralNetworkBuilder

import coremlscope
from coremlscope.model.ir import Array
from tests.support.networks import network, read


def builder_of(
    inputs: Mapping[str, Array], outputs: Sequence[str], *, exact: bool = True
) -> NeuralNetworkBuilder:
    """A builder of a network with inputs like the given arrays."""
    return network({name: array.shape for name, array in inputs.items()}, exact=exact, outputs=outputs)


def predict(builder: NeuralNetworkBuilder, inputs: Mapping[str, Array]) -> Mapping[str, Any]:
    """The prediction of a network."""
    given = {name: np.asarray(array, np.float32) for name, array in inputs.items()}
    return coremlscope.predict(read(builder), given)


def single(
    type_: str, *inputs: Array, outputs: int = 1, exact: bool = True, **params: Any
) -> tuple[NeuralNetworkBuilder, dict[str, Array], list[str]]:
    """A network of one layer: the builder, its inputs by name, and the names of its outputs."""
    given = {f"x{i}": np.asarray(array, np.float32) for i, array in enumerate(inputs)}
    names = [f"y{i}" for i in range(outputs)]
    # A network has at least one input, whether or not its layer takes one.
    builder = builder_of(given or {"unused": np.zeros(1)}, names, exact=exact)
    layer = builder.nn_spec.layers.add(name="layer", input=list(given), output=names)
    message = getattr(layer, type_)
    message.SetInParent()
    for field, value in params.items():
        if isinstance(value, list | tuple | np.ndarray):
            getattr(message, field).extend(value)
        else:
            setattr(message, field, value)
    return builder, given or {"unused": np.zeros(1, np.float32)}, names


def results_of(
    type_: str, *inputs: Array, outputs: int = 1, exact: bool = True, **params: Any
) -> list[Array]:
    """The outputs of one layer."""
    builder, given, names = single(type_, *inputs, outputs=outputs, exact=exact, **params)
    results = predict(builder, given)
    return [np.asarray(results[name]) for name in names]
