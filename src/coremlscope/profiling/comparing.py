"""Measures what is to be compared and was not measured before, and compares."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coremlscope.engines.base import Engine
from coremlscope.engines.sampling import Clock
from coremlscope.ir import Model
from coremlscope.profiling.alternate import time_in_turns
from coremlscope.profiling.assemble import Progress, measure
from coremlscope.profiling.compare import Comparison, Rounds, compare_profiles, label_subjects
from coremlscope.profiling.profile import Phase, Profile, Request

__all__ = ["compare_sources"]


def compare_sources(
    sources: Sequence[Model | Profile],
    request: Request,
    *,
    names: Sequence[str] = (),
    inputs: Mapping[str, Any] | None = None,
    threads: int | None = None,
    engine: Engine | None = None,
    clock: Clock = time.perf_counter,
    progress: Progress | None = None,
    enrich: Callable[[Model, Profile], Profile] | None = None,
) -> Comparison:
    """Compares models, which are profiled here, and profiles, as they are.

    Where there are several models, their predictions are timed in turns besides: these are the times that
    count, for a machine may have slowed down between one profile and the next.

    Args:
        sources: Two or more; the first is the base.
        request: What to measure of each model.
        names: What the sources are called; where they were read from, if this is empty.
        inputs: Values of inputs by name, for every model that has them; the others are made up.
        threads: Threads that work on one operation; None for one per physical core.
        engine: The engine; None for the default one.
        clock: What durations are measured with.
        progress: Told of each repetition.
        enrich: Adds plans and estimates to what was measured of a model.

    Raises:
        CoremlscopeError: A model cannot be run; see `measure`.
    """
    told = {"threads": threads, "engine": engine, "clock": clock, "progress": progress}
    profiles: list[Profile] = []
    for source in sources:
        if isinstance(source, Model):
            measured = measure(source, request, inputs=_of(source, inputs), **told)  # type: ignore[arg-type]
            source = enrich(source, measured) if enrich else measured
        profiles.append(source)
    models = [index for index, source in enumerate(sources) if isinstance(source, Model)]
    rounds: list[Rounds] = [()] * len(sources)
    if len(models) > 1:
        taken = time_in_turns(
            [source for source in sources if isinstance(source, Model)],
            [profiles[index].request for index in models],
            inputs=inputs,
            **told,  # type: ignore[arg-type]
        )
        for index, seconds in zip(models, taken, strict=True):
            rounds[index] = seconds
            samples = tuple(s for round_ in seconds for s in round_)
            phase = Phase(samples, profiles[index].predict.warmups_s)
            profiles[index] = dataclasses.replace(profiles[index], predict=phase)
    return compare_profiles(profiles, rounds=rounds, labels=label_subjects(names) if names else ())


def _of(model: Model, inputs: Mapping[str, Any] | None) -> dict[str, Any]:
    names = {feature.name for function in model.description.functions.values() for feature in function.inputs}
    return {name: value for name, value in (inputs or {}).items() if name in names}
