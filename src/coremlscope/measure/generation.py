"""Measures a language model: predictions of one token with caches of several lengths, and of many tokens.

Each kind of prediction is a measurement of its own, in which one state persists from prediction to
prediction, as in an app. Compilation and loading are measured with the model itself, so they are made once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec.structs

from coremlscope.base.errors import EngineError, UsageError
from coremlscope.base.findings import Finding
from coremlscope.measure.contract import MeasuredModel, Measurer, Progress
from coremlscope.measure.partial import interrupted, is_interrupted
from coremlscope.model.ir import Model
from coremlscope.results.generation import TokenTiming, phase_of
from coremlscope.results.measurement import Measurement, Settings
from coremlscope.runtime.engines import ENGINES
from coremlscope.runtime.execution.decoder_steps import DecoderStep, decoder_steps

#: Predictions of a prefill at most; they end once their median is known within 1 %, or after 30 s.
_MOST_PREFILLS = 50
#: Bytes of a number in the embedded engines, which compute in float32 where the file has fp16.
_HELD_BYTES = 4
_EMBEDDED = frozenset(name for name, *_ in ENGINES)


def check_decoder(model: Model, settings: Settings) -> tuple[DecoderStep, ...]:
    """Returns the steps of a language model that settings select.

    Args:
        model: The model.
        settings: The settings as requested: an empty function means all of them.

    Raises:
        UsageError: The model is no decoder.
    """
    steps = decoder_steps(model, settings.function or None, settings.shapes)
    if not steps:
        raise UsageError(
            "this model is not a decoder: it adds no tokens to a cache of keys and values, in states or in"
            " inputs and outputs",
            "leave --tokens out, or name the function that decodes with --function",
        )
    return steps


def measure_generation(
    measurer: Measurer,
    model: Model,
    steps: Sequence[DecoderStep],
    measured: Sequence[Measurement],
    tokens: int,
    progress: Progress | None = None,
) -> tuple[list[TokenTiming], list[Finding]]:
    """Times the steps of a language model.

    Args:
        measurer: Measures.
        model: The model.
        steps: Its steps.
        measured: Measurements of the model, whose settings are those of the steps.
        tokens: Predictions of one token that are timed for each step, exactly.
        progress: Called after each repetition.

    Returns:
        The times, of which those that Ctrl-C interrupted are the last, and findings on steps that failed.
    """
    timings: list[TokenTiming] = []
    failed: list[tuple[DecoderStep, EngineError]] = []
    lost: list[Finding] = []
    if any(map(is_interrupted, measured)):
        return [], []
    # Recordings repeat the settings of other measurements.
    units = {one.settings.compute_units: one.settings for one in measured}
    for setting, one in itertools.product(units.values(), steps):
        asked = _settings_of(one, setting, tokens)
        try:
            found = measurer.measure(MeasuredModel.of(model, asked), asked, progress=progress)
        except EngineError as error:
            failed.append((one, error))
            continue
        except KeyboardInterrupt:
            lost.append(interrupted("Timing tokens"))
            break
        if found.predict is not None:
            timings.append(_timing(one, found))
        if is_interrupted(found):
            lost.append(interrupted("Timing tokens"))
            break
        if found.partial is not None:
            failed.append((one, EngineError(found.partial.text)))
    return timings, [*(_finding(*each) for each in failed), *lost]


def _settings_of(one: DecoderStep, setting: Settings, tokens: int) -> Settings:
    is_decode = one.step.tokens == 1
    return msgspec.structs.replace(
        setting,
        function=one.function,
        shapes=one.shapes,
        iterations=tokens if is_decode else _MOST_PREFILLS,
        compile_iterations=1,
        load_iterations=1,
        early=("compile", "load") if is_decode else ("compile", "load", "predict"),
        inputs=(),
        precision="fp32",
        times_operations=False,
    )


def _timing(one: DecoderStep, measured: Measurement) -> TokenTiming:
    assert measured.predict is not None
    step = one.step
    seconds, rate = TokenTiming.figures(step.tokens, measured.predict)
    return TokenTiming(
        label=measured.label,
        compute_units=measured.compute_units,
        function=one.function,
        phase=phase_of(step.tokens),
        tokens=step.tokens,
        context=step.context,
        attended=step.attended,
        cache_bytes=step.cache_bytes,
        held_bytes=_HELD_BYTES * step.cache_elements if measured.runtime.id in _EMBEDDED else None,
        shapes=one.shapes,
        predict=measured.predict,
        step_s=seconds,
        tokens_per_s=rate,
        peak_memory_bytes=measured.peak_memory_bytes,
    )


def _finding(one: DecoderStep, error: EngineError) -> Finding:
    what = f"{phase_of(one.step.tokens)} of {one.step.tokens} tokens with a context of {one.step.attended}"
    return Finding(
        id="tokens-not-measured",
        severity="error",
        text=f"Not measured to the end: {what}: {error.message}.",
        hint=error.hint,
        exit_code=error.exit_code,
    )
