"""Compares the compute units that a program asks for with those that the plan of its models uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import cast

import msgspec.structs

from coremlscope.devices.unit import SETTINGS, UNIT_WORDS, UNITS, ComputeUnit, ComputeUnits
from coremlscope.results.plan import PlannedOp, unit_counts
from coremlscope.results.trace import Mistake, Trace, TracedModel


def add_unused_units(
    trace: Trace, device: str, plan: Callable[[TracedModel, ComputeUnits], Sequence[PlannedOp]]
) -> Trace:
    """Returns the trace with a mistake for each model whose plan leaves out a unit that the program asks for.

    Args:
        trace: The trace.
        device: The device that plans are for.
        plan: Returns the planned operations of a model under a setting; empty if it cannot be planned.
    """
    found: list[Mistake] = []
    known: set[tuple[str, str, str]] = set()
    loads = trace.events.of("load")
    sites = dict(zip(loads.model.tolist(), loads.site.tolist(), strict=True))
    for index, model in enumerate(trace.models):
        setting = cast("ComputeUnits", model.compute_units)
        key = (model.key, model.function, setting)
        if setting not in SETTINGS or not model.path or key in known:
            continue
        known.add(key)
        counts = unit_counts(plan(model, setting), setting)
        del counts[None]
        # The CPU may always be used, and is no reason to ask for more.
        missing = [unit for unit in SETTINGS[setting] if unit != "cpu" and not counts[unit]]
        if counts and missing:
            found.append(_mistake(model, index, sites.get(index, -1), device, missing, counts))
    return msgspec.structs.replace(trace, mistakes=(*trace.mistakes, *found))


def _mistake(
    model: TracedModel,
    index: int,
    site: int,
    device: str,
    missing: Sequence[ComputeUnit],
    counts: Counter[ComputeUnit | None],
) -> Mistake:
    names = " and ".join(UNIT_WORDS[unit] for unit in missing)
    used = ", ".join(f"{counts[unit]} on {UNIT_WORDS[unit]}" for unit in UNITS if counts[unit])
    only_cpu = set(counts) == {"cpu"}
    return Mistake(
        id="units-unused",
        severity="warning" if only_cpu or model.compute_units != "all" else "info",
        title=f"{model.name} asks for {model.compute_units}, but its plan does not use {names}",
        evidence=f"Planned for {device}: {used} of {sum(counts.values())} operations.",
        fix=f"`coremlscope plan MODEL --device {device}` shows the reasons; a setting without the unused"
        " unit loads faster.",
        site=site,
        model=index,
        events=1,
    )
