"""What Core ML takes for a model on this Mac, within seconds. Not yet confirmed on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec.structs

from coremlscope.api.models import read
from coremlscope.base.errors import CoremlscopeError, MissingDependencyError
from coremlscope.base.findings import Finding
from coremlscope.measure.effort import Effort

if TYPE_CHECKING:
    from coremlscope.measure.contract import Progress
    from coremlscope.model.subject import Subject
    from coremlscope.results.measurement import Measurement

#: A first compilation for the Neural Engine can take minutes; who wants to wait calls `profile`.
_LONGEST_S = 30.0
_BRIEF = Effort(compile_iterations=1, load_iterations=1, timeout_s=_LONGEST_S)


def measure_this_mac(
    subject: Subject, progress: Progress | None = None
) -> tuple[tuple[Measurement, ...], tuple[Finding, ...]]:
    """Times one compilation, two loads and some predictions in Core ML, under the default setting.

    Args:
        subject: The model, its function, and shapes and values of its inputs.
        progress: Called with the phase, the repetitions done, and how many there will be.

    Returns:
        The measurement, which is partial where it ended early; else none, and a finding: of severity `error`,
        or `warning` where coremltools is not installed.
        `describe.this_mac.say_measured` says it in a sentence.
    """
    from coremlscope.measure.choice import choose_measurer
    from coremlscope.measure.contract import MeasuredModel, resolve_settings
    from coremlscope.measure.repetitions import choose_repetitions
    from coremlscope.measure.settings import not_measured
    from coremlscope.results.measurement import Settings

    try:
        model, measurer = read(subject.model), choose_measurer("coreml", _BRIEF)
        given = Settings(function=subject.function or "", seed=subject.seed, shapes=subject.bound_shapes)
        settings = resolve_settings(model, choose_repetitions(given, None, _BRIEF), subject.inputs)
        measured = measurer.measure(
            MeasuredModel.of(model, settings), settings, inputs=subject.inputs, progress=progress
        )
    except MissingDependencyError as error:
        text = f"{error.message} ({error.hint})."
        return (), (Finding(id="not-measured", severity="warning", text=text, hint=error.hint),)
    except CoremlscopeError as error:
        lost = not_measured("This model", error)
        return (), (msgspec.structs.replace(lost, text=f"{error.message}."),)
    return (measured,), ()
