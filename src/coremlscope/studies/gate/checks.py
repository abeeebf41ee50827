"""Checks models against limits.

A limit is kept by a figure that was compared with it, and by nothing else: the figures of the limits and of
the baseline are gone through, and one that the model does not have now is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from coremlscope.base.errors import UsageError, known_error
from coremlscope.base.figures import Figure
from coremlscope.base.units import format_bytes, format_duration
from coremlscope.describe.loading import find_load_problem
from coremlscope.devices import find_device
from coremlscope.formats import container
from coremlscope.model.ir import Model
from coremlscope.planning.forecast.assumptions import conversion_hint
from coremlscope.results.gate import (
    CheckedModel,
    CheckKind,
    CheckResult,
    FigureKind,
    Place,
    Quantity,
    Verdict,
)
from coremlscope.studies.gate.baseline import Baseline, FigureKey, read_baseline
from coremlscope.studies.gate.figures import (
    ON_DEVICES,
    FigureMaker,
    Found,
    count_operations,
    describe_place,
    name_first,
    ops_of,
)
from coremlscope.studies.gate.limits import TOLERANCE, GateLimits

_COMPRESS = "`coremlscope what-if` shows what compression brings; coreai-opt compresses Core AI models"


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of one kind of figure.

    Attributes:
        limit: The limit of it.
        name: What it is called.
        joined: The word before what it belongs to.
        quantity: What the number is.
        is_least: True if the limit is the least that is allowed.
        hint: What may help where the limit is not kept.
    """

    limit: CheckKind
    name: str
    joined: str = "of"
    quantity: Quantity
    is_least: bool = False
    hint: str = ""


_ROWS: Mapping[FigureKind, _Row] = {
    "latency": _Row(
        limit="max-latency",
        name="latency",
        joined="on",
        quantity="seconds",
        hint="`coremlscope estimate --explain` shows what it is made of, `plan` what is not on the Neural"
        " Engine",
    ),
    "neural-engine": _Row(
        limit="min-neural-engine",
        name="share on the Neural Engine",
        quantity="share",
        is_least=True,
        hint="`coremlscope plan` shows which operations are elsewhere, and why",
    ),
    "known-crash": _Row(
        limit="no-known-crash", name="number of known crashes", joined="on", quantity="operations"
    ),
    "size": _Row(limit="max-size", name="size", quantity="bytes", hint=_COMPRESS),
    "memory": _Row(limit="max-memory", name="peak memory", quantity="bytes", hint=_COMPRESS),
    "psnr": _Row(
        limit="min-psnr",
        name="PSNR",
        quantity="decibels",
        is_least=True,
        hint="`coremlscope predict --precision fp16` shows where numbers overflow",
    ),
}
_ORIGINS: Mapping[str, str] = {"estimated": "estimated at ", "planned": "planned at "}


def check_model(path: Path, limits: GateLimits) -> CheckedModel:
    """Checks a model against limits. A model that cannot be read is one with a failure.

    Args:
        path: The model.
        limits: The limits.

    Raises:
        UsageError: There is no limit, or a device, the baseline or an option is wrong.
    """
    baseline = read_baseline(limits.baseline) if limits.baseline else None
    _require(limits, baseline)
    try:
        maker = FigureMaker(container.read(path), limits)
        checks = tuple(_checks(maker, limits, baseline))
    except Exception as error:  # one model must not stop the others
        known = known_error(error, str(path))
        return CheckedModel(path=str(path), failure=known.message, hint=known.hint, exit_code=known.exit_code)
    return CheckedModel(path=str(path), size_bytes=maker.model.size_bytes, checks=checks)


def _require(limits: GateLimits, baseline: Baseline | None) -> None:
    """Checks that the limits can be checked.

    Raises:
        UsageError: They cannot.
    """
    for name in limits.all_devices:
        find_device(name, limits.os)
    if limits.is_empty:
        raise UsageError("there is no limit to check", "add for instance --max-size 20MB; see --help")
    if baseline is None and (limits.only or limits.tolerance is not None):
        raise UsageError("--only and --tolerance are about a baseline", "add --baseline main.json")
    if limits.reference and baseline is None and limits.psnr_db is None:
        raise UsageError("--reference is what --min-psnr compares with", "add --min-psnr 40")
    if not _places(limits, baseline) and (limits.neural_engine is not None or limits.no_known_crash):
        raise UsageError("the Neural Engine and known crashes are of a device", "add --device iphone-13")


def _places(limits: GateLimits, baseline: Baseline | None) -> list[Place]:
    """Returns the devices that limits hold for: those that are named, else those of the baseline."""
    if limits.all_devices or baseline is None:
        return [_place(name, limits) for name in limits.all_devices]
    known = (
        replace(place, function="", conditions="") for kind, place in baseline.figures if kind in ON_DEVICES
    )
    return [place for place in dict.fromkeys(known) if _is_meant(place, limits)]


def _place(name: str, limits: GateLimits) -> Place:
    device = find_device(name, limits.os)
    return Place(device=device.name, os=str(device.os), compute_units=limits.compute_units or "all")


def _is_meant(place: Place, limits: GateLimits) -> bool:
    """Returns whether a place of the baseline is of the system and the setting that are given, if any."""
    return limits.compute_units in (None, place.compute_units) and (
        limits.os is None or place.os == str(find_device(place.device, limits.os).os)
    )


def _checks(maker: FigureMaker, limits: GateLimits, baseline: Baseline | None) -> Iterator[CheckResult]:
    for function in limits.functions:
        maker.describe(function)
    named, before = _places(limits, baseline), _compared(limits, baseline)
    functions = limits.functions if limits.functions and maker.functions != ("",) else maker.functions
    wanted = {
        (kind, maker.made_at(kind, place, function)): limit
        for kind, place, limit in _limits(limits, named)
        for function in functions
    }
    # A model may not load on a device that no limit is of.
    places = [maker.made_at("latency", place, function) for place in named for function in functions]
    places += [place for kind, place in (*wanted, *before) if kind in ON_DEVICES]
    maker.place(dict.fromkeys(places))
    yield from _loading(maker.model, places)
    yield from _hazards_of_loading(maker)
    for (kind, place), limit in wanted.items():
        yield _check_limit(kind, place, limit, maker.find(kind, place))
    if baseline is not None:
        yield from _changes(maker, limits, baseline, before)
        yield from _absences(maker, limits, baseline, before)


def _changes(
    maker: FigureMaker, limits: GateLimits, baseline: Baseline, before: Mapping[FigureKey, float | None]
) -> Iterator[CheckResult]:
    """Yields what became of each figure of the baseline."""
    remark = baseline.remark(Path(maker.model.source or "").name)
    tolerance = TOLERANCE if limits.tolerance is None else limits.tolerance
    for (kind, place), value in before.items():
        # Reports keep the names of files alone.
        is_given = place.reference and Path(place.reference).name == Path(limits.reference).name
        now = replace(place, reference=limits.reference) if is_given else place
        yield _check_change(kind, place, value, maker.find(kind, now), tolerance, remark)


def _absences(
    maker: FigureMaker, limits: GateLimits, baseline: Baseline, before: Mapping[FigureKey, float | None]
) -> Iterator[CheckResult]:
    """Yields what is asked for, and is not in the baseline."""
    for kind in limits.only:
        if kind not in {one for one, _ in before}:
            yield _not_in_baseline(kind, Place())
    if not limits.only or {*limits.only} & {*ON_DEVICES}:
        meant = _places(replace(limits, latency_s={}, devices=()), baseline)
        known = {name for place in meant for name in ("", place.device)}
        for place in _asked(limits):
            if place.device not in known:
                yield _not_in_baseline("latency", place)
    known_functions = {place.function for _, place in baseline.figures}
    for function in limits.functions:
        if function not in known_functions and maker.functions != ("",):
            yield _not_in_baseline("memory", Place(function=function))


def _asked(limits: GateLimits) -> list[Place]:
    """Returns the devices that are named, or else the system and setting, if they are."""
    given = Place(os=limits.os or "", compute_units=limits.compute_units or "")
    return [_place(name, limits) for name in limits.all_devices] or [given] * (given != Place())


def _compared(limits: GateLimits, baseline: Baseline | None) -> Mapping[FigureKey, float | None]:
    """Returns the figures of the baseline that the model is held to."""
    figures = {} if baseline is None else baseline.figures
    return {
        (kind, place): value
        for (kind, place), value in figures.items()
        if not limits.only or kind in limits.only
        if not limits.functions or place.function in ("", *limits.functions)
    }


def _limits(limits: GateLimits, places: Sequence[Place]) -> Iterator[tuple[FigureKind, Place, float]]:
    """Yields the limits as they hold for any function."""
    for name, seconds in limits.latency_s.items():
        yield "latency", _place(name, limits), seconds
    for place in places:
        if limits.neural_engine is not None:
            yield "neural-engine", place, limits.neural_engine
        if limits.no_known_crash:
            yield "known-crash", place, 0.0
    if limits.size_bytes is not None:
        yield "size", Place(), limits.size_bytes
    if limits.memory_bytes is not None:
        yield "memory", Place(), limits.memory_bytes
    if limits.psnr_db is not None:
        yield "psnr", Place(reference=limits.reference), limits.psnr_db


def _loading(model: Model, places: Sequence[Place]) -> Iterator[CheckResult]:
    """Yields that systems do not load a model, or may not; nothing for those that do."""
    for name, system in dict.fromkeys((place.device, place.os) for place in places):
        try:
            device = find_device(name, system)
        except UsageError:  # the figures there are unknown, with this reason
            continue
        problem = find_load_problem(model, device.os)
        if problem is None:
            continue
        text = f"the model does not load on {device.name}, {device.os}: {problem.text}"
        verdict: Verdict = "unknown" if problem.needed is None else "fail"
        yield _loads(Place(device=device.name, os=system), verdict, text, conversion_hint(model, device.os))


def _hazards_of_loading(maker: FigureMaker) -> Iterator[CheckResult]:
    """Yields that a model is refused, or does not end to load, everywhere or where it is planned."""
    everywhere = [hazard for hazard in maker.hazards_everywhere if hazard.kind == "refused"]
    for place, hazards in [(Place(), everywhere), *maker.hazards.items()]:
        for hazard in hazards:
            if hazard.kind not in ("refused", "endless load"):
                continue
            where = f"loading on {describe_place('latency', place)}: " if place.device else ""
            text = " ".join([f"{where}{hazard.text}", *name_first(hazard)])
            found = _loads(place, "fail" if hazard.is_sure else "uncertain", text, hazard.fix)
            count = float(len(ops_of([hazard])))
            yield replace(found, value=Figure(count, count, count, "planned")) if where else found


def _loads(place: Place, verdict: Verdict, text: str, hint: str) -> CheckResult:
    return CheckResult(
        kind="loads",
        subject=describe_place("latency", place),
        quantity="operations",
        limit=0.0,
        value=None,
        verdict=verdict,
        text=text,
        hint=hint,
        place=place,
    )


def _check_limit(kind: FigureKind, place: Place, limit: float, found: Found) -> CheckResult:
    row, subject = _ROWS[kind], describe_place(kind, place)
    where = f" {row.joined} {subject}" if subject else ""
    verdict = _verdict(found, limit, row.is_least)
    text, hint = f"{row.name}{where} is not known", found.hint
    if verdict == "unknown":
        text += f": {found.why.rstrip('.')}" if found.why else ""
        hint = hint or "leave this limit out for this model"
    elif found.text:
        text = found.text
    elif found.value is not None:
        word = "at least" if row.is_least else "at most"
        text = (
            f"{row.name}{where} is {_ORIGINS.get(found.value.origin, '')}{_with_interval(found.value, row)}"
        )
        text += f"; the limit is {word} {format_quantity(limit, row.quantity)}"
        text += f"; unclear: {found.doubt}" if found.doubt and verdict == "uncertain" else ""
        hint = row.hint if verdict in ("fail", "uncertain") else ""
    return CheckResult(
        kind=row.limit,
        subject=subject,
        quantity=row.quantity,
        limit=limit,
        value=None if verdict == "unknown" else found.value,
        verdict=verdict,
        text=text,
        hint=hint,
        figure=kind,
        place=place,
    )


def _verdict(found: Found, limit: float, is_least: bool) -> Verdict:
    """Returns whether a figure keeps a limit; part of one can only exceed it."""
    if found.is_equal:
        return "pass"
    if found.value is None:
        return "unknown"
    sign = -1 if is_least else 1
    worst = max(sign * found.value.low, sign * found.value.high)
    if sign * found.value.value > sign * limit:
        return "fail"
    if found.why:
        return "unknown"
    return "uncertain" if worst > sign * limit else "pass"


def _with_interval(found: Figure, row: _Row) -> str:
    value, low, high = (format_quantity(one, row.quantity) for one in (found.value, found.low, found.high))
    return value if found.low == found.high else f"{value} ({low} to {high})"


def _check_change(
    kind: FigureKind, place: Place, before: float | None, found: Found, tolerance: float, note: str
) -> CheckResult:
    """Compares a figure with that of the baseline."""
    row, subject = _ROWS[kind], describe_place(kind, place)
    name = f"{row.name} {row.joined} {subject}" if subject else row.name
    sign = -1 if row.is_least else 1
    limit = 0.0 if before is None or math.isinf(before) else before + sign * tolerance * abs(before)
    verdict, is_now, change = _change(row, before, found, limit, sign)
    was = "not known" if before is None else format_quantity(before, row.quantity)
    why = f": {found.why.rstrip('.')}" if found.why else ""
    hint = found.hint or ("make the baseline again, or choose figures with --only" if before is None else "")
    if verdict == "fail":
        hint = "`coremlscope compare` shows what changed"
    value = None if verdict == "unknown" or found.value is None else found.value
    return CheckResult(
        kind="baseline",
        subject=name,
        quantity=row.quantity,
        limit=limit,
        value=None if value is None else Figure(value.value, value.value, value.value, value.origin),
        verdict=verdict,
        text=f"{name} was {was} and is {is_now}{why}{change}; the tolerance is {tolerance * 100:g} %{note}",
        hint="" if verdict == "pass" else hint,
        figure=kind,
        place=place,
    )


def _change(
    row: _Row, before: float | None, found: Found, limit: float, sign: int
) -> tuple[Verdict, str, str]:
    """Returns the verdict on a change, the figure now, and the change in percent where there is one."""
    if found.is_equal:
        return ("unknown" if before is None else "pass"), "equal", ""
    if found.value is None:
        return "unknown", "not known", ""
    now = found.value.value
    is_now = format_quantity(now, row.quantity)
    if before is None:
        return "unknown", is_now, ""
    is_worse = math.isinf(before) or sign * now > sign * limit
    verdict: Verdict = "fail" if is_worse else "unknown" if found.why else "pass"
    is_ratio = before > 0 and not math.isinf(before)
    return verdict, is_now, f", {(now / before - 1) * 100:+.1f} %" if is_ratio else ""


def _not_in_baseline(kind: FigureKind, place: Place) -> CheckResult:
    name = describe_place(kind, place) or _ROWS[kind].name
    return CheckResult(
        kind="baseline",
        subject=name,
        quantity=_ROWS[kind].quantity,
        limit=0.0,
        value=None,
        verdict="unknown",
        text=f"the baseline has no figures of {name}",
        hint="make it with --max-latency DEVICE=TIME, or by `coremlscope profile` with --device and --json",
        place=place,
    )


def format_quantity(value: float, quantity: Quantity) -> str:
    """Formats a number with its unit."""
    match quantity:
        case "seconds":
            return format_duration(value)
        case "bytes":
            return format_bytes(value)
        case "share":
            return f"{value * 100:.1f} %"
        case "decibels":
            return "equal" if value == float("inf") else f"{value:.1f} dB"
        case "operations":
            return count_operations(int(value))
