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

__all__ = ["layers_of", "network", "predict", "random", "read"]

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
