"""Schema of `results.json`, which the runner writes (`sources/Results.swift`)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from coremlscope.base.errors import UsageError
from coremlscope.base.folders import split_archive

SCHEMA = "coremlscope.runner/1"
_MOST_SETTINGS = 10_000

#: Seconds; the upper bound, about 30 years, refuses what no clock measured.
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Count = Annotated[int, msgspec.Meta(ge=0)]

#: `crashed`: the app ended in this step, and was started again.
StepStatus = Literal["running", "done", "failed", "crashed"]


class DeviceIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The device that ran the models, and its system. Nothing identifies its owner.

    Attributes:
        identifier: Apple's identifier of the model: `iPhone16,1`, `Mac14,2`.
        processor: The name of the processor; empty where the system does not say it, as on iPhones.
        system: `iOS`, `iPadOS` or `macOS`.
        system_version: `18.2`.
        build: The build of the system: `22C152`.
        is_simulator: Whether it was a simulator, whose times say nothing about a device.
        is_virtual: Whether it was a virtual machine, likewise.
        cores: Logical cores.
        memory_bytes: The memory of the device.
        compute_devices: The compute units that Core ML can use.
        neural_engine_cores: Cores of the Neural Engine; None without one.
    """

    identifier: str
    system: str
    system_version: str
    processor: str = ""
    build: str = ""
    is_simulator: bool = False
    is_virtual: bool = False
    cores: Count = 0
    memory_bytes: Count = 0
    compute_devices: tuple[str, ...] = ()
    neural_engine_cores: Count | None = None


class StepFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A failure in one step.

    Attributes:
        step: `compile`, `load`, `predict`, `async`, `throughput`, `backings`, `plan` or `power mode`.
        text: The description of the error and of those that caused it.
        domain: The domain of Apple's error: `com.apple.CoreML`.
        code: Its code.
    """

    step: str
    text: str
    domain: str = ""
    code: int = 0


class Compilation(msgspec.Struct, frozen=True, kw_only=True):
    """The compilations of one model on the device.

    Attributes:
        model: The model.
        status: Whether it succeeded.
        samples_s: Seconds of each compilation by `MLModel.compileModel`.
        failure: Why it failed.
    """

    model: str
    status: StepStatus
    samples_s: tuple[Seconds, ...] = ()
    failure: StepFailure | None = None


class DeviceState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the device at one moment.

    Attributes:
        thermal_state: `nominal`, `fair`, `serious` or `critical`.
        is_low_power: Whether Low Power Mode was on.
        footprint_bytes: The memory of the app that counts against its limit (`phys_footprint`).
        available_bytes: The memory that the app could still take; only on iPhones and iPads.
        battery_level: 0 to 1; only on iPhones and iPads.
        is_charging: Whether power was connected; only there.
    """

    thermal_state: str
    is_low_power: bool
    footprint_bytes: Count | None = None
    available_bytes: Count | None = None
    battery_level: float | None = None
    is_charging: bool | None = None


class PreparedInput(msgspec.Struct, frozen=True, kw_only=True):
    """An input and the form of the synthetic value that it was given.

    Attributes:
        name: Its name.
        kind: `array`, `image`, `int64`, `double`, `string`, `dictionary` or `sequence`.
        type: The type of its elements, or the pixel format of an image.
        shape: The shape of an array; height and width of an image; the number of entries otherwise.
    """

    name: str
    kind: str
    type: str = ""
    shape: tuple[Count, ...] = ()


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """Predictions of which several were in flight at the same time.

    Attributes:
        in_flight: How many.
        predictions: All of them.
        wall_s: Seconds from the start of the first to the end of the last.
    """

    in_flight: Count
    predictions: Count
    wall_s: Seconds


class BackedPredictions(msgspec.Struct, frozen=True, kw_only=True):
    """Predictions into buffers that the app provided (`MLPredictionOptions.outputBackings`).

    Attributes:
        samples_s: Seconds of each prediction.
        used: Outputs that Core ML wrote into the app's buffers.
        ignored: Outputs for which it used buffers of its own.
    """

    samples_s: tuple[Seconds, ...] = ()
    used: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


class PlannedOperation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation of a program or a layer of a neural network, as `MLComputePlan` has it.

    Attributes:
        function: The function; in a pipeline with the name of the stage in front.
        type: Apple's name of the operation, with the opset.
        outputs: Names of its results.
        place: Its number in its block; in a nested block after those of the operation and the block around.
        layer: The name of a layer of a neural network.
        preferred: The unit that Core ML prefers; None where it does not say.
        supported: The units that it lists as possible.
        cost: The share in the estimated cost, 0 to 1; None where Core ML has none.
    """

    function: str
    type: str
    outputs: tuple[str, ...] = ()
    place: tuple[Count, ...] = ()
    layer: str | None = None
    preferred: str | None = None
    supported: tuple[str, ...] = ()
    cost: Annotated[float, msgspec.Meta(ge=0, le=1e6)] | None = None


class SettingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One function of a model under one setting of compute units in one power mode.

    Attributes:
        model: The name of the model.
        function: The function; empty for the default one.
        compute_units: `all`, `cpu_and_ne`, `cpu_and_gpu` or `cpu_only`.
        power_mode: `normal` or `low power`.
        status: `done` where loads and predictions succeeded.
        step: The step that ran last.
        failures: All failures; those of `async`, `throughput`, `backings` and `plan` concern these alone.
        before: The state of the device as it began.
        after: The state as it ended; None after a crash.
        inputs: The inputs.
        is_stateful: Whether the model has states; all predictions shared one state then.
        first_load_s: Seconds of the first load after the compilation, in which Core ML may compile for the
            device; what it finds in its caches then is not known.
        load_s: Seconds of each later load.
        warmup_s: Seconds of the first predictions, which are dropped.
        predict_s: Seconds of each prediction, one after the other.
        async_s: Seconds of each prediction by the asynchronous call, one after the other.
        throughput: Predictions of which several were in flight.
        backings: Predictions into buffers of the app.
        largest_footprint_bytes: The largest memory of the app that was seen between steps and predictions.
        plan: Core ML's plan; None where there is none.
        in_background: By step, the places of samples during which the app was in the background, where the
            system restricts the Neural Engine and the GPU.
        measured_at: When it ended, UTC, ISO 8601.
    """

    model: str
    compute_units: str
    power_mode: str
    status: StepStatus
    function: str = ""
    step: str = ""
    failures: tuple[StepFailure, ...] = ()
    before: DeviceState | None = None
    after: DeviceState | None = None
    inputs: tuple[PreparedInput, ...] = ()
    is_stateful: bool = False
    first_load_s: Seconds | None = None
    load_s: tuple[Seconds, ...] = ()
    warmup_s: tuple[Seconds, ...] = ()
    predict_s: tuple[Seconds, ...] = ()
    async_s: tuple[Seconds, ...] = ()
    throughput: Throughput | None = None
    backings: BackedPredictions | None = None
    largest_footprint_bytes: Count | None = None
    plan: tuple[PlannedOperation, ...] | None = None
    in_background: dict[str, tuple[Count, ...]] = msgspec.field(default_factory=dict)
    measured_at: str = ""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one run of the runner measured.

    Attributes:
        schema: `coremlscope.runner/1`.
        id: The id of the request that the runner carried out.
        version: The version of coremlscope that wrote the request.
        device: The device.
        launches: How often the app was started; each start after the first follows a crash or a stop.
        started_at: When the first start was, UTC, ISO 8601.
        ended_at: When the last setting ended; empty where the run is not complete.
        complete: Whether every setting was attempted.
        compilations: The compilations, one entry for each model that was compiled on the device.
        results: One entry for each model, function, setting and power mode.
    """

    schema: Literal["coremlscope.runner/1"]
    id: str
    device: DeviceIdentity
    version: str = ""
    launches: Count = 1
    started_at: str = ""
    ended_at: str = ""
    complete: bool = False
    compilations: tuple[Compilation, ...] = ()
    results: Annotated[tuple[SettingRecord, ...], msgspec.Meta(max_length=_MOST_SETTINGS)] = ()

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models, in the order of the record."""
        found = [*(c.model for c in self.compilations), *(r.model for r in self.results)]
        return tuple(dict.fromkeys(found))


def model_name(source: Path | None) -> str:
    """Returns the name of a model in results: that of its file, of `a.zip#b.mlmodel` `b`; no suffixes."""
    archive, inside = split_archive("" if source is None else source.name)
    name = inside or archive
    for suffix in (".zip", ".mlpackage", ".mlmodelc", ".mlmodel"):
        name = name.removesuffix(suffix)
    return name or "model"


def read_record(data: Any, name: str) -> Record:
    """Converts plain JSON values to a record.

    Args:
        data: The values.
        name: The name of the file, for messages.

    Raises:
        UsageError: A value is missing, has the wrong type, or is out of range.
    """
    try:
        return msgspec.convert(data, Record)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UsageError(
            f"the results of the runner in {name} are damaged: {error}", "copy the file from the device again"
        ) from error
