"""Estimated tokens per second of language models, for the console."""

from __future__ import annotations

from collections.abc import Sequence

from coremlscope.render.terminal.screen import Column, Screen
from coremlscope.results.generation import TokenRate
from coremlscope.units import format_bytes, format_duration

__all__ = ["RATE_NOTE", "rate_rows", "show_rates"]

RATE_NOTE = (
    "predictions one after the other, each of which reads the whole cache; sampling and the app around them"
    " are not included"
)
_COLUMNS = (
    Column("device", most=24),
    Column("setting", most=11),
    Column("function", most=20),
    Column("phase", style="cyan"),
    Column("tokens", is_number=True),
    Column("cache", is_number=True),
    Column("prediction", is_number=True),
    Column("tokens/s", is_number=True),
    Column("80 % within", is_number=True),
    Column("waits for", most=11),
)


def show_rates(screen: Screen, rates: Sequence[TokenRate]) -> None:
    """Prints the speed of a language model; nothing for other models."""
    if not rates:
        return
    first = rates[0]
    quiet = f"estimated; the cache holds {first.context} tokens in {format_bytes(first.cache_bytes)}"
    screen.heading("As a language model", quiet)
    screen.table(_COLUMNS, rate_rows(rates))
    screen.line(RATE_NOTE, "dim", indent=2)


def rate_rows(rates: Sequence[TokenRate]) -> list[tuple[str, ...]]:
    """Device, setting, function, phase, tokens, room of the cache, times and rates of each."""
    is_one = len({rate.function for rate in rates}) == 1
    return [
        (
            rate.device,
            rate.compute_units,
            "" if is_one else rate.function,
            rate.phase,
            str(rate.tokens),
            str(rate.context),
            format_duration(rate.step_s.value),
            _number(rate.tokens_per_s.value),
            f"{_number(rate.tokens_per_s.low)} – {_number(rate.tokens_per_s.high)}",
            rate.bound,
        )
        for rate in rates
    ]


def _number(rate: float) -> str:
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.3g}"
