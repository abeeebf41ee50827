"""Measures one model under several settings of compute units; a failure does not stop the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coremlscope.base.errors import CoremlscopeError, EngineError
from coremlscope.base.findings import Finding
from coremlscope.measure.contract import MeasuredModel, Measurer, Progress
from coremlscope.measure.partial import interrupted, is_interrupted
from coremlscope.results.measurement import Measurement, Settings


def measure_settings(
    measurer: Measurer,
    subject: MeasuredModel,
    settings: Sequence[Settings],
    *,
    inputs: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    recorder: Measurer | None = None,
) -> tuple[list[Measurement], list[Finding]]:
    """Measures a model under each of several settings.

    Args:
        measurer: Measures.
        subject: The model.
        settings: The settings, resolved; they differ in the compute units.
        inputs: Values of inputs by name.
        progress: Called after each repetition.
        recorder: Measures again, while it records, under each setting that was measured.

    Returns:
        The measurements, of which one that the user interrupted is the last, then those of the recorder, and
        a finding of severity `error` for each that failed, and one on work that Ctrl-C ended.

    Raises:
        EngineError: The runtime failed under every setting.
    """
    measured: list[Measurement] = []
    failed: list[tuple[str, EngineError]] = []
    lost: list[Finding] = []
    for one in settings:
        try:
            measured.append(measurer.measure(subject, one, inputs=inputs, progress=progress))
        except EngineError as error:
            failed.append((one.compute_units, error))
        except KeyboardInterrupt:
            if not measured:
                raise
            lost.append(interrupted(f"Measuring under {one.compute_units}"))
            recorder = None
            break
        if measured and is_interrupted(measured[-1]):
            recorder = None
            break
    if failed and not measured:
        raise failed[0][1]
    if recorder is not None:
        for one in [found.settings for found in measured]:
            try:
                measured.append(recorder.measure(subject, one, inputs=inputs, progress=progress))
            except EngineError as error:
                failed.append((f"a recorded run under {one.compute_units}", error))
            except KeyboardInterrupt:
                lost.append(interrupted(f"The recorded run under {one.compute_units}"))
                break
    return measured, [*(not_measured(units, error) for units, error in failed), *lost]


def not_measured(what: str, error: CoremlscopeError) -> Finding:
    """Returns the finding that reports why something was not measured."""
    return Finding(
        id="not-measured",
        severity="error",
        text=f"{what} was not measured: {error.message}.",
        hint=error.hint,
        exit_code=error.exit_code,
    )
