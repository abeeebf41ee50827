"""The answers about models as text: at most a screen of it. The page shows the same rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from coremlscope.base.units import format_bytes, format_duration, format_per_second
from coremlscope.describe.this_mac import NOT_MEASURED, say_measured
from coremlscope.devices.unit import NEURAL_ENGINE, SETTING_WORDS, SETTINGS, ComputeUnits
from coremlscope.reports.difference import conclude_comparison, describe_operations, fact_rows, pair_table
from coremlscope.reports.document import Block, Column, Conclusion, Heading, Hint, Item, Table, Text
from coremlscope.reports.figures import EXTRAPOLATED, milliseconds, within_ms
from coremlscope.reports.provider import provider_comparison, verdict_section
from coremlscope.reports.terminal.writer import write_terminal
from coremlscope.reports.words import model_name, plural

if TYPE_CHECKING:
    from coremlscope.describe.comparison.profiles import Comparison
    from coremlscope.results.answer import Answer, Proposal, PublishedFigure
    from coremlscope.results.profile import Profile

#: Lines of an answer at 80 columns, and what is listed of each part.
_MOST_LINES = 40
_NOTHING = Conclusion("doubt", "unknown", "Not comparable: no latency is known on any device.")
_REASONS, _CHANGES, _PARTS, _FACTS, _HAZARDS = 3, 5, 7, 6, 2


def render_answer(
    profiles: Sequence[Profile],
    comparison: Comparison | None = None,
    *,
    width: int = 100,
    color: bool = False,
) -> str:
    """Answers as text. Where they have too many lines, the least useful of their lists become shorter."""
    for most in range(_CHANGES, 0, -1):
        text = write_terminal(answer_document(profiles, comparison, most=most), width=width, color=color)
        if text.count("\n") <= _MOST_LINES:
            break
    return text


def answer_document(
    profiles: Sequence[Profile], comparison: Comparison | None = None, *, most: int = _CHANGES
) -> Iterator[Block]:
    """Yields the answers about one model in full, or those about several next to each other.

    Args:
        profiles: The models with their answers.
        comparison: How several models differ; None for a single one.
        most: The number of changes that are listed.
    """
    if comparison is None:
        yield from answer_blocks(profiles[0], most=most)
        yield from verdict_section(profiles[0])
    else:
        yield from conclude_comparison(comparison) or [_NOTHING]
        yield from pair_table(comparison.differences, [subject.label for subject in comparison.subjects])
        yield from _differences(comparison)
        yield from provider_comparison(profiles, [subject.label for subject in comparison.subjects])
        yield from _notes(profiles)
    has_figures = any(one.latency is not None for profile in profiles for one in profile.answers)
    yield Hint(_next(profiles, has_figures=has_figures))


def answer_blocks(profile: Profile, *, most: int = 2, is_brief: bool = False) -> Iterator[Block]:
    """Yields the first answer of a profile, and the speeds of all; nothing without answers.

    Args:
        profile: The profile.
        most: The number of changes that are listed.
        is_brief: Leaves out where the time goes and why, which the rest of a report shows.
    """
    if not profile.answers:
        return
    first = profile.answers[0]
    yield from (Text(line, "strong", 0) for line in filter(None, [_this_mac(profile)]))
    style = "error" if first.is_hazardous else "strong"
    yield Text(f"{model_name(profile.model.path)}: {first.headline}", style, 0)  # type: ignore[arg-type]
    yield from speed_table(profile.answers)
    where = f"on {first.device}" + ("" if first.compute_units == "all" else f", {_setting(first)}")
    if not is_brief:
        yield from _time_and_why(first, where, min(most, _REASONS))
    yield from _changes(profile, first, where, most)
    for hazard in first.hazards[first.is_hazardous : first.is_hazardous + _HAZARDS]:
        text = hazard.text if hazard.is_sure else f"perhaps: {hazard.text}"
        yield Item(text, hazard.fix, "!", "warning")
    yield from _notes([profile])
    more = [f"{text[:1].upper()}{text[1:]}." for text in first.trust.doubts[1:]]
    published = [one for one in first.trust.published if one.is_within or not one.is_believed][:1]
    more += [f"Published: {_published(one)}." for one in published]
    if text := " ".join([*more, first.trust.accuracy]).strip():
        yield Text(text)


def _this_mac(profile: Profile) -> str:
    """Returns what Core ML measured on this Mac, or why it did not; empty where it was not to."""
    lost = [one for one in profile.findings if one.id == NOT_MEASURED]
    measured = [one for one in profile.measurements if one.runtime.id == "coreml"]
    return say_measured(measured, lost) if measured or lost else ""


def this_mac_values(profile: Profile) -> dict[str, str]:
    """Returns the sentence on this Mac under the key that JSON has; nothing where there is none."""
    sentence = _this_mac(profile)
    return {"this_mac": sentence} if sentence else {}


def _time_and_why(first: Answer, where: str, most: int) -> Iterator[Block]:
    """Yields where the time goes, and why not on the Neural Engine."""
    if first.time:
        yield Heading("Where the time goes", f"{where}, estimated")
        shares = [f"{one.part} {_percent(one.share)}" for one in first.time[:_PARTS]]
        rest = sum(one.share for one in first.time[_PARTS:])
        shares += [f"other parts {_percent(rest)}"] if rest > 0 else []
        yield Text(", ".join(shares), "")
    if first.latency is not None:
        yield from _why(first, most)


def _changes(profile: Profile, first: Answer, where: str, most: int) -> Iterator[Block]:
    """Yields what to change, and what to change first on other devices."""
    if not first.changes:
        return
    yield Heading("What to change", f"{where}, estimated")
    yield from (_item(one) for one in first.changes[:most])
    rest = len(first.changes) - most
    yield from (Text(f"and {plural(rest, 'smaller one')}: --json -"),) if rest > 0 else ()
    yield from _elsewhere(profile.answers, first)


def speed_table(answers: Sequence[Answer], *, several: bool = False) -> Iterator[Block]:
    """Yields the answers that were asked for, with the times under the other settings.

    Args:
        answers: The answers.
        several: Whether they are about several models.
    """
    asked = [one for one in answers if one.is_asked]
    if not any(one.latency for one in asked):
        return
    are_words = any(one.tokens is not None and one.tokens.decode is not None for one in asked)
    named = {one.compute_units for one in asked}
    others = [setting for setting in SETTINGS if setting not in named]
    columns = _columns(others, several=several, are_words=are_words, has_setting=named != {"all"})
    times = {(one.model, one.device, one.compute_units): _time(one) for one in answers}
    rows: dict[tuple[str, ...], list[str]] = {}
    for one in asked:
        more = [times.get((one.model, one.device, setting), "–") for setting in others]
        rows.setdefault((*_row(one, several=several), *more, _share(one)), []).append(_setting(one))
    names = ["" if named == {"all"} else ", ".join(names) for names in rows.values()]
    yield Table(columns, [(*row[:2], name, *row[2:]) for row, name in zip(rows, names, strict=True)])
    yield Text("; ".join(["milliseconds, estimated, not measured", *_remarks(asked)]))


def _remarks(asked: Sequence[Answer]) -> Iterator[str]:
    """Yields what an asterisk means, and why models of language have no rate."""
    if any(one.is_extrapolated for one in asked):
        yield EXTRAPOLATED
    yield from dict.fromkeys(one.tokens.unknown for one in asked if one.tokens and one.tokens.unknown)


def _columns(
    others: Sequence[ComputeUnits], *, several: bool, are_words: bool, has_setting: bool
) -> tuple[Column, ...]:
    return (
        Column("device", style="cyan", most=24, least=17),
        Column("model" if several else "", most=32, least=20),
        Column("setting" if has_setting else ""),
        Column("tokens/s" if are_words else "", is_number=True),
        Column("estimate", is_number=True),
        Column("80 % within", is_number=True, rank=1),
        *(Column(SETTING_WORDS[one], is_number=True, rank=int(several)) for one in others),
        Column("NE", is_number=True, rank=int(several)),
    )


def _row(one: Answer, *, several: bool) -> tuple[str, ...]:
    latency, tokens = one.latency, one.tokens
    within = ""
    if latency is not None:
        within = f"{milliseconds(latency.low)} – ?" if one.is_at_least else within_ms(latency)
    return (
        one.device,
        model_name(one.model) if several else "",
        "" if tokens is None or tokens.decode is None else format_per_second(tokens.decode.value),
        f"{_time(one)}{'*' if one.is_extrapolated else ' '}",
        within,
    )


def _share(one: Answer) -> str:
    return _percent(one.units.get(NEURAL_ENGINE, 0.0)) if one.units else ""


def _time(one: Answer) -> str:
    if one.latency is None:
        return "–"
    return f"{'≥ ' if one.is_at_least else ''}{milliseconds(one.latency.value)}"


def _setting(one: Answer) -> str:
    return SETTING_WORDS[one.compute_units]


def _differences(comparison: Comparison) -> Iterator[Block]:
    names = [subject.label for subject in comparison.subjects]
    yield Heading("What differs")
    rows = fact_rows(comparison)
    if rows:
        columns = (Column("", style="dim"), *(Column(name, most=28, least=10) for name in names))
        yield Table(columns, rows, _FACTS, "fact")
    yield from (Text(describe_operations(one), "") for one in comparison.differences[:1])


def _why(first: Answer, most: int) -> Iterator[Block]:
    share = first.units.get(NEURAL_ENGINE, 0.0)
    yield Heading("Why not on the Neural Engine", f"{_percent(share)} of operation time is there")
    if not first.why:
        yield Text("everything runs there" if share > 0 else "no operation is planned there", "")
    for one in first.why[:most]:
        saved = ""
        if one.saved_s is not None and one.saved_s.value > 0:
            saved = f"; without it {format_duration(one.saved_s.value)} less"
        yield Item(f"{_percent(one.share)}, {plural(one.ops, 'operation')}: {one.text}{saved}", mark="·")
    rest = len(first.why) - most
    if rest > 0:
        yield Text(f"and {plural(rest, 'more reason')} of less time: `coremlscope plan`")


def _elsewhere(answers: Sequence[Answer], first: Answer) -> Iterator[Block]:
    """Yields the first changes on other devices and settings that are not among those of the first answer."""
    told: dict[str, list[str]] = {}
    listed = {one.text.partition(";")[0] for one in first.changes}
    for answer in answers:
        change = next(iter(answer.changes), None) if answer.is_asked else None
        text = "" if change is None else change.text.partition(";")[0]
        if change is not None and change.after is not None and text not in listed:
            where = answer.device if answer.compute_units == "all" else f"{answer.device}, {_setting(answer)}"
            told.setdefault(text, []).append(f"{where}: {_gain(change).removesuffix(': ')}")
    for text, places in told.items():
        yield Item(f"{text} ({'; '.join(places)})", mark="·")


def _item(one: Proposal) -> Block:
    smaller = f" ({format_bytes(one.saved_bytes)} smaller)" if one.saved_bytes else ""
    marks = [] if one.is_planned_again or one.after is None else ["not planned again"]
    marks += ["overlaps those above"] if one.overlaps else []
    mark = f" ({'; '.join(marks)})" if marks else ""
    command = f"`{one.command}`" if one.command else ""
    return Item(f"{_gain(one)}{one.text}{smaller}{mark}", (one.code, command), "·")


def _gain(one: Proposal) -> str:
    """What a change gains: `likely 962 → 680 µs: `."""
    if one.after is None or one.before_s is None:
        return ""
    return f"{one.certainty} {_between(one.before_s, one.after.value)}: "


def _notes(profiles: Sequence[Profile]) -> Iterator[Block]:
    """Yields the warnings that are no hazards, each once, with the model where it is one of several."""
    told: dict[str, list[str]] = {}
    for profile in profiles:
        hazards = {one.id for answer in profile.answers for one in answer.hazards}
        for one in profile.findings:
            if one.severity != "info" and one.id not in {*hazards, NOT_MEASURED}:
                told.setdefault(one.text, []).append(model_name(profile.model.path))
    for text, names in list(told.items())[:2]:
        where = "" if len(names) == len(profiles) else f"{', '.join(names)}: "
        yield Item(f"{where}{text}", mark="!", style="warning")


def _published(one: PublishedFigure) -> str:
    text = f"{format_duration(one.seconds)}, {one.publication}"
    if one.is_believed:
        return text
    return f"{text}, under {one.os or 'a system that is not named'}, which says little of the device's"


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _between(before_s: float, after_s: float) -> str:
    """Two durations, with the unit once where it is the same."""
    before, after = format_duration(before_s), format_duration(after_s)
    number, _, unit = before.partition(" ")
    return f"{number} → {after}" if after.endswith(f" {unit}") else f"{before} → {after}"


def _next(profiles: Sequence[Profile], *, has_figures: bool) -> str:
    if any(profile.model.container == "onnx" for profile in profiles):
        others = "operators outside Core ML, and why: `coremlscope plan MODEL`"
        return f"{others}; measured here: `coremlscope profile MODEL`"
    if not has_figures:
        return "more: `coremlscope inspect MODEL`; measured here: `coremlscope profile MODEL`"
    if len(profiles) > 1:
        return "more: `coremlscope compare A B` times both here; -o page.html, --json -"
    return "measured here: `coremlscope profile MODEL`; more: --open, -o page.html, --json -"
