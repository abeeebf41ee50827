"""What Core ML measured on this Mac, or why it measured nothing, in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from coremlscope.base.findings import Finding
from coremlscope.base.units import format_duration
from coremlscope.results.measurement import Measurement

#: The id of a finding on a measurement that failed.
NOT_MEASURED = "not-measured"
#: What makes a measured time another one than it seems, by the ids of findings.
_DOUBTS = {
    "compilation-fell-back": "Core ML could not compile it for one of these units, and ran it on others",
    "not-finite": "outputs are infinite or NaN",
    "compute-units-held": "Core ML is held to this setting here",
    "virtual-machine": "this is a virtual machine",
    "rosetta": "Rosetta translates this Python",
}


def say_measured(measurements: Sequence[Measurement], findings: Iterable[Finding]) -> str:
    """Returns what Core ML took on this Mac with what makes it doubtful, or why nothing was measured.

    Args:
        measurements: Those of Core ML here, the first of which is meant.
        findings: Those on a measurement that failed.
    """
    measured = next((one for one in measurements if one.predict is not None), None)
    if measured is None or measured.predict is None:
        lost = [f"{one.partial.text}." for one in measurements if one.partial is not None]
        why = next((f.text for f in findings), " ".join(lost))
        return f"On this Mac no prediction was measured: {why}" if why else ""
    took = format_duration(measured.predict.statistics.median)
    doubts = [_DOUBTS[f.id] for f in measured.findings if f.id in _DOUBTS]
    doubts += [] if measured.partial is None else [measured.partial.text]
    place, units = measured.label.removeprefix("Core ML on "), measured.compute_units
    said = f"On this Mac ({place}) a prediction took {took}, measured by Core ML under {units}"
    return f"{'; '.join([said, *doubts])}."
