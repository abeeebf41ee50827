from __future__ import annotations

import math

from coremlscope.base.figures import Figure
from coremlscope.planning.answer.settings import judge_gain, paired_errors
from coremlscope.planning.cost.latency.evidence import load_evidence


def test_pairs_are_networks_published_on_both_units() -> None:
    there, back = paired_errors("m", "cpu", "neural_engine"), paired_errors("m", "neural_engine", "cpu")
    assert len(there) >= 10
    assert sorted(there) == sorted(-error for error in back)
    # Pairs err less than two independent estimates do.
    rows = [row for row in load_evidence() if row.chip.startswith("m") and row.unit != "gpu"]
    alone = [math.log(row.measured_ms / row.estimated_ms) for row in rows]
    spread = math.sqrt(sum(error * error for error in there) / len(there))
    assert spread < math.sqrt(2 * sum(error * error for error in alone) / len(alone)) * 1.2


def test_no_pairs_of_phones_come_from_chips_outside_the_fit() -> None:
    assert len(paired_errors("a", "cpu", "neural_engine")) < 10


def test_a_gain_is_likely_only_where_its_interval_leaves_out_none() -> None:
    assert judge_gain(1.0, Figure(0.5, 0.3, 0.8, "estimated")) == "likely"
    assert judge_gain(1.0, Figure(0.5, 0.3, 1.1, "estimated")) == "unclear"
    assert judge_gain(1.0, Figure(0.99, 0.98, 0.995, "estimated")) == "unclear"
