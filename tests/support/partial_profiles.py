"""Profiles that hold only some of the parts that a profile may hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec.structs

from coremlscope.api.assemble import with_plans
from coremlscope.base.figures import Figure
from coremlscope.base.findings import Finding, Saving
from coremlscope.measure.partial import explain_partial
from coremlscope.results.answer import (
    Answer,
    AnswerTrust,
    HeldTime,
    Proposal,
    PublishedFigure,
    SettingChoice,
    TimePart,
    TokenSpeed,
)
from coremlscope.results.generation import TokenTiming
from coremlscope.results.hazard import Hazard
from coremlscope.results.measurement import Conditions, Fp16Ranges, Phase, Settings, StageTiming
from coremlscope.results.model import ModelSummary, StageSummary
from coremlscope.results.operations import OpDetails, Signature, WeightKind, WeightTable
from coremlscope.results.plan import Choice, OtherPlan, Plan, PlannedOps
from coremlscope.results.profile import Profile
from coremlscope.results.provider import (
    LeftNode,
    LoggedNode,
    ProviderAgreement,
    ProviderEstimate,
    ProviderFix,
    ProviderLog,
    ProviderReport,
    ProviderVerdict,
    Round,
    RuleAgreement,
)
from coremlscope.results.recording import (
    ActivityPart,
    Energy,
    FrameSamples,
    Recording,
    UnitActivity,
    UnitEnergy,
    UnitSamples,
)
from coremlscope.results.statistics import summarize
from tests.support.planned_profiles import device_estimates, device_plan, planned_profile
from tests.support.plans import small_plan
from tests.support.profiles import MADE, small_measurement, small_profile, small_summary, timed_by

__all__ = ["PROFILES", "three_measurements_beside_two_plans"]


def _failed() -> Profile:
    """A model that could not be read."""
    text = "read: c.txt is not a Core ML model"
    finding = Finding(id="failed", severity="error", text=text, hint="give a model", exit_code=3)
    return Profile(model=ModelSummary(path="folder/c.txt"), made=MADE, findings=(finding,))


def _ops_only() -> Profile:
    """A model that was not measured yet."""
    return msgspec.structs.replace(small_profile(), measurements=())


def _partial() -> Profile:
    """A measurement that was interrupted during predictions, after one phase."""
    end, finding = explain_partial(KeyboardInterrupt(), "predict")
    whole = small_profile()
    measured = msgspec.structs.replace(
        whole.measurement, partial=end, findings=(finding,), groups=(), status=(), group=(), nodes=None
    )
    return msgspec.structs.replace(whole, measurements=(measured,))


def _decoder() -> Profile:
    """Measured tokens per second of a language model, beside a measurement."""
    whole = small_profile()
    predict = Phase.of([0.01, 0.011, 0.0105, 0.0102, 0.0108, 0.0101, 0.0104])
    step, rate = TokenTiming.figures(1, predict)
    timing = TokenTiming(
        label=whole.measurement.label,
        function="main",
        phase="decode",
        tokens=1,
        context=128,
        attended=64,
        cache_bytes=4096,
        held_bytes=8192,
        shapes={"mask": (1, 1, 1, 64)},
        predict=predict,
        step_s=step,
        tokens_per_s=rate,
        peak_memory_bytes=10**8,
    )
    return msgspec.structs.replace(whole, token_timings=(timing,))


def _estimates_only() -> Profile:
    """Estimates and answers without plans."""
    whole = planned_profile()
    answers = tuple(
        msgspec.structs.replace(
            _answer(),
            device=one.device,
            chip=one.chip,
            os=one.os,
            compute_units=one.compute_units,
            is_asked=one.compute_units == "all",
            latency=one.latency,
            is_hazardous=False,
            hazards=(),
        )
        for one in whole.estimates
    )
    return msgspec.structs.replace(whole, measurements=(), plans=(), answers=answers)


def _brief_estimates() -> Profile:
    """Estimates without kernels."""
    whole = planned_profile()
    estimates = tuple(
        msgspec.structs.replace(e, kernel_s=(), kernel_unit=(), kernel_bound=(), parts={})
        for e in whole.estimates
    )
    return msgspec.structs.replace(whole, measurements=(), plans=(), kernels=(), estimates=estimates)


def _one_phase() -> Profile:
    """A measurement of predictions alone, by a runtime of which little is known."""
    measured = msgspec.structs.replace(timed_by("Core ML on iPhone 15 Pro", 0.0012), load=None)
    return msgspec.structs.replace(small_profile(), measurements=(measured,))


def _no_phase() -> Profile:
    """A measurement of operations alone."""
    measured = msgspec.structs.replace(small_measurement(), compile=None, load=None, predict=None, nodes=None)
    return msgspec.structs.replace(small_profile(), measurements=(measured,))


def _several() -> Profile:
    """Several measurements, two of them of operations, and the plans of Core ML and of the rules."""
    ops = len(small_profile().ops)
    ranges = Fp16Ranges(
        largest=(1.5,) * ops, overflows=(0,) * ops, infinities=(None,) * ops, nans=(None,) * ops
    )
    rounded = msgspec.structs.replace(small_measurement(), threads=4, fp16=ranges, findings=())
    measurements = (
        small_measurement(),
        rounded,
        timed_by("Core ML on Apple M2", 0.0003, compute_units="cpu_and_ne"),
        timed_by("Core ML on Apple M2", 0.0021, compute_units="cpu_only"),
    )
    profile = msgspec.structs.replace(small_profile(), measurements=measurements)
    return with_plans(profile, (_by_core_ml(), device_plan()))


def _by_core_ml() -> Plan:
    """The plan of Core ML itself under one setting: the linear layer is on the Neural Engine as well."""
    plan = device_plan()
    weights = (0.0, 0.5, 0.0, 0.25, 0.125, 0.125, 0.0)
    ops = []
    for op, weight in zip(plan.ops, weights, strict=True):
        choice = msgspec.structs.replace(op.choices["all"], weight=weight)
        if op.type == "linear":
            choice = Choice(backend="ane", unit="neural_engine", planned_ms=0.125, weight=weight)
            op = msgspec.structs.replace(op, cost_ms={**op.cost_ms, "ane": 0.125})
        ops.append(msgspec.structs.replace(op, choices={"all": choice}))
    return msgspec.structs.replace(
        plan,
        planner="Core ML",
        cost_model="this Mac",
        settings=plan.settings[:1],
        ops=PlannedOps(ops),
    )


def _no_measurement() -> Profile:
    """Plans and estimates, as `estimate` makes them."""
    return msgspec.structs.replace(planned_profile(), measurements=())


def _empty() -> Profile:
    return Profile(model=ModelSummary(path=""))


def three_measurements_beside_two_plans() -> Profile:
    """This host, Core ML under two settings; plans and estimates for two devices."""
    base = planned_profile()
    return msgspec.structs.replace(
        base,
        measurements=(
            small_measurement(),
            timed_by("Core ML on M2", 0.002, compute_units="all"),
            timed_by("Core ML on M2", 0.008, compute_units="cpu_only"),
        ),
        plans=(device_plan("M1"), device_plan("M2", slow=3)),
        estimates=(*device_estimates("M1"), *device_estimates("M2", slow=3)),
    )


def small_recording() -> Recording:
    """A recording of two predictions: intervals of the Neural Engine and the GPU, samples of stacks."""
    times = summarize((0.001, 0.003))
    busy = UnitActivity(
        unit="neural_engine",
        table="ane-hw-intervals",
        scope="device",
        intervals=2,
        busy_s=0.004,
        first_s=0.5,
        last_s=1.5,
        durations=times,
        labels=(ActivityPart("Neural Engine Prediction", 2, 0.004),),
        per_prediction=times,
        intervals_per_prediction=1.0,
    )
    parts = (ActivityPart("python3 (4711)", 1, 0.001),)
    gpu = UnitActivity(
        unit="gpu",
        table="metal-gpu-intervals",
        scope="processes",
        intervals=1,
        busy_s=0.001,
        processes=parts,
    )
    return Recording(
        tool="Instruments 27.0",
        template="Core ML",
        target="python3 (4711)",
        duration_s=15.0,
        predictions=2,
        are_delimited=True,
        tables={"ane-hw-intervals": 2, "mps-hw-intervals": None, "coreml-os-signpost": 0},
        units=(busy, gpu),
        samples=(UnitSamples("neural_engine", 3, (FrameSamples("ane_run", "worker", 3),)),),
        total_samples=12,
    )


def _finding() -> Finding:
    saving = Saving(
        device="M1",
        os="macOS 26",
        compute_units="all",
        planned_ms=1.0,
        saved_ms=0.2,
        saved_s=Figure(1e-4, 5e-5, 2e-4, "estimated"),
    )
    return Finding(
        id="redundant-transposes",
        severity="info",
        text="2 transposes follow each other.",
        hint="remove them",
        ops=(small_profile().ops.id[-1],),
        confidence="documented",
        source="apple/coremltools",
        savings=(saving,),
        saved_bytes=1024,
        transform="tidy",
    )


def _every_setting() -> Settings:
    """Settings that differ from the defaults."""
    return Settings(
        compute_units="cpu_only",
        function="main",
        warmups=3,
        seed=7,
        shapes={"image": (1, 3, 32, 32)},
        inputs=("image",),
        random_weights=True,
        precision="fp16",
    )


def _every_field() -> Profile:
    """A measurement of a pipeline in half precision, with every field that may be absent."""
    measured = msgspec.structs.replace(
        small_measurement(),
        settings=_every_setting(),
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
        predict=Phase.of((0.0011,) * 4, (0.002,), (0.001,) * 4),
        peak_memory_bytes=2**33,
        recording=small_recording(),
        energy=Energy(
            tool="powermetrics",
            window_s=4.0,
            samples=2,
            units=(UnitEnergy("neural_engine", 1.5, 6.0), UnitEnergy("memory", 0.1)),
            predictions=100,
            thermal=("Nominal", "Moderate"),
        ),
        before=Conditions("normal", "AC Power", "nominal"),
        after=Conditions("normal", "Battery Power", "moderate"),
    )
    model = msgspec.structs.replace(small_summary(), stages=(_stage(),), facts=(("trees", "3"),))
    profile = small_profile()
    ops = msgspec.structs.replace(profile.ops, details=_small_details())
    return msgspec.structs.replace(
        profile,
        model=model,
        ops=ops,
        measurements=(measured,),
        findings=(_finding(),),
        answers=(_answer(),),
    )


def _answer() -> Answer:
    faster = Figure(0.0008, 0.0006, 0.0009, "estimated")
    return Answer(
        model="small.mlpackage",
        device="M4",
        chip="m4",
        os="macOS 27",
        compute_units="all",
        is_asked=True,
        headline="about 1.00 ms a prediction on M4, all on the Neural Engine",
        latency=Figure(0.001, 0.0009, 0.0013, "estimated"),
        units={"neural_engine": 1.0},
        best=SettingChoice(compute_units="cpu_and_ne", latency=faster, certainty="unclear"),
        time=(
            TimePart(part="4 × conv", share=0.5, kernels=(0, 1)),
            TimePart(part="rest", share=0.5, kernels=()),
        ),
        why=(HeldTime(text="it costs more", unit="neural_engine", rule="plan-cost", ops=1, share=0.5),),
        changes=(
            Proposal(
                id="int8", text="store weights in 8 bits", certainty="unclear", before_s=0.001, after=faster
            ),
        ),
        is_hazardous=True,
        hazards=(
            Hazard(
                id="ne-nan",
                kind="wrong values",
                phase="predict",
                text="NaN does not survive",
                fix="pass a mask",
                source="a report",
                confidence="measured",
                units=("neural_engine",),
            ),
        ),
        tokens=TokenSpeed(decode=Figure(40.0, 30.0, 50.0, "estimated"), context=512),
        trust=AnswerTrust(
            certainty="unclear",
            doubts=("too close to call",),
            published=(
                PublishedFigure(
                    network="small",
                    seconds=0.001,
                    unit="gpu",
                    publication="a report",
                    is_believed=False,
                    is_within=True,
                ),
            ),
        ),
    )


def _divided() -> Profile:
    """A model of ONNX, of which one operator stays with another provider, and the log of its session."""
    device, system, latency = "M4", "macOS 27", Figure(0.001, 0.0009, 0.0013, "estimated")
    line = "number of partitions supported by CoreML: 1 number of nodes in the graph: 3"
    whole = Round(partitions=1, nodes=3, supported=2, line=line)
    report = ProviderReport(
        format="mlprogram",
        release="1.32",
        is_default=False,
        basis="as it stands",
        partitions=1,
        models=1,
        nodes=3,
        supported=2,
        rounds=(whole,),
        left=(LeftNode(name="count", op="NonZero", rule="operator", reason="no builder"),),
        fixes=(ProviderFix(fix="", count=1, models=1, supported=3),),
        estimates=(
            ProviderEstimate(
                device=device,
                os=system,
                compute_units="all",
                latency=latency,
                inside=latency,
                boundaries=latency,
                outside=latency,
                placement={"gpu": 1.0},
            ),
        ),
    )
    verdict = ProviderVerdict(device=device, os=system, outcome="close", format="mlprogram", ratio=1.2)
    refused = LoggedNode(op="NonZero", name="count", is_taken=False)
    agreement = ProviderAgreement(
        format="mlprogram",
        release="1.32",
        models=1,
        rounds=(whole,),
        rules=(RuleAgreement(op="NonZero", rule="operator", agreed=0, differing=(refused,)),),
    )
    log = ProviderLog(file="session.log", rounds=(whole,), nodes=(refused,), agreement=agreement)
    return msgspec.structs.replace(
        _estimates_only(), providers=(report,), provider_verdicts=(verdict,), provider_logs=(log,)
    )


def _stage() -> StageSummary:
    return StageSummary(
        name="model0",
        kind="mlProgram",
        inputs=(("image", "image RGB 32×32"),),
        outputs=(("probabilities", "float16 1×10"),),
        facts=(("layers", "3"),),
        operations=6,
        parameters=1000,
        weights_bytes=2000,
    )


def _small_details() -> OpDetails:
    """The arguments of the six operations of the sample."""
    return OpDetails(
        signatures=(
            Signature(parameters=("x",), attributes=(("y", "2"),)),
            Signature(parameters=("x",), attributes=(("dtype", '"fp16"'),)),
            Signature(parameters=("bias", "weight", "x"), attributes=(("strides", "[2, 2]"),)),
            Signature(parameters=("weight", "x")),
        ),
        signature=(0, 1, 2, 0, 3, -1),
        arguments=(("image",), (0,), (-2, -1, 1), (2,), (-3, 3), ()),
        weights=WeightTable(
            kinds=(
                WeightKind(type="tensor<fp16, [16, 3, 3, 3]>", storage="fp16"),
                WeightKind(type="tensor<fp16, [16]>", storage="fp16"),
                WeightKind(type="tensor<fp16, [10, 1280]>", storage="LUT 4-bit"),
            ),
            name=("stem_weight", "stem_bias", "classifier_weight"),
            kind=(0, 1, 2),
            stored_bytes=(864, 32, 6432),
            looked_at=(432, 16, 6400),
            least=(-0.5, 0.25, -1.5),
            greatest=(0.75, 0.25, 1.0),
            histogram=((), (), (1, 0, 9, 40, 90, 160, 200, 180, 120, 90, 60, 30, 15, 4, 1, 1)),
        ),
    )


def _two_plans() -> Profile:
    """A plan that the evidence does not tell from another one."""
    profile = small_plan()
    plan = profile.plans[0]
    first, *rest = plan.settings
    other = OtherPlan(
        units={"gpu": 4},
        moved=3,
        latency=Figure(0.004, 0.003, 0.005, "estimated"),
        planned=Figure(0.002, 0.001, 0.003, "planned"),
    )
    settings = (msgspec.structs.replace(first, other_plan=other), *rest)
    return msgspec.structs.replace(profile, plans=(msgspec.structs.replace(plan, settings=settings),))


#: By what they hold.
PROFILES: Mapping[str, Callable[[], Profile]] = {
    "everything": planned_profile,
    "measurement": small_profile,
    "tokens": _decoder,
    "one phase": _one_phase,
    "no phase": _no_phase,
    "partial measurement": _partial,
    "several measurements": _several,
    "plan": small_plan,
    "plan under every setting": lambda: small_plan(every=True),
    "too close to call": _two_plans,
    "estimates": _estimates_only,
    "brief estimates": _brief_estimates,
    "operations": _ops_only,
    "failure": _failed,
    "plan and estimates": _no_measurement,
    "three measurements and two plans": three_measurements_beside_two_plans,
    "every field": _every_field,
    "onnx": _divided,
    "empty": _empty,
}
