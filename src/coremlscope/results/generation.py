"""Speed of language models: estimated on devices, measured here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from coremlscope.base.figures import Figure
from coremlscope.devices.unit import ComputeUnit, ComputeUnits
from coremlscope.results.calibration import OwnCalibration
from coremlscope.results.estimate import Bound, EstimateBasis
from coremlscope.results.measurement import Phase
from coremlscope.results.statistics import median_interval

#: `decode`: one token in a prediction; `prefill`: many tokens of a prompt.
GenerationPhase = Literal["decode", "prefill"]
#: The confidence level of the median of a measured prediction.
_LEVEL = 0.95


def phase_of(tokens: int) -> GenerationPhase:
    """Returns what a prediction of so many tokens does."""
    return "decode" if tokens == 1 else "prefill"


class TokenRate(msgspec.Struct, frozen=True, kw_only=True):
    """The estimated speed of a language model on a device under one setting. Nothing was measured.

    Attributes:
        device: The device, or its chip.
        chip: The chip's id.
        os: The system.
        compute_units: The assumed setting.
        function: The function.
        phase: `decode` or `prefill`.
        tokens: Tokens that a prediction processes.
        context: Tokens that the cache has room for.
        attended: Tokens of the cache that a prediction reads; in profiles of older versions 0.
        cache_bytes: Bytes of the cache of keys and values.
        step_s: Seconds of a prediction, with an 80 % interval.
        tokens_per_s: Tokens per second, with an 80 % interval: of predictions one after the other, without
            sampling and whatever else an app does between them.
        bound: The bottleneck of a prediction.
        basis: Whether the latency model was fitted to latencies of this chip and unit.
        unit: The unit that takes most of the time of a prediction; None if unknown. A prefill on another unit
            may take less time than one token.
        own: Which of the user's own measurements it uses; None if it uses published ones alone.
    """

    device: str
    chip: str
    os: str
    compute_units: ComputeUnits
    function: str
    phase: GenerationPhase
    tokens: int
    context: int
    cache_bytes: int
    step_s: Figure
    tokens_per_s: Figure
    bound: Bound
    basis: EstimateBasis
    unit: ComputeUnit | None = None
    own: OwnCalibration | None = None
    attended: int = 0


class TokenTiming(msgspec.Struct, frozen=True, kw_only=True):
    """The measured speed of a language model in predictions of one kind, which share one state.

    Attributes:
        label: The source of the times, as in `Measurement`.
        compute_units: The setting of compute units in effect; empty if the runtime has none.
        function: The function.
        phase: `decode` or `prefill`.
        tokens: Tokens that a prediction processes.
        context: Tokens that the cache has room for.
        attended: Tokens of the cache that a prediction reads.
        cache_bytes: Bytes of the cache of keys and values, in the type of the file.
        held_bytes: Bytes of the cache in this runtime, which may have another type; None if unknown.
        shapes: Shapes of inputs that differ from the defaults.
        predict: The predictions, one after the other.
        step_s: Seconds of a prediction: the median, with its 95 % confidence interval.
        tokens_per_s: Tokens per second at the median, with its interval.
        peak_memory_bytes: Peak resident memory of the process that ran them; None if unknown.
    """

    label: str
    compute_units: str = ""
    function: str
    phase: GenerationPhase
    tokens: int
    context: int
    attended: int
    cache_bytes: int
    held_bytes: int | None = None
    shapes: Mapping[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    predict: Phase
    step_s: Figure
    tokens_per_s: Figure
    peak_memory_bytes: int | None = None

    @staticmethod
    def figures(tokens: int, predict: Phase) -> tuple[Figure, Figure]:
        """Returns seconds of a prediction and tokens per second: the median with its 95 % interval.

        A few predictions have no interval.

        Args:
            tokens: Tokens that a prediction processes.
            predict: The predictions.
        """
        median = predict.statistics.median
        low, high = median_interval(predict.samples_s, _LEVEL) or (median, median)
        rate = Figure(tokens / median, tokens / high, tokens / low, "measured")
        return Figure(median, low, high, "measured"), rate
