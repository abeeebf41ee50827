"""Baselines: figures of a saved check or a saved profile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from coremlscope.base.errors import CoremlscopeError, UsageError
from coremlscope.base.units import shown
from coremlscope.base.version import __version__
from coremlscope.devices import NEURAL_ENGINE
from coremlscope.results.encoding import decode, read_json
from coremlscope.results.gate import GATE, GateReport
from coremlscope.results.plan import unit_counts
from coremlscope.results.profile import Profile


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of an earlier model.

    Attributes:
        size_bytes: Bytes of the package or file.
        memory_bytes: Bytes of the estimated peak memory.
        latency_s: Estimated seconds by device, system and setting.
        neural_engine: The planned share of operations on the Neural Engine, likewise.
        note: A remark on how comparable it is; may be empty.
        model: The file name of the earlier model; empty if the file does not tell.
    """

    size_bytes: float | None = None
    memory_bytes: float | None = None
    latency_s: Mapping[str, float] = msgspec.field(default_factory=dict)
    neural_engine: Mapping[str, float] = msgspec.field(default_factory=dict)
    note: str = ""
    model: str = ""

    def remark(self, name: str) -> str:
        """Returns, in brackets, what makes a comparison with the model of a file doubtful; may be empty."""
        if self.model in ("", name):
            return self.note
        return f" (the baseline is of {shown(self.model)}){self.note}"


def read_baseline(path: str) -> Baseline:
    """Reads a baseline.

    Raises:
        UsageError: The file cannot be read, or has neither a check nor a single profile.
    """
    data = read_json(path)
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema == GATE:
        return _of_check(decode(data, GateReport), path)
    try:
        return _of_profile(Profile.from_json(data))
    except CoremlscopeError as error:
        raise UsageError(
            f"{path} cannot be a baseline: {error.message}",
            "save one: `coremlscope check MODEL --max-latency DEVICE=TIME --json main.json`",
        ) from error


def _of_check(report: GateReport, path: str) -> Baseline:
    if len(report.models) != 1:
        raise UsageError(
            f"{path} is a check of {len(report.models)} models", "a baseline has one: check the model alone"
        )
    (model,) = report.models
    found: dict[str, dict[str, float]] = {}
    for check in model.checks:
        if check.value is not None:
            found.setdefault(check.kind, {})[check.subject] = check.value.value
    return Baseline(
        size_bytes=model.size_bytes,
        memory_bytes=found.get("max-memory", {}).get(""),
        latency_s=found.get("max-latency", {}),
        neural_engine=found.get("min-neural-engine", {}),
        note=_note(report.made.version),
        model=Path(model.path).name,
    )


def _of_profile(profile: Profile) -> Baseline:
    latencies, shares = {}, {}
    peak = None
    for one in profile.estimates:
        latencies[f"{one.device}, {one.os}, {one.compute_units}"] = one.latency.value
        if one.memory is not None and one.memory.peak is not None:
            peak = one.memory.peak.value
    for plan in profile.plans:
        for setting in plan.settings:
            counts = unit_counts(plan.view(profile.ops, setting).ops)
            subject = f"{plan.device}, {plan.os}, {setting.compute_units}"
            shares[subject] = counts[NEURAL_ENGINE] / max(counts.total(), 1)
    return Baseline(
        size_bytes=profile.model.size_bytes,
        memory_bytes=peak,
        latency_s=latencies,
        neural_engine=shares,
        note=_note(profile.made.version),
        model=Path(profile.model.path).name,
    )


def _note(version: str) -> str:
    """Returns a remark where another version estimated the baseline."""
    if version in ("", __version__):
        return ""
    return f" (the baseline is by version {version}, this is {__version__}: make it again)"
