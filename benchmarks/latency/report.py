"""Renders the validation as a page and as a plot."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.latency.dataset import Measurement
from benchmarks.latency.fit import Fitted
from benchmarks.latency.intervals import coverage, unseen_spreads
from benchmarks.latency.priors import PRIORS, REFERENCES
from benchmarks.latency.validate import Errors, HeldOut, errors, noise_floor, oracle
from coremlscope.cost.latency.calibration import Spread, UnitParameters
from coremlscope.devices import NEURAL_ENGINE, ComputeUnit, all_chips


@dataclass(frozen=True, slots=True)
class Result:
    """The validation of one unit.

    Attributes:
        unit: The unit.
        whole: The fit to all measurements.
        held: The measurements with held-out estimates.
        spread: The width of the intervals.
    """

    unit: ComputeUnit
    whole: Fitted
    held: Sequence[HeldOut]
    spread: Spread


_NAMES = {"neural_engine": "Neural Engine", "cpu": "CPU", "gpu": "CPU and GPU"}
_HEAD = "| {} | n | median | p90 | bias | rank | median | p90 | bias | rank |"
_RULE = "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"


def render(results: Mapping[ComputeUnit, Result], measurements: Sequence[Measurement]) -> str:
    """Returns the page in Markdown."""
    lines = [
        "# Accuracy of the latency estimates",
        "",
        "Written by `python -m benchmarks.latency calibrate`; `make bench-latency` prints it again. Every"
        " figure compares a published measurement with an estimate from a fit from which this measurement was"
        " **held out**: in the left columns together with all measurements of the same publication, in the"
        " right columns together with all networks of the same family.",
        "",
        "*Error* is |estimate / measured - 1|; *bias* is the median of the logarithm of their ratio, so that"
        " +0.10 means estimates 10 % too high; *rank* is Spearman's correlation. The estimates assume that"
        " the unit runs the whole network.",
    ]
    for result in results.values():
        lines += ["", f"## {_NAMES[result.unit]}", "", *_unit(result, measurements)]
    lines += ["", "## Chips without measurements of their own", "", *_inherited(results)]
    lines += ["", *_others(results, measurements)]
    lines += ["", "## Limitations", "", *_caveats(results[NEURAL_ENGINE].whole.parameters)]
    lines += ["", "## Parameters", "", *_parameters(results)]
    return "\n".join(lines) + "\n"


def _unit(result: Result, measurements: Sequence[Measurement]) -> list[str]:
    held = result.held
    lines = [_HEAD.format("chip; publication held out, family held out"), _RULE]
    lines += _table(held, lambda m: all_chips()[m.chip].name)
    if result.unit == NEURAL_ENGINE:
        lines += ["", *_floor([h.measurement for h in held])]
        lines += ["", _HEAD.format("publication"), _RULE]
        lines += _table(held, lambda m: f"{m.publication}, {all_chips()[m.chip].name}")
    lines += ["", _HEAD.format("family"), _RULE, *_table(held, lambda m: m.family)]
    lines += ["", *_coverage(result)]
    return lines


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


def _coverage(result: Result) -> list[str]:
    """Returns the shares within the intervals, with the widths in use and with held-out widths."""
    lines = [
        "Share of held-out measurements within the 80 % interval: with the widths in use, and with held-out"
        " widths, which are fitted to the other publications or families only.",
        "",
        "| chip | n | publication | family | publication, held-out widths | family, held-out widths |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    by_publication = unseen_spreads(result.held, lambda m: m.publication)
    by_family = unseen_spreads(result.held, lambda m: m.family)
    for chip in ["", *sorted({h.measurement.chip for h in result.held})]:
        held = [h for h in result.held if chip in ("", h.measurement.chip)]
        cells = [
            coverage(held, lambda h: h.without_publication, lambda h: result.spread),
            coverage(held, lambda h: h.without_family, lambda h: result.spread),
            coverage(
                held, lambda h: h.without_publication, lambda h: by_publication[h.measurement.publication]
            ),
            coverage(held, lambda h: h.without_family, lambda h: by_family[h.measurement.family]),
        ]
        name = all_chips()[chip].name if chip else "all"
        shown = " | ".join("" if math.isnan(cell) else f"{cell:.0%}" for cell in cells)
        lines.append(f"| {name} | {len(held)} | {shown} |")
    return lines


def _inherited(results: Mapping[ComputeUnit, Result]) -> list[str]:
    """Returns the table of chips estimated without their own measurements."""
    lines = [
        "The errors of the estimates for a chip if all its measurements are held out, so that its parameters"
        " follow from its specification and the other chips, and the share of measurements within the"
        " interval of such a chip.",
        "",
        "| unit | chip | n | median | p90 | bias | rank | within |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for result in results.values():
        spread = replace(result.spread, by_chip={})
        for chip in sorted({h.measurement.chip for h in result.held}):
            held = [h for h in result.held if h.measurement.chip == chip]
            e = errors([h.measurement.ms for h in held], [h.without_chip for h in held])
            within = coverage(held, lambda h: h.without_chip, lambda h, s=spread: s)  # type: ignore[misc]
            lines.append(
                f"| {_NAMES[result.unit]} | {all_chips()[chip].name} | {len(held)} | {_cells(e)} |"
                f" {within:.0%} |"
            )
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
    """Returns the table of Neural Engine measurements outside the fit: of grade B, or of other chips."""
    from benchmarks.latency.dataset import load_networks
    from benchmarks.latency.fit import Estimator

    seen = {h.measurement.row for result in results.values() for h in result.held}
    rest = [m for m in measurements if m.unit == NEURAL_ENGINE and m.row not in seen]
    whole = results[NEURAL_ENGINE].whole
    estimates = Estimator(NEURAL_ENGINE, rest, load_networks()).seconds(whole.parameters) * 1e3
    lines = [
        "Measurements that are not used in any fit: of other chips, and of grade B. Estimates for these chips"
        " follow from their specification and are labelled as extrapolated. Two kinds of differences are not"
        " due to the chips: nearly all measurements of A13 are from 2020, with iOS 13 and in whole"
        " milliseconds (the estimate agrees with a later one, of MobileNetV2 1.4 with iOS 15); and most of"
        " those of A14 and that of M1 Pro are too slow for networks that stay on the Neural Engine, which the"
        " estimates here assume.",
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


def _caveats(parameters: UnitParameters) -> list[str]:
    before = parameters.dispatch_s * 1e3
    after = before * parameters.dispatch_share
    return [
        "- The form of the model was selected with these tables: about 60 forms were compared, most of them"
        " not better. Errors on new measurements will be slightly larger.",
        "- On A15, publications differ from each other more than estimates differ from them: no estimate can"
        " rank its measurements better than the oracle above.",
        "- A16 and A17 Pro were measured by one publication, on three networks. MobileNetV3-small takes 0.12"
        " to 0.22 ms there, less than other measurements of the Neural Engine, and may have run on the CPU.",
        f"- The fixed cost of a prediction is {before:.2f} ms up to A15 and {after:.2f} ms from A16 on. The"
        " data do not show whether this is due to chips, systems or tools. Networks of about a millisecond"
        " therefore gain little from A14 to A15 and from A16 to A17 Pro, and only this difference in"
        " between.",
        "- Publications differ by a factor of two on EfficientNet (0.9 to 1.7 ms for B0 on A15), and only one"
        " has measured DeiT, at nearly twice its estimate.",
        "- A13's CPU and GPU were measured once, in whole milliseconds, with iOS 13; without that publication"
        " there are very few measurements of either unit.",
    ]


def _parameters(results: Mapping[ComputeUnit, Result]) -> list[str]:
    lines = []
    for unit, result in results.items():
        lines += [
            f"{_NAMES[unit]}, for {all_chips()[REFERENCES[unit]].name}:",
            "",
            "| parameter | prior | spread | fitted | source of the prior |",
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
    """Plots estimated against measured times on logarithmic axes as SVG; lines are a factor of 1.25 apart."""
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
