"""One profile of every kind: any of the arms may be there or not."""

from __future__ import annotations

import dataclasses

from coremlscope.findings import Finding
from coremlscope.results.measurement import Fp16Ranges, Settings, StageTiming
from coremlscope.results.model import ModelSummary, StageSummary
from coremlscope.results.profile import Profile
from tests.support.planned_profiles import device_estimates, device_plan, planned_profile
from tests.support.profiles import MADE, small_measurement, small_profile, small_summary, timed_by

__all__ = ["PROFILES", "three_measurements_beside_two_plans"]


def three_measurements_beside_two_plans() -> Profile:
    """This host, Core ML under two settings; plans and estimates for two devices."""
    base = planned_profile()
    return dataclasses.replace(
        base,
        measurements=(
            small_measurement(),
            timed_by("Core ML on M2", 0.002, compute_units="all"),
            timed_by("Core ML on M2", 0.008, compute_units="cpu_only"),
        ),
        plans=(device_plan("M1"), device_plan("M2", slow=3)),
        estimates=(*device_estimates("M1"), *device_estimates("M2", slow=3)),
    )


def _detailed() -> Profile:
    """A measurement of a pipeline in half precision, with every field that may be absent."""
    measured = dataclasses.replace(
        small_measurement(),
        settings=Settings(
            compute_units="cpu_only",
            function="main",
            warmups=3,
            seed=7,
            shapes={"image": (1, 3, 32, 32)},
            inputs=("image",),
            random_weights=True,
            precision="fp16",
        ),
        stages=(
            StageTiming(name="model0", kind="mlProgram", run_s=0.001, convert_s=0.0001, operations_s=0.0009),
            StageTiming(name="model1", kind="visionFeaturePrint", absent="it is part of the system"),
        ),
        fp16=Fp16Ranges(
            largest=(None, None, 65504.0, 6.0, 1e30, None),
            overflows=(None, None, 0, 0, 3, None),
            infinities=(None, None, 0, 0, 1, None),
            nans=(None, None, 0, 0, 2, None),
        ),
        peak_memory_bytes=2**33,
    )
    stage = StageSummary(
        name="model0",
        kind="mlProgram",
        inputs=(("image", "image RGB 32×32"),),
        outputs=(("probabilities", "float16 1×10"),),
        facts=(("layers", "3"),),
        operations=6,
        parameters=1000,
        weights_bytes=2000,
    )
    model = dataclasses.replace(small_summary(), stages=(stage,), facts=(("trees", "3"),))
    return dataclasses.replace(small_profile(), model=model, measurements=(measured,))


def _failed() -> Profile:
    """A model that could not be read."""
    finding = Finding(
        id="failed", severity="error", text="read: c.txt is not a Core ML model", hint="give one", exit_code=3
    )
    return Profile(model=ModelSummary(path="c.txt"), made=MADE, findings=(finding,))


_PLANNED = planned_profile()

PROFILES: dict[str, Profile] = {
    "empty": Profile(model=ModelSummary(path="")),
    "failed": _failed(),
    "described": dataclasses.replace(_PLANNED, measurements=(), plans=(), kernels=(), estimates=()),
    "plan only": dataclasses.replace(_PLANNED, measurements=(), kernels=(), estimates=()),
    "estimate only": dataclasses.replace(_PLANNED, measurements=(), plans=()),
    "measurement only": small_profile(),
    "Core ML only": dataclasses.replace(small_profile(), measurements=(timed_by("Core ML on M2", 0.002),)),
    "plan and estimates": dataclasses.replace(_PLANNED, measurements=()),
    "every arm": _PLANNED,
    "every field": _detailed(),
    "three measurements, two plans": three_measurements_beside_two_plans(),
}
