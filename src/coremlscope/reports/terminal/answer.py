"""The answer about models for the console: at most a screen of it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from coremlscope.base.units import format_bytes, format_duration
from coremlscope.devices.unit import NEURAL_ENGINE
from coremlscope.reports.document import Column
from coremlscope.reports.figures import EXTRAPOLATED, milliseconds, within_ms
from coremlscope.reports.terminal.screen import Screen
from coremlscope.reports.words import UNIT_NAMES, plural
from coremlscope.results.answer import Answer, Proposal, Speed, Trust

__all__ = ["render_answer"]

#: Lines of an answer at 80 columns, and what is listed of each part.
_MOST_LINES = 40
_REASONS, _PROPOSALS, _SHARES = 3, 5, 4
_LEAST_SHARE = 0.01
_LINES = {"a": "phones and tablets", "m": "Macs"}


def render_answer(answer: Answer, *, width: int = 100, color: bool = False) -> str:
    """An answer as text. Where it has too many lines, the least useful of its lists become shorter."""
    for most in range(_PROPOSALS, 0, -1):
        text = _render(answer, width, color, most, min(most, _REASONS))
        if text.count("\n") <= _MOST_LINES:
            break
    return text


def _render(answer: Answer, width: int, color: bool, proposals: int, reasons: int) -> str:
    screen = Screen(width, color)
    screen.line(answer.verdict, "bold")
    _show_speeds(screen, answer)
    if answer.waits:
        screen.heading("Where the time goes", f"on {answer.device}, estimated")
        screen.line(_shares(answer.waits), indent=2)
        if answer.kinds:
            screen.line(_shares(answer.kinds), indent=2)
    if answer.device:
        _show_off_engine(screen, answer, reasons)
        _show_proposals(screen, answer, proposals)
    screen.line()
    for note in answer.notes[:2]:
        screen.bullet("!", note, style="yellow")
    if answer.trust is not None:
        screen.line(_describe(answer.trust), "dim")
    screen.line(_next(answer), "dim")
    return screen.text


def _show_speeds(screen: Screen, answer: Answer) -> None:
    if not answer.speeds:
        return
    is_measured = any(one.latency.origin == "measured" for one in answer.speeds)
    are_words = any(one.tokens_per_s is not None for one in answer.speeds)
    columns = [
        Column("device", style="cyan", most=24),
        Column("model" if len(answer.models) > 1 else "", most=24, least=10),
        Column("tokens/s" if are_words else "", is_number=True),
        Column("time" if is_measured else "estimate", is_number=True),
        Column("95 % within, ms" if is_measured else "80 % within, ms", is_number=True, rank=2),
        Column("best setting", most=22, least=11),
        Column("NE", is_number=True, rank=1),
    ]
    screen.line()
    screen.table(columns, _rows(answer))
    remarks = ["the default devices: --device names others"] if answer.is_default else []
    if any(one.is_extrapolated for one in answer.speeds):
        remarks.append(EXTRAPOLATED)
    remarks.append("measured by Core ML on this Mac, 95 % interval" if is_measured else "nothing was run")
    screen.line("; ".join(remarks), "dim", indent=2)


def _rows(answer: Answer) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    before = ""
    for one in answer.speeds:
        found.append(
            (
                "" if one.device == before else one.device,
                one.model if len(answer.models) > 1 else "",
                "" if one.tokens_per_s is None else f"{one.tokens_per_s.value:.3g}",
                f"{'≥ ' if one.is_at_least else ''}{milliseconds(one.latency.value)} ms"
                f"{'*' if one.is_extrapolated else ' '}",
                f"{milliseconds(one.latency.low)} – ?" if one.is_at_least else within_ms(one.latency),
                _best(one),
                _percent(one.placement.get(NEURAL_ENGINE, 0.0)),
            )
        )
        before = one.device
    return found


def _best(speed: Speed) -> str:
    best = speed.best
    if best.certainty == "no gain":
        return best.compute_units
    mark = "?" if best.certainty == "unclear" else ""
    return f"{best.compute_units} {milliseconds(best.latency.value)} ms{mark}"


def _shares(pairs: Sequence[tuple[str, float]]) -> str:
    kept = [(name, share) for name, share in pairs if share >= _LEAST_SHARE][:_SHARES]
    return ", ".join(f"{name} {_percent(share)}" for name, share in kept)


def _show_off_engine(screen: Screen, answer: Answer, most: int) -> None:
    first = next(one for one in answer.speeds if one.device == answer.device)
    share = first.placement.get(NEURAL_ENGINE, 0.0)
    screen.heading("Why not on the Neural Engine", f"{_percent(share)} of the time is there")
    if not answer.off_engine:
        everything = "everything runs there" if share > 0 else "no operation of this model is planned there"
        screen.line(everything, indent=2)
    for text in answer.off_engine[:most]:
        screen.bullet("·", text)
    rest = len(answer.off_engine) - most
    if rest > 0:
        screen.line(f"and {plural(rest, 'more reason')}: `coremlscope plan MODEL`", "dim", indent=2)


def _show_proposals(screen: Screen, answer: Answer, most: int) -> None:
    screen.heading("What to change", f"on {answer.device}, by gain; estimated")
    for one in answer.proposals[:most]:
        screen.bullet("·", f"{_gain(one)}: {one.text}", one.code)
        if one.command:
            screen.line(_fitted(one.command, answer, screen.width - 6), "dim", indent=4)
    rest = len(answer.proposals) - most
    if rest > 0:
        screen.line(f"and {plural(rest, 'smaller one')}: `coremlscope estimate MODEL`", "dim", indent=2)
    if answer.together is not None:
        checked = "planned again with them" if answer.together.is_checked else "not checked"
        screen.bullet("·", f"{_gain(answer.together)}: {answer.together.text} ({checked})")
    if answer.nothing:
        screen.line(answer.nothing, indent=2)


def _fitted(command: str, answer: Answer, width: int) -> str:
    """Returns a command with the model's path, or with its name where a line has no room for that."""
    paths = (answer.path, answer.models[0], "MODEL")
    several = [command.replace("MODEL", shlex.quote(path), 1) for path in paths]
    return f"`{next((one for one in several if len(one) <= width), several[-1])}`"


def _gain(one: Proposal) -> str:
    """What a proposal gains: `likely 962 → 680 µs`; bytes of files where it takes no time less."""
    if one.after is None or one.certainty == "no gain":
        return f"{format_bytes(one.saved_bytes)} smaller, no gain in time"
    return f"{one.certainty} {_between(one.before_s, one.after.value)}"


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _between(before_s: float, after_s: float) -> str:
    """Two durations, with the unit once where it is the same."""
    before, after = format_duration(before_s), format_duration(after_s)
    number, _, unit = before.partition(" ")
    return f"{number} → {after}" if after.endswith(f" {unit}") else f"{before} → {after}"


def _describe(trust: Trust) -> str:
    chips = f" of {_LINES[trust.chips]}" if trust.chips else ""
    return (
        f"Such estimates for the {UNIT_NAMES[trust.unit]}{chips} were off by {_percent(trust.error)} (median"
        f" of {trust.count} published figures); {_percent(trust.within)} were within the interval."
    )


def _next(answer: Answer) -> str:
    if not answer.speeds:
        return "more: `coremlscope inspect MODEL`; measured here: `coremlscope profile MODEL`"
    if len(answer.models) > 1:
        return "more: `coremlscope compare A B` times both here; -o page.html, --json -"
    return "measured here: `coremlscope profile MODEL`; more: --open, -o page.html, --json -"
