"""Baselines: figures of a saved check or a saved profile."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from coremlscope.base.errors import CoremlscopeError, UsageError
from coremlscope.base.units import shown
from coremlscope.base.version import __version__
from coremlscope.devices import NEURAL_ENGINE
from coremlscope.results.encoding import decode, read_json
from coremlscope.results.gate import GATE, FigureKind, GateReport, Place
from coremlscope.results.plan import unit_counts
from coremlscope.results.profile import Profile

#: A kind of figure and what it belongs to.
FigureKey: TypeAlias = tuple[FigureKind, Place]


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of an earlier model.

    Attributes:
        figures: Each figure by its kind and what it belongs to; None for one that was not known, infinity
            for the PSNR of equal outputs.
        note: A remark on how comparable they are; may be empty.
        model: The file name of the earlier model; empty if the file does not tell.
    """

    figures: Mapping[FigureKey, float | None]
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
    try:
        return _of_check(decode(data, GateReport)) if schema == GATE else _of_profile(Profile.from_json(data))
    except CoremlscopeError as error:
        raise UsageError(
            f"{path} cannot be a baseline: {error.message}",
            "save one: `coremlscope check MODEL --max-latency DEVICE=TIME --json main.json`",
        ) from error


def _of_check(report: GateReport) -> Baseline:
    if len(report.models) != 1:
        raise UsageError(f"it is a check of {len(report.models)} models, and not of one")
    (model,) = report.models
    if model.failure:
        raise UsageError("its model was not checked")
    figures: dict[FigureKey, float | None] = {("size", Place()): model.size_bytes}
    for check in model.checks:
        if check.figure is not None:
            equal = math.inf if check.figure == "psnr" and check.verdict == "pass" else None
            value = equal if check.value is None else check.value.value
            figures.setdefault((check.figure, check.place), value)
    return Baseline(figures=figures, note=_note(report.made.version), model=Path(model.path).name)


def _of_profile(profile: Profile) -> Baseline:
    functions = profile.model.functions
    work = functions[0].work if functions else None
    any_device = Place(
        function=functions[0].name if len(functions) > 1 else "",
        conditions="" if work is None else work.sizes,
    )
    figures: dict[FigureKey, float | None] = {("size", Place()): profile.model.size_bytes}
    for one in profile.estimates:
        place = replace(any_device, device=one.device, os=one.os, compute_units=one.compute_units)
        figures["latency", place] = one.latency.value
        if one.memory is not None and one.memory.peak is not None:
            figures["memory", any_device] = one.memory.peak.value
    for plan in profile.plans:
        for setting in plan.settings if plan.planner != "Core ML" else ():
            counts = unit_counts(plan.ops, setting.compute_units)
            place = replace(any_device, device=plan.device, os=plan.os, compute_units=setting.compute_units)
            figures["neural-engine", place] = counts[NEURAL_ENGINE] / max(counts.total(), 1)
    return Baseline(figures=figures, note=_note(profile.made.version), model=Path(profile.model.path).name)


def _note(version: str) -> str:
    """Returns a remark where another version estimated the baseline."""
    if version in ("", __version__):
        return ""
    return f" (the baseline is by version {version}, this is {__version__}: make it again)"
