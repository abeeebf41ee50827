"""Imports `results.json` of the runner, the app that `coremlscope runner` writes (`runner.record`).

It measures several models under several settings, in one or two power modes. Each setting becomes a
measurement of its own, and results of different power modes are never put together.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

import msgspec.structs

from coremlscope.base.errors import EngineError, UsageError
from coremlscope.base.findings import Finding
from coremlscope.base.units import format_bytes, format_duration
from coremlscope.devices import product_name
from coremlscope.devices.unit import SETTINGS, UNITS, ComputeUnit, ComputeUnits
from coremlscope.interop.listing import Imported, ListedOp, ListingOrigin, plan_of, table_of
from coremlscope.interop.origin import named_origin
from coremlscope.interop.phases import imported_finding
from coremlscope.interop.source import MOST_OPS, SourceFile, text
from coremlscope.interop.units import judged, setting_of, unit_of
from coremlscope.results.measurement import (
    Conditions,
    Machine,
    Measurement,
    Phase,
    Runtime,
    Settings,
    condition_findings,
)
from coremlscope.results.plan import Plan, PlannedOp, PlannedOps, Support
from coremlscope.results.runner_record import (
    SCHEMA,
    Compilation,
    DeviceIdentity,
    DeviceState,
    PlannedOperation,
    Record,
    SettingRecord,
    StepFailure,
    read_record,
)

_RUN_AGAIN = "run it again, or leave this setting out"
#: Steps without which there is no measurement.
_NEEDED_STEPS = ("compile", "load", "predict", "power mode")


def matches(source: SourceFile) -> bool:
    """By the schema."""
    return "schema" in source.keys and str(source.json["schema"]).startswith("coremlscope.runner/")


def read(source: SourceFile, origin: ListingOrigin) -> tuple[Imported, ...]:
    """Reads the results, one model after the other.

    Raises:
        UsageError: They are damaged, of another version, or hold nothing.
    """
    schema = text(source.json, "schema")
    if schema != SCHEMA:
        raise UsageError(f"{source.path} has the schema {schema}, and {SCHEMA} is read", "update coremlscope")
    record = read_record(source.json, str(source.path))
    if not record.results:
        raise UsageError(f"{source.path} holds no results", "let the runner finish at least one setting")
    count = sum(len(result.plan or ()) for result in record.results)
    if count > MOST_OPS:
        raise UsageError(
            f"{source.path} lists {count} operations, and at most {MOST_OPS} are read", _RUN_AGAIN
        )
    origin = _origin(origin, record.device)
    return tuple(
        imported
        for model in record.models
        for imported in _model(record, model, origin)
        if imported.measurements or imported.plans or imported.findings
    )


def _origin(origin: ListingOrigin, device: DeviceIdentity) -> ListingOrigin:
    """The device as Apple markets it, where its identifier is known; else its processor or identifier."""
    known = product_name(device.identifier)
    name = known or device.processor.removeprefix("Apple ") or device.identifier
    system = f"{device.system} {device.system_version}"
    unknown = ListingOrigin(file=origin.file)
    named = named_origin(origin, name if origin.device == unknown.device else None, system)
    return named if origin.os == unknown.os else msgspec.structs.replace(named, os=origin.os)


def _model(record: Record, model: str, origin: ListingOrigin) -> Iterator[Imported]:
    """Returns the record of one model; operations that differ between settings are separate rows."""
    results = [result for result in record.results if result.model == model]
    compiled = next((c for c in record.compilations if c.model == model), None)
    measured = [_measurement(result, compiled, record, origin) for result in results if _is_measured(result)]
    findings = tuple(_findings(results, record))
    plans: list[tuple[Sequence[ListedOp], tuple[Plan, ...]]] = [*_plans(results, origin)] or [((), ())]
    for number, (ops, of_ops) in enumerate(plans):
        yield Imported(
            origin=origin,
            model=model,
            ops=table_of(ops),
            measurements=() if number else tuple(measured),
            plans=of_ops,
            findings=() if number else findings,
        )


def _is_measured(result: SettingRecord) -> bool:
    """Whether loads and predictions were all timed, in one power mode; later steps may have failed."""
    if result.status == "done":
        return bool(result.predict_s) and not _mode_changed(result)
    return result.status == "crashed" and bool(result.predict_s) and result.step not in _NEEDED_STEPS


def _mode_changed(result: SettingRecord) -> bool:
    before, after = result.before, result.after
    return before is not None and after is not None and before.is_low_power != after.is_low_power


def _measurement(
    result: SettingRecord, compiled: Compilation | None, record: Record, origin: ListingOrigin
) -> Measurement:
    before, after = _conditions(result.before), _conditions(result.after)
    compile_s = compiled.samples_s if compiled is not None else ()
    device = record.device
    return Measurement(
        label=origin.label,
        runtime=Runtime("coreml", "Core ML"),
        machine=Machine(
            processor=origin.device,
            cores=device.cores or None,
            os=f"{origin.os} ({device.build})" if device.build else origin.os,
            power_mode=result.power_mode,
        ),
        settings=Settings(
            compute_units=_setting(result.compute_units),
            function=result.function,
            iterations=len(result.predict_s),
            compile_iterations=len(compile_s),
            load_iterations=len(result.load_s),
            warmups=len(result.warmup_s),
            shapes={one.name: one.shape for one in result.inputs if one.kind in ("array", "image")},
        ),
        compute_units=_setting(result.compute_units),
        compile=Phase.of(compile_s) if compile_s else None,
        first_load=None if result.first_load_s is None else Phase.of([result.first_load_s]),
        load=Phase.of(result.load_s) if result.load_s else None,
        predict=Phase.of(result.predict_s, result.warmup_s),
        peak_memory_bytes=result.largest_footprint_bytes,
        before=before,
        after=after,
        findings=(
            imported_finding(origin),
            *_measured_findings(result, device),
            *condition_findings(before, after),
        ),
        measured_at=result.measured_at,
    )


def _conditions(state: DeviceState | None) -> Conditions | None:
    if state is None:
        return None
    source = {True: "AC Power", False: "Battery Power", None: ""}[state.is_charging]
    mode = "low power" if state.is_low_power else "normal"
    return Conditions(power_mode=mode, power_source=source, thermal_state=state.thermal_state)


def _setting(name: str) -> ComputeUnits:
    """The setting of compute units.

    Raises:
        UsageError: It is unknown.
    """
    found = setting_of(name)
    if found is None:
        raise UsageError(f"invalid compute units {name[:60]!r}", f"use one of {', '.join(SETTINGS)}")
    return found


def _measured_findings(result: SettingRecord, device: DeviceIdentity) -> Iterator[Finding]:
    if device.is_simulator or device.is_virtual:
        what = "a simulator" if device.is_simulator else "a virtual machine"
        text = f"{device.identifier} was {what}; its times do not compare with those of a device."
        yield Finding(id="virtual-machine", severity="warning", text=text)
    if result.in_background:
        counts = ", ".join(f"{len(places)} of {step}" for step, places in result.in_background.items())
        text = (
            f"Samples were taken while the app was in the background, where the system restricts the Neural"
            f" Engine and the GPU: {counts}."
        )
        hint = "leave the app in front, and run it again"
        yield Finding(id="taken-in-background", severity="warning", text=text, hint=hint)
    other = []
    if result.async_s:
        other.append(f"asynchronous predictions take {format_duration(statistics.median(result.async_s))}")
    through = result.throughput
    if through is not None and through.wall_s > 0:
        rate = through.predictions / through.wall_s
        other.append(f"{through.in_flight} in flight reach {rate:,.1f} predictions per second")
    backed = result.backings
    if backed is not None and backed.samples_s:
        median = format_duration(statistics.median(backed.samples_s))
        ignored = f", ignored for {', '.join(backed.ignored)}" if backed.ignored else ""
        other.append(
            f"predictions into the app's own buffers take {median} (used for {len(backed.used)}{ignored})"
        )
    if other:
        text = f"Other ways to predict, as medians: {'; '.join(other)}."
        yield Finding(id="other-predictions", severity="info", text=text)
    if result.largest_footprint_bytes is not None:
        size = format_bytes(result.largest_footprint_bytes)
        text = (
            f"The memory is the largest footprint of the whole app between predictions, {size}; memory of the"
            " system's compiler does not count."
        )
        yield Finding(id="app-memory", severity="info", text=text)


def _findings(results: Sequence[SettingRecord], record: Record) -> Iterator[Finding]:
    for result in results:
        yield from _failures(result)
    if not record.complete:
        text = "The runner ended early: settings are missing."
        hint = "open the app again: it continues where it stopped"
        yield Finding(id="incomplete-run", severity="warning", text=text, hint=hint)
    planned = [result for result in results if result.plan]
    if planned and all(op.preferred is None for result in planned for op in result.plan or ()):
        yield Finding(
            id="core-ml-plan-empty",
            severity="warning",
            text="Core ML gave no place for any operation, as it does for models with an older deployment"
            " target.",
            hint="convert the model with minimum_deployment_target=ct.target.iOS18",
        )


def _failures(result: SettingRecord) -> Iterator[Finding]:
    where = ", ".join(filter(None, (result.compute_units, result.function, result.power_mode)))
    is_measured = _is_measured(result)
    if _mode_changed(result):
        yield _not_measured(where, "the power mode changed while this was timed")
    elif result.status == "running":
        yield _not_measured(where, f"the app was still in the step {result.step!r}")
    for failure in result.failures:
        text = f"{failure.step}: {failure.text}{_code(failure)}"
        if is_measured or failure.step not in _NEEDED_STEPS:
            yield Finding(id="step-failed", severity="warning", text=f"{where}: {text}.")
        else:
            yield _not_measured(where, text)


def _not_measured(where: str, why: str) -> Finding:
    return Finding(
        id="not-measured",
        severity="error",
        text=f"{where} was not measured: {why}.",
        hint=_RUN_AGAIN,
        exit_code=EngineError.exit_code,
    )


def _code(failure: StepFailure) -> str:
    return f" ({failure.domain} {failure.code})" if failure.code else ""


def _plans(
    results: Sequence[SettingRecord], origin: ListingOrigin
) -> Iterator[tuple[Sequence[ListedOp], tuple[Plan, ...]]]:
    """The operations of plans, and the plan of them. Power modes after the first repeat it."""
    found: dict[str, dict[str, tuple[PlannedOperation, ...]]] = {}
    for result in results:
        if result.plan and any(op.preferred is not None for op in result.plan):
            found.setdefault(result.compute_units, {}).setdefault(result.function, result.plan)
    groups: dict[tuple[object, ...], list[tuple[str, list[PlannedOperation]]]] = {}
    for units, functions in found.items():
        ops = [op for plan in functions.values() for op in plan]
        key = tuple((op.function, op.type, op.outputs, op.place, op.layer) for op in ops)
        groups.setdefault(key, []).append((units, ops))
    for group in groups.values():
        listed = {_setting(units): [_listed(op) for op in ops] for units, ops in group}
        yield next(iter(listed.values())), (_plan(listed, origin),)


def _plan(listed: Mapping[ComputeUnits, Sequence[ListedOp]], origin: ListingOrigin) -> Plan:
    """One plan of all settings. What a unit can run is known only where a setting allows that unit."""
    plans = {setting: plan_of(ops, origin, setting) for setting, ops in listed.items()}
    ops = PlannedOps(
        msgspec.structs.replace(
            rows[0],
            supported={unit: _supported(unit, rows) for unit in UNITS},
            choices={setting: choice for row in rows for setting, choice in row.choices.items()},
        )
        for rows in zip(*(plan.ops for plan in plans.values()), strict=True)
    )
    settings = tuple(setting for plan in plans.values() for setting in plan.settings)
    return msgspec.structs.replace(next(iter(plans.values())), ops=ops, settings=settings)


def _supported(unit: ComputeUnit, rows: Sequence[PlannedOp]) -> Support:
    """Whether a unit runs an operation, by what settings say that allow the unit."""
    told = {row.supported[unit] for row in rows for setting in row.choices if unit in SETTINGS[setting]}
    return "yes" if "yes" in told else "no" if "no" in told else "unknown"


def _listed(op: PlannedOperation) -> ListedOp:
    preferred = unit_of(op.preferred)
    return ListedOp(
        function=op.function or "main",
        type=op.type.rpartition(".")[2],
        output_names=tuple(filter(None, op.outputs)),
        name=op.layer or "",
        place=op.place,
        layer=op.layer,
        supported=judged([unit_of(unit) for unit in op.supported], preferred),
        backend=preferred,
        weight=op.cost,
    )
