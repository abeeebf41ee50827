"""Cutting of neural networks: any layers, with the real values that they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coremlscope.base.errors import UnsupportedModelError
from coremlscope.base.units import shown
from coremlscope.base.writing import write_file
from coremlscope.formats.mlmodel import read_spec
from coremlscope.formats.neuralnetwork.parts import LayerCut, NetworkLayers
from coremlscope.formats.packaging import spec_of, write_spec_package
from coremlscope.formats.weights import WeightStorage
from coremlscope.model.features import dummy_values, to_tensors
from coremlscope.model.ir import (
    Array,
    ArrayFeature,
    DType,
    Feature,
    Model,
)
from coremlscope.results.isolation import IsolatedUnit
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.runtime.execution.executable import CompileOptions
from coremlscope.runtime.execution.predictor import FunctionPredictor
from coremlscope.studies.isolation.parts import EXACT, Part


class NetworkCutter:
    """Cuts layers out of a neural network.

    Args:
        model: The network, read from a `.mlmodel` file or a `.mlpackage` folder.
        shapes: Shapes of flexible inputs, instead of the defaults.
        inputs: Values of inputs by name; absent ones are synthetic.
        seed: The seed of synthetic inputs.

    Raises:
        InputError: A shape or a value is not allowed.
    """

    suffix = ".mlmodel"

    def __init__(
        self,
        model: Model,
        *,
        shapes: Mapping[str, Sequence[int]] | None = None,
        inputs: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        chosen = choose_function(model)
        self._model, self._function, self._interface = model, chosen.function, chosen.description
        self._layers = NetworkLayers(spec_of(model))
        first_ops = {id(op.layer): op.id for op in reversed(tuple(chosen.function.graph.walk())) if op.layer}
        ids = {layer.name: first_ops.get(id(layer), "") for layer in reversed(chosen.function.layers)}
        self.units = tuple(IsolatedUnit(ids.get(name, ""), name, type_) for name, type_ in self._layers.names)
        self._shapes = {name: tuple(shape) for name, shape in (shapes or {}).items()}
        synthetic = dummy_values(self._interface, self._function, seed=seed, shapes=self._shapes)
        self._values = {**synthetic, **(inputs or {})}

    def cut(self, chosen: Sequence[int]) -> Part:
        """Cuts out the layers of these indices, with the values that they read and compute.

        Raises:
            UnsupportedModelError: The part returns nothing, or overwrites what it reads in a loop or branch.
            ModelError: The layers up to the end of the part cannot be run.
            EngineError: The engine failed.
        """
        cut = self._layers.cut(chosen)
        _check(cut)
        own = self._layers.model_inputs
        inside = [blob for blob in cut.inputs if blob not in own]
        computed = self._run(cut.chosen[-1] + 1, [*inside, *cut.outputs])
        features, values = [], {}
        for blob in cut.inputs:
            if blob in own:
                features.append(next(f for f in self._interface.inputs if f.name == blob))
                values[blob] = np.asarray(self._values[blob])
            else:
                values[blob] = computed[blob]
                features.append(Feature(blob, _array(computed[blob].shape)))
        spec = self._layers.part(cut.chosen, features, [Feature(blob, _array(())) for blob in cut.outputs])
        return Part(
            model=_read(spec),
            units=tuple(self.units[index] for index in cut.chosen),
            inputs=values,
            expected={blob: computed[blob] for blob in cut.outputs},
            spec=spec,
        )

    def write(self, part: Part, path: Path, *, overwrite: bool = False) -> None:
        """Writes a part as a `.mlmodel` file, or as a package.

        Raises:
            OutputError: The file cannot be written, or the package exists.
        """
        if path.suffix == ".mlpackage":
            write_spec_package(part.spec, path, overwrite=overwrite)
        else:
            write_file(path, part.spec)

    def _run(self, count: int, blobs: Sequence[str]) -> dict[str, Array]:
        """Runs the first layers and returns blobs of theirs."""
        inputs = self._interface.inputs
        outputs = [Feature(blob, _array(())) for blob in blobs]
        model = _read(self._layers.part(range(count), inputs, outputs))
        with FunctionPredictor(model, options=CompileOptions(engine_options=EXACT)) as predictor:
            _, results, _ = predictor.run(to_tensors(inputs, self._values))
        return {blob: np.atleast_1d(results[blob]) for blob in blobs}


def _check(cut: LayerCut) -> None:
    if not cut.outputs:
        raise UnsupportedModelError("this part returns nothing", "choose more layers")
    if cut.overwritten:
        raise UnsupportedModelError(
            f"this part overwrites {shown(cut.overwritten[0])}, which it also reads from layers before it",
            "networks with loops or branches share names of values; choose more layers, or fewer",
        )


def _read(spec: bytes) -> Model:
    return read_spec(spec, WeightStorage)


def _array(shape: tuple[int, ...]) -> ArrayFeature:
    """An array of float32; the first two of five dimensions, those of sequences, are not declared."""
    return ArrayFeature(dtype=DType.FP32, shape=shape[2:] if len(shape) == 5 else shape)
