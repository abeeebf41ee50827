"""Renders the validation as a page and as a plot."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.latency import core_ai
from benchmarks.latency.by_date import Scored, render_by_date
from benchmarks.latency.dataset import Measurement, load_networks
from benchmarks.latency.fit import Estimator, Fitted
from benchmarks.latency.intervals import coverage, unseen_spreads
from benchmarks.latency.planned import PlannedEstimate, render_planned
from benchmarks.latency.priors import UnitPriors
from benchmarks.latency.validate import KINDS, Errors, HeldOut, errors, kind_of, noise_floor, oracle
from coremlscope.devices import NEURAL_ENGINE, ComputeUnit, all_chips
from coremlscope.planning.cost.latency.calibration import Spread


@dataclass(frozen=True, slots=True)
class Result:
    """The validation of one unit.

    Attributes:
        unit: The unit.
        known: The priors.
        whole: The fit to all measurements.
        rows: The measurements of the fit.
        held: The measurements with held-out estimates.
        without_kind: The same with estimates from fits without any network of their kind.
        spread: The width of the intervals.
    """

    unit: ComputeUnit
    known: UnitPriors
    whole: Fitted
    rows: Sequence[Measurement]
    held: Sequence[HeldOut]
    without_kind: Sequence[HeldOut]
    spread: Spread


_NAMES = {"neural_engine": "Neural Engine", "cpu": "CPU", "gpu": "CPU and GPU"}
_COLUMNS = "n | median | p90 | bias | rank | within | within, held-out widths |"
_RULE = "|---|---:|---:|---:|---:|---:|---:|---:|"
_MACS = "Macs and iPads (M)"


def render(
    results: Mapping[ComputeUnit, Result],
    scored: Mapping[ComputeUnit, Sequence[Scored]],
    measurements: Sequence[Measurement],
    planned: Sequence[PlannedEstimate] = (),
) -> str:
    """Returns the page in Markdown."""
    lines = [
        "# Accuracy of the latency estimates",
        "",
        "Written by `make bench-latency ARGS=calibrate` from the rows in `tests/data/latency/rows.csv`:"
        " published latencies, each with its source, date, grade, device, system, setting and statistic.",
        "",
        "## Each publication by those before it",
        "",
        "Every publication is scored by a fit of the publications dated before it, as a reader of that day"
        " would have been told. The widths of the intervals follow from the errors up to then. A date is that"
        " of the paper or page, or of the newest system that a row names. **The form of the model was chosen"
        " with all of these rows known**, so rows of publications to come may be farther off. Networks of"
        " MobileCLIP enter no fit. The estimates assume that the unit runs the whole network.",
        "",
        *render_by_date(scored),
        "",
        "## Held out",
        "",
        "The following tables compare measurements with estimates from a fit of all others, later ones among"
        " them, without the publication and without all networks of its family.",
        "",
        "*Error* is |estimate / measured - 1|; *bias* is the median of the logarithm of their ratio, so that"
        " +0.10 means estimates 10 % too high; *rank* is Spearman's correlation; *within* is the share of"
        " measurements within the 80 % interval, with the widths in use and with widths fitted to the other"
        " publications only.",
        "",
        "The fit is hierarchical: constants belong to a reference chip, from which other chips scale them by"
        " their specifications; all measurements of a publication on a chip share an offset, a random effect."
        " SciPy's trust-region least squares finds the mode of the posterior with a robust loss (Huber)."
        " Intervals are conformal: their widths are quantiles of held-out errors. No chip has a narrower one"
        " than publications differ by elsewhere, a standard deviation of 0.17, or 0.2 where fewer than three"
        " measured it. So A14 and M1, whose publications agree, are within more often than in 80 % of the"
        " cases.",
    ]
    for result in results.values():
        lines += ["", f"## {_NAMES[result.unit]}", "", *_unit(result)]
    lines += render_planned(planned)
    lines += ["", "## Not in any fit", "", *_others(results, measurements)]
    lines += ["", "## Core AI", "", core_ai.render(core_ai.load_rows())]
    lines += ["", "## Limitations", "", *_CAVEATS]
    lines += ["", "## Constants", "", *_parameters(results)]
    return "\n".join(lines) + "\n"


def _unit(result: Result) -> list[str]:
    held = result.held
    unseen = unseen_spreads(held, lambda m: m.publication)

    def table(title: str, key: Callable[[Measurement], str]) -> list[str]:
        groups = sorted({key(h.measurement) for h in held})
        rows = [
            _row(group, [h for h in held if key(h.measurement) == group], result.spread, unseen)
            for group in groups
        ]
        return [f"| {title} | {_COLUMNS}", _RULE, *rows]

    chips = all_chips()
    lines = [*table("chips", lambda m: _MACS if m.chip.startswith("m") else "iPhones and iPads (A)")]
    lines += ["", *table("chip", lambda m: chips[m.chip].name)]
    if result.unit == NEURAL_ENGINE:
        lines += ["", *_floor([h.measurement for h in held])]
    lines += ["", *table("publication, chip", lambda m: f"{m.publication}, {chips[m.chip].name}")]
    lines += ["", *table("family of networks", lambda m: m.family)]
    lines += ["", *_without_kind(result)]
    known = ", ".join(chips[chip].name for chip in result.spread.calibrated)
    return [*lines, "", f"Chips with three publications of several families: {known or 'none'}."]


def _without_kind(result: Result) -> list[str]:
    """Returns the table of estimates from fits without any network of the kind, by kind and by system."""

    def system(h: HeldOut) -> str:
        return str(h.measurement.release).partition(".")[0]

    held = result.without_kind
    groups = {name: [h for h in held if kind_of(h.measurement) == name] for name in KINDS}
    groups |= {name: [h for h in held if system(h) == name] for name in sorted(map(system, held))}
    lines = [
        "From fits without the publication and without any network of the kind, as for a network unlike"
        " all that were measured:",
        "",
        "| kind of networks, or system | n | median | p90 | bias | rank | within |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, group in (("all", held), *groups.items()):
        if group:
            e = errors([h.measurement.ms for h in group], [h.ms for h in group])
            inside = coverage(group, lambda h: result.spread)
            lines.append(f"| {name} | {len(group)} | {_cells(e)} | {inside:.0%} |")
    return lines


def _row(name: str, held: Sequence[HeldOut], spread: Spread, unseen: Mapping[str, Spread]) -> str:
    e = errors([h.measurement.ms for h in held], [h.ms for h in held])
    shares = (
        coverage(held, lambda h: spread),
        coverage(held, lambda h: unseen[h.measurement.publication]),
    )
    return f"| {name} | {len(held)} | {_cells(e)} | {shares[0]:.0%} | {shares[1]:.0%} |"


def _cells(e: Errors) -> str:
    rank = "" if math.isnan(e.rank) else f"{e.rank:.3f}"
    return f"{e.median:.1%} | {e.p90:.1%} | {e.bias:+.2f} | {rank}"


def _floor(measurements: Sequence[Measurement]) -> list[str]:
    """Returns the table of the lowest errors that estimates can have."""
    lines = [
        "The differences between publications, for networks with several: the error of one with respect to"
        " the median of the others; and the error of an oracle that estimates for each network the median of"
        " all its publications, which is exact for networks with a single figure.",
        "",
        "| chip | n | median | p90 | rank | n, oracle | median | p90 | rank |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for chip in ("a14", "a15"):
        floor, best = noise_floor(measurements, chip), oracle(measurements, chip)
        if floor and best:
            cells = [f"{e.count} | {e.median:.1%} | {e.p90:.1%} | {e.rank:.3f}" for e in (floor, best)]
            lines.append(f"| {all_chips()[chip].name} | {' | '.join(cells)} |")
    return lines


def _others(results: Mapping[ComputeUnit, Result], measurements: Sequence[Measurement]) -> list[str]:
    """Returns the table of Neural Engine measurements outside the fit."""
    seen = {h.measurement.row for result in results.values() for h in result.held}
    rest = [m for m in measurements if m.ran_on == NEURAL_ENGINE and m.row not in seen]
    result = results[NEURAL_ENGINE]
    estimator = Estimator(NEURAL_ENGINE, result.known.reference, rest, load_networks())
    estimates = estimator.seconds(result.whole.parameters) * 1e3
    lines = [
        "Measurements of the Neural Engine that are not used in any fit: of A13, and those of phones of grade"
        " B. Nearly all measurements of A13 are from 2020, with iOS 13 and in whole milliseconds; most of"
        " those of A14 are of transformers on systems before iOS 16.",
        "",
        "| chip | n | median | p90 | bias | rank |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for chip in sorted({m.chip for m in rest}):
        places = [place for place, m in enumerate(rest) if m.chip == chip]
        e = errors([rest[p].ms for p in places], [float(estimates[p]) for p in places])
        lines.append(f"| {all_chips()[chip].name} | {e.count} | {_cells(e)} |")
    return lines


_CAVEATS = [
    "- The form of the model was selected with these tables. Errors on new measurements will be slightly"
    " larger.",
    "- On A15, publications differ from each other more than estimates differ from them: no estimate can"
    " rank its measurements better than the oracle above.",
    "- A16 and A17 Pro were measured by one publication, on three networks. MobileNetV3-small takes 0.12"
    " to 0.22 ms there, less than other measurements of the Neural Engine, and may have run on the CPU.",
    "- The launch of the Neural Engine is shorter from A16 on. The data do not show whether this is due to"
    " chips, systems or tools.",
    "- CPUs and GPUs of phones use the constants of Macs. On CPUs this rests on three publications (U2-Net on"
    " A13, convolutions on A15, YOLO26n on A19 Pro); other phones have intervals of at least a factor of"
    " 1.7. The CPU of A13 with iOS 13 takes two to three times as long, and is in no fit.",
    "- No step of CPUs between systems is in the model. Before iOS 26 and macOS 26, four publications say"
    " opposite things: with iOS 13 and in a simulator of macOS 12 networks take twice the estimated time,"
    " DenseNet on macOS 12 and 13 1.0 to 1.4 times as long, convolutions on iOS 16 as long. A factor of 0.8"
    " for all of them explains 2 % of the error. So intervals of CPUs and GPUs are wider there instead,"
    " by what publications of older systems are off.",
    "- An M3 Pro is estimated slower than an M2 Pro on the CPU, because its six performance cores share one"
    " unit for matrix products, and the eight of an M2 Pro have two. Nothing published measured it.",
    "- Products of heads are computed with rows of 64 bytes on the Neural Engine. Whisper on macOS 13 agrees"
    " with that, on M1 Pro and M2. laya-multilingual on M5 Pro does not; the structure of its head is a"
    " guess.",
    "- UForm's image encoders stand for vision transformers of their sizes (ViT-S/16, ViT-B/16, ViT-L/14),"
    " which its repository does not name. On the Neural Engine of an iPad with M4 they are estimated too"
    " slow, on its GPU too fast: other figures of GPUs of M4 are as slow, and those of M4 Pro are not.",
    "- GPUs that are idle between predictions run at a low clock, and take several times as long; such"
    " measurements are left out.",
    "- Two effects of systems are in the model: the Neural Engine rearranges tensors and computes attention"
    " faster on macOS 26 than on macOS 13, which nothing published dates more exactly; both are taken to"
    " begin with macOS 14 and iOS 17. Batches in attention were measured by one publication only."
    " Others are not separated from those of chips: DenseNet became 1.5 times as fast on one M1 Max from"
    " macOS 12 to 13, and Whisper takes 0.55 to 0.63 times as long on an M1 Ultra with macOS 26 as on an M1"
    " Pro with macOS 13.",
    "- Where a publication names no system, that of phones counts as iOS 16 and that of Macs as macOS 26."
    " MobileCLIP counts as iOS 17, which the app published with it requires; its figures name none. As iOS"
    " 16, the median error of its seven rows is 29 %, and three are within.",
    "- Times that were measured from Python include the call: MiniLM takes 0.9 to 1.4 ms longer on each unit"
    " of an M1 Max than estimated.",
    "- For convolutional and mixed networks on the CPU of an M1, a simulator of iOS on macOS 12 is the only"
    " evidence beside DenseNet (darkasevgen/Backbone-Runtime, not in the fit). It takes 2.0 to 2.6 times as"
    " long as estimated for each of MobileNetV2, MobileNetV3, EfficientNet-B0 and three sizes of MobileViT:"
    " their ratios agree with the estimates.",
]


def _parameters(results: Mapping[ComputeUnit, Result]) -> list[str]:
    lines = []
    for unit, result in results.items():
        lines += [
            f"{_NAMES[unit]}, for {all_chips()[result.known.reference].name}, from {len(result.rows)}"
            f" measurements of {len({m.publication for m in result.rows})} publications:",
            "",
            "| constant | prior | spread | fitted | spread | source of the prior |",
            "|---|---:|---:|---:|---:|---|",
        ]
        for name, prior in result.known.priors.items():
            before = f"{prior.spread:g}" if prior.spread else "fixed"
            after = f"{result.whole.spreads[name]:.2f}" if prior.spread else ""
            fitted = getattr(result.whole.parameters, name)
            lines.append(
                f"| `{name}` | {prior.value:.3g} | {before} | {fitted:.3g} | {after} | {prior.source} |"
            )
        lines.append("")
    return lines[:-1]


_SIDE, _EDGE = 480, 44
_COLORS = {"a14": "#1f77b4", "a15": "#ff7f0e", "a16": "#2ca02c", "a17-pro": "#d62728"}


def draw(held: Sequence[HeldOut]) -> str:
    """Plots estimated against measured times on logarithmic axes as SVG; lines are a factor of 1.25 apart."""
    values = [v for h in held for v in (h.measurement.ms, h.ms) if v == v]
    low, high = math.log(min(values) * 0.8), math.log(max(values) * 1.25)

    def at(ms: float) -> float:
        return _EDGE + (math.log(ms) - low) / (high - low) * (_SIDE - 2 * _EDGE)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIDE} {_SIDE}" font-family="sans-serif"'
        ' font-size="11"><rect width="100%" height="100%" fill="white"/>'
    ]
    first, last = math.exp(low), math.exp(high)
    for factor in (0.8, 1.0, 1.25):
        x1, x2 = max(first, first / factor), min(last, last / factor)
        parts.append(
            f'<line x1="{at(x1):.1f}" y1="{_SIDE - at(x1 * factor):.1f}" x2="{at(x2):.1f}"'
            f' y2="{_SIDE - at(x2 * factor):.1f}" stroke="#bbb"/>'
        )
    parts += [
        f'<text x="{at(tick):.1f}" y="{_SIDE - 28}" text-anchor="middle">{tick:g}</text>'
        f'<text x="34" y="{_SIDE - at(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
        for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
        if first < tick < last
    ]
    for h in held:
        color = _COLORS.get(h.measurement.chip, "#777")
        parts.append(
            f'<circle cx="{at(h.measurement.ms):.1f}" cy="{_SIDE - at(h.ms):.1f}" r="3"'
            f' fill="{color}" fill-opacity="0.55"><title>{h.measurement.network} on'
            f" {all_chips()[h.measurement.chip].name}: {h.measurement.ms:g} ms measured,"
            f" {h.ms:.2f} ms estimated</title></circle>"
        )
    for place, (chip, color) in enumerate(_COLORS.items()):
        parts.append(f'<text x="56" y="{60 + 14 * place}" fill="{color}">{all_chips()[chip].name}</text>')
    parts.append(
        f'<text x="{_SIDE / 2}" y="{_SIDE - 10}" text-anchor="middle">measured, ms</text>'
        f'<text x="12" y="{_SIDE / 2}" text-anchor="middle" transform="rotate(-90 12 {_SIDE / 2})">'
        "estimated without the publication, ms</text></svg>"
    )
    return "\n".join(parts) + "\n"
