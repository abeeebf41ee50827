"""Compares our plans with the published ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.plan.cases import GROUPS, build
from benchmarks.plan.edgetpu import network
from benchmarks.plan.published import DumpRow, read_context, read_dump, read_support
from coremlscope.devices import NEURAL_ENGINE, ComputeUnit, Device, find_device
from coremlscope.model.ir import Model
from coremlscope.planning.cost.planned.rates import RateTable
from coremlscope.planning.forecast.planner import place_functions
from coremlscope.planning.placement.backend import BACKENDS, UNIT_OF
from coremlscope.planning.placement.place import PlacedFunction
from coremlscope.results.plan import PlannedOp

__all__ = ["Agreement", "compare_context", "compare_network", "compare_support"]

#: Tolerance for the relative error of the planned cost of a memory-bound operation.
_CLOSE = 0.01


@dataclass
class Agreement:
    """The number of published facts that our plans reproduce.

    Attributes:
        name: The subject of the comparison.
        right: Number of facts that are reproduced.
        total: Number of facts.
        misses: One line for each fact that is not reproduced.
        notes: Further remarks.
    """

    name: str
    right: int = 0
    total: int = 0
    misses: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def count(self, is_right: bool, miss: str) -> None:
        """Counts one fact, and lists `miss` if it is not reproduced."""
        self.total += 1
        self.right += is_right
        if not is_right:
            self.misses.append(miss)

    @property
    def share(self) -> float:
        """The share of facts that are reproduced."""
        return self.right / self.total if self.total else math.nan


def compare_network(rates: RateTable | None = None) -> list[Agreement]:
    """Compares with the M1's dump: selected backends, costs except convolutions, rejections.

    Args:
        rates: The rates behind our costs; by default those of the M1.
    """
    placed = place_functions(network(), find_device("m1", "14.5"), rates=rates)
    (function,) = placed.values()
    rows = read_dump()
    if [row.type for row in rows] != [op.type for op in function.ops]:
        raise SystemExit("the network of the corpus does not have the operations of the dump")
    pairs = list(zip(rows, function.ops, strict=True))
    return [_selections(pairs), *_costs(pairs), _rejections(pairs)]


def _selections(pairs: Sequence[tuple[DumpRow, PlannedOp]]) -> Agreement:
    found = Agreement("M1 · selected backend (both CPU backends count as CPU)")
    exact = 0
    for row, op in pairs:
        ours = op.choices["all"].backend
        exact += ours == row.selected
        same = op.choices["all"].unit == UNIT_OF[row.selected]
        found.count(same, f"{row.name}: {row.selected}, ours {ours}")
    found.notes.append(f"same backend: {exact} of {len(pairs)}")
    return found


def _costs(pairs: Sequence[tuple[DumpRow, PlannedOp]]) -> list[Agreement]:
    agreements = []
    for backend in BACKENDS:
        found = Agreement(f"M1 · planned cost on {backend} within 1 %, without convolutions")
        for row, op in pairs:
            if row.type == "conv" or backend not in row.costs_ms:
                continue
            theirs = row.costs_ms[backend]
            ours = op.cost_ms.get(backend, math.nan)
            found.count(abs(ours - theirs) <= _CLOSE * theirs, f"{row.name}: {theirs} ms, ours {ours} ms")
        agreements.append(found)
    return agreements


def _rejections(pairs: Sequence[tuple[DumpRow, PlannedOp]]) -> Agreement:
    found = Agreement("M1 · the Neural Engine's rejections, with Core ML's message among the reasons")
    for row, op in pairs:
        supported = op.supported[NEURAL_ENGINE]
        if row.message:
            said = [reason.core_ml for reason in op.why if reason.unit == NEURAL_ENGINE]
            found.count(
                row.message.rstrip(".") in {text.rstrip(".") for text in said},
                f"{row.name}: {row.message}, ours {said}",
            )
        else:
            found.count(supported == "yes", f"{row.name}: runs, ours {supported}")
    return found


def compare_support() -> list[Agreement]:
    """Compares with the M4's models of one operation: the units that support all of their operations."""
    device = find_device("m4", "27")
    engine = Agreement("M4 · Neural Engine supports the model")
    gpu = Agreement("M4 · GPU supports the model")
    for row in read_support():
        if row["ane"].startswith("n/a"):
            engine.notes.append(f"left out: {row['model']}, {row['ane']}")
            continue
        for name in GROUPS.get(row["model"], (row["model"],)):
            (function,) = place_functions(build(name), device).values()
            _support(engine, name, function, NEURAL_ENGINE, row["ane"] == "yes", row["note"])
            _support(gpu, name, function, "gpu", row["gpu"] == "yes", "")
    return [engine, gpu]


def _support(
    found: Agreement, name: str, function: PlacedFunction, unit: ComputeUnit, expected: bool, note: str
) -> None:
    ops = [op for op in function.ops if not op.inserted]
    failing = [op for op in ops if op.supported[unit] != "yes"]
    why = "; ".join(
        f"{op.type} {op.supported[unit]} ({', '.join(r.rule for r in op.why if r.unit == unit)})"
        for op in failing
    )
    miss = f"{name}: {'supported' if expected else f'not supported ({note})'}, ours {why or 'supported'}"
    found.count((not failing) == expected, miss)


def compare_context() -> list[Agreement]:
    """Compares with the M4's operations between layers: the units preferred with CPU and Neural Engine."""
    device = find_device("m4", "27")
    found = Agreement("M4 · pattern of units in context")
    decided = Agreement("M4 · pattern of units in context, open operations on either unit")
    for name, pattern in read_context():
        model = build(name, in_context="not wrapped" not in pattern)
        marks = list(_patterns(model, device))
        found.count(_matches(marks[0], pattern), f"{name}: {pattern}, ours {marks[0]}")
        decided.count(
            any(_matches(one, pattern) for one in marks), f"{name}: {pattern}, ours {' or '.join(marks)}"
        )
    return [found, decided]


def _patterns(model: Model, device: Device) -> Iterator[str]:
    """Yields the units of all operations: as planned, and with all open operations on their other unit."""
    (function,) = place_functions(model, device, ["cpu_and_ne"]).values()
    choices = [op.choices["cpu_and_ne"] for op in function.ops if not op.inserted]
    units = [choice.unit for choice in choices]
    yield "".join("A" if unit == NEURAL_ENGINE else "C" for unit in units)
    others = [next(iter(c.alternatives), c.unit) for c in choices]
    if others != units:
        yield "".join("A" if unit == NEURAL_ENGINE else "C" for unit in others)


def _matches(marks: str, pattern: str) -> bool:
    if pattern == "all ANE":
        return set(marks) == {"A"}
    if pattern == "ANE, final relu on CPU":
        return set(marks[:-1]) == {"A"} and marks[-1] == "C"
    if pattern == "whole graph CPU":
        return set(marks) == {"C"}
    wanted = _spelled(pattern)
    runs, wanted_runs = _runs(marks), _runs(wanted)
    # The table counts one operation too few with two inputs: compare the first run and the order of units.
    return runs[0] == wanted_runs[0] and [mark for mark, _ in runs] == [mark for mark, _ in wanted_runs]


def _runs(marks: str) -> list[tuple[str, int]]:
    return [(mark, len(list(run))) for mark, run in itertools.groupby(marks)]


def _spelled(pattern: str) -> str:
    """Expands `C x7 | A A A A` to `CCCCCCCAAAA`."""
    text = ""
    for word in pattern.replace("|", " ").split():
        text += text[-1] * (int(word[1:]) - 1) if word.startswith("x") else word
    return text
