"""Tokens per second of language models, measured and estimated, for the console."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.base.figures import Figure
from coremlscope.base.units import format_bytes, format_duration
from coremlscope.reports.terminal.screen import Column, Screen
from coremlscope.reports.words import BOUND_WORDS
from coremlscope.results.generation import TokenRate, TokenTiming

__all__ = [
    "RATE_NOTE",
    "TIMING_NOTE",
    "cache_text",
    "rate_rows",
    "show_rates",
    "show_timings",
    "timing_rows",
]

RATE_NOTE = "predictions one after the other; sampling and the app around them are not included"
TIMING_NOTE = (
    "the median of predictions that share one state, and its 95 % confidence interval; inputs are synthetic;"
    " sampling and the app around them are not included"
)
_STEP_COLUMNS = (
    Column("setting", most=11),
    Column("function", most=20),
    Column("phase", style="cyan"),
    Column("tokens", is_number=True),
    Column("context", is_number=True),
    Column("prediction", is_number=True),
    Column("tokens/s", is_number=True),
)
_TIMING_COLUMNS = (
    *_STEP_COLUMNS,
    Column("95 % within", is_number=True),
    Column("runs", is_number=True),
    Column("memory", is_number=True),
)
_COLUMNS = (
    Column("device", most=24),
    *_STEP_COLUMNS,
    Column("80 % within", is_number=True),
    Column("waits for", most=11),
)


def show_timings(screen: Screen, timings: Sequence[TokenTiming]) -> None:
    """Prints the measured speed of a language model; nothing for other models."""
    if not timings:
        return
    screen.heading("Tokens per second, measured", ", ".join(dict.fromkeys(one.label for one in timings)))
    screen.table(_TIMING_COLUMNS, timing_rows(timings))
    screen.line(cache_text(timings), "dim", indent=2)
    screen.line(TIMING_NOTE, "dim", indent=2)


def timing_rows(timings: Sequence[TokenTiming]) -> list[tuple[str, ...]]:
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
            _number(one.tokens_per_s.value),
            _interval(one.tokens_per_s),
            str(one.predict.statistics.count),
            "" if one.peak_memory_bytes is None else format_bytes(one.peak_memory_bytes),
        )
        for one in timings
    ]


def cache_text(steps: Sequence[TokenTiming | TokenRate]) -> str:
    """Returns the room and the size of the largest cache, as a sentence without its full stop."""
    most = max(steps, key=lambda one: one.context)
    text = f"the cache holds {most.context} tokens in {format_bytes(most.cache_bytes)}"
    held = most.held_bytes if isinstance(most, TokenTiming) else None
    if held is None or held == most.cache_bytes:
        return text
    return f"{text}, and takes {format_bytes(held)} in float32 here"


def show_rates(screen: Screen, rates: Sequence[TokenRate]) -> None:
    """Prints the estimated speed of a language model; nothing for other models."""
    if not rates:
        return
    screen.heading("As a language model", f"estimated; {cache_text(rates)}")
    screen.table(_COLUMNS, rate_rows(rates))
    screen.line(RATE_NOTE, "dim", indent=2)


def rate_rows(rates: Sequence[TokenRate]) -> list[tuple[str, ...]]:
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
            _number(rate.tokens_per_s.value),
            _interval(rate.tokens_per_s),
            BOUND_WORDS[rate.bound],
        )
        for rate in rates
    ]


def _interval(rate: Figure) -> str:
    return "–" if rate.low == rate.high else f"{_number(rate.low)} – {_number(rate.high)}"


def _number(rate: float) -> str:
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.3g}"
