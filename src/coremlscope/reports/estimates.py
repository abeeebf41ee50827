"""Estimated latencies, and the form of `estimate --json`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from coremlscope.base.units import format_duration, format_share
from coremlscope.reports.answer import answer_blocks, speed_table
from coremlscope.reports.document import (
    Block,
    Cell,
    Column,
    Heading,
    Hint,
    Table,
    Text,
    Title,
    findings,
    numbers,
)
from coremlscope.reports.figures import calibrated_on
from coremlscope.reports.generation import rate_section
from coremlscope.reports.provider import verdict_section
from coremlscope.reports.reasons import find_savings
from coremlscope.reports.terms import term_sections
from coremlscope.reports.words import BOUND_WORDS, SHORT_UNIT_NAMES, model_name, plural
from coremlscope.results.encoding import plain
from coremlscope.results.estimate import Estimate, UnitTerms
from coremlscope.results.generation import TokenRate
from coremlscope.results.profile import Profile

_COSTLIEST = 5


def estimates_document(profiles: Sequence[Profile], *, explained: bool = False) -> Iterator[Block]:
    """Yields estimates as tables: models × devices × settings, then the costliest kernels of a single one.

    Args:
        profiles: The profiles.
        explained: Shows what each estimate is made of instead of kernels.
    """
    results = [(profile, estimate) for profile in profiles for estimate in profile.estimates]
    models = list(dict.fromkeys(profile.model.path for profile in profiles))
    yield Title("Estimated latency of one prediction", model_name(models[0]) if len(models) == 1 else "")
    if len(profiles) == 1:
        yield from answer_blocks(profiles[0], is_brief=True)
    else:
        yield from speed_table([one for profile in profiles for one in profile.answers], several=True)
    for profile in profiles:
        yield from verdict_section(profile)
    yield from _notes(results)
    yield from rate_section([rate for profile in profiles for rate in profile.rates])
    if explained:
        yield from term_sections(estimate for _, estimate in results)
    elif len(results) == 1:
        yield from _kernels(*results[0])
    yield from findings(dict.fromkeys(finding for profile in profiles for finding in profile.findings))
    explain = "" if explained else "--explain, "
    yield Hint(f"more: {explain}--compute-units every, --json -; `coremlscope plan MODEL --device NAME`")


def _notes(results: Sequence[tuple[Profile, Estimate]]) -> Iterator[Block]:
    """Yields what marks mean, what estimates leave out and what else they say."""
    own = (calibrated_on(estimate) for _, estimate in results)
    yield from (Text(f"† {text}") for text in dict.fromkeys(own) if text)
    for text in dict.fromkeys(_left_out(profile, estimate) for profile, estimate in results):
        if text:
            yield Text(text, "warning")
    for _, estimate in results:
        of = f"{estimate.device}, {estimate.compute_units}: " if len(results) > 1 else ""
        yield from (Text(of + text) for text in estimate.notes)
    note = "estimated from published latencies, not measured; assumes that nothing else runs on the device"
    yield Text(note if results else "no estimate")


def _left_out(profile: Profile, estimate: Estimate) -> str:
    """Names the operations that the estimate does not include."""
    if not estimate.left_out:
        return ""
    name = Path(profile.model.path).stem
    return f"{name + ' ' if name else ''}at least, without {', '.join(estimate.left_out)}: unknown"


def _kernels(profile: Profile, e: Estimate) -> Iterator[Block]:
    rows = _costliest(profile, e)
    if rows:
        yield Heading(
            "The costliest kernels", f"{len(e.kernel_s)} in all, {plural(e.switches, 'change')} of unit"
        )
        columns = (
            Column("kernel", most=36, is_code=True),
            Column("kind", style="cyan", rank=2),
            Column("operations", is_number=True, rank=1),
            Column("unit"),
            *numbers("estimate", "share"),
            Column("waits for", rank=1),
        )
        yield Table(columns, [_kernel_row(profile, e, index) for index in rows])
    parts: list[tuple[Cell, ...]] = [
        (name, format_duration(s), format_share(s / e.latency.value), s / e.latency.value)
        for name, s in e.parts.items()
        if s
    ]
    if parts:
        yield Heading("Where the time goes")
        columns = (Column("waiting for"), *numbers("estimate", "share"), Column("", style="cyan", rank=1))
        yield Table(columns, parts)


def _costliest(profile: Profile, e: Estimate) -> list[int]:
    """The kernels that take longest, as indices."""
    order = sorted(range(len(e.kernel_s)), key=lambda index: -e.kernel_s[index])
    return order[:_COSTLIEST] if profile.kernels_of(e) else []


def _kernel_row(profile: Profile, e: Estimate, index: int) -> tuple[str, ...]:
    kernel, seconds = profile.kernels_of(e)[index], e.kernel_s[index]
    return (
        kernel.name,
        kernel.kind,
        str(len(kernel.ops)),
        SHORT_UNIT_NAMES[e.units[e.kernel_unit[index]]],
        format_duration(seconds),
        format_share(seconds / e.latency.value),
        BOUND_WORDS[e.kernel_bound[index]],
    )


def estimates_to_json(profiles: Sequence[Profile]) -> list[dict[str, Any]]:
    """Estimates as plain values, one for every model, device and setting."""
    return [_to_json(profile, estimate) for profile in profiles for estimate in profile.estimates]


def _to_json(profile: Profile, e: Estimate) -> dict[str, Any]:
    ends = {name: getattr(e.latency, name) * 1e3 for name in ("value", "low", "high")}
    return {
        "model": profile.model.path,
        "device": e.device,
        "chip": e.chip,
        "os": e.os,
        "compute_units": e.compute_units,
        "origin": e.latency.origin,
        "basis": e.basis,
        "own_measurements": None if e.own is None else plain(e.own),
        "latency_ms": ends,
        "frames_per_second": e.per_second,
        "bound": e.bound,
        "parts_ms": {name: seconds * 1e3 for name, seconds in e.parts.items()},
        "placement": dict(e.placement),
        "switches": e.switches,
        "terms_ms": [_terms_to_json(terms) for terms in e.terms],
        "left_out": list(e.left_out),
        "left_out_share": e.left_out_share,
        "is_at_least": e.is_at_least,
        "notes": list(e.notes),
        "kernels": [_kernel_to_json(profile, e, index) for index in _costliest(profile, e)],
        "load": None if e.load is None else plain(e.load),
        "near": [plain(row) for row in e.near],
        "savings": _savings_to_json(profile, e),
        "tokens_per_second": [plain(rate) for rate in profile.rates if _is_of(rate, e)],
    }


def _savings_to_json(profile: Profile, e: Estimate) -> list[dict[str, Any]]:
    """The reasons without which a prediction would take less time, with the ids of their operations."""
    view = profile.view_of(e)
    if view is None:
        return []
    ops = view.plan.ops
    return [{**plain(one), "ops": [ops[place].id for place in one.ops]} for one in find_savings(view)]


def _is_of(rate: TokenRate, e: Estimate) -> bool:
    return (rate.device, rate.os, rate.compute_units) == (e.device, e.os, e.compute_units)


def _terms_to_json(terms: UnitTerms) -> dict[str, Any]:
    """The terms of a unit in milliseconds: `launch`, `compute`, …."""
    return {
        name.removesuffix("_s"): value * 1e3 if name.endswith("_s") else value
        for name, value in plain(terms).items()
    }


def _kernel_to_json(profile: Profile, e: Estimate, index: int) -> dict[str, Any]:
    kernel = profile.kernels_of(e)[index]
    return {
        "name": kernel.name,
        "kind": kernel.kind,
        "operations": [profile.ops.id[row] for row in kernel.ops],
        "unit": e.units[e.kernel_unit[index]],
        "ms": e.kernel_s[index] * 1e3,
        "bound": e.kernel_bound[index],
    }
