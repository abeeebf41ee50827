"""Language models: tokens per second of prefill and decode.

Decoding streams all weights and the cache for one token, so it waits for memory; prefill uses the weights for
many tokens, so it waits for arithmetic. Both are estimates of a prediction, divided by its tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coremlscope.base.figures import Figure
from coremlscope.devices import ComputeUnits, Device
from coremlscope.model.ir import Model
from coremlscope.planning.cost.latency.own import NOTHING_OWN, Own
from coremlscope.planning.forecast.planner import forecast
from coremlscope.results.estimate import Estimate
from coremlscope.results.generation import TokenRate, phase_of
from coremlscope.results.operations import OpTable
from coremlscope.runtime.execution.decoder_steps import DecoderStep, decoder_steps


def estimate_generation(
    model: Model,
    devices: Sequence[Device],
    settings: Sequence[ComputeUnits],
    *,
    function: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    own: Own = NOTHING_OWN,
    known: Sequence[Estimate] = (),
) -> tuple[TokenRate, ...]:
    """Estimates tokens per second of a language model; empty for other models.

    See `decoder_steps` for the numbers of tokens and the contexts.

    Args:
        model: The model.
        devices: The chips and systems.
        settings: The settings of compute units.
        function: The function; None for all of them.
        shapes: Shapes of flexible inputs of the function, instead of the defaults.
        own: A user's own measurements, which refine estimates.
        known: Estimates of the function, or the default one, with these shapes, if they were made already.
    """
    default = function or model.description.default
    asked = {name: tuple(shape) for name, shape in (shapes or {}).items()}
    rates: list[TokenRate] = []
    for step in decoder_steps(model, function, asked):
        found = known if step.function == default and dict(step.shapes) == asked else ()
        if not found:
            found = forecast(
                model,
                OpTable(),
                devices,
                settings,
                function=step.function,
                shapes=step.shapes,
                advised=(),
                own=own,
            ).estimates
        rates += (_rate(step, one) for one in found)
    return tuple(sorted(rates, key=lambda rate: (rate.device, rate.os, rate.tokens, rate.attended)))


def _rate(decoder: DecoderStep, estimate: Estimate) -> TokenRate:
    latency, step = estimate.latency, decoder.step
    ranked = sorted(estimate.placement, key=estimate.placement.__getitem__, reverse=True)
    return TokenRate(
        device=estimate.device,
        chip=estimate.chip,
        os=estimate.os,
        compute_units=estimate.compute_units,
        function=decoder.function,
        phase=phase_of(step.tokens),
        tokens=step.tokens,
        context=step.context,
        attended=step.attended,
        cache_bytes=step.cache_bytes,
        step_s=latency,
        tokens_per_s=Figure(
            step.tokens / latency.value, step.tokens / latency.high, step.tokens / latency.low, "estimated"
        ),
        bound=estimate.bound,
        basis=estimate.basis,
        unit=ranked[0] if ranked else None,
        own=estimate.own,
    )
