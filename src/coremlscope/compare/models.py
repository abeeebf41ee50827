"""Measures what is to be compared and was not measured before, and compares."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

from coremlscope.compare.plans import placements
from coremlscope.compare.profiles import Comparison, Rounds, compare_plans, compare_profiles, label_subjects
from coremlscope.describe.model import OpSummary, summarise
from coremlscope.devices import ComputeUnits, Device
from coremlscope.engines.base import Engine
from coremlscope.engines.sampling import Clock
from coremlscope.errors import UsageError
from coremlscope.forecast.estimating import Estimated, estimate_model
from coremlscope.forecast.tabulate import tabulate_plans, with_plans
from coremlscope.ir import Model
from coremlscope.measure.engine import Progress, measure
from coremlscope.measure.interleaved import time_in_turns
from coremlscope.results.profile import OpRow, OpTable, Phase, Profile, Request

__all__ = ["compare_on_devices", "compare_sources"]


def compare_sources(
    sources: Sequence[Model | Profile],
    request: Request,
    *,
    names: Sequence[str] = (),
    devices: Sequence[Device] = (),
    settings: Sequence[ComputeUnits] = ("all",),
    inputs: Mapping[str, Any] | None = None,
    threads: int | None = None,
    engine: Engine | None = None,
    clock: Clock = time.perf_counter,
    progress: Progress | None = None,
) -> Comparison:
    """Compares models, which are profiled here, and profiles, as they are.

    Where there are several models, their predictions are timed in turns besides: these are the times that
    count, for a machine may have slowed down between one profile and the next.

    Args:
        sources: Two or more; the first is the base.
        request: What to measure of each model.
        names: What the sources are called; where they were read from, if this is empty.
        devices: Plans and estimates for these are compared as well.
        settings: Under which settings of compute units.
        inputs: Values of inputs by name, for every model that has them; the others are made up.
        threads: Threads that work on one operation; None for one per physical core.
        engine: The engine; None for the default one.
        clock: What durations are measured with.
        progress: Told of each repetition.

    Raises:
        CoremlscopeError: A model cannot be run; see `measure`.
    """
    told = {"threads": threads, "engine": engine, "clock": clock, "progress": progress}
    profiles: list[Profile] = []
    for source in sources:
        if isinstance(source, Model):
            found = _on_devices(source, request, devices, settings)
            measured = measure(source, request, inputs=_of(source, inputs), **told)  # type: ignore[arg-type]
            source = with_plans(measured, found)
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
    return compare_profiles(
        profiles, rounds=rounds, labels=label_subjects(names) if names else (), settings=settings
    )


def compare_on_devices(
    source: Model | Profile,
    request: Request,
    devices: Sequence[Device],
    settings: Sequence[ComputeUnits],
) -> Comparison:
    """Compares a model's plans and estimates for devices and settings with the first of them.

    Args:
        source: The model, or a profile that holds plans.
        request: The function and its shapes.
        devices: The devices; those of the profile where this is empty.
        settings: The settings.

    Raises:
        UsageError: Fewer than two plans come of that.
        CoremlscopeError: The model cannot be planned; see `estimate_model`.
    """
    if isinstance(source, Profile):
        names = {device.name for device in devices}
        plans = [plan for plan in source.plans if not names or plan.device in names]
        path, ops = source.model.path, source.ops
    else:
        summary = summarise(source, request.shapes, function=request.function or None, list_ops=True)
        path = summary.path
        found = _on_devices(source, request, devices, settings)
        ops, tabulated = tabulate_plans(OpTable.of(map(_unmeasured, summary.op_list)), found)
        plans = list(tabulated)
    chosen = placements(path, ops, plans, settings)
    if len(chosen) < 2:
        raise UsageError(
            "there is nothing to compare with",
            "name another model or profile, or two devices or settings: --device m1,a14",
        )
    return compare_plans(chosen)


def _on_devices(
    model: Model, request: Request, devices: Sequence[Device], settings: Sequence[ComputeUnits]
) -> list[Estimated]:
    if not devices:
        return []
    return estimate_model(model, devices, settings, function=request.function or None, shapes=request.shapes)


def _unmeasured(op: OpSummary) -> OpRow:
    function = op.id.partition("/")[0]
    work = (op.flops, op.read_bytes, op.written_bytes, op.weight_bytes)
    return OpRow(op.id, op.type, op.name, function, op.outputs, *work, -1, "not run", op.work_is_complete)


def _of(model: Model, inputs: Mapping[str, Any] | None) -> dict[str, Any]:
    names = {feature.name for function in model.description.functions.values() for feature in function.inputs}
    return {name: value for name, value in (inputs or {}).items() if name in names}
