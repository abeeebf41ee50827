"""Placeholders for pipeline stages that the file does not contain, so that the other stages can be timed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import msgspec.structs
import numpy as np

from coremlscope.model.features import FeatureValue, default_shape, dummy_value, to_tensors
from coremlscope.model.ir import ArrayFeature, DictionaryFeature, Feature, Shape, StringFeature
from coremlscope.runtime.execution.wiring import Stage, Wiring


class Placeholder:
    """Returns constant synthetic values of the types and shapes of a stage's outputs.

    A shape comes from the stage's description, else from Apple's specification of such a model, else from the
    description of the stage that reads the output.

    Args:
        wiring: The pipeline.
        index: The index of the stage to replace.

    Attributes:
        stage: The replaced stage.
        reason: Why the stage cannot be run: a clause that follows its name.
    """

    def __init__(self, wiring: Wiring, index: int) -> None:
        self.stage: Stage = wiring.stages[index]
        self.reason = self.stage.model.content.absent
        self._results = {f.name: self._make(wiring, index, f) for f in self.stage.description.outputs}

    @property
    def results(self) -> Mapping[str, FeatureValue]:
        """The synthetic values by output name."""
        return self._results

    @property
    def shapes(self) -> dict[str, Shape]:
        """The shapes by output name, for outputs that have a shape."""
        return {name: held.tensor.shape for name, held in self._results.items() if _has_shape(held.feature)}

    def _make(self, wiring: Wiring, index: int, feature: Feature) -> FeatureValue:
        shape = _shape(wiring, index, feature)
        if isinstance(feature.type, ArrayFeature) and shape is not None:
            feature = msgspec.structs.replace(
                feature, type=msgspec.structs.replace(feature.type, shape=shape)
            )
        tensor = to_tensors((feature,), {feature.name: self._value(feature, shape or (1,))})[feature.name]
        return FeatureValue(feature, tensor, is_input=True)

    def _value(self, feature: Feature, shape: tuple[int, ...]) -> Any:
        labels = self.stage.model.content.labels
        match feature.type:
            case StringFeature() if labels:
                return labels[0]
            case DictionaryFeature("string") if labels:
                return dict.fromkeys(labels, 1 / len(labels))
            case _:
                return dummy_value(feature.type, np.random.default_rng([0, *feature.name.encode()]), shape)


def _has_shape(feature: Feature) -> bool:
    return default_shape(feature.type) is not None


def _shape(wiring: Wiring, index: int, feature: Feature) -> tuple[int, ...] | None:
    """The shape of an output, from the first of three sources that declares one."""
    stage = wiring.stages[index]
    declared = (default_shape(feature.type), stage.model.content.shapes.get(feature.name))
    read = (
        default_shape(reader.type)
        for later in wiring.stages[index + 1 :]
        for reader in later.description.inputs
        if (wire := later.wires.get(reader.name)) is not None
        and (wire.stage, wire.feature.name) == (index, feature.name)
    )
    shape = next((shape for shape in itertools.chain(declared, read) if shape is not None), None)
    return None if shape is None else tuple(size or 1 for size in shape)
