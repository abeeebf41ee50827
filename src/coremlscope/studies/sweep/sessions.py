"""Sessions of ONNX Runtime with its Core ML provider as variants of ONNX models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec.structs

from coremlscope.api.providers import report_session
from coremlscope.base.errors import UnsupportedModelError
from coremlscope.base.version import __version__
from coremlscope.devices import CPU, GPU, NEURAL_ENGINE, find_device
from coremlscope.planning.onnxruntime.case import FORMATS
from coremlscope.studies.sweep.jobs import SweepJob, split_cases
from coremlscope.studies.sweep.rows import Row


def estimate_sessions(job: SweepJob, path: Path) -> Iterator[Row]:
    """Yields the rows of a job whose variant is a session.

    Raises:
        UsageError: The file is no ONNX model, or the variant is unknown.
        UnsupportedModelError: There is no estimate.
    """
    _, format_, *release = job.subject.variant.split("-")
    formats = [one for one in FORMATS if one == format_]
    for settings, names in split_cases(job.cases).items():
        devices = [find_device(name, os) for name, os in names]
        report = report_session(
            path, formats[0], release[0] if release else None, devices, settings, job.subject.shapes
        )
        known = {(one.device, one.os, one.compute_units): one for one in report.estimates}
        for case in job.cases:
            estimate = known.get((case.device, case.os, case.compute_units))
            if estimate is None and (case.device, case.os) in names:
                raise UnsupportedModelError(
                    f"no session is estimated: the provider makes {report.models} Core ML models of it", ""
                )
            if estimate is not None:
                latency, shares = estimate.latency, estimate.placement
                yield msgspec.structs.replace(
                    job.row(case),
                    kind="onnx",
                    operations=report.nodes,
                    estimated_s=latency.value,
                    estimated_low_s=latency.low,
                    estimated_high_s=latency.high,
                    neural_engine_share=shares.get(NEURAL_ENGINE, 0.0),
                    gpu_share=shares.get(GPU, 0.0),
                    cpu_share=shares.get(CPU, 0.0),
                    version=__version__,
                )
