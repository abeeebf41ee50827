"""The result of a gate: which limits a model keeps."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from coremlscope.base.figures import Figure
from coremlscope.devices.unit import ComputeUnits
from coremlscope.results.encoding import plain
from coremlscope.results.profile import Provenance

#: Name and version of the schema.
GATE = "coremlscope.check/1"
#: The exit code if a limit is not kept; that of `compare --fail-above`.
GATE_FAILED = 9

#: Subject of a limit; the name of its option. `loads` is checked without one: that a system loads the model.
CheckKind = Literal[
    "max-latency",
    "min-neural-engine",
    "no-known-crash",
    "max-size",
    "max-memory",
    "min-psnr",
    "baseline",
    "loads",
]

#: What a figure is of.
FigureKind = Literal["latency", "neural-engine", "known-crash", "size", "memory", "psnr"]

#: Quantity of a number: seconds, bytes, a share between 0 and 1, decibels, or how many operations.
Quantity = Literal["seconds", "bytes", "share", "decibels", "operations"]

#: `pass`       the limit is kept, by both ends of the interval;
#: `uncertain`  the figure keeps the limit, and an end of its interval does not;
#: `fail`       the figure does not keep the limit, whatever its interval;
#: `unknown`    there is no figure.
Verdict = Literal["pass", "uncertain", "fail", "unknown"]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What a figure belongs to. What does not matter for it is empty.

    Attributes:
        function: The function, of a model with several.
        device: The device, or its chip.
        os: Its system: `iOS 26`.
        compute_units: What the app allows.
        reference: The model whose outputs were compared with.
        conditions: The sizes of flexible inputs, and the session of ONNX Runtime: `x 1×512, mlprogram, 1.32`.
    """

    function: str = ""
    device: str = ""
    os: str = ""
    compute_units: ComputeUnits | Literal[""] = ""
    reference: str = ""
    conditions: str = ""


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """One limit, and what was found.

    Attributes:
        kind: What the limit is of.
        subject: The device, system and setting, or what else the figure belongs to; may be empty.
        quantity: What the numbers are.
        limit: The limit.
        value: The figure; None if there is none.
        verdict: Whether the limit is kept.
        text: All of it as a sentence.
        hint: What may help; may be empty.
        figure: What the figure is of; None for `loads`, which is no figure.
        place: What it belongs to.
    """

    kind: CheckKind
    subject: str = ""
    quantity: Quantity
    limit: float
    value: Figure | None
    verdict: Verdict
    text: str
    hint: str = ""
    figure: FigureKind | None = None
    place: Place = Place()

    def holds(self, strict: bool) -> bool:
        """Returns whether the gate lets this pass: `uncertain` counts as kept unless it is strict."""
        return self.verdict == "pass" or (self.verdict == "uncertain" and not strict)


class CheckedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model and its limits.

    Attributes:
        path: The model.
        size_bytes: Bytes of the package or file; None if it could not be read.
        checks: The limits.
        failure: Why the model could not be checked; may be empty.
        hint: What to do about that.
        exit_code: The exit code of that error.
    """

    path: str
    size_bytes: int | None = None
    checks: tuple[CheckResult, ...] = ()
    failure: str = ""
    hint: str = ""
    exit_code: int = 0


class GateReport(msgspec.Struct, frozen=True, kw_only=True):
    """Models and their limits.

    Attributes:
        made: When, where and by which version.
        strict: Whether an uncertain limit counts as not kept.
        models: The models.
    """

    made: Provenance
    strict: bool
    models: tuple[CheckedModel, ...]

    def to_json(self) -> dict[str, Any]:
        """Converts the report to plain JSON values, with the schema's name."""
        return {"schema": GATE, **plain(self)}

    @property
    def failed(self) -> tuple[tuple[CheckedModel, CheckResult], ...]:
        """The limits that are not kept, with their models."""
        return tuple((m, check) for m in self.models for check in m.checks if not check.holds(self.strict))

    @property
    def exit_code(self) -> int:
        """That of the first model that could not be checked, else `GATE_FAILED` or 0."""
        errors = (model.exit_code for model in self.models if model.exit_code)
        return next(errors, GATE_FAILED if self.failed else 0)
