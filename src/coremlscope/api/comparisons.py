"""Models, profiles and plans beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from coremlscope.api.models import Source, open_sources
from coremlscope.api.profiles import profile
from coremlscope.devices import find_devices
from coremlscope.devices.unit import choose_settings
from coremlscope.ir import Model

if TYPE_CHECKING:
    from coremlscope.comparison.profiles import Comparison
    from coremlscope.devices import ComputeUnits
    from coremlscope.measure.contract import Progress
    from coremlscope.results.profile import Profile

__all__ = ["compare"]


def compare(
    *sources: Source | Profile,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Mapping[str, Any] | None = None,
    devices: str | Sequence[str] = (),
    os: str | None = None,
    compute_units: ComputeUnits | Literal["every"] | Sequence[ComputeUnits] = "all",
    iterations: int | None = None,
    compile_iterations: int | None = None,
    load_iterations: int | None = None,
    warmups: int | None = None,
    threads: int | None = None,
    seed: int = 0,
    random_weights: bool = False,
    engine: str | None = None,
    isolate: bool = False,
    timeout_s: float | None = None,
    memory_bytes: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compares models or profiles, and distinguishes changes from noise.

    Models are profiled, and with an embedded engine their predictions are also timed in interleaved rounds.
    On a Mac, Core ML measures them one after the other (not yet confirmed on a device). For a single source,
    plans and estimates for the devices and settings are compared with each other, and nothing is measured.

    Args:
        *sources: Models, profiles, and paths of saved profiles (`.json`) and of files that
            `import_files` reads; the first is the base.
        function: The function of each model; None for the default one.
        shapes: Shapes of flexible inputs, instead of the defaults. A Core AI model, whose file has no
            sizes, has those of the other models.
        inputs: Values of inputs by name; absent ones are synthetic.
        devices: Chips or devices for which plans and estimates are compared: `m1`, `iphone-15-pro`.
        os: The version of their systems; the newest known one of each by default.
        compute_units: The settings under which plans and estimates are compared.
        iterations: Timed predictions of each model; None as for `profile`.
        compile_iterations: Timed compilations, likewise.
        load_iterations: Timed loads, likewise.
        warmups: Predictions before the timed ones; None for as many as it takes.
        threads: Threads that work on one operation; None for one per physical core.
        seed: Seed of synthetic inputs and weights.
        random_weights: Replaces absent weights by synthetic ones.
        engine: `coreml` or `onnxruntime`, as for `profile`.
        isolate: Runs engines in processes of their own; see `profile`.
        timeout_s: Seconds that each measurement, and all rounds, may take; implies `isolate`.
        memory_bytes: Resident memory that each process may take; implies `isolate`.
        progress: Called with the phase, the repetitions done, and how many there will be.

    Raises:
        ModelError: A model cannot be read or run.
        InputError: A value or a shape is not allowed.
        UsageError: An argument is wrong, or a saved profile cannot be read.
        EngineError: The engine failed.
        LimitError: A limit was reached.
        MissingDependencyError: Core ML is to be measured, and coremltools is not installed.
    """
    from coremlscope.comparison.models import compare_on_devices, compare_sources
    from coremlscope.comparison.shapes import choose_shapes
    from coremlscope.measure.choice import choose_embedded
    from coremlscope.measure.repetitions import choose_repetitions
    from coremlscope.own_measurements.report import choose_own
    from coremlscope.results.measurement import Settings

    chosen, units = find_devices(devices, os), choose_settings(compute_units)
    own, findings = choose_own(is_used=bool(chosen))
    opened = [(name, one) for source in sources for name, one in open_sources(source)]
    alike = choose_shapes([one for _, one in opened if isinstance(one, Model)], function, shapes or {})
    asked = Settings(
        function=function or "", warmups=warmups, seed=seed, shapes=alike, random_weights=random_weights
    )
    settings = choose_repetitions(asked, iterations, compile_iterations, load_iterations)
    if len(opened) == 1:
        return compare_on_devices(opened[0][1], settings, chosen, units, own=own, findings=findings)
    measure = partial(
        profile,
        function=function,
        shapes=alike,
        inputs=inputs,
        compute_units=units,
        devices=devices,
        os=os,
        iterations=iterations,
        compile_iterations=compile_iterations,
        load_iterations=load_iterations,
        warmups=warmups,
        threads=threads,
        seed=seed,
        random_weights=random_weights,
        engine="coreml",
        timeout_s=timeout_s,
        memory_bytes=memory_bytes,
        progress=progress,
    )
    embedded = threads is not None or random_weights
    return compare_sources(
        [measure(one) if _is_for_core_ml(one, engine, embedded) else one for _, one in opened],
        settings,
        names=[name for name, _ in opened],
        devices=chosen,
        compute_units=units,
        inputs=inputs,
        measurer=choose_embedded("onnxruntime", threads, isolate, (timeout_s, memory_bytes)),
        progress=progress,
        own=own,
        findings=findings,
    )


def _is_for_core_ml(one: Model | Profile, engine: str | None, only_embedded: bool) -> TypeGuard[Model]:
    """True for a model that is measured with Core ML; others that are compared are measured together."""
    if not isinstance(one, Model):
        return False
    from coremlscope.measure.choice import choose_engine

    return choose_engine(engine, only_embedded=only_embedded or one.source is None) == "coreml"
