"""The validation as a page and as a drawing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.latency.dataset import Measurement
from benchmarks.latency.fit import Fitted
from benchmarks.latency.priors import PRIORS, REFERENCES
from benchmarks.latency.validate import Errors, HeldOut, coverage, errors, noise_floor
from coremlscope.cost.calibration import Spread
from coremlscope.devices import NEURAL_ENGINE, ComputeUnit, all_chips


@dataclass(frozen=True, slots=True)
class Result:
    """What the validation of one unit found.

    Attributes:
        unit: The unit.
        whole: The fit to all measurements.
        held: The measurements with estimates that did not see them.
        by_family: The spread as estimates without the family show it.
        by_publication: The spread as estimates without the publication show it.
    """

    unit: ComputeUnit
    whole: Fitted
    held: Sequence[HeldOut]
    by_family: Spread
    by_publication: Spread

    @property
    def spread(self) -> Spread:
        """The wider of both, chip by chip: what an estimate of an unseen network is shown with."""
        one, other = self.by_publication, self.by_family
        wide = one if one.base + 0.3 * one.unusual >= other.base + 0.3 * other.unusual else other
        chips = {chip: max(one.by_chip[chip], other.by_chip[chip]) for chip in one.by_chip}
        return Spread(wide.base, wide.unusual, chips, wide.extrapolated, wide.mixed)


_NAMES = {"neural_engine": "Neural Engine", "cpu": "CPU", "gpu": "CPU and GPU"}
_HEAD = "| {} | n | median | p90 | bias | rank | median | p90 | bias | rank |"
_RULE = "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"


def render(results: Mapping[ComputeUnit, Result], measurements: Sequence[Measurement]) -> str:
    """The page in Markdown."""
    lines = [
        "# How good the latency estimates are",
        "",
        "Written by `python -m benchmarks.latency calibrate`; `make bench-latency` prints it anew. Every"
        " figure compares a published measurement with an estimate by a fit that did **not see it**: on the"
        " left without everything that the same publication measured, on the right without all networks of"
        " the same family. No figure is an estimate of what it was fitted to.",
        "",
        "*Error* is |estimate / measured - 1|; *bias* is the median of the logarithm of their ratio, so that"
        " +0.10 means estimates 10 % too high; *rank* is Spearman's correlation. The estimates assume that"
        " the unit runs the whole network.",
    ]
    for result in results.values():
        lines += ["", f"## {_NAMES[result.unit]}", "", *_unit(result, measurements)]
    lines += ["", "## Chips without measurements of their own", "", *_others(results, measurements)]
    lines += ["", "## Parameters", "", *_parameters(results)]
    return "\n".join(lines) + "\n"


def _unit(result: Result, measurements: Sequence[Measurement]) -> list[str]:
    held = result.held
    lines = [_HEAD.format("chip; without its publication, without its family"), _RULE]
    lines += _table(held, lambda m: all_chips()[m.chip].name)
    if result.unit == NEURAL_ENGINE:
        lines += ["", "What publications differ by among themselves, on networks that several measured:", ""]
        lines += ["| chip | n | median | p90 |", "|---|---:|---:|---:|"]
        for chip in ("a14", "a15"):
            floor = noise_floor([h.measurement for h in held], chip)
            if floor:
                lines.append(
                    f"| {all_chips()[chip].name} | {floor.count} | {floor.median:.1%} | {floor.p90:.1%} |"
                )
        lines += ["", _HEAD.format("publication"), _RULE]
        lines += _table(held, lambda m: f"{m.publication}, {all_chips()[m.chip].name}")
    lines += ["", _HEAD.format("family"), _RULE, *_table(held, lambda m: m.family)]
    lines += ["", *_coverage(result)]
    return lines


def _coverage(result: Result) -> list[str]:
    lines = [
        "Share of held-out measurements within the 80 % interval. The crossed columns take the widths from"
        " one kind of holding out and check them on the other.",
        "",
        "| chip | n | as shown, publication | as shown, family | crossed, publication | crossed, family |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    chips = ["", *sorted({h.measurement.chip for h in result.held})]
    for chip in chips:
        held = [h for h in result.held if chip in ("", h.measurement.chip)]
        cells = [
            coverage(held, [h.without_publication for h in held], result.spread),
            coverage(held, [h.without_family for h in held], result.spread),
            coverage(held, [h.without_publication for h in held], result.by_family),
            coverage(held, [h.without_family for h in held], result.by_publication),
        ]
        name = all_chips()[chip].name if chip else "all"
        shown = " | ".join("" if math.isnan(cell) else f"{cell:.0%}" for cell in cells)
        lines.append(f"| {name} | {len(held)} | {shown} |")
    return lines


def _table(held: Sequence[HeldOut], key: Callable[[Measurement], str]) -> Iterable[str]:
    groups = sorted({key(h.measurement) for h in held})
    for group in groups:
        rows = [h for h in held if key(h.measurement) == group]
        measured = [h.measurement.ms for h in rows]
        left = errors(measured, [h.without_publication for h in rows])
        right = errors(measured, [h.without_family for h in rows])
        yield f"| {group} | {len(rows)} | {_cells(left)} | {_cells(right)} |"


def _cells(e: Errors) -> str:
    if not e.count:
        return " | ".join([""] * 4)
    rank = "" if math.isnan(e.rank) else f"{e.rank:.3f}"
    return f"{e.median:.1%} | {e.p90:.1%} | {e.bias:+.2f} | {rank}"


def _others(results: Mapping[ComputeUnit, Result], measurements: Sequence[Measurement]) -> list[str]:
    """Measurements of the Neural Engine that no fit has seen: of grade B, or of other chips."""
    from benchmarks.latency.dataset import load_networks
    from benchmarks.latency.fit import Estimator

    seen = {h.measurement.row for result in results.values() for h in result.held}
    rest = [m for m in measurements if m.unit == NEURAL_ENGINE and m.row not in seen]
    whole = results[NEURAL_ENGINE].whole
    estimates = Estimator(NEURAL_ENGINE, rest, load_networks()).seconds(whole.parameters) * 1e3
    lines = [
        "Measurements that no fit has seen: of other chips, and of grade B. Estimates for these chips"
        " come from their specification and are labelled as extrapolated. Two things are not the "
        "chips' doing: nearly all of A13's are of 2020, with iOS 13 and in whole milliseconds (a "
        "later one, of MobileNetV2 1.4 with iOS 15, is met); and most of A14's and that of M1 Pro are"
        " too slow for networks that stay on the Neural Engine, which the estimates here assume.",
        "",
        "| chip | n | median | p90 | bias |",
        "|---|---:|---:|---:|---:|",
    ]
    for chip in sorted({m.chip for m in rest}):
        places = [place for place, m in enumerate(rest) if m.chip == chip]
        e = errors([rest[p].ms for p in places], [float(estimates[p]) for p in places])
        lines.append(
            f"| {all_chips()[chip].name} | {e.count} | {e.median:.1%} | {e.p90:.1%} | {e.bias:+.2f} |"
        )
    return lines


def _parameters(results: Mapping[ComputeUnit, Result]) -> list[str]:
    lines = []
    for unit, result in results.items():
        lines += [
            f"{_NAMES[unit]}, as on {all_chips()[REFERENCES[unit]].name}:",
            "",
            "| parameter | before | spread | fitted | where the first is from |",
            "|---|---:|---:|---:|---|",
        ]
        for name, prior in PRIORS[unit].items():
            spread = f"{prior.spread:g}" if prior.spread else "fixed"
            fitted = getattr(result.whole.parameters, name)
            lines.append(f"| `{name}` | {prior.value:.3g} | {spread} | {fitted:.3g} | {prior.source} |")
        lines.append("")
    return lines[:-1]


_SIDE, _EDGE = 480, 44
_COLORS = {"a14": "#1f77b4", "a15": "#ff7f0e", "a16": "#2ca02c", "a17-pro": "#d62728"}


def draw(held: Sequence[HeldOut]) -> str:
    """Measured against estimated, both logarithmic, as SVG; the lines are a factor of 1.25 apart."""
    values = [v for h in held for v in (h.measurement.ms, h.without_publication) if v == v]
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
            f'<circle cx="{at(h.measurement.ms):.1f}" cy="{_SIDE - at(h.without_publication):.1f}" r="3"'
            f' fill="{color}" fill-opacity="0.55"><title>{h.measurement.network} on'
            f" {all_chips()[h.measurement.chip].name}: {h.measurement.ms:g} ms measured,"
            f" {h.without_publication:.2f} ms estimated</title></circle>"
        )
    for place, (chip, color) in enumerate(_COLORS.items()):
        parts.append(f'<text x="56" y="{60 + 14 * place}" fill="{color}">{all_chips()[chip].name}</text>')
    parts.append(
        f'<text x="{_SIDE / 2}" y="{_SIDE - 10}" text-anchor="middle">measured, ms</text>'
        f'<text x="12" y="{_SIDE / 2}" text-anchor="middle" transform="rotate(-90 12 {_SIDE / 2})">'
        "estimated without the publication, ms</text></svg>"
    )
    return "\n".join(parts) + "\n"
