"""How far the plan by rules agrees with Core ML's own."""

from __future__ import annotations

from collections.abc import Iterator

from coremlscope.base.units import format_share
from coremlscope.reports.document import Block, Column, Folded, Heading, Table, Text
from coremlscope.reports.words import UNDECIDED_WORDS, plural, unit_name
from coremlscope.results.agreement import Agreement, Disagreement
from coremlscope.results.profile import Profile

_LISTED = 10


def agreement_sections(profile: Profile, *, list_all: bool = False) -> Iterator[Block]:
    """Yields how far the plans by rules agree with Core ML's, and where they do not.

    Args:
        profile: The profile.
        list_all: Lists every operation on different units, however many there are.
    """
    columns = (
        Column("operation", most=60, least=14, is_code=True),
        Column("type", style="cyan", most=20),
        Column("Core ML", rank=-1),
        Column("rules", rank=-1),
        Column("cost share", is_number=True),
        Column("why"),
    )
    for found in profile.agreements:
        yield Heading("Agreement with Core ML", f"our plan next to Core ML's on {_name(profile, found)}")
        yield Text(agreement_line(found), "")
        if found.disagreements:
            rows = [_row(one) for one in found.disagreements]
            most = None if list_all else _LISTED
            table = Table(columns, rows, most, "operation", ": --share FILE writes all of them")
            yield Folded("Different units", plural(len(rows), "operation"), (table,))


def _name(profile: Profile, found: Agreement) -> str:
    """Returns the device, system and setting: `M1, macOS 14.5, all`."""
    plan = profile.plans[found.theirs]
    return f"{plan.device}, {plan.os}, {found.compute_units}"


def agreement_line(found: Agreement) -> str:
    """Describes an agreement: `93.3 % of 105 operations are on the same unit (98.1 % by Core ML's costs)`."""
    if found.share is None:
        text = "no operation has a unit in both plans"
    else:
        whose = "Core ML's costs" if found.weighted_by == "Core ML" else "our planned costs"
        by_cost = "" if found.cost_share is None else f" ({format_share(found.cost_share)} by {whose})"
        operations = plural(found.compared, "operation")
        verb = "is" if found.compared == 1 else "are"
        text = f"{format_share(found.share)} of {operations} {verb} on the same unit{by_cost}"
    if found.undecided and found.decided_share is not None:
        decided = plural(found.compared - found.undecided, "operation")
        text += f"; {format_share(found.decided_share)} of the {decided} whose unit the evidence decides"
    rest = f"; the rules do not cover {plural(found.unknown, 'more operation')}" if found.unknown else ""
    return text + rest


def _row(one: Disagreement) -> tuple[str, ...]:
    """Returns an operation on different units: our reasons, and Core ML's messages."""
    share = "–" if one.share is None else format_share(one.share)
    return one.name, one.type, unit_name(one.theirs), unit_name(one.ours), share, _why(one)


def _why(one: Disagreement) -> str:
    ours = "; ".join(one.why) or ("no rule covers it" if one.ours is None else "")
    if one.undecided is not None:
        ours = f"{ours}; {UNDECIDED_WORDS[one.undecided]}" if ours else UNDECIDED_WORDS[one.undecided]
    parts = [f"rules: {ours}" if ours else "", f"Core ML: {one.message}" if one.message else ""]
    return ". ".join(part for part in parts if part)
