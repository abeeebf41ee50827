"""The answer about models: at most a screen of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from coremlscope.base.units import format_bytes, format_duration, format_per_second
from coremlscope.describe.comparison.profiles import Comparison
from coremlscope.devices.unit import NEURAL_ENGINE, SETTING_WORDS
from coremlscope.reports.difference import describe_operations, fact_rows
from coremlscope.reports.document import Block, Column, Heading, Hint, Item, Table, Text
from coremlscope.reports.figures import EXTRAPOLATED, milliseconds, within_ms
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.reports.words import UNIT_NAMES, plural
from coremlscope.results.answer import Answer, Proposal, Speed
from coremlscope.results.estimate import Trust

#: Lines of an answer at 80 columns, and what is listed of each part.
_MOST_LINES = 40
_REASONS, _PROPOSALS, _SHARES, _FACTS = 3, 5, 4, 6
_LEAST_SHARE = 0.01
#: Characters of a command that fit into a line.
_COMMAND = 74
_LINES = {"a": "phones and tablets", "m": "Macs"}


def render_answer(
    answer: Answer, comparison: Comparison | None = None, *, width: int = 100, color: bool = False
) -> str:
    """An answer as text. Where it has too many lines, the least useful of its lists become shorter."""
    for most in range(_PROPOSALS, 0, -1):
        text = write_terminal(answer_document(answer, comparison, most=most), width=width, color=color)
        if text.count("\n") <= _MOST_LINES:
            break
    return text


def answer_document(
    answer: Answer, comparison: Comparison | None = None, *, most: int = _PROPOSALS
) -> Iterator[Block]:
    """Yields the verdict, the speeds, where the time goes, what to change, and how good estimates are.

    Args:
        answer: The answer.
        comparison: How several models differ; None for a single one.
        most: The number of proposals that are listed.
    """
    yield from answer_blocks(answer, comparison, most=most)
    yield Hint(_next(answer))


def answer_blocks(
    answer: Answer, comparison: Comparison | None = None, *, most: int = _PROPOSALS
) -> Iterator[Block]:
    """Yields an answer without what to do next; see `answer_document`."""
    yield Text(answer.verdict, "strong", 0)
    yield from _speeds(answer)
    if comparison is not None:
        yield from _differences(comparison)
    if answer.waits:
        yield Heading("Where the time goes", f"on {answer.device}, estimated")
        yield Text(_shares(answer.waits), "")
        if answer.kinds:
            yield Text(f"kernels, starts included: {_shares(answer.kinds)}", "")
        if (blocks := answer.blocks) is not None:
            share = _percent(blocks.share)
            yield Text(f"{blocks.times} equal blocks are {share} of it: {_shares(blocks.kinds)}", "")
    if answer.device:
        yield from _off_engine(answer, min(most, _REASONS))
        yield from _proposals(answer, most)
    yield from (Item(note, mark="!", style="warning") for note in answer.notes[:2])
    if answer.trust is not None:
        yield Text(_describe(answer.trust))


def _speeds(answer: Answer) -> Iterator[Block]:
    if not answer.speeds:
        return
    are_words = any(one.tokens_per_s is not None for one in answer.speeds)
    is_measured = any(one.latency.origin == "measured" for one in answer.speeds)
    columns = (
        Column("device", style="cyan", most=24, least=13),
        Column("model" if len(answer.models) > 1 else "", most=24, least=10),
        Column("tokens/s" if are_words else "", is_number=True),
        Column("time" if is_measured else "estimate", is_number=True),
        Column("95 % within, ms" if is_measured else "80 % within, ms", is_number=True, rank=2),
        Column("best setting", most=22, least=22),
        Column("NE", is_number=True, rank=1),
    )
    yield Table(columns, _rows(answer))
    remarks = ["the default devices: --device names others"] if answer.is_default else []
    if any(one.is_extrapolated for one in answer.speeds):
        remarks.append(EXTRAPOLATED)
    remarks.append("measured by Core ML on this Mac, 95 % interval" if is_measured else "nothing was run")
    yield Text("; ".join(remarks))


def _rows(answer: Answer) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    before = ""
    for one in answer.speeds:
        found.append(
            (
                "" if one.device == before else one.device,
                one.model if len(answer.models) > 1 else "",
                "" if one.tokens_per_s is None else format_per_second(one.tokens_per_s.value),
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
    name = SETTING_WORDS[best.compute_units]
    if best.certainty == "no gain":
        return name
    mark = "?" if best.certainty == "unclear" else ""
    return f"{name} {milliseconds(best.latency.value)} ms{mark}"


def _differences(comparison: Comparison) -> Iterator[Block]:
    names = [subject.label for subject in comparison.subjects]
    yield Heading("What differs")
    rows = fact_rows(comparison)
    if rows:
        columns = (Column("", style="dim"), *(Column(name, most=28, least=10) for name in names))
        yield Table(columns, rows, _FACTS, "fact")
    yield from (Text(describe_operations(one), "") for one in comparison.differences[:1])


def _shares(pairs: Sequence[tuple[str, float]]) -> str:
    kept = [(name, share) for name, share in pairs if share >= _LEAST_SHARE][:_SHARES]
    return ", ".join(f"{name} {_percent(share)}" for name, share in kept)


def _off_engine(answer: Answer, most: int) -> Iterator[Block]:
    first = next(one for one in answer.speeds if one.device == answer.device)
    share = first.placement.get(NEURAL_ENGINE, 0.0)
    yield Heading("Why not on the Neural Engine", f"{_percent(share)} of the time is there")
    if not answer.off_engine:
        yield Text("everything runs there" if share > 0 else "no operation is planned there", "")
    yield from (Item(text, mark="·") for text in answer.off_engine[:most])
    rest = len(answer.off_engine) - most
    if rest > 0:
        yield Text(f"and {plural(rest, 'more reason')}: `coremlscope plan MODEL`")


def _proposals(answer: Answer, most: int) -> Iterator[Block]:
    yield Heading("What to change", f"on {answer.device}, by gain; estimated")
    for one in answer.proposals[:most]:
        checked = "" if one.is_checked else " (not checked)"
        yield Item(f"{_gain(one)}: {one.text}{checked}", (one.code, _fitted(one.command, answer)), "·")
    rest = len(answer.proposals) - most
    if rest > 0:
        yield Text(f"and {plural(rest, 'smaller one')}: `coremlscope estimate MODEL`")
    if answer.together is not None:
        checked = "planned again with them" if answer.together.is_checked else "not checked"
        command = _fitted(answer.together.command, answer)
        yield Item(f"{_gain(answer.together)}: {answer.together.text} ({checked})", ("", command), "·")
    if answer.nothing:
        yield Text(answer.nothing, "")


def _fitted(command: str, answer: Answer) -> str:
    """Returns a command with the model's path, or with its name where a line has no room for that."""
    paths = (answer.path, answer.models[0], "MODEL") if answer.path else ("MODEL",)
    several = [command.replace("MODEL", shlex.quote(path), 1) for path in paths]
    return f"`{next((one for one in several if len(one) <= _COMMAND), several[-1])}`" if command else ""


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
