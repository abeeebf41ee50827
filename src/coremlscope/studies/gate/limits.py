"""Limits of a model, and how they are written: `33ms`, `95%`, `20MB`, `40`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

import msgspec

from coremlscope.base.errors import UsageError
from coremlscope.devices.unit import ComputeUnits
from coremlscope.planning.onnxruntime.case import Format
from coremlscope.results.gate import FigureKind

#: How much worse than a baseline a model may be, where nothing else is said.
TOLERANCE = 0.05

_NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,9})?)"
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_BYTES = {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 1024.0, "mib": 1024.0**2, "gib": 1024.0**3}


class GateLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a model.

    Attributes:
        latency_s: Seconds of a prediction, by device.
        neural_engine: The least share of operations that run on the Neural Engine.
        size_bytes: Bytes of the package or file.
        memory_bytes: Bytes of the estimated peak memory.
        no_known_crash: Whether no operation may run where it is known to end the app or to return wrong
            values.
        psnr_db: The least PSNR of the outputs.
        reference: The model that the outputs are compared with; empty to compare the model with itself,
            rounded to fp16 at each operation.
        baseline: A saved profile or check; empty for none.
        tolerance: How much worse than the baseline a figure may be, as a share; None for `TOLERANCE`.
        devices: Further devices for the Neural Engine, known crashes and the baseline.
        os: The version of their systems; None for those of the baseline, else the newest.
        compute_units: What the app allows; None for the settings of the baseline, else `all`.
        functions: The functions that the limits hold for; all if empty.
        only: The figures of the baseline that the model is held to; all if empty.
        shapes: Shapes of flexible inputs.
        format: For ONNX models: figures on devices are those of a session of ONNX Runtime with its Core ML
            provider in this format; None for the converted model.
        ort: The release of ONNX Runtime; None for the newest known one.
    """

    latency_s: Mapping[str, float] = msgspec.field(default_factory=dict)
    neural_engine: float | None = None
    size_bytes: float | None = None
    memory_bytes: float | None = None
    no_known_crash: bool = False
    psnr_db: float | None = None
    reference: str = ""
    baseline: str = ""
    tolerance: float | None = None
    devices: tuple[str, ...] = ()
    os: str | None = None
    compute_units: ComputeUnits | None = None
    functions: tuple[str, ...] = ()
    only: tuple[FigureKind, ...] = ()
    shapes: Mapping[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    format: Format | None = None
    ort: str | None = None

    @property
    def all_devices(self) -> tuple[str, ...]:
        """Every device that is named, once."""
        return tuple(dict.fromkeys((*self.latency_s, *self.devices)))

    @property
    def is_empty(self) -> bool:
        """True if there is no limit."""
        numbers = (self.neural_engine, self.size_bytes, self.memory_bytes, self.psnr_db)
        return numbers == (None,) * 4 and not (self.no_known_crash or self.latency_s or self.baseline)


def parse_seconds(value: object) -> float:
    """Returns the seconds of `33ms`, `0.5 s`, or of a number of seconds.

    Raises:
        UsageError: It is not a duration, or text without a unit: 33 may mean milliseconds.
    """
    if isinstance(value, str) and re.fullmatch(_NUMBER, value.strip()):
        raise UsageError(f"{value.strip()!r} has no unit", f"write it as {value.strip()}ms")
    return _measure(value, _SECONDS, "a duration", "33ms")


def parse_bytes_limit(value: object) -> float:
    """Returns the bytes of `20MB`, `1.5 GB`, or of a number of bytes.

    Raises:
        UsageError: It is not a size.
    """
    return _measure(value, _BYTES, "a size", "20MB")


def parse_share(value: object) -> float:
    """Returns the share of `95%`, or of a number between 0 and 1.

    Raises:
        UsageError: It is not a share.
    """
    share = _measure(value, {"%": 0.01}, "a share", "95%")
    if share > 1:
        raise UsageError(f"{value!r} is not a share", "write it as 95% or 0.95")
    return share


def parse_decibels(value: object) -> float:
    """Returns the decibels of `40`, `40 dB`, or of a number.

    Raises:
        UsageError: It is not a number.
    """
    return _measure(value, {"db": 1.0}, "a ratio in decibels", "40")


def _measure(value: object, units: Mapping[str, float], what: str, example: str) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf"):
        return float(value)
    match = re.fullmatch(rf"{_NUMBER}\s*([a-zµ%]*)", str(value).strip().lower())
    if match is not None and (not match[2] or match[2] in units):
        # In decimal: 95 % is 0.95, so that a share of just that keeps the limit.
        return float(Decimal(match[1]) * Decimal(str(units.get(match[2], 1.0))))
    raise UsageError(f"{str(value)[:40]!r} is not {what}", f"write it as {example}")
