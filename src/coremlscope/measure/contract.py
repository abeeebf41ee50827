"""The contract of measurers: their inputs, settings and results.

Measurers are implemented for the embedded engines and for Core ML. Each measurement states the runtime and
the machine, and contains the times of the phases and operations that its source provides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec
import msgspec.structs

from coremlscope.base.errors import UsageError
from coremlscope.describe.model import describe_model
from coremlscope.devices.unit import SETTINGS
from coremlscope.model.features import to_tensors
from coremlscope.model.ir import FeatureType, FunctionDescription, Model
from coremlscope.ops.program import check_precision
from coremlscope.results.measurement import Measurement, Settings
from coremlscope.results.model import ModelSummary
from coremlscope.results.operations import OpTable
from coremlscope.runtime.execution.sequence_lengths import choose_lengths
from coremlscope.runtime.execution.wiring import interface_of

#: Called with the phase, the number of completed repetitions and their total number.
Progress = Callable[[str, int, int], None]


class MeasuredModel(msgspec.Struct, frozen=True):
    """The model to measure.

    Attributes:
        model: The model.
        summary: Its description.
        ops: Its operations; measurements refer to the rows.
        shapes: The shapes of inputs that differ from the defaults.
    """

    model: Model
    summary: ModelSummary
    ops: OpTable
    shapes: Mapping[str, tuple[int, ...]] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, model: Model, settings: Settings) -> MeasuredModel:
        """Returns the function of a model that the settings select, with their shapes.

        Raises:
            InputError: A shape is not allowed.
            UsageError: The model has no such function.
        """
        function = settings.function or None
        summary = describe_model(model, settings.shapes, function=function, list_ops=True, reads_weights=True)
        return cls(model, msgspec.structs.replace(summary, ops=OpTable()), summary.ops, settings.shapes)


class Measurer(Protocol):
    """Provides the times of compiling, loading and running a model, usually by measuring them."""

    def measure(
        self,
        subject: MeasuredModel,
        settings: Settings,
        *,
        inputs: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Measurement:
        """Measures one function of a model.

        Args:
            subject: The model.
            settings: The settings; see `resolve_settings`.
            inputs: Values of inputs by name; absent ones are synthetic, seeded by the settings.
            progress: Called after each repetition.

        Raises:
            UnsupportedModelError: The model cannot be run by this measurer.
            MissingWeightsError: Weights are absent and the settings do not allow synthetic ones.
            InputError: A value is not allowed.
            EngineError: The runtime failed.
        """
        ...


def resolve_settings(model: Model, settings: Settings, inputs: Mapping[str, Any] | None = None) -> Settings:
    """Validates settings, and adds the name of the function and shapes of inputs.

    These are the shapes of the given inputs, and of sequences for which one step is too short.

    Args:
        model: The model.
        settings: The requested settings.
        inputs: Values of inputs by name.

    Raises:
        UsageError: A number of repetitions is not positive, or a name is unknown.
        InputError: A value does not match its input.
    """
    _check(settings)
    function, interface = interface_of(model, settings.function or None)
    given = {**_own_shapes(interface, inputs or {}), **settings.shapes}
    shapes = choose_lengths(model, function, given)
    return msgspec.structs.replace(
        settings, function=function, inputs=tuple(sorted(inputs or {})), shapes=shapes
    )


def prepare(measurer: Measurer, model: Model, settings: Settings, inputs: Mapping[str, Any]) -> None:
    """Lets a measurer that can begin its next measurement while the model is described and planned.

    Args:
        measurer: What measures.
        model: The model.
        settings: The settings of the measurement, resolved.
        inputs: Values of inputs by name.
    """
    begin = getattr(measurer, "prepare", None)
    if begin is not None:
        begin(model, settings, inputs)


def note_seconds(progress: Progress | None, phase: str, seconds: Sequence[float]) -> None:
    """Passes the seconds of repetitions to the method `sampled` of what shows progress, if it has one."""
    sampled = getattr(progress, "sampled", None)
    if sampled is not None:
        sampled(phase, seconds)


def now() -> str:
    """Returns the time in UTC as ISO 8601, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _own_shapes(interface: FunctionDescription, values: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the values given for flexible inputs."""
    flexible: Sequence[Any] = [f for f in interface.inputs if f.name in values and _is_flexible(f.type)]
    tensors = to_tensors(flexible, {feature.name: values[feature.name] for feature in flexible})
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def _is_flexible(type_: FeatureType) -> bool:
    return bool(getattr(type_, "flexibility", None) or getattr(type_, "takes_sequences", False))


def _check(settings: Settings) -> None:
    for name in ("iterations", "compile_iterations", "load_iterations"):
        if getattr(settings, name) < 1:
            option = name.replace("_", "-")
            raise UsageError(f"--{option} must be at least 1, not {getattr(settings, name)}")
    check_precision(settings.precision)
    if settings.compute_units not in SETTINGS:
        raise UsageError(
            f"invalid compute units {settings.compute_units!r}", f"use one of {', '.join(SETTINGS)}"
        )
    if settings.seed < 0:
        raise UsageError(f"--seed must be at least 0, not {settings.seed}")
    if settings.warmups is not None and settings.warmups < 0:
        raise UsageError(f"--warmups must be at least 0, not {settings.warmups}")
