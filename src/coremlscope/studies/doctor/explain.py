"""Explains one line: the kinds of failure that it reports, and the placement rules that it names."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

import msgspec

from coremlscope.ops import OPS
from coremlscope.planning.hazards.lines import FAILURES, Failure
from coremlscope.studies.doctor.grid import Place, locate
from coremlscope.studies.doctor.quoted import HAZARD_LINES, QUOTED

#: Every text with its row. Lines are searched for texts first: most contain none.
_TEXTS = tuple((text, row) for row in (*FAILURES, *HAZARD_LINES, *QUOTED.values()) for text in row.texts)
_DIGITS = re.compile(r"\d+")
_TEXTS_WITH_DIGITS = tuple(pair for pair in _TEXTS if _DIGITS.search(pair[0]))
_OTHER_TEXTS = tuple(pair for pair in _TEXTS if not _DIGITS.search(pair[0]))
#: An operation with its operation set: `ios17.conv`.
_OPERATION = re.compile(r"\bios\d\d\.([a-z]\w{1,60})")
#: Groups of patterns that are no details.
_OWN_GROUPS = frozenset({"op", "where", "seconds", "minutes"})


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of failure that a line reports.

    Attributes:
        failure: The kind.
        op: The operation's type, if the line names it or the kind is about one.
        name: The operation's name, if the line names it.
        details: Numbers, shapes and names in the line, by what they are.
        rules: The placement rules that the line is about.
        start: Where in the line it is reported.
        place: Who wrote the line, and when; None if its words do not tell.
    """

    failure: Failure
    op: str = ""
    name: str = ""
    details: Mapping[str, str] = {}
    rules: tuple[str, ...] = ()
    start: int = 0
    place: Place | None = None


def explain_line(text: str) -> list[Hit]:
    """The kinds of failure that a line reports.

    A placement rule that quotes the line explains it where no kind does. A kind whose advice contradicts the
    place of the line is not named.
    """
    lowered = text.lower()
    rows = {row.id: row for part, row in _TEXTS_WITH_DIGITS if part in lowered}
    rows |= _rows_without_digits(_DIGITS.sub("0", lowered))
    hits = {id_: hit for id_, row in rows.items() if (hit := _match(row, text, lowered)) is not None}
    place = locate(text)
    hits = {
        id_: msgspec.structs.replace(hit, place=place)
        for id_, hit in hits.items()
        if place is None or not contradicts(hit.failure, place)
    }
    quoted = [hit for id_, hit in hits.items() if id_ in QUOTED]
    special = [hit for id_, hit in hits.items() if id_ not in QUOTED and not hit.failure.is_general]
    if special:
        named = tuple(rule for hit in quoted for rule in hit.rules)
        return [
            msgspec.structs.replace(hit, rules=(*dict.fromkeys((*named, *hit.rules)),)) for hit in special
        ]
    if quoted:
        return [max(quoted, key=lambda hit: len(hit.failure.pattern))]
    return [max(hits.values(), key=lambda hit: hit.start)] if hits else []


def explain_place(text: str) -> Hit | None:
    """What a line means by its component and phase alone; None if its words do not tell."""
    place = locate(text)
    if place is None:
        return None
    named = _OPERATION.search(text)
    return Hit(failure=_failure_of(place), op=named[1] if named else "", place=place)


@functools.cache
def _failure_of(place: Place) -> Failure:
    """A cell of the grid as a kind of failure."""
    cell = place.cell
    return Failure(
        id=f"{place.component}-{place.phase}".lower().replace(" ", "-"),
        texts=(),
        cause=cell.meaning,
        fix=cell.setting,
        source="the words of public logs",
        confidence="anecdotal",
        is_general=True,
        examples=(),
        negative_examples=(),
    )


def contradicts(failure: Failure, place: Place) -> bool:
    """True where a kind advises compute units that the cell of a line excludes."""
    return any(re.search(rf"\b{units}\b", failure.fix) for units in place.cell.excluded)


@functools.lru_cache(maxsize=1024)
def _rows_without_digits(lowered: str) -> Mapping[str, Failure]:
    """The rows of the texts in a line. Most lines of a log differ in their numbers alone."""
    return {row.id: row for part, row in _OTHER_TEXTS if part in lowered}


def _match(failure: Failure, text: str, lowered: str) -> Hit | None:
    groups: Mapping[str, str | None] = {}
    if failure.pattern:
        match = _compiled(failure.pattern).search(text)
        if match is None:
            return None
        groups, start = match.groupdict(), match.start()
    else:
        start = min(found for part in failure.texts if (found := lowered.find(part)) >= 0)
    if not _lasts(failure, groups):
        return None
    op = failure.op or (groups.get("op") or "").lower()
    if not op and (named := _OPERATION.search(text)):
        op = named[1]
    details = {name: value.strip() for name, value in groups.items() if value and name not in _OWN_GROUPS}
    if "word" in details:
        details["word"] = _first_word(details["word"])
    rules = failure.rules
    if failure.id == "unsupported-op" and op in OPS:
        rules = tuple(row.id for row in QUOTED.values() if row.op == op)
    return Hit(
        failure=failure, op=op, name=groups.get("where") or "", details=details, rules=rules, start=start
    )


def _first_word(number: str) -> str:
    """The first four bytes of a file, from Core ML's number: `<!DO` of a web page, `vers` of Git LFS."""
    data = (int(number) % 2**32).to_bytes(4, "little")
    return repr(data.decode("latin-1")) if data.isascii() else number


def _lasts(failure: Failure, groups: Mapping[str, str | None]) -> bool:
    """False if the line states a duration that is too short for the row."""
    seconds, minutes = groups.get("seconds"), groups.get("minutes")
    if seconds is None and minutes is None:
        return True
    return float(seconds or 0) + 60 * float(minutes or 0) >= failure.least_seconds


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)
