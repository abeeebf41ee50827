"""What stands in for a model whose file does not hold what computes it, so that the rest can be timed."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from coremlscope.execution.wiring import Stage, Wiring
from coremlscope.features import Held, default_shape, dummy_value, to_tensors
from coremlscope.ir import ArrayFeature, DictionaryFeature, External, Feature, Shape, StringFeature

__all__ = ["StandIn"]


class StandIn:
    """Gives made-up values of the right types and shapes, the same each time.

    Shapes are those that the model is described with, else those that Apple's specification tells of such a
    model, else those that the next model takes.

    Args:
        wiring: The pipeline.
        index: The stage that this stands in for.

    Attributes:
        stage: That stage.
        reason: Why it cannot be run; goes on from a name.
    """

    def __init__(self, wiring: Wiring, index: int) -> None:
        self.stage: Stage = wiring.stages[index]
        content = self.stage.model.content
        assert isinstance(content, External)
        self.reason: str = content.absent
        self._results = {f.name: self._make(wiring, index, f) for f in self.stage.description.outputs}

    @property
    def results(self) -> Mapping[str, Held]:
        """What it gives, by name of the output."""
        return self._results

    @property
    def shapes(self) -> dict[str, Shape]:
        """The shape of each output that has one."""
        return {name: held.tensor.shape for name, held in self._results.items() if _has_shape(held.feature)}

    def _make(self, wiring: Wiring, index: int, feature: Feature) -> Held:
        shape = _shape(wiring, index, feature)
        if isinstance(feature.type, ArrayFeature) and shape is not None:
            feature = dataclasses.replace(feature, type=dataclasses.replace(feature.type, shape=shape))
        tensor = to_tensors((feature,), {feature.name: self._value(feature, shape or (1,))})[feature.name]
        return Held(feature, tensor, is_fed=True)

    def _value(self, feature: Feature, shape: tuple[int, ...]) -> Any:
        labels = getattr(self.stage.model.content, "labels", ())
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
    """The shape of an output, from the first of three sources that tells one."""
    stage = wiring.stages[index]
    content = stage.model.content
    assert isinstance(content, External)
    names = tuple(f.name for f in stage.description.outputs)
    takers = (
        default_shape(taker.type)
        for later in wiring.stages[index + 1 :]
        for taker in later.description.inputs
        if (wire := later.wires.get(taker.name)) is not None
        and (wire.stage, wire.feature.name) == (index, feature.name)
    )
    told = (default_shape(feature.type), content.output_shapes(names).get(feature.name))
    shape = next((shape for shape in itertools.chain(told, takers) if shape is not None), None)
    return None if shape is None else tuple(size or 1 for size in shape)
