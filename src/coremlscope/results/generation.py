"""Estimated speed of language models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from coremlscope.devices.unit import ComputeUnits
from coremlscope.figures import Figure
from coremlscope.results.calibration import OwnCalibration
from coremlscope.results.estimate import Bound, EstimateBasis

__all__ = ["GenerationPhase", "TokenRate"]

#: `decode`: one token in a prediction; `prefill`: many tokens of a prompt.
GenerationPhase = Literal["decode", "prefill"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRate:
    """The estimated speed of a language model on a device under one setting. Nothing was measured.

    Attributes:
        device: The device, or its chip.
        chip: The chip's id.
        os: The system.
        compute_units: The assumed setting.
        function: The function.
        phase: `decode` or `prefill`.
        tokens: Tokens that a prediction processes.
        context: Tokens that the cache has room for; a prediction reads all of it.
        cache_bytes: Bytes of the cache of keys and values.
        step_s: Seconds of a prediction, with an 80 % interval.
        tokens_per_s: Tokens per second, with an 80 % interval: of predictions one after the other, without
            sampling and whatever else an app does between them.
        bound: The bottleneck of a prediction.
        basis: Whether the latency model was fitted to latencies of this chip and unit.
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
    own: OwnCalibration | None = None
