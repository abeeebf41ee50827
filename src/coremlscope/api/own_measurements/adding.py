"""Turns measured predictions into measurements that calibrate estimates, or explains why they cannot."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from coremlscope.api.own_measurements.measured import MeasuredPrediction
from coremlscope.base.errors import CoremlscopeError
from coremlscope.base.units import format_share
from coremlscope.describe.model import list_operations
from coremlscope.devices.unit import UNIT_WORDS
from coremlscope.formats import container
from coremlscope.model.ir import Model
from coremlscope.planning.cost.latency.recorded import estimate_recorded, structure_digest
from coremlscope.planning.forecast.planner import record_prediction
from coremlscope.results.calibration import OwnMeasurement, Skipped

#: A unit has to do this share of the work: the factor of a mixture is of neither unit.
_PURE = 0.8


class Gathered(msgspec.Struct, frozen=True):
    """Measurements found in files.

    Attributes:
        measurements: Those that can be used.
        skipped: Those that cannot.
    """

    measurements: tuple[OwnMeasurement, ...]
    skipped: tuple[Skipped, ...]


def gather(found: Iterable[MeasuredPrediction | Skipped], model: Model | None) -> Gathered:
    """Checks measured predictions and records the kernels of their models.

    Args:
        found: What files say.
        model: The model, where the user names it.
    """
    models: dict[Path, Model] = {}
    measurements: list[OwnMeasurement] = []
    skipped: list[Skipped] = []
    for one in found:
        if isinstance(one, Skipped):
            skipped.append(one)
            continue
        try:
            measurements.append(_observe(one, _model_of(one, model, models)))
        except _UnusableError as reason:
            skipped.append(Skipped(one.where, str(reason)))
        except CoremlscopeError as error:
            skipped.append(Skipped(one.where, f"cannot be used: {error.message}"))
    return Gathered(tuple(measurements), tuple(skipped))


class _UnusableError(Exception):
    """The end of a sentence about a measurement."""


def _model_of(one: MeasuredPrediction, named: Model | None, read: dict[Path, Model]) -> Model:
    if named is not None:
        return named
    if one.model is None:
        raise _UnusableError("does not say where its model is: name it with --model")
    if one.model not in read:
        read[one.model] = container.read(one.model)
    return read[one.model]


def _observe(one: MeasuredPrediction, model: Model) -> OwnMeasurement:
    _check_operations(one.ops, model)
    recorded = record_prediction(
        model, one.device, one.compute_units, function=one.function or None, shapes=one.shapes or None
    )
    placement = estimate_recorded(recorded, one.device, one.compute_units).placement
    unit = max(placement, key=lambda unit: placement[unit])
    share = format_share(placement[unit])
    if one.unit is not None and one.unit != unit:
        raise _UnusableError(
            f"is of {UNIT_WORDS[one.unit]}, where our plan runs {share} on {UNIT_WORDS[unit]}"
        )
    if placement[unit] < _PURE:
        raise _UnusableError(f"is of several units: our plan runs {share} on {UNIT_WORDS[unit]}")
    name = Path(model.source).name if model.source else ""
    made = OwnMeasurement(
        id="",
        added_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        source=one.source,
        tool=one.tool,
        model=name,
        structure=structure_digest(recorded),
        chip=one.device.chip.id,
        device=one.device.name,
        os=one.system,
        compute_units=one.compute_units,
        unit=unit,
        measured_s=one.seconds,
        samples=one.samples,
        kernels=recorded,
    )
    return replace(made, id=_digest(made))


def _digest(one: OwnMeasurement) -> str:
    """Returns an id that is the same where the same file is added again."""
    reported = (one.structure, one.chip, one.os, one.compute_units, f"{one.measured_s:.9g}", one.source)
    return hashlib.sha256("\0".join(map(str, reported)).encode()).hexdigest()[:8]


def _check_operations(ops: Sequence[str], model: Model) -> None:
    """Checks that a profile is of a model: all its operations are the model's."""
    if not ops:
        return
    known = set(list_operations(model, functions=list(model.description.functions)).id)
    if not set(ops) <= known:
        raise _UnusableError("is of another model than the one that is named, or of another version of it")
