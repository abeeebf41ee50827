"""Cost of each reason, in words and numbers."""

from __future__ import annotations

import msgspec.structs
import pytest

from coremlscope.base.figures import Figure
from coremlscope.planning.forecast.what_if import describe_what_ifs, estimate_saving
from coremlscope.planning.patterns.verdict import Reason
from coremlscope.planning.placement.hypotheses import Replanned
from coremlscope.results.estimate import Estimate
from coremlscope.results.plan import WhatIf, describe_saving

COLUMNS = {f"main/{index}": index for index in range(6)}
REASON = Reason(unit="neural_engine", rule="ne-a", text="too odd", fix="make it even", source="somewhere")
NOW = Estimate(
    device="M9",
    chip="m9",
    os="macOS 99",
    compute_units="all",
    latency=Figure(0.010, 0.009, 0.012, "estimated"),
    basis="calibrated",
    bound="compute",
    parts={"compute": 0.009, "switches": 0.001},
    placement={"cpu": 1.0},
    switches=2,
    kernel_s=(0.004, 0.005),
    kernel_unit=(0, 2),
    kernel_bound=("compute", "compute"),
)
#: The first kernel moved, four times as fast, and no change of unit is left.
AFTER = msgspec.structs.replace(
    NOW,
    latency=Figure(0.006, 0.0054, 0.0072, "estimated"),
    parts={"compute": 0.006, "switches": 0.0},
    kernel_s=(0.001, 0.005),
    kernel_unit=(2, 2),
)


def replanned(**changes: object) -> Replanned:
    one = Replanned(
        hypothesis="without",
        unit="neural_engine",
        reasons={"main/0": REASON},
        ops=("main/0",),
        free=1,
        gain_ms=0.0,
        moved={"main/0": "neural_engine", "main/1": "neural_engine", "main/2": "cpu"},
        units={},
        total_ms=2.0,
        saved_ms=1.0,
        switches=1,
    )
    return msgspec.structs.replace(one, **changes)  # type: ignore[arg-type]


def described(*all_: Replanned) -> list[WhatIf]:
    return describe_what_ifs(all_, "main", COLUMNS)


def test_kernels_that_stay_cancel_out() -> None:
    saved = estimate_saving(NOW, AFTER)
    assert saved.value == pytest.approx(0.004)
    # 4 ms and a change of unit before, known to -10 % and +20 %; 1 ms after.
    assert saved.value - saved.low == pytest.approx(((0.005 * 0.1) ** 2 + (0.001 * 0.2) ** 2) ** 0.5)
    assert saved.high - saved.value == pytest.approx(((0.005 * 0.2) ** 2 + (0.001 * 0.1) ** 2) ** 0.5)
    assert saved.origin == "estimated"
    same = estimate_saving(NOW, NOW)
    assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)


def test_numbers_and_words_agree() -> None:
    one, two = describe_what_ifs(
        [replanned(), replanned(moved={})], "main", COLUMNS, lambda moved: AFTER if moved else NOW
    )
    assert one.effect == (
        "without it 2 operations move to the Neural Engine and 1 to the CPU:"
        " estimated 4.00 ms less (3.46 ms to 5.00 ms)"
    )
    assert (one.saved_ms, one.planned_ms, one.moved) == (1.0, 2.0, {"neural_engine": 2, "cpu": 1})
    assert one.saved_s == estimate_saving(NOW, AFTER)
    assert (one.rule, one.reason, one.fix, one.ops) == ("ne-a", "too odd", "make it even", (0,))
    assert two.saved_s is None


@pytest.mark.parametrize(
    ("changes", "effect"),
    [
        (
            {"moved": {}},
            "without it nothing moves: launches and changes of unit would cost more than that saves",
        ),
        (
            {"moved": {}, "free": 0},
            "without it nothing moves: other rules keep the same operations from this unit",
        ),
        (
            {"hypothesis": "doubt", "moved": {"main/0": "cpu"}, "saved_ms": -1.0, "total_ms": 3.0},
            "would move 1 operation to the CPU if it holds (anecdotal): planned cost 50 % more",
        ),
        (
            {"hypothesis": "without all", "reasons": {}, "moved": {}},
            "without them nothing moves: launches and changes of unit would cost more than that saves",
        ),
        (
            {"hypothesis": "moved", "reasons": {}, "saved_ms": -1.0, "total_ms": 3.0},
            "moving it: planned cost 50 % more",
        ),
        ({"hypothesis": "doubt", "moved": {}}, "would move nothing if it holds (anecdotal)"),
        (
            {"hypothesis": "without all", "reasons": {}, "moved": {"main/0": "neural_engine"}},
            "without them 1 operation moves to the Neural Engine: planned cost 33 % less",
        ),
    ],
)
def test_effects(changes: dict[str, object], effect: str) -> None:
    (one,) = described(replanned(**changes))
    assert one.effect == effect


def test_anecdotes_that_put_operations_on_a_unit() -> None:
    runs = msgspec.structs.replace(REASON, effect="runs")
    (one,) = described(replanned(hypothesis="doubt", reasons={"main/0": runs}, moved={}))
    assert one.effect == "would move nothing if that does not hold (anecdotal)"


def test_operations_kept_by_launches_name_the_rule_that_takes_them_along() -> None:
    kept = replanned(
        hypothesis="moved", reasons={}, ops=("main/1", "main/3"), gain_ms=0.5, saved_ms=-0.25, total_ms=3.25
    )
    long = msgspec.structs.replace(
        REASON, text="kernels wider than 15 (square ones: 16) do not run: it is 20"
    )
    moved, _ = described(kept, replanned(reasons={"main/0": long}))
    assert moved.reason == (
        "the Neural Engine can run these for less by themselves,"
        " but launches and changes of unit cost more than that"
    )
    assert moved.effect == (
        "moving them: planned cost 8 % more; without the rule that kernels wider"
        " than 15 (square ones: 16) do not run, 1 of them moves as well"
    )
    assert moved.rule == "plan-cost"


@pytest.mark.parametrize(
    ("saved_ms", "saved_s", "text"),
    [
        (0.0, None, "planned cost unchanged"),
        (1e-4, None, "planned cost under 1 % less"),
        (-2.0, None, "planned cost 25 % more"),
        (
            0.0,
            Figure(0.001, -0.001, 0.003, "estimated"),
            "estimated without a clear difference (1.00 ms more to 3.00 ms less)",
        ),
        (
            0.0,
            Figure(0.0, 0.0, 0.0, "estimated"),
            "estimated to take as long as before",
        ),
        (
            0.0,
            Figure(-0.002, -0.003, -0.001, "estimated"),
            "estimated 2.00 ms more (1.00 ms to 3.00 ms)",
        ),
    ],
)
def test_savings(saved_ms: float, saved_s: Figure | None, text: str) -> None:
    assert describe_saving(saved_ms, 10.0, saved_s) == text


def test_the_verb_agrees_with_the_first_number() -> None:
    moved, _ = described(replanned(moved={"main/0": "cpu", "main/1": "neural_engine"}), replanned(reasons={}))
    assert moved.effect.startswith("without it 1 operation moves to the CPU and 1 to the Neural Engine: ")
