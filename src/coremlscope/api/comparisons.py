"""Models, profiles and plans beside each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec.structs

from coremlscope.api.models import Source, name_of, open_sources
from coremlscope.base.errors import CoremlscopeError, UsageError, known_error
from coremlscope.devices.targets import Targets
from coremlscope.measure.effort import Effort
from coremlscope.model.ir import Model

if TYPE_CHECKING:
    from coremlscope.base.processes.child import ChildLimits
    from coremlscope.describe.comparison.profiles import Comparison
    from coremlscope.devices import ComputeUnits
    from coremlscope.measure.contract import MeasuredModel, Measurer, Progress
    from coremlscope.measure.coreml.kept import KeptFolders
    from coremlscope.measure.embedded.isolated import IsolatedMeasurer
    from coremlscope.measure.embedded.measurer import EngineMeasurer
    from coremlscope.results.measurement import Settings
    from coremlscope.results.profile import Profile


def compare(
    *sources: Source | Profile,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Mapping[str, Any] | None = None,
    devices: str | Sequence[str] | Targets = (),
    compute_units: ComputeUnits | Literal["every"] | Sequence[ComputeUnits] | None = None,
    iterations: int | None = None,
    effort: Effort | None = None,
    seed: int = 0,
    random_weights: bool = False,
    engine: str | None = None,
    progress: Progress | None = None,
    changed: Callable[[tuple[Profile, ...]], None] = lambda _: None,
) -> Comparison:
    """Measures, plans and estimates models, and shows them beside each other and beside saved profiles.

    Differences from the first are told from noise: with an embedded engine predictions are also timed in
    interleaved rounds. On a Mac, Core ML measures the models one after the other under each of the settings
    (not yet confirmed on a device). A model that fails does not stop the others: its profile has a finding.
    For a single model with several devices or settings of them, plans and estimates are compared with each
    other, and nothing is measured.

    Args:
        *sources: Models, profiles, and paths of saved profiles (`.json`) and of files that
            `import_files` reads; the first is the base.
        function: The function of each model; None for the default one.
        shapes: Shapes of flexible inputs, instead of the defaults. A Core AI model, whose file has no
            sizes, has those of the other models.
        inputs: Values of inputs by name; absent ones are synthetic.
        devices: Chips or devices to plan and estimate for: `m1`, `iphone-15-pro`; as `Targets` also with the
            version of their systems.
        compute_units: The settings under which Core ML measures, and of plans and estimates; `all` by
            default.
        iterations: Timed predictions of each model; None as for `profile`.
        effort: Other repetitions, threads and limits; the time limit also holds for all rounds together.
        seed: Seed of synthetic inputs and weights.
        random_weights: Replaces absent weights by synthetic ones.
        engine: `coreml` or `onnxruntime`, as for `profile`.
        progress: Called with the phase, the repetitions done, and how many there will be.
        changed: Called with all profiles whenever one of them changed.

    Returns:
        The differences, and one profile for each source. After Ctrl-C, the profiles completed so far.

    Raises:
        ModelError: No model can be read.
        InputError: A value or a shape is not allowed.
        UsageError: An argument is wrong, or a saved profile cannot be read.
        MissingDependencyError: Core ML is to be measured, and coremltools is not installed.
    """
    from coremlscope.api.answers import forecast_subject
    from coremlscope.api.shapes import choose_shapes
    from coremlscope.api.sources import compare_sources, fill_profiles, interleave
    from coremlscope.measure.choice import choose_embedded, choose_measurer
    from coremlscope.measure.coreml.kept import KeptFolders
    from coremlscope.measure.coreml.limits import core_ml_limits
    from coremlscope.measure.repetitions import choose_repetitions
    from coremlscope.results.measurement import Settings

    targets, effort = Targets.of(devices, compute_units), effort or Effort()
    chosen, units = targets.find_devices(), targets.settings
    opened = [named for source in sources for named in _open(source)]
    alike = choose_shapes([one for _, one in opened if isinstance(one, Model)], function, shapes or {})
    asked = Settings(
        compute_units=units[0],
        function=function or "",
        seed=seed,
        shapes=alike,
        random_weights=random_weights,
    )
    asked = choose_repetitions(asked, iterations, effort)
    embedded, kept = choose_embedded("onnxruntime", effort), KeptFolders()
    choose = partial(
        _choose,
        asked=asked,
        units=units,
        engine=engine,
        is_only_planned=len(opened) == 1 and len(chosen) * len(units) > 1,
        embedded=embedded,
        core_ml=partial(choose_measurer, "coreml", effort, kept=kept),
    )
    forecaster = partial(forecast_subject, devices=chosen, settings=units, function=function)
    with kept:
        profiles = fill_profiles(
            opened,
            choose,
            inputs=inputs,
            forecaster=forecaster if chosen else None,
            finish=partial(_with_plans_of_this_mac, limits=core_ml_limits(effort), kept=kept),
            progress=progress,
            changed=changed,
        )
    profiles, rounds = interleave(opened, profiles, embedded, inputs=inputs, progress=progress)
    names = [device.name for device in chosen]
    return compare_sources(opened, profiles, rounds=rounds, devices=names, settings=units)


def _open(source: Source | Profile) -> list[tuple[str, Model | Profile | CoremlscopeError]]:
    """Returns the models or profiles of a source with their names, or why a model cannot be read."""
    try:
        return list(open_sources(source))
    except UsageError:
        raise
    except Exception as error:  # one model must not stop the others
        return [(name_of(source), known_error(error, name_of(source)))]


def _choose(
    model: Model,
    asked: Settings,
    units: Sequence[ComputeUnits],
    engine: str | None,
    is_only_planned: bool,
    embedded: EngineMeasurer | IsolatedMeasurer,
    core_ml: Callable[..., Measurer],
) -> tuple[Measurer | None, list[Settings]]:
    """Returns what measures a model, and under which settings: Core ML under each, another engine once."""
    from coremlscope.measure.choice import choose_engine
    from coremlscope.measure.coreml.units import distinct_units

    only_embedded = embedded.threads is not None or asked.random_weights or model.source is None
    if is_only_planned:
        return None, [asked]
    if choose_engine(engine, only_embedded=only_embedded) != "coreml":
        return embedded, [asked]
    measurer = core_ml(only_embedded=only_embedded)
    return measurer, [
        msgspec.structs.replace(asked, compute_units=setting) for setting in distinct_units(units)
    ]


def _with_plans_of_this_mac(
    subject: MeasuredModel, profile: Profile, limits: ChildLimits, kept: KeptFolders
) -> Profile:
    """Returns the profile of a model with Core ML's own plans and ours, where Core ML was measured."""
    from coremlscope.api.assemble import with_plans
    from coremlscope.api.core_ml_plans import with_plans_of_this_mac
    from coremlscope.measure.choice import default_engine_findings

    measured = [one for one in profile.measurements if one.runtime.id == "coreml"]
    if not measured:
        remarks = default_engine_findings() if profile.measurements else ()
        return (
            msgspec.structs.replace(profile, findings=(*remarks, *profile.findings)) if remarks else profile
        )
    made, findings = with_plans_of_this_mac(None, subject, measured[0].settings, measured, limits, kept)
    whole = msgspec.structs.replace(profile, findings=(*profile.findings, *findings))
    return with_plans(whole, [*made.plans, *profile.plans])
