"""Published tokens per second of language models, beside estimates of decoders with their dimensions.

No structure of these models is stored: a decoder of the published dimensions stands for each, with the
operations that all of them have. Weights are scaled to the published size.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from coremlscope.devices import ComputeUnit, ComputeUnits, all_chips, find_device
from coremlscope.planning.cost.latency.geometry import Geometry
from coremlscope.planning.cost.latency.kernels import Kernel
from coremlscope.planning.cost.latency.kinds import KernelKind
from coremlscope.planning.cost.latency.model import estimate
from coremlscope.planning.cost.latency.work import place_kernels

__all__ = ["Rate", "kernels_of", "load_rates", "render"]

TABLE = Path(__file__).parent / "data" / "token_rates.csv"
_NUMBERS = (
    *("tokens", "context", "layers", "hidden", "heads", "kv_heads", "head_size", "inner", "vocabulary"),
    *("gated", "bits", "square", "returns_cache", "calls"),
)
_SETTINGS: dict[ComputeUnit, ComputeUnits] = {
    "cpu": "cpu_only",
    "gpu": "cpu_and_gpu",
    "neural_engine": "cpu_and_ne",
}
_UNITS = {"cpu": "CPU", "gpu": "GPU", "neural_engine": "Neural Engine"}


@dataclass(frozen=True, slots=True)
class Rate:
    """A published rate.

    Attributes:
        row: Its columns.
        size: Its dimensions, by name.
        weight_bytes: Bytes of weights that a prediction reads.
        tokens_per_s: The published rate.
    """

    row: Mapping[str, str]
    size: Mapping[str, int]
    weight_bytes: float
    tokens_per_s: float

    @property
    def unit(self) -> ComputeUnit:
        return self.row["unit"]  # type: ignore[return-value]

    def estimated(self) -> tuple[float, float, float]:
        """Returns tokens per second with the ends of the interval."""
        kernels = kernels_of(self.size, self.weight_bytes)
        work = place_kernels(kernels, [(id_, self.unit) for kernel in kernels for id_ in kernel.ops])
        device = find_device(self.row["chip"], self.row["os"].split()[-1])
        found = estimate(work, device, _SETTINGS[self.unit])
        launches = sum(terms.launch_s for terms in found.terms) * (self.size["calls"] - 1)
        ends = (found.latency.value, found.latency.high, found.latency.low)
        value, low, high = (1 / (seconds + launches) for seconds in ends)
        return value, low, high


def load_rates() -> list[Rate]:
    """Loads all published rates."""
    with TABLE.open(newline="") as file:
        return [
            Rate(
                row,
                {name: int(row[name]) for name in _NUMBERS},
                float(row["weight_bytes"]),
                float(row["tokens_per_s"]),
            )
            for row in csv.DictReader(file)
        ]


def kernels_of(size: Mapping[str, int], weight_bytes: float) -> list[Kernel]:
    """Returns the kernels of one prediction of a decoder.

    Args:
        size: Its dimensions. `square` is 1 where the rows behind attention form a map; otherwise
            they are flat. `returns_cache` is 1 where a prediction returns the whole cache, not the new rows.
        weight_bytes: Bytes of all weights, which are shared out by the number of elements.
    """
    made = [kernel for _ in range(size["layers"]) for kernel in _layer(size)]
    made += _linear(size, size["hidden"], size["vocabulary"], rows=1)
    elements = sum(kernel.weights for kernel in made)
    for place, kernel in enumerate(made):
        kernel.ops = [str(place)]
        kernel.weight_bytes = weight_bytes * kernel.weights / elements
    return made


def _layer(size: Mapping[str, int]) -> Iterator[Kernel]:
    hidden, rows, context = size["hidden"], size["tokens"], size["context"]
    queries, keys = size["heads"] * size["head_size"], size["kv_heads"] * size["head_size"]
    yield _simple("norm", rows * hidden)
    for width in (queries, keys, keys):
        yield from _linear(size, hidden, width)
    yield _simple("elementwise", rows * queries)
    yield _simple("elementwise", rows * keys)
    kept = context if size["returns_cache"] else rows
    yield _simple("copy", kept * keys)
    yield _simple("copy", kept * keys)
    scores = rows * size["heads"] * context
    macs = scores * size["head_size"]
    for read, written in (
        (rows * queries + keys * context, scores),
        (scores + keys * context, rows * queries),
    ):
        yield Kernel(
            kind="matmul",
            ops=[],
            name="",
            geometry=Geometry(macs=macs, in_channels=size["head_size"], width=rows),
            inputs=read,
            outputs=written,
        )
    yield _simple("softmax", scores)
    height = math.isqrt(rows) if size["square"] else 1
    yield from _linear(size, queries, hidden, height=height)
    yield _simple("norm", rows * hidden)
    for _ in range(1 + size["gated"]):
        yield from _linear(size, hidden, size["inner"], height=height)
    yield from _linear(size, size["inner"], hidden, height=height)


def _linear(
    size: Mapping[str, int], inner: int, outer: int, rows: int | None = None, height: int = 1
) -> list[Kernel]:
    rows = size["tokens"] if rows is None else rows
    geometry = Geometry(
        macs=rows * inner * outer,
        in_channels=inner,
        out_channels=outer,
        height=height,
        width=rows // height,
    )
    return [
        Kernel(
            kind="linear",
            ops=[],
            name="",
            geometry=geometry,
            inputs=rows * inner,
            outputs=rows * outer,
            weights=inner * outer,
        )
    ]


def _simple(kind: KernelKind, elements: int) -> Kernel:
    return Kernel(kind=kind, ops=[], name="", geometry=Geometry(), inputs=elements, outputs=elements)


def render() -> str:
    """Returns the page in Markdown."""
    rates = load_rates()
    found = [rate.estimated() for rate in rates]
    errors = [abs(value / rate.tokens_per_s - 1) for rate, (value, _, _) in zip(rates, found, strict=True)]
    inside = [low <= rate.tokens_per_s <= high for rate, (_, low, high) in zip(rates, found, strict=True)]
    lines = [
        "# Tokens per second of language models",
        "",
        "Written by `python -m benchmarks.latency calibrate`. Published rates of language models on Core ML,"
        " beside estimates of decoders with the same dimensions and weights. **None of these rates is in the"
        " fit** of the latency model. A publication includes sampling and the app around predictions;"
        " the estimates do not.",
        "",
        "| model | chip | unit | published | estimated | 80 % within | error | source |",
        "|---|---|---|---:|---:|---:|---:|---|",
    ]
    for rate, (value, low, high) in zip(rates, found, strict=True):
        name, url = rate.row["publication"], rate.row["url"]
        chip = all_chips()[rate.row["chip"]].name
        lines.append(
            f"| {rate.row['model']} | {chip} | {_UNITS[rate.unit]} | {rate.tokens_per_s:.3g}"
            f" | {value:.3g} | {low:.3g} – {high:.3g} | {value / rate.tokens_per_s - 1:+.0%}"
            f" | {f'[{name}]({url})' if url else name} |"
        )
    lines += ["", "| unit | n | median error | within the interval |", "|---|---:|---:|---:|"]
    for unit, title in _UNITS.items():
        here = [place for place, rate in enumerate(rates) if rate.unit == unit]
        median = statistics.median(errors[place] for place in here)
        share = sum(inside[place] for place in here) / len(here)
        lines.append(f"| {title} | {len(here)} | {median:.0%} | {share:.0%} |")
    lines += [
        "",
        "Most rates are estimated too high. Of those outside, Phi-3.5-mini nearly fills the memory of its"
        " Mac, and SmolLM2-135M ran 27 % of its planned cost on the CPU: neither is part of an estimate for"
        " one unit. Both models of phones that are outside read their weights at the full rate of the memory"
        " in our estimates.",
        "",
        "Remarks of the rows are in `benchmarks/latency/data/token_rates.csv`.",
    ]
    return "\n".join(lines) + "\n"
