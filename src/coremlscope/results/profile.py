"""The result of profiling: a model with measurements, plans and estimates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import msgspec

from coremlscope.base.errors import INTERRUPTED_EXIT, UsageError
from coremlscope.base.findings import Finding
from coremlscope.results.agreement import Agreement
from coremlscope.results.answer import Answer
from coremlscope.results.encoding import COMPARISON, PROFILE, PROFILES, decode, plain, read_json, write_json
from coremlscope.results.estimate import Estimate, Kernel
from coremlscope.results.generation import TokenRate, TokenTiming
from coremlscope.results.measurement import Machine, Measurement
from coremlscope.results.model import ModelSummary
from coremlscope.results.operations import OpTable
from coremlscope.results.plan import Plan, PlanView
from coremlscope.results.presentation import Presented
from coremlscope.results.provider import ProviderLog, ProviderReport, ProviderVerdict


class Provenance(msgspec.Struct, frozen=True):
    """When, where and by which version a profile was made.

    Attributes:
        at: UTC, ISO 8601: `2026-01-31T12:00:00Z`; empty in profiles of versions that did not record it.
        version: The version of coremlscope.
        machine: The machine that coremlscope ran on; None where it was not recorded.
    """

    at: str = ""
    version: str = ""
    machine: Machine | None = None


class Profile(Presented, msgspec.Struct, frozen=True, kw_only=True):
    """A model with its measurements, plans and estimates, each of which may be empty.

    Attributes:
        model: The description of the model.
        ops: The operations to which measurements, plans and estimates refer.
        made: When, where and by which version this profile was made.
        measurements: Measured times.
        plans: The placement of every operation on devices.
        kernels: Operations that devices are assumed to run as one, in order of execution; estimates refer to
            them.
        estimates: Estimated times of a prediction, by device and setting; the requested setting of a device
            is first.
        rates: For a language model, estimated tokens per second by device, setting and phase.
        token_timings: For a language model, measured tokens per second by setting, phase and context.
        agreements: How far the plans by rules agree with those by Core ML, where both are present.
        findings: Remarks that do not belong to a measurement.
        answers: What a user wants to know first of each device and setting, the asked ones of a device first.
        providers: For an ONNX model, how ONNX Runtime's Core ML provider divides it, by format.
        provider_verdicts: Whether that is faster than ONNX Runtime's CPU provider, by device.
        provider_logs: What ONNX Runtime wrote of its own sessions of the model.
    """

    model: ModelSummary
    ops: OpTable = msgspec.field(default_factory=OpTable)
    made: Provenance = msgspec.field(default_factory=Provenance)
    measurements: tuple[Measurement, ...] = ()
    plans: tuple[Plan, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    estimates: tuple[Estimate, ...] = ()
    rates: tuple[TokenRate, ...] = ()
    token_timings: tuple[TokenTiming, ...] = ()
    agreements: tuple[Agreement, ...] = ()
    findings: tuple[Finding, ...] = ()
    answers: tuple[Answer, ...] = ()
    providers: tuple[ProviderReport, ...] = ()
    provider_verdicts: tuple[ProviderVerdict, ...] = ()
    provider_logs: tuple[ProviderLog, ...] = ()

    def __post_init__(self) -> None:
        rows = len(self.ops)
        _check_rows("inputs", (row for inputs in self.ops.inputs for row in inputs or ()), rows)
        for measured in self.measurements:
            _check_measurement(measured, rows)
        for plan in self.plans:
            plan.ops.over(self.ops)
            _check_plan(plan)
        _check_rows("kernels", (row for kernel in self.kernels for row in kernel.ops), rows)
        for found in self.estimates:
            _check_rows("kernels", (row for kernel in found.kernels for row in kernel.ops), rows)
            _check_estimate(found, len(self.kernels_of(found)))
        of_plans = (index for found in self.agreements for index in (found.theirs, found.ours))
        _check_rows("agreements", of_plans, len(self.plans))

    def kernels_of(self, estimate: Estimate) -> tuple[Kernel, ...]:
        """Returns the kernels that the columns of an estimate are of."""
        return estimate.kernels or self.kernels

    def __repr__(self) -> str:
        """Counts the parts: as fields they would fill pages at an interactive prompt."""
        parts = ("ops", "measurements", "plans", "estimates", "findings")
        counts = ", ".join(f"{part}: {len(getattr(self, part))}" for part in parts)
        return f"<Profile of {self.model.path!r}, {counts}>"

    @property
    def measurement(self) -> Measurement:
        """The first measurement.

        Raises:
            LookupError: Nothing was measured.
        """
        if not self.measurements:
            raise LookupError("this profile does not contain a measurement")
        return self.measurements[0]

    @property
    def all_findings(self) -> tuple[Finding, ...]:
        """The remarks on the profile and on its measurements, warnings first."""
        found = [*self.findings, *(f for m in self.measurements for f in m.findings)]
        return tuple(dict.fromkeys(found))

    def estimate(self, device: str, compute_units: str = "") -> Estimate | None:
        """Returns the estimate for a device or chip id and a setting (default: the first); None if absent."""
        return next(
            (
                e
                for e in self.estimates
                if device in (e.device, e.chip) and compute_units in ("", e.compute_units)
            ),
            None,
        )

    def headline_estimates(self) -> Iterator[Estimate]:
        """Yields for each device the estimate under the requested setting."""
        seen: set[tuple[str, str]] = set()
        for e in self.estimates:
            if (e.device, e.os) not in seen:
                seen.add((e.device, e.os))
                yield e

    def view_of(self, estimate: Estimate) -> PlanView | None:
        """Returns the plan by rules that an estimate follows from; None if the profile does not have it."""
        for plan in self.plans:
            if plan.planner == "rules" and (plan.device, plan.os) == (estimate.device, estimate.os):
                for setting in plan.settings:
                    if setting.compute_units == estimate.compute_units:
                        return plan.view(setting)
        return None

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the profile as JSON; `Profile.load` reads it.

        Raises:
            OutputError: The file cannot be written.
        """
        write_json(path, self.to_json())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Profile:
        """Reads a saved profile.

        Raises:
            UsageError: The file cannot be read, is not a profile, is damaged, or contains several profiles.
        """
        profiles = read_profiles(path)
        if len(profiles) != 1:
            raise UsageError(
                f"{path} contains {len(profiles)} profiles instead of one",
                "use `coremlscope.results.profile.read_profiles` to read all of them",
            )
        return profiles[0]

    def to_json(self) -> dict[str, Any]:
        """Converts the profile to plain JSON values, with the schema's name."""
        return {"schema": PROFILE, **plain(self)}

    @classmethod
    def from_json(cls, data: object) -> Profile:
        """Reads the result of `to_json`.

        Raises:
            UsageError: The data are not a profile, have another schema, or are damaged.
        """
        schema = data.get("schema") if isinstance(data, Mapping) else None
        if not isinstance(data, Mapping) or not str(schema).startswith("coremlscope.profile/"):
            hint = "write one with `coremlscope profile MODEL -o profile.json`"
            raise UsageError("this JSON is not a profile written by coremlscope", hint)
        if schema != PROFILE:
            raise UsageError(
                f"this profile has the schema {schema}, but this version of coremlscope reads {PROFILE}",
                "profile the model again, or use the version of coremlscope that wrote it",
            )
        return decode(data, cls)


def to_json(result: Profile | ModelSummary | Sequence[Profile]) -> dict[str, Any]:
    """Converts a result to plain JSON values, with the schema's name."""
    if isinstance(result, (Profile, ModelSummary)):
        return result.to_json()
    return {"schema": PROFILES, "profiles": [profile.to_json() for profile in result]}


def profiles_from_json(data: object) -> tuple[Profile, ...]:
    """Converts plain JSON values to profiles: one, or the list that `compare` or `estimate` writes.

    Raises:
        UsageError: The data are neither, have an unknown version, or are damaged.
    """
    if isinstance(data, Mapping) and data.get("schema") in (PROFILES, COMPARISON):
        listed = data.get("profiles")
        if not isinstance(listed, Sequence):
            raise UsageError("this list of profiles is damaged", "profile the models again")
        return tuple(map(Profile.from_json, listed))
    return (Profile.from_json(data),)


def read_profiles(path: str | PathLike[str]) -> tuple[Profile, ...]:
    """Reads the profiles of a file: one, or the list that `compare` or `estimate` writes.

    Raises:
        UsageError: The file cannot be read, is not valid JSON, or does not contain profiles.
    """
    data = read_json(path)
    try:
        return profiles_from_json(data)
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", error.hint) from error


def write_profiles(path: str | PathLike[str], profiles: Sequence[Profile]) -> None:
    """Writes one profile, or a list of several, as JSON.

    Raises:
        OutputError: The file cannot be written.
    """
    write_json(path, to_json(profiles[0] if len(profiles) == 1 else profiles))


def exit_code_of(profiles: Sequence[Profile]) -> int:
    """Returns the exit code of profiles that were made: 130 after Ctrl-C, or that of the first failure."""
    codes = [
        finding.exit_code for profile in profiles for finding in profile.all_findings if finding.exit_code
    ]
    return INTERRUPTED_EXIT if INTERRUPTED_EXIT in codes else next(iter(codes), 0)


def _check_measurement(measured: Measurement, rows: int) -> None:
    columns: dict[str, Sequence[object]] = {"status": measured.status, "group": measured.group}
    ranges = measured.fp16
    if ranges is not None:
        columns |= {
            "largest": ranges.largest,
            "overflows": ranges.overflows,
            "infinities": ranges.infinities,
            "nans": ranges.nans,
        }
    for name, column in columns.items():
        if len(column) not in (0, rows):
            raise ValueError(f"column {name} of a measurement does not have {rows} rows")
    _check_rows("groups", (row for group in measured.groups for row in group.ops), rows)
    _check_rows("group", measured.group, len(measured.groups), least=-1)


def _check_plan(plan: Plan) -> None:
    where = f"the plan for {plan.device}"
    settings = {setting.compute_units for setting in plan.settings}
    if not settings or any(not settings <= op.choices.keys() for op in plan.ops):
        raise ValueError(f"{where} lacks settings, or the choices of one")
    if any(op.cost_ms.keys() - plan.backends.keys() for op in plan.ops):
        raise ValueError(f"{where} has costs of a backend that it does not name")
    held = (place for setting in plan.settings for one in setting.what_ifs for place in one.ops)
    _check_rows(f"what-ifs of {where}", held, len(plan.ops))


def _check_estimate(found: Estimate, kernels: int) -> None:
    lengths = {len(column) for column in (found.kernel_s, found.kernel_unit, found.kernel_bound)}
    if lengths not in ({0}, {kernels}):
        raise ValueError(f"the estimate for {found.device} does not match the kernels")
    _check_rows(f"units of the estimate for {found.device}", found.kernel_unit, len(found.units))


def _check_rows(what: str, indices: Iterable[int], count: int, least: int = 0) -> None:
    if any(not least <= index < count for index in indices):
        raise ValueError(f"{what} contain an index that is out of range")
