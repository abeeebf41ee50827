"""Predicting with a pipeline: models that follow one another."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from coremlscope.errors import CorruptModelError, UsageError
from coremlscope.execution.cache import ArtefactCache
from coremlscope.execution.predictor import Predictor
from coremlscope.execution.state import State
from coremlscope.features import to_tensors
from coremlscope.ir import Model, Pipeline

__all__ = ["PipelinePredictor", "open_predictor"]


class PipelinePredictor:
    """Predicts with the models of a pipeline in order; safe to use from several threads.

    Args:
        model: A pipeline. Each of its models takes features of the pipeline and of the models before it.

    Raises:
        UnsupportedModelError: A model of the pipeline is of a kind that cannot be run.
        CorruptModelError: A feature comes from nowhere.
    """

    def __init__(self, model: Model) -> None:
        assert isinstance(model.content, Pipeline)
        self.model = model
        self.description = model.description.main
        self._stages: list[Predictor | PipelinePredictor] = []
        known = {feature.name for feature in self.description.inputs}
        with ExitStack() as opened:
            for stage in model.content.models:
                predictor = open_predictor(stage)
                opened.callback(predictor.close)
                self._stages.append(predictor)
                required = {f.name for f in predictor.description.inputs if not f.is_optional}
                _require(required - known, "a model of the pipeline takes")
                known |= {feature.name for feature in predictor.description.outputs}
            _require({feature.name for feature in self.description.outputs} - known, "the pipeline gives")
            self._opened = opened.pop_all()

    def prepare(self) -> None:
        """Compiles every model for its default shapes."""
        for stage in self._stages:
            stage.prepare()

    def predict(self, values: Mapping[str, Any], state: State | None = None) -> dict[str, Any]:
        """Predicts from feature values to feature values; see `Predictor.predict`.

        Args:
            values: By name of the feature.
            state: Not used: models with a state cannot be part of a pipeline.
        """
        to_tensors(self.description.inputs, values)  # raises where a value is missing or of another type
        features = dict(values)
        for stage in self._stages:
            taken = (feature.name for feature in stage.description.inputs if feature.name in features)
            features.update(stage.predict({name: features[name] for name in taken}))
        return {feature.name: features[feature.name] for feature in self.description.outputs}

    def new_state(self) -> State:
        """A state without values."""
        return State(())

    def close(self) -> None:
        """Lets go of the models."""
        self._opened.close()

    def __enter__(self) -> PipelinePredictor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_predictor(
    model: Model, function: str | None = None, cache: ArtefactCache | None = None
) -> Predictor | PipelinePredictor:
    """A predictor for a program, or for a pipeline of programs.

    Args:
        model: The model.
        function: A function of a program; None for its default one.
        cache: Where a program's compiled functions are kept; see `Predictor`.

    Raises:
        UsageError: The model has no such function.
        UnsupportedModelError: The model is of a kind that cannot be run.
    """
    if not isinstance(model.content, Pipeline):
        return Predictor(model, function=function, cache=cache)
    if function not in (None, model.description.default):
        raise UsageError(f"a pipeline has no function {function!r}", "leave the function out")
    return PipelinePredictor(model)


def _require(missing: set[str], who: str) -> None:
    if missing:
        raise CorruptModelError(f"{who} {', '.join(sorted(missing))}, which no model before it gives")
