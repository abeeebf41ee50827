"""Tokens per second of language models, measured and estimated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coremlscope.base.figures import Figure
from coremlscope.base.units import format_bytes, format_duration, format_per_second
from coremlscope.reports.document import Block, Column, Heading, Table, Text
from coremlscope.reports.words import BOUND_WORDS, unit_name
from coremlscope.results.generation import TokenRate, TokenTiming

_RATE_NOTE = "predictions one after the other; sampling and the app around them are not included"
_TIMING_NOTE = (
    "the median of predictions that share one state, and its 95 % confidence interval; inputs are synthetic;"
    " sampling and the app around them are not included"
)
_STEP_COLUMNS = (
    Column("setting", most=11, rank=2),
    Column("function", most=20, rank=2),
    Column("phase", style="cyan", rank=-1),
    Column("tokens", is_number=True, rank=3),
    Column("context", is_number=True, rank=1),
    Column("prediction", is_number=True, rank=1),
    Column("tokens/s", is_number=True, rank=-2),
)
_TIMING_COLUMNS = (
    *_STEP_COLUMNS,
    Column("95 % within", is_number=True),
    Column("runs", is_number=True, rank=4),
    Column("memory", is_number=True, rank=3),
)
_COLUMNS = (
    Column("device", most=24, rank=-1),
    *_STEP_COLUMNS,
    Column("80 % within", is_number=True),
    Column("unit", rank=2),
    Column("waits for", most=11, rank=4),
)


def timing_section(timings: Sequence[TokenTiming]) -> Iterator[Block]:
    """Yields the measured speed of a language model; nothing for other models."""
    if timings:
        yield Heading("Tokens per second, measured", ", ".join(dict.fromkeys(one.label for one in timings)))
        yield Table(_TIMING_COLUMNS, _timing_rows(timings))
        yield Text(_cache_text(timings))
        yield Text(_TIMING_NOTE)


def _timing_rows(timings: Sequence[TokenTiming]) -> list[tuple[str, ...]]:
    """Setting, function, phase, tokens, context, times, rates, number of predictions and memory of each."""
    is_one = len({one.function for one in timings}) == 1
    return [
        (
            one.compute_units,
            "" if is_one else one.function,
            one.phase,
            str(one.tokens),
            str(one.attended),
            format_duration(one.step_s.value),
            format_per_second(one.tokens_per_s.value),
            _interval(one.tokens_per_s),
            str(one.predict.statistics.count),
            "" if one.peak_memory_bytes is None else format_bytes(one.peak_memory_bytes),
        )
        for one in timings
    ]


def _cache_text(steps: Sequence[TokenTiming | TokenRate]) -> str:
    """Returns the room and the size of the largest cache, as a sentence without its full stop."""
    most = max(steps, key=lambda one: one.context)
    text = f"the cache holds {most.context} tokens in {format_bytes(most.cache_bytes)}"
    held = most.held_bytes if isinstance(most, TokenTiming) else None
    if held is None or held == most.cache_bytes:
        return text
    return f"{text}, and takes {format_bytes(held)} in float32 here"


def rate_section(rates: Sequence[TokenRate]) -> Iterator[Block]:
    """Yields the estimated speed of a language model; nothing for other models."""
    if rates:
        yield Heading("As a language model", f"estimated; {_cache_text(rates)}")
        yield Table(_COLUMNS, _rate_rows(rates))
        yield Text(_RATE_NOTE)


def _rate_rows(rates: Sequence[TokenRate]) -> list[tuple[str, ...]]:
    """Device, setting, function, phase, tokens, context, times and rates of each."""
    is_one = len({rate.function for rate in rates}) == 1
    return [
        (
            rate.device,
            rate.compute_units,
            "" if is_one else rate.function,
            rate.phase,
            str(rate.tokens),
            str(rate.attended or rate.context),
            format_duration(rate.step_s.value),
            format_per_second(rate.tokens_per_s.value),
            _interval(rate.tokens_per_s),
            unit_name(rate.unit),
            BOUND_WORDS[rate.bound],
        )
        for rate in rates
    ]


def _interval(rate: Figure) -> str:
    return "–" if rate.low == rate.high else f"{format_per_second(rate.low)} – {format_per_second(rate.high)}"
