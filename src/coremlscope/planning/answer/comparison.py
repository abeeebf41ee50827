"""Two answers next to each other: the one place that says whether a model, device or setting is faster.

Estimates on one chip do not err independently: the errors of the chip and of a publication concern both.
So the interval of a ratio comes from pairs of published latencies, not from the ends of two intervals.
"""

from __future__ import annotations

import functools
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from statistics import quantiles

from msgspec.structs import replace

from coremlscope.base.figures import Figure
from coremlscope.base.units import format_duration, format_ratio
from coremlscope.describe.comparison.profiles import Comparison, Rounds, compare_profiles, label_subjects
from coremlscope.devices.unit import SETTING_WORDS, ComputeUnit, ComputeUnits
from coremlscope.planning.answer.answer import answers_of
from coremlscope.planning.answer.doubts import FEW_FIGURES, Doubt, worst
from coremlscope.planning.answer.hazards import is_met
from coremlscope.planning.answer.settings import main_unit, paired_errors
from coremlscope.planning.cost.latency.evidence import load_evidence
from coremlscope.results.answer import Answer, Certainty, ChangeVerdict, PairVerdict, SettingChoice
from coremlscope.results.profile import Profile

#: A ratio that is closer to 1 is no change; one that is closer than the second is of equal figures.
_SAME, _EQUAL = 0.03, 1e-5
#: The fewest pairs from which the error of a ratio is known: of two networks, and of one on two units.
_FEWEST, _FEWEST_UNITS = 30, 10
#: A sentence about more devices leaves its rows to the table.
_MOST_ROWS = 2

#: The names of the base and of the other side.
Names = tuple[str, str]


@functools.cache
def ratio_errors(line: str, first: ComputeUnit, second: ComputeUnit) -> tuple[float, float] | None:
    """Returns the 80 % interval of the error of the ratio of two networks' estimates on one chip.

    The errors of a chip and of a publication concern both networks, so pairs of one publication count. None
    for too few pairs. An error is log(measured / estimated) of the second network less that of the first.

    Args:
        line: The line of chips: `a` or `m`.
        first: The unit of the first network.
        second: That of the second.
    """
    groups: dict[tuple[str, ...], dict[str, list[tuple[str, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in load_evidence():
        if row.chip.startswith(line):
            error = math.log(row.measured_ms / row.estimated_ms)
            groups[row.publication, row.chip, row.precision][row.unit].append((row.network, error))
    pairs = [
        after - before
        for units in groups.values()
        for network, before in units.get(first, ())
        for other, after in units.get(second, ())
        if network != other
    ]
    if len(pairs) < _FEWEST:
        return None
    ends = quantiles(pairs, n=10, method="inclusive")
    return min(ends[0], 0.0), max(ends[-1], 0.0)


def compare_judged(
    profiles: Sequence[Profile],
    *,
    rounds: Sequence[Rounds] = (),
    labels: Sequence[str] = (),
    settings: Collection[str] = (),
) -> Comparison:
    """Compares profiles with the first of them, and their answers.

    Args:
        profiles: Two or more.
        rounds: As in `compare_profiles`.
        labels: As there.
        settings: The settings that were asked for; every one if they are empty or hold `all`.
    """
    names = labels or label_subjects([profile.model.path for profile in profiles])
    base, *others = (answers_of(profile) for profile in profiles)
    said: list[tuple[str, Sequence[PairVerdict]]] = [("", ())]
    for name, other in zip(names[1:], others, strict=True):
        pairs = list(compare_answers(base, other, (names[0], name), settings))
        said.append((_say([one for one in pairs if one.is_best], (names[0], name)), pairs))
    return compare_profiles(profiles, rounds=rounds, labels=names, settings=settings, verdicts=said)


def judge_plans(
    profile: Profile, places: Sequence[tuple[str, str, ComputeUnits]]
) -> list[PairVerdict | None]:
    """Says of devices and settings whether a model is faster there than on the first one.

    Args:
        profile: The profile of the model.
        places: Devices, their systems and settings.

    Returns:
        A verdict for each; None where nothing is estimated.
    """
    answers = {(one.device, one.os, one.compute_units): one for one in answers_of(profile)}
    base, *others = (answers.get(place) for place in places)
    names = [f"{device}, {SETTING_WORDS[units]}" for device, _, units in places]
    verdicts: list[PairVerdict | None] = [None]
    for name, other in zip(names[1:], others, strict=True):
        is_known = any(one is not None and one.latency is not None for one in (base, other))
        verdicts.append(_judge(base, other, (names[0], name), is_best=False) if is_known else None)
    return verdicts


def compare_answers(
    base: Sequence[Answer], other: Sequence[Answer], names: Names = ("", ""), settings: Collection[str] = ()
) -> Iterator[PairVerdict]:
    """Yields the pairs of two models on common devices: each at its best, then both under each setting.

    Args:
        base: The answers of the base.
        other: Those of the other model.
        names: The names of both.
        settings: The settings that were asked for; every one if they are empty or hold `all`.
    """
    sides = (_by_device(base), _by_device(other))
    for key in sides[0]:
        befores, afters = (side.get(key, []) for side in sides)
        if not afters or not any(one.latency for one in (*befores, *afters)):
            continue
        best = [_find_best(side, settings) for side in (befores, afters)]
        yield _judge(best[0], best[1], names, is_best=True)
        under = {one.compute_units: one for one in afters}
        for before in befores:
            if before.compute_units in under:
                yield _judge(before, under[before.compute_units], names, is_best=False)


def _by_device(answers: Sequence[Answer]) -> dict[tuple[str, str], list[Answer]]:
    found: dict[tuple[str, str], list[Answer]] = defaultdict(list)
    for one in answers:
        found[one.device, one.os].append(one)
    return found


def _find_best(answers: Sequence[Answer], settings: Collection[str]) -> Answer:
    """Returns the answer under the best of the settings that were asked for; the first if none is known."""
    is_free = not settings or "all" in settings
    allowed = [one for one in answers if is_free or one.compute_units in settings] or list(answers)
    shown = next((one for one in allowed if one.is_asked), allowed[0])
    if shown.best is None:
        return shown
    units = shown.best.compute_units
    usual = next((one for one in allowed if one.compute_units == units), None)
    return usual or min(
        allowed, key=lambda one: (one.is_hazardous, one.latency.value if one.latency else math.inf)
    )


def _judge(before: Answer | None, after: Answer | None, names: Names, *, is_best: bool) -> PairVerdict:
    """Says whether a side is faster than the base, from the two answers alone."""
    sides = (before, after)
    first = before or after
    assert first is not None
    ratio = _ratio(before, after)
    doubts = _doubts(sides, names)
    if ratio is not None and ratio.low <= 1 <= ratio.high and abs(ratio.value - 1) >= _SAME:
        doubts.append(("unclear", "the interval of the change holds no change"))
    verdict = _verdict(ratio, worst(certainty for certainty, _ in doubts))
    pair = PairVerdict(
        device=first.device,
        os=first.os,
        is_best=is_best,
        before=_choice(before),
        after=_choice(after),
        ratio=ratio,
        verdict=verdict,
        doubts=tuple(
            text for certainty in ("unknown", "unclear") for one, text in doubts if one == certainty
        ),
        hazards=tuple(_hazards(sides, names)),
    )
    return replace(pair, text=_say([pair], names))


def _choice(answer: Answer | None) -> SettingChoice | None:
    if answer is None or answer.latency is None:
        return None
    return SettingChoice(
        compute_units=answer.compute_units,
        latency=answer.latency,
        certainty=answer.trust.certainty,
        unit=main_unit(answer.units),
    )


def _doubts(sides: tuple[Answer | None, Answer | None], names: Names) -> list[Doubt]:
    """Returns what makes either side doubtful, what concerns both once."""
    held: dict[str, list[tuple[str, Certainty]]] = {}
    is_level_shared = _is_level_shared(*sides)
    for name, one in zip(names, sides, strict=True):
        if one is None:
            held.setdefault("nothing is estimated", []).append((name, "unknown"))
            continue
        for text in one.trust.doubts:
            if is_level_shared and text == FEW_FIGURES[1]:
                continue
            held.setdefault(text, []).append((name, one.trust.certainty))
    return [
        (
            worst(certainty for _, certainty in several),
            text if len(several) == len(sides) else f"{several[0][0]}: {text}",
        )
        for text, several in held.items()
    ]


def _is_level_shared(before: Answer | None, after: Answer | None) -> bool:
    """Whether published pairs say how far the ratio of two estimates for one unit of one chip is off."""
    if before is None or after is None or main_unit(before.units) != main_unit(after.units):
        return False
    return _errors(before, after) is not None


def _hazards(sides: Sequence[Answer | None], names: Names) -> Iterator[str]:
    """Yields what goes wrong on either side, with its name; what concerns both once."""
    held: dict[str, list[str]] = {}
    for name, one in zip(names, sides, strict=True):
        for hazard in () if one is None else filter(is_met, one.hazards):
            held.setdefault(hazard.text, []).append(name)
    for text, several in held.items():
        yield f"{several[0] if len(set(several)) == 1 else 'both'}: {text}"


def _verdict(ratio: Figure | None, certainty: Certainty) -> ChangeVerdict:
    if ratio is None or certainty == "unknown":
        return "unknown"
    if abs(ratio.value - 1) < _EQUAL:
        return "no change"
    if certainty == "unclear":
        return "unclear"
    if abs(ratio.value - 1) < _SAME:
        return "no change"
    return "slower" if ratio.value > 1 else "faster"


def _ratio(before: Answer | None, after: Answer | None) -> Figure | None:
    """Returns how much longer the second takes, with an 80 % interval; None where a latency is not whole."""
    if before is None or after is None or before.latency is None or after.latency is None:
        return None
    if before.is_at_least or after.is_at_least or not before.latency.value:
        return None
    was, will = before.latency, after.latency
    value = will.value / was.value
    if abs(value - 1) < _EQUAL:
        return Figure(1.0, 1.0, 1.0, "estimated")
    errors = _errors(before, after)
    if errors is None:
        low, high = will.low / was.high, will.high / was.low if was.low else math.inf
    else:
        low, high = value * math.exp(errors[0]), value * math.exp(errors[1])
    return Figure(value, low, high, "estimated")


def _errors(before: Answer, after: Answer) -> tuple[float, float] | None:
    """Returns the 80 % interval of the error of a ratio; None on two chips, and for too few pairs."""
    if before.chip != after.chip:
        return None
    units = main_unit(before.units), main_unit(after.units)
    if before.model == after.model and units[0] != units[1]:
        errors = paired_errors(before.chip[:1], *units)
        if len(errors) < _FEWEST_UNITS:
            return None
        ends = quantiles(errors, n=10, method="inclusive")
        return min(ends[0], 0.0), max(ends[-1], 0.0)
    return ratio_errors(before.chip[:1], *units)


def _say(pairs: Sequence[PairVerdict], names: Names) -> str:
    """Returns a sentence made from pairs: hazards, then what is faster where, then the worst doubt."""
    if not pairs:
        return ""
    systems = Counter(one.device for one in pairs)
    told: dict[ChangeVerdict, list[str]] = defaultdict(list)
    doubts: Counter[str] = Counter()
    for one in pairs:
        where = one.device if systems[one.device] == 1 else f"{one.device}, {one.os}"
        row = f"({_row(one, is_short=len(pairs) > _MOST_ROWS)})"
        told[one.verdict].append(f"on {where} {row}" if one.is_best else row)
        if one.verdict in ("unclear", "unknown"):
            doubts.update(one.doubts[:1])
    settings = ", each with its best setting" if pairs[0].is_best else ""
    words = "; ".join(f"{verdict} {', '.join(places)}" for verdict, places in told.items())
    hazards = dict.fromkeys(text for one in pairs for text in one.hazards)
    text = " ".join(
        [*(f"{one}." for one in hazards), f"{names[1]} against {names[0]}{settings}: estimated {words}."]
    )
    return f"{text} In doubt: {doubts.most_common(1)[0][0]}." if doubts else text


def _row(one: PairVerdict, *, is_short: bool) -> str:
    """The row of a pair: `CPU + NE 5.39 ms → all 4.70 ms, −12.8 %`."""
    if one.before is None or one.after is None:
        return "a latency is not known"
    change = "" if one.ratio is None else format_ratio(one.ratio.value)
    if is_short and change:
        return change
    at_least = "" if change else "≥ "
    before, after = (at_least + format_duration(side.latency.value) for side in (one.before, one.after))
    settings = [f"{SETTING_WORDS[side.compute_units]} " for side in (one.before, one.after)]
    if not one.is_best:  # the names of the sides say it
        settings = ["", ""]
    elif settings[0] == settings[1]:
        settings[1] = ""
    return ", ".join(filter(None, [f"{settings[0]}{before} → {settings[1]}{after}", change]))
